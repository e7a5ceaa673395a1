package environment

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/harness"
	"github.com/holdfast-dev/holdfast/internal/testutil/volsim"
)

// databaseSpec returns a database with two pods in a StorageClass; "" is the default class.
func databaseSpec(class string) string {
	if class != "" {
		class = ", className: " + class
	}
	return fmt.Sprintf("components:\n- {name: db, stateful: {image: 'shop/db:1', replicas: 2, storage: [{name: data, mountPath: /data, size: 1Gi%s}], credentials: [{key: password}]}}\n", class)
}

// dataIdentity returns what must never change: the claims and the password of a database.
func (w *world) dataIdentity(name string) string {
	w.Helper()
	var all []string
	for _, claim := range listObjects[*corev1.PersistentVolumeClaim](w, &corev1.PersistentVolumeClaimList{}) {
		if strings.HasPrefix(claim.Name, "data-"+name+"-") {
			all = append(all, claim.Name+" "+string(claim.UID))
		}
	}
	slices.Sort(all)
	secret := harness.Find(w.World, &corev1.Secret{ObjectMeta: w.objectMeta(name + "-db-auth")})
	w.Expect(secret).NotTo(BeNil())
	return strings.Join(append(all, string(secret.Data["password"])), "\n")
}

// removalCycles remove a database or its pods and restore it.
var removalCycles = map[string]func(*world, string){
	"rename": func(w *world, name string) {
		w.mustEditStack(name, func(s *appsapi.AppStackSpec) {
			s.Components[0].RenamedFrom, s.Components[0].Name = s.Components[0].Name, "database"
		})
	},
	"scale": func(w *world, name string) {
		w.mustEditStack(name, func(s *appsapi.AppStackSpec) { s.Components[0].Stateful.Replicas = new(int32(0)) })
		w.waitReady(name)
		w.Eventually(func() []string { return w.podsOfStack(name) }, "30s").Should(BeEmpty())
		w.mustEditStack(name, func(s *appsapi.AppStackSpec) { s.Components[0].Stateful.Replicas = new(int32(2)) })
	},
	"remove": func(w *world, name string) {
		db := w.getStack(name).Spec.Components
		w.mustEditStack(name, func(s *appsapi.AppStackSpec) {
			s.Components = []appsapi.Component{{Name: "web", Service: &appsapi.ServiceComponent{ServerSpec: appsapi.ServerSpec{ContainerSpec: appsapi.ContainerSpec{Image: "shop/web:1"}}}}}
		})
		w.waitReady(name)
		w.mustEditStack(name, func(s *appsapi.AppStackSpec) { s.Components = db })
	},
	"delete": func(w *world, name string) {
		before := w.getStack(name)
		w.Expect(w.Delete(w.Context(), before)).To(Succeed())
		w.Eventually(func() *appsapi.AppStack { return w.getStack(name) }, "60s").Should(BeNil())
		w.Expect(w.Create(w.Context(), &appsapi.AppStack{ObjectMeta: w.objectMeta(name), Spec: before.Spec})).To(Succeed())
	},
}

func (w *world) mustEditStack(name string, edit func(*appsapi.AppStackSpec)) {
	w.Helper()
	w.Expect(w.editStack(name, edit)).To(Succeed())
}

// TestDataSurvivesRemoval removes databases in every way and every order, and checks that each reuses its volumes and
// password.
func TestDataSurvivesRemoval(t *testing.T) {
	w, row := newWorld(t, "33 data survives removal")
	cycles := slices.Sorted(maps.Keys(removalCycles))
	var orders [][]string
	for i := range cycles { // rotations: each cycle is first once
		orders = append(orders, slices.Concat(cycles[i:], cycles[:i]))
	}
	row.Generated = len(orders) * len(cycles)
	for i := range orders {
		w.createStack(fmt.Sprintf("vault%d", i), databaseSpec(""))
	}
	for i, order := range orders {
		name := fmt.Sprintf("vault%d", i)
		w.waitReady(name)
		before := w.dataIdentity(name)
		for _, cycle := range order {
			removalCycles[cycle](w, name)
			w.waitReady(name)
			row.Run++
			if now := w.dataIdentity(name); now != before {
				row.Failed++
				w.Errorf("%s: data after %s: got %s, want %s", name, cycle, now, before)
			}
		}
	}
	row.Measured = fmt.Sprintf("%d databases were renamed, scaled to zero, removed and deleted, and restored %d times, always with the same claims and password",
		len(orders), row.Run)
}

// expansionCases are size changes with their outcome; "" means that the volume is expanded.
var expansionCases = map[string]struct {
	class string
	// prepare runs before the database is created, meanwhile once it is ready.
	prepare, meanwhile func(*world, string)
	to, ends           string
	// then is a size that resolves the failure, if any.
	then string
}{
	"grows":  {class: volsim.Standard, to: "2Gi"},
	"shrink": {class: volsim.Standard, to: "512Mi", ends: "cannot shrink to 512Mi", then: "1Gi"},
	"fixed":  {class: volsim.Fixed, to: "2Gi", ends: "must support resize", then: "1Gi"},
	"full":   {class: volsim.Full, to: "8Gi", ends: "The storage backend cannot expand", then: "2Gi"},
	"one": {prepare: func(w *world, name string) { // the storage of one of two volumes is full
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: w.objectMeta("data-" + name + "-db-1")}
		claim.Annotations = map[string]string{appsapi.DefaultKeys.Adopt: "true"}
		claim.Spec.AccessModes, claim.Spec.StorageClassName = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, new(volsim.Full)
		claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
		w.Expect(w.Create(w.Context(), claim)).To(Succeed())
	}, to: "4Gi", ends: "The storage backend cannot expand PersistentVolumeClaim"},
	"left": {class: volsim.Standard, meanwhile: func(w *world, name string) { // the pod of one claim is scaled down
		w.mustEditStack(name, func(s *appsapi.AppStackSpec) { s.Components[0].Stateful.Replicas = new(int32(1)) })
		w.waitReady(name)
	}, to: "2Gi"},
}

// TestVolumeExpansion expands volumes with all failure modes. The result must be the requested size or an error with the
// reason, with the same pods and claims.
func TestVolumeExpansion(t *testing.T) {
	w, row := newWorld(t, "34 expansion")
	names := slices.Sorted(maps.Keys(expansionCases))
	row.Generated = len(names)
	for _, name := range names {
		if prepare := expansionCases[name].prepare; prepare != nil {
			prepare(w, name)
		}
		w.createStack(name, databaseSpec(expansionCases[name].class))
	}
	var took []time.Duration
	for _, name := range names {
		w.waitReady(name)
		if !w.Run(name, func(t *testing.T) { took = append(took, w.forSubtest(t).expandVolume(name)) }) {
			row.Failed++
		}
		row.Run++
	}
	row.Measured = fmt.Sprintf("%d expansions: resized or rejected with a reason within %.1f s; no claim, pod or password changed. Test 1 covers crashes at each write", row.Run, longestSeconds(took))
}

// expandVolume runs one case and returns its duration.
func (w *world) expandVolume(name string) time.Duration {
	g := expansionCases[name]
	if g.meanwhile != nil {
		g.meanwhile(w, name)
	}
	before, pods, start := w.dataIdentity(name), w.podsOfStack(name), time.Now()
	w.resize(name, g.to)
	if g.ends != "" {
		app := &appsapi.AppStack{ObjectMeta: w.objectMeta(name)}
		w.Eventually(func() string { return w.Condition(app, "Ready") }, "60s").Should(And(HavePrefix("False/StorageChangeRejected: "), ContainSubstring(g.ends)))
	} else {
		w.waitForSize(name, g.to)
	}
	took := time.Since(start)
	if g.then != "" {
		w.resize(name, g.then)
		w.waitForSize(name, g.then)
	}
	w.Expect(w.dataIdentity(name)).To(Equal(before))
	w.Expect(w.podsOfStack(name)).To(Equal(pods))
	if name == "left" { // a returning pod gets an expanded volume
		w.mustEditStack(name, func(s *appsapi.AppStackSpec) { s.Components[0].Stateful.Replicas = new(int32(2)) })
		w.waitForSize(name, g.to)
		w.Expect(w.dataIdentity(name)).To(Equal(before))
	}
	return took
}

func (w *world) resize(name, size string) {
	w.Helper()
	w.mustEditStack(name, func(s *appsapi.AppStackSpec) { s.Components[0].Stateful.Storage[0].Size = resource.MustParse(size) })
}

// waitForSize waits until the application is ready and every volume has the size.
func (w *world) waitForSize(name, size string) {
	w.Helper()
	w.waitReady(name)
	for i := range *w.getStack(name).Spec.Components[0].Stateful.Replicas {
		claim := harness.Find(w.World, &corev1.PersistentVolumeClaim{ObjectMeta: w.objectMeta(fmt.Sprintf("data-%s-db-%d", name, i))})
		w.Expect(claim.Status.Capacity.Storage().String()).To(Equal(size), claim.Name)
	}
}

package datamatrix

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
	"github.com/holdfast-dev/holdfast/internal/testutil/stage"
	"github.com/holdfast-dev/holdfast/internal/testutil/volsim"
	"github.com/holdfast-dev/holdfast/internal/testutil/watcher"
)

// patience is how long a step may take. Nothing takes that long but a mistake.
const patience = 90 * time.Second

var (
	stacks  = schema.GroupVersionResource{Group: "apps.holdfast.dev", Version: "v1alpha1", Resource: "appstacks"}
	sets    = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "statefulsets"}
	claims  = schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}
	secrets = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	pods    = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
)

// player is somebody with a stack called shop, in which web is bound to a database.
type player struct {
	*stage.World
	eye *watcher.Watcher

	// What the spec says of the database.
	present  bool
	name     string
	was      string // renamedFrom
	size     int64  // in Mi
	class    string
	replicas int32

	// The stack as it was last written.
	uid        types.UID
	generation int64

	// password is the one of a Secret that was deleted by hand, while there is none, and saved is
	// everything that was in it.
	password string
	saved    map[string][]byte

	// database is set when the component is one, and rows is how many there are in it.
	database bool
	restarts int
	rows     int
	story
}

// newPlayer watches before there is anything.
func newPlayer(w *stage.World) *player {
	w.Helper()
	eye, err := watcher.StartIn(w.Context(), w.Plane.Config, w.NS, stacks, sets, claims, secrets, pods)
	w.Expect(err).NotTo(HaveOccurred())
	w.Cleanup(eye.Stop)
	return &player{World: w, eye: eye, present: true, name: "db", size: 1024, class: volsim.Standard, replicas: 1,
		story: story{byHand: map[types.UID]bool{}}}
}

// play plays a pair and judges it.
func (p *player) play(first, second operation, got *results) {
	begun, which := time.Now(), pair{first.name, second.name}
	defer func() { // also when something was waited for in vain
		broken := p.judge(p.eye.Events())
		for _, b := range broken {
			p.Errorf("%s", b)
		}
		o := outcome{violations: len(broken), seconds: time.Since(begun).Seconds()}
		if p.Failed() {
			o.violations = max(o.violations, 1)
			p.Logf("%s, then %s. The film:\n%s\nAgain: %s", first.name, second.name, p.film(p.eye.Events()), which.replay())
		}
		got.add(which, o)
	}()
	p.mark("created")
	p.create(&appsapi.AppStack{ObjectMeta: p.meta("shop"), Spec: p.spec()})
	p.settles()
	p.write()
	for _, op := range []operation{first, second} {
		p.mark(op.name)
		before, runs := p.pod(), p.present
		op.do(p)
		if op.runsOn && runs {
			p.Expect(p.pod()).To(Equal(before), "%s: the pod was replaced", op.name)
		}
		p.sameRows()
	}
	p.putRight()
	p.sameRows()
}

func (p *player) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: p.NS, Name: name}
}

// spec is what the stack is to be now.
func (p *player) spec() appsapi.AppStackSpec {
	web := appsapi.Component{Name: "web", Service: &appsapi.ServiceComponent{}}
	web.Service.Image = "shop/web:1"
	spec := appsapi.AppStackSpec{DeletionPolicy: appsapi.DeletionRetain}
	if p.present {
		web.Bindings = []appsapi.Binding{{Component: p.name, EnvPrefix: "DB"}}
		if p.database {
			spec.Components = []appsapi.Component{p.databaseSpec(), web}
			return spec
		}
		db := appsapi.Component{Name: p.name, RenamedFrom: p.was, Stateful: &appsapi.StatefulComponent{
			Storage:     []appsapi.StorageSpec{{Name: "data", MountPath: "/data", ClassName: &p.class, Size: *resource.NewQuantity(p.size<<20, resource.BinarySI)}},
			Credentials: []appsapi.Credential{{Key: "password", Env: "PASSWORD"}},
		}}
		db.Stateful.Image, db.Stateful.Replicas = "shop/db:1", &p.replicas
		db.Stateful.Ports = []appsapi.Port{{Port: 3306}}
		spec.Components = append(spec.Components, db)
	}
	spec.Components = append(spec.Components, web)
	return spec
}

func (p *player) create(app *appsapi.AppStack) {
	p.Helper()
	p.Expect(p.Create(p.Context(), app)).To(Succeed())
	p.uid, p.generation = app.UID, app.Generation
}

// edit makes the stack what the player wants it to be, and does not wait.
func (p *player) edit() {
	p.Helper()
	p.change(func(s *appsapi.AppStackSpec) { *s = p.spec() })
}

func (p *player) change(how func(*appsapi.AppStackSpec)) {
	p.Helper()
	app := &appsapi.AppStack{ObjectMeta: p.meta("shop")}
	stage.Edit(p.World, app, func(a *appsapi.AppStack) { how(&a.Spec) })
	p.generation = app.Generation
}

// until waits for something that the watch sees.
func (p *player) until(what string, holds func(watcher.State) bool) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), patience)
	defer cancel()
	if err := p.eye.WaitFor(ctx, what, holds); err != nil {
		p.Fatal(err)
	}
}

// moment is the version of the whole cluster now.
func (p *player) moment() int64 {
	p.Helper()
	var list corev1.PersistentVolumeClaimList
	p.Expect(p.List(p.Context(), &list, client.InNamespace(p.NS))).To(Succeed())
	return version(list.ResourceVersion)
}

func version(of string) int64 {
	n, err := strconv.ParseInt(of, 10, 64)
	if err != nil {
		panic(fmt.Sprintf("the resourceVersion %q does not count", of))
	}
	return n
}

// typed reads what a watch saw; nil stays nil.
func typed[T any](u *unstructured.Unstructured) *T {
	if u == nil {
		return nil
	}
	out := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, out); err != nil {
		panic(err) // the API server sent it
	}
	return out
}

// only is the object of a kind of which there is at most one; the judge says if there are
// more.
func only[T any](s watcher.State, of schema.GroupVersionResource) *T {
	if live := s.Live(of); len(live) > 0 {
		return typed[T](live[0])
	}
	return nil
}

// credentials are the Secrets that are kept: what says how to get into a database is not.
func credentials(s watcher.State) []*unstructured.Unstructured {
	return slices.DeleteFunc(s.Live(secrets), func(u *unstructured.Unstructured) bool { return !isCredentials(u.GetName()) })
}

func isCredentials(name string) bool { return strings.HasSuffix(name, "-auth") }

func claimIn(s watcher.State) *corev1.PersistentVolumeClaim {
	return only[corev1.PersistentVolumeClaim](s, claims)
}

func setIn(s watcher.State) *appsv1.StatefulSet { return only[appsv1.StatefulSet](s, sets) }

func (p *player) stackIn(s watcher.State) *appsapi.AppStack {
	return typed[appsapi.AppStack](s.Get(stacks, p.NS+"/shop"))
}

// pod is the UID of the pod of the database.
func (p *player) pod() types.UID {
	set := setIn(p.eye.State())
	if set == nil {
		return ""
	}
	if pod := stage.Find(p.World, &corev1.Pod{ObjectMeta: p.meta(set.Name + "-0")}); pod != nil {
		return pod.UID
	}
	return ""
}

// has is the size of the volume in Mi, and its class.
func has(s watcher.State) (size int64, class string) {
	claim := claimIn(s)
	if claim == nil || claim.Spec.StorageClassName == nil {
		return 0, ""
	}
	return claim.Status.Capacity.Storage().Value() >> 20, *claim.Spec.StorageClassName
}

// refused says whether the spec asks for what the volume cannot become.
func (p *player) refused(s watcher.State) bool {
	size, class := has(s)
	return size > 0 && (p.size < size || p.class != class)
}

// told is how Ready has to begin.
func (p *player) told(s watcher.State) string {
	switch {
	case p.present && p.password != "":
		return "False/CredentialsLost: "
	case p.present && p.refused(s):
		return "False/StorageRefused: "
	}
	return "True/Reconciled: "
}

// settles waits for the state in which an operation has to end.
func (p *player) settles() {
	p.Helper()
	lacks := ""
	ctx, cancel := context.WithTimeout(p.Context(), patience)
	defer cancel()
	err := p.eye.WaitFor(ctx, "the end of "+p.last(), func(s watcher.State) bool {
		lacks = p.lacks(s)
		return lacks == ""
	})
	if err != nil {
		p.Fatalf("%v; %s", err, lacks)
	}
}

// lacks is what is not yet as it has to be, or "".
func (p *player) lacks(s watcher.State) string {
	stack := p.stackIn(s)
	if stack == nil || stack.UID != p.uid || stack.Generation < p.generation {
		return "the stack was not seen yet"
	}
	ready := meta.FindStatusCondition(stack.Status.Conditions, "Ready")
	if ready == nil || ready.ObservedGeneration != stack.Generation || stack.Status.ObservedGeneration != stack.Generation {
		return "its status is about an old generation"
	}
	if is, want := fmt.Sprintf("%s/%s: %s", ready.Status, ready.Reason, ready.Message), p.told(s); !strings.HasPrefix(is, want) {
		return fmt.Sprintf("Ready is %s and has to be %s", is, want)
	}
	claim, set := claimIn(s), setIn(s)
	switch {
	case claim == nil:
		return "there is no claim"
	case !p.present:
		return p.lacksRetained(s, stack, claim, set)
	case p.password != "":
		return "" // nothing is touched before it is back
	case set == nil || set.Status.ReadyReplicas != 1 || set.Status.ObservedGeneration != set.Generation:
		return "its pod is not ready"
	case p.database && p.bindingIn(s) == nil: // which Ready does not wait for while something is refused
		return "nobody is told how to get in"
	case claim.Labels[appsapi.LabelComponent] != p.name, claim.Labels[appsapi.LabelOwnerUID] != string(p.uid), claim.Labels[appsapi.LabelRetained] != "":
		return fmt.Sprintf("the claim says that it is of something else: %v", claim.Labels)
	case len(stack.Status.Retained) > 0:
		return fmt.Sprintf("status.retained is %v", stack.Status.Retained)
	}
	return ""
}

// lacksRetained is what is not as it has to be of what is kept without a component.
func (p *player) lacksRetained(s watcher.State, stack *appsapi.AppStack, claim *corev1.PersistentVolumeClaim, set *appsv1.StatefulSet) string {
	kept := []string{"PersistentVolumeClaim " + claim.Name}
	for _, secret := range credentials(s) {
		kept = append(kept, "Secret "+secret.GetName())
		if secret.GetLabels()[appsapi.LabelRetained] != "true" {
			return "the Secret does not say that it is kept"
		}
	}
	var listed []string
	for _, r := range stack.Status.Retained {
		listed = append(listed, r.Kind+" "+r.Name)
	}
	switch {
	case set != nil:
		return "the set is still there"
	case claim.Labels[appsapi.LabelRetained] != "true":
		return "the claim does not say that it is kept"
	case strings.Join(listed, ", ") != strings.Join(kept, ", "):
		return fmt.Sprintf("status.retained has %v and should have %v", listed, kept)
	}
	return ""
}

// putRight takes back what was refused and what was lost, and expects everything to be well
// with the volume and the password that there were.
func (p *player) putRight() {
	p.Helper()
	if !p.present {
		p.mark("put right: the component is back")
		p.present = true
		p.edit()
		p.settles()
	}
	if p.password != "" {
		p.mark("put right: the Secret is back")
		p.restoreSecret()
		p.settles()
	}
	if p.refused(p.eye.State()) {
		p.mark("put right: the storage is what it was")
		size, class := has(p.eye.State())
		p.size, p.class = max(p.size, size), class
		p.edit()
		p.settles()
	}
	p.grown()
	if p.told(p.eye.State()) != "True/Reconciled: " {
		p.Fatal("not everything was put right")
	}
	p.fallsSilent()
}

// fallsSilent waits until the operator writes nothing more in the namespace.
func (p *player) fallsSilent() {
	p.Helper()
	p.Eventually(func() string {
		return p.Calls(func() { time.Sleep(500 * time.Millisecond) }).Where((*audit.Event).Write).Count().String()
	}, patience, "1ms").Should(Equal(audit.Events{}.Count().String()), "it does not fall silent")
}

// grown waits until the volume, and what volumes of later pods would be made of, are as
// large as the spec says.
func (p *player) grown() {
	p.Helper()
	p.until("the volume to grow", func(s watcher.State) bool {
		size, _ := has(s)
		set := setIn(s)
		return size == p.size && set != nil && set.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests.Storage().Value()>>20 == p.size
	})
	p.settles()
}

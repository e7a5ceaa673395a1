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
	"github.com/holdfast-dev/holdfast/internal/testutil/harness"
	"github.com/holdfast-dev/holdfast/internal/testutil/volsim"
	"github.com/holdfast-dev/holdfast/internal/testutil/watcher"
)

// stepTimeout is how long a step may take. Nothing takes that long but a mistake.
const stepTimeout = 90 * time.Second

var (
	stackResource       = schema.GroupVersionResource{Group: "apps.holdfast.dev", Version: "v1alpha1", Resource: "appstacks"}
	statefulSetResource = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "statefulsets"}
	claimResource       = schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}
	secretResource      = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	podResource         = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
)

// stackDriver is somebody with a stack called shop, in which web is bound to a database.
type stackDriver struct {
	*harness.World
	watcher *watcher.Watcher

	// What the spec says of the database.
	present     bool
	name        string
	renamedFrom string // renamedFrom
	size        int64  // in Mi
	class       string
	replicas    int32

	// The stack as it was last written.
	uid        types.UID
	generation int64

	// lostPassword is the one of a Secret that was deleted by hand, while there is none, and saved is
	// everything that was in it.
	lostPassword string
	savedSecret  map[string][]byte

	// database is set when the component is one, and rows is how many there are in it.
	database bool
	restarts int
	rows     int
	history
}

// newStackDriver watches before there is anything.
func newStackDriver(w *harness.World) *stackDriver {
	w.Helper()
	observer, err := watcher.StartInNamespace(w.Context(), w.Plane.Config, w.NS, stackResource, statefulSetResource, claimResource, secretResource, podResource)
	w.Expect(err).NotTo(HaveOccurred())
	w.Cleanup(observer.Stop)
	return &stackDriver{World: w, watcher: observer, present: true, name: "db", size: 1024, class: volsim.Standard, replicas: 1,
		history: history{manuallyDeleted: map[types.UID]bool{}}}
}

// runPair plays a pair and judges it.
func (p *stackDriver) runPair(first, second operation, got *results) {
	startedAt, testPair := time.Now(), pair{first.name, second.name}
	defer func() { // also when something was waited for in vain
		violations := p.check(p.watcher.Events())
		for _, b := range violations {
			p.Errorf("%s", b)
		}
		o := pairOutcome{violations: len(violations), seconds: time.Since(startedAt).Seconds()}
		if p.Failed() {
			o.violations = max(o.violations, 1)
			p.Logf("%s, then %s. The film:\n%s\nAgain: %s", first.name, second.name, p.timeline(p.watcher.Events()), testPair.replayCommand())
		}
		got.add(testPair, o)
	}()
	p.beginStep("created")
	p.create(&appsapi.AppStack{ObjectMeta: p.objectMeta("shop"), Spec: p.spec()})
	p.waitSettled()
	p.writeRows()
	for _, op := range []operation{first, second} {
		p.beginStep(op.name)
		before, wasPresent := p.podUID(), p.present
		op.run(p)
		if op.keepsPod && wasPresent {
			p.Expect(p.podUID()).To(Equal(before), "%s: the pod was replaced", op.name)
		}
		p.expectSameRows()
	}
	p.restoreHealthy()
	p.expectSameRows()
}

func (p *stackDriver) objectMeta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: p.NS, Name: name}
}

// spec is what the stack is to be now.
func (p *stackDriver) spec() appsapi.AppStackSpec {
	web := appsapi.Component{Name: "web", Service: &appsapi.ServiceComponent{}}
	web.Service.Image = "shop/web:1"
	spec := appsapi.AppStackSpec{DeletionPolicy: appsapi.DeletionRetain}
	if p.present {
		web.Bindings = []appsapi.Binding{{Component: p.name, EnvPrefix: "DB"}}
		if p.database {
			spec.Components = []appsapi.Component{p.databaseSpec(), web}
			return spec
		}
		db := appsapi.Component{Name: p.name, RenamedFrom: p.renamedFrom, Stateful: &appsapi.StatefulComponent{
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

func (p *stackDriver) create(app *appsapi.AppStack) {
	p.Helper()
	p.Expect(p.Create(p.Context(), app)).To(Succeed())
	p.uid, p.generation = app.UID, app.Generation
}

// applySpec makes the stack what the player wants it to be, and does not wait.
func (p *stackDriver) applySpec() {
	p.Helper()
	p.editSpec(func(s *appsapi.AppStackSpec) { *s = p.spec() })
}

func (p *stackDriver) editSpec(edit func(*appsapi.AppStackSpec)) {
	p.Helper()
	app := &appsapi.AppStack{ObjectMeta: p.objectMeta("shop")}
	harness.Edit(p.World, app, func(a *appsapi.AppStack) { edit(&a.Spec) })
	p.generation = app.Generation
}

// waitFor waits for something that the watch sees.
func (p *stackDriver) waitFor(what string, holds func(watcher.State) bool) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), stepTimeout)
	defer cancel()
	if err := p.watcher.WaitFor(ctx, what, holds); err != nil {
		p.Fatal(err)
	}
}

// clusterVersion is the version of the whole cluster now.
func (p *stackDriver) clusterVersion() int64 {
	p.Helper()
	var list corev1.PersistentVolumeClaimList
	p.Expect(p.List(p.Context(), &list, client.InNamespace(p.NS))).To(Succeed())
	return parseVersion(list.ResourceVersion)
}

func parseVersion(resourceVersion string) int64 {
	n, err := strconv.ParseInt(resourceVersion, 10, 64)
	if err != nil {
		panic(fmt.Sprintf("the resourceVersion %q does not count", resourceVersion))
	}
	return n
}

// fromUnstructured reads what a watch saw; nil stays nil.
func fromUnstructured[T any](u *unstructured.Unstructured) *T {
	if u == nil {
		return nil
	}
	out := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, out); err != nil {
		panic(err) // the API server sent it
	}
	return out
}

// onlyObject is the object of a kind of which there is at most one; the judge says if there are
// more.
func onlyObject[T any](s watcher.State, of schema.GroupVersionResource) *T {
	if live := s.Live(of); len(live) > 0 {
		return fromUnstructured[T](live[0])
	}
	return nil
}

// credentials are the Secrets that are kept: what says how to get into a database is not.
func credentials(s watcher.State) []*unstructured.Unstructured {
	return slices.DeleteFunc(s.Live(secretResource), func(u *unstructured.Unstructured) bool { return !isCredentials(u.GetName()) })
}

func isCredentials(name string) bool { return strings.HasSuffix(name, "-auth") }

func claimIn(s watcher.State) *corev1.PersistentVolumeClaim {
	return onlyObject[corev1.PersistentVolumeClaim](s, claimResource)
}

func setIn(s watcher.State) *appsv1.StatefulSet {
	return onlyObject[appsv1.StatefulSet](s, statefulSetResource)
}

func (p *stackDriver) stackIn(s watcher.State) *appsapi.AppStack {
	return fromUnstructured[appsapi.AppStack](s.Get(stackResource, p.NS+"/shop"))
}

// podUID is the UID of the pod of the database.
func (p *stackDriver) podUID() types.UID {
	set := setIn(p.watcher.State())
	if set == nil {
		return ""
	}
	if pod := harness.Find(p.World, &corev1.Pod{ObjectMeta: p.objectMeta(set.Name + "-0")}); pod != nil {
		return pod.UID
	}
	return ""
}

// volumeSizeAndClass is the size of the volume in Mi, and its class.
func volumeSizeAndClass(s watcher.State) (size int64, class string) {
	claim := claimIn(s)
	if claim == nil || claim.Spec.StorageClassName == nil {
		return 0, ""
	}
	return claim.Status.Capacity.Storage().Value() >> 20, *claim.Spec.StorageClassName
}

// storageRefused says whether the spec asks for what the volume cannot become.
func (p *stackDriver) storageRefused(s watcher.State) bool {
	size, class := volumeSizeAndClass(s)
	return size > 0 && (p.size < size || p.class != class)
}

// wantReadyPrefix is how Ready has to begin.
func (p *stackDriver) wantReadyPrefix(s watcher.State) string {
	switch {
	case p.present && p.lostPassword != "":
		return "False/CredentialsLost: "
	case p.present && p.storageRefused(s):
		return "False/StorageChangeRejected: "
	}
	return "True/Reconciled: "
}

// waitSettled waits for the state in which an operation has to end.
func (p *stackDriver) waitSettled() {
	p.Helper()
	unmet := ""
	ctx, cancel := context.WithTimeout(p.Context(), stepTimeout)
	defer cancel()
	err := p.watcher.WaitFor(ctx, "the end of "+p.currentStep(), func(s watcher.State) bool {
		unmet = p.unmetExpectation(s)
		return unmet == ""
	})
	if err != nil {
		p.Fatalf("%v; %s", err, unmet)
	}
}

// unmetExpectation is what is not yet as it has to be, or "".
func (p *stackDriver) unmetExpectation(s watcher.State) string {
	stack := p.stackIn(s)
	if stack == nil || stack.UID != p.uid || stack.Generation < p.generation {
		return "the stack was not seen yet"
	}
	ready := meta.FindStatusCondition(stack.Status.Conditions, "Ready")
	if ready == nil || ready.ObservedGeneration != stack.Generation || stack.Status.ObservedGeneration != stack.Generation {
		return "its status is about an old generation"
	}
	if is, want := fmt.Sprintf("%s/%s: %s", ready.Status, ready.Reason, ready.Message), p.wantReadyPrefix(s); !strings.HasPrefix(is, want) {
		return fmt.Sprintf("Ready is %s and has to be %s", is, want)
	}
	claim, set := claimIn(s), setIn(s)
	switch {
	case claim == nil:
		return "there is no claim"
	case !p.present:
		return p.unmetRetention(s, stack, claim, set)
	case p.lostPassword != "":
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

// unmetRetention is what is not as it has to be of what is kept without a component.
func (p *stackDriver) unmetRetention(s watcher.State, stack *appsapi.AppStack, claim *corev1.PersistentVolumeClaim, set *appsv1.StatefulSet) string {
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

// restoreHealthy takes back what was refused and what was lost, and expects everything to be well
// with the volume and the password that there were.
func (p *stackDriver) restoreHealthy() {
	p.Helper()
	if !p.present {
		p.beginStep("put right: the component is back")
		p.present = true
		p.applySpec()
		p.waitSettled()
	}
	if p.lostPassword != "" {
		p.beginStep("put right: the Secret is back")
		p.restoreSecret()
		p.waitSettled()
	}
	if p.storageRefused(p.watcher.State()) {
		p.beginStep("put right: the storage is what it was")
		size, class := volumeSizeAndClass(p.watcher.State())
		p.size, p.class = max(p.size, size), class
		p.applySpec()
		p.waitSettled()
	}
	p.waitExpanded()
	if p.wantReadyPrefix(p.watcher.State()) != "True/Reconciled: " {
		p.Fatal("not everything was put right")
	}
	p.waitIdle()
}

// waitIdle waits until the operator writes nothing more in the namespace.
func (p *stackDriver) waitIdle() {
	p.Helper()
	p.Eventually(func() string {
		return p.OperatorRequests(func() { time.Sleep(500 * time.Millisecond) }).Where((*audit.Event).IsWrite).Count().String()
	}, stepTimeout, "1ms").Should(Equal(audit.Events{}.Count().String()), "it does not fall silent")
}

// waitExpanded waits until the volume, and what volumes of later pods would be made of, are as
// large as the spec says.
func (p *stackDriver) waitExpanded() {
	p.Helper()
	p.waitFor("the volume to grow", func(s watcher.State) bool {
		size, _ := volumeSizeAndClass(s)
		set := setIn(s)
		return size == p.size && set != nil && set.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests.Storage().Value()>>20 == p.size
	})
	p.waitSettled()
}

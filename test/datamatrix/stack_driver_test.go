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

const stepTimeout = 90 * time.Second

var (
	stackResource       = schema.GroupVersionResource{Group: "apps.holdfast.dev", Version: "v1alpha1", Resource: "appstacks"}
	statefulSetResource = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "statefulsets"}
	claimResource       = schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}
	secretResource      = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	podResource         = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
)

// stackDriver is a user with a stack called shop, in which web is bound to a database.
type stackDriver struct {
	*harness.World
	watcher *watcher.Watcher

	// The desired spec of the database component.
	present     bool
	name        string
	renamedFrom string
	size        int64 // in Mi
	class       string
	replicas    int32

	// The stack as last written.
	uid        types.UID
	generation int64

	// lostPassword is the password of a manually deleted Secret until the Secret is restored; savedSecret is its data.
	lostPassword string
	savedSecret  map[string][]byte

	// database means that the component is a database; rows is its number of rows.
	database bool
	restarts int
	rows     int
	history
}

// newStackDriver starts the watch before the first object is created.
func newStackDriver(w *harness.World) *stackDriver {
	w.Helper()
	observer, err := watcher.StartInNamespace(w.Context(), w.Plane.Config, w.NS, stackResource, statefulSetResource, claimResource, secretResource, podResource)
	w.Expect(err).NotTo(HaveOccurred())
	w.Cleanup(observer.Stop)
	return &stackDriver{World: w, watcher: observer, present: true, name: "db", size: 1024, class: volsim.Standard, replicas: 1,
		history: history{manuallyDeleted: map[types.UID]bool{}}}
}

// run runs operations one after the other and checks the history.
func (p *stackDriver) run(sequence []operation, replay string, report func(runOutcome)) {
	startedAt := time.Now()
	defer func() { // also after a timeout
		violations := p.check(p.watcher.Events())
		for _, b := range violations {
			p.Errorf("%s", b)
		}
		o := runOutcome{violations: len(violations), seconds: time.Since(startedAt).Seconds()}
		if p.Failed() {
			o.violations = max(o.violations, 1)
			p.Logf("%s. The timeline:\n%s\nAgain: %s", describeSequence(sequence), p.timeline(p.watcher.Events()), replay)
		}
		report(o)
	}()
	p.beginStep("created")
	p.create(&appsapi.AppStack{ObjectMeta: p.objectMeta("shop"), Spec: p.spec()})
	p.waitSettled()
	p.writeRows()
	for _, op := range sequence {
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

// spec returns the desired spec.
func (p *stackDriver) spec() appsapi.AppStackSpec {
	web := appsapi.Component{Name: "web", Service: &appsapi.ServiceComponent{}}
	web.Service.Image = "shop/web:1"
	spec := appsapi.AppStackSpec{DeletionPolicy: appsapi.DeletionRetain}
	if p.restarts > 0 {
		spec.EditOperations(p.name, func(o *appsapi.ComponentOperations) { o.RestartRequestedAt = fmt.Sprint(p.restarts) })
	}
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

// applySpec writes the desired spec, without waiting.
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

// waitFor waits until the watched state matches.
func (p *stackDriver) waitFor(what string, holds func(watcher.State) bool) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), stepTimeout)
	defer cancel()
	if err := p.watcher.WaitFor(ctx, what, holds); err != nil {
		p.Fatal(err)
	}
}

// clusterVersion returns the current resource version of the cluster.
func (p *stackDriver) clusterVersion() int64 {
	p.Helper()
	var list corev1.PersistentVolumeClaimList
	p.Expect(p.List(p.Context(), &list, client.InNamespace(p.NS))).To(Succeed())
	return parseVersion(list.ResourceVersion)
}

func parseVersion(resourceVersion string) int64 {
	n, err := strconv.ParseInt(resourceVersion, 10, 64)
	if err != nil {
		panic(fmt.Sprintf("resourceVersion %q is not a number", resourceVersion))
	}
	return n
}

// fromUnstructured converts an object from the watch; nil stays nil.
func fromUnstructured[T any](u *unstructured.Unstructured) *T {
	if u == nil {
		return nil
	}
	out := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, out); err != nil {
		panic(err) // the API server sent a valid object
	}
	return out
}

// onlyObject returns the object of a kind with at most one object; dataChecker reports additional ones.
func onlyObject[T any](s watcher.State, of schema.GroupVersionResource) *T {
	if live := s.Live(of); len(live) > 0 {
		return fromUnstructured[T](live[0])
	}
	return nil
}

// credentials returns the Secrets with credentials, without binding Secrets.
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

// podUID returns the UID of the database pod.
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

// volumeSizeAndClass returns the size of the volume in Mi and its StorageClass.
func volumeSizeAndClass(s watcher.State) (size int64, class string) {
	claim := claimIn(s)
	if claim == nil || claim.Spec.StorageClassName == nil {
		return 0, ""
	}
	return claim.Status.Capacity.Storage().Value() >> 20, *claim.Spec.StorageClassName
}

// storageRefused reports whether the desired storage differs in a way that Kubernetes does not support.
func (p *stackDriver) storageRefused(s watcher.State) bool {
	size, class := volumeSizeAndClass(s)
	return size > 0 && (p.size < size || p.class != class)
}

// wantReadyPrefix returns the expected start of the Ready condition.
func (p *stackDriver) wantReadyPrefix(s watcher.State) string {
	switch {
	case p.present && p.lostPassword != "":
		return "False/CredentialsLost: "
	case p.present && p.storageRefused(s):
		return "False/StorageChangeRejected: "
	}
	return "True/Reconciled: "
}

// waitSettled waits for the expected final state of an operation.
func (p *stackDriver) waitSettled() {
	p.Helper()
	unmet := ""
	ctx, cancel := context.WithTimeout(p.Context(), stepTimeout)
	defer cancel()
	err := p.watcher.WaitFor(ctx, "the result of "+p.currentStep(), func(s watcher.State) bool {
		unmet = p.unmetExpectation(s)
		return unmet == ""
	})
	if err != nil {
		p.Fatalf("%v; %s", err, unmet)
	}
}

// unmetExpectation returns the first difference from the expected state, or "".
func (p *stackDriver) unmetExpectation(s watcher.State) string {
	stack := p.stackIn(s)
	if stack == nil || stack.UID != p.uid || stack.Generation < p.generation {
		return "stack not observed yet"
	}
	ready := meta.FindStatusCondition(stack.Status.Conditions, "Ready")
	if ready == nil || ready.ObservedGeneration != stack.Generation || stack.Status.ObservedGeneration != stack.Generation {
		return "status of an old generation"
	}
	if is, want := fmt.Sprintf("%s/%s: %s", ready.Status, ready.Reason, ready.Message), p.wantReadyPrefix(s); !strings.HasPrefix(is, want) {
		return fmt.Sprintf("Ready: got %s, want %s", is, want)
	}
	claim, set := claimIn(s), setIn(s)
	switch {
	case claim == nil:
		return "no claim"
	case !p.present:
		return p.unmetRetention(s, stack, claim, set)
	case p.lostPassword != "":
		return "" // nothing changes before the Secret is restored
	case set == nil || set.Status.ReadyReplicas != 1 || set.Status.ObservedGeneration != set.Generation:
		return "pod not ready"
	case p.database && p.bindingIn(s) == nil: // Ready does not include it while a change is rejected
		return "no binding Secret"
	case claim.Labels[appsapi.LabelComponent] != p.name, claim.Labels[appsapi.DefaultKeys.OwnerUID] != string(p.uid), claim.Labels[appsapi.DefaultKeys.Retained] != "":
		return fmt.Sprintf("claim has the labels of another owner: %v", claim.Labels)
	case len(stack.Status.Retained) > 0:
		return fmt.Sprintf("status.retained: got %v, want none", stack.Status.Retained)
	}
	return ""
}

// unmetRetention returns the first difference from the expected state of a removed component, or "".
func (p *stackDriver) unmetRetention(s watcher.State, stack *appsapi.AppStack, claim *corev1.PersistentVolumeClaim, set *appsv1.StatefulSet) string {
	kept := []string{"PersistentVolumeClaim " + claim.Name}
	for _, secret := range credentials(s) {
		kept = append(kept, "Secret "+secret.GetName())
		if secret.GetLabels()[appsapi.DefaultKeys.Retained] != "true" {
			return "Secret without the retained label"
		}
	}
	var listed []string
	for _, r := range stack.Status.Retained {
		listed = append(listed, r.Kind+" "+r.Name)
	}
	switch {
	case set != nil:
		return "StatefulSet not deleted"
	case claim.Labels[appsapi.DefaultKeys.Retained] != "true":
		return "claim without the retained label"
	case strings.Join(listed, ", ") != strings.Join(kept, ", "):
		return fmt.Sprintf("status.retained: got %v, want %v", listed, kept)
	}
	return ""
}

// restoreHealthy reverts a rejected change and restores a lost Secret, and expects a ready component with the original
// volume and password.
func (p *stackDriver) restoreHealthy() {
	p.Helper()
	if !p.present {
		p.beginStep("restore: component")
		p.present = true
		p.applySpec()
		p.waitSettled()
	}
	if p.lostPassword != "" {
		p.beginStep("restore: Secret")
		p.restoreSecret()
		p.waitSettled()
	}
	if p.storageRefused(p.watcher.State()) {
		p.beginStep("restore: storage")
		size, class := volumeSizeAndClass(p.watcher.State())
		p.size, p.class = max(p.size, size), class
		p.applySpec()
		p.waitSettled()
	}
	p.waitExpanded()
	if p.wantReadyPrefix(p.watcher.State()) != "True/Reconciled: " {
		p.Fatal("not everything was restored")
	}
	p.waitIdle()
}

// waitIdle waits until the operator writes nothing in the namespace.
func (p *stackDriver) waitIdle() {
	p.Helper()
	p.Eventually(func() string {
		return p.OperatorRequestsWithin(500 * time.Millisecond).Where((*audit.Event).IsWrite).Count().String()
	}, stepTimeout, "1ms").Should(Equal(audit.Events{}.Count().String()), "the operator keeps writing")
}

// waitExpanded waits until the volume and the claim template have the desired size.
func (p *stackDriver) waitExpanded() {
	p.Helper()
	p.waitFor("expansion of the volume", func(s watcher.State) bool {
		size, _ := volumeSizeAndClass(s)
		set := setIn(s)
		return size == p.size && set != nil && set.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests.Storage().Value()>>20 == p.size
	})
	p.waitSettled()
}

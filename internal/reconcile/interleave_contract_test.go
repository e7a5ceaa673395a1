package reconcile

import (
	"context"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/apply"
	"github.com/holdfast-dev/holdfast/internal/reconcile/execute"
	"github.com/holdfast-dev/holdfast/internal/testutil"
)

// TestReconcilerStateIsComplete fails if an applier caches a field that the state key lacks: states
// that differ only in it would count as equal.
func TestReconcilerStateIsComplete(t *testing.T) {
	entry := applierCache(&apply.Applier{}).Type().Elem().Elem().Elem()
	var actual []string
	for i := range entry.NumField() {
		actual = append(actual, entry.Field(i).Name)
	}
	if diff := cmp.Diff(slices.Sorted(slices.Values(cacheEntryFields)), slices.Sorted(slices.Values(actual))); diff != "" {
		t.Errorf("add the field to cacheEntryText, and here:\n%s", diff)
	}
	if n := reflect.TypeFor[execute.OwnWrites]().NumField(); n != 4 {
		t.Errorf("OwnWrites has %d fields: add the new one to reconcilerStateText and cloneReconciler, and count it here", n)
	}
}

// TestModelServerContract checks that the server of the model and a real one behave the same.
func TestModelServerContract(t *testing.T) {
	t.Run("model", func(t *testing.T) {
		w := newWorld(&scenario{}, budget{}, injectedBug{})
		testContract(t, uncachedClient{&modelClient{w: w}, modelReader{w: w}})
	})
	t.Run("real", func(t *testing.T) {
		plane := testutil.SharedControlPlane(t)
		if _, err := plane.InstallCRDs(filepath.Join("..", "..", "config", "crd")); err != nil {
			t.Fatal(err)
		}
		c, err := client.New(plane.Config, client.Options{Scheme: modelScheme})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: modelNamespace}}); err != nil {
			t.Fatal(err)
		}
		testContract(t, c)
	})
}

// uncachedClient is the client of the model without its cache.
type uncachedClient struct {
	*modelClient
	apiReader modelReader
}

func (d uncachedClient) Get(ctx context.Context, name client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	return d.apiReader.Get(ctx, name, obj, opts...)
}

const appliedDeployment = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"NAME","namespace":"shop","annotations":{"a":"1"}META},
"spec":{"selector":{"matchLabels":{"app":"x"}},"template":{"metadata":{"labels":{"app":"x"}},"spec":{"containers":[{"name":"app","image":"IMAGE"}]}}}}`

type contract struct {
	*testing.T
	client.Client
}

func testContract(t *testing.T, c client.Client) {
	k := contract{t, c}
	k.testCreate()
	k.testGeneration()
	k.testMerge()
	k.testDelete()
	k.testFinalizers()
	k.testStatus()
}

// apply applies a Deployment with more metadata.
func (k contract) apply(name, image, meta string) (*appsv1.Deployment, error) {
	d := k.newDeployment(name)
	body := strings.NewReplacer("NAME", name, "IMAGE", image, "META", meta).Replace(appliedDeployment)
	return d, k.Patch(k.Context(), d, client.RawPatch(types.ApplyPatchType, []byte(body)), client.FieldOwner(appsapi.DefaultKeys.FieldManager), client.ForceOwnership)
}

func (k contract) newDeployment(name string) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: modelNamespace, Name: name}}
}

// mergeAsOther is a merge patch of another field manager.
func (k contract) mergeAsOther(obj client.Object, body string) {
	k.Helper()
	k.expectErr(nil, k.Patch(k.Context(), obj, client.RawPatch(types.MergePatchType, []byte(body)), client.FieldOwner("theirs")), body)
}

func (k contract) expectErr(check func(error) bool, err error, what string) {
	k.Helper()
	if check == nil && err != nil || check != nil && !check(err) {
		k.Errorf("%s: %v", what, err)
	}
}

func (k contract) isGone(obj client.Object) bool {
	return apierrors.IsNotFound(k.Get(k.Context(), client.ObjectKeyFromObject(obj), obj))
}

func (k contract) testCreate() {
	_, err := k.apply("a", "one", `,"uid":"99999999-8888-7777-6666-555555555555"`)
	k.expectErr(apierrors.IsConflict, err, "a uid on a free name")
	created, err := k.apply("a", "one", `,"resourceVersion":"1"`)
	k.expectErr(nil, err, "create-only on a free name")
	if created.ResourceVersion == "1" || created.Generation != 1 || created.UID == "" {
		k.Errorf("created version %s, generation %d, uid %q", created.ResourceVersion, created.Generation, created.UID)
	}
	_, err = k.apply("a", "two", `,"resourceVersion":"1"`)
	k.expectErr(apierrors.IsConflict, err, "create-only on a taken name")
	_, err = k.apply("a", "two", `,"uid":"`+string(created.UID)+`","resourceVersion":"2"`)
	k.expectErr(apierrors.IsConflict, err, "an old version")
	_, err = k.apply("a", "two", `,"uid":"99999999-8888-7777-6666-555555555555","resourceVersion":"`+created.ResourceVersion+`"`)
	k.expectErr(apierrors.IsInvalid, err, "another uid")
	if !strings.Contains(err.Error(), "metadata.uid") {
		k.Errorf("another uid: %v", err)
	}
	same, err := k.apply("a", "one", `,"uid":"`+string(created.UID)+`","resourceVersion":"`+created.ResourceVersion+`"`)
	k.expectErr(nil, err, "as it was seen")
	if same.ResourceVersion != created.ResourceVersion {
		k.Error("an apply without changes increased the resourceVersion")
	}
}

func (k contract) testGeneration() {
	d, err := k.apply("g", "one", "")
	k.expectErr(nil, err, "apply")
	for _, tc := range []struct {
		body string
		want int64
	}{
		{`{"metadata":{"labels":{"l":"1"}}}`, 1},
		{`{"metadata":{"annotations":{"theirs":"1"}}}`, 2},
		{`{"metadata":{"annotations":{"theirs":"1"}}}`, 2},
		{`{"spec":{"replicas":2}}`, 3},
	} {
		if k.mergeAsOther(d, tc.body); d.Generation != tc.want {
			k.Errorf("after %s: generation %d, want %d", tc.body, d.Generation, tc.want)
		}
	}
	newService := func() *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: modelNamespace, Name: "s"},
			Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	}
	s := newService()
	k.expectErr(nil, k.Create(k.Context(), s), "create a Service")
	if k.mergeAsOther(s, `{"metadata":{"annotations":{"a":"1"}}}`); s.Generation != 0 {
		k.Errorf("a Service has generation %d", s.Generation)
	}
	k.expectErr(apierrors.IsAlreadyExists, k.Create(k.Context(), newService()), "create again")
}

// testMerge: fields that are no longer applied are removed, fields of other managers stay, and
// changed fields are corrected.
func (k contract) testMerge() {
	d, err := k.apply("m", "one", `,"labels":{"ours":"1"}`)
	k.expectErr(nil, err, "apply")
	k.mergeAsOther(d, `{"metadata":{"labels":{"theirs":"1"},"annotations":{"a":"theirs"}},"spec":{"template":{"spec":{"nodeName":"n"}}}}`)
	d, err = k.apply("m", "two", "")
	k.expectErr(nil, err, "apply again")
	if d.Labels["ours"] != "" || d.Labels["theirs"] != "1" || d.Annotations["a"] != "1" || d.Spec.Template.Spec.NodeName != "n" || d.Spec.Template.Spec.Containers[0].Image != "two" {
		k.Errorf("got labels %v, annotations %v, node %q, image %s", d.Labels, d.Annotations, d.Spec.Template.Spec.NodeName, d.Spec.Template.Spec.Containers[0].Image)
	}
	if !slices.ContainsFunc(d.ManagedFields, func(m metav1.ManagedFieldsEntry) bool { return m.Manager == appsapi.DefaultKeys.FieldManager }) {
		k.Error("managedFields do not contain our fields")
	}
}

func (k contract) testDelete() {
	d, err := k.apply("d", "one", "")
	k.expectErr(nil, err, "apply")
	uid, version := d.UID, d.ResourceVersion
	other, oldVersion := types.UID("other"), "2"
	k.expectErr(apierrors.IsConflict, k.Delete(k.Context(), k.newDeployment("d"), client.Preconditions{UID: &other}), "delete another uid")
	k.expectErr(apierrors.IsConflict, k.Delete(k.Context(), k.newDeployment("d"), client.Preconditions{UID: &uid, ResourceVersion: &oldVersion}), "delete an old version")
	k.expectErr(nil, k.Delete(k.Context(), k.newDeployment("d"), client.Preconditions{UID: &uid, ResourceVersion: &version},
		client.PropagationPolicy(metav1.DeletePropagationForeground)), "delete in the foreground")
	k.expectErr(nil, k.Get(k.Context(), client.ObjectKeyFromObject(d), d), "get while deleting")
	if d.DeletionTimestamp == nil || d.Generation != 2 || !slices.Equal(d.Finalizers, []string{metav1.FinalizerDeleteDependents}) {
		k.Errorf("deleted %v, generation %d, finalizers %v", d.DeletionTimestamp, d.Generation, d.Finalizers)
	}
	version = d.ResourceVersion
	k.expectErr(nil, k.Delete(k.Context(), k.newDeployment("d"), client.PropagationPolicy(metav1.DeletePropagationForeground)), "delete again")
	k.expectErr(nil, k.Get(k.Context(), client.ObjectKeyFromObject(d), d), "get while deleting")
	if d.ResourceVersion != version {
		k.Error("a second delete increased the resourceVersion")
	}
	if k.mergeAsOther(d, `{"metadata":{"finalizers":null}}`); !k.isGone(k.newDeployment("d")) {
		k.Error("the object still exists without finalizers")
	}
	k.expectErr(apierrors.IsNotFound, k.Delete(k.Context(), k.newDeployment("d")), "delete a deleted object")
	_, err = k.apply("b", "one", "")
	k.expectErr(nil, err, "apply")
	if k.expectErr(nil, k.Delete(k.Context(), k.newDeployment("b"), client.PropagationPolicy(metav1.DeletePropagationBackground)), "delete"); !k.isGone(k.newDeployment("b")) {
		k.Error("the object still exists after a background deletion")
	}
}

func (k contract) newStack(name string) *appsapi.AppStack {
	return &appsapi.AppStack{ObjectMeta: metav1.ObjectMeta{Namespace: modelNamespace, Name: name},
		Spec: appsapi.AppStackSpec{Components: []appsapi.Component{serviceComponent("web", "web:1")}}}
}

// testFinalizers keep a deleted object, and none can be added during deletion.
func (k contract) testFinalizers() {
	s := k.newStack("f")
	k.expectErr(nil, k.Create(k.Context(), s), "create a stack")
	k.mergeAsOther(s, `{"metadata":{"finalizers":["`+appsapi.DefaultKeys.Finalizer+`"]}}`)
	if s.Generation != 1 {
		k.Errorf("a finalizer changed the generation to %d", s.Generation)
	}
	k.expectErr(nil, k.Delete(k.Context(), k.newStack("f")), "delete")
	k.expectErr(nil, k.Get(k.Context(), client.ObjectKeyFromObject(s), s), "get while deleting")
	if s.DeletionTimestamp == nil || s.Generation != 2 {
		k.Errorf("deleted %v, generation %d", s.DeletionTimestamp, s.Generation)
	}
	patch := client.RawPatch(types.JSONPatchType, []byte(`[{"op":"add","path":"/metadata/finalizers","value":["`+appsapi.DefaultKeys.Finalizer+`","example.com/more"]}]`))
	k.expectErr(apierrors.IsInvalid, k.Patch(k.Context(), k.newStack("f"), patch), "another finalizer")
	k.mergeAsOther(s, `{"metadata":{"finalizers":null}}`)
	if !k.isGone(k.newStack("f")) {
		k.Error("the object still exists without finalizers")
	}
}

// testStatus: a status is written separately from the spec, and only with the right UID.
func (k contract) testStatus() {
	s := k.newStack("s")
	k.expectErr(nil, k.Create(k.Context(), s), "create a stack")
	send := func(uid types.UID) error {
		body := `[{"op":"test","path":"/metadata/uid","value":"` + string(uid) + `"},{"op":"add","path":"/status","value":{"observedGeneration":1,"conditions":[]}}]`
		return k.Status().Patch(k.Context(), s, client.RawPatch(types.JSONPatchType, []byte(body)))
	}
	k.expectErr(apierrors.IsInvalid, send("other"), "status of another UID")
	version := s.ResourceVersion
	k.expectErr(nil, send(s.UID), "status")
	if s.Generation != 1 || s.Status.ObservedGeneration != 1 || s.ResourceVersion == version {
		k.Errorf("generation %d, observed %d, version %s after %s", s.Generation, s.Status.ObservedGeneration, s.ResourceVersion, version)
	}
	k.mergeAsOther(s, `{"spec":{"suspend":true},"status":{"observedGeneration":7}}`)
	if s.Generation != 2 || s.Status.ObservedGeneration != 1 {
		k.Errorf("generation %d, observed %d after a change of the spec", s.Generation, s.Status.ObservedGeneration)
	}
	stale := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"resourceVersion":"`+version+`","labels":{"a":"1"}}}`))
	k.expectErr(apierrors.IsConflict, k.Patch(k.Context(), s, stale), "patch of an old version")
	other := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"uid":"other","labels":{"a":"1"}}}`))
	k.expectErr(func(err error) bool { return apierrors.IsInvalid(err) || apierrors.IsConflict(err) }, k.Patch(k.Context(), s, other), "patch of another UID")
	k.expectErr(nil, k.Delete(k.Context(), k.newStack("s")), "delete")
	k.expectErr(apierrors.IsNotFound, send(s.UID), "status of a deleted object")
}

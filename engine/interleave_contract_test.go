package engine

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
	"github.com/holdfast-dev/holdfast/internal/testutil"
)

// TestModelMemory fails when an applier remembers something that a state does not have: two
// states that differ in it would be taken for one.
func TestModelMemory(t *testing.T) {
	entry := ownersIn(&apply.Applier{}).Type().Elem().Elem().Elem()
	var have []string
	for i := range entry.NumField() {
		have = append(have, entry.Field(i).Name)
	}
	if diff := cmp.Diff(slices.Sorted(slices.Values(rememberedFields)), slices.Sorted(slices.Values(have))); diff != "" {
		t.Errorf("write it down in entryText, and here:\n%s", diff)
	}
	if n := reflect.TypeFor[written[*appsapi.AppService]]().NumField(); n != 4 {
		t.Errorf("written has %d fields: write the new one down in mindText, copy it in cloneMind, and count it here", n)
	}
}

// TestModel holds the server of the model to the same contract as a real one.
func TestModel(t *testing.T) {
	t.Run("model", func(t *testing.T) {
		w := newWorld(&input{}, budget{}, mistake{})
		testContract(t, direct{&modelClient{w: w}, modelReader{w: w}})
	})
	t.Run("real", func(t *testing.T) {
		plane := testutil.SharedControlPlane(t)
		if _, err := plane.InstallCRDs(filepath.Join("..", "config", "crd")); err != nil {
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

// direct is the client of the model without its cache.
type direct struct {
	*modelClient
	live modelReader
}

func (d direct) Get(ctx context.Context, name client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	return d.live.Get(ctx, name, obj, opts...)
}

const appliedDeployment = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"NAME","namespace":"shop","annotations":{"a":"1"}META},
"spec":{"selector":{"matchLabels":{"app":"x"}},"template":{"metadata":{"labels":{"app":"x"}},"spec":{"containers":[{"name":"app","image":"IMAGE"}]}}}}`

type contract struct {
	*testing.T
	client.Client
}

func testContract(t *testing.T, c client.Client) {
	k := contract{t, c}
	k.creates()
	k.generations()
	k.merges()
	k.deletes()
	k.finalizers()
	k.statuses()
}

// apply applies a Deployment with more metadata.
func (k contract) apply(name, image, meta string) (*appsv1.Deployment, error) {
	d := k.empty(name)
	body := strings.NewReplacer("NAME", name, "IMAGE", image, "META", meta).Replace(appliedDeployment)
	return d, k.Patch(k.Context(), d, client.RawPatch(types.ApplyPatchType, []byte(body)), client.FieldOwner(appsapi.FieldManager), client.ForceOwnership)
}

func (k contract) empty(name string) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: modelNamespace, Name: name}}
}

// merge is a merge patch by somebody else.
func (k contract) merge(obj client.Object, body string) {
	k.Helper()
	k.is(nil, k.Patch(k.Context(), obj, client.RawPatch(types.MergePatchType, []byte(body)), client.FieldOwner("theirs")), body)
}

func (k contract) is(check func(error) bool, err error, what string) {
	k.Helper()
	if check == nil && err != nil || check != nil && !check(err) {
		k.Errorf("%s: %v", what, err)
	}
}

func (k contract) gone(obj client.Object) bool {
	return apierrors.IsNotFound(k.Get(k.Context(), client.ObjectKeyFromObject(obj), obj))
}

func (k contract) creates() {
	_, err := k.apply("a", "one", `,"uid":"99999999-8888-7777-6666-555555555555"`)
	k.is(apierrors.IsConflict, err, "a uid on a free name")
	made, err := k.apply("a", "one", `,"resourceVersion":"1"`)
	k.is(nil, err, "create-only on a free name")
	if made.ResourceVersion == "1" || made.Generation != 1 || made.UID == "" {
		k.Errorf("created version %s, generation %d, uid %q", made.ResourceVersion, made.Generation, made.UID)
	}
	_, err = k.apply("a", "two", `,"resourceVersion":"1"`)
	k.is(apierrors.IsConflict, err, "create-only on a taken name")
	_, err = k.apply("a", "two", `,"uid":"`+string(made.UID)+`","resourceVersion":"2"`)
	k.is(apierrors.IsConflict, err, "an old version")
	_, err = k.apply("a", "two", `,"uid":"99999999-8888-7777-6666-555555555555","resourceVersion":"`+made.ResourceVersion+`"`)
	k.is(apierrors.IsInvalid, err, "another uid")
	if !strings.Contains(err.Error(), "metadata.uid") {
		k.Errorf("another uid: %v", err)
	}
	same, err := k.apply("a", "one", `,"uid":"`+string(made.UID)+`","resourceVersion":"`+made.ResourceVersion+`"`)
	k.is(nil, err, "as it was seen")
	if same.ResourceVersion != made.ResourceVersion {
		k.Error("an apply that changes nothing made another version")
	}
}

func (k contract) generations() {
	d, err := k.apply("g", "one", "")
	k.is(nil, err, "apply")
	for _, tc := range []struct {
		body string
		want int64
	}{
		{`{"metadata":{"labels":{"l":"1"}}}`, 1},
		{`{"metadata":{"annotations":{"theirs":"1"}}}`, 2},
		{`{"metadata":{"annotations":{"theirs":"1"}}}`, 2},
		{`{"spec":{"replicas":2}}`, 3},
	} {
		if k.merge(d, tc.body); d.Generation != tc.want {
			k.Errorf("after %s: generation %d, want %d", tc.body, d.Generation, tc.want)
		}
	}
	made := func() *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: modelNamespace, Name: "s"},
			Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	}
	s := made()
	k.is(nil, k.Create(k.Context(), s), "create a Service")
	if k.merge(s, `{"metadata":{"annotations":{"a":"1"}}}`); s.Generation != 0 {
		k.Errorf("a Service has generation %d", s.Generation)
	}
	k.is(apierrors.IsAlreadyExists, k.Create(k.Context(), made()), "create again")
}

// merges: what is not sent any more goes, what is somebody else's stays, and what somebody
// changed is ours again.
func (k contract) merges() {
	d, err := k.apply("m", "one", `,"labels":{"ours":"1"}`)
	k.is(nil, err, "apply")
	k.merge(d, `{"metadata":{"labels":{"theirs":"1"},"annotations":{"a":"theirs"}},"spec":{"template":{"spec":{"nodeName":"n"}}}}`)
	d, err = k.apply("m", "two", "")
	k.is(nil, err, "apply anew")
	if d.Labels["ours"] != "" || d.Labels["theirs"] != "1" || d.Annotations["a"] != "1" || d.Spec.Template.Spec.NodeName != "n" || d.Spec.Template.Spec.Containers[0].Image != "two" {
		k.Errorf("got labels %v, annotations %v, node %q, image %s", d.Labels, d.Annotations, d.Spec.Template.Spec.NodeName, d.Spec.Template.Spec.Containers[0].Image)
	}
	if !slices.ContainsFunc(d.ManagedFields, func(m metav1.ManagedFieldsEntry) bool { return m.Manager == appsapi.FieldManager }) {
		k.Error("the books do not say what is ours")
	}
}

func (k contract) deletes() {
	d, err := k.apply("d", "one", "")
	k.is(nil, err, "apply")
	uid, version := d.UID, d.ResourceVersion
	other, old := types.UID("other"), "2"
	k.is(apierrors.IsConflict, k.Delete(k.Context(), k.empty("d"), client.Preconditions{UID: &other}), "delete another uid")
	k.is(apierrors.IsConflict, k.Delete(k.Context(), k.empty("d"), client.Preconditions{UID: &uid, ResourceVersion: &old}), "delete an old version")
	k.is(nil, k.Delete(k.Context(), k.empty("d"), client.Preconditions{UID: &uid, ResourceVersion: &version},
		client.PropagationPolicy(metav1.DeletePropagationForeground)), "delete in the foreground")
	k.is(nil, k.Get(k.Context(), client.ObjectKeyFromObject(d), d), "it stays")
	if d.DeletionTimestamp == nil || d.Generation != 2 || !slices.Equal(d.Finalizers, []string{metav1.FinalizerDeleteDependents}) {
		k.Errorf("deleted %v, generation %d, finalizers %v", d.DeletionTimestamp, d.Generation, d.Finalizers)
	}
	version = d.ResourceVersion
	k.is(nil, k.Delete(k.Context(), k.empty("d"), client.PropagationPolicy(metav1.DeletePropagationForeground)), "delete again")
	k.is(nil, k.Get(k.Context(), client.ObjectKeyFromObject(d), d), "it stays")
	if d.ResourceVersion != version {
		k.Error("to delete again made another version")
	}
	if k.merge(d, `{"metadata":{"finalizers":null}}`); !k.gone(k.empty("d")) {
		k.Error("nothing keeps it, and it is there")
	}
	k.is(apierrors.IsNotFound, k.Delete(k.Context(), k.empty("d")), "delete what is gone")
	_, err = k.apply("b", "one", "")
	k.is(nil, err, "apply")
	if k.is(nil, k.Delete(k.Context(), k.empty("b"), client.PropagationPolicy(metav1.DeletePropagationBackground)), "delete"); !k.gone(k.empty("b")) {
		k.Error("deleted in the background, and it is there")
	}
}

func (k contract) stack(name string) *appsapi.AppStack {
	return &appsapi.AppStack{ObjectMeta: metav1.ObjectMeta{Namespace: modelNamespace, Name: name},
		Spec: appsapi.AppStackSpec{Components: []Component{part("web", "web:1")}}}
}

// finalizers keep what is deleted, and none can be added then.
func (k contract) finalizers() {
	s := k.stack("f")
	k.is(nil, k.Create(k.Context(), s), "create a stack")
	k.merge(s, `{"metadata":{"finalizers":["`+appsapi.FinalizerOrderedDeletion+`"]}}`)
	if s.Generation != 1 {
		k.Errorf("a finalizer made generation %d", s.Generation)
	}
	k.is(nil, k.Delete(k.Context(), k.stack("f")), "delete")
	k.is(nil, k.Get(k.Context(), client.ObjectKeyFromObject(s), s), "it stays")
	if s.DeletionTimestamp == nil || s.Generation != 2 {
		k.Errorf("deleted %v, generation %d", s.DeletionTimestamp, s.Generation)
	}
	patch := client.RawPatch(types.JSONPatchType, []byte(`[{"op":"add","path":"/metadata/finalizers","value":["`+appsapi.FinalizerOrderedDeletion+`","example.com/more"]}]`))
	k.is(apierrors.IsInvalid, k.Patch(k.Context(), k.stack("f"), patch), "one more finalizer")
	k.merge(s, `{"metadata":{"finalizers":null}}`)
	if !k.gone(k.stack("f")) {
		k.Error("nothing keeps it, and it is there")
	}
}

// statuses are written apart, and only about the object that is meant.
func (k contract) statuses() {
	s := k.stack("s")
	k.is(nil, k.Create(k.Context(), s), "create a stack")
	send := func(uid types.UID) error {
		body := `[{"op":"test","path":"/metadata/uid","value":"` + string(uid) + `"},{"op":"add","path":"/status","value":{"observedGeneration":1,"conditions":[]}}]`
		return k.Status().Patch(k.Context(), s, client.RawPatch(types.JSONPatchType, []byte(body)))
	}
	k.is(apierrors.IsInvalid, send("other"), "the status of another one")
	version := s.ResourceVersion
	k.is(nil, send(s.UID), "a status")
	if s.Generation != 1 || s.Status.ObservedGeneration != 1 || s.ResourceVersion == version {
		k.Errorf("generation %d, observed %d, version %s after %s", s.Generation, s.Status.ObservedGeneration, s.ResourceVersion, version)
	}
	k.merge(s, `{"spec":{"suspend":true},"status":{"observedGeneration":7}}`)
	if s.Generation != 2 || s.Status.ObservedGeneration != 1 {
		k.Errorf("generation %d, observed %d after a change of the spec", s.Generation, s.Status.ObservedGeneration)
	}
	stale := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"resourceVersion":"`+version+`","labels":{"a":"1"}}}`))
	k.is(apierrors.IsConflict, k.Patch(k.Context(), s, stale), "a patch of an old version")
	other := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"uid":"other","labels":{"a":"1"}}}`))
	k.is(func(err error) bool { return apierrors.IsInvalid(err) || apierrors.IsConflict(err) }, k.Patch(k.Context(), s, other), "a patch of another one")
	k.is(nil, k.Delete(k.Context(), k.stack("s")), "delete")
	k.is(apierrors.IsNotFound, send(s.UID), "the status of what is gone")
}

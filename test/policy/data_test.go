package policy_test

import (
	"cmp"

	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// holdfastLabels returns the managed-by label and the labels in which.
func holdfastLabels(extra ...string) map[string]string {
	labels := map[string]string{"app.kubernetes.io/managed-by": "holdfast"}
	for _, w := range extra {
		switch w {
		case "workload":
			labels["apps.holdfast.dev/workload"] = "statefulset-shop-db"
		case "component":
			labels["app.kubernetes.io/component"] = "db"
		case "instance":
			labels["app.kubernetes.io/instance"] = "shop"
		}
	}
	return labels
}

func newClaim(name string, labels map[string]string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: shopNamespace, Name: name, Labels: labels},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
}

func newSecret(name string, labels map[string]string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: shopNamespace, Name: name, Labels: labels}}
}

// testKeepData deletes data with and without the confirmation. It runs as an administrator, because the policy
// applies to all users.
func testKeepData(w *world) {
	ctx := w.t.Context()
	for name, tc := range map[string]struct {
		object client.Object
		want   string
		prefix string
	}{
		"PersistentVolumeClaim": {newClaim("data-shop-db-0", holdfastLabels("workload", "component", "instance")),
			`persistentvolumeclaims "data-shop-db-0" is forbidden: ValidatingAdmissionPolicy 'holdfast-keep-data' with binding 'holdfast-keep-data' denied request: ` +
				`PersistentVolumeClaim "data-shop-db-0" contains the data of component "db" of application "shop", and its deletion is irreversible; ` +
				`confirm the deletion first: kubectl -n shop annotate --overwrite persistentvolumeclaim data-shop-db-0 apps.holdfast.dev/confirm-delete=true`, ""},
		"credentials Secret": {newSecret("shop-db-auth", holdfastLabels("workload", "component", "instance")),
			`secrets "shop-db-auth" is forbidden: ValidatingAdmissionPolicy 'holdfast-keep-data' with binding 'holdfast-keep-data' denied request: ` +
				`Secret "shop-db-auth" contains the password for the data of component "db" of application "shop", and its deletion is irreversible; ` +
				`confirm the deletion first: kubectl -n shop annotate --overwrite secret shop-db-auth apps.holdfast.dev/confirm-delete=true`, ""},
		"PersistentVolumeClaim of an operator with another prefix": {newClaim("data-book-0", map[string]string{"app.kubernetes.io/managed-by": "holdfast", "example.com/workload": "statefulset-book"}),
			`annotate --overwrite persistentvolumeclaim data-book-0 example.com/confirm-delete=true`, "example.com"},
		"PersistentVolumeClaim without labels of the application": {newClaim("plain", holdfastLabels()), `"plain" contains the data of an application, and`, ""},
		"PersistentVolumeClaim without a component":               {newClaim("whole", holdfastLabels("instance")), `"whole" contains the data of application "shop", and`, ""},
		"credentials Secret without an application":               {newSecret("lone", holdfastLabels("workload", "component")), `"lone" contains the password for the data of component "db" of an application, and`, ""},
	} {
		obj := tc.object
		w.create(obj)
		err := w.admin.Delete(ctx, obj)
		w.t.Logf("%s: %v", name, err)
		w.Expect(apierrors.IsForbidden(err)).To(BeTrue(), name)
		w.Expect(err.Error()).To(ContainSubstring(tc.want), name)

		confirm := func(value string) {
			w.Expect(w.admin.Patch(ctx, obj, mergePatch(w.t, value, "metadata", "annotations", cmp.Or(tc.prefix, "apps.holdfast.dev")+"/confirm-delete"))).To(Succeed())
		}
		confirm("yes")
		w.Expect(apierrors.IsForbidden(w.admin.Delete(ctx, obj))).To(BeTrue(), "%s: only the value true confirms", name)
		confirm("true")
		w.Expect(w.admin.Delete(ctx, obj)).To(Succeed(), name)
		w.waitGone(obj)
	}
}

// waitGone waits until an object is deleted.
func (w *world) waitGone(obj client.Object) {
	w.t.Helper()
	w.Eventually(func() error {
		return w.admin.Get(w.t.Context(), client.ObjectKeyFromObject(obj), obj)
	}, waitTimeout, "100ms").Should(beNotFound(), "%T %s", obj, obj.GetName())
}

func beNotFound() gomegatypes.GomegaMatcher { return Satisfy(apierrors.IsNotFound) }

// testDeleteCollection checks that deleting a collection keeps Holdfast's data.
func testDeleteCollection(w *world) {
	ctx, ns := w.t.Context(), newNamespace(w)
	kept, foreign := newClaim("kept", holdfastLabels()), newClaim("foreign", nil)
	credentials := newSecret("kept", holdfastLabels("workload"))
	for _, obj := range []client.Object{kept, foreign, credentials} {
		obj.SetNamespace(ns)
		w.create(obj)
	}
	for _, kind := range []client.Object{&corev1.PersistentVolumeClaim{}, &corev1.Secret{}} {
		err := w.admin.DeleteAllOf(ctx, kind, client.InNamespace(ns))
		w.Expect(errorText(err)).To(ContainSubstring(`"kept" contains the `))
	}
	for _, obj := range []client.Object{kept, credentials} {
		w.Expect(w.admin.Get(ctx, client.ObjectKeyFromObject(obj), obj)).To(Succeed())
		w.Expect(obj.GetDeletionTimestamp()).To(BeNil())
	}
}

// testNonData checks that the policy allows deleting other objects and objects that can be recreated, and updating
// data.
func testNonData(w *world) {
	ctx := w.t.Context()
	for name, obj := range map[string]client.Object{
		"PersistentVolumeClaim of another manager": newClaim("foreign", map[string]string{"app.kubernetes.io/managed-by": "helm"}),
		"PersistentVolumeClaim without labels":     newClaim("bare", nil),
		"Secret of another manager":                newSecret("foreign", map[string]string{"apps.holdfast.dev/workload": "statefulset-shop-db"}),
		"Secret that is not data":                  newSecret("made-again", holdfastLabels("component", "instance")),
	} {
		w.create(obj)
		w.Expect(w.admin.Delete(ctx, obj)).To(Succeed(), name)
		w.waitGone(obj)
	}

	// The garbage collector deletes dependents.
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: shopNamespace, Name: "owner"}}
	w.create(owner)
	owned := newSecret("owned", holdfastLabels("component"))
	owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}}
	w.create(owned)
	w.Expect(w.admin.Delete(ctx, owner)).To(Succeed())
	w.waitGone(owned)

	changed := newClaim("changed", holdfastLabels("component"))
	w.create(changed)
	w.Expect(w.admin.Patch(ctx, changed, mergePatch(w.t, nil, "metadata", "labels"))).To(Succeed(), "the policy must not check updates")
	w.Expect(w.admin.Delete(ctx, changed)).To(Succeed())
}

// testNamespaceDeletion deletes a namespace that contains data.
func testNamespaceDeletion(w *world) {
	ns := newNamespace(w)
	for _, obj := range []client.Object{newClaim("data", holdfastLabels("workload")), newSecret("auth", holdfastLabels("workload"))} {
		obj.SetNamespace(ns)
		w.create(obj)
	}
	obj := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}
	w.Expect(w.admin.Delete(w.t.Context(), obj)).To(Succeed())
	w.waitGone(obj)
}

func newNamespace(w *world) string {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "goes-"}}
	w.create(ns)
	return ns.Name
}

// testTypeChecking waits until the controller-manager has type-checked the policies. There must be no warnings for
// Holdfast's policies and one for an invalid policy.
func testTypeChecking(w *world) {
	ctx := w.t.Context()
	expressionWarnings := func(name string) []admissionv1.ExpressionWarning {
		w.t.Helper()
		policy := &admissionv1.ValidatingAdmissionPolicy{}
		w.Eventually(func() (*admissionv1.TypeChecking, error) {
			err := w.admin.Get(ctx, client.ObjectKey{Name: name}, policy)
			return policy.Status.TypeChecking, err
		}, waitTimeout, "100ms").ShouldNot(BeNil(), name)
		return policy.Status.TypeChecking.ExpressionWarnings
	}
	for _, name := range []string{rightsPolicy, dataPolicy, passwordPolicy} {
		w.Expect(expressionWarnings(name)).To(BeEmpty(), name)
	}
	wrong := &admissionv1.ValidatingAdmissionPolicy{}
	w.Expect(w.admin.Get(ctx, client.ObjectKey{Name: rightsPolicy}, wrong)).To(Succeed())
	wrong.ObjectMeta = metav1.ObjectMeta{Name: "wrong"}
	wrong.Spec.Validations = []admissionv1.Validation{{Expression: "object.spec.nonsense == 1"}}
	w.create(wrong)
	w.Expect(expressionWarnings("wrong")).To(HaveLen(1), "the type checker must know the schemas of Holdfast's kinds")
}

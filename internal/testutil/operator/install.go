package operator

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-dev/holdfast/internal/testutil/controlplane"
)

// Install puts our kinds, the operator's rights and the policies into a cluster, from the manifests
// that users apply.
func Install(t testing.TB, plane *controlplane.Plane) {
	t.Helper()
	root, err := RepoRoot()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := plane.InstallCRDs(filepath.Join(root, "config", "crd")); err != nil {
		t.Fatalf("install CRDs: %v", err)
	}
	client, err := kubernetes.NewForConfig(plane.Config)
	if err != nil {
		t.Fatal(err)
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Namespace}}
	if _, err := client.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"rbac/role.yaml", "rbac/binding.yaml", "policy/requester-rights.yaml", "policy/keep-data.yaml"} {
		content, err := os.ReadFile(filepath.Join(root, "config", file))
		if err != nil {
			t.Fatal(err)
		}
		for doc := range strings.SplitSeq(string(content), "\n---\n") {
			installDocument(t, client, doc)
		}
	}
}

func installDocument(t testing.TB, client kubernetes.Interface, doc string) {
	t.Helper()
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var kind metav1.TypeMeta
	must(nil, yaml.Unmarshal([]byte(doc), &kind))
	ctx, create, rbac, admission := t.Context(), metav1.CreateOptions{}, client.RbacV1(), client.AdmissionregistrationV1()
	switch kind.Kind {
	case "ValidatingAdmissionPolicy":
		must(admission.ValidatingAdmissionPolicies().Create(ctx, decode[admissionv1.ValidatingAdmissionPolicy](t, doc), create))
	case "ValidatingAdmissionPolicyBinding":
		must(admission.ValidatingAdmissionPolicyBindings().Create(ctx, decode[admissionv1.ValidatingAdmissionPolicyBinding](t, doc), create))
	case "ClusterRole":
		must(rbac.ClusterRoles().Create(ctx, decode[rbacv1.ClusterRole](t, doc), create))
	case "Role":
		must(rbac.Roles(Namespace).Create(ctx, decode[rbacv1.Role](t, doc), create))
	case "ClusterRoleBinding":
		must(rbac.ClusterRoleBindings().Create(ctx, decode[rbacv1.ClusterRoleBinding](t, doc), create))
	case "RoleBinding":
		must(rbac.RoleBindings(Namespace).Create(ctx, decode[rbacv1.RoleBinding](t, doc), create))
	}
}

func decode[T any](t testing.TB, doc string) *T {
	t.Helper()
	out := new(T)
	if err := yaml.UnmarshalStrict([]byte(doc), out); err != nil {
		t.Fatal(err)
	}
	return out
}

package operator

import (
	"context"
	"fmt"
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

// Install installs the CRDs, the permissions of the operator and the admission policies from the manifests that users
// apply.
func Install(t testing.TB, plane *controlplane.Plane) {
	t.Helper()
	if err := ApplyManifests(t.Context(), plane); err != nil {
		t.Fatal(err)
	}
}

// ApplyManifests is [Install] for a cluster that outlives a test.
func ApplyManifests(ctx context.Context, plane *controlplane.Plane) error {
	root, err := RepoRoot()
	if err != nil {
		return err
	}
	if _, err := plane.InstallCRDs(filepath.Join(root, "config", "crd")); err != nil {
		return fmt.Errorf("install CRDs: %w", err)
	}
	client, err := kubernetes.NewForConfig(plane.Config)
	if err != nil {
		return err
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Namespace}}
	if _, err := client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		return err
	}
	policies, err := policyFiles(root)
	if err != nil {
		return err
	}
	for _, file := range append(policies, "rbac/role.yaml", "rbac/binding.yaml") {
		content, err := os.ReadFile(filepath.Join(root, "config", file))
		if err != nil {
			return err
		}
		for doc := range strings.SplitSeq(string(content), "\n---\n") {
			if err := createDocument(ctx, client, doc); err != nil {
				return fmt.Errorf("install %s: %w", file, err)
			}
		}
	}
	return nil
}

// policyFiles returns the files of config/policy that users apply.
func policyFiles(root string) ([]string, error) {
	content, err := os.ReadFile(filepath.Join(root, "config", "policy", "kustomization.yaml"))
	if err != nil {
		return nil, err
	}
	var kustomization struct{ Resources []string }
	if err := yaml.Unmarshal(content, &kustomization); err != nil {
		return nil, err
	}
	for i, file := range kustomization.Resources {
		kustomization.Resources[i] = filepath.Join("policy", file)
	}
	return kustomization.Resources, nil
}

func createDocument(ctx context.Context, client kubernetes.Interface, doc string) error {
	var kind metav1.TypeMeta
	if err := yaml.Unmarshal([]byte(doc), &kind); err != nil {
		return err
	}
	rbac, admission := client.RbacV1(), client.AdmissionregistrationV1()
	switch kind.Kind {
	case "ValidatingAdmissionPolicy":
		return create[admissionv1.ValidatingAdmissionPolicy](ctx, doc, admission.ValidatingAdmissionPolicies().Create)
	case "ValidatingAdmissionPolicyBinding":
		return create[admissionv1.ValidatingAdmissionPolicyBinding](ctx, doc, admission.ValidatingAdmissionPolicyBindings().Create)
	case "ClusterRole":
		return create[rbacv1.ClusterRole](ctx, doc, rbac.ClusterRoles().Create)
	case "Role":
		return create[rbacv1.Role](ctx, doc, rbac.Roles(Namespace).Create)
	case "ClusterRoleBinding":
		return create[rbacv1.ClusterRoleBinding](ctx, doc, rbac.ClusterRoleBindings().Create)
	case "RoleBinding":
		return create[rbacv1.RoleBinding](ctx, doc, rbac.RoleBindings(Namespace).Create)
	}
	return nil
}

func create[T any](ctx context.Context, doc string, create func(context.Context, *T, metav1.CreateOptions) (*T, error)) error {
	obj := new(T)
	if err := yaml.UnmarshalStrict([]byte(doc), obj); err != nil {
		return err
	}
	_, err := create(ctx, obj, metav1.CreateOptions{})
	return err
}

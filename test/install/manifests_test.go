// Package install tests the installation: the manifests of `make dist` and of the overlays, their permissions, and
// the documentation of the permissions.
package install

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

const (
	root      = "../.."
	namespace = "holdfast-system"
	// maxAnnotationBytes is the maximum size of the annotations of an object. Client-side `kubectl apply` stores the
	// whole object in an annotation.
	maxAnnotationBytes = 256 * 1024
)

// render builds an overlay with the kustomize version of `make dist`.
func render(t *testing.T, overlay string) []byte {
	t.Helper()
	cmd := exec.Command("hack/tool.sh", "kustomize", "build", "config/overlays/"+overlay)
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("kustomize build config/overlays/%s: %v\n%s", overlay, err, &stderr)
	}
	return out
}

// renderObjects returns the rendered objects by kind, namespace and name.
func renderObjects(t *testing.T, overlay string) map[string]*unstructured.Unstructured {
	t.Helper()
	found := map[string]*unstructured.Unstructured{}
	for doc := range strings.SplitSeq(string(render(t, overlay)), "\n---\n") {
		obj := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict([]byte(doc), &obj.Object); err != nil {
			t.Fatal(err)
		}
		found[strings.Trim(obj.GetKind()+" "+obj.GetNamespace()+"/"+obj.GetName(), "/")] = obj
	}
	return found
}

// TestEveryObjectCanBeApplied checks that no object exceeds the size limit of `kubectl apply`.
func TestEveryObjectCanBeApplied(t *testing.T) {
	for id, obj := range renderObjects(t, "cluster-wide") {
		json, err := obj.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if len(json) > maxAnnotationBytes {
			t.Errorf("%s has %d bytes, more than the %d that client-side `kubectl apply` can store", id, len(json), maxAnnotationBytes)
		}
	}
}

// TestOverlaysDifferOnlyInRBAC checks that switching between the overlays changes only permissions and flags.
func TestOverlaysDifferOnlyInRBAC(t *testing.T) {
	wide, namespaced := renderObjects(t, "cluster-wide"), renderObjects(t, "namespaced")
	onlyIn := func(a, b map[string]*unstructured.Unstructured) []string {
		var ids []string
		for _, id := range slices.Sorted(maps.Keys(a)) {
			if b[id] == nil {
				ids = append(ids, id)
			}
		}
		return ids
	}
	if diff := cmp.Diff([]string{"ClusterRole /holdfast-operator", "ClusterRoleBinding /holdfast-center", "ClusterRoleBinding /holdfast-operator"}, onlyIn(wide, namespaced)); diff != "" {
		t.Errorf("only in cluster-wide (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{
		"ClusterRole /holdfast-operator-reviews", "ClusterRoleBinding /holdfast-operator-reviews",
		"Role team-a/holdfast-operator", "RoleBinding team-a/holdfast-center", "RoleBinding team-a/holdfast-operator",
	}, onlyIn(namespaced, wide)); diff != "" {
		t.Errorf("only in namespaced (-want +got):\n%s", diff)
	}
	for id, obj := range wide {
		if namespaced[id] == nil || obj.GetKind() == "Deployment" {
			continue
		}
		if diff := cmp.Diff(obj.Object, namespaced[id].Object); diff != "" {
			t.Errorf("%s (-cluster-wide +namespaced):\n%s", id, diff)
		}
	}
}

// TestNamespacedRBACMatchesClusterWide checks that the namespaced and the cluster-scoped permissions of the namespaced
// overlay add up to the permissions of the cluster-wide overlay.
func TestNamespacedRBACMatchesClusterWide(t *testing.T) {
	wide, namespaced := renderObjects(t, "cluster-wide"), renderObjects(t, "namespaced")
	want := verbsByResource(t, wide["ClusterRole /holdfast-operator"])
	inNamespace, clusterScoped := verbsByResource(t, namespaced["Role team-a/holdfast-operator"]), verbsByResource(t, namespaced["ClusterRole /holdfast-operator-reviews"])
	combined := maps.Clone(inNamespace)
	maps.Copy(combined, clusterScoped)
	if diff := cmp.Diff(want, combined); diff != "" {
		t.Errorf("cluster-wide permissions, and namespaced plus cluster-scoped permissions (-want +got):\n%s", diff)
	}
	for resource := range inNamespace {
		if clusterScoped[resource] != "" {
			t.Errorf("%s is granted both in the namespace and cluster-wide", resource)
		}
	}
}

// verbsByResource returns the verbs of a role by resource.
func verbsByResource(t *testing.T, role *unstructured.Unstructured) map[string]string {
	t.Helper()
	if role == nil {
		t.Fatal("the role is missing")
	}
	var r rbacv1.ClusterRole
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(role.Object, &r); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, rule := range r.Rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				objects := rule.ResourceNames
				if len(objects) == 0 {
					objects = []string{""} // all
				}
				for _, object := range objects {
					name := strings.TrimSpace(strings.TrimSuffix(resource+"."+group, ".") + " " + object)
					if found[name] != "" {
						t.Errorf("%s is granted twice in %s", name, r.Name)
					}
					found[name] = strings.Join(rule.Verbs, ", ")
				}
			}
		}
	}
	return found
}

// TestRightsAreDocumented compares the tables of docs/reference/operator.md with the roles.
func TestRightsAreDocumented(t *testing.T) {
	documented := documentedVerbs(t, "../reference/operator.md")
	wide := renderObjects(t, "cluster-wide")
	for resource, verbs := range verbsByResource(t, wide["ClusterRole /holdfast-operator"]) {
		if documented[resource] != verbs {
			t.Errorf("docs/reference/operator.md documents %q for %s, the ClusterRole grants %q", documented[resource], resource, verbs)
		}
	}
	for resource, verbs := range verbsByResource(t, wide["Role "+namespace+"/holdfast-operator"]) {
		if own := resource + " of its own namespace"; documented[own] != verbs {
			t.Errorf("docs/reference/operator.md documents %q for %s, the Role grants %q", documented[own], own, verbs)
		}
	}
}

// documentedVerbs returns the verbs by resource from the permission tables of a page.
func documentedVerbs(t *testing.T, name string) map[string]string {
	t.Helper()
	page, err := os.ReadFile(root + "/docs/user/" + name)
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{}
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 {
			continue
		}
		for resource := range strings.SplitSeq(strings.ReplaceAll(cells[1], "`", ""), ",") {
			documented[strings.TrimSpace(resource)] += strings.TrimSpace(cells[2])
		}
	}
	return documented
}

// TestUserRolesAggregateToViewAndEdit checks that the ClusterRoles view and edit include all Holdfast kinds.
func TestUserRolesAggregateToViewAndEdit(t *testing.T) {
	all := renderObjects(t, "cluster-wide")
	for _, crd := range all {
		if crd.GetKind() != "CustomResourceDefinition" {
			continue
		}
		plural, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "plural")
		singular, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "singular")
		for suffix, want := range map[string]struct{ label, verbs string }{
			"viewer": {"rbac.authorization.k8s.io/aggregate-to-view", "get, list, watch"},
			"editor": {"rbac.authorization.k8s.io/aggregate-to-edit", "create, delete, deletecollection, get, list, patch, update, watch"},
		} {
			role := all["ClusterRole /holdfast-"+singular+"-"+suffix]
			if role == nil || role.GetLabels()[want.label] != "true" {
				t.Errorf("missing ClusterRole holdfast-%s-%s with label %s", singular, suffix, want.label)
				continue
			}
			if got := verbsByResource(t, role)[plural+".apps.holdfast.dev"]; got != want.verbs {
				t.Errorf("%s grants %q on %s, want %q", role.GetName(), got, plural, want.verbs)
			}
		}
	}
}

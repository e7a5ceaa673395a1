// Package install shows that what we ship can be installed: the manifests that `make dist` and
// the overlays render, the rights they grant, and the documentation of these.
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
	// maxAnnotationBytes is what an API server accepts as annotations of an object: client-side
	// `kubectl apply` keeps the whole object in one of them.
	maxAnnotationBytes = 256 * 1024
)

// render builds an overlay with the kustomize that `make dist` uses.
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

// renderObjects are the rendered ones, by kind, namespace and name.
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

// TestEveryObjectCanBeApplied holds the sizes against what both ways of `kubectl apply` can
// store.
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

// TestOverlaysDifferOnlyInRBAC: whoever moves from one to the other finds the rest as
// it was.
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
		t.Errorf("what only the whole cluster has (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{
		"ClusterRole /holdfast-operator-reviews", "ClusterRoleBinding /holdfast-operator-reviews",
		"Role team-a/holdfast-operator", "RoleBinding team-a/holdfast-center", "RoleBinding team-a/holdfast-operator",
	}, onlyIn(namespaced, wide)); diff != "" {
		t.Errorf("what only some namespaces have (-want +got):\n%s", diff)
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

// TestNamespacedRBACMatchesClusterWide: what the operator may do in all namespaces, it may do in one
// with the rights of a namespace and those that belong to none.
func TestNamespacedRBACMatchesClusterWide(t *testing.T) {
	wide, namespaced := renderObjects(t, "cluster-wide"), renderObjects(t, "namespaced")
	want := verbsByResource(t, wide["ClusterRole /holdfast-operator"])
	inNamespace, clusterScoped := verbsByResource(t, namespaced["Role team-a/holdfast-operator"]), verbsByResource(t, namespaced["ClusterRole /holdfast-operator-reviews"])
	combined := maps.Clone(inNamespace)
	maps.Copy(combined, clusterScoped)
	if diff := cmp.Diff(want, combined); diff != "" {
		t.Errorf("rights of the whole cluster, and those of a namespace together with those of none (-want +got):\n%s", diff)
	}
	for resource := range inNamespace {
		if clusterScoped[resource] != "" {
			t.Errorf("%s is granted in the namespace and outside", resource)
		}
	}
}

// verbsByResource are the verbs of a role, by resource.
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
				name := strings.TrimSuffix(resource+"."+group, ".")
				if found[name] != "" {
					t.Errorf("%s is granted twice in %s", name, r.Name)
				}
				found[name] = strings.Join(rule.Verbs, ", ")
			}
		}
	}
	return found
}

// TestRightsAreDocumented compares the tables of docs/user/install.md with the roles.
func TestRightsAreDocumented(t *testing.T) {
	documented := documentedVerbs(t, "install.md")
	wide := renderObjects(t, "cluster-wide")
	for resource, verbs := range verbsByResource(t, wide["ClusterRole /holdfast-operator"]) {
		if documented[resource] != verbs {
			t.Errorf("docs/user/install.md says %q about %s, the ClusterRole says %q", documented[resource], resource, verbs)
		}
	}
	for resource, verbs := range verbsByResource(t, wide["Role "+namespace+"/holdfast-operator"]) {
		if own := resource + " of its own namespace"; documented[own] != verbs {
			t.Errorf("docs/user/install.md says %q about %s, the Role says %q", documented[own], own, verbs)
		}
	}
}

// documentedVerbs are the tables of a page with a resource, its verbs and why.
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

// TestUserRolesAggregateToViewAndEdit: whoever may view or edit a namespace may do so with every kind of ours.
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
				t.Errorf("no ClusterRole holdfast-%s-%s with label %s", singular, suffix, want.label)
				continue
			}
			if got := verbsByResource(t, role)[plural+".apps.holdfast.dev"]; got != want.verbs {
				t.Errorf("%s may %q %s, want %q", role.GetName(), got, plural, want.verbs)
			}
		}
	}
}

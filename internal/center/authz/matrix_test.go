package authz_test

import (
	"fmt"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/holdfast-dev/holdfast/internal/center/authz"
)

const appsGroup = "apps.holdfast.dev"

// impersonate returns a configuration that impersonates a ServiceAccount, built from its name only and not from
// results of the package under test.
func (w *world) impersonate(namespace, name string) *rest.Config {
	c := rest.CopyConfig(w.plane.Config)
	c.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + namespace + ":" + name,
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
	}
	return c
}

// createServiceAccounts creates twenty ServiceAccounts with all kinds of permissions. The accounts in team have
// the permissions of the group of their namespace.
func (w *world) createServiceAccounts(t *testing.T) map[[2]string]authz.Token {
	rule := func(verbs, groups, resources []string, names ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{Verbs: verbs, APIGroups: groups, Resources: resources, ResourceNames: names}
	}
	list, get, all := []string{"list"}, []string{"get"}, []string{"*"}
	core, apps := []string{""}, []string{"apps"}
	roles := map[string]rbacv1.PolicyRule{
		"m-list-pods":     rule(list, core, []string{"pods"}),
		"m-get-pods":      rule(get, core, []string{"pods"}),
		"m-watch-pods":    rule([]string{"watch"}, core, []string{"pods"}),
		"m-one":           rule([]string{"get", "list"}, core, []string{"configmaps"}, "one"),
		"m-all-core":      rule(list, core, all),
		"m-all-groups":    rule(list, all, all),
		"m-everything":    rule(all, all, all),
		"m-verbs-pods":    rule(all, core, []string{"pods"}),
		"m-logs":          rule(get, core, []string{"pods/log"}),
		"m-subresources":  rule(all, core, []string{"pods/*"}),
		"m-nodes":         rule(list, core, []string{"nodes"}),
		"m-deployments":   rule([]string{"list", "patch"}, apps, []string{"deployments", "deployments/scale"}),
		"m-services":      rule(list, core, []string{"services"}),
		"m-our-kinds":     rule([]string{"list", "create"}, []string{appsGroup}, []string{"appservices"}),
		"m-all-of-a-kind": rule(list, all, []string{"deployments"}),
	}
	for name, r := range roles {
		w.clusterRole(t, name, r)
	}
	type binding struct {
		role       string
		namespaces []string // empty: cluster-wide
	}
	accounts := []struct {
		namespace, name string
		bindings        []binding
	}{
		{"m-solo", "nobody", nil},
		{"m-solo", "admin", []binding{{"cluster-admin", nil}}},
		{"m-solo", "viewer", []binding{{"view", nil}}},
		{"m-solo", "viewer-of-c", []binding{{"view", []string{"m-c"}}}},
		{"m-solo", "lister", []binding{{"m-list-pods", nil}}},
		{"m-solo", "getter", []binding{{"m-get-pods", nil}}},
		{"m-solo", "watcher", []binding{{"m-watch-pods", nil}}},
		{"m-solo", "lister-of-a", []binding{{"m-list-pods", []string{"m-a"}}}},
		{"m-solo", "lister-of-two", []binding{{"m-list-pods", []string{"m-a", "m-b"}}, {"m-services", []string{"m-b"}}}},
		{"m-solo", "one-name", []binding{{"m-one", []string{"m-a"}}}},
		{"m-solo", "all-core-of-b", []binding{{"m-all-core", []string{"m-b"}}}},
		{"m-solo", "all-groups", []binding{{"m-all-groups", nil}}},
		{"m-solo", "everything-in-c", []binding{{"m-everything", []string{"m-c"}}}},
		{"m-solo", "logs", []binding{{"m-logs", []string{"m-a"}}, {"m-verbs-pods", []string{"m-d"}}}},
		{"m-solo", "subresources", []binding{{"m-subresources", []string{"m-a"}}}},
		{"m-solo", "nodes", []binding{{"m-nodes", nil}}},
		{"m-solo", "dangling", []binding{{"m-no-such-role", nil}, {"m-no-such-role", []string{"m-a"}}, {"m-list-pods", []string{"m-b"}}}},
		{"m-solo", "ours", []binding{{"m-our-kinds", []string{"m-b"}}, {"m-all-of-a-kind", []string{"m-d"}}}},
		{"m-team", "member", nil},
		{"m-team", "member-and-more", []binding{{"m-list-pods", []string{"m-c"}}, {"edit", []string{"m-a"}}}},
	}
	tokens := map[[2]string]authz.Token{}
	for _, p := range accounts {
		tokens[[2]string{p.namespace, p.name}] = w.serviceAccount(t, p.namespace, p.name)
		for i, b := range p.bindings {
			if b.namespaces == nil {
				w.bindCluster(t, fmt.Sprintf("%s-%s-%d", p.namespace, p.name, i), b.role, subject(p.namespace, p.name))
				continue
			}
			w.bind(t, b.role, subject(p.namespace, p.name), b.namespaces...)
		}
	}
	w.bind(t, "m-deployments", group("system:serviceaccounts:m-team"), "m-c")
	w.bind(t, "m-services", group("system:serviceaccounts"), "m-d")
	w.bindCluster(t, "m-authenticated", "m-our-kinds", group("m-nobody-is-in-this"))
	return tokens
}

// allAttributes returns fifty requests: lists in four namespaces and cluster-wide, and others.
func allAttributes() []authz.Attributes {
	var all []authz.Attributes
	for _, ns := range []string{"m-a", "m-b", "m-c", "m-d", "m-never-made", ""} {
		for _, resource := range []string{"pods", "services", "configmaps", "secrets"} {
			all = append(all, authz.Attributes{Verb: "list", Resource: resource, Namespace: ns})
		}
		all = append(all, authz.Attributes{Verb: "list", Group: "apps", Resource: "deployments", Namespace: ns},
			authz.Attributes{Verb: "list", Group: appsGroup, Resource: "appservices", Namespace: ns})
	}
	return append(all,
		authz.Attributes{Verb: "list", Resource: "nodes"},
		authz.Attributes{Verb: "get", Resource: "configmaps", Namespace: "m-a", Name: "one"},
		authz.Attributes{Verb: "get", Resource: "configmaps", Namespace: "m-a", Name: "two"},
		authz.Attributes{Verb: "list", Resource: "configmaps", Namespace: "m-a", Name: "one"},
		authz.Attributes{Verb: "get", Resource: "pods", Namespace: "m-a", Name: "x"},
		authz.Attributes{Verb: "get", Resource: "pods", Subresource: "log", Namespace: "m-a", Name: "x"},
		authz.Attributes{Verb: "get", Resource: "pods", Subresource: "log", Namespace: "m-b", Name: "x"},
		authz.Attributes{Verb: "watch", Resource: "pods", Namespace: "m-a"},
		authz.Attributes{Verb: "watch", Resource: "pods"},
		authz.Attributes{Verb: "create", Resource: "pods", Subresource: "exec", Namespace: "m-a", Name: "x"},
		authz.Attributes{Verb: "delete", Resource: "pods", Namespace: "m-d", Name: "x"},
		authz.Attributes{Verb: "patch", Group: "apps", Resource: "deployments", Subresource: "scale", Namespace: "m-c", Name: "web"},
		authz.Attributes{Verb: "patch", Group: "apps", Resource: "deployments", Namespace: "m-c", Name: "web"},
		authz.Attributes{Verb: "create", Group: appsGroup, Resource: "appservices", Namespace: "m-b"},
	)
}

// testAccessMatrix compares every result with the API server: with a SelfSubjectAccessReview as the user and, for
// lists, with the list request.
func (w *world) testAccessMatrix(t *testing.T) {
	tokens, questions := w.createServiceAccounts(t), allAttributes()
	if len(tokens) != 20 || len(questions) != 50 {
		t.Fatalf("got %d users and %d requests, want 20 and 50", len(tokens), len(questions))
	}
	w.waitForAccess(t, "the last binding", w.impersonate("m-solo", "nobody"),
		authorizationv1.ResourceAttributes{Verb: "list", Resource: "services", Namespace: "m-d"}, true)
	// The controller-manager aggregates the ClusterRole view from other roles.
	w.waitForAccess(t, "the ClusterRole view", w.impersonate("m-solo", "viewer"),
		authorizationv1.ResourceAttributes{Verb: "list", Resource: "pods"}, true)
	r, _ := newReviewer(t, w.centerConfig, authz.Options{})
	var yes, no, requests int
	for account, token := range tokens {
		user, err := r.Authenticate(t.Context(), token)
		if err != nil {
			t.Fatal(err)
		}
		viewer, err := r.StreamViewer(t.Context(), token)
		if err != nil {
			t.Fatal(err)
		}
		self := kubernetes.NewForConfigOrDie(w.impersonate(account[0], account[1])).AuthorizationV1().SelfSubjectAccessReviews()
		callerConfig, err := r.ConfigFor(token)
		if err != nil {
			t.Fatal(err)
		}
		client := dynamic.NewForConfigOrDie(callerConfig)
		for _, a := range questions {
			expected, err := self.Create(t.Context(), &authorizationv1.SelfSubjectAccessReview{
				Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
					Verb: a.Verb, Group: a.Group, Resource: a.Resource, Subresource: a.Subresource, Namespace: a.Namespace, Name: a.Name,
				}},
			}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			want := expected.Status.Allowed
			if got, err := r.Allowed(t.Context(), user, a); got != want || err != nil {
				t.Errorf("permission of %s to %s: got %t, %v; the API server returns %t", account[1], a, got, err, want)
			}
			if want {
				yes++
			} else {
				no++
			}
			if a.Verb != "list" || a.Name != "" {
				continue
			}
			if got := viewer.Allows(authz.Scope{Group: a.Group, Resource: a.Resource, Namespace: a.Namespace}); got != want {
				t.Errorf("%s sees %s: got %t; the API server returns %t", account[1], a, got, want)
			}
			if a.Group == appsGroup {
				continue // not served here: NotFound for all users
			}
			requests++
			_, err = client.Resource(schema.GroupVersionResource{Group: a.Group, Version: "v1", Resource: a.Resource}).
				Namespace(a.Namespace).List(t.Context(), metav1.ListOptions{})
			if got := err == nil; got != want || (err != nil && !apierrors.IsForbidden(err)) {
				t.Errorf("%s requested %s: %v; want allowed %t", account[1], a, err, want)
			}
		}
	}
	if yes < 100 || no < 100 {
		t.Errorf("got %d allowed and %d denied: too few for a meaningful test", yes, no)
	}
	t.Logf("%d results: %d allowed, %d denied; %d of them compared with real requests; %+v", yes+no, yes, no, requests, r.Stats())
}

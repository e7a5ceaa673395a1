package access_test

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

	"github.com/holdfast-dev/holdfast/internal/center/access"
)

const ours = "apps.holdfast.dev"

// impersonate acts as a service account, built from its name alone and not from what the
// package under test has found out about it.
func (w *world) impersonate(namespace, name string) *rest.Config {
	c := rest.CopyConfig(w.plane.Config)
	c.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + namespace + ":" + name,
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
	}
	return c
}

// everybody gives twenty service accounts rights of every kind. Those in team have what the
// group of their namespace has.
func (w *world) everybody(t *testing.T) map[[2]string]access.Token {
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
		"m-our-kinds":     rule([]string{"list", "create"}, []string{ours}, []string{"appservices"}),
		"m-all-of-a-kind": rule(list, all, []string{"deployments"}),
	}
	for name, r := range roles {
		w.clusterRole(t, name, r)
	}
	type binding struct {
		role       string
		namespaces []string // none: everywhere
	}
	people := []struct {
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
	tokens := map[[2]string]access.Token{}
	for _, p := range people {
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

// things are fifty questions: what can be listed in four namespaces and everywhere, and others.
func things() []access.Attributes {
	var all []access.Attributes
	for _, ns := range []string{"m-a", "m-b", "m-c", "m-d", "m-never-made", ""} {
		for _, resource := range []string{"pods", "services", "configmaps", "secrets"} {
			all = append(all, access.Attributes{Verb: "list", Resource: resource, Namespace: ns})
		}
		all = append(all, access.Attributes{Verb: "list", Group: "apps", Resource: "deployments", Namespace: ns},
			access.Attributes{Verb: "list", Group: ours, Resource: "appservices", Namespace: ns})
	}
	return append(all,
		access.Attributes{Verb: "list", Resource: "nodes"},
		access.Attributes{Verb: "get", Resource: "configmaps", Namespace: "m-a", Name: "one"},
		access.Attributes{Verb: "get", Resource: "configmaps", Namespace: "m-a", Name: "two"},
		access.Attributes{Verb: "list", Resource: "configmaps", Namespace: "m-a", Name: "one"},
		access.Attributes{Verb: "get", Resource: "pods", Namespace: "m-a", Name: "x"},
		access.Attributes{Verb: "get", Resource: "pods", Subresource: "log", Namespace: "m-a", Name: "x"},
		access.Attributes{Verb: "get", Resource: "pods", Subresource: "log", Namespace: "m-b", Name: "x"},
		access.Attributes{Verb: "watch", Resource: "pods", Namespace: "m-a"},
		access.Attributes{Verb: "watch", Resource: "pods"},
		access.Attributes{Verb: "create", Resource: "pods", Subresource: "exec", Namespace: "m-a", Name: "x"},
		access.Attributes{Verb: "delete", Resource: "pods", Namespace: "m-d", Name: "x"},
		access.Attributes{Verb: "patch", Group: "apps", Resource: "deployments", Subresource: "scale", Namespace: "m-c", Name: "web"},
		access.Attributes{Verb: "patch", Group: "apps", Resource: "deployments", Namespace: "m-c", Name: "web"},
		access.Attributes{Verb: "create", Group: ours, Resource: "appservices", Namespace: "m-b"},
	)
}

// matrix holds every answer against what the API server says to the user itself: to a question
// in the user's name and, for what can be listed, to the request.
func (w *world) matrix(t *testing.T) {
	tokens, questions := w.everybody(t), things()
	if len(tokens) != 20 || len(questions) != 50 {
		t.Fatalf("got %d users and %d questions, want 20 and 50", len(tokens), len(questions))
	}
	w.waitFor(t, "the last binding", w.impersonate("m-solo", "nobody"),
		authorizationv1.ResourceAttributes{Verb: "list", Resource: "services", Namespace: "m-d"}, true)
	// The controller-manager puts view together from other roles.
	w.waitFor(t, "the role view", w.impersonate("m-solo", "viewer"), authorizationv1.ResourceAttributes{Verb: "list", Resource: "pods"}, true)
	r, _ := newReviewer(t, w.center, access.Options{})
	var yes, no, requests int
	for who, token := range tokens {
		user, err := r.Authenticate(t.Context(), token)
		if err != nil {
			t.Fatal(err)
		}
		sight, err := r.Follow(t.Context(), token)
		if err != nil {
			t.Fatal(err)
		}
		self := kubernetes.NewForConfigOrDie(w.impersonate(who[0], who[1])).AuthorizationV1().SelfSubjectAccessReviews()
		own, err := r.ConfigFor(token)
		if err != nil {
			t.Fatal(err)
		}
		client := dynamic.NewForConfigOrDie(own)
		for _, a := range questions {
			truth, err := self.Create(t.Context(), &authorizationv1.SelfSubjectAccessReview{
				Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
					Verb: a.Verb, Group: a.Group, Resource: a.Resource, Subresource: a.Subresource, Namespace: a.Namespace, Name: a.Name,
				}},
			}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			want := truth.Status.Allowed
			if got, err := r.Allowed(t.Context(), user, a); got != want || err != nil {
				t.Errorf("%s may %s: got %t, %v; the API server says %t", who[1], a, got, err, want)
			}
			if want {
				yes++
			} else {
				no++
			}
			if a.Verb != "list" || a.Name != "" {
				continue
			}
			if got := sight.Sees(access.Scope{Group: a.Group, Resource: a.Resource, Namespace: a.Namespace}); got != want {
				t.Errorf("%s sees %s: got %t; the API server says %t", who[1], a, got, want)
			}
			if a.Group == ours {
				continue // not served here: everybody gets NotFound
			}
			requests++
			_, err = client.Resource(schema.GroupVersionResource{Group: a.Group, Version: "v1", Resource: a.Resource}).
				Namespace(a.Namespace).List(t.Context(), metav1.ListOptions{})
			if got := err == nil; got != want || (err != nil && !apierrors.IsForbidden(err)) {
				t.Errorf("%s did %s: %v; want allowed %t", who[1], a, err, want)
			}
		}
	}
	if yes < 100 || no < 100 {
		t.Errorf("got %d yes and %d no: too few of one to show anything", yes, no)
	}
	t.Logf("%d answers: %d yes, %d no; %d of them held against real requests; %+v", yes+no, yes, no, requests, r.Stats())
}

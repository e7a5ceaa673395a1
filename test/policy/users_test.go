package policy_test

import (
	"slices"
	"strings"

	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// children are all kinds that applications make, in the order in which they are asked for.
var children = []string{
	"pods",
	"deployments.apps",
	"statefulsets.apps",
	"persistentvolumeclaims",
	"jobs.batch",
	"cronjobs.batch",
	"services",
	"secrets",
	"configmaps",
	"horizontalpodautoscalers.autoscaling",
	"poddisruptionbudgets.policy",
	"ingresses.networking.k8s.io",
	"httproutes.gateway.networking.k8s.io",
}

// anybody are all ServiceAccounts.
const anybody = "*"

// user may write applications in shop, and more.
type user struct {
	name     string
	may      []string // create
	accounts []string // impersonate
	role     string   // instead of rules of its own
}

// users are one with all rights, one for each right that is missing, and some that have a
// right and not quite.
func users() []user {
	all := []user{
		{name: "owner", may: children, accounts: []string{anybody}},
		{name: "writer"}, // applications and nothing else
		{name: "no-account", may: children},
		{name: "named-account", may: children, accounts: []string{"robot"}},
		{name: "other-account", may: children, accounts: []string{"guest"}},
		{name: "many-accounts", may: children, accounts: accountNames(9)},
		// Kubernetes' own role, which has everything that Kubernetes itself knows.
		{name: "editor", may: without("httproutes.gateway.networking.k8s.io"), accounts: []string{anybody}, role: "edit"},
		{name: "stranger"}, // has all rights, elsewhere
	}
	for _, kind := range children {
		name, _, _ := strings.Cut(kind, ".")
		all = append(all, user{name: "no-" + name, may: without(kind), accounts: []string{anybody}})
	}
	return all
}

func without(kind string) []string {
	return slices.DeleteFunc(slices.Clone(children), func(k string) bool { return k == kind })
}

// grant gives a user their rights.
func (w *world) grant(u user) {
	w.t.Helper()
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: u.role}
	if u.role == "" {
		ref = w.role(shop, u)
	}
	w.bind(shop, u.name, ref)
	if u.name == "stranger" {
		w.bind(elsewhere, u.name, w.role(elsewhere, user{name: u.name, may: children, accounts: []string{anybody}}))
	}
}

func (w *world) role(ns string, u user) rbacv1.RoleRef {
	w.t.Helper()
	rules := []rbacv1.PolicyRule{{
		APIGroups: []string{"apps.holdfast.dev"},
		Resources: []string{
			"appservices", "appservices/scale", "appservices/status", "appstacks", "appstacks/status", "cloudmanagers", "cloudmanagers/status",
		},
		Verbs: []string{"create", "delete", "get", "patch", "update"},
	}}
	for _, kind := range u.may {
		resource, group, _ := strings.Cut(kind, ".")
		rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: []string{"create"}})
	}
	if len(u.accounts) > 0 {
		rule := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, Verbs: []string{"impersonate"}}
		if !slices.Contains(u.accounts, anybody) {
			rule.ResourceNames = u.accounts
		}
		rules = append(rules, rule)
	}
	w.create(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: u.name}, Rules: rules})
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: u.name}
}

func (w *world) bind(ns, user string, ref rbacv1.RoleRef) {
	w.t.Helper()
	w.create(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: user},
		RoleRef:    ref,
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	})
}

// awaitRights returns when the API server has seen the role of every user: the last of its
// rules counts.
func (w *world) awaitRights() {
	w.t.Helper()
	for _, u := range users() {
		for _, ns := range []string{shop, elsewhere} {
			if ns == elsewhere && u.name != "stranger" {
				continue
			}
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User: u.name,
				ResourceAttributes: &authorizationv1.ResourceAttributes{
					Namespace: ns, Verb: "create", Group: "apps.holdfast.dev", Resource: "appservices",
				},
			}}
			w.Eventually(func() (bool, error) {
				answer := review.DeepCopy()
				err := w.admin.Create(w.t.Context(), answer)
				return answer.Status.Allowed, err
			}, soon, "50ms").Should(BeTrueBecause("%s may write applications in %s", u.name, ns))
		}
	}
}

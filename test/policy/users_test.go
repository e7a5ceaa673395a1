package policy_test

import (
	"slices"
	"strings"

	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// childResources are the resources of all children, in the order in which the policy checks them.
var childResources = []string{
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

// dataResources are the resources that deletionPolicy Delete deletes.
var dataResources = []string{"persistentvolumeclaims", "secrets"}

// allServiceAccounts means all ServiceAccounts.
const allServiceAccounts = "*"

// user is allowed to write applications in namespace shop, and has more permissions.
type user struct {
	name           string
	canCreate      []string // resources
	canDelete      []string // resources
	canImpersonate []string // ServiceAccounts
	clusterRole    string   // replaces the generated Role
}

// users returns a user with all permissions, one user per missing permission, and users with similar but
// insufficient permissions.
func users() []user {
	all := []user{
		{name: "owner", canCreate: childResources, canDelete: dataResources, canImpersonate: []string{allServiceAccounts}},
		{name: "writer"}, // only applications
		{name: "no-account", canCreate: childResources},
		{name: "named-account", canCreate: childResources, canImpersonate: []string{"robot"}},
		{name: "other-account", canCreate: childResources, canImpersonate: []string{"guest"}},
		{name: "many-accounts", canCreate: childResources, canImpersonate: serviceAccountNames(9)},
		// The built-in ClusterRole, which covers all built-in resources.
		{name: "editor", canCreate: allChildrenBut("httproutes.gateway.networking.k8s.io"), canDelete: dataResources, canImpersonate: []string{allServiceAccounts}, clusterRole: "edit"},
		{name: "no-delete-claims", canCreate: childResources, canDelete: []string{"secrets"}, canImpersonate: []string{allServiceAccounts}},
		{name: "no-delete-secrets", canCreate: childResources, canDelete: []string{"persistentvolumeclaims"}, canImpersonate: []string{allServiceAccounts}},
		{name: "stranger"}, // has all permissions in another namespace
	}
	for _, kind := range childResources {
		name, _, _ := strings.Cut(kind, ".")
		all = append(all, user{name: "no-" + name, canCreate: allChildrenBut(kind), canImpersonate: []string{allServiceAccounts}})
	}
	return all
}

func allChildrenBut(kind string) []string {
	return slices.DeleteFunc(slices.Clone(childResources), func(k string) bool { return k == kind })
}

// grant grants a user the permissions.
func (w *world) grant(u user) {
	w.t.Helper()
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: u.clusterRole}
	if u.clusterRole == "" {
		ref = w.createRole(shopNamespace, u)
	}
	w.bindRole(shopNamespace, u.name, ref)
	if u.name == "stranger" {
		w.bindRole(otherNamespace, u.name, w.createRole(otherNamespace, user{name: u.name, canCreate: childResources, canImpersonate: []string{allServiceAccounts}}))
	}
}

func (w *world) createRole(ns string, u user) rbacv1.RoleRef {
	w.t.Helper()
	rules := []rbacv1.PolicyRule{{
		APIGroups: []string{"apps.holdfast.dev"},
		Resources: []string{
			"appservices", "appservices/scale", "appservices/status", "appstacks", "appstacks/status", "cloudmanagers", "cloudmanagers/status",
		},
		Verbs: []string{"create", "delete", "get", "patch", "update"},
	}}
	for _, kind := range u.canCreate {
		resource, group, _ := strings.Cut(kind, ".")
		rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: []string{"create"}})
	}
	if len(u.canDelete) > 0 {
		rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: u.canDelete, Verbs: []string{"delete"}})
	}
	if len(u.canImpersonate) > 0 {
		rule := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, Verbs: []string{"impersonate"}}
		if !slices.Contains(u.canImpersonate, allServiceAccounts) {
			rule.ResourceNames = u.canImpersonate
		}
		rules = append(rules, rule)
	}
	w.create(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: u.name}, Rules: rules})
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: u.name}
}

func (w *world) bindRole(ns, user string, ref rbacv1.RoleRef) {
	w.t.Helper()
	w.create(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: user},
		RoleRef:    ref,
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	})
}

// waitForRights waits until the RBAC cache of the API server contains the role of every user, by checking its last
// rule.
func (w *world) waitForRights() {
	w.t.Helper()
	for _, u := range users() {
		for _, ns := range []string{shopNamespace, otherNamespace} {
			if ns == otherNamespace && u.name != "stranger" {
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
			}, waitTimeout, "50ms").Should(BeTrueBecause("%s is allowed to write applications in %s", u.name, ns))
		}
	}
}

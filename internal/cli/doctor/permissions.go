package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/internal/appkind"
)

// Common sets of verbs.
var (
	writeVerbs = []string{"create", "delete", "get", "list", "patch", "watch"}
	readVerbs  = []string{"get", "list", "watch"}
)

// applicationRules are the permissions that the operator requires in the namespaces of applications. A
// test compares them with config/rbac. They are not read from the cluster, where roles may have been edited.
var applicationRules = []rbacv1.PolicyRule{
	{APIGroups: []string{""}, Resources: []string{"configmaps", "secrets", "services"}, Verbs: writeVerbs},
	{APIGroups: []string{""}, Resources: []string{"persistentvolumeclaims"}, Verbs: []string{"delete", "get", "list", "patch", "watch"}},
	{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"delete", "list", "watch"}},
	{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"list"}},
	{APIGroups: []string{"apps"}, Resources: []string{"controllerrevisions", "deployments", "statefulsets"}, Verbs: writeVerbs},
	{APIGroups: []string{"apps.holdfast.dev"}, Resources: []string{"appservices"}, Verbs: readVerbs},
	{APIGroups: []string{"apps.holdfast.dev"}, Resources: []string{"appstacks", "cloudmanagers"}, Verbs: append([]string{"patch"}, readVerbs...)},
	{APIGroups: []string{"apps.holdfast.dev"}, Resources: []string{"appservices/finalizers", "appstacks/finalizers", "cloudmanagers/finalizers"}, Verbs: []string{"update"}},
	{APIGroups: []string{"apps.holdfast.dev"}, Resources: []string{"appservices/status", "appstacks/status", "cloudmanagers/status"}, Verbs: []string{"patch"}},
	{APIGroups: []string{"autoscaling"}, Resources: []string{"horizontalpodautoscalers"}, Verbs: writeVerbs},
	{APIGroups: []string{"batch"}, Resources: []string{"cronjobs", "jobs"}, Verbs: writeVerbs},
	{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
	{APIGroups: []string{"gateway.networking.k8s.io"}, Resources: []string{"httproutes"}, Verbs: writeVerbs},
	{APIGroups: []string{"networking.k8s.io"}, Resources: []string{"ingresses"}, Verbs: writeVerbs},
	{APIGroups: []string{"policy"}, Resources: []string{"poddisruptionbudgets"}, Verbs: writeVerbs},
}

// clusterRules are the cluster-scoped permissions, leaseNamespaceRules those in the namespace of the Lease.
var (
	clusterRules = []rbacv1.PolicyRule{
		{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"tokenreviews"}, Verbs: []string{"create"}},
		{APIGroups: []string{"authorization.k8s.io"}, Resources: []string{"subjectaccessreviews"}, Verbs: []string{"create"}},
	}
	leaseNamespaceRules = []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
		{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"create"}},
		{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"holdfast-content-key", "holdfast-database-ca"}, Verbs: []string{"get"}},
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"create", "get", "update"}},
	}
)

// accessAttributes returns an access review for each permission of the rules. An empty namespace means
// all namespaces.
func accessAttributes(namespace string, rules []rbacv1.PolicyRule) []authorizationv1.ResourceAttributes {
	var out []authorizationv1.ResourceAttributes
	for _, r := range rules {
		for _, group := range r.APIGroups {
			for _, resource := range r.Resources {
				resource, sub, _ := strings.Cut(resource, "/")
				names := r.ResourceNames
				if len(names) == 0 {
					names = []string{""} // all
				}
				for _, name := range names {
					for _, verb := range r.Verbs {
						out = append(out, authorizationv1.ResourceAttributes{Namespace: namespace, Group: group, Resource: resource, Subresource: sub, Name: name, Verb: verb})
					}
				}
			}
		}
	}
	return out
}

// maxConcurrentReviews limits concurrent access reviews.
const maxConcurrentReviews = 16

// denied runs all access reviews and returns the denied permissions, sorted.
func denied(ctx context.Context, attributes []authorizationv1.ResourceAttributes, isAllowed func(context.Context, *authorizationv1.ResourceAttributes) (bool, error)) ([]string, error) {
	var mutex sync.Mutex
	var out []string
	// The first review finds out whether the caller can create reviews at all. Canceling concurrent
	// reviews instead would make client-go log warnings.
	if len(attributes) > 0 {
		if _, err := isAllowed(ctx, &attributes[0]); err != nil {
			return nil, err
		}
	}
	var group errgroup.Group
	group.SetLimit(maxConcurrentReviews)
	for i := range attributes {
		group.Go(func() error {
			allowed, err := isAllowed(ctx, &attributes[i])
			if err != nil || allowed {
				return err
			}
			mutex.Lock()
			defer mutex.Unlock()
			out = append(out, describeAccess(&attributes[i]))
			return nil
		})
	}
	err := group.Wait()
	slices.Sort(out)
	return out, err
}

func describeAccess(a *authorizationv1.ResourceAttributes) string {
	resource := a.Resource
	if a.Group != "" {
		resource += "." + a.Group
	}
	if a.Subresource != "" {
		resource += "/" + a.Subresource
	}
	text := a.Verb + " " + resource
	if a.Name != "" {
		text += " " + a.Name
	}
	if a.Namespace != "" {
		text += " in namespace " + a.Namespace
	}
	return text
}

// abbreviate joins the first items of a list.
func abbreviate(list []string) string {
	const maxListed = 4
	if len(list) <= maxListed {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:maxListed], ", "), len(list)-maxListed)
}

// checkOperatorPermissions checks whether the operator has all required permissions.
func (e *checker) checkOperatorPermissions(ctx context.Context) {
	const check = "operator permissions"
	if e.operatorInfo.serviceAccount == "" {
		e.add(check, Unknown, "not checked: operator not found", "see above")
		return
	}
	all := accessAttributes("", clusterRules)
	if e.operatorInfo.leaseNamespace != "" {
		all = append(all, accessAttributes(e.operatorInfo.leaseNamespace, leaseNamespaceRules)...)
	}
	if len(e.operatorInfo.namespaces) == 0 {
		all = append(all, accessAttributes("", applicationRules)...)
	}
	for _, ns := range e.operatorInfo.namespaces {
		all = append(all, accessAttributes(strings.TrimSpace(ns), applicationRules)...)
	}
	missing, err := denied(ctx, all, e.operatorCan)
	isClusterWide := false
	if err == nil && len(missing) == 0 && len(e.operatorInfo.namespaces) > 0 {
		isClusterWide, err = e.operatorCan(ctx, &authorizationv1.ResourceAttributes{Resource: "secrets", Verb: "list"})
	}
	switch {
	case apierrors.IsForbidden(err):
		e.add(check, Unknown, "not checked: no permission to create subjectaccessreviews.authorization.k8s.io",
			"ask a cluster administrator to run this")
	case err != nil:
		e.addUnknown(check, err)
	case len(missing) > 0:
		e.add(check, Problem, fmt.Sprintf("ServiceAccount %s/%s cannot %s",
			e.operatorNamespace, e.operatorInfo.serviceAccount, abbreviate(missing)),
			"reapply dist/install.yaml of the installed operator version, which contains the required roles")
	case isClusterWide:
		e.add(check, Problem, fmt.Sprintf("ServiceAccount %s/%s can read the Secrets of all namespaces, but the operator watches only %s: "+
			"the permissions of a cluster-wide installation remain", e.operatorNamespace, e.operatorInfo.serviceAccount, abbreviate(e.operatorInfo.namespaces)),
			"delete them: kubectl delete clusterrolebinding holdfast-operator holdfast-center")
	default:
		e.add(check, OK, fmt.Sprintf("ServiceAccount %s/%s has all %d required permissions",
			e.operatorNamespace, e.operatorInfo.serviceAccount, len(all)), "")
	}
}

// operatorCan asks whether the ServiceAccount of the operator has a permission.
func (e *checker) operatorCan(ctx context.Context, a *authorizationv1.ResourceAttributes) (bool, error) {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:   fmt.Sprintf("system:serviceaccount:%s:%s", e.operatorNamespace, e.operatorInfo.serviceAccount),
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + e.operatorNamespace, "system:authenticated"}, ResourceAttributes: a,
	}}
	result, err := e.kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return result.Status.Allowed, nil
}

// pluginRules are the permissions that the commands of the plugin require.
func pluginRules() []rbacv1.PolicyRule {
	var resources []string
	for _, k := range appkind.Builtin {
		resources = append(resources, k.Aliases[0])
	}
	list := []string{"list"}
	return []rbacv1.PolicyRule{
		{APIGroups: []string{"apps.holdfast.dev"}, Resources: resources, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{""}, Resources: []string{"pods", "events", "services", "persistentvolumeclaims"}, Verbs: list},
		{APIGroups: []string{"apps"}, Resources: []string{"deployments", "statefulsets", "controllerrevisions"}, Verbs: list},
		{APIGroups: []string{"batch"}, Resources: []string{"jobs"}, Verbs: list},
	}
}

// checkCallerPermissions checks whether the caller has the permissions that the commands require.
func (e *checker) checkCallerPermissions(ctx context.Context) {
	const check = "your permissions"
	all := accessAttributes(e.callerNamespace, pluginRules())
	missing, err := denied(ctx, all, func(ctx context.Context, a *authorizationv1.ResourceAttributes) (bool, error) {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: a}}
		result, err := e.kube.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return false, err
		}
		return result.Status.Allowed, nil
	})
	switch {
	case err != nil && !errors.Is(err, context.Canceled):
		e.addUnknown(check, err)
	case len(missing) > 0:
		for i := range missing {
			missing[i] = strings.TrimSuffix(missing[i], " in namespace "+e.callerNamespace)
		}
		e.add(check, Problem, fmt.Sprintf("in namespace %s you cannot %s, which commands of this plugin require",
			e.callerNamespace, abbreviate(missing)), "request the permission, or use another user with --as or --context")
	default:
		e.add(check, OK, fmt.Sprintf("in namespace %s you can read all objects of applications", e.callerNamespace), "")
	}
}

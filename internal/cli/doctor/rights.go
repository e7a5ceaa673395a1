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

	"github.com/holdfast-dev/holdfast/internal/application"
)

// Verbs that come together.
var (
	change = []string{"create", "delete", "get", "list", "patch", "watch"}
	follow = []string{"get", "list", "watch"}
)

// anywhere are the rights that the operator needs where applications are. A test holds them
// against config/rbac: those that are installed may have been changed.
var anywhere = []rbacv1.PolicyRule{
	{APIGroups: []string{""}, Resources: []string{"configmaps", "secrets", "services"}, Verbs: change},
	{APIGroups: []string{""}, Resources: []string{"persistentvolumeclaims"}, Verbs: []string{"delete", "get", "list", "patch", "watch"}},
	{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"delete", "list", "watch"}},
	{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"list"}},
	{APIGroups: []string{"apps"}, Resources: []string{"controllerrevisions", "deployments", "statefulsets"}, Verbs: change},
	{APIGroups: []string{"apps.holdfast.dev"}, Resources: []string{"appservices"}, Verbs: follow},
	{APIGroups: []string{"apps.holdfast.dev"}, Resources: []string{"appstacks", "cloudmanagers"}, Verbs: append([]string{"patch"}, follow...)},
	{APIGroups: []string{"apps.holdfast.dev"}, Resources: []string{"appservices/finalizers", "appstacks/finalizers", "cloudmanagers/finalizers"}, Verbs: []string{"update"}},
	{APIGroups: []string{"apps.holdfast.dev"}, Resources: []string{"appservices/status", "appstacks/status", "cloudmanagers/status"}, Verbs: []string{"patch"}},
	{APIGroups: []string{"autoscaling"}, Resources: []string{"horizontalpodautoscalers"}, Verbs: change},
	{APIGroups: []string{"batch"}, Resources: []string{"cronjobs", "jobs"}, Verbs: change},
	{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
	{APIGroups: []string{"gateway.networking.k8s.io"}, Resources: []string{"httproutes"}, Verbs: change},
	{APIGroups: []string{"networking.k8s.io"}, Resources: []string{"ingresses"}, Verbs: change},
	{APIGroups: []string{"policy"}, Resources: []string{"poddisruptionbudgets"}, Verbs: change},
}

// everywhere are those that belong to no namespace, and athome those where its Lease is.
var (
	everywhere = []rbacv1.PolicyRule{
		{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"tokenreviews"}, Verbs: []string{"create"}},
		{APIGroups: []string{"authorization.k8s.io"}, Resources: []string{"subjectaccessreviews"}, Verbs: []string{"create"}},
	}
	athome = []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
		{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"create", "get"}},
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"create", "get", "update"}},
	}
)

// questions are whether each right of some rules is there in a namespace; "" is all of them.
func questions(namespace string, rules []rbacv1.PolicyRule) []authorizationv1.ResourceAttributes {
	var out []authorizationv1.ResourceAttributes
	for _, r := range rules {
		for _, group := range r.APIGroups {
			for _, resource := range r.Resources {
				resource, sub, _ := strings.Cut(resource, "/")
				for _, verb := range r.Verbs {
					out = append(out, authorizationv1.ResourceAttributes{Namespace: namespace, Group: group, Resource: resource, Subresource: sub, Verb: verb})
				}
			}
		}
	}
	return out
}

// atOnce is how many questions are asked at the same time.
const atOnce = 16

// denied asks all questions and returns those with the answer no, sorted.
func denied(ctx context.Context, all []authorizationv1.ResourceAttributes, ask func(context.Context, *authorizationv1.ResourceAttributes) (bool, error)) ([]string, error) {
	var mutex sync.Mutex
	var out []string
	// Who may not ask is told so once; questions that are under way are not broken off, which
	// client-go would complain about.
	if len(all) > 0 {
		if _, err := ask(ctx, &all[0]); err != nil {
			return nil, err
		}
	}
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i := range all {
		group.Go(func() error {
			allowed, err := ask(ctx, &all[i])
			if err != nil || allowed {
				return err
			}
			mutex.Lock()
			defer mutex.Unlock()
			out = append(out, words(&all[i]))
			return nil
		})
	}
	err := group.Wait()
	slices.Sort(out)
	return out, err
}

func words(a *authorizationv1.ResourceAttributes) string {
	resource := a.Resource
	if a.Group != "" {
		resource += "." + a.Group
	}
	if a.Subresource != "" {
		resource += "/" + a.Subresource
	}
	text := a.Verb + " " + resource
	if a.Namespace != "" {
		text += " in namespace " + a.Namespace
	}
	return text
}

// some are the first few of many.
func some(list []string) string {
	const few = 4
	if len(list) <= few {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:few], ", "), len(list)-few)
}

// operatorRights asks whether the operator may do what it must.
func (e *examination) operatorRights(ctx context.Context) {
	const check = "operator's rights"
	if e.found.account == "" {
		e.add(check, Unknown, "not checked: no operator was found", "see above")
		return
	}
	all := questions("", everywhere)
	if e.found.leases != "" {
		all = append(all, questions(e.found.leases, athome)...)
	}
	if len(e.found.namespaces) == 0 {
		all = append(all, questions("", anywhere)...)
	}
	for _, ns := range e.found.namespaces {
		all = append(all, questions(strings.TrimSpace(ns), anywhere)...)
	}
	user := fmt.Sprintf("system:serviceaccount:%s:%s", e.operator, e.found.account)
	no, err := denied(ctx, all, func(ctx context.Context, a *authorizationv1.ResourceAttributes) (bool, error) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user, Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + e.operator, "system:authenticated"}, ResourceAttributes: a,
		}}
		answer, err := e.kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return false, err
		}
		return answer.Status.Allowed, nil
	})
	switch {
	case apierrors.IsForbidden(err):
		e.add(check, Unknown, "not checked: you may not create subjectaccessreviews.authorization.k8s.io", "ask a cluster administrator to run this")
	case err != nil:
		e.unable(check, err)
	case len(no) > 0:
		e.add(check, Problem, fmt.Sprintf("ServiceAccount %s/%s may not %s", e.operator, e.found.account, some(no)), "apply dist/install.yaml of its version again, which has its roles")
	default:
		e.add(check, OK, fmt.Sprintf("ServiceAccount %s/%s has all %d that it needs", e.operator, e.found.account, len(all)), "")
	}
}

// needs are what the verbs of the plugin read.
func needs() []rbacv1.PolicyRule {
	var ours []string
	for _, k := range application.Kinds {
		ours = append(ours, k.Words[0])
	}
	list := []string{"list"}
	return []rbacv1.PolicyRule{
		{APIGroups: []string{"apps.holdfast.dev"}, Resources: ours, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{""}, Resources: []string{"pods", "events", "services", "persistentvolumeclaims"}, Verbs: list},
		{APIGroups: []string{"apps"}, Resources: []string{"deployments", "statefulsets", "controllerrevisions"}, Verbs: list},
		{APIGroups: []string{"batch"}, Resources: []string{"jobs"}, Verbs: list},
	}
}

// callerRights asks whether the caller may read what the verbs show.
func (e *examination) callerRights(ctx context.Context) {
	const check = "your rights"
	all := questions(e.caller, needs())
	no, err := denied(ctx, all, func(ctx context.Context, a *authorizationv1.ResourceAttributes) (bool, error) {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: a}}
		answer, err := e.kube.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return false, err
		}
		return answer.Status.Allowed, nil
	})
	switch {
	case err != nil && !errors.Is(err, context.Canceled):
		e.unable(check, err)
	case len(no) > 0:
		for i := range no {
			no[i] = strings.TrimSuffix(no[i], " in namespace "+e.caller)
		}
		e.add(check, Problem, fmt.Sprintf("in namespace %s you may not %s, which verbs of this plugin need", e.caller, some(no)), "ask for the right, or use another user with --as or --context")
	default:
		e.add(check, OK, fmt.Sprintf("in namespace %s you may read everything that applications consist of", e.caller), "")
	}
}

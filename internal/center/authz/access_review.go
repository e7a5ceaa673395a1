package authz

import (
	"context"
	"errors"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Attributes are the attributes of a request, as in RBAC. An empty Namespace means all namespaces or a
// cluster-scoped resource.
type Attributes struct {
	Verb, Group, Resource, Subresource, Namespace, Name string
}

// String returns text like "list deployments.apps in shop".
func (a Attributes) String() string {
	s := a.Verb + " " + a.Resource
	if a.Group != "" {
		s += "." + a.Group
	}
	if a.Subresource != "" {
		s += "/" + a.Subresource
	}
	if a.Name != "" {
		s += " " + a.Name
	}
	if a.Namespace != "" {
		return s + " in " + a.Namespace
	}
	return s
}

// allNamespaces returns the cluster-wide request that includes this one. Only list and watch have such a
// request; for other verbs the result of an authorizer is undefined.
func (a Attributes) allNamespaces() (Attributes, bool) {
	if a.Namespace == "" || a.Name != "" || (a.Verb != "list" && a.Verb != "watch") {
		return Attributes{}, false
	}
	a.Namespace = ""
	return a, true
}

// accessKey is the cache key. Users that no authorizer can tell apart share results.
type accessKey struct {
	user userKey
	Attributes
}

// Allowed reports whether the user is allowed to make the request. It is false if the error, which wraps
// [ErrReviewFailed], is not nil.
func (r *Reviewer) Allowed(ctx context.Context, user *User, a Attributes) (bool, error) {
	fresh := freshness{r.options.AccessTTL, r.options.AccessTTL}
	if clusterWide, ok := a.allNamespaces(); ok {
		got, err := r.cachedReview(ctx, user, clusterWide, fresh)
		if err != nil || got.allowed {
			return got.allowed, err
		}
	}
	got, err := r.cachedReview(ctx, user, a, fresh)
	return got.allowed, err
}

// cachedReview reviews exactly this request.
func (r *Reviewer) cachedReview(ctx context.Context, user *User, a Attributes, fresh freshness) (reviewResult[struct{}], error) {
	if user == nil {
		return reviewResult[struct{}]{}, noTokenError("the request has no user")
	}
	if a.Verb == "" || a.Resource == "" {
		return reviewResult[struct{}]{}, fmt.Errorf("permission of %s to %s %w: verb and resource are required", user.name, a, ErrReviewFailed)
	}
	got, from, err := r.accessCache.get(ctx, accessKey{user.key, a}, fresh, func(ctx context.Context) (struct{}, bool, error) {
		yes, err := r.reviewAccess(ctx, user, a)
		return struct{}{}, yes, err
	})
	r.stats.count(from, err)
	if err == nil {
		return got, nil
	}
	if !errors.Is(err, ErrReviewFailed) { // the caller stopped waiting
		err = reviewFailedError(fmt.Sprintf("permission of %s to %s", user.name, a), accessReviews, err)
	}
	return reviewResult[struct{}]{}, err
}

func (r *Reviewer) reviewAccess(ctx context.Context, user *User, a Attributes) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, r.options.ReviewTimeout)
	defer cancel()
	wrapErr := func(err error) (bool, error) {
		return false, reviewFailedError(fmt.Sprintf("permission of %s to %s", user.name, a), accessReviews, err)
	}
	tenant := user.Tenant()
	if err := r.accessReviewSlots.Acquire(ctx, tenant); err != nil {
		return wrapErr(err)
	}
	defer r.accessReviewSlots.Release(tenant)
	r.stats.accessReviews.Add(1)
	got, err := r.accessClient.Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user.name, UID: user.uid, Groups: user.groups, Extra: user.extra,
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: a.Verb, Group: a.Group, Version: "*", Resource: a.Resource, Subresource: a.Subresource,
				Namespace: a.Namespace, Name: a.Name,
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return wrapErr(err)
	}
	// Ignore EvaluationError: a RoleBinding to a deleted Role causes one.
	return got.Status.Allowed && !got.Status.Denied, nil
}

package authz

import (
	"context"
	"errors"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Attributes are what a user wants to do, in the words of RBAC. An empty Namespace means all
// namespaces, or a resource that is in none.
type Attributes struct {
	Verb, Group, Resource, Subresource, Namespace, Name string
}

// String is "list deployments.apps in shop".
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

// allNamespaces returns the question whose yes answers a as well, if there is one. Reading all of a
// resource everywhere gives what reading it in one place gives. For other verbs no request to
// all namespaces exists, so an authorizer may answer anything.
func (a Attributes) allNamespaces() (Attributes, bool) {
	if a.Namespace == "" || a.Name != "" || (a.Verb != "list" && a.Verb != "watch") {
		return Attributes{}, false
	}
	a.Namespace = ""
	return a, true
}

// accessKey is one of a user. Users that no authorizer can tell apart share the answers.
type accessKey struct {
	user userKey
	Attributes
}

// Allowed tells whether the user may do this. With an error, which wraps [ErrReviewFailed], it
// is false.
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

// cachedReview asks exactly this question.
func (r *Reviewer) cachedReview(ctx context.Context, user *User, a Attributes, fresh freshness) (reviewResult[struct{}], error) {
	if user == nil {
		return reviewResult[struct{}]{}, noTokenError("the request has no user")
	}
	if a.Verb == "" || a.Resource == "" {
		return reviewResult[struct{}]{}, fmt.Errorf("whether %s may %s %w: verb and resource are needed", user.name, a, ErrReviewFailed)
	}
	got, from, err := r.accessCache.get(ctx, accessKey{user.key, a}, fresh, func(ctx context.Context) (struct{}, bool, error) {
		yes, err := r.reviewAccess(ctx, user, a)
		return struct{}{}, yes, err
	})
	r.stats.count(from, err)
	if err == nil {
		return got, nil
	}
	if !errors.Is(err, ErrReviewFailed) { // the caller did not wait
		err = reviewFailedError(fmt.Sprintf("whether %s may %s", user.name, a), accessReviews, err)
	}
	return reviewResult[struct{}]{}, err
}

func (r *Reviewer) reviewAccess(ctx context.Context, user *User, a Attributes) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, r.options.ReviewTimeout)
	defer cancel()
	wrapErr := func(err error) (bool, error) {
		return false, reviewFailedError(fmt.Sprintf("whether %s may %s", user.name, a), accessReviews, err)
	}
	if err := r.accessReviewSlots.acquire(ctx); err != nil {
		return wrapErr(err)
	}
	defer r.accessReviewSlots.release()
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
	// An evaluation error beside a no is an ordinary no: a binding to a role that is gone is one.
	return got.Status.Allowed && !got.Status.Denied, nil
}

package access

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

// everywhere returns the question whose yes answers a as well, if there is one. Reading all of a
// resource everywhere gives what reading it in one place gives. For other verbs no request to
// all namespaces exists, so an authorizer may answer anything.
func (a Attributes) everywhere() (Attributes, bool) {
	if a.Namespace == "" || a.Name != "" || (a.Verb != "list" && a.Verb != "watch") {
		return Attributes{}, false
	}
	a.Namespace = ""
	return a, true
}

// question is one of a user. Users that no authorizer can tell apart share the answers.
type question struct {
	user userKey
	Attributes
}

// Allowed tells whether the user may do this. With an error, which wraps [ErrCannotCheck], it
// is false.
func (r *Reviewer) Allowed(ctx context.Context, user *User, a Attributes) (bool, error) {
	fresh := freshness{r.options.AllowedFor, r.options.AllowedFor}
	if wide, ok := a.everywhere(); ok {
		got, err := r.allowed(ctx, user, wide, fresh)
		if err != nil || got.yes {
			return got.yes, err
		}
	}
	got, err := r.allowed(ctx, user, a, fresh)
	return got.yes, err
}

// allowed asks exactly this question.
func (r *Reviewer) allowed(ctx context.Context, user *User, a Attributes, fresh freshness) (answer[struct{}], error) {
	if user == nil {
		return answer[struct{}]{}, noToken("the request has no user")
	}
	if a.Verb == "" || a.Resource == "" {
		return answer[struct{}]{}, fmt.Errorf("whether %s may %s %w: verb and resource are needed", user.name, a, ErrCannotCheck)
	}
	got, from, err := r.questions.get(ctx, question{user.key, a}, fresh, func(ctx context.Context) (struct{}, bool, error) {
		yes, err := r.reviewAccess(ctx, user, a)
		return struct{}{}, yes, err
	})
	r.stats.count(from, err)
	if err == nil {
		return got, nil
	}
	if !errors.Is(err, ErrCannotCheck) { // the caller did not wait
		err = cannotCheck(fmt.Sprintf("whether %s may %s", user.name, a), accessReviews, err)
	}
	return answer[struct{}]{}, err
}

func (r *Reviewer) reviewAccess(ctx context.Context, user *User, a Attributes) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, r.options.ReviewTimeout)
	defer cancel()
	fail := func(err error) (bool, error) {
		return false, cannotCheck(fmt.Sprintf("whether %s may %s", user.name, a), accessReviews, err)
	}
	if err := r.reviews.enter(ctx); err != nil {
		return fail(err)
	}
	defer r.reviews.exit()
	r.stats.accessReviews.Add(1)
	got, err := r.rights.Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user.name, UID: user.uid, Groups: user.groups, Extra: user.extra,
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: a.Verb, Group: a.Group, Version: "*", Resource: a.Resource, Subresource: a.Subresource,
				Namespace: a.Namespace, Name: a.Name,
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return fail(err)
	}
	// An evaluation error beside a no is an ordinary no: a binding to a role that is gone is one.
	return got.Status.Allowed && !got.Status.Denied, nil
}

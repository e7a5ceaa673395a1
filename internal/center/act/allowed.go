package act

import (
	"context"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// recheckEvery is how long a right that was taken away still gives out what is written.
const recheckEvery = 30 * time.Second

// whileAllowed returns a context that ends when the caller may not read the logs of a pod, or of a
// namespace, any more: the API server itself looks only when a stream begins. An API server that
// does not answer ends nothing; the stream comes through the same one. Nor does an answer that was
// no from the beginning: then the right is one to pods by their names.
func (c *Caller) whileAllowed(ctx context.Context, kube kubernetes.Interface, ref Ref, every time.Duration) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	if every <= 0 {
		every = recheckEvery
	}
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: ref.Namespace, Verb: "get", Resource: "pods", Subresource: "log"},
	}}
	if ref.Kind == "Pod" {
		review.Spec.ResourceAttributes.Name = ref.Name
	}
	go func() {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for had := false; ; {
			within, done := context.WithTimeout(ctx, every)
			got, err := kube.AuthorizationV1().SelfSubjectAccessReviews().Create(within, review, metav1.CreateOptions{})
			done()
			switch {
			case apierrors.IsUnauthorized(err):
				cancel(&Error{Unauthenticated, "the logs end here: the API server does not take your token any more; get a new one"})
			case err == nil && had && !got.Status.Allowed:
				cancel(&Error{Forbidden, "the logs end here: you may not get pods/log in namespace " + ref.Namespace + " any more; ask an administrator of it"})
			case err == nil:
				had = got.Status.Allowed
			}
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	}()
	return ctx, cancel
}

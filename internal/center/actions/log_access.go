package actions

import (
	"context"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// defaultRecheckInterval is how long a right that was taken away still gives out what is written.
const defaultRecheckInterval = 30 * time.Second

// watchLogAccess returns a context that ends when the caller may not read the logs of a pod, or of a
// namespace, any more: the API server itself looks only when a stream begins. An API server that
// does not answer ends nothing; the stream comes through the same one. Nor does an answer that was
// no from the beginning: then the right is one to pods by their names.
func (c *Caller) watchLogAccess(ctx context.Context, kube kubernetes.Interface, ref Ref, interval time.Duration) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	if interval <= 0 {
		interval = defaultRecheckInterval
	}
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: ref.Namespace, Verb: "get", Resource: "pods", Subresource: "log"},
	}}
	if ref.Kind == "Pod" {
		review.Spec.ResourceAttributes.Name = ref.Name
	}
	go func() {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for wasAllowed := false; ; {
			reviewCtx, cancelReview := context.WithTimeout(ctx, interval)
			result, err := kube.AuthorizationV1().SelfSubjectAccessReviews().Create(reviewCtx, review, metav1.CreateOptions{})
			cancelReview()
			switch {
			case apierrors.IsUnauthorized(err):
				cancel(&Error{Unauthenticated, "the logs end here: the API server does not take your token any more; get a new one"})
			case err == nil && wasAllowed && !result.Status.Allowed:
				cancel(&Error{Forbidden, "the logs end here: you may not get pods/log in namespace " + ref.Namespace + " any more; ask an administrator of it"})
			case err == nil:
				wasAllowed = result.Status.Allowed
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

package actions

import (
	"context"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// defaultRecheckInterval is the maximum time for which logs are still streamed after the permission was revoked.
const defaultRecheckInterval = 30 * time.Second

// watchLogAccess returns a context that ends when the caller is no longer allowed to read the logs. The API
// server checks permissions only when a stream starts. A failed review does not end the context, because the
// stream uses the same API server. Neither does a review that was denied from the start: in that case the
// caller has permission for pods by name.
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
				cancel(&Error{Unauthenticated, "log stream closed: the API server no longer accepts your token; get a new one"})
			case err == nil && wasAllowed && !result.Status.Allowed:
				cancel(&Error{Forbidden, "log stream closed: permission to get pods/log in namespace " + ref.Namespace +
					" was revoked; ask " + ref.administrator() + " for it"})
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

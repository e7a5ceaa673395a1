package reconcile

import (
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestBackoffLimitDependsOnError(t *testing.T) {
	resource := schema.GroupResource{Group: "apps", Resource: "deployments"}
	cases := map[string]struct {
		err  error
		want time.Duration // after many attempts
	}{
		"connection refused": {errors.New("dial tcp: connection refused"), 5 * time.Second},
		"internal error":     {apierrors.NewInternalError(errors.New("etcd")), 5 * time.Second},
		"too many requests":  {apierrors.NewTooManyRequestsError("later"), 5 * time.Second},
		"CRD not served yet": {apierrors.NewForbidden(resource, "web", errors.New("cannot find RESTMapping for APIVersion")), 5 * time.Second},
		"forbidden":          {apierrors.NewForbidden(resource, "web", errors.New("quota")), time.Minute},
		"invalid":            {apierrors.NewInvalid(schema.GroupKind{Kind: "Deployment"}, "web", nil), time.Minute},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBackoff(time.Minute)
			req := reconcile.Request{NamespacedName: types.NamespacedName{Name: "web"}}
			var last time.Duration
			for i := range 20 {
				b.recordFailure(req, tc.err)
				wait := b.When(req)
				if i == 0 && wait != 20*time.Millisecond || wait < last {
					t.Fatalf("attempt %d: waits %s after %s", i, wait, last)
				}
				last = wait
			}
			if last != tc.want {
				t.Errorf("got a maximum of %s, want %s", last, tc.want)
			}
			b.postpone(req)
			b.Forget(req)
			if wait := b.When(req); wait != tc.want || !b.failedBefore(req) {
				t.Errorf("after postpone: waits %s, want %s", wait, tc.want)
			}
			b.Forget(req)
			if wait := b.When(req); wait != 20*time.Millisecond {
				t.Errorf("after a success: waits %s", wait)
			}
		})
	}
}

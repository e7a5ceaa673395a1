package execute

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/apply"
)

// verifyAgainstAPIServer compares the cached application and its workloads with the API server,
// once after a restart, if the application existed before and is not ready. The caches of different
// kinds may start with lists of different times. With an outdated list of applications, the
// operator could apply an earlier spec: no precondition fails, because the children are current. It
// could also count pods of an earlier spec as pods of the current one. After the first comparison a
// cache only moves forward.
func (e *Executor) verifyAgainstAPIServer(ctx context.Context, s *Scope) error {
	isNew := s.App.ApplicationStatus().ObservedGeneration == 0 && len(s.Children) == 0
	verified := e.OwnWrites.isVerified(s.App.GetUID())
	if isNew || verified || readyAtGeneration(s.App) && !e.hasPendingWrites(s) {
		return nil
	}
	// In parallel, to keep edits fast.
	var group errgroup.Group
	group.SetLimit(maxConcurrentWrites)
	group.Go(func() error { return e.verifyCached(ctx, e.Kind.GVK.Kind, s.App, e.Kind.New()) })
	for _, c := range s.Components {
		if cached, ok := s.Children[c.Workload].(client.Object); ok {
			live := &metav1.PartialObjectMetadata{}
			live.SetGroupVersionKind(c.Workload.Kind)
			group.Go(func() error { return e.verifyCached(ctx, c.Workload.Kind.Kind, cached, live) })
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	e.OwnWrites.markVerified(s.App.GetUID())
	return nil
}

// verifyCached compares generations only: a status may change faster than it can be read.
func (e *Executor) verifyCached(ctx context.Context, kind string, cached, live client.Object) error {
	if err := e.APIReader.Get(ctx, client.ObjectKeyFromObject(cached), live); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("get %s %s after a restart: %w", kind, client.ObjectKeyFromObject(cached), err)
	}
	if live.GetUID() != cached.GetUID() || live.GetGeneration() != cached.GetGeneration() {
		return fmt.Errorf("%s %s: %w", kind, client.ObjectKeyFromObject(cached), apply.ErrStale)
	}
	return nil
}

// readyAtGeneration reports whether the status says that the current spec is ready.
func readyAtGeneration(app Application) bool {
	ready := meta.FindStatusCondition(app.ApplicationStatus().Conditions, appsapi.ConditionReady)
	return ready != nil && ready.Status == metav1.ConditionTrue && ready.ObservedGeneration == app.GetGeneration()
}

// hasPendingWrites reports whether a revision or child would be written. Deletions are not
// included, because each deletion verifies the application.
func (e *Executor) hasPendingWrites(s *Scope) bool {
	if h := s.History; e.Kind.History != nil && (h.Current == nil || h.Current.Revision != h.Number) {
		return true
	}
	for _, c := range s.Components {
		for _, child := range c.Children {
			live := s.Children[child.ID]
			if live == nil {
				return true
			}
			if e.Writer.InSync(s.Owner, child, live.(client.Object)) {
				continue
			}
			config, err := child.RenderReadOnly(live)
			if err != nil || !config.AppliedTo(live) {
				return true
			}
		}
	}
	return false
}

package engine

import (
	"context"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/health"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

// behind names somebody who may know an older password of a database than the one that the binding says now; "" when
// nobody is left. Whoever cannot be known to know the new one counts as somebody who does not. Pods are asked for at
// the API server itself, since two caches do not show the same moment; that may take it a tenth of a second.
func (r *reconciler[T]) behind(ctx context.Context, owner desired.Owner, o *observed, c desired.Component) (string, error) {
	for _, user := range o.components {
		if !slices.Contains(user.BoundTo, c.Name) && !slices.Contains(user.Reads, c.Database.Binding) {
			continue
		}
		done, err := r.userRolled(ctx, owner, o, user)
		if err != nil || !done {
			return fmt.Sprintf("component %q", user.Name), err
		}
	}
	// What has left the spec runs until what took its place is ready, and uses what it used.
	for id, live := range o.seen {
		edges := desired.Edges(live)
		if o.hasWorkload(id) || !slices.Contains(edges, c.Name) && (c.RenamedFrom == "" || !slices.Contains(edges, c.RenamedFrom)) {
			continue
		}
		if workload := live.GetLabels()[appsapi.LabelWorkload]; workload != "" {
			pods, err := r.podsOf(ctx, owner.Namespace, workload)
			if err != nil || len(pods) > 0 {
				return fmt.Sprintf("%s %s", id.Kind.Kind, id.Name), err
			}
		}
	}
	return "", nil
}

// userRolled says that of one component that is bound.
func (r *reconciler[T]) userRolled(ctx context.Context, owner desired.Owner, o *observed, user desired.Component) (bool, error) {
	pods, err := r.podsOf(ctx, owner.Namespace, user.WorkloadID)
	if err != nil {
		return false, err
	}
	live := o.seen[user.Workload]
	if live == nil {
		return len(pods) == 0, nil // they run on without what made them
	}
	if runs(live) && len(pods) > 0 {
		return false, nil // also those that somebody began by hand
	}
	replaces, err := rollout.WouldReplacePods(user, live)
	if err != nil || replaces || !settled(live) {
		return false, nil //nolint:nilerr // what cannot be made does not roll, and is told elsewhere
	}
	return !slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil }), nil // it may still connect
}

// hasWorkload says whether something is what a component of the spec runs with.
func (o *observed) hasWorkload(id desired.ID) bool {
	return slices.ContainsFunc(o.components, func(c desired.Component) bool { return c.Workload == id })
}

// podsOf are the pods of a workload that have not ended, as they are now.
func (r *reconciler[T]) podsOf(ctx context.Context, namespace, workload string) ([]*corev1.Pod, error) {
	var list corev1.PodList
	err := r.live.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabels{appsapi.LabelManagedBy: appsapi.ManagedBy, appsapi.LabelWorkload: workload})
	if err != nil {
		return nil, fmt.Errorf("list pods of %s in namespace %s: %w", workload, namespace, err)
	}
	var out []*corev1.Pod
	for i := range list.Items {
		if p := &list.Items[i]; p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
			out = append(out, p)
		}
	}
	return out, nil
}

// runs says whether the pods of something end by themselves.
func runs(live rollout.Object) bool {
	switch live.(type) {
	case *batchv1.Job, *batchv1.CronJob:
		return true
	}
	return false
}

// settled says whether there is no pod of an earlier template, and no run that has not ended.
func settled(live rollout.Object) bool {
	switch run := live.(type) {
	case *batchv1.Job:
		return rollout.Finished(run)
	case *batchv1.CronJob:
		return len(run.Status.Active) == 0
	}
	return health.RolledOut(live)
}

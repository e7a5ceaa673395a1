package reconcile

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
	"github.com/holdfast-dev/holdfast/internal/reconcile/execute"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

// laggingConsumer names a client that may still use an old password of a database instead of the
// password in the binding Secret, or returns "". If in doubt, a client counts as lagging. Pods are
// read from the API server, because the caches of different kinds are not consistent with each
// other. Reading pods may take 100 ms.
func (d *databases) laggingConsumer(ctx context.Context, s *execute.Scope, c desired.Component) (string, error) {
	for _, consumer := range s.Components {
		if !slices.Contains(consumer.BoundTo, c.Name) && !slices.Contains(consumer.ConsumedSecrets, c.Database.BindingSecret) {
			continue
		}
		rolledOut, err := d.consumerRolledOut(ctx, s, consumer)
		if err != nil || !rolledOut {
			return fmt.Sprintf("component %q", consumer.Name), err
		}
	}
	// Removed components run until their replacement is ready, and keep using the database.
	for id, live := range s.Children {
		edges := desired.PodDependencies(s.Owner.Keys, live)
		if s.HasWorkload(id) || !slices.Contains(edges, c.Name) && (c.RenamedFrom == "" || !slices.Contains(edges, c.RenamedFrom)) {
			continue
		}
		if workload := live.GetLabels()[s.Owner.Keys.Workload]; workload != "" {
			pods, err := d.listActivePods(ctx, s.Owner, workload)
			if err != nil || len(pods) > 0 {
				return fmt.Sprintf("%s %s", id.Kind.Kind, id.Name), err
			}
		}
	}
	return "", nil
}

// consumerRolledOut reports whether all pods of a component use the current binding.
func (d *databases) consumerRolledOut(ctx context.Context, s *execute.Scope, consumer desired.Component) (bool, error) {
	pods, err := d.listActivePods(ctx, s.Owner, consumer.WorkloadID)
	if err != nil {
		return false, err
	}
	live := s.Children[consumer.Workload]
	if live == nil {
		return len(pods) == 0, nil // pods may outlive their workload
	}
	if runsToCompletion(live) && len(pods) > 0 {
		return false, nil // including jobs that were created manually
	}
	replaces, err := rollout.ReplacesPodsOrError(consumer, live)
	if err != nil || replaces || !isRolledOut(live) {
		return false, nil //nolint:nilerr // a component that cannot be rendered does not roll out, and is reported elsewhere
	}
	return !slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil }), nil // terminating pods may connect
}

// listActivePods lists the pods of a workload that have not terminated.
func (d *databases) listActivePods(ctx context.Context, owner desired.Owner, workload string) ([]*corev1.Pod, error) {
	var list corev1.PodList
	err := d.apiReader.List(ctx, &list, client.InNamespace(owner.Namespace),
		client.MatchingLabels{appsapi.LabelManagedBy: appsapi.ManagedBy, owner.Keys.Workload: workload})
	if err != nil {
		return nil, fmt.Errorf("list pods of %s in namespace %s: %w", workload, owner.Namespace, err)
	}
	var out []*corev1.Pod
	for i := range list.Items {
		if p := &list.Items[i]; p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
			out = append(out, p)
		}
	}
	return out, nil
}

// runsToCompletion reports whether the pods of a workload run to completion.
func runsToCompletion(live rollout.Object) bool {
	switch live.(type) {
	case *batchv1.Job, *batchv1.CronJob:
		return true
	}
	return false
}

// isRolledOut reports whether no pod of an earlier template exists and no job is active.
func isRolledOut(live rollout.Object) bool {
	switch job := live.(type) {
	case *batchv1.Job:
		return rollout.JobFinished(job)
	case *batchv1.CronJob:
		return len(job.Status.Active) == 0
	}
	return health.RolledOut(live)
}

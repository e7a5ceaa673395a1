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

// laggingConsumer names somebody who may know an older password of a database than the one that the binding says now; "" when
// nobody is left. Whoever cannot be known to know the new one counts as somebody who does not. Pods are asked for at
// the API server itself, since two caches do not show the same moment; that may take it a tenth of a second.
func (r *reconciler[T]) laggingConsumer(ctx context.Context, owner desired.Owner, o *observed, c desired.Component) (string, error) {
	for _, consumer := range o.components {
		if !slices.Contains(consumer.BoundTo, c.Name) && !slices.Contains(consumer.ConsumedSecrets, c.Database.BindingSecret) {
			continue
		}
		rolledOut, err := r.consumerRolledOut(ctx, owner, o, consumer)
		if err != nil || !rolledOut {
			return fmt.Sprintf("component %q", consumer.Name), err
		}
	}
	// What has left the spec runs until what took its place is ready, and uses what it used.
	for id, live := range o.children {
		edges := desired.PodDependencies(live)
		if o.hasWorkload(id) || !slices.Contains(edges, c.Name) && (c.RenamedFrom == "" || !slices.Contains(edges, c.RenamedFrom)) {
			continue
		}
		if workload := live.GetLabels()[appsapi.LabelWorkload]; workload != "" {
			pods, err := r.listActivePods(ctx, owner.Namespace, workload)
			if err != nil || len(pods) > 0 {
				return fmt.Sprintf("%s %s", id.Kind.Kind, id.Name), err
			}
		}
	}
	return "", nil
}

// consumerRolledOut says that of one component that is bound.
func (r *reconciler[T]) consumerRolledOut(ctx context.Context, owner desired.Owner, o *observed, consumer desired.Component) (bool, error) {
	pods, err := r.listActivePods(ctx, owner.Namespace, consumer.WorkloadID)
	if err != nil {
		return false, err
	}
	live := o.children[consumer.Workload]
	if live == nil {
		return len(pods) == 0, nil // they run on without what made them
	}
	if runsToCompletion(live) && len(pods) > 0 {
		return false, nil // also those that somebody began by hand
	}
	replaces, err := rollout.WouldReplacePods(consumer, live)
	if err != nil || replaces || !isRolledOut(live) {
		return false, nil //nolint:nilerr // what cannot be made does not roll, and is told elsewhere
	}
	return !slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil }), nil // it may still connect
}

// workloadExists says whether something is what a component of the spec runs with.
func (o *observed) hasWorkload(id desired.ID) bool {
	return slices.ContainsFunc(o.components, func(c desired.Component) bool { return c.Workload == id })
}

// podTemplateOf are the pods of a workload that have not ended, as they are now.
func (r *reconciler[T]) listActivePods(ctx context.Context, namespace, workload string) ([]*corev1.Pod, error) {
	var list corev1.PodList
	err := r.apiReader.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabels{appsapi.LabelManagedBy: appsapi.ManagedBy, appsapi.LabelWorkload: workload})
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

// runsToCompletion says whether the pods of something end by themselves.
func runsToCompletion(live rollout.Object) bool {
	switch live.(type) {
	case *batchv1.Job, *batchv1.CronJob:
		return true
	}
	return false
}

// isRolledOut says whether there is no pod of an earlier template, and no run that has not ended.
func isRolledOut(live rollout.Object) bool {
	switch job := live.(type) {
	case *batchv1.Job:
		return rollout.JobFinished(job)
	case *batchv1.CronJob:
		return len(job.Status.Active) == 0
	}
	return health.RolledOut(live)
}

package simulate

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/health"
	"github.com/holdfast-dev/holdfast/internal/history"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

// saveRevision stores the spec, before anything of it is applied.
func (sim *simulator) saveRevision() error {
	if sim.Spec == nil {
		return nil
	}
	jobs := desired.JobSpecHashes(sim.components)
	if sim.revisionPlan.Current == nil {
		data, err := sim.Spec.Data()
		if err != nil {
			return err
		}
		revision := desired.NewRevision(sim.Owner, sim.Spec.Hash, data, sim.revisionPlan.Number, jobs)
		sim.revisions = append(slices.Clone(sim.revisions), revision)
		sim.recordWrite(desired.ID{Kind: desired.KindRevision, Name: revision.Name})
		return nil
	}
	if sim.revisionPlan.Current.Revision == sim.revisionPlan.Number && slices.Equal(desired.RevisionJobHashes(sim.revisionPlan.Current), jobs) {
		return nil
	}
	sim.updateRevision(sim.revisionPlan.Current, func(r *appsv1.ControllerRevision) {
		r.Revision = sim.revisionPlan.Number
		delete(r.Annotations, appsapi.AnnotationJobSpec)
		if len(jobs) > 0 {
			metav1.SetMetaDataAnnotation(&r.ObjectMeta, appsapi.AnnotationJobSpec, strings.Join(jobs, ","))
		}
	})
	return nil
}

// isJobRetained says whether a spec has a job, also the one that was stored a moment ago: the
// operator asks for that before it deletes what the job has done.
func (sim *simulator) isJobRetained(run *batchv1.Job) bool {
	return rollout.ProtectedJobSpecs(sim.revisions, sim.revisionPlan.Prune)[run.Annotations[appsapi.AnnotationJobSpec]]
}

// updateRevision puts a changed copy in the place of a revision.
func (sim *simulator) updateRevision(before *appsv1.ControllerRevision, change func(*appsv1.ControllerRevision)) {
	after := before.DeepCopy()
	change(after)
	sim.revisions = slices.Clone(sim.revisions)
	sim.revisions[slices.Index(sim.revisions, before)] = after
	sim.recordWrite(desired.ID{Kind: desired.KindRevision, Name: before.Name})
}

// deleteRevision deletes a revision of ours.
func (sim *simulator) deleteRevision(r *appsv1.ControllerRevision) {
	if !metav1.IsControlledBy(r, &metav1.ObjectMeta{UID: sim.Owner.UID}) || r.DeletionTimestamp != nil {
		return
	}
	sim.revisions = slices.DeleteFunc(slices.Clone(sim.revisions), func(o *appsv1.ControllerRevision) bool { return o == r })
	sim.recordWrite(desired.ID{Kind: desired.KindRevision, Name: r.Name})
}

// markHealthy notes, when all is done, that everything is ready with the spec: an earlier
// one that was kept for that may be forgotten now.
func (sim *simulator) markHealthy(plan rollout.Plan) bool {
	waiting := slices.ContainsFunc(plan.Steps, rollout.Step.IsWaiting)
	if sim.revisionPlan.Current == nil || history.IsHealthy(sim.revisionPlan.Current) || len(sim.rejections) > 0 || len(sim.problems) > 0 || waiting {
		return false
	}
	for _, c := range sim.components {
		for _, child := range c.Children {
			if health.Evaluate(sim.observed[child.ID]).Status != health.Healthy {
				return false
			}
		}
		if c.Suspended && rollout.HasPendingChanges(c, sim.observed) {
			return false
		}
	}
	sim.updateRevision(sim.revisionPlan.Current, func(r *appsv1.ControllerRevision) {
		metav1.SetMetaDataAnnotation(&r.ObjectMeta, appsapi.AnnotationRevisionHealthy, "true")
	})
	return true
}

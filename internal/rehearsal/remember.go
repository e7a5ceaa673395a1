package rehearsal

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

// remember stores the spec, before anything of it is applied.
func (p *player) remember() error {
	if p.Spec == nil {
		return nil
	}
	jobs := desired.JobsOf(p.components)
	if p.past.Current == nil {
		data, err := p.Spec.Data()
		if err != nil {
			return err
		}
		made := desired.Revision(p.Owner, p.Spec.Hash, data, p.past.Number, jobs)
		p.revisions = append(slices.Clone(p.revisions), made)
		p.touch(desired.ID{Kind: desired.KindRevision, Name: made.Name})
		return nil
	}
	if p.past.Current.Revision == p.past.Number && slices.Equal(desired.JobSpecs(p.past.Current), jobs) {
		return nil
	}
	p.revise(p.past.Current, func(r *appsv1.ControllerRevision) {
		r.Revision = p.past.Number
		delete(r.Annotations, appsapi.AnnotationJobSpec)
		if len(jobs) > 0 {
			metav1.SetMetaDataAnnotation(&r.ObjectMeta, appsapi.AnnotationJobSpec, strings.Join(jobs, ","))
		}
	})
	return nil
}

// remembers says whether a spec has a job, also the one that was stored a moment ago: the
// operator asks for that before it deletes what the job has done.
func (p *player) remembers(run *batchv1.Job) bool {
	return rollout.JobsToKeep(p.revisions, p.past.Forget)[run.Annotations[appsapi.AnnotationJobSpec]]
}

// revise puts a changed copy in the place of a revision.
func (p *player) revise(before *appsv1.ControllerRevision, change func(*appsv1.ControllerRevision)) {
	after := before.DeepCopy()
	change(after)
	p.revisions = slices.Clone(p.revisions)
	p.revisions[slices.Index(p.revisions, before)] = after
	p.touch(desired.ID{Kind: desired.KindRevision, Name: before.Name})
}

// forget deletes a revision of ours.
func (p *player) forget(r *appsv1.ControllerRevision) {
	if !metav1.IsControlledBy(r, &metav1.ObjectMeta{UID: p.Owner.UID}) || r.DeletionTimestamp != nil {
		return
	}
	p.revisions = slices.DeleteFunc(slices.Clone(p.revisions), func(o *appsv1.ControllerRevision) bool { return o == r })
	p.touch(desired.ID{Kind: desired.KindRevision, Name: r.Name})
}

// markHealthy notes, when all is done, that everything is ready with the spec: an earlier
// one that was kept for that may be forgotten now.
func (p *player) markHealthy(plan rollout.Plan) bool {
	stuck := slices.ContainsFunc(plan.Steps, rollout.Step.Waits)
	if p.past.Current == nil || history.IsHealthy(p.past.Current) || len(p.errors) > 0 || len(p.trouble) > 0 || stuck {
		return false
	}
	for _, c := range p.components {
		for _, child := range c.Children {
			if health.Of(p.seen[child.ID]).Status != health.Healthy {
				return false
			}
		}
		if c.Suspended && rollout.Pending(c, p.seen) {
			return false
		}
	}
	p.revise(p.past.Current, func(r *appsv1.ControllerRevision) {
		metav1.SetMetaDataAnnotation(&r.ObjectMeta, appsapi.AnnotationHealthy, "true")
	})
	return true
}

package desired

import (
	"encoding/json"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	batchv1ac "k8s.io/client-go/applyconfigurations/batch/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Kinds of the workload of a job.
var (
	KindJob     = batchv1.SchemeGroupVersion.WithKind("Job")
	KindCronJob = batchv1.SchemeGroupVersion.WithKind("CronJob")
)

const (
	defaultBackoffLimit   = 2
	defaultActiveDeadline = 600

	// specHashLength is the length of the spec hash in the name of a Job.
	specHashLength = 10
	// maxCronJobName leaves room for the suffix that Kubernetes appends to the names of Jobs.
	maxCronJobName = 52
)

func (rc renderContext) buildJob(c ExpandedComponent, d *Component) {
	d.Type = appsapi.ComponentJob
	d.setInvalid(rc.validate(c, appsapi.ServerSpec{ContainerSpec: c.Job.ContainerSpec, PodSettings: c.Job.PodSettings}), validateSchedule(c.Job.Schedule))
	if s := c.Job.ActiveDeadlineSeconds; s != nil {
		d.ProgressDeadlineSeconds = *s
	}
	if c.Job.Schedule != "" {
		name := shortenTo(d.ResourceName, maxCronJobName)
		d.NonBlocking = true
		d.Workload = ID{Kind: KindCronJob, Name: name}
		d.WorkloadID = WorkloadID(KindCronJob.Kind, name)
		d.Children = rc.withFiles(c, c.Job.PodSettings, cronJob(rc, c, name))
		return
	}
	d.JobSpecHash = jobSpecHash(*c.Job)
	name := shortenTo(d.ResourceName, maxLabelLength-specHashLength-1) + "-" + d.JobSpecHash
	d.Workload = ID{Kind: KindJob, Name: name}
	d.WorkloadID = WorkloadID(KindJob.Kind, name)
	d.Children = rc.withFiles(c, c.Job.PodSettings, job(rc, c, name, d.JobSpecHash))
}

// jobSpecHash returns the hash of the spec of a job. The hash does not depend on bindings.
func jobSpecHash(j appsapi.JobComponent) string {
	content, err := json.Marshal(j)
	if err != nil {
		content = []byte(err.Error()) // an overlay that is not JSON, which validate rejects
	}
	return digest(content)[:specHashLength]
}

// job returns a Job that runs once per spec; its name contains the hash of the spec. The live pod template is
// sent unchanged because it is immutable, even if a binding or the version of Holdfast has changed.
func job(rc renderContext, c ExpandedComponent, name, spec string) Child {
	workload := WorkloadID(KindJob.Kind, name)
	render := func(live runtime.Object) (*Config, error) {
		j := batchv1ac.Job(name, rc.Namespace).
			WithLabels(workloadLabels(rc.Owner, c, workload, c.Job.Image)).
			WithAnnotations(map[string]string{rc.Keys.JobSpec: spec}).
			WithOwnerReferences(ownerReferenceConfig(rc.Owner)).
			WithSpec(batchv1ac.JobSpec().WithBackoffLimit(backoffLimit(c)).WithActiveDeadlineSeconds(activeDeadline(c)))
		current, _ := live.(*batchv1.Job)
		var template *corev1ac.PodTemplateSpecApplyConfiguration
		var err error
		if current != nil {
			template, err = toApplyConfig[corev1ac.PodTemplateSpecApplyConfiguration](current.Spec.Template)
		} else {
			template, err = jobTemplate(rc, workload, c)
		}
		if err != nil {
			return nil, err
		}
		annotateList(j.ObjectMetaApplyConfiguration, rc.Keys.DependsOn, dependencies(c))
		config, err := newConfig(rc.Keys, j, j.ObjectMetaApplyConfiguration)
		if err != nil {
			return nil, err
		}
		if applied := appliedHash(rc.Keys, current); applied != "" && applied != config.Hash() {
			// The Job was created with other dependencies than the spec declares now. Its pods do not change,
			// so the annotation keeps the dependencies of the pods.
			delete(j.Annotations, rc.Keys.DependsOn)
			annotateList(j.ObjectMetaApplyConfiguration, rc.Keys.DependsOn, dependsOnAnnotation(rc.Keys, current))
			if config, err = newConfig(rc.Keys, j, j.ObjectMetaApplyConfiguration); err != nil {
				return nil, err
			}
		}
		config.sendOnly = func() { j.Spec.WithTemplate(template) }
		return config, nil
	}
	return Child{ID: ID{Kind: KindJob, Name: name}, Render: render}
}

// cronJob returns the CronJob of a scheduled job.
func cronJob(rc renderContext, c ExpandedComponent, name string) Child {
	workload := WorkloadID(KindCronJob.Kind, name)
	render := func(runtime.Object) (*Config, error) {
		template, err := jobTemplate(rc, workload, c)
		if err != nil {
			return nil, err
		}
		jobSpec := batchv1ac.JobSpec().WithTemplate(template).WithBackoffLimit(backoffLimit(c)).WithActiveDeadlineSeconds(activeDeadline(c))
		j := batchv1ac.CronJob(name, rc.Namespace).
			WithLabels(workloadLabels(rc.Owner, c, workload, c.Job.Image)).
			WithOwnerReferences(ownerReferenceConfig(rc.Owner)).
			WithSpec(batchv1ac.CronJobSpec().WithSchedule(c.Job.Schedule).
				// A long run must not overlap with the next one.
				WithConcurrencyPolicy(batchv1.ForbidConcurrent).
				WithJobTemplate(batchv1ac.JobTemplateSpec().WithSpec(jobSpec)))
		annotateList(j.ObjectMetaApplyConfiguration, rc.Keys.DependsOn, dependencies(c))
		hold, undo := cronJobPodHold(rc.Keys, j.Spec)
		return newHoldableConfig(rc.Keys, j, j.ObjectMetaApplyConfiguration, jobSpec, hold, undo)
	}
	return Child{ID: ID{Kind: KindCronJob, Name: name}, Render: render}
}

// jobTemplate returns the pod template of a job. A failed pod is not restarted, so that it can be inspected.
func jobTemplate(rc renderContext, workload string, c ExpandedComponent) (*corev1ac.PodTemplateSpecApplyConfiguration, error) {
	pod := appsapi.ServerSpec{ContainerSpec: c.Job.ContainerSpec, PodSettings: c.Job.PodSettings}
	pod.Scheduling.Spread = appsapi.SpreadNone
	template, err := podTemplate(rc, c, podInputs{workload: workload, container: containerName}, pod)
	if err != nil {
		return nil, err
	}
	delete(template.Annotations, rc.Keys.ConfigHash) // configuration changes do not replace the pods of a job
	template.Spec.WithRestartPolicy(corev1.RestartPolicyNever)
	return template, nil
}

func backoffLimit(c ExpandedComponent) int32 {
	if l := c.Job.BackoffLimit; l != nil {
		return *l
	}
	return defaultBackoffLimit
}

func activeDeadline(c ExpandedComponent) int64 {
	if s := c.Job.ActiveDeadlineSeconds; s != nil {
		return int64(*s)
	}
	return defaultActiveDeadline
}

// appliedHash returns the hash of the last applied configuration of a Job; empty if unknown.
func appliedHash(keys *appsapi.Keys, current *batchv1.Job) string {
	if current == nil {
		return ""
	}
	return current.Annotations[keys.AppliedHash]
}

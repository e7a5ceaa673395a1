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

// The kinds of the workload of a job.
var (
	KindJob     = batchv1.SchemeGroupVersion.WithKind("Job")
	KindCronJob = batchv1.SchemeGroupVersion.WithKind("CronJob")
)

const (
	defaultBackoffLimit   = 2
	defaultActiveDeadline = 600

	// specHashLength is how much of the hash of a job's own spec is in its name.
	specHashLength = 10
	// maxCronJobName leaves room for what Kubernetes appends to the names of its Jobs.
	maxCronJobName = 52
)

func (rc renderContext) buildJob(c appsapi.Component, d *Component) {
	d.Type = appsapi.ComponentJob
	d.InvalidMessage = rc.validate(c, appsapi.ServerSpec{ContainerSpec: c.Job.ContainerSpec, PodSettings: c.Job.PodSettings})
	if err := validateSchedule(c.Job.Schedule); err != nil && d.InvalidMessage == "" {
		d.InvalidMessage = err.Error()
	}
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

// jobSpecHash is equal for equal jobs, whatever they are bound to.
func jobSpecHash(j appsapi.JobComponent) string {
	content, err := json.Marshal(j)
	if err != nil {
		panic(err) // there is nothing in it that cannot be encoded
	}
	return digest(content)[:specHashLength]
}

// job runs once. Its name says for which spec, and what it runs is never changed: what is
// said of the pods is sent when it is created, and as it is ever after. So neither another
// binding nor another version of Holdfast can make the API server refuse it.
func job(rc renderContext, c appsapi.Component, name, spec string) Child {
	workload := WorkloadID(KindJob.Kind, name)
	render := func(live runtime.Object) (*Config, error) {
		j := batchv1ac.Job(name, rc.Namespace).
			WithLabels(workloadLabels(rc.Owner, c, workload, c.Job.Image)).
			WithAnnotations(map[string]string{appsapi.AnnotationJobSpec: spec}).
			WithOwnerReferences(ownerReference(rc.Owner)).
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
		annotateList(j.ObjectMetaApplyConfiguration, appsapi.AnnotationDependsOn, dependencies(c))
		config, err := newConfig(j, j.ObjectMetaApplyConfiguration)
		if err != nil {
			return nil, err
		}
		if applied := appliedHash(current); applied != "" && applied != config.Hash() {
			// Made with other edges than those of the spec: they are what its pods need.
			delete(j.Annotations, appsapi.AnnotationDependsOn)
			annotateList(j.ObjectMetaApplyConfiguration, appsapi.AnnotationDependsOn, dependsOnAnnotation(current))
			if config, err = newConfig(j, j.ObjectMetaApplyConfiguration); err != nil {
				return nil, err
			}
		}
		config.sendOnly = func() { j.Spec.WithTemplate(template) }
		return config, nil
	}
	return Child{ID: ID{Kind: KindJob, Name: name}, Render: render}
}

// cronJob runs again and again.
func cronJob(rc renderContext, c appsapi.Component, name string) Child {
	workload := WorkloadID(KindCronJob.Kind, name)
	render := func(runtime.Object) (*Config, error) {
		template, err := jobTemplate(rc, workload, c)
		if err != nil {
			return nil, err
		}
		jobSpec := batchv1ac.JobSpec().WithTemplate(template).WithBackoffLimit(backoffLimit(c)).WithActiveDeadlineSeconds(activeDeadline(c))
		j := batchv1ac.CronJob(name, rc.Namespace).
			WithLabels(workloadLabels(rc.Owner, c, workload, c.Job.Image)).
			WithOwnerReferences(ownerReference(rc.Owner)).
			WithSpec(batchv1ac.CronJobSpec().WithSchedule(c.Job.Schedule).
				// One that takes too long must not meet the next.
				WithConcurrencyPolicy(batchv1.ForbidConcurrent).
				WithJobTemplate(batchv1ac.JobTemplateSpec().WithSpec(jobSpec)))
		annotateList(j.ObjectMetaApplyConfiguration, appsapi.AnnotationDependsOn, dependencies(c))
		hold, undo := cronJobPodHold(j.Spec)
		return newHoldableConfig(j, j.ObjectMetaApplyConfiguration, jobSpec, hold, undo)
	}
	return Child{ID: ID{Kind: KindCronJob, Name: name}, Render: render}
}

// jobTemplate is the template of the pods of a job. A failed pod stays, so that one can
// see why.
func jobTemplate(rc renderContext, workload string, c appsapi.Component) (*corev1ac.PodTemplateSpecApplyConfiguration, error) {
	pod := appsapi.ServerSpec{ContainerSpec: c.Job.ContainerSpec, PodSettings: c.Job.PodSettings}
	pod.Scheduling.Spread = appsapi.SpreadNone
	template, err := podTemplate(rc, c, workload, containerName, pod, nil)
	if err != nil {
		return nil, err
	}
	delete(template.Annotations, appsapi.AnnotationConfigHash) // nothing replaces the pods of a job
	template.Spec.WithRestartPolicy(corev1.RestartPolicyNever)
	return template, nil
}

func backoffLimit(c appsapi.Component) int32 {
	if l := c.Job.BackoffLimit; l != nil {
		return *l
	}
	return defaultBackoffLimit
}

func activeDeadline(c appsapi.Component) int64 {
	if s := c.Job.ActiveDeadlineSeconds; s != nil {
		return int64(*s)
	}
	return defaultActiveDeadline
}

// appliedHash is the hash of the configuration that made a Job what it is, if it is known.
func appliedHash(current *batchv1.Job) string {
	if current == nil {
		return ""
	}
	return current.Annotations[appsapi.AnnotationAppliedHash]
}

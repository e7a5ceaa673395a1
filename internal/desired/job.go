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

	// specHash is how much of the hash of a job's own spec is in its name.
	specHash = 10
	// maxCronJob leaves room for what Kubernetes appends to the names of its Jobs.
	maxCronJob = 52
)

func (a application) job(c appsapi.Component, d *Component) {
	d.Type = appsapi.ComponentJob
	d.Invalid = a.invalid(c, appsapi.ServerSpec{ContainerSpec: c.Job.ContainerSpec, PodSettings: c.Job.PodSettings})
	if err := soundSchedule(c.Job.Schedule); err != nil && d.Invalid == "" {
		d.Invalid = err.Error()
	}
	if s := c.Job.ActiveDeadlineSeconds; s != nil {
		d.ProgressDeadlineSeconds = *s
	}
	if c.Job.Schedule != "" {
		name := shortenTo(d.ResourceName, maxCronJob)
		d.GatesNobody = true
		d.Workload = ID{Kind: KindCronJob, Name: name}
		d.WorkloadID = WorkloadID(KindCronJob.Kind, name)
		d.Children = a.withFiles(c, c.Job.PodSettings, cronJob(a, c, name))
		return
	}
	d.JobSpec = ownSpec(*c.Job)
	name := shortenTo(d.ResourceName, maxLabel-specHash-1) + "-" + d.JobSpec
	d.Workload = ID{Kind: KindJob, Name: name}
	d.WorkloadID = WorkloadID(KindJob.Kind, name)
	d.Children = a.withFiles(c, c.Job.PodSettings, job(a, c, name, d.JobSpec))
}

// ownSpec is equal for equal jobs, whatever they are bound to.
func ownSpec(j appsapi.JobComponent) string {
	content, err := json.Marshal(j)
	if err != nil {
		panic(err) // there is nothing in it that cannot be encoded
	}
	return digest(content)[:specHash]
}

// job runs once. Its name says for which spec, and what it runs is never changed: what is
// said of the pods is sent when it is created, and as it is ever after. So neither another
// binding nor another version of Holdfast can make the API server refuse it.
func job(a application, c appsapi.Component, name, spec string) Child {
	workload := WorkloadID(KindJob.Kind, name)
	render := func(live runtime.Object) (*Config, error) {
		j := batchv1ac.Job(name, a.Namespace).
			WithLabels(workloadLabels(a.Owner, c, workload, c.Job.Image)).
			WithAnnotations(map[string]string{appsapi.AnnotationJobSpec: spec}).
			WithOwnerReferences(ownerReference(a.Owner)).
			WithSpec(batchv1ac.JobSpec().WithBackoffLimit(backoffLimit(c)).WithActiveDeadlineSeconds(activeDeadline(c)))
		current, _ := live.(*batchv1.Job)
		var template *corev1ac.PodTemplateSpecApplyConfiguration
		var err error
		if current != nil {
			template, err = convert[corev1ac.PodTemplateSpecApplyConfiguration](current.Spec.Template)
		} else {
			template, err = jobTemplate(a, workload, c)
		}
		if err != nil {
			return nil, err
		}
		annotate(j.ObjectMetaApplyConfiguration, appsapi.AnnotationDependsOn, dependencies(c))
		config, err := newConfig(j, j.ObjectMetaApplyConfiguration)
		if err != nil {
			return nil, err
		}
		if applied := appliedAs(current); applied != "" && applied != config.Hash() {
			// Made with other edges than those of the spec: they are what its pods need.
			delete(j.Annotations, appsapi.AnnotationDependsOn)
			annotate(j.ObjectMetaApplyConfiguration, appsapi.AnnotationDependsOn, dependsOn(current))
			if config, err = newConfig(j, j.ObjectMetaApplyConfiguration); err != nil {
				return nil, err
			}
		}
		config.carry = func() { j.Spec.WithTemplate(template) }
		return config, nil
	}
	return Child{ID: ID{Kind: KindJob, Name: name}, Render: render}
}

// cronJob runs again and again.
func cronJob(a application, c appsapi.Component, name string) Child {
	workload := WorkloadID(KindCronJob.Kind, name)
	render := func(runtime.Object) (*Config, error) {
		template, err := jobTemplate(a, workload, c)
		if err != nil {
			return nil, err
		}
		run := batchv1ac.JobSpec().WithTemplate(template).WithBackoffLimit(backoffLimit(c)).WithActiveDeadlineSeconds(activeDeadline(c))
		j := batchv1ac.CronJob(name, a.Namespace).
			WithLabels(workloadLabels(a.Owner, c, workload, c.Job.Image)).
			WithOwnerReferences(ownerReference(a.Owner)).
			WithSpec(batchv1ac.CronJobSpec().WithSchedule(c.Job.Schedule).
				// One that takes too long must not meet the next.
				WithConcurrencyPolicy(batchv1.ForbidConcurrent).
				WithJobTemplate(batchv1ac.JobTemplateSpec().WithSpec(run)))
		annotate(j.ObjectMetaApplyConfiguration, appsapi.AnnotationDependsOn, dependencies(c))
		g, undo := gateOfCronJob(j.Spec)
		return gatedConfig(j, j.ObjectMetaApplyConfiguration, run, g, undo)
	}
	return Child{ID: ID{Kind: KindCronJob, Name: name}, Render: render}
}

// jobTemplate is the template of the pods of a job. A failed pod stays, so that one can
// see why.
func jobTemplate(a application, workload string, c appsapi.Component) (*corev1ac.PodTemplateSpecApplyConfiguration, error) {
	pod := appsapi.ServerSpec{ContainerSpec: c.Job.ContainerSpec, PodSettings: c.Job.PodSettings}
	pod.Scheduling.Spread = appsapi.SpreadNone
	template, err := podTemplate(a, c, workload, containerName, pod, nil)
	if err != nil {
		return nil, err
	}
	delete(template.Annotations, appsapi.AnnotationConfig) // nothing replaces the pods of a job
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

// appliedAs is the hash of the configuration that made a Job what it is, if it is known.
func appliedAs(current *batchv1.Job) string {
	if current == nil {
		return ""
	}
	return current.Annotations[appsapi.AnnotationApplied]
}

package runjob

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/appkind"
	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

func run(ctx context.Context, env *cli.Env, component string, args []string, out io.Writer) error {
	c, app, err := env.ResolveApplication(ctx, args)
	if err != nil {
		return err
	}
	job, err := selectJob(app, component)
	if err != nil {
		return err
	}
	name, err := runAgain(ctx, c, app, job, env.Now().Unix())
	if err != nil {
		return cli.WithHint(err)
	}
	fmt.Fprintf(out, "Job %s/%s of component %q runs again. Follow it: kubectl holdfast logs %s --component %s -f -n %s\n",
		app.GetNamespace(), name, job.Name, app.GetName(), job.Name, app.GetNamespace())
	return nil
}

// selectJob returns the job component with this name, or the only one.
func selectJob(app appkind.Application, name string) (appsapi.ComponentStatus, error) {
	var none appsapi.ComponentStatus
	stack, ok := app.(appkind.Stack)
	if !ok {
		return none, appkind.UserErrorf("%s has no jobs", appkind.Title(app))
	}
	ready := meta.FindStatusCondition(app.ApplicationStatus().Conditions, appsapi.ConditionReady)
	switch {
	case app.GetDeletionTimestamp() != nil:
		return none, appkind.UserErrorf("%s is being deleted", appkind.Title(app))
	case ready != nil && ready.Reason == appsapi.ReasonInvalidSpec: // the operator would not create the Job again
		return none, appkind.UserErrorf("the spec of %s is invalid, correct it first: %s", appkind.Title(app), ready.Message)
	case app.ApplicationStatus().ObservedGeneration != app.GetGeneration():
		return none, appkind.UserErrorf("the operator has not observed the latest change of %s; wait for it: kubectl holdfast wait %s -n %s",
			appkind.Title(app), app.GetName(), app.GetNamespace())
	}
	jobs := slices.DeleteFunc(slices.Clone(stack.StackStatus().Components), func(c appsapi.ComponentStatus) bool {
		return c.Type != appsapi.ComponentJob || c.ResourceName == ""
	})
	var names []string
	for _, c := range jobs {
		if c.Name == name {
			return c, nil
		}
		names = append(names, c.Name)
	}
	switch {
	case len(jobs) == 0:
		return none, appkind.UserErrorf("%s has no jobs", appkind.Title(app))
	case name != "":
		return none, appkind.UserErrorf("%s has no job %q; it has %s", appkind.Title(app), name, strings.Join(names, ", "))
	case len(jobs) > 1:
		return none, appkind.UserErrorf("%s has several jobs; select one with --component: %s", appkind.Title(app), strings.Join(names, ", "))
	}
	return jobs[0], nil
}

// runAgain runs a job again and returns the name of its Job. The operator creates a deleted Job again, unless the
// application or the component is suspended.
func runAgain(ctx context.Context, c client.Client, app appkind.Application, component appsapi.ComponentStatus, suffix int64) (string, error) {
	key := client.ObjectKey{Namespace: app.GetNamespace(), Name: component.ResourceName}
	spec := specOf(app, component.Name)
	switch {
	case spec.Operations.Suspend:
		return "", appkind.UserErrorf("job %q of %s is suspended; resume it first: kubectl holdfast resume %s -n %s", component.Name,
			appkind.Title(app), app.GetName(), app.GetNamespace())
	case spec.Job != nil && spec.Job.Schedule != "":
		return runNow(ctx, c, key, suffix)
	}
	var job batchv1.Job
	err := c.Get(ctx, key, &job)
	if apierrors.IsNotFound(err) {
		return "", appkind.UserErrorf("Job %s does not exist yet: %s", key, component.Message)
	}
	if err != nil {
		return "", err
	}
	if !rollout.JobFinished(&job) {
		return "", appkind.UserErrorf("Job %s is still running; follow it: kubectl holdfast logs %s --component %s -f -n %s", key, app.GetName(),
			component.Name, app.GetNamespace())
	}
	return job.Name, c.Delete(ctx, &job, client.Preconditions{UID: &job.UID}, client.PropagationPolicy(metav1.DeletePropagationBackground))
}

// specOf returns the spec of a component.
func specOf(app appkind.Application, component string) desired.ExpandedComponent {
	all := appkind.Components(app)
	if i := slices.IndexFunc(all, func(c desired.ExpandedComponent) bool { return c.Name == component }); i >= 0 {
		return all[i]
	}
	return desired.ExpandedComponent{}
}

// runNow creates a Job from a CronJob, as kubectl create job --from does.
func runNow(ctx context.Context, c client.Client, key client.ObjectKey, suffix int64) (string, error) {
	var schedule batchv1.CronJob
	if err := c.Get(ctx, key, &schedule); err != nil {
		return "", err
	}
	template := schedule.Spec.JobTemplate
	job := &batchv1.Job{Spec: template.Spec, ObjectMeta: metav1.ObjectMeta{
		Namespace: key.Namespace, Name: fmt.Sprintf("%s-%d", key.Name, suffix), Labels: template.Labels, Annotations: map[string]string{},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(&schedule, batchv1.SchemeGroupVersion.WithKind("CronJob"))},
	}}
	for name, value := range template.Annotations {
		job.Annotations[name] = value
	}
	job.Annotations["cronjob.kubernetes.io/instantiate"] = "manual"
	return job.Name, c.Create(ctx, job)
}

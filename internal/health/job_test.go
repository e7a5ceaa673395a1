package health

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func job(changes ...func(*batchv1.Job)) *batchv1.Job {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "migrate"}}
	for _, change := range changes {
		change(j)
	}
	return j
}

func jobGoing(j *batchv1.Job) { j.DeletionTimestamp = new(metav1.Now()) }
func jobHeld(j *batchv1.Job)  { j.Spec.Suspend = new(true) }

func jobIs(kind batchv1.JobConditionType, status corev1.ConditionStatus, reason string) func(*batchv1.Job) {
	return func(j *batchv1.Job) {
		j.Status.Conditions = append(j.Status.Conditions, batchv1.JobCondition{
			Type: kind, Status: status, Reason: reason, Message: "Pod shop/migrate-x7k2p failed for the 3rd time"})
	}
}

func cronJob(changes ...func(*batchv1.CronJob)) *batchv1.CronJob {
	j := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "report"}}
	for _, change := range changes {
		change(j)
	}
	return j
}

func TestOfJob(t *testing.T) {
	complete := jobIs("Complete", "True", "CompletionsReached")
	failed := func(reason string) func(*batchv1.Job) { return jobIs("Failed", "True", reason) }
	broken := func(why string) Verdict {
		return Verdict{"Degraded", "ComponentDegraded", "Job shop/migrate failed: " + why + "; correct the job, or delete the Job to run it again"}
	}
	done := Verdict{"Healthy", "Reconciled", "Job shop/migrate has done its work"}
	going := Verdict{"Progressing", "Progressing", "Job shop/migrate is being deleted"}
	works := Verdict{"Progressing", "Progressing", "Job shop/migrate waits for its pods to end"}
	held := Verdict{"Suspended", "Suspended",
		`Job shop/migrate is suspended, until kubectl patch -n shop job/migrate -p '{"spec":{"suspend":false}}' lets it go on`}
	cases := map[string]struct {
		obj  *batchv1.Job
		want Verdict
	}{
		"new":                                    {job(), works},
		"its pods run":                           {job(func(j *batchv1.Job) { j.Status.Active = 1; j.Spec.Suspend = new(false) }), works},
		"a try failed and another one runs":      {job(func(j *batchv1.Job) { j.Status.Active, j.Status.Failed = 1, 2 }), works},
		"conditions that are not true":           {job(jobIs("Complete", "False", ""), jobIs("Failed", "Unknown", ""), jobIs("Suspended", "False", "")), works},
		"about to fail":                          {job(jobIs("FailureTarget", "True", "BackoffLimitExceeded")), works},
		"about to be done":                       {job(jobIs("SuccessCriteriaMet", "True", "CompletionsReached")), works},
		"done":                                   {job(jobIs("SuccessCriteriaMet", "True", "CompletionsReached"), complete), done},
		"done before somebody suspended it":      {job(complete, jobHeld), done},
		"done and being deleted":                 {job(complete, jobGoing), going},
		"failed and being deleted":               {job(failed("BackoffLimitExceeded"), jobGoing), going},
		"suspended and being deleted":            {job(jobHeld, jobGoing), going},
		"tried too often":                        {job(jobIs("FailureTarget", "True", "BackoffLimitExceeded"), failed("BackoffLimitExceeded")), broken("every try failed")},
		"took too long":                          {job(failed("DeadlineExceeded")), broken("it took longer than activeDeadlineSeconds allows")},
		"failed in a way that is not tried anew": {job(failed("PodFailurePolicy")), broken("its pods failed in a way that is not tried again")},
		"failed for another reason":              {job(failed("FailedIndexes")), broken("see its conditions")},
		"failed without a reason":                {job(failed("")), broken("see its conditions")},
		"failed before somebody suspended it":    {job(failed("BackoffLimitExceeded"), jobHeld), broken("every try failed")},
		"suspended":                              {job(jobHeld, jobIs("Suspended", "True", "JobSuspended")), held},
		"suspended, not yet seen":                {job(jobHeld), held},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := tc.obj.DeepCopy()
			if diff := cmp.Diff(tc.want, Of(tc.obj)); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, tc.obj); diff != "" {
				t.Errorf("the object was changed (-before +after):\n%s", diff)
			}
		})
	}
}

func TestOfCronJob(t *testing.T) {
	going := func(j *batchv1.CronJob) { j.DeletionTimestamp = new(metav1.Now()) }
	held := func(j *batchv1.CronJob) { j.Spec.Suspend = new(true) }
	cases := map[string]struct {
		obj  *batchv1.CronJob
		want Verdict
	}{
		"on its schedule": {cronJob(), Verdict{"Healthy", "Reconciled", "CronJob shop/report runs on its schedule"}},
		"not suspended": {cronJob(func(j *batchv1.CronJob) { j.Spec.Suspend = new(false) }),
			Verdict{"Healthy", "Reconciled", "CronJob shop/report runs on its schedule"}},
		"being deleted":               {cronJob(going), Verdict{"Progressing", "Progressing", "CronJob shop/report is being deleted"}},
		"suspended and being deleted": {cronJob(held, going), Verdict{"Progressing", "Progressing", "CronJob shop/report is being deleted"}},
		"suspended": {cronJob(held), Verdict{"Suspended", "Suspended",
			`CronJob shop/report is suspended, until kubectl patch -n shop cronjob/report -p '{"spec":{"suspend":false}}' lets it go on`}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Of(tc.obj)); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
		})
	}
}

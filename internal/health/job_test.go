package health

import (
	"testing"
	"time"

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

func jobDeleting(j *batchv1.Job)  { j.DeletionTimestamp = new(metav1.Now()) }
func jobSuspended(j *batchv1.Job) { j.Spec.Suspend = new(true) }

func withJobCondition(kind batchv1.JobConditionType, status corev1.ConditionStatus, reason string) func(*batchv1.Job) {
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

func TestJobHealth(t *testing.T) {
	complete := withJobCondition("Complete", "True", "CompletionsReached")
	failed := func(reason string) func(*batchv1.Job) { return withJobCondition("Failed", "True", reason) }
	failedBecause := func(why string) Result {
		return Result{"Degraded", "ComponentDegraded", "Job shop/migrate failed: " + why + "; correct the job, or delete the Job to run it again"}
	}
	done := Result{"Healthy", "Reconciled", "Job shop/migrate has completed"}
	deleting := Result{"Progressing", "Progressing", "Job shop/migrate is being deleted"}
	running := Result{"Progressing", "Progressing", "Job shop/migrate waits for its pods to complete"}
	suspendedJob := Result{"Suspended", "Suspended",
		`Job shop/migrate is suspended; to resume: kubectl patch -n shop job/migrate -p '{"spec":{"suspend":false}}'`}
	cases := map[string]struct {
		obj  *batchv1.Job
		want Result
	}{
		"new":     {job(), running},
		"running": {job(func(j *batchv1.Job) { j.Status.Active = 1; j.Spec.Suspend = new(false) }), running},
		"created at a known time": {job(func(j *batchv1.Job) {
			j.CreationTimestamp = metav1.Date(2026, 1, 2, 4, 4, 5, 0, time.FixedZone("", 3600))
		}),
			Result{"Progressing", "Progressing", "Job shop/migrate has been running since 2026-01-02T03:04:05Z"}},
		"retrying after a failure": {job(func(j *batchv1.Job) { j.Status.Active, j.Status.Failed = 1, 2 }), running},
		"conditions are not true": {job(withJobCondition("Complete", "False", ""), withJobCondition("Failed", "Unknown", ""),
			withJobCondition("Suspended", "False", "")), running},
		"about to fail":               {job(withJobCondition("FailureTarget", "True", "BackoffLimitExceeded")), running},
		"about to complete":           {job(withJobCondition("SuccessCriteriaMet", "True", "CompletionsReached")), running},
		"completed":                   {job(withJobCondition("SuccessCriteriaMet", "True", "CompletionsReached"), complete), done},
		"completed, then suspended":   {job(complete, jobSuspended), done},
		"completed and being deleted": {job(complete, jobDeleting), deleting},
		"failed and being deleted":    {job(failed("BackoffLimitExceeded"), jobDeleting), deleting},
		"suspended and being deleted": {job(jobSuspended, jobDeleting), deleting},
		"backoffLimit reached": {job(withJobCondition("FailureTarget", "True", "BackoffLimitExceeded"), failed("BackoffLimitExceeded")),
			failedBecause("all retries failed (backoffLimit reached)")},
		"deadline exceeded": {job(failed("DeadlineExceeded")), failedBecause("it exceeded activeDeadlineSeconds")},
		"podFailurePolicy": {job(failed("PodFailurePolicy")),
			failedBecause("a pod failed and podFailurePolicy does not allow a retry")},
		"failed for another reason": {job(failed("FailedIndexes")), failedBecause("see its conditions")},
		"failed without a reason":   {job(failed("")), failedBecause("see its conditions")},
		"failed, then suspended": {job(failed("BackoffLimitExceeded"), jobSuspended),
			failedBecause("all retries failed (backoffLimit reached)")},
		"suspended":                   {job(jobSuspended, withJobCondition("Suspended", "True", "JobSuspended")), suspendedJob},
		"suspended, not observed yet": {job(jobSuspended), suspendedJob},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := tc.obj.DeepCopy()
			if diff := cmp.Diff(tc.want, Evaluate(tc.obj)); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, tc.obj); diff != "" {
				t.Errorf("the object was changed (-before +after):\n%s", diff)
			}
		})
	}
}

func TestCronJobHealth(t *testing.T) {
	deleting := func(j *batchv1.CronJob) { j.DeletionTimestamp = new(metav1.Now()) }
	suspendedJob := func(j *batchv1.CronJob) { j.Spec.Suspend = new(true) }
	cases := map[string]struct {
		obj  *batchv1.CronJob
		want Result
	}{
		"on its schedule": {cronJob(), Result{"Healthy", "Reconciled", "CronJob shop/report runs on its schedule"}},
		"not suspended": {cronJob(func(j *batchv1.CronJob) { j.Spec.Suspend = new(false) }),
			Result{"Healthy", "Reconciled", "CronJob shop/report runs on its schedule"}},
		"being deleted":               {cronJob(deleting), Result{"Progressing", "Progressing", "CronJob shop/report is being deleted"}},
		"suspended and being deleted": {cronJob(suspendedJob, deleting), Result{"Progressing", "Progressing", "CronJob shop/report is being deleted"}},
		"suspended": {cronJob(suspendedJob), Result{"Suspended", "Suspended",
			`CronJob shop/report is suspended; to resume: kubectl patch -n shop cronjob/report -p '{"spec":{"suspend":false}}'`}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Evaluate(tc.obj)); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
		})
	}
}

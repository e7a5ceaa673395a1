package explain

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type jobChange = func(*batchv1.Job)

// newTestJob returns a running job.
func newTestJob(changes ...jobChange) *batchv1.Job {
	j := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "migrate-1a2b", UID: "uid-job", CreationTimestamp: ago(podAge)},
		Spec:       batchv1.JobSpec{ActiveDeadlineSeconds: new(int64(600)), BackoffLimit: new(int32(2))},
	}
	for _, change := range changes {
		change(j)
	}
	return j
}

func withJobCondition(kind batchv1.JobConditionType, status corev1.ConditionStatus, reason, message string) jobChange {
	return func(j *batchv1.Job) {
		j.Status.Conditions = append(j.Status.Conditions, batchv1.JobCondition{
			Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: ago(20 * time.Minute)})
	}
}

func withFailedCount(times int32) jobChange { return func(j *batchv1.Job) { j.Status.Failed = times } }

// failedJobPod returns a failed pod of the job.
func failedJobPod(name string, changes ...podOption) *corev1.Pod {
	neverRestart := func(p *corev1.Pod) { p.Spec.RestartPolicy = "Never" }
	return pod(name, append([]podOption{neverRestart, phase("Failed", "")}, changes...)...)
}

func exited(code int32) podOption { return terminated(termination(code, "Error", "", time.Minute)) }

type jobCase struct {
	job       *batchv1.Job
	pods      []*corev1.Pod
	want      []Cause
	recheckAt time.Time
}

// jobCases returns all cases, for tests of invariants.
func jobCases() map[string]jobCase {
	all := failedJobCases()
	failed := []*corev1.Pod{failedJobPod("migrate-a", exited(3))}
	crash := Cause{
		Code: "CrashLoop", Object: testPodRef("migrate-a"), Path: "status.containerStatuses[0].state.terminated.exitCode", Value: "3", Since: testNow.Add(-unreadyFor),
		Message:  "Container app of Pod migrate-a crashes: it exited with code 3",
		Fix:      "Check the last log lines of the container: kubectl logs -n shop migrate-a -c app",
		Evidence: []string{"1 of 1 pods", "restarts: 0", `exit code 3, reason "Error"`},
	}
	gone := func(j *batchv1.Job) { j.DeletionTimestamp = new(ago(time.Second)) }
	limit := withJobCondition("Failed", "True", "BackoffLimitExceeded", "")
	all["no job"] = jobCase{pods: failed}
	all["completed after a retry"] = jobCase{job: newTestJob(withJobCondition("Complete", "True", "CompletionsReached", "")), pods: failed}
	all["being deleted"] = jobCase{job: newTestJob(gone), pods: failed}
	all["failed and being deleted"] = jobCase{job: newTestJob(limit, gone), pods: failed}
	all["running"] = jobCase{job: newTestJob(), pods: []*corev1.Pod{pod("migrate-a", running(time.Minute), containerReady, ready)}}
	all["running after a failed attempt"] = jobCase{job: newTestJob(withFailedCount(1)), pods: failed, want: []Cause{crash},
		recheckAt: testNow.Add(9 * time.Minute)}
	all["conditions that are not true"] = jobCase{
		job:  newTestJob(withJobCondition("Failed", "False", "BackoffLimitExceeded", ""), withJobCondition("Complete", "Unknown", "", "")),
		pods: failed, want: []Cause{crash}, recheckAt: testNow.Add(9 * time.Minute)}
	all["about to fail"] = jobCase{
		job:  newTestJob(withJobCondition("FailureTarget", "True", "BackoffLimitExceeded", "")),
		pods: failed, want: []Cause{crash}, recheckAt: testNow.Add(9 * time.Minute)}
	return all
}

func failedJobCases() map[string]jobCase {
	const limit = "BackoffLimitExceeded"
	conditionMessage := "Job has reached the specified backoff limit"
	proxy := func(p *corev1.Pod) {
		p.Spec.InitContainers[0].RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
	}
	state := func(t *corev1.ContainerStateTerminated) corev1.ContainerStatus {
		return corev1.ContainerStatus{State: corev1.ContainerState{Terminated: t}}
	}
	evicted := func(p *corev1.Pod) {
		p.Status.Reason, p.Status.Message = "Evicted", "The node was low on resource:\n memory. "+strings.Repeat("x", 2000)
	}
	low := "The node was low on resource:  memory. " + strings.Repeat("x", 982) + "..."
	newest := "newest failed pod: migrate-a"
	error3 := `exit code 3, reason "Error"`
	unstarted := waiting("PodInitializing", "")
	all := map[string]jobCase{}
	for name, tc := range map[string]struct {
		reason   string
		pods     []*corev1.Pod
		text     string
		evidence []string
	}{
		"exit code": {limit, []*corev1.Pod{failedJobPod("migrate-a", terminated(termination(3, "Error", "start\npassword=hunter2\n", time.Minute)))},
			"its container exited with code 3", []string{newest, error3, "last output: password=hunter2"}},
		"old exit code": {limit, []*corev1.Pod{failedJobPod("migrate-a", terminated(termination(3, "Error", "", podAge)))},
			"its container exited with code 3", []string{newest, error3}},
		"the newest of several": {limit, []*corev1.Pod{
			failedJobPod("migrate-c", exited(1), created(2*time.Minute)), failedJobPod("migrate-a", exited(3), created(time.Minute)), nil,
			failedJobPod("migrate-b", exited(2), created(3*time.Minute)), pod("migrate-d", running(time.Second), created(0)),
			failedJobPod("migrate-e", exited(143), created(0), deleted)},
			"its container exited with code 3", []string{newest, error3}},
		"same age, the last by name": {limit, []*corev1.Pod{failedJobPod("migrate-b", exited(3)), failedJobPod("migrate-a", exited(1))},
			"its container exited with code 3", []string{"newest failed pod: migrate-b", error3}},
		"out of memory": {limit, []*corev1.Pod{failedJobPod("migrate-a", limits("64Mi"), terminated(termination(137, "OOMKilled", "", time.Minute)))},
			"its container was killed because it used more than its memory limit of 64Mi", []string{newest, `exit code 137, reason "OOMKilled"`}},
		"out of memory without a limit": {limit, []*corev1.Pod{failedJobPod("migrate-a", terminated(termination(0, "OOMKilled", "", time.Minute)))},
			"its container was killed by the OOM killer", []string{newest, `exit code 0, reason "OOMKilled"`}},
		"killed": {limit, []*corev1.Pod{failedJobPod("migrate-a", exited(137))},
			"its container was killed (exit code 137)", []string{newest, `exit code 137, reason "Error"`}},
		"terminated by SIGTERM": {limit, []*corev1.Pod{failedJobPod("migrate-a", exited(143))},
			"its container was killed (exit code 143)", []string{newest, `exit code 143, reason "Error"`}},
		"lost": {limit, []*corev1.Pod{failedJobPod("migrate-a", terminated(termination(137, "ContainerStatusUnknown", "", time.Minute)))},
			"its container was lost and its exit status is unknown", []string{newest, `exit code 137, reason "ContainerStatusUnknown"`}},
		"lost, with reason Unknown": {limit, []*corev1.Pod{failedJobPod("migrate-a", terminated(termination(255, "Unknown", "", time.Minute)))},
			"its container was lost and its exit status is unknown", []string{newest, `exit code 255, reason "Unknown"`}},
		"cannot be started": {limit, []*corev1.Pod{failedJobPod("migrate-a", terminated(termination(128, "StartError", "exec: /bin/nope", time.Minute)))},
			"its container cannot be started: the container runtime cannot start its command (exit code 128)",
			[]string{newest, `exit code 128, reason "StartError"`, "last output: exec: /bin/nope"}},
		"cannot run": {limit, []*corev1.Pod{failedJobPod("migrate-a", terminated(termination(127, "ContainerCannotRun", "", time.Minute)))},
			"its container cannot be started: the container runtime cannot start its command (exit code 127)",
			[]string{newest, `exit code 127, reason "ContainerCannotRun"`}},
		"another container": {limit, []*corev1.Pod{failedJobPod("migrate-a", terminated(termination(0, "Completed", "", time.Minute)), withContainer("side", state(termination(3, "Error", "", time.Minute))))},
			"its container side exited with code 3", []string{newest, error3}},
		"main container comes first": {limit, []*corev1.Pod{failedJobPod("migrate-a", exited(3),
			withContainer("side", state(termination(1, "Error", "", time.Minute))),
			func(p *corev1.Pod) { slices.Reverse(p.Status.ContainerStatuses) })},
			"its container exited with code 3", []string{newest, error3}},
		"init container": {limit, []*corev1.Pod{failedJobPod("migrate-a", unstarted,
			withInitContainer("wait", state(termination(3, "Error", "", time.Minute))))},
			"its init container wait exited with code 3", []string{newest, error3}},
		"init container of the same name": {limit, []*corev1.Pod{failedJobPod("migrate-a", unstarted,
			withInitContainer("app", state(termination(3, "Error", "", time.Minute))))},
			"its init container app exited with code 3", []string{newest, error3}},
		"sidecar is ignored": {limit, []*corev1.Pod{failedJobPod("migrate-a", unstarted,
			withInitContainer("proxy", state(termination(143, "Error", "", time.Minute))), proxy,
			withInitContainer("wait", state(termination(3, "Error", "", time.Minute))))},
			"its init container wait exited with code 3", []string{newest, error3}},
		"evicted": {limit, []*corev1.Pod{failedJobPod("migrate-a", exited(137), evicted)},
			"its pod was evicted", []string{newest, `reason "Evicted"`, low}},
		"rejected by the node": {limit, []*corev1.Pod{failedJobPod("migrate-a", phase("Failed", "OutOfcpu"), unstarted)},
			"its pod was rejected or terminated by its node", []string{newest, `reason "OutOfcpu"`}},
		"pod without a termination": {limit, []*corev1.Pod{failedJobPod("migrate-a")}, "all retries failed (backoffLimit reached)",
			[]string{newest}},
		"failed pod with condition Ready": {limit, []*corev1.Pod{failedJobPod("migrate-a", exited(3), ready)},
			"its container exited with code 3", []string{newest, error3}},
		"no pod left": {limit, nil, "all retries failed (backoffLimit reached)", nil},
		"only a terminating pod": {limit, []*corev1.Pod{failedJobPod("migrate-a", exited(143), deleted)},
			"all retries failed (backoffLimit reached)", nil},
		"not retried": {"PodFailurePolicy", []*corev1.Pod{failedJobPod("migrate-a", exited(3))},
			"its container exited with code 3", []string{newest, error3}},
		"not retried, and no pod left": {"PodFailurePolicy", nil, "a pod failed and podFailurePolicy does not allow a retry", nil},
		"another reason":               {"FailedIndexes", nil, "see its conditions", nil},
		"deadline exceeded":            {"DeadlineExceeded", nil, "it exceeded activeDeadlineSeconds (600 s)", nil},
		"deadline exceeded after a failure": {"DeadlineExceeded", []*corev1.Pod{failedJobPod("migrate-a", exited(3))},
			"it exceeded activeDeadlineSeconds (600 s)", []string{newest, error3}},
	} {
		all["failed: "+name] = jobCase{
			job: newTestJob(withFailedCount(3), withJobCondition("FailureTarget", "True", tc.reason, ""), withJobCondition("Failed", "True", tc.reason, conditionMessage)), pods: tc.pods,
			want: []Cause{wantJobFailed(tc.reason, tc.text, append([]string{"failed pods: 3", conditionMessage}, tc.evidence...)...)},
		}
	}
	all["failed: without a reason"] = jobCase{job: newTestJob(withJobCondition("Failed", "True", "", "")),
		want: []Cause{wantJobFailed("", "see its conditions", "failed pods: 0")}}
	all["failed: deadline exceeded, without a deadline in the spec"] = jobCase{
		job:  newTestJob(withJobCondition("Failed", "True", "DeadlineExceeded", ""), func(j *batchv1.Job) { j.Spec.ActiveDeadlineSeconds = nil }),
		want: []Cause{wantJobFailed("DeadlineExceeded", "it exceeded activeDeadlineSeconds", "failed pods: 0")}}
	return all
}

func wantJobFailed(reason, text string, evidence ...string) Cause {
	return Cause{
		Code: "JobFailed", Object: ObjectRef{Kind: "Job", Namespace: "shop", Name: "migrate-1a2b", UID: "uid-job"},
		Path: "status.conditions", Value: reason, Since: testNow.Add(-20 * time.Minute),
		Message:  "Job shop/migrate-1a2b failed: " + text,
		Fix:      "Check its logs: kubectl logs -n shop job/migrate-1a2b; then correct the job, or delete the Job to run it again",
		Evidence: evidence,
	}
}

func TestExplainJob(t *testing.T) {
	for name, tc := range jobCases() {
		t.Run(name, func(t *testing.T) {
			job, before := tc.job.DeepCopy(), copyPods(tc.pods)
			got, again := diagnoseJob(tc.job, tc.pods, testNow)
			if diff := cmp.Diff(tc.want, got, ignoreAffectedPods); diff != "" {
				t.Errorf("causes (-want +got):\n%s", diff)
			}
			if !again.Equal(tc.recheckAt) {
				t.Errorf("recheck at %s, want %s", again, tc.recheckAt)
			}
			if diff := cmp.Diff(job, tc.job) + cmp.Diff(before, copyPods(tc.pods)); diff != "" {
				t.Errorf("arguments were changed (-before +after):\n%s", diff)
			}
			checkCauseText(t, got, "hunter2")
		})
	}
}

// The pods of a running job are explained like other pods; the pods of a completed or failed job are not.
func TestRunningJobExplainsItsPods(t *testing.T) {
	for name, tc := range podCases() {
		t.Run(name, func(t *testing.T) {
			want, wantAgain := diagnosePods(tc.pods, testNow)
			got, again := diagnoseJob(newTestJob(), tc.pods, testNow)
			if diff := cmp.Diff(want, got, ignoreAffectedPods); diff != "" || again != wantAgain {
				t.Errorf("recheck at %s, want %s; causes (-of the pods +of the job):\n%s", again, wantAgain, diff)
			}
			if got, again := diagnoseJob(newTestJob(withJobCondition("Complete", "True", "", "")), tc.pods, testNow); got != nil || !again.IsZero() {
				t.Errorf("completed job: recheck at %s, causes %v, want none", again, got)
			}
			got, again = diagnoseJob(newTestJob(withJobCondition("Failed", "True", "BackoffLimitExceeded", "")), tc.pods, testNow)
			if len(got) != 1 || got[0].Code != "JobFailed" || !again.IsZero() {
				t.Errorf("recheck at %s, causes %v, want only JobFailed", again, got)
			}
		})
	}
}

func TestExplainJobIgnoresPodOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for name, tc := range jobCases() {
		t.Run(name, func(t *testing.T) {
			for range 5 {
				shuffled := slices.Clone(tc.pods)
				rng.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
				got, again := diagnoseJob(tc.job, shuffled, testNow)
				if diff := cmp.Diff(tc.want, got, ignoreAffectedPods); diff != "" || !again.Equal(tc.recheckAt) {
					t.Fatalf("recheck at %s, want %s; causes of shuffled pods (-want +got):\n%s", again, tc.recheckAt, diff)
				}
			}
		})
	}
}

// The causes in a status do not change if only times and counts change.
func TestJobStatusIsStable(t *testing.T) {
	for name, tc := range jobCases() {
		t.Run(name, func(t *testing.T) {
			first, _ := diagnoseJob(tc.job, tc.pods, testNow)
			before := ForStatus(first)
			later := copyPods(tc.pods)
			for _, p := range later {
				for i := range p.Status.Conditions {
					p.Status.Conditions[i].LastTransitionTime = ago(time.Second)
				}
			}
			job := tc.job.DeepCopy()
			if job != nil {
				job.Status.Failed++
			}
			second, _ := diagnoseJob(job, later, testNow.Add(time.Second))
			if diff := cmp.Diff(before, ForStatus(PreserveSince(second, before))); diff != "" {
				t.Errorf("status (-before +after):\n%s", diff)
			}
		})
	}
}

func TestJobFailureWithoutTransitionTime(t *testing.T) {
	job := newTestJob(withJobCondition("Failed", "True", "BackoffLimitExceeded", ""))
	job.Status.Conditions[0].LastTransitionTime = metav1.Time{}
	got, _ := diagnoseJob(job, nil, testNow)
	if len(got) != 1 || !got[0].Since.Equal(testNow.Add(-podAge)) {
		t.Errorf("causes %v, want one since the job was created", got)
	}
}

// Failed jobs rank like crashes: after images, before probes.
func TestJobFailureRank(t *testing.T) {
	causes := []Cause{newTestCause("ReadinessFailing", "web-1", "c", podAge), newTestCause("JobFailed", "migrate", "b", 0), newTestCause("ImageNotFound", "web-2", "a", 0)}
	want := []Cause{causes[2], causes[1], causes[0]}
	if diff := cmp.Diff(want, PreserveSince(causes, nil)); diff != "" {
		t.Errorf("causes (-want +got):\n%s", diff)
	}
}

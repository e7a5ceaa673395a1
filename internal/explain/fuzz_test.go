package explain

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// FuzzExplainPods checks arbitrary texts of registries, schedulers, runtimes and programs: Explain
// terminates, its texts are bounded, and the output of a crashed program is evidence only.
func FuzzExplainPods(f *testing.F) {
	f.Add("ErrImagePull", pullErrorPrefix+"docker.io/shop/web:2: not found", "Error", "shop/web:2", "0/1 nodes are available: 1 Insufficient cpu.")
	f.Add("ImagePullBackOff", "unauthorized", "OOMKilled", "a", "0/1 nodes are available: 1 Insufficient \x00, 2 ., . ")
	f.Add("CreateContainerConfigError", `secret "x" not found`, "Unknown", "/", "nodes are available: ,,,")
	f.Add("CrashLoopBackOff", strings.Repeat("x", 5000), "StartError", strings.Repeat("é/", 900), strings.Repeat("1 é, ", 2000))
	f.Add("RegistryUnavailable", "\xff\xfe\u2028\u200b", "", "\xff", "0/1 nodes are available: 9")
	const marker = "S3CR3T-0UTPUT"
	f.Fuzz(func(t *testing.T, reason, message, terminationReason, img, schedulerMessage string) {
		for _, text := range []string{reason, message, terminationReason, img, schedulerMessage} {
			if strings.Contains(text, marker) {
				t.Skip("the marker must only be in the output")
			}
		}
		output := message + "\n" + marker + message + "\n"
		all := []*corev1.Pod{
			pod("web-1", image(img), waiting(reason, message), restarted(1, termination(1, terminationReason, output, time.Minute))),
			pod("web-2", image(img), terminated(termination(2, terminationReason, output, time.Minute))),
			pod("web-3", unscheduled(time.Minute, "Unschedulable", schedulerMessage)),
			pod("web-4", withInitContainer("first", corev1.ContainerStatus{State: corev1.ContainerState{
				Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}, Terminated: termination(3, terminationReason, marker, 0)}})),
		}
		causes, _ := diagnosePods(all, testNow)
		checkCauseText(t, causes, marker)
		for i, p := range all {
			all[i] = ProjectPod(p)
		}
		projected, _ := diagnosePods(all, testNow)
		if diff := cmp.Diff(causes, projected); diff != "" {
			t.Errorf("causes (-full +projected):\n%s", diff)
		}
	})
}

// FuzzExplainJob checks arbitrary texts in a failed job and its pods.
func FuzzExplainJob(f *testing.F) {
	f.Add("BackoffLimitExceeded", "Job has reached the specified backoff limit", "Error", "", "app", int32(3))
	f.Add("PodFailurePolicy", strings.Repeat("x", 5000), "OOMKilled", "", "side", int32(0))
	f.Add("DeadlineExceeded", "\xff\xfe\u2028\u200b", "Unknown", "Evicted", strings.Repeat("é", 900), int32(137))
	f.Add("\xff"+strings.Repeat("é", 900), "", "StartError", "\x00", "\n", int32(-1))
	const marker = "S3CR3T-0UTPUT"
	f.Fuzz(func(t *testing.T, reason, message, terminationReason, podReason, name string, code int32) {
		for _, text := range []string{reason, message, terminationReason, podReason, name} {
			if strings.Contains(text, marker) {
				t.Skip("the marker must only be in the output")
			}
		}
		output := message + "\n" + marker + message + "\n"
		job := newTestJob(withJobCondition("Failed", "True", reason, marker+message))
		all := []*corev1.Pod{
			failedJobPod("migrate-a", exited(1), created(podAge)),
			failedJobPod("migrate-b", terminated(termination(code, terminationReason, output, time.Minute)), phase("Failed", podReason), func(p *corev1.Pod) {
				p.Status.Message = marker + message
				p.Spec.Containers[0].Name, p.Status.ContainerStatuses[0].Name = name, name
			}, created(time.Minute)),
		}
		causes, _ := diagnoseJob(job, all, testNow)
		if len(causes) != 1 {
			t.Errorf("%d causes, want one", len(causes))
		}
		checkCauseText(t, causes, marker)
		for i, p := range all {
			all[i] = ProjectPod(p)
		}
		projected, _ := diagnoseJob(job, all, testNow)
		if diff := cmp.Diff(causes, projected); diff != "" {
			t.Errorf("causes (-full +projected):\n%s", diff)
		}
	})
}

// checkCauseText checks the invariants of all causes: texts are bounded and one plain line, and
// secrets are in the evidence only.
func checkCauseText(t *testing.T, causes []Cause, secret string) {
	t.Helper()
	for _, c := range causes {
		if len(c.Message) > 512 || len(c.Fix) > 512 || c.Message == "" || c.Fix == "" {
			t.Errorf("message and fix of %d and %d bytes, want 1 to 512: %q %q", len(c.Message), len(c.Fix), c.Message, c.Fix)
		}
		for _, text := range []string{c.Message, c.Fix, c.Path, c.Value} {
			if strings.Contains(text, secret) {
				t.Errorf("program output outside of the evidence: %q", text)
			}
		}
		if !utf8.ValidString(c.Message) || strings.ContainsAny(c.Message, "\n\r\x00") {
			t.Errorf("not one plain line: %q", c.Message)
		}
		for _, text := range c.Evidence {
			if len(text) > 2*maxEvidence || !utf8.ValidString(text) {
				t.Errorf("evidence of %d bytes: %q", len(text), text)
			}
		}
	}
}

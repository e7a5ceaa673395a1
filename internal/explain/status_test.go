package explain

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

func newTestCause(code Code, name, message string, before time.Duration) Cause {
	return Cause{Code: code, Object: ObjectRef{Kind: "Pod", Name: name}, Message: message, Since: testNow.Add(-before)}
}

func newStatusCause(code, name, message string, before time.Duration) appsapi.Cause {
	return appsapi.Cause{Code: code, Message: message, Object: appsapi.ObjectReference{Kind: "Pod", Name: name}, Since: ago(before)}
}

func TestPreserveSince(t *testing.T) {
	otherKind := newStatusCause("CrashLoop", "web-1", "a", time.Hour)
	otherKind.Object.Kind = "Deployment"
	cases := map[string]struct {
		causes []Cause
		before []appsapi.Cause
		want   []Cause
	}{
		"no causes": {},
		"no causes before": {
			causes: []Cause{newTestCause("CrashLoop", "web-1", "a", time.Minute)},
			want:   []Cause{newTestCause("CrashLoop", "web-1", "a", time.Minute)},
		},
		"same cause": {
			causes: []Cause{newTestCause("CrashLoop", "web-1", "exit 1", time.Minute)},
			before: []appsapi.Cause{newStatusCause("CrashLoop", "web-1", "exit 1", time.Hour)},
			want:   []Cause{newTestCause("CrashLoop", "web-1", "exit 1", time.Hour)},
		},
		"same cause with another message": {
			causes: []Cause{newTestCause("CrashLoop", "web-1", "exit 2", time.Minute)},
			before: []appsapi.Cause{newStatusCause("CrashLoop", "web-1", "exit 1", time.Hour)},
			want:   []Cause{newTestCause("CrashLoop", "web-1", "exit 2", time.Hour)},
		},
		"began earlier than in the previous status": {
			causes: []Cause{newTestCause("CrashLoop", "web-1", "a", time.Hour)},
			before: []appsapi.Cause{newStatusCause("CrashLoop", "web-1", "a", time.Minute)},
			want:   []Cause{newTestCause("CrashLoop", "web-1", "a", time.Minute)},
		},
		"another code, object or kind": {
			causes: []Cause{newTestCause("CrashLoop", "web-1", "a", time.Minute)},
			before: []appsapi.Cause{newStatusCause("OOMKilled", "web-1", "a", time.Hour), newStatusCause("CrashLoop", "web-2", "a", time.Hour), otherKind},
			want:   []Cause{newTestCause("CrashLoop", "web-1", "a", time.Minute)},
		},
		"previous time is zero": {
			causes: []Cause{newTestCause("CrashLoop", "web-1", "a", time.Minute)},
			before: []appsapi.Cause{{Code: "CrashLoop", Message: "a", Object: appsapi.ObjectReference{Kind: "Pod", Name: "web-1"}}},
			want:   []Cause{newTestCause("CrashLoop", "web-1", "a", time.Minute)},
		},
		"two causes with the same code and object": {
			causes: []Cause{newTestCause("MissingSecret", "web-1", "b", time.Minute), newTestCause("MissingSecret", "web-1", "a", time.Minute)},
			before: []appsapi.Cause{newStatusCause("MissingSecret", "web-1", "a", 2*time.Hour), newStatusCause("MissingSecret", "web-1", "b", time.Hour)},
			want:   []Cause{newTestCause("MissingSecret", "web-1", "a", 2*time.Hour), newTestCause("MissingSecret", "web-1", "b", time.Hour)},
		},
		"second cause is new": {
			causes: []Cause{newTestCause("MissingSecret", "web-1", "b", time.Minute), newTestCause("MissingSecret", "web-1", "a", time.Minute)},
			before: []appsapi.Cause{newStatusCause("MissingSecret", "web-1", "a", time.Hour)},
			want:   []Cause{newTestCause("MissingSecret", "web-1", "a", time.Hour), newTestCause("MissingSecret", "web-1", "b", time.Minute)},
		},
		"sorted by the preserved time": {
			causes: []Cause{newTestCause("CrashLoop", "web-1", "a", 2*time.Minute), newTestCause("CrashLoop", "web-2", "b", time.Minute), newTestCause("Unschedulable", "web-3", "c", podAge)},
			before: []appsapi.Cause{newStatusCause("CrashLoop", "web-2", "b", time.Hour)},
			want:   []Cause{newTestCause("CrashLoop", "web-2", "b", time.Hour), newTestCause("CrashLoop", "web-1", "a", 2*time.Minute), newTestCause("Unschedulable", "web-3", "c", podAge)},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			causes, before := append([]Cause(nil), tc.causes...), append([]appsapi.Cause(nil), tc.before...)
			if diff := cmp.Diff(tc.want, PreserveSince(tc.causes, tc.before)); diff != "" {
				t.Errorf("causes (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(causes, tc.causes) + cmp.Diff(before, tc.before); diff != "" {
				t.Errorf("arguments were changed (-before +after):\n%s", diff)
			}
		})
	}
}

func TestForStatus(t *testing.T) {
	full := Cause{
		Code: "ImageNotFound", Object: ObjectRef{Kind: "Pod", Namespace: "shop", Name: "web-1", UID: "u"}, Path: "p", Value: "v",
		Since: testNow.Add(time.Millisecond), Message: "It is gone", Fix: "Bring it back.", Evidence: []string{"secret"},
	}
	want := appsapi.Cause{Code: "ImageNotFound", Message: "It is gone", Object: appsapi.ObjectReference{Kind: "Pod", Name: "web-1"}, Since: metav1.NewTime(testNow)}
	cases := map[string]struct {
		causes []Cause
		want   []appsapi.Cause
	}{
		"none":  {nil, nil},
		"one":   {[]Cause{full}, []appsapi.Cause{want}},
		"three": {[]Cause{full, full, full}, []appsapi.Cause{want, want, want}},
		"four":  {[]Cause{full, full, full, {Code: "Unschedulable"}}, []appsapi.Cause{want, want, want}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := ForStatus(tc.causes)
			if diff := cmp.Diff(tc.want, got, ignoreAffectedPods); diff != "" {
				t.Errorf("causes (-want +got):\n%s", diff)
			}
			raw, err := json.Marshal(got)
			if err != nil {
				t.Fatal(err)
			}
			var read []appsapi.Cause
			if err := json.Unmarshal(raw, &read); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(got, read); diff != "" {
				t.Errorf("after a JSON round trip (-written +read):\n%s", diff)
			}
		})
	}
}

// The causes in a status do not change if only the transition times of the pods change.
func TestStatusIsStable(t *testing.T) {
	for name, tc := range podCases() {
		t.Run(name, func(t *testing.T) {
			first, _ := diagnosePods(tc.pods, testNow)
			before := ForStatus(first)
			later := copyPods(tc.pods)
			for _, p := range later {
				for i := range p.Status.Conditions {
					if c := &p.Status.Conditions[i]; c.Type != "PodScheduled" {
						c.LastTransitionTime = ago(time.Second)
					}
				}
			}
			second, _ := diagnosePods(later, testNow.Add(time.Second))
			after := ForStatus(PreserveSince(second, before))
			if len(first) == 0 && len(second) > 0 {
				return // a grace period has ended
			}
			if diff := cmp.Diff(before, after); diff != "" {
				t.Errorf("status (-before +after):\n%s", diff)
			}
		})
	}
}

func TestWarning(t *testing.T) {
	notice := newTestCause(ScaledToZero, "web", "scaled to zero", time.Hour)
	warning := newTestCause(AutoscalerMetricsMissing, "web", "does not scale", time.Hour)
	if got := Warning([]Cause{notice, warning}); got != "does not scale" {
		t.Errorf("got %q", got)
	}
	if got := Warning([]Cause{notice}); got != "" {
		t.Errorf("got %q for a cause that needs no action", got)
	}
}

// Metrics are not missing if the pods have no request to compare them with.
func TestAutoscalerOfPodsWithoutRequests(t *testing.T) {
	a := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	a.Status.Conditions = []autoscalingv2.HorizontalPodAutoscalerCondition{{
		Type: autoscalingv2.ScalingActive, Status: corev1.ConditionFalse, Reason: "FailedGetResourceMetric", LastTransitionTime: ago(time.Hour),
		Message: "failed to get memory utilization: missing request for memory in container app of Pod web-1"}}
	causes := Explain(Snapshot{Autoscalers: []*autoscalingv2.HorizontalPodAutoscaler{a}, SpecPath: "spec.components[web].service"}, testNow).Causes
	const message = "HorizontalPodAutoscaler web cannot compute the utilization of its pods, which have no memory request, so it does not scale"
	const fix = "Set spec.components[web].service.resources.requests.memory of the application."
	if len(causes) != 1 || causes[0].Message != message || causes[0].Fix != fix {
		t.Errorf("got %+v", causes)
	}
}

package explain

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

func now(code Code, name, sentence string, before time.Duration) Cause {
	return Cause{Code: code, Object: Object{Kind: "Pod", Name: name}, Sentence: sentence, Since: noon.Add(-before)}
}

func was(code, name, message string, before time.Duration) appsapi.Cause {
	return appsapi.Cause{Code: code, Message: message, Object: appsapi.ObjectReference{Kind: "Pod", Name: name}, Since: ago(before)}
}

func TestKeep(t *testing.T) {
	ofAnother := was("CrashLoop", "web-1", "a", time.Hour)
	ofAnother.Object.Kind = "Deployment"
	cases := map[string]struct {
		causes []Cause
		before []appsapi.Cause
		want   []Cause
	}{
		"nothing": {},
		"nothing before": {
			causes: []Cause{now("CrashLoop", "web-1", "a", time.Minute)},
			want:   []Cause{now("CrashLoop", "web-1", "a", time.Minute)},
		},
		"the same": {
			causes: []Cause{now("CrashLoop", "web-1", "exit 1", time.Minute)},
			before: []appsapi.Cause{was("CrashLoop", "web-1", "exit 1", time.Hour)},
			want:   []Cause{now("CrashLoop", "web-1", "exit 1", time.Hour)},
		},
		"the same in other words": {
			causes: []Cause{now("CrashLoop", "web-1", "exit 2", time.Minute)},
			before: []appsapi.Cause{was("CrashLoop", "web-1", "exit 1", time.Hour)},
			want:   []Cause{now("CrashLoop", "web-1", "exit 2", time.Hour)},
		},
		"began earlier than was said before": {
			causes: []Cause{now("CrashLoop", "web-1", "a", time.Hour)},
			before: []appsapi.Cause{was("CrashLoop", "web-1", "a", time.Minute)},
			want:   []Cause{now("CrashLoop", "web-1", "a", time.Minute)},
		},
		"another code, object or kind": {
			causes: []Cause{now("CrashLoop", "web-1", "a", time.Minute)},
			before: []appsapi.Cause{was("OOMKilled", "web-1", "a", time.Hour), was("CrashLoop", "web-2", "a", time.Hour), ofAnother},
			want:   []Cause{now("CrashLoop", "web-1", "a", time.Minute)},
		},
		"a time that was never set": {
			causes: []Cause{now("CrashLoop", "web-1", "a", time.Minute)},
			before: []appsapi.Cause{{Code: "CrashLoop", Message: "a", Object: appsapi.ObjectReference{Kind: "Pod", Name: "web-1"}}},
			want:   []Cause{now("CrashLoop", "web-1", "a", time.Minute)},
		},
		"two of one code in one object": {
			causes: []Cause{now("MissingSecret", "web-1", "b", time.Minute), now("MissingSecret", "web-1", "a", time.Minute)},
			before: []appsapi.Cause{was("MissingSecret", "web-1", "a", 2*time.Hour), was("MissingSecret", "web-1", "b", time.Hour)},
			want:   []Cause{now("MissingSecret", "web-1", "a", 2*time.Hour), now("MissingSecret", "web-1", "b", time.Hour)},
		},
		"a second one is new": {
			causes: []Cause{now("MissingSecret", "web-1", "b", time.Minute), now("MissingSecret", "web-1", "a", time.Minute)},
			before: []appsapi.Cause{was("MissingSecret", "web-1", "a", time.Hour)},
			want:   []Cause{now("MissingSecret", "web-1", "a", time.Hour), now("MissingSecret", "web-1", "b", time.Minute)},
		},
		"the order follows": {
			causes: []Cause{now("CrashLoop", "web-1", "a", 2*time.Minute), now("CrashLoop", "web-2", "b", time.Minute), now("Unschedulable", "web-3", "c", age)},
			before: []appsapi.Cause{was("CrashLoop", "web-2", "b", time.Hour)},
			want:   []Cause{now("CrashLoop", "web-2", "b", time.Hour), now("CrashLoop", "web-1", "a", 2*time.Minute), now("Unschedulable", "web-3", "c", age)},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			causes, before := append([]Cause(nil), tc.causes...), append([]appsapi.Cause(nil), tc.before...)
			if diff := cmp.Diff(tc.want, Keep(tc.causes, tc.before)); diff != "" {
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
		Code: "ImageNotFound", Object: Object{Kind: "Pod", Namespace: "shop", Name: "web-1", UID: "u"}, Path: "p", Value: "v",
		Since: noon.Add(time.Millisecond), Sentence: "It is gone", Fix: "Bring it back.", Evidence: []string{"secret"},
	}
	want := appsapi.Cause{Code: "ImageNotFound", Message: "It is gone", Object: appsapi.ObjectReference{Kind: "Pod", Name: "web-1"}, Since: metav1.NewTime(noon)}
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
			if diff := cmp.Diff(tc.want, got, counted); diff != "" {
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
				t.Errorf("read back from the API (-written +read):\n%s", diff)
			}
		})
	}
}

// What was explained, written and read again is explained the same the next time, also
// when the conditions of the pods have moved meanwhile.
func TestStatusIsStable(t *testing.T) {
	for name, tc := range stories() {
		t.Run(name, func(t *testing.T) {
			first, _ := Pods(tc.pods, noon)
			before := ForStatus(first)
			later := pods(tc.pods)
			for _, p := range later {
				for i := range p.Status.Conditions {
					if c := &p.Status.Conditions[i]; c.Type != "PodScheduled" {
						c.LastTransitionTime = ago(time.Second)
					}
				}
			}
			second, _ := Pods(later, noon.Add(time.Second))
			after := ForStatus(Keep(second, before))
			if len(first) == 0 && len(second) > 0 {
				return // a grace period is over
			}
			if diff := cmp.Diff(before, after); diff != "" {
				t.Errorf("status (-before +after):\n%s", diff)
			}
		})
	}
}

package conditions

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var (
	noon  = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	later = noon.Add(time.Hour)
)

func ready(status metav1.ConditionStatus, reason, message string, at time.Time) metav1.Condition {
	return metav1.Condition{Type: "Ready", Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(at)}
}

func TestSet(t *testing.T) {
	cases := map[string]struct {
		before []metav1.Condition
		set    metav1.Condition
		want   []metav1.Condition
	}{
		"first": {
			set:  ready("False", "Progressing", "Deployment shop/web is rolling out", time.Time{}),
			want: []metav1.Condition{ready("False", "Progressing", "Deployment shop/web is rolling out", later)},
		},
		"same": {
			before: []metav1.Condition{ready("True", "Reconciled", "all well", noon)},
			set:    ready("True", "Reconciled", "all well", time.Time{}),
			want:   []metav1.Condition{ready("True", "Reconciled", "all well", noon)},
		},
		"another reason keeps the time": {
			before: []metav1.Condition{ready("False", "Progressing", "", noon)},
			set:    ready("False", "ComponentDegraded", "", time.Time{}),
			want:   []metav1.Condition{ready("False", "ComponentDegraded", "", noon)},
		},
		"flip": {
			before: []metav1.Condition{ready("False", "Progressing", "", noon)},
			set:    ready("True", "Reconciled", "", time.Time{}),
			want:   []metav1.Condition{ready("True", "Reconciled", "", later)},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			Set(&tc.before, tc.set, later.Add(time.Millisecond)) // stored times have no fractions
			if diff := cmp.Diff(tc.want, tc.before); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSetOrRemove(t *testing.T) {
	var conditions []metav1.Condition
	SetOrRemove(&conditions, false, metav1.Condition{Type: "Stalled"}, noon)
	if len(conditions) != 0 {
		t.Errorf("got %v, want none", conditions)
	}
	SetOrRemove(&conditions, true, metav1.Condition{Type: "Stalled", Reason: "RolloutTimedOut"}, noon)
	if len(conditions) != 1 || conditions[0].Status != metav1.ConditionTrue {
		t.Errorf("got %v, want Stalled", conditions)
	}
	SetOrRemove(&conditions, false, metav1.Condition{Type: "Stalled"}, noon)
	if len(conditions) != 0 {
		t.Errorf("got %v, want none", conditions)
	}
}

func TestTrim(t *testing.T) {
	cases := map[string]struct{ in, want string }{
		"short":      {"as it is", "as it is"},
		"lines":      {"one\n  two\tthree ", "one two three"},
		"words":      {strings.Repeat("word ", 300), strings.TrimSpace(strings.Repeat("word ", 204)) + " ..."},
		"one word":   {strings.Repeat("x", 2000), strings.Repeat("x", 1020) + " ..."},
		"odd runes":  {"x" + strings.Repeat("é", 1000), "x" + strings.Repeat("é", 509) + " ..."},
		"wide runes": {strings.Repeat("é", 1000), strings.Repeat("é", 510) + " ..."},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := Trim(tc.in)
			if got != tc.want {
				t.Errorf("got %d bytes %q, want %d bytes %q", len(got), got, len(tc.want), tc.want)
			}
			if len(got) > 1024 || !utf8.ValidString(got) {
				t.Errorf("got %d bytes, valid %v", len(got), utf8.ValidString(got))
			}
		})
	}
}

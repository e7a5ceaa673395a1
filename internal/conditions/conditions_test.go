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
		"unchanged": {
			before: []metav1.Condition{ready("True", "Reconciled", "ready", noon)},
			set:    ready("True", "Reconciled", "ready", time.Time{}),
			want:   []metav1.Condition{ready("True", "Reconciled", "ready", noon)},
		},
		"another reason does not change the time": {
			before: []metav1.Condition{ready("False", "Progressing", "", noon)},
			set:    ready("False", "ComponentDegraded", "", time.Time{}),
			want:   []metav1.Condition{ready("False", "ComponentDegraded", "", noon)},
		},
		"status changed": {
			before: []metav1.Condition{ready("False", "Progressing", "", noon)},
			set:    ready("True", "Reconciled", "", time.Time{}),
			want:   []metav1.Condition{ready("True", "Reconciled", "", later)},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			Set(&tc.before, tc.set, later.Add(time.Millisecond)) // stored times have no fractions of a second
			if diff := cmp.Diff(tc.want, tc.before); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSetOrRemove(t *testing.T) {
	isReady := ready("True", "Reconciled", "ready", noon)
	stalled := metav1.Condition{Type: "Stalled", Status: "True", Reason: "RolloutTimedOut", LastTransitionTime: metav1.NewTime(noon)}
	cases := map[string]struct {
		before  []metav1.Condition
		present bool
		want    []metav1.Condition
	}{
		"absent stays absent":    {[]metav1.Condition{isReady}, false, []metav1.Condition{isReady}},
		"set to True":            {[]metav1.Condition{isReady}, true, []metav1.Condition{isReady, stalled}},
		"removed":                {[]metav1.Condition{stalled, isReady}, false, []metav1.Condition{isReady}},
		"no conditions, removed": {nil, false, nil},
		"no conditions, set":     {nil, true, []metav1.Condition{stalled}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			SetOrRemove(&tc.before, tc.present, metav1.Condition{Type: "Stalled", Status: "False", Reason: "RolloutTimedOut"}, noon)
			if diff := cmp.Diff(tc.want, tc.before); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSetTrimsMessage(t *testing.T) {
	var got []metav1.Condition
	Set(&got, ready("False", "Progressing", "one\n"+strings.Repeat("x", 2000), time.Time{}), noon)
	want := []metav1.Condition{ready("False", "Progressing", "one "+strings.Repeat("x", 1016)+" ...", noon)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
}

func TestTruncate(t *testing.T) {
	cases := map[string]struct {
		text  string
		limit int
		want  string
	}{
		"exactly the limit":             {"0123456789", 10, "0123456789"},
		"one byte more":                 {"0123456789a", 10, "012345 ..."},
		"space at half of the limit":    {"0123456 89abcdef", 14, "0123456 89 ..."},
		"space after half of the limit": {"01234567 9abcdef", 14, "01234567 ..."},
		"the smallest limit that fits":  {"01234", 4, " ..."},
		"repeated spaces count once":    {"01234     56789", 11, "01234 56789"},
		"a limit below the ellipsis":    {"abcdef", 3, " .."},
		"bytes that are invalid UTF-8":  {strings.Repeat("\x80", 20), 10, " ..."},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Truncate(tc.text, tc.limit)); diff != "" {
				t.Errorf("text (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTrim(t *testing.T) {
	cases := map[string]struct{ in, want string }{
		"short":      {"a message", "a message"},
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

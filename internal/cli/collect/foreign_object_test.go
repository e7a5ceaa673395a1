package collect

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/holdfast-dev/holdfast/internal/explain"
)

// The reason of a condition, for example ComponentDegraded, does not tell what is wrong.
func TestReadyMessageOfAnotherKind(t *testing.T) {
	condition := func(kind, status, message string) map[string]any {
		return map[string]any{"type": kind, "status": status, "message": message}
	}
	for name, tc := range map[string]struct {
		conditions []any
		ready      bool
		want       string
	}{
		"not ready":       {conditions: []any{condition("Reconciling", "True", "later"), condition("Ready", "False", "image wiki:9 does not exist")}, want: "image wiki:9 does not exist"},
		"no message":      {conditions: []any{condition("Ready", "False", "")}, want: "before"},
		"ready":           {conditions: []any{condition("Ready", "True", "fine")}, ready: true, want: "before"},
		"not a condition": {conditions: []any{"text"}, want: "before"},
	} {
		t.Run(name, func(t *testing.T) {
			l := Result{}
			l.Message, l.Ready, l.Causes = "before", tc.ready, []explain.Cause{{Code: explain.NotReady}}
			l.addReadyMessage(&unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": tc.conditions}}})
			if l.Message != tc.want {
				t.Errorf("message %q, want %q", l.Message, tc.want)
			}
			if shown := slices.Contains(l.Causes[0].Evidence, tc.want); shown != (tc.want != "before") {
				t.Errorf("evidence %q", l.Causes[0].Evidence)
			}
		})
	}
}

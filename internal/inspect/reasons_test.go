package inspect

import (
	"testing"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// TestFixOfReason checks that the last sentence of a message is the fix, and that the problems of an invalid spec stay
// together: each of them contains its own fix.
func TestFixOfReason(t *testing.T) {
	var v View
	for reason, wantFix := range map[string]string{appsapi.ReasonInvalidSpec: "", appsapi.ReasonDataConflict: "Component b has a problem, too"} {
		c := v.reasonCause(Input{App: &appsapi.AppStack{}, Kind: "AppStack"}, reason, "Component a has a problem. Component b has a problem, too")
		if c.Fix != wantFix {
			t.Errorf("%s: got fix %q, want %q", reason, c.Fix, wantFix)
		}
	}
}

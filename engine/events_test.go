package engine

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/apply"
	"github.com/holdfast-dev/holdfast/internal/desired"
)

func readyStatus(status, reason, message string) *appsapi.ApplicationStatus {
	return &appsapi.ApplicationStatus{Conditions: []metav1.Condition{{
		Type: "Ready", Status: metav1.ConditionStatus(status), Reason: reason, Message: message}}}
}

func TestBuildEvents(t *testing.T) {
	none := &appsapi.ApplicationStatus{}
	rolling, ready := readyStatus("False", "Progressing", "rolling out"), readyStatus("True", "Reconciled", "all well")
	changed := func(action apply.Action, ids ...desired.ID) result {
		var o result
		for _, id := range ids {
			o.changes = append(o.changes, change{"web", id, action})
		}
		return o
	}
	cases := map[string]struct {
		res           result
		before, after *appsapi.ApplicationStatus
		want          []string
	}{
		"first applies": {changed(apply.Created, deploymentID, serviceID), none, rolling, []string{
			`Normal ComponentCreated Apply: Created Deployment web and Service web of component "web"`}},
		"became ready":     {result{}, rolling, ready, []string{"Normal ComponentReady Rollout: all well"}},
		"nothing happened": {result{}, ready, ready, nil},
		"an update": {changed(apply.Updated, deploymentID), ready, rolling, []string{
			`Normal ComponentUpdated Apply: Updated Deployment web of component "web"`}},
		"a repair is not news": {changed(apply.Repaired, deploymentID), ready, ready, nil},
		"taken over": {changed(apply.Adopted, deploymentID), none, rolling, []string{
			`Normal ComponentAdopted Adopt: Took over Deployment web as component "web"`}},
		"removed": {changed(removedChange, serviceID), ready, ready, []string{
			`Normal ComponentPruned Prune: Deleted Service web of component "web", no longer declared`}},
		"went bad": {result{}, ready, readyStatus("False", "ComponentDegraded", "it crashes"), []string{
			"Warning ComponentDegraded Reconcile: it crashes"}},
		"still bad, in other words": {result{}, readyStatus("False", "ComponentDegraded", "it crashes"), readyStatus("False", "ComponentDegraded", "it hangs"), nil},
		"suspended":                 {result{}, ready, readyStatus("True", "Suspended", "asleep"), nil},
		"unseen":                    {result{}, ready, readyStatus("Unknown", "InternalError", "no view"), nil},
		"a fight": {result{newlyContended: []desired.ID{deploymentID}}, ready, ready, []string{
			"Warning DriftContention Repair: Somebody keeps changing Deployment shop/web; it is repaired at most once a second. " +
				"Find out who: kubectl get deployment web -n shop --show-managed-fields -o yaml"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, o := range buildEvents("shop", tc.res, tc.before, tc.after) {
				got = append(got, fmt.Sprintf("%s %s %s: %s", o.eventType, o.reason, o.action, o.note))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// noteRecorder keeps the last note.
type noteRecorder struct{ note string }

func (r *noteRecorder) Eventf(_, _ runtime.Object, _, _, _, _ string, args ...any) {
	r.note = args[0].(string)
}

func TestLongNoteKeepsCharacters(t *testing.T) {
	recorder := &noteRecorder{}
	res := result{events: []eventRecord{warningEvent("Broken", strings.Repeat("ü", maxNoteLength))}}
	before := &appsapi.ApplicationStatus{Conditions: []metav1.Condition{{Type: appsapi.ConditionReady, Reason: "Same"}}}
	eventRecorder{recorder}.emit(t.Context(), &appsapi.AppService{}, schema.GroupVersionKind{Kind: "AppService"}, res, before, before)
	if !utf8.ValidString(recorder.note) || len(recorder.note) > maxNoteLength || len(recorder.note) < maxNoteLength-10 {
		t.Errorf("note of %d bytes, valid %t: %q", len(recorder.note), utf8.ValidString(recorder.note), recorder.note)
	}
}

package engine

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/apply"
	"github.com/holdfast-dev/holdfast/internal/desired"
)

func verdict(status, reason, message string) *appsapi.ApplicationStatus {
	return &appsapi.ApplicationStatus{Conditions: []metav1.Condition{{
		Type: "Ready", Status: metav1.ConditionStatus(status), Reason: reason, Message: message}}}
}

func TestOccurrences(t *testing.T) {
	none := &appsapi.ApplicationStatus{}
	rolling, fine := verdict("False", "Progressing", "rolling out"), verdict("True", "Reconciled", "all well")
	changed := func(what apply.Change, ids ...desired.ID) outcome {
		var o outcome
		for _, id := range ids {
			o.changes = append(o.changes, change{"web", id, what})
		}
		return o
	}
	cases := map[string]struct {
		done          outcome
		before, after *appsapi.ApplicationStatus
		want          []string
	}{
		"first applies": {changed(apply.Created, deploymentID, serviceID), none, rolling, []string{
			`Normal ComponentCreated Apply: Created Deployment web and Service web of component "web"`}},
		"became ready":     {outcome{}, rolling, fine, []string{"Normal ComponentReady Rollout: all well"}},
		"nothing happened": {outcome{}, fine, fine, nil},
		"an update": {changed(apply.Updated, deploymentID), fine, rolling, []string{
			`Normal ComponentUpdated Apply: Updated Deployment web of component "web"`}},
		"a repair is not news": {changed(apply.Repaired, deploymentID), fine, fine, nil},
		"taken over": {changed(apply.Adopted, deploymentID), none, rolling, []string{
			`Normal ComponentAdopted Adopt: Took over Deployment web as component "web"`}},
		"removed": {changed(removedChange, serviceID), fine, fine, []string{
			`Normal ComponentPruned Prune: Deleted Service web of component "web", no longer declared`}},
		"went bad": {outcome{}, fine, verdict("False", "ComponentDegraded", "it crashes"), []string{
			"Warning ComponentDegraded Reconcile: it crashes"}},
		"still bad, in other words": {outcome{}, verdict("False", "ComponentDegraded", "it crashes"), verdict("False", "ComponentDegraded", "it hangs"), nil},
		"suspended":                 {outcome{}, fine, verdict("True", "Suspended", "asleep"), nil},
		"unseen":                    {outcome{}, fine, verdict("Unknown", "InternalError", "no view"), nil},
		"a fight": {outcome{fights: []desired.ID{deploymentID}}, fine, fine, []string{
			"Warning RepairThrottled Repair: Somebody keeps changing Deployment shop/web; it is repaired at most once a second. " +
				"Find out who: kubectl get deployment web -n shop --show-managed-fields -o yaml"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, o := range occurrences("shop", tc.done, tc.before, tc.after) {
				got = append(got, fmt.Sprintf("%s %s %s: %s", o.kind, o.reason, o.action, o.note))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

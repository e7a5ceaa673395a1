package reconcile

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/apply"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/fieldmanager"
	"github.com/holdfast-dev/holdfast/internal/objdiff"
	"github.com/holdfast-dev/holdfast/internal/reconcile/execute"
)

func readyStatus(status, reason, message string) *appsapi.ApplicationStatus {
	return &appsapi.ApplicationStatus{Conditions: []metav1.Condition{{
		Type: "Ready", Status: metav1.ConditionStatus(status), Reason: reason, Message: message}}}
}

func TestBuildEvents(t *testing.T) {
	none := &appsapi.ApplicationStatus{}
	rolling, ready := readyStatus("False", "Progressing", "rolling out"), readyStatus("True", "Reconciled", "all ready")
	changed := func(action apply.Action, ids ...desired.ID) execute.Result {
		var r execute.Result
		for _, id := range ids {
			r.Changes = append(r.Changes, execute.Change{Component: "web", Child: id, Action: action})
		}
		return r
	}
	cases := map[string]struct {
		result        execute.Result
		before, after *appsapi.ApplicationStatus
		want          []string
	}{
		"first apply": {changed(apply.Created, deploymentID, serviceID), none, rolling, []string{
			`Normal ComponentCreated Apply: Created Deployment web and Service web of component "web"`}},
		"became ready":     {execute.Result{}, rolling, ready, []string{"Normal ComponentReady Rollout: all ready"}},
		"nothing happened": {execute.Result{}, ready, ready, nil},
		"update": {execute.Result{Changes: []execute.Change{
			{Component: "web", Child: deploymentID, Action: apply.Updated, Fields: fieldChanges("metadata.annotations[apps.holdfast.dev/applied-hash]", "spec.replicas", "spec.template.spec.containers[web].image")},
			{Component: "web", Child: serviceID, Action: apply.Updated, Fields: fieldChanges("spec.a", "spec.b", "spec.c", "spec.d", "spec.e")},
			{Component: "api", Child: serviceID, Action: apply.Updated},
		}}, ready, rolling, []string{
			"Normal ComponentUpdated Apply: Updated Deployment web: spec.replicas and spec.template.spec.containers[web].image changed; " +
				"Service web: spec.a, spec.b, spec.c and 2 more changed",
			"Normal ComponentUpdated Apply: Updated Service web"}},
		"update caused by a Secret": {execute.Result{Changes: []execute.Change{{
			Component: "web", Child: deploymentID, Action: apply.Updated, Refs: []desired.Ref{{Kind: "ConfigMap", Name: "settings"}, {Kind: "Secret", Name: "shop-env", Keys: "a"}},
			Fields: fieldChanges("metadata.annotations[apps.holdfast.dev/config-refs]", "spec.template.metadata.annotations[apps.holdfast.dev/config-hash]")}}}, ready, rolling, []string{
			"Normal ComponentUpdated Apply: Updated Deployment web: ConfigMap settings and Secret shop-env changed"}},
		"restart": {execute.Result{Changes: []execute.Change{{
			Component: "web", Child: deploymentID, Action: apply.Updated, Fields: fieldChanges("spec.template.metadata.annotations[apps.holdfast.dev/restarted-at]")}}}, ready, rolling, []string{
			"Normal ComponentUpdated Apply: Updated Deployment web: restart requested"}},
		"drift correction that is not due": {changed(apply.Repaired, deploymentID), ready, ready, nil},
		"drift corrections": {execute.Result{DriftCorrections: []appsapi.DriftCorrection{
			{Object: appsapi.ObjectReference{Kind: "Deployment", Name: "web"}, Count: 1, Managers: []string{"kubectl-set", "helm"}, Fields: []appsapi.CorrectedField{
				{Path: "spec.replicas", From: "5", To: "2"}, {Path: "metadata.labels.app", To: "web"}, {Path: "spec.selector.extra", From: "x"}}},
			{Object: appsapi.ObjectReference{Kind: "Service", Name: "web"}, Count: 7, Deleted: true, FirstTime: metav1.Unix(60, 0)},
			{Object: appsapi.ObjectReference{Kind: "Service", Name: "api"}, Count: 1},
		}}, ready, ready, []string{
			`Normal DriftCorrected Repair: Corrected Deployment web, which kubectl-set and helm had changed: ` +
				`spec.replicas from "5" to "2"; metadata.labels.app set to "web"; spec.selector.extra "x" removed`,
			"Normal DriftCorrected Repair: Created Service web again, which another client had deleted (7 corrections since 00:01:00 UTC)",
			"Normal DriftCorrected Repair: Corrected Service api, which another client had changed"}},
		"adopted": {changed(apply.Adopted, deploymentID), none, rolling, []string{
			`Normal ComponentAdopted Adopt: Adopted Deployment web as component "web"`}},
		"fields taken over": {execute.Result{TakenOver: []execute.TakenOver{{Component: "web", Child: deploymentID, Fields: []fieldmanager.ForeignField{
			foreignField("kubectl-edit", "minReadySeconds"), foreignField("helm", "paused")}}}}, ready, ready, []string{
			"Normal FieldsTakenOver Apply: Removed fields of other field managers from Deployment web because they conflict with declared fields: " +
				`spec.minReadySeconds of field manager "kubectl-edit", spec.paused of field manager "helm"`}},
		"pruned": {changed(execute.Removed, serviceID), ready, ready, []string{
			`Normal ComponentPruned Prune: Deleted Service web of component "web", no longer declared`}},
		"became degraded": {execute.Result{}, ready, readyStatus("False", "ComponentDegraded", "it crashes"), []string{
			"Warning ComponentDegraded Reconcile: it crashes"}},
		"still degraded, other message": {execute.Result{}, readyStatus("False", "ComponentDegraded", "it crashes"), readyStatus("False", "ComponentDegraded", "it hangs"), nil},
		"suspended":                     {execute.Result{}, ready, readyStatus("True", "Suspended", "suspended"), nil},
		"not observed":                  {execute.Result{}, ready, readyStatus("Unknown", "InternalError", "cannot read"), nil},
		"drift contention": {execute.Result{NewlyContended: []desired.ID{deploymentID}}, ready, ready, []string{
			"Warning DriftContention Repair: Another client keeps changing Deployment shop/web; drift is corrected at most once per second. " +
				"To identify the client: kubectl get deployment web -n shop --show-managed-fields -o yaml"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, o := range buildEvents(&execute.Scope{Owner: desired.Owner{Keys: appsapi.DefaultKeys, Namespace: "shop"}, Result: tc.result}, tc.before, tc.after) {
				got = append(got, fmt.Sprintf("%s %s %s: %s", o.eventType, o.reason, o.action, o.note))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func fieldChanges(paths ...string) []objdiff.FieldChange {
	var out []objdiff.FieldChange
	for _, path := range paths {
		out = append(out, objdiff.FieldChange{Path: objdiff.ParsePath(path)})
	}
	return out
}

func foreignField(manager, field string) fieldmanager.ForeignField {
	return fieldmanager.ForeignField{UnionConflict: fieldmanager.UnionConflict{Path: fieldpath.MakePathOrDie("spec", field)}, Managers: []string{manager}}
}

// noteRecorder keeps the last note and references.
type noteRecorder struct {
	note               string
	regarding, related corev1.ObjectReference
}

func (r *noteRecorder) Eventf(regarding, related runtime.Object, _, _, _, _ string, args ...any) {
	r.note = args[0].(string)
	r.regarding, r.related = *regarding.(*corev1.ObjectReference), *related.(*corev1.ObjectReference)
}

// TestDifferentChangesAreDifferentEvents checks the references by which the recorder aggregates events.
func TestDifferentChangesAreDifferentEvents(t *testing.T) {
	emit := func(generation int64, field string) noteRecorder {
		recorder := noteRecorder{}
		app := &appsapi.AppService{ObjectMeta: metav1.ObjectMeta{Name: "web", Generation: generation}}
		scope := execute.NewScope(app, desired.Owner{Keys: appsapi.DefaultKeys})
		scope.Changes = []execute.Change{{Component: "web", Child: serviceID, Action: apply.Updated, Fields: fieldChanges(field)}}
		unchanged := readyStatus("True", "Reconciled", "all ready")
		eventRecorder{&recorder}.emit(t.Context(), schema.GroupVersionKind{Kind: "AppService"}, scope, unchanged, unchanged)
		return recorder
	}
	first := emit(1, "spec.ports")
	if first.regarding.FieldPath != "" || first.regarding.Name != "web" {
		t.Errorf("kubectl would print a prefix: %+v", first.regarding)
	}
	if emit(1, "spec.ports").related != first.related {
		t.Error("equal changes are not aggregated")
	}
	if emit(1, "spec.selector").related == first.related || emit(2, "spec.ports").related == first.related {
		t.Error("different changes are aggregated")
	}
}

func TestLongNoteKeepsCharacters(t *testing.T) {
	recorder := &noteRecorder{}
	scope := execute.NewScope(&appsapi.AppService{}, desired.Owner{Keys: appsapi.DefaultKeys})
	scope.PlainPasswords = []execute.PlainPassword{{Component: strings.Repeat("ü", maxNoteLength)}}
	before := &appsapi.ApplicationStatus{Conditions: []metav1.Condition{{Type: appsapi.ConditionReady, Reason: "Same"}}}
	eventRecorder{recorder}.emit(t.Context(), schema.GroupVersionKind{Kind: "AppService"}, scope, before, before)
	if !utf8.ValidString(recorder.note) || len(recorder.note) > maxNoteLength || len(recorder.note) < maxNoteLength-10 {
		t.Errorf("note of %d bytes, valid %t: %q", len(recorder.note), utf8.ValidString(recorder.note), recorder.note)
	}
}

package oracle

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
	"github.com/holdfast-dev/holdfast/internal/testutil/watcher"
)

func parseObject(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	content, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := o.UnmarshalJSON(content); err != nil { // numbers as an API server sends them
		t.Fatal(err)
	}
	return o
}

// buildTimeline makes events of objects, one after the other.
func buildTimeline(t *testing.T, texts ...string) Timeline {
	t.Helper()
	var events []watcher.Event
	for i, text := range texts {
		e := watcher.Event{Type: watch.Modified}
		if rest, ok := strings.CutPrefix(text, "DELETED "); ok {
			e.Type, text = watch.Deleted, rest
		}
		if rest, ok := strings.CutPrefix(text, "ADDED "); ok {
			e.Type, text = watch.Added, rest
		}
		e.Object = parseObject(t, text)
		e.ResourceVersion = fmt.Sprint(i + 1)
		e.Object.SetResourceVersion(e.ResourceVersion)
		e.UID = e.Object.GetUID()
		events = append(events, e)
	}
	return NewTimeline(events)
}

func appManifest(generation int, image, extraMetadata string) string {
	return fmt.Sprintf(`{kind: AppService, metadata: {name: web, uid: a, generation: %d%s}, spec: {image: "%s", replicas: 2, ports: [{port: 80}]}}`,
		generation, extraMetadata, image)
}

func readyAppManifest(generation int, image string) string {
	return fmt.Sprintf(`{kind: AppService, metadata: {name: web, uid: a, generation: %d}, spec: {image: "%s", replicas: 2}, status: {
		observedGeneration: %d, conditions: [{type: Ready, status: "True", observedGeneration: %d, reason: Reconciled}]}}`,
		generation, image, generation, generation)
}

func deployment(image string, replicas, ready int, owner string) string {
	return fmt.Sprintf(`{kind: Deployment, metadata: {name: web, uid: d, generation: 1, ownerReferences: [{uid: %s, controller: true}]},
		spec: {replicas: %d, template: {spec: {containers: [{image: "%s"}]}}},
		status: {observedGeneration: 1, replicas: %d, updatedReplicas: %d, readyReplicas: %d}}`, owner, replicas, image, replicas, replicas, ready)
}

func TestReadinessViolations(t *testing.T) {
	tests := map[string]struct {
		timeline []string
		want     string
	}{
		"told when it was":     {[]string{appManifest(1, "web:1", ""), deployment("web:1", 2, 2, "a"), readyAppManifest(1, "web:1")}, ""},
		"told afterwards":      {[]string{appManifest(1, "web:1", ""), deployment("web:1", 2, 2, "a"), deployment("web:1", 2, 1, "a"), readyAppManifest(1, "web:1")}, ""},
		"told too early":       {[]string{appManifest(1, "web:1", ""), deployment("web:1", 2, 1, "a"), readyAppManifest(1, "web:1")}, "never was"},
		"of the spec before":   {[]string{appManifest(1, "web:1", ""), deployment("web:1", 2, 2, "a"), readyAppManifest(1, "web:1"), readyAppManifest(2, "web:2")}, "generation 2"},
		"of somebody else's":   {[]string{appManifest(1, "web:1", ""), deployment("web:1", 2, 2, "b"), readyAppManifest(1, "web:1")}, "never was"},
		"of too few":           {[]string{appManifest(1, "web:1", ""), deployment("web:1", 1, 1, "a"), readyAppManifest(1, "web:1")}, "never was"},
		"of another image":     {[]string{appManifest(1, "web:1", ""), deployment("web:0", 2, 2, "a"), readyAppManifest(1, "web:1")}, "never was"},
		"nothing is there yet": {[]string{appManifest(1, "web:1", ""), readyAppManifest(1, "web:1")}, "never was"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := strings.Join(ReadinessViolations(buildTimeline(t, tc.timeline...)), "\n")
			if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func request(verb, resource, name, namespace, body string, response *unstructured.Unstructured) audit.Event {
	e := audit.Event{Verb: verb, RequestObject: json.RawMessage(body)}
	e.ObjectRef = audit.ObjectRef{Resource: resource, Name: name, Namespace: namespace}
	e.ResponseStatus.Code = 200
	if response != nil {
		e.ResponseObject, _ = response.MarshalJSON() // it came from YAML
	}
	return e
}

func TestSafetyViolations(t *testing.T) {
	const deleting = `, deletionTimestamp: "2026-01-01T00:00:00Z"`
	foreign := strings.Replace(deployment("their:1", 2, 2, "x"), "ownerReferences: [{uid: x, controller: true}]", "labels: {}", 1)
	renamed := `{kind: AppStack, metadata: {name: shop, uid: s}, spec: {components: [{name: front, renamedFrom: web, service: {image: "web:1"}}]}}`
	old := `{kind: Deployment, metadata: {name: shop-web, uid: o, labels: {app.kubernetes.io/component: web}, ownerReferences: [{uid: s, controller: true}]}}`
	dependent := `{kind: Deployment, metadata: {name: shop-api, uid: n, annotations: {apps.holdfast.dev/depends-on: "web,db"}, ownerReferences: [{uid: s, controller: true}]}}`
	notRenamed := strings.Replace(renamed, "renamedFrom: web, ", "", 1)
	deleteBody := func(uid string) string { return fmt.Sprintf(`{"preconditions":{"uid":%q}}`, uid) }
	tests := map[string]struct {
		timeline []string
		// The request is about the last event of the film, unless it has a resource.
		verb, resource, name, namespace, body string
		want                                  string
	}{
		"creates what is wanted":            {timeline: []string{appManifest(1, "web:1", ""), deployment("web:1", 2, 0, "a")}, verb: "patch"},
		"creates another image":             {timeline: []string{appManifest(1, "web:1", ""), deployment("web:0", 2, 0, "a")}, verb: "patch", want: "sets the image web:0"},
		"takes replicas away":               {timeline: []string{appManifest(1, "web:1", ""), deployment("web:1", 2, 2, "a"), deployment("web:1", 1, 1, "a")}, verb: "patch", want: "sets 1 replicas"},
		"goes back":                         {timeline: []string{appManifest(2, "web:2", ""), deployment("web:2", 2, 2, "a"), deployment("web:1", 2, 2, "a")}, verb: "patch", want: "sets the image web:1"},
		"creates for what is deleted":       {timeline: []string{appManifest(1, "web:1", deleting), deployment("web:1", 2, 0, "a")}, verb: "patch", want: "being deleted"},
		"creates for nobody":                {timeline: []string{deployment("web:1", 2, 0, "a")}, verb: "patch", want: "child of nobody"},
		"takes what is theirs":              {timeline: []string{appManifest(1, "web:1", ""), foreign, deployment("web:1", 2, 2, "a")}, verb: "patch", want: "not its own"},
		"deletes without a precondition":    {timeline: []string{appManifest(1, "web:1", deleting), "DELETED " + deployment("web:1", 2, 2, "a")}, verb: "delete", body: `{}`, want: "whatever has this name"},
		"deletes what is wanted":            {timeline: []string{appManifest(1, "web:1", ""), deployment("web:1", 2, 2, "a"), "DELETED " + deployment("web:1", 2, 2, "a")}, verb: "delete", body: deleteBody("d"), want: "what is wanted"},
		"deletes with its owner":            {timeline: []string{appManifest(1, "web:1", deleting), "DELETED " + deployment("web:1", 2, 2, "a")}, verb: "delete", body: deleteBody("d")},
		"deletes before its place is taken": {timeline: []string{renamed, old, "DELETED " + old}, verb: "delete", body: deleteBody("o"), want: "takes its place"},
		"deletes what others need":          {timeline: []string{notRenamed, dependent, old, "DELETED " + old}, verb: "delete", body: deleteBody("o"), want: "the pods of shop-api need"},
		"deletes what nobody needs":         {timeline: []string{notRenamed, old, "DELETED " + old}, verb: "delete", body: deleteBody("o")},
		"works elsewhere":                   {verb: "patch", resource: "deployments", namespace: "other", want: "outside"},
		"changes a Secret":                  {verb: "patch", resource: "secrets", body: `{"data":{"other":"x"}}`, want: "changes data.other"},
		"deletes a claim":                   {verb: "delete", resource: "persistentvolumeclaims", want: "whatever has this name"},
		"edits the spec":                    {verb: "patch", resource: "appservices", body: `{"spec":{}}`, want: "belongs to the user"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			timeline := buildTimeline(t, tc.timeline...)
			if tc.namespace == "" {
				tc.namespace = "shop"
			}
			var last *unstructured.Unstructured
			if tc.resource == "" {
				last = timeline[len(timeline)-1].Object
				tc.resource, tc.name = strings.ToLower(last.GetKind())+"s", last.GetName()
			}
			got := strings.Join(SafetyViolations("shop", timeline, audit.Events{request(tc.verb, tc.resource, tc.name, tc.namespace, tc.body, last)}), "\n")
			if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestReferenceMasksVariableFields(t *testing.T) {
	second := 0
	state := func(ns, ip, image string) Snapshot {
		second += 30 // the first two within one second, as it were
		return NewSnapshot(ns, []*unstructured.Unstructured{
			parseObject(t, fmt.Sprintf(`{kind: Event, metadata: {name: web, uid: %s-0}, at: "2026-01-01T00:00:%02dZ"}`, ns, second/60)),
			parseObject(t, fmt.Sprintf(`{kind: Service, metadata: {name: web, uid: %s-1}, spec: {clusterIP: %s, host: web.%s.svc}}`, ns, ip, ns)),
			parseObject(t, fmt.Sprintf(`{kind: Deployment, metadata: {name: web, uid: %s-2, ownerReferences: [{uid: %s-1}]}, spec: {image: "%s"}}`, ns, ns, image)),
		})
	}
	r, err := Learn(state("red", "10.0.0.1", "web:1"), state("blue", "10.0.0.2", "web:1"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := r.Diff(state("green", "10.0.0.3", "web:1")); len(diff) > 0 {
		t.Errorf("another clean run: %v", diff)
	}
	want := []string{`Deployment/web.spec.image is "web:2", in a clean run "web:1"`}
	if diff := cmp.Diff(want, r.Diff(state("green", "10.0.0.3", "web:2"))); diff != "" {
		t.Error(diff)
	}
	changed := state("green", "10.0.0.3", "web:1")
	delete(changed, "Service/web")
	changed["Service/old"] = map[string]string{}
	if diff := cmp.Diff([]string{"Service/old should not exist", "Service/web is missing"}, r.Diff(changed)); diff != "" {
		t.Error(diff)
	}
	if _, err := Learn(state("red", "10.0.0.1", "web:1"), changed); err == nil {
		t.Error("clean runs that end with different objects must not be learned from")
	}
}

// Who writes the first annotation of a claim is chance, who has the others is not.
func TestReferenceIgnoresManagerOfFirstAnnotation(t *testing.T) {
	state := func(annotations string) Snapshot {
		return NewSnapshot("red", []*unstructured.Unstructured{parseObject(t, fmt.Sprintf(`{kind: PersistentVolumeClaim, metadata: {name: data, uid: "1", managedFields: [
			{manager: holdfast, operation: Update, fieldsType: FieldsV1, fieldsV1: {"f:metadata": {"f:annotations": {%s}}}}]}}`, annotations))})
	}
	r, err := Learn(state(`"f:schema": {}`), state(`"f:schema": {}`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := r.Diff(state(`".": {}, "f:schema": {}`)); len(diff) > 0 {
		t.Error(diff)
	}
	if diff := r.Diff(state(`".": {}, "f:schema": {}, "f:more": {}`)); len(diff) != 1 {
		t.Errorf("one more annotation is not seen: %v", diff)
	}
}

func TestStableNames(t *testing.T) {
	objects := []*unstructured.Unstructured{
		parseObject(t, `{kind: ReplicaSet, metadata: {name: web-6d5f, uid: r, annotations: {deployment.kubernetes.io/revision: "3"}, ownerReferences: [{name: web, controller: true}]}}`),
		parseObject(t, `{kind: Pod, metadata: {name: web-6d5f-b, uid: p2, ownerReferences: [{uid: r, controller: true}]}}`),
		parseObject(t, `{kind: Pod, metadata: {name: web-6d5f-a, uid: p1, ownerReferences: [{uid: r, controller: true}]}}`),
		parseObject(t, `{kind: ControllerRevision, revision: 4, metadata: {name: shop-91754c7e9a, uid: c, ownerReferences: [{name: shop, controller: true}]}}`),
	}
	want := map[types.UID]string{"r": "ReplicaSet/web@3", "p1": "Pod/ReplicaSet/web@3/0", "p2": "Pod/ReplicaSet/web@3/1", "c": "ControllerRevision/shop@4"}
	if diff := cmp.Diff(want, stableNames(objects)); diff != "" {
		t.Error(diff)
	}
}

func TestCountEvents(t *testing.T) {
	events := buildTimeline(t, deployment("web:1", 1, 1, "a"), `{kind: Pod, metadata: {name: x, labels: {apps.holdfast.dev/workload: deployment-web}}}`)
	for i := range events {
		events[i].Type = watch.Added
	}
	events = append(events, buildTimeline(t, "DELETED "+deployment("web:1", 1, 1, "a"))...)
	got := CountEvents(events)
	if diff := cmp.Diff(Counts{"Deployment/web": {1, 1}, "Pod of deployment-web": {1, 0}}, got); diff != "" {
		t.Error(diff)
	}
	clean := Counts{"Deployment/web": {1, 0}, "Pod of deployment-web": {1, 0}}
	if diff := cmp.Diff([]string{"Deployment/web was created 1 and deleted 1 times, in a clean run 1 and 0"}, got.Diff(clean)); diff != "" {
		t.Error(diff)
	}
	if diff := got.Diff(clean, got); len(diff) > 0 {
		t.Errorf("as in one of the clean runs: %v", diff)
	}
}

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

// buildTimeline creates one event per object.
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
		"ready":                       {[]string{appManifest(1, "web:1", ""), deployment("web:1", 2, 2, "a"), readyAppManifest(1, "web:1")}, ""},
		"Ready after a pod failed":    {[]string{appManifest(1, "web:1", ""), deployment("web:1", 2, 2, "a"), deployment("web:1", 2, 1, "a"), readyAppManifest(1, "web:1")}, ""},
		"Ready before the pods":       {[]string{appManifest(1, "web:1", ""), deployment("web:1", 2, 1, "a"), readyAppManifest(1, "web:1")}, "was never ready"},
		"Ready of the previous spec":  {[]string{appManifest(1, "web:1", ""), deployment("web:1", 2, 2, "a"), readyAppManifest(1, "web:1"), readyAppManifest(2, "web:2")}, "generation 2"},
		"Deployment of another owner": {[]string{appManifest(1, "web:1", ""), deployment("web:1", 2, 2, "b"), readyAppManifest(1, "web:1")}, "was never ready"},
		"too few replicas":            {[]string{appManifest(1, "web:1", ""), deployment("web:1", 1, 1, "a"), readyAppManifest(1, "web:1")}, "was never ready"},
		"another image":               {[]string{appManifest(1, "web:1", ""), deployment("web:0", 2, 2, "a"), readyAppManifest(1, "web:1")}, "was never ready"},
		"no Deployment yet":           {[]string{appManifest(1, "web:1", ""), readyAppManifest(1, "web:1")}, "was never ready"},
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
		// The request refers to the last event of the timeline, unless resource is set.
		verb, resource, name, namespace, body string
		want                                  string
	}{
		"create a desired child":                 {timeline: []string{appManifest(1, "web:1", ""), deployment("web:1", 2, 0, "a")}, verb: "patch"},
		"create with another image":              {timeline: []string{appManifest(1, "web:1", ""), deployment("web:0", 2, 0, "a")}, verb: "patch", want: "sets the image web:0"},
		"reduce replicas":                        {timeline: []string{appManifest(1, "web:1", ""), deployment("web:1", 2, 2, "a"), deployment("web:1", 1, 1, "a")}, verb: "patch", want: "sets 1 replicas"},
		"revert to an earlier image":             {timeline: []string{appManifest(2, "web:2", ""), deployment("web:2", 2, 2, "a"), deployment("web:1", 2, 2, "a")}, verb: "patch", want: "sets the image web:1"},
		"create for a deleted application":       {timeline: []string{appManifest(1, "web:1", deleting), deployment("web:1", 2, 0, "a")}, verb: "patch", want: "being deleted"},
		"create without an application":          {timeline: []string{deployment("web:1", 2, 0, "a")}, verb: "patch", want: "without a controlling application"},
		"take over an object":                    {timeline: []string{appManifest(1, "web:1", ""), foreign, deployment("web:1", 2, 2, "a")}, verb: "patch", want: "another owner"},
		"delete without a precondition":          {timeline: []string{appManifest(1, "web:1", deleting), "DELETED " + deployment("web:1", 2, 2, "a")}, verb: "delete", body: `{}`, want: "without a UID precondition"},
		"delete a desired child":                 {timeline: []string{appManifest(1, "web:1", ""), deployment("web:1", 2, 2, "a"), "DELETED " + deployment("web:1", 2, 2, "a")}, verb: "delete", body: deleteBody("d"), want: "that is in the spec"},
		"delete with the owner":                  {timeline: []string{appManifest(1, "web:1", deleting), "DELETED " + deployment("web:1", 2, 2, "a")}, verb: "delete", body: deleteBody("d")},
		"delete before the replacement is ready": {timeline: []string{renamed, old, "DELETED " + old}, verb: "delete", body: deleteBody("o"), want: "its replacement"},
		"delete a dependency":                    {timeline: []string{notRenamed, dependent, old, "DELETED " + old}, verb: "delete", body: deleteBody("o"), want: "shop-api still depends"},
		"delete an unused child":                 {timeline: []string{notRenamed, old, "DELETED " + old}, verb: "delete", body: deleteBody("o")},
		"patch in another namespace":             {verb: "patch", resource: "deployments", namespace: "other", want: "outside"},
		"change a Secret":                        {verb: "patch", resource: "secrets", body: `{"data":{"other":"x"}}`, want: "changes data.other"},
		"delete a claim":                         {verb: "delete", resource: "persistentvolumeclaims", want: "without a UID precondition"},
		"edit the spec":                          {verb: "patch", resource: "appservices", body: `{"spec":{}}`, want: "belong to the user"},
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
		second += 30 // the first two runs differ by less than a second
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
	want := []string{`Deployment/web.spec.image is "web:2", want "web:1"`}
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
		t.Error("Learn must reject clean runs with different objects")
	}
}

// Which manager writes the first annotation of a claim is a race, which managers write the others is not.
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
		t.Errorf("got %v, want a difference for the additional annotation", diff)
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
	if diff := cmp.Diff([]string{"Deployment/web: created 1 and deleted 1 times, want 1 and 0"}, got.Diff(clean)); diff != "" {
		t.Error(diff)
	}
	if diff := got.Diff(clean, got); len(diff) > 0 {
		t.Errorf("got %v, want no difference to one of the clean runs", diff)
	}
}

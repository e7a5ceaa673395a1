package planaccuracy

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/cli/plan"
	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
)

// kindByResource names the resources of the log as objects are named.
var kindByResource = map[string]string{
	"deployments": "Deployment", "statefulsets": "StatefulSet", "controllerrevisions": "ControllerRevision", "jobs": "Job",
	"cronjobs": "CronJob", "services": "Service", "configmaps": "ConfigMap", "secrets": "Secret", "persistentvolumeclaims": "PersistentVolumeClaim",
	"horizontalpodautoscalers": "HorizontalPodAutoscaler", "poddisruptionbudgets": "PodDisruptionBudget", "ingresses": "Ingress",
}

// operatorWrites is what the operator wrote: the answer to its last accepted write of each object.
// Of Secrets the log has no content.
func operatorWrites(events audit.Events) map[string]map[string]any {
	out := map[string]map[string]any{}
	for i := range events {
		e := &events[i]
		kind := kindByResource[e.ObjectRef.Resource]
		if kind == "" || !e.Accepted() || kind == "Secret" && isBinding(e.ObjectRef.Name) {
			continue
		}
		key := kind + " " + e.ObjectRef.Name
		if e.ObjectRef.Name == "" || e.Verb == "create" {
			var named struct {
				Metadata struct {
					Name string `json:"name"`
				} `json:"metadata"`
			}
			if json.Unmarshal(e.ResponseObject, &named) == nil && named.Metadata.Name != "" {
				key = kind + " " + named.Metadata.Name
			}
		}
		var obj map[string]any
		if e.Verb != "delete" {
			_ = json.Unmarshal(e.ResponseObject, &obj) // what is not logged is not compared
		}
		if metadata, ok := obj["metadata"].(map[string]any); obj != nil && (!ok || metadata["name"] == nil) {
			obj = nil
		}
		out[key] = obj
	}
	return out
}

// comparePlan returns what was not as it was told.
func comparePlan(before, after snapshot, events audit.Events, output planOutput) []string {
	writes := operatorWrites(events)
	planned := map[string]plan.Change{}
	for _, c := range output.Changes {
		if c.Name == "" { // of a revision whose name nobody could know
			for key := range after.objects {
				if strings.HasPrefix(key, c.Kind+" ") && before.objects[key] == nil {
					c.Name = strings.TrimPrefix(key, c.Kind+" ")
				}
			}
		}
		planned[c.Kind+" "+c.Name] = c
	}
	var out []string
	for _, key := range slices.Sorted(maps.Keys(unionKeys(before.objects, after.objects, planned, writes))) {
		actual, fields := actualAction(key, before, after, writes)
		c, ok := planned[key]
		if !ok {
			c.Action = plan.Unchanged
		}
		if c.Action == plan.Rejected {
			c.Action = plan.Unchanged // told, and left as it is
		}
		if c.Action != actual {
			out = append(out, fmt.Sprintf("%s: told %s, and it was %s %v", key, c.Action, actual, fields))
			continue
		}
		if actual == plan.Changed || actual == plan.Recreated {
			out = append(out, compareFields(key, c.Fields, fields)...)
		}
		out = append(out, comparePods(key, c, before, after)...)
	}
	return append(out, compareOrder(events, output)...)
}

// compareOrder holds what was told to wait for others against when it was written.
func compareOrder(events audit.Events, output planOutput) []string {
	first, last := map[string]int{}, map[string]int{}
	for i := range events {
		if e := &events[i]; e.Accepted() {
			key := kindByResource[e.ObjectRef.Resource] + " " + e.ObjectRef.Name
			if _, before := first[key]; !before {
				first[key] = i
			}
			last[key] = i
		}
	}
	var out []string
	for _, c := range output.Changes {
		for _, other := range output.Changes {
			workload := slices.Contains([]string{"Deployment", "StatefulSet", "Job"}, other.Kind)
			awaited := slices.Contains(c.WaitsFor, other.Component) && workload && (other.Action == plan.Created || other.Restarts > 0)
			if lastWrite, firstWrite := last[c.Kind+" "+c.Name], first[other.Kind+" "+other.Name]; awaited && other.Action != plan.Rejected && c.Action != plan.Rejected && lastWrite < firstWrite {
				out = append(out, fmt.Sprintf("%s %s was told to wait for %q, and was written before %s %s", c.Kind, c.Name, other.Component, other.Kind, other.Name))
			}
		}
	}
	return out
}

func unionKeys(maps ...any) map[string]bool {
	out := map[string]bool{}
	for _, m := range maps {
		for _, k := range reflect.ValueOf(m).MapKeys() {
			out[k.String()] = true
		}
	}
	return out
}

// actualAction is what became of an object.
func actualAction(key string, before, after snapshot, writes map[string]map[string]any) (plan.Action, map[string]fieldChange) {
	previous, current := before.objects[key], after.objects[key]
	switch {
	case previous == nil && current == nil:
		if _, written := writes[key]; written {
			return "made and deleted again", nil
		}
		return plan.Unchanged, nil
	case previous == nil:
		return plan.Created, nil
	case current == nil:
		return plan.Deleted, nil
	}
	response, written := writes[key]
	if written && (strings.HasPrefix(key, "Secret ") || response["kind"] == "PartialObjectMetadata") {
		response = current // the log does not have all of it
	}
	changes := diffObjects(previous, response)
	switch {
	case before.uids[key] != after.uids[key]:
		return plan.Recreated, changes
	case response == nil:
		return plan.Unchanged, nil
	case len(changes) == 0 && written:
		return "written without a change", nil
	}
	return plan.Changed, changes
}

// fieldChange is a field before and after.
type fieldChange struct{ old, new any }

// diffObjects are the fields that differ, where one side has nothing as a whole.
func diffObjects(before, after map[string]any) map[string]fieldChange {
	out := map[string]fieldChange{}
	if after != nil {
		diffValues("", "", withoutServerFields(before), withoutServerFields(after), out)
	}
	return out
}

// withoutServerFields leaves out what is the API server's alone, and what other controllers write.
func withoutServerFields(obj map[string]any) any {
	content, err := json.Marshal(obj)
	if err != nil {
		panic(err)
	}
	var all map[string]any
	if err := json.Unmarshal(content, &all); err != nil {
		panic(err)
	}
	for _, field := range []string{"status", "apiVersion", "kind"} {
		delete(all, field)
	}
	metadata := all["metadata"].(map[string]any)
	for _, field := range []string{"managedFields", "resourceVersion", "generation", "uid", "creationTimestamp", "selfLink"} {
		delete(metadata, field)
	}
	if annotations, ok := metadata["annotations"].(map[string]any); ok {
		delete(annotations, "deployment.kubernetes.io/revision") // the Deployment controller's
	}
	if spec, ok := all["spec"].(map[string]any); ok {
		templates, _ := spec["volumeClaimTemplates"].([]any)
		for _, t := range templates {
			delete(t.(map[string]any), "apiVersion") // which not every encoding has
			delete(t.(map[string]any), "kind")
		}
	}
	return withoutNulls(all)
}

// withoutNulls drops what is null: whether it is there or not means the same.
func withoutNulls(v any) any {
	switch x := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, e := range x {
			if d := withoutNulls(e); d != nil {
				out[k] = d
			}
		}
		return out
	case []any:
		out := make([]any, len(x))
		for i, e := range x {
			out[i] = withoutNulls(e)
		}
		return out
	}
	return v
}

// names are the fields by which elements of lists are told apart, as the API server merges
// them.
func listElementKey(field string, e map[string]any) string {
	join := func(keys ...string) string {
		var parts []string
		for _, k := range keys {
			parts = append(parts, fmt.Sprint(e[k]))
		}
		return strings.Join(parts, "/")
	}
	switch field {
	case "containers", "initContainers", "env", "volumes", "imagePullSecrets":
		return join("name")
	case "volumeMounts":
		return join("mountPath")
	case "topologySpreadConstraints":
		return join("topologyKey", "whenUnsatisfiable")
	case "ports":
		if e["containerPort"] != nil {
			return join("containerPort", "protocol")
		}
		return join("port", "protocol")
	}
	return ""
}

func diffValues(path, field string, a, b any, out map[string]fieldChange) {
	if reflect.DeepEqual(a, b) {
		return
	}
	if x, ok := a.(map[string]any); ok {
		if y, ok := b.(map[string]any); ok {
			for k := range unionKeys(x, y) {
				next := path + "." + k
				if strings.ContainsAny(k, "./") {
					next = path + "[" + k + "]"
				}
				diffValues(strings.TrimPrefix(next, "."), k, x[k], y[k], out)
			}
			return
		}
	}
	x, okA := indexElements(field, a)
	y, okB := indexElements(field, b)
	if okA && okB {
		for k := range unionKeys(x, y) {
			diffValues(path+"["+k+"]", field, x[k], y[k], out)
		}
		return
	}
	out[path] = fieldChange{a, b}
}

func indexElements(field string, list any) (map[string]any, bool) {
	all, ok := list.([]any)
	if !ok {
		return nil, false
	}
	out := map[string]any{}
	for _, e := range all {
		element, ok := e.(map[string]any)
		if !ok || listElementKey(field, element) == "" {
			return nil, false
		}
		out[listElementKey(field, element)] = element
	}
	return out, true
}

// isServerAssigned are values that only the API server chooses.
func isServerAssigned(path string) bool {
	return strings.HasSuffix(path, ".nodePort") || strings.HasPrefix(path, "spec.clusterIP") || path == "spec.healthCheckNodePort"
}

// compareFields holds what was told about fields against what happened to them.
func compareFields(key string, plannedFields []plan.Field, actual map[string]fieldChange) []string {
	var out []string
	planned := map[string]plan.Field{}
	for _, f := range plannedFields {
		planned[f.Path] = f
	}
	for _, path := range slices.Sorted(maps.Keys(unionKeys(planned, actual))) {
		f, wasPlanned := planned[path]
		c, changed := actual[path]
		switch {
		case isServerAssigned(path):
		case !wasPlanned:
			out = append(out, fmt.Sprintf("%s: %s was not told: %s -> %s", key, path, toJSON(c.old), toJSON(c.new)))
		case !changed:
			out = append(out, fmt.Sprintf("%s: %s was told, and did not change: %s -> %s", key, path, toJSON(f.Old), toJSON(f.New)))
		case !reflect.DeepEqual(withoutNulls(f.Old), withoutNulls(c.old)) || !f.Unknown && !reflect.DeepEqual(withoutNulls(f.New), withoutNulls(c.new)):
			out = append(out, fmt.Sprintf("%s: %s: told %s -> %s, and it was %s -> %s", key, path, toJSON(f.Old), toJSON(f.New), toJSON(c.old), toJSON(c.new)))
		}
	}
	return out
}

func toJSON(v any) string {
	content, _ := json.Marshal(v)
	return string(content)
}

// comparePods holds what was told about the pods of a workload against which of them are left.
func comparePods(key string, c plan.Change, before, after snapshot) []string {
	kind, _, _ := strings.Cut(key, " ")
	if kind != "Deployment" && kind != "StatefulSet" || before.objects[key] == nil || after.objects[key] == nil {
		return nil
	}
	previous, current := before.pods[key], after.pods[key]
	stayed := slices.ContainsFunc(previous, func(uid string) bool { return slices.Contains(current, uid) })
	replaced := len(previous) > 0 && len(current) > 0 && !stayed
	if replaced != (c.Restarts > 0) {
		return []string{fmt.Sprintf("%s: told that %d pods are replaced, and of %d pods %v stayed", key, c.Restarts, len(previous), stayed)}
	}
	if replaced && int(c.Restarts) != len(previous) {
		return []string{fmt.Sprintf("%s: told that %d pods are replaced, and there were %d", key, c.Restarts, len(previous))}
	}
	return nil
}

// compareRestricted holds what is told to somebody who may not ask the API server against what it
// answers: all but the values that it sets itself.
func compareRestricted(full, restricted planOutput) []string {
	withoutFileName := func(refusal string) string { // without the name of the file
		_, text, _ := strings.Cut(refusal, ": ")
		return text
	}
	if withoutFileName(full.rejection) != withoutFileName(restricted.rejection) {
		return []string{fmt.Sprintf("guess: refused: %q instead of %q", restricted.rejection, full.rejection)}
	}
	summarize := func(t plan.Plan) (kind map[string]string, paths map[string][]string) {
		kind, paths = map[string]string{}, map[string][]string{}
		for _, c := range t.Changes {
			key := c.Kind + " " + c.Name
			for _, f := range c.Fields {
				paths[key] = append(paths[key], f.Path)
			}
			kind[key] = fmt.Sprintf("%s, restarts %d, data %q, after %v", c.Action, c.Restarts, c.Data, c.WaitsFor)
		}
		return kind, paths
	}
	want, wantPaths := summarize(full.Plan)
	got, gotPaths := summarize(restricted.Plan)
	var out []string
	for _, key := range slices.Sorted(maps.Keys(unionKeys(want, got))) {
		// What follows from a field by default only the API server knows.
		extra := slices.DeleteFunc(slices.Clone(gotPaths[key]), func(p string) bool { return slices.Contains(wantPaths[key], p) })
		missing := slices.DeleteFunc(slices.Clone(wantPaths[key]), func(p string) bool { return slices.Contains(gotPaths[key], p) || p == "spec.sessionAffinityConfig" })
		if want[key] != got[key] || len(extra)+len(missing) > 0 {
			out = append(out, fmt.Sprintf("guess: %s: %s, too much %v, not enough %v\n  instead of: %s", key, got[key], extra, missing, want[key]))
		}
	}
	return out
}

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

// kindByResource maps resources in the audit log to kinds.
var kindByResource = map[string]string{
	"deployments": "Deployment", "statefulsets": "StatefulSet", "controllerrevisions": "ControllerRevision", "jobs": "Job",
	"cronjobs": "CronJob", "services": "Service", "configmaps": "ConfigMap", "secrets": "Secret", "persistentvolumeclaims": "PersistentVolumeClaim",
	"horizontalpodautoscalers": "HorizontalPodAutoscaler", "poddisruptionbudgets": "PodDisruptionBudget", "ingresses": "Ingress",
}

// operatorWrites returns the response to the operator's last accepted write of each object. The audit log does not
// contain Secret data.
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
			_ = json.Unmarshal(e.ResponseObject, &obj) // objects missing from the log are not compared
		}
		if metadata, ok := obj["metadata"].(map[string]any); obj != nil && (!ok || metadata["name"] == nil) {
			obj = nil
		}
		out[key] = obj
	}
	return out
}

// comparePlan returns the differences between the plan and the actual changes.
func comparePlan(before, after snapshot, events audit.Events, output planOutput) []string {
	writes := operatorWrites(events)
	planned := map[string]plan.Change{}
	for _, c := range output.Changes {
		if c.Name == "" { // a revision: its name is not predictable
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
			c.Action = plan.Unchanged // a rejected change leaves the object unchanged
		}
		if c.Action != actual {
			out = append(out, fmt.Sprintf("%s: planned %s, got %s %v", key, c.Action, actual, fields))
			continue
		}
		if actual == plan.Changed || actual == plan.Recreated {
			out = append(out, compareFields(key, c.Fields, fields)...)
		}
		out = append(out, comparePods(key, c, before, after)...)
	}
	return append(out, compareOrder(events, output)...)
}

// compareOrder compares the planned order with the order of the writes.
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
				out = append(out, fmt.Sprintf("%s %s was planned to wait for %q, but was written before %s %s", c.Kind, c.Name, other.Component, other.Kind, other.Name))
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

// actualAction returns what happened to an object.
func actualAction(key string, before, after snapshot, writes map[string]map[string]any) (plan.Action, map[string]fieldChange) {
	previous, current := before.objects[key], after.objects[key]
	switch {
	case previous == nil && current == nil:
		if _, written := writes[key]; written {
			return "created and deleted again", nil
		}
		return plan.Unchanged, nil
	case previous == nil:
		return plan.Created, nil
	case current == nil:
		return plan.Deleted, nil
	}
	response, written := writes[key]
	if written && (strings.HasPrefix(key, "Secret ") || response["kind"] == "PartialObjectMetadata") {
		response = current // the log has no Secret data and no partial objects
	}
	changes := diffObjects(previous, response)
	if isAutoscaled(key, after) {
		delete(changes, "spec.replicas") // the HorizontalPodAutoscaler controller's own write
	}
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

// isAutoscaled reports whether a HorizontalPodAutoscaler sets the replicas of a workload. The audit log has no field
// managers; a HorizontalPodAutoscaler has the name of its workload.
func isAutoscaled(key string, s snapshot) bool {
	kind, name, _ := strings.Cut(key, " ")
	return kind == "Deployment" && s.objects["HorizontalPodAutoscaler "+name] != nil
}

// fieldChange is a field before and after the change.
type fieldChange struct{ old, new any }

// diffObjects returns the fields that differ. A subtree that is missing on one side is one field.
func diffObjects(before, after map[string]any) map[string]fieldChange {
	out := map[string]fieldChange{}
	if after != nil {
		diffValues("", "", withoutServerFields(before), withoutServerFields(after), out)
	}
	return out
}

// withoutServerFields drops the fields set by the API server or by other controllers.
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
		delete(annotations, "deployment.kubernetes.io/revision") // set by the Deployment controller
	}
	if spec, ok := all["spec"].(map[string]any); ok {
		templates, _ := spec["volumeClaimTemplates"].([]any)
		for _, t := range templates {
			delete(t.(map[string]any), "apiVersion") // not present in every encoding
			delete(t.(map[string]any), "kind")
		}
	}
	return withoutNulls(all)
}

// withoutNulls drops null values: they mean the same as absent ones.
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

// listElementKey returns the merge key of a list element, as the API server determines it.
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

// isServerAssigned reports whether only the API server sets the field.
func isServerAssigned(path string) bool {
	return strings.HasSuffix(path, ".nodePort") || strings.HasPrefix(path, "spec.clusterIP") || path == "spec.healthCheckNodePort"
}

// compareFields compares the planned field changes with the actual ones.
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
			out = append(out, fmt.Sprintf("%s: %s changed without being planned: %s -> %s", key, path, toJSON(c.old), toJSON(c.new)))
		case !changed:
			out = append(out, fmt.Sprintf("%s: %s was planned, but did not change: %s -> %s", key, path, toJSON(f.Old), toJSON(f.New)))
		case !reflect.DeepEqual(withoutNulls(f.Old), withoutNulls(c.old)) || !f.Unknown && !reflect.DeepEqual(withoutNulls(f.New), withoutNulls(c.new)):
			out = append(out, fmt.Sprintf("%s: %s: planned %s -> %s, got %s -> %s", key, path, toJSON(f.Old), toJSON(f.New), toJSON(c.old), toJSON(c.new)))
		}
	}
	return out
}

func toJSON(v any) string {
	content, _ := json.Marshal(v)
	return string(content)
}

// comparePods compares the planned pod restarts with the pods that are left.
func comparePods(key string, c plan.Change, before, after snapshot) []string {
	kind, _, _ := strings.Cut(key, " ")
	if kind != "Deployment" && kind != "StatefulSet" || before.objects[key] == nil || after.objects[key] == nil {
		return nil
	}
	previous, current := before.pods[key], after.pods[key]
	stayed := slices.ContainsFunc(previous, func(uid string) bool { return slices.Contains(current, uid) })
	replaced := len(previous) > 0 && len(current) > 0 && !stayed
	if replaced != (c.Restarts > 0) {
		return []string{fmt.Sprintf("%s: planned to replace %d pods; of %d pods %v were not replaced", key, c.Restarts, len(previous), stayed)}
	}
	if replaced && int(c.Restarts) != len(previous) {
		return []string{fmt.Sprintf("%s: planned to replace %d pods, but there were %d", key, c.Restarts, len(previous))}
	}
	return nil
}

// compareRestricted compares the plan of a user without dry-run permission with the full plan. Values that the API
// server sets are ignored.
func compareRestricted(full, restricted planOutput) []string {
	withoutFileName := func(refusal string) string { // the file name differs
		_, text, _ := strings.Cut(refusal, ": ")
		return text
	}
	if withoutFileName(full.rejection) != withoutFileName(restricted.rejection) {
		return []string{fmt.Sprintf("restricted plan: rejected: got %q, want %q", restricted.rejection, full.rejection)}
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
		// Only the API server knows defaults that depend on other fields.
		extra := slices.DeleteFunc(slices.Clone(gotPaths[key]), func(p string) bool { return slices.Contains(wantPaths[key], p) })
		missing := slices.DeleteFunc(slices.Clone(wantPaths[key]), func(p string) bool { return slices.Contains(gotPaths[key], p) || p == "spec.sessionAffinityConfig" })
		if want[key] != got[key] || len(extra)+len(missing) > 0 {
			out = append(out, fmt.Sprintf("restricted plan: %s: %s, unexpected %v, missing %v\n  want: %s", key, got[key], extra, missing, want[key]))
		}
	}
	return out
}

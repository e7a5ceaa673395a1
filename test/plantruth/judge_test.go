package plantruth

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

// kindOf names the resources of the log as objects are named.
var kindOf = map[string]string{
	"deployments": "Deployment", "statefulsets": "StatefulSet", "controllerrevisions": "ControllerRevision", "jobs": "Job",
	"cronjobs": "CronJob", "services": "Service", "configmaps": "ConfigMap", "secrets": "Secret", "persistentvolumeclaims": "PersistentVolumeClaim",
	"horizontalpodautoscalers": "HorizontalPodAutoscaler", "poddisruptionbudgets": "PodDisruptionBudget", "ingresses": "Ingress",
}

// written is what the operator wrote: the answer to its last accepted write of each object.
// Of Secrets the log has no content.
func written(events audit.Events) map[string]map[string]any {
	out := map[string]map[string]any{}
	for i := range events {
		e := &events[i]
		kind := kindOf[e.ObjectRef.Resource]
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

// judge returns what was not as it was told.
func judge(before, after snapshot, events audit.Events, told told) []string {
	wrote := written(events)
	said := map[string]plan.Change{}
	for _, c := range told.Changes {
		if c.Name == "" { // of a revision whose name nobody could know
			for key := range after.objects {
				if strings.HasPrefix(key, c.Kind+" ") && before.objects[key] == nil {
					c.Name = strings.TrimPrefix(key, c.Kind+" ")
				}
			}
		}
		said[c.Kind+" "+c.Name] = c
	}
	var out []string
	for _, key := range slices.Sorted(maps.Keys(union(before.objects, after.objects, said, wrote))) {
		real, fields := happened(key, before, after, wrote)
		c, ok := said[key]
		if !ok {
			c.Action = plan.Unchanged
		}
		if c.Action == plan.Refused {
			c.Action = plan.Unchanged // told, and left as it is
		}
		if c.Action != real {
			out = append(out, fmt.Sprintf("%s: told %s, and it was %s %v", key, c.Action, real, fields))
			continue
		}
		if real == plan.Changed || real == plan.Recreated {
			out = append(out, compareFields(key, c.Fields, fields)...)
		}
		out = append(out, pods(key, c, before, after)...)
	}
	return append(out, inOrder(events, told)...)
}

// inOrder holds what was told to wait for others against when it was written.
func inOrder(events audit.Events, told told) []string {
	first, last := map[string]int{}, map[string]int{}
	for i := range events {
		if e := &events[i]; e.Accepted() {
			key := kindOf[e.ObjectRef.Resource] + " " + e.ObjectRef.Name
			if _, before := first[key]; !before {
				first[key] = i
			}
			last[key] = i
		}
	}
	var out []string
	for _, c := range told.Changes {
		for _, other := range told.Changes {
			workload := slices.Contains([]string{"Deployment", "StatefulSet", "Job"}, other.Kind)
			awaited := slices.Contains(c.After, other.Component) && workload && (other.Action == plan.Created || other.Restarts > 0)
			if me, them := last[c.Kind+" "+c.Name], first[other.Kind+" "+other.Name]; awaited && other.Action != plan.Refused && c.Action != plan.Refused && me < them {
				out = append(out, fmt.Sprintf("%s %s was told to wait for %q, and was written before %s %s", c.Kind, c.Name, other.Component, other.Kind, other.Name))
			}
		}
	}
	return out
}

func union(maps ...any) map[string]bool {
	out := map[string]bool{}
	for _, m := range maps {
		for _, k := range reflect.ValueOf(m).MapKeys() {
			out[k.String()] = true
		}
	}
	return out
}

// happened is what became of an object.
func happened(key string, before, after snapshot, wrote map[string]map[string]any) (plan.Action, map[string]change) {
	was, is := before.objects[key], after.objects[key]
	switch {
	case was == nil && is == nil:
		if _, touched := wrote[key]; touched {
			return "made and deleted again", nil
		}
		return plan.Unchanged, nil
	case was == nil:
		return plan.Created, nil
	case is == nil:
		return plan.Deleted, nil
	}
	now, touched := wrote[key]
	if touched && (strings.HasPrefix(key, "Secret ") || now["kind"] == "PartialObjectMetadata") {
		now = is // the log does not have all of it
	}
	changes := differences(was, now)
	switch {
	case before.uids[key] != after.uids[key]:
		return plan.Recreated, changes
	case now == nil:
		return plan.Unchanged, nil
	case len(changes) == 0 && touched:
		return "written without a change", nil
	}
	return plan.Changed, changes
}

// change is a field before and after.
type change struct{ old, new any }

// differences are the fields that differ, where one side has nothing as a whole.
func differences(before, after map[string]any) map[string]change {
	out := map[string]change{}
	if after != nil {
		walk("", "", plain(before), plain(after), out)
	}
	return out
}

// plain leaves out what is the API server's alone, and what other controllers write.
func plain(obj map[string]any) any {
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
	return dense(all)
}

// dense drops what is null: whether it is there or not means the same.
func dense(v any) any {
	switch x := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, e := range x {
			if d := dense(e); d != nil {
				out[k] = d
			}
		}
		return out
	case []any:
		out := make([]any, len(x))
		for i, e := range x {
			out[i] = dense(e)
		}
		return out
	}
	return v
}

// names are the fields by which elements of lists are told apart, as the API server merges
// them.
func name(field string, e map[string]any) string {
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

func walk(path, field string, a, b any, out map[string]change) {
	if reflect.DeepEqual(a, b) {
		return
	}
	if x, ok := a.(map[string]any); ok {
		if y, ok := b.(map[string]any); ok {
			for k := range union(x, y) {
				next := path + "." + k
				if strings.ContainsAny(k, "./") {
					next = path + "[" + k + "]"
				}
				walk(strings.TrimPrefix(next, "."), k, x[k], y[k], out)
			}
			return
		}
	}
	x, okA := byName(field, a)
	y, okB := byName(field, b)
	if okA && okB {
		for k := range union(x, y) {
			walk(path+"["+k+"]", field, x[k], y[k], out)
		}
		return
	}
	out[path] = change{a, b}
}

func byName(field string, list any) (map[string]any, bool) {
	all, ok := list.([]any)
	if !ok {
		return nil, false
	}
	out := map[string]any{}
	for _, e := range all {
		element, ok := e.(map[string]any)
		if !ok || name(field, element) == "" {
			return nil, false
		}
		out[name(field, element)] = element
	}
	return out, true
}

// assigned are values that only the API server chooses.
func assigned(path string) bool {
	return strings.HasSuffix(path, ".nodePort") || strings.HasPrefix(path, "spec.clusterIP") || path == "spec.healthCheckNodePort"
}

// compareFields holds what was told about fields against what happened to them.
func compareFields(key string, told []plan.Field, real map[string]change) []string {
	var out []string
	said := map[string]plan.Field{}
	for _, f := range told {
		said[f.Path] = f
	}
	for _, path := range slices.Sorted(maps.Keys(union(said, real))) {
		f, wasSaid := said[path]
		c, happened := real[path]
		switch {
		case assigned(path):
		case !wasSaid:
			out = append(out, fmt.Sprintf("%s: %s was not told: %s -> %s", key, path, text(c.old), text(c.new)))
		case !happened:
			out = append(out, fmt.Sprintf("%s: %s was told, and did not change: %s -> %s", key, path, text(f.Old), text(f.New)))
		case !reflect.DeepEqual(dense(f.Old), dense(c.old)) || !f.Unknown && !reflect.DeepEqual(dense(f.New), dense(c.new)):
			out = append(out, fmt.Sprintf("%s: %s: told %s -> %s, and it was %s -> %s", key, path, text(f.Old), text(f.New), text(c.old), text(c.new)))
		}
	}
	return out
}

func text(v any) string {
	content, _ := json.Marshal(v)
	return string(content)
}

// pods holds what was told about the pods of a workload against which of them are left.
func pods(key string, c plan.Change, before, after snapshot) []string {
	kind, _, _ := strings.Cut(key, " ")
	if kind != "Deployment" && kind != "StatefulSet" || before.objects[key] == nil || after.objects[key] == nil {
		return nil
	}
	was, is := before.pods[key], after.pods[key]
	stayed := slices.ContainsFunc(was, func(uid string) bool { return slices.Contains(is, uid) })
	replaced := len(was) > 0 && len(is) > 0 && !stayed
	if replaced != (c.Restarts > 0) {
		return []string{fmt.Sprintf("%s: told that %d pods are replaced, and of %d pods %v stayed", key, c.Restarts, len(was), stayed)}
	}
	if replaced && int(c.Restarts) != len(was) {
		return []string{fmt.Sprintf("%s: told that %d pods are replaced, and there were %d", key, c.Restarts, len(was))}
	}
	return nil
}

// guesses holds what is told to somebody who may not ask the API server against what it
// answers: all but the values that it sets itself.
func guesses(told, guessed told) []string {
	words := func(refusal string) string { // without the name of the file
		_, text, _ := strings.Cut(refusal, ": ")
		return text
	}
	if words(told.refused) != words(guessed.refused) {
		return []string{fmt.Sprintf("guess: refused: %q instead of %q", guessed.refused, told.refused)}
	}
	shape := func(t plan.Plan) (kind map[string]string, paths map[string][]string) {
		kind, paths = map[string]string{}, map[string][]string{}
		for _, c := range t.Changes {
			key := c.Kind + " " + c.Name
			for _, f := range c.Fields {
				paths[key] = append(paths[key], f.Path)
			}
			kind[key] = fmt.Sprintf("%s, restarts %d, data %q, after %v", c.Action, c.Restarts, c.Data, c.After)
		}
		return kind, paths
	}
	want, wantPaths := shape(told.Plan)
	got, gotPaths := shape(guessed.Plan)
	var out []string
	for _, key := range slices.Sorted(maps.Keys(union(want, got))) {
		// What follows from a field by default only the API server knows.
		extra := slices.DeleteFunc(slices.Clone(gotPaths[key]), func(p string) bool { return slices.Contains(wantPaths[key], p) })
		missing := slices.DeleteFunc(slices.Clone(wantPaths[key]), func(p string) bool { return slices.Contains(gotPaths[key], p) || p == "spec.sessionAffinityConfig" })
		if want[key] != got[key] || len(extra)+len(missing) > 0 {
			out = append(out, fmt.Sprintf("guess: %s: %s, too much %v, not enough %v\n  instead of: %s", key, got[key], extra, missing, want[key]))
		}
	}
	return out
}

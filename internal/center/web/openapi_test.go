package web

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/answer"
	"github.com/holdfast-dev/holdfast/internal/center/act"
	"github.com/holdfast-dev/holdfast/internal/testutil/golden"
)

// TestOpenAPI holds the document that is served against the types that are answered.
func TestOpenAPI(t *testing.T) {
	text, err := json.MarshalIndent(document(), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	golden.File(t, "openapi.json", string(text)+"\n")
}

type object = map[string]any

// param is a parameter of a query.
type param struct{ name, means string }

// verbs are what can be done with an application, and the type that is answered.
var verbs = map[string]struct {
	means  string
	answer any
}{
	"restart":  {"Restart the pods, with your own rights.", act.Outcome{}},
	"suspend":  {"Let the operator keep its hands off, with your own rights.", act.Outcome{}},
	"resume":   {"Let the operator go on, with your own rights.", act.Outcome{}},
	"scale":    {"Set how many pods a component has, with your own rights.", act.Outcome{}},
	"rollback": {"Go back to a revision, with your own rights.", act.Rollback{}},
}

// operations are what can be asked for, and the type that is answered.
var operations = []struct {
	path, means string
	params      []param
	answer      any
}{
	{"/api/v1/applications", "A page of applications: those that match and that you may see.", []param{
		{"namespace", "only those of a namespace"}, {"kind", "only those of a kind: AppStack, AppService, CloudManager, HelmRelease or Group"},
		{"health", "only those of these, separated by commas: Healthy, Progressing, Degraded, Waiting, Suspended, Unknown"}, {"q", "only those whose namespace/name contains this"},
		{"sort", "name (default), health (worst first), created or since (newest first)"}, {"limit", "how many, up to 500; 50 by default"},
		{"continue", "what the page before said, for the next one"}}, List{}},
	{"/api/v1/applications/{kind}/{namespace}/{name}", "An application: how it is, why, and its tree.", nil, answer.Application{}},
	{"/api/v1/applications/{kind}/{namespace}/{name}/why", "Why an application is not ready.", nil, answer.Application{}},
	{"/api/v1/applications/{kind}/{namespace}/{name}/tree", "The objects of an application.", nil, answer.Application{}},
	{"/api/v1/applications/{kind}/{namespace}/{name}/history", "What happened to an application lately, and since when that is known.", nil, History{}},
	{"/api/v1/find", "Objects that use something.", []param{
		{"image", "an image"}, {"node", "a node"}, {"label", "KEY=VALUE"}, {"secret", "the name of a Secret"}, {"configmap", "the name of a ConfigMap"},
		{"claim", "the name of a PersistentVolumeClaim"}, {"namespace", "where; needed for names"}}, Found{}},
	{"/api/v1/objects/{resource}/{name}", "One object as the API server has it now, read with your own rights; values that may be secret are left out.", []param{
		{"namespace", "where it is"}, {"group", "of the resource; empty for v1"}, {"version", "of the resource; v1 by default"}, {"managers", "true shows who wrote to it"}}, object{}},
	{"/api/v1/logs/{kind}/{namespace}/{name}", "What the pods of an application, or a Pod, write, read with your own rights.", []param{
		{"component", "only those of a component"}, {"container", "only those of a container"}, {"follow", "true goes on"}, {"tail", "how many lines of each container"},
		{"since", "how far back, for example 5m"}, {"previous", "true is what was written before the last restart"}, {"timestamps", "true writes when"}}, nil},
	{"/api/v1/engine", "The machinery of the center, for those who may list nodes.", nil, Engine{}},
	{"/api/v1/stream", "Server-sent events: a snapshot, then every change. Send Last-Event-ID to go on where a stream ended.", []param{
		{"topics", "separated by commas: applications (default), application/KIND/NAMESPACE/NAME"}}, nil},
}

func document() object {
	schemas, paths := object{}, object{}
	failed := object{"description": "why not", "content": object{"application/json": object{"schema": describe(reflect.TypeFor[failure](), schemas)}}}
	for _, op := range operations {
		var params []object
		for part := range strings.SplitSeq(op.path, "/") {
			if name, ok := strings.CutPrefix(part, "{"); ok {
				params = append(params, object{"name": strings.TrimSuffix(name, "}"), "in": "path", "required": true, "schema": object{"type": "string"}})
			}
		}
		for _, p := range op.params {
			params = append(params, object{"name": p.name, "in": "query", "description": p.means, "schema": object{"type": "string"}})
		}
		content := object{"text/event-stream": object{"schema": object{"type": "string"}}}
		if strings.Contains(op.path, "/logs/") {
			content = object{"text/plain": object{"schema": object{"type": "string"}}}
		}
		if op.answer != nil {
			content = object{"application/json": object{"schema": describe(reflect.TypeOf(op.answer), schemas)}}
		}
		get := object{"summary": op.means, "responses": object{"200": object{"description": "the answer", "content": content}, "default": failed}}
		if params != nil {
			get["parameters"] = params
		}
		paths[op.path] = object{"get": get}
	}
	for verb, v := range verbs {
		var params []object
		for _, name := range []string{"kind", "namespace", "name"} {
			params = append(params, object{"name": name, "in": "path", "required": true, "schema": object{"type": "string"}})
		}
		content := object{"application/json": object{"schema": describe(reflect.TypeOf(v.answer), schemas)}}
		wish := object{"required": true, "content": object{"application/json": object{"schema": describe(reflect.TypeFor[Wish](), schemas)}}}
		paths["/api/v1/applications/{kind}/{namespace}/{name}/"+verb] = object{"post": object{"summary": v.means, "parameters": params, "requestBody": wish,
			"responses": object{"200": object{"description": "what was done", "content": content}, "default": failed}}}
	}
	return object{
		"openapi": "3.1.0", "info": object{"title": "Holdfast application center", "version": "v1"}, "paths": paths,
		"components": object{"schemas": schemas, "securitySchemes": object{"token": object{"type": "http", "scheme": "bearer"}}},
		"security":   []object{{"token": []string{}}},
	}
}

// describe describes a type. Structs are described once, by their names.
func describe(t reflect.Type, named object) object {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case t.Kind() == reflect.Pointer:
		return describe(t.Elem(), named)
	case t.Kind() == reflect.Slice:
		return object{"type": "array", "items": describe(t.Elem(), named)}
	case t.Kind() == reflect.Map:
		return object{"type": "object", "additionalProperties": describe(t.Elem(), named)}
	case t.Kind() == reflect.Struct:
		name := strings.ToUpper(t.Name()[:1]) + t.Name()[1:]
		if other, ok := named[name]; ok && other.(object)["x-go-type"] != t.String() {
			name = strings.ReplaceAll(strings.ToUpper(t.String()[:1])+t.String()[1:], ".", "")
		}
		if named[name] == nil {
			named[name] = object{"x-go-type": t.String()} // it may contain itself
			properties, required := object{}, map[string]bool{}
			fieldsOf(t, named, properties, required)
			named[name] = object{"type": "object", "properties": properties, "required": slices.Sorted(maps.Keys(required)), "x-go-type": t.String()}
		}
		return object{"$ref": "#/components/schemas/" + name}
	case t.Kind() == reflect.Bool:
		return object{"type": "boolean"}
	case t.Kind() == reflect.String:
		return object{"type": "string"}
	case t.Kind() == reflect.Float64:
		return object{"type": "number"}
	case t.Kind() == reflect.Interface:
		return object{}
	default:
		return object{"type": "integer"}
	}
}

func fieldsOf(t reflect.Type, named, properties object, required map[string]bool) {
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			fieldsOf(f.Type, named, properties, required)
			continue
		}
		if !f.IsExported() || name == "-" {
			continue
		}
		if name == "" {
			name = f.Name
		}
		properties[name] = describe(f.Type, named)
		if !strings.Contains(options, "omitempty") && !strings.Contains(options, "omitzero") {
			required[name] = true
		}
	}
}

package httpapi

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/center/actions"
	"github.com/holdfast-dev/holdfast/internal/inspect/wire"
	"github.com/holdfast-dev/holdfast/internal/testutil/golden"
)

// TestOpenAPIMatchesTypes holds the document that is served against the types that are answered.
func TestOpenAPIMatchesTypes(t *testing.T) {
	text, err := json.MarshalIndent(openAPIDocument(), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	golden.CheckFile(t, "openapi.json", string(text)+"\n")
}

type jsonObject = map[string]any

// param is a parameter of a query.
type param struct{ name, description string }

// verbs are what can be done with an application, and the type that is answered.
var verbs = map[string]struct {
	means  string
	answer any
}{
	"restart":  {"Restart the pods, with your own rights.", actions.EditResult{}},
	"suspend":  {"Let the operator keep its hands off, with your own rights.", actions.EditResult{}},
	"resume":   {"Let the operator go on, with your own rights.", actions.EditResult{}},
	"scale":    {"Set how many pods a component has, with your own rights.", actions.EditResult{}},
	"rollback": {"Go back to a revision, with your own rights.", actions.RollbackResult{}},
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
		{"continue", "what the page before said, for the next one"}}, ApplicationList{}},
	{"/api/v1/applications/{kind}/{namespace}/{name}", "An application: how it is, why, and its tree.", nil, wire.Application{}},
	{"/api/v1/applications/{kind}/{namespace}/{name}/why", "Why an application is not ready.", nil, wire.Application{}},
	{"/api/v1/applications/{kind}/{namespace}/{name}/tree", "The objects of an application.", nil, wire.Application{}},
	{"/api/v1/applications/{kind}/{namespace}/{name}/history", "What happened to an application lately, and since when that is known.", nil, History{}},
	{"/api/v1/find", "Objects that use something.", []param{
		{"image", "an image"}, {"node", "a node"}, {"label", "KEY=VALUE"}, {"secret", "the name of a Secret"}, {"configmap", "the name of a ConfigMap"},
		{"claim", "the name of a PersistentVolumeClaim"}, {"namespace", "where; needed for names"}}, FindResult{}},
	{"/api/v1/objects/{resource}/{name}", "One object as the API server has it now, read with your own rights; values that may be secret are left out.", []param{
		{"namespace", "where it is"}, {"group", "of the resource; empty for v1"}, {"version", "of the resource; v1 by default"}, {"managers", "true shows who wrote to it"}}, jsonObject{}},
	{"/api/v1/logs/{kind}/{namespace}/{name}", "What the pods of an application, or a Pod, write, read with your own rights.", []param{
		{"component", "only those of a component"}, {"container", "only those of a container"}, {"follow", "true goes on"}, {"tail", "how many lines of each container"},
		{"since", "how far back, for example 5m"}, {"previous", "true is what was written before the last restart"}, {"timestamps", "true writes when"}}, nil},
	{"/api/v1/center", "The machinery of the center, for those who may list nodes.", nil, CenterStatus{}},
	{"/api/v1/stream", "Server-sent events: a snapshot, then every change. Send Last-Event-ID to go on where a stream ended.", []param{
		{"topics", "separated by commas: applications (default), application/KIND/NAMESPACE/NAME"}}, nil},
}

func openAPIDocument() jsonObject {
	schemas, paths := jsonObject{}, jsonObject{}
	errorSchema := jsonObject{"description": "why not", "content": jsonObject{"application/json": jsonObject{"schema": schemaOf(reflect.TypeFor[errorResponse](), schemas)}}}
	for _, op := range operations {
		var params []jsonObject
		for part := range strings.SplitSeq(op.path, "/") {
			if name, ok := strings.CutPrefix(part, "{"); ok {
				params = append(params, jsonObject{"name": strings.TrimSuffix(name, "}"), "in": "path", "required": true, "schema": jsonObject{"type": "string"}})
			}
		}
		for _, p := range op.params {
			params = append(params, jsonObject{"name": p.name, "in": "query", "description": p.description, "schema": jsonObject{"type": "string"}})
		}
		content := jsonObject{"text/event-stream": jsonObject{"schema": jsonObject{"type": "string"}}}
		if strings.Contains(op.path, "/logs/") {
			content = jsonObject{"text/plain": jsonObject{"schema": jsonObject{"type": "string"}}}
		}
		if op.answer != nil {
			content = jsonObject{"application/json": jsonObject{"schema": schemaOf(reflect.TypeOf(op.answer), schemas)}}
		}
		get := jsonObject{"summary": op.means, "responses": jsonObject{"200": jsonObject{"description": "the answer", "content": content}, "default": errorSchema}}
		if params != nil {
			get["parameters"] = params
		}
		paths[op.path] = jsonObject{"get": get}
	}
	for verb, v := range verbs {
		var params []jsonObject
		for _, name := range []string{"kind", "namespace", "name"} {
			params = append(params, jsonObject{"name": name, "in": "path", "required": true, "schema": jsonObject{"type": "string"}})
		}
		content := jsonObject{"application/json": jsonObject{"schema": schemaOf(reflect.TypeOf(v.answer), schemas)}}
		requestBody := jsonObject{"required": true, "content": jsonObject{"application/json": jsonObject{"schema": schemaOf(reflect.TypeFor[ActionRequest](), schemas)}}}
		paths["/api/v1/applications/{kind}/{namespace}/{name}/"+verb] = jsonObject{"post": jsonObject{"summary": v.means, "parameters": params, "requestBody": requestBody,
			"responses": jsonObject{"200": jsonObject{"description": "what was done", "content": content}, "default": errorSchema}}}
	}
	return jsonObject{
		"openapi": "3.1.0", "info": jsonObject{"title": "Holdfast application center", "version": "v1"}, "paths": paths,
		"components": jsonObject{"schemas": schemas, "securitySchemes": jsonObject{"token": jsonObject{"type": "http", "scheme": "bearer"}}},
		"security":   []jsonObject{{"token": []string{}}},
	}
}

// schemaOf describes a type. Structs are described once, by their names.
func schemaOf(t reflect.Type, schemas jsonObject) jsonObject {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return jsonObject{"type": "string", "format": "date-time"}
	case t.Kind() == reflect.Pointer:
		return schemaOf(t.Elem(), schemas)
	case t.Kind() == reflect.Slice:
		return jsonObject{"type": "array", "items": schemaOf(t.Elem(), schemas)}
	case t.Kind() == reflect.Map:
		return jsonObject{"type": "object", "additionalProperties": schemaOf(t.Elem(), schemas)}
	case t.Kind() == reflect.Struct:
		name := strings.ToUpper(t.Name()[:1]) + t.Name()[1:]
		if other, ok := schemas[name]; ok && other.(jsonObject)["x-go-type"] != t.String() {
			name = strings.ReplaceAll(strings.ToUpper(t.String()[:1])+t.String()[1:], ".", "")
		}
		if schemas[name] == nil {
			schemas[name] = jsonObject{"x-go-type": t.String()} // it may contain itself
			properties, required := jsonObject{}, map[string]bool{}
			addFields(t, schemas, properties, required)
			schemas[name] = jsonObject{"type": "object", "properties": properties, "required": slices.Sorted(maps.Keys(required)), "x-go-type": t.String()}
		}
		return jsonObject{"$ref": "#/components/schemas/" + name}
	case t.Kind() == reflect.Bool:
		return jsonObject{"type": "boolean"}
	case t.Kind() == reflect.String:
		return jsonObject{"type": "string"}
	case t.Kind() == reflect.Float64:
		return jsonObject{"type": "number"}
	case t.Kind() == reflect.Interface:
		return jsonObject{}
	default:
		return jsonObject{"type": "integer"}
	}
}

func addFields(t reflect.Type, schemas, properties jsonObject, required map[string]bool) {
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			addFields(f.Type, schemas, properties, required)
			continue
		}
		if !f.IsExported() || name == "-" {
			continue
		}
		if name == "" {
			name = f.Name
		}
		properties[name] = schemaOf(f.Type, schemas)
		if !strings.Contains(options, "omitempty") && !strings.Contains(options, "omitzero") {
			required[name] = true
		}
	}
}

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
	{"/api/v1/engine", "The machinery of the center, for those who may list nodes.", nil, Engine{}},
	{"/api/v1/stream", "Server-sent events: a snapshot, then every change. Send Last-Event-ID to go on where a stream ended.", []param{
		{"topics", "separated by commas: applications (default), application/KIND/NAMESPACE/NAME"}}, nil},
}

func document() object {
	schemas, paths := object{}, object{}
	failed := object{"description": "why not", "content": object{"application/json": object{"schema": schema(reflect.TypeFor[failure](), schemas)}}}
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
		if op.answer != nil {
			content = object{"application/json": object{"schema": schema(reflect.TypeOf(op.answer), schemas)}}
		}
		get := object{"summary": op.means, "responses": object{"200": object{"description": "the answer", "content": content}, "default": failed}}
		if params != nil {
			get["parameters"] = params
		}
		paths[op.path] = object{"get": get}
	}
	return object{
		"openapi": "3.1.0", "info": object{"title": "Holdfast application center", "version": "v1"}, "paths": paths,
		"components": object{"schemas": schemas, "securitySchemes": object{"token": object{"type": "http", "scheme": "bearer"}}},
		"security":   []object{{"token": []string{}}},
	}
}

// schema describes a type. Structs are described once, by their names.
func schema(t reflect.Type, named object) object {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case t.Kind() == reflect.Pointer:
		return schema(t.Elem(), named)
	case t.Kind() == reflect.Slice:
		return object{"type": "array", "items": schema(t.Elem(), named)}
	case t.Kind() == reflect.Map:
		return object{"type": "object", "additionalProperties": schema(t.Elem(), named)}
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
		properties[name] = schema(f.Type, named)
		if !strings.Contains(options, "omitempty") && !strings.Contains(options, "omitzero") {
			required[name] = true
		}
	}
}

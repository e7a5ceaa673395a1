package httpapi

import (
	"encoding"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/center/actions"
	"github.com/holdfast-dev/holdfast/internal/inspect/wire"
	"github.com/holdfast-dev/holdfast/internal/testutil/golden"
)

// TestOpenAPIMatchesTypes compares the document that the center serves with the types that it
// writes. The flag -update rewrites the document.
func TestOpenAPIMatchesTypes(t *testing.T) {
	text, err := json.MarshalIndent(openAPIDocument(), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	golden.CheckFile(t, "openapi.json", string(text)+"\n")
}

type jsonObject = map[string]any

// param is a query parameter.
type param struct{ name, description string }

const applicationPath = "/api/v1/applications/{kind}/{namespace}/{name}"

// operations are all requests of the API. Those with a request body are POST requests. The response
// is a type, or the media type of a text.
var operations = []struct {
	path, summary     string
	query             []param
	request, response any
}{
	{path: "/api/v1/applications", summary: "List the applications that you are allowed to list, in pages.", query: []param{
		{"namespace", "only applications of this namespace"},
		{"kind", "only applications of this kind: AppStack, AppService, CloudManager, HelmRelease or Group"},
		{"health", "only applications of this health, separated by commas: Healthy, Progressing, Degraded, Waiting, Suspended, Unknown"},
		{"q", "only applications whose namespace/name contains this text"},
		{"sort", "name (default), health (worst first), created or since (newest first)"},
		{"limit", "page size, at most 500; default 50"}, {"continue", "continue token of the previous page"},
	}, response: ApplicationList{}},
	{path: applicationPath, summary: "Get the health of an application, its causes and its tree.", response: wire.Application{}},
	{path: applicationPath + "/why", summary: "Explain why an application is not ready.", response: wire.Application{}},
	{path: applicationPath + "/tree", summary: "Get the objects of an application.", response: wire.Application{}},
	{path: applicationPath + "/history", summary: "Get the recent changes of an application, and the time of the oldest known change.", response: History{}},
	{path: applicationPath + "/restart", summary: "Restart the pods, with your permissions.", request: ActionRequest{}, response: actions.EditResult{}},
	{path: applicationPath + "/suspend", summary: "Pause reconciliation, with your permissions.", request: ActionRequest{}, response: actions.EditResult{}},
	{path: applicationPath + "/resume", summary: "Resume reconciliation, with your permissions.", request: ActionRequest{}, response: actions.EditResult{}},
	{path: applicationPath + "/scale", summary: "Set the replicas of a component, with your permissions.", request: ActionRequest{}, response: actions.EditResult{}},
	{path: applicationPath + "/rollback", summary: "Roll back to a revision, with your permissions.", request: ActionRequest{}, response: actions.RollbackResult{}},
	{path: "/api/v1/find", summary: "Find the objects that use an image, a node, a label or an object.", query: []param{
		{"image", "name of an image"}, {"node", "name of a node"}, {"label", "KEY=VALUE"}, {"secret", "name of a Secret"},
		{"configmap", "name of a ConfigMap"}, {"claim", "name of a PersistentVolumeClaim"},
		{"namespace", "only objects of this namespace; required for secret, configmap and claim"},
	}, response: FindResult{}},
	{path: "/api/v1/objects/{resource}/{name}", summary: "Get one object from the API server, with your permissions; values that may be secret are removed.", query: []param{
		{"namespace", "namespace of the object"}, {"group", "API group; empty for core"}, {"version", "API version; default v1"},
		{"managers", "true includes managedFields"},
	}, response: jsonObject{}},
	{path: "/api/v1/logs/{kind}/{namespace}/{name}", summary: "Get the logs of an application or a Pod, with your permissions.", query: []param{
		{"component", "only pods of this component"}, {"container", "only this container"}, {"follow", "true streams new log lines"},
		{"tail", "number of recent lines per container"}, {"since", "only lines newer than this duration, for example 5m"},
		{"previous", "true gets the logs before the last restart"}, {"timestamps", "true adds timestamps"},
	}, response: "text/plain"},
	{path: "/api/v1/center", summary: "Get the state of the center; requires permission to list nodes.", response: CenterStatus{}},
	{path: "/api/v1/stream", summary: "Stream a snapshot and all changes as server-sent events. Send Last-Event-ID to resume.", query: []param{
		{"topics", "separated by commas: applications (default), application/KIND/NAMESPACE/NAME"},
	}, response: "text/event-stream"},
}

func openAPIDocument() jsonObject {
	schemas, paths := jsonObject{}, jsonObject{}
	content := func(value any) jsonObject {
		if mediaType, ok := value.(string); ok {
			return jsonObject{mediaType: jsonObject{"schema": jsonObject{"type": "string"}}}
		}
		return jsonObject{"application/json": jsonObject{"schema": schemaOf(reflect.TypeOf(value), schemas)}}
	}
	for _, op := range operations {
		method, operation := "get", jsonObject{"summary": op.summary, "responses": jsonObject{
			"200":     jsonObject{"description": "success", "content": content(op.response)},
			"default": jsonObject{"description": "error", "content": content(errorResponse{})},
		}}
		if op.request != nil {
			method, operation["requestBody"] = "post", jsonObject{"required": true, "content": content(op.request)}
		}
		var params []jsonObject
		for part := range strings.SplitSeq(op.path, "/") {
			if name, ok := strings.CutPrefix(part, "{"); ok {
				params = append(params, jsonObject{"name": strings.TrimSuffix(name, "}"), "in": "path", "required": true, "schema": jsonObject{"type": "string"}})
			}
		}
		for _, p := range op.query {
			params = append(params, jsonObject{"name": p.name, "in": "query", "description": p.description, "schema": jsonObject{"type": "string"}})
		}
		if params != nil {
			operation["parameters"] = params
		}
		paths[op.path] = jsonObject{method: operation}
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
	case t.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
		return jsonObject{"type": "string"}
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
			properties, required := jsonObject{}, []string{}
			addFields(t, schemas, properties, &required)
			slices.Sort(required)
			schemas[name] = jsonObject{"type": "object", "properties": properties, "required": required, "x-go-type": t.String()}
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

func addFields(t reflect.Type, schemas, properties jsonObject, required *[]string) {
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
			*required = append(*required, name)
		}
	}
}

// Package redact takes out of objects and texts what nobody who reads a bug report should
// see. It is pure: values in, values out.
//
// Safety rule: in doubt it hides. Names, sizes and references stay, so that what was set can
// be seen, and what it was set to cannot.
package redact

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Placeholder stands for a value.
const Placeholder = "(hidden)"

// Rules are what is hidden, in words, for people who read the result.
var Rules = []string{
	"values of environment variables, and of headers of probes: their names stay, and references to Secrets",
	"root passwords, and every other field with a name that ends like that of a password, token, secret or key",
	"contents of ConfigMaps, and of files and configurations in specs: their names and sizes stay",
	"annotations that repeat an object, are long, or are made from the contents of Secrets",
	"in commands and all other texts: values of words that look like a password, token, secret or key, who logs in within an address, webhooks, private keys",
	"which fields each manager owns: who wrote, how and when stays",
}

// maxAnnotation is how long an annotation may be that is no repetition of an object.
const maxAnnotation = 512

// Object returns an object as a report may show it. The object stays as it is.
func Object(object map[string]any) map[string]any {
	kind, _ := object["kind"].(string)
	out := map[string]any{}
	for key, v := range object {
		switch {
		case kind == "Secret" && !slices.Contains([]string{"apiVersion", "kind", "metadata", "type", "immutable"}, key):
			out[key] = sizesOnly(v)
		case kind == "ConfigMap" && (key == "data" || key == "binaryData"):
			out[key] = sizesOnly(v)
		case kind == "ControllerRevision" && key == "data":
			out[key] = Placeholder // its spec is read and hidden elsewhere; it may be packed
		default:
			out[key] = redactField(key, v)
		}
	}
	return out
}

// Value returns a part of an object as a report may show it.
func Value(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, inner := range v {
			out[key] = redactField(key, inner)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = Value(v[i])
		}
		return out
	case string:
		return Text(v)
	}
	return v
}

// redactField is a field by its name, wherever it is: pod templates are in many places.
func redactField(key string, v any) any {
	switch inner := v.(type) {
	case string:
		switch {
		case key == "config": // of a database
			return sizeOnly(inner)
		case isSecretField(key):
			return Placeholder
		}
	case []any:
		switch key {
		case "managedFields":
			return redactManagedFields(inner)
		case "env", "httpHeaders":
			return redactEntries(inner, func(m map[string]any) { hideKey(m, "value") })
		case "files":
			return redactEntries(inner, func(m map[string]any) {
				if content, ok := m["content"].(string); ok {
					m["content"] = sizeOnly(content)
				}
			})
		case "command", "args":
			return redactCommandLine(inner)
		}
	case map[string]any:
		switch key {
		case "annotations":
			return redactAnnotations(inner)
		case "data", "stringData", "binaryData":
			return sizesOnly(inner)
		}
	}
	return Value(v)
}

// isSecretField says whether a field has a secret for a value by its name. References end
// otherwise: secretNamePattern, secretKeyRef. A field called key alone names one.
func isSecretField(key string) bool {
	lower := strings.ToLower(key)
	return slices.ContainsFunc([]string{"pass", "password", "passwd", "passphrase", "pwd", "token", "secret", "credential", "credentials"}, func(end string) bool {
		return strings.HasSuffix(lower, end)
	}) || lower != "key" && strings.HasSuffix(lower, "key") && !strings.HasSuffix(lower, "topologykey") && !strings.HasSuffix(lower, "labelkey")
}

func hideKey(m map[string]any, key string) {
	if text, ok := m[key].(string); ok && text != "" {
		m[key] = Placeholder
	}
}

// redactEntries changes the entries of a list. Fields of theirs are hidden by their names, too,
// before.
func redactEntries(list []any, change func(map[string]any)) []any {
	out := make([]any, len(list))
	for i, entry := range list {
		out[i] = Value(entry)
		if m, ok := out[i].(map[string]any); ok {
			change(m)
		}
	}
	return out
}

func sizeOnly(content string) string { return fmt.Sprintf("(left out: %d bytes)", len(content)) }

// sizesOnly are the keys of contents and how long each is.
func sizesOnly(v any) any {
	m, ok := v.(map[string]any)
	if !ok {
		return Placeholder
	}
	out := map[string]any{}
	for key, content := range m {
		text, ok := content.(string)
		if !ok {
			raw, _ := json.Marshal(content) // it was JSON before
			text = string(raw)
		}
		out[key] = sizeOnly(text)
	}
	return out
}

func redactManagedFields(list []any) []any {
	var out []any
	for _, entry := range list {
		m, ok := entry.(map[string]any)
		if !ok {
			continue
		}
		kept := map[string]any{}
		for _, key := range []string{"manager", "operation", "time", "subresource"} {
			if v, ok := m[key]; ok {
				kept[key] = v
			}
		}
		out = append(out, kept)
	}
	return out
}

func redactCommandLine(list []any) []any {
	args := make([]string, len(list))
	for i, a := range list {
		text, ok := a.(string)
		if !ok {
			return Value(list).([]any)
		}
		args[i] = text
	}
	out := make([]any, len(list))
	for i, a := range Args(args) {
		out[i] = a
	}
	return out
}

// redactAnnotations leaves out what repeats an object, as kubectl apply does, and what can be
// guessed from.
func redactAnnotations(all map[string]any) map[string]any {
	out := map[string]any{}
	for key, v := range all {
		text, ok := v.(string)
		name := key[strings.LastIndex(key, "/")+1:]
		switch {
		case !ok:
			out[key] = Value(v)
		case key == appsapi.AnnotationConfigRefs || key == appsapi.AnnotationConfigHash:
			out[key] = Placeholder // a short password is found from its hash
		case name == "last-applied-configuration", len(text) > maxAnnotation, isJSON(text):
			out[key] = sizeOnly(text)
		case isSecretField(name):
			out[key] = Placeholder
		default:
			out[key] = Text(text)
		}
	}
	return out
}

func isJSON(text string) bool {
	text = strings.TrimSpace(text)
	return (strings.HasPrefix(text, "{") || strings.HasPrefix(text, "[")) && json.Valid([]byte(text))
}

// Package redact removes secrets from objects and texts for bug reports. It is pure: values in,
// values out.
//
// Safety rule: if in doubt, it hides the value. Names, sizes and references stay, so a report shows
// which fields are set, but not their values.
package redact

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Placeholder replaces a hidden value.
const Placeholder = "(hidden)"

// Rules describe what is hidden, for readers of a report.
var Rules = []string{
	"values of environment variables and of probe headers; names and Secret references stay",
	"root passwords, and all other fields whose name ends like that of a password, token, secret or key",
	"contents of ConfigMaps, and of files and configurations in specs; names and sizes stay",
	"annotations that contain a copy of an object, are long, or are derived from the contents of Secrets",
	"in commands and all other texts: values of words that look like a password, token, secret or key, credentials in URLs, webhook URLs, " +
		"private keys",
	"owned fields in managedFields; manager, operation and time stay",
}

// maxAnnotation is the maximum length of an annotation that is shown.
const maxAnnotation = 512

// Object returns a redacted copy of an object.
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
			out[key] = Placeholder // the spec can be compressed; it is decoded and redacted elsewhere
		default:
			out[key] = redactField(key, v)
		}
	}
	return out
}

// Value returns a redacted copy of a part of an object.
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

// redactField redacts a field by its name at any path, because pod templates occur in many places.
func redactField(key string, v any) any {
	switch inner := v.(type) {
	case string:
		switch {
		case key == "config": // configuration of a database
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

// isSecretField reports whether the name of a field indicates a secret value. References have other
// suffixes, for example secretName and secretKeyRef. A field named key is the name of a key.
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

// redactEntries redacts the entries of a list and then applies change to each of them.
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

func sizeOnly(content string) string { return fmt.Sprintf("(omitted: %d bytes)", len(content)) }

// sizesOnly replaces each value of a map by its size.
func sizesOnly(v any) any {
	m, ok := v.(map[string]any)
	if !ok {
		return Placeholder
	}
	out := map[string]any{}
	for key, content := range m {
		text, ok := content.(string)
		if !ok {
			raw, _ := json.Marshal(content) // cannot fail: the object was decoded from JSON
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

// redactAnnotations hides annotations that contain a copy of an object, as kubectl apply writes them, and
// hashes that allow to guess secrets.
func redactAnnotations(all map[string]any) map[string]any {
	out := map[string]any{}
	for key, v := range all {
		text, ok := v.(string)
		name := key[strings.LastIndex(key, "/")+1:]
		switch {
		case !ok:
			out[key] = Value(v)
		case name == "config-refs", name == "config-hash": // with the prefix of any operator
			out[key] = Placeholder // a short password can be guessed from its hash
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

package objdiff

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// mergeKeys are the keys by which the API server merges lists of children and of Holdfast kinds. Tests
// compare them with both schemas.
var mergeKeys = map[string][]string{
	"claims":                    {"name"},
	"containers":                {"name"},
	"env":                       {"name"},
	"imagePullSecrets":          {"name"},
	"initContainers":            {"name"},
	"resourceClaims":            {"name"},
	"schedulingGates":           {"name"},
	"topologySpreadConstraints": {"topologyKey", "whenUnsatisfiable"},
	"volumeDevices":             {"devicePath"},
	"volumeMounts":              {"mountPath"},
	"volumes":                   {"name"},

	"bindings":    {"component"},
	"components":  {"name"},
	"credentials": {"key"},
	"files":       {"path"},
	"operations":  {"component"},
	"storage":     {"name"},
}

// MergeKeys returns the keys by which the API server merges the items of a list, by field name; nil means
// that the list is atomic. Containers and Services both have a list named ports.
func MergeKeys(field string, item map[string]any) []string {
	if field != "ports" {
		return mergeKeys[field]
	}
	if _, ok := item["containerPort"]; ok {
		return []string{"containerPort", "protocol"}
	}
	return []string{"port", "protocol"}
}

// MergedLists returns the names of all lists with merge keys.
func MergedLists() []string { return append(slices.Sorted(maps.Keys(mergeKeys)), "ports") }

// likelyKeys are candidates for the keys of items in atomic or unknown lists, best first.
var likelyKeys = []string{"name", "mountPath", "path", "component", "type", "key", "containerPort", "port", "uid", "ip"}

// itemKeys returns the keys that distinguish all items of two lists, or nil. Without guess, only merge
// keys are considered.
func itemKeys(field string, guess bool, lists ...[]any) []string {
	for _, list := range lists {
		if len(list) == 0 {
			continue
		}
		first, _ := list[0].(map[string]any)
		if keys := MergeKeys(field, first); keys != nil && areUnique(keys, lists) {
			return keys
		}
		break
	}
	if !guess {
		return nil
	}
	for _, key := range likelyKeys {
		if keys := []string{key}; areUnique(keys, lists) {
			return keys
		}
	}
	return nil
}

func areUnique(keys []string, lists [][]any) bool {
	for _, list := range lists {
		seen := make(map[string]bool, len(list))
		for _, item := range list {
			key, ok := itemKey(keys, item)
			if !ok || seen[key] {
				return false
			}
			seen[key] = true
		}
	}
	return true
}

// itemKey returns the key of an item as printed in paths, for example 80/TCP. An item can lack all keys
// but the first, because the API server defaults the others.
func itemKey(keys []string, item any) (string, bool) {
	m, _ := item.(map[string]any)
	if m[keys[0]] == nil {
		return "", false
	}
	var parts []string
	for _, key := range keys {
		switch v := m[key].(type) {
		case nil:
		case map[string]any, []any:
			return "", false
		case string:
			parts = append(parts, v)
		default:
			parts = append(parts, fmt.Sprint(v))
		}
	}
	return strings.Join(parts, "/"), true
}

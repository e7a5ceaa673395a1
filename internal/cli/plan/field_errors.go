package plan

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// fieldErrors returns the fields of a document that the Go type of its kind cannot hold: errors of decoders
// often do not name the field.
func fieldErrors(document []byte, kind schema.GroupVersionKind) (errs []string) {
	var content any
	obj, err := scheme.New(kind)
	if err != nil || yaml.Unmarshal(document, &content) != nil {
		return nil
	}
	checkField(content, reflect.TypeOf(obj), "", &errs)
	return errs
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// checkField appends the errors of a value and of the values in it. Errors contain no values except for
// quantities, because the manifest can contain passwords.
func checkField(value any, t reflect.Type, path string, errs *[]string) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if value == nil {
		return
	}
	add := func(format string, args ...any) { *errs = append(*errs, path+": "+fmt.Sprintf(format, args...)) }
	if reflect.PointerTo(t).Implements(unmarshaler) {
		content, err := json.Marshal(value)
		if err == nil {
			err = json.Unmarshal(content, reflect.New(t).Interface())
		}
		switch {
		case err == nil:
		case t == reflect.TypeFor[resource.Quantity]():
			add("%s is not a quantity; %s", content, quantityHint(fmt.Sprint(value)))
		default:
			add("%s is not valid: %v", content, err)
		}
		return
	}
	switch v := value.(type) {
	case map[string]any:
		checkMap(v, t, path, errs)
	case []any:
		if t.Kind() != reflect.Slice {
			add("must be %s, not a list", typeName(t))
			return
		}
		for i, item := range v {
			checkField(item, t.Elem(), fmt.Sprintf("%s[%d]", path, i), errs)
		}
	case string:
		if t.Kind() != reflect.String {
			add("must be %s, not a string%s", typeName(t), unquoteHint(t))
		}
	case bool:
		if t.Kind() != reflect.Bool {
			add("must be %s, not a boolean%s", typeName(t), quoteHint(t))
		}
	case float64:
		switch {
		case !isInteger(t):
			add("must be %s, not a number%s", typeName(t), quoteHint(t))
		case v != math.Trunc(v):
			add("must be %s, not a fraction", typeName(t))
		}
	}
}

// checkMap appends the errors of the fields of an object. Unknown fields are reported by the decoder.
func checkMap(object map[string]any, t reflect.Type, path string, errs *[]string) {
	join := func(name string) string { return strings.TrimPrefix(path+"."+name, ".") }
	switch t.Kind() {
	case reflect.Map:
		for _, name := range sortedKeys(object) {
			checkField(object[name], t.Elem(), join(name), errs)
		}
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if f.Anonymous && name == "" {
				checkMap(object, f.Type, path, errs)
			} else if value, ok := object[name]; ok {
				checkField(value, f.Type, join(name), errs)
			}
		}
	default:
		*errs = append(*errs, fmt.Sprintf("%s: must be %s, not an object", path, typeName(t)))
	}
}

func sortedKeys(object map[string]any) []string {
	var out []string
	for name := range object {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

func isInteger(t reflect.Type) bool { return t.Kind() >= reflect.Int && t.Kind() <= reflect.Uint64 }

func typeName(t reflect.Type) string {
	switch {
	case t.Kind() == reflect.String:
		return "a string"
	case t.Kind() == reflect.Bool:
		return "a boolean"
	case t.Kind() == reflect.Slice:
		return "a list"
	case isInteger(t):
		return "a whole number"
	}
	return "an object"
}

// quoteHint returns the next step for a number or a boolean in place of a text.
func quoteHint(t reflect.Type) string {
	if t.Kind() == reflect.String {
		return "; quote it"
	}
	return ""
}

// unquoteHint returns the next step for a text in place of a number or a boolean.
func unquoteHint(t reflect.Type) string {
	if t.Kind() == reflect.Bool || isInteger(t) {
		return "; remove the quotes"
	}
	return ""
}

// bytesPattern matches sizes with a suffix for bytes, which quantities do not have.
var bytesPattern = regexp.MustCompile(`^([0-9.]+) ?([kKMGTPE])i?[bB]$`)

// quantityHint returns quantities that the user may have meant.
func quantityHint(value string) string {
	parts := bytesPattern.FindStringSubmatch(value)
	if parts == nil {
		return "use a quantity such as 500m, 2 or 1Gi"
	}
	number, unit := parts[1], strings.ToUpper(parts[2])
	return fmt.Sprintf("use %s%si (binary) or %s%s (decimal)", number, unit, number, strings.Replace(unit, "K", "k", 1))
}

package fieldmanager

import (
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/objdiff"
)

// Changes returns the fields in which two versions of an object differ, except for the status and the
// metadata that only the API server writes. A value that only one of them has is one change.
func Changes(before, after Object) ([]objdiff.FieldChange, error) {
	was, err := declarable(before)
	if err != nil {
		return nil, err
	}
	is, err := declarable(after)
	if err != nil {
		return nil, err
	}
	return objdiff.Diff(was, is, func(objdiff.Path) bool { return true }), nil
}

// declarable returns the fields that a client can declare.
func declarable(obj Object) (map[string]any, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, fmt.Errorf("read fields of %s: %w", obj.GetName(), err)
	}
	fields := objdiff.WithoutServerFields(content)
	delete(fields, "status")
	return fields, nil
}

// Drift returns the declared labels, annotations and fields that differ in an object.
func Drift(config *desired.Config, live Object) ([]objdiff.FieldChange, error) {
	want, err := config.Fields()
	if err != nil {
		return nil, err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(specOnly(live))
	if err != nil {
		return nil, fmt.Errorf("read fields of %s: %w", live.GetName(), err)
	}
	got, _ := project("", want, content).(map[string]any)
	want, got = maps.Clone(want), maps.Clone(got)
	want["metadata"] = declaredMetadata(config.Labels(), config.Annotations())
	got["metadata"] = declaredMetadata(selectKeys(live.GetLabels(), config.Labels()), selectKeys(live.GetAnnotations(), config.Annotations()))
	return objdiff.Diff(want, got, func(objdiff.Path) bool { return true }), nil
}

func declaredMetadata(labels, annotations map[string]string) map[string]any {
	return map[string]any{"labels": anyValues(labels), "annotations": anyValues(annotations)}
}

func anyValues(m map[string]string) map[string]any {
	out := make(map[string]any, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}

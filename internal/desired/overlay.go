package desired

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	kjson "sigs.k8s.io/json"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// The overlay is the one free-form field: no schema looks into it. So it is merged first,
// and then the result is held against what Holdfast promises of every pod. What of it is
// not said on purpose, a directive of the patch can still take away.

// overlaid merges the overlay of the spec into the template of pods. Those of a StatefulSet
// have volumes that are not in the template.
func overlaid(template *corev1ac.PodTemplateSpecApplyConfiguration, main string, p appsapi.PodSettings, storage []string) (*corev1ac.PodTemplateSpecApplyConfiguration, error) {
	if p.PodTemplateOverlay == nil || len(p.PodTemplateOverlay.Raw) == 0 {
		return template, nil
	}
	overlay := map[string]any{}
	if err := json.Unmarshal(p.PodTemplateOverlay.Raw, &overlay); err != nil {
		return nil, fmt.Errorf("podTemplateOverlay: %w", err)
	}
	if at := forbidden("", overlay["spec"]); at != "" {
		return nil, fmt.Errorf("podTemplateOverlay sets spec%s, which it may not: security and serviceAccountName say what pods may do; remove it", at)
	}
	before, err := json.Marshal(template)
	if err != nil {
		return nil, err
	}
	after, err := strategicpatch.StrategicMergePatch(before, p.PodTemplateOverlay.Raw, corev1.PodTemplateSpec{})
	if err != nil {
		return nil, unmerged(err)
	}
	var was, is corev1.PodTemplateSpec
	strict, err := kjson.UnmarshalStrict(after, &is)
	if err = errors.Join(append(strict, err)...); err != nil {
		return nil, misfit(err)
	}
	if err := json.Unmarshal(before, &was); err != nil {
		return nil, err
	}
	if err := keeps(&was, &is, main); err != nil {
		return nil, err
	}
	if err := soundSpec(&is.Spec, main, storage); err != nil {
		return nil, err
	}
	out := &corev1ac.PodTemplateSpecApplyConfiguration{}
	if err := json.Unmarshal(after, out); err != nil {
		return nil, err
	}
	return secured(out, main, p.Security)
}

// unmerged says why an overlay cannot be merged. What the library says prints maps of Go.
func unmerged(err error) error {
	said := err.Error()
	if _, key, ok := strings.Cut(said, "does not contain declared merge key: "); ok {
		return fmt.Errorf("podTemplateOverlay cannot be merged: an entry of a list has no %s, by which it is found; say it, for example {name: proxy, image: ...}", key)
	}
	if said, _, ok := strings.Cut(said, " in map: "); ok {
		return fmt.Errorf("podTemplateOverlay cannot be merged: %s; $patch is replace, merge or delete", said)
	}
	return fmt.Errorf("podTemplateOverlay cannot be merged: %w; it has the form of a pod template, {metadata: {...}, spec: {...}}", err)
}

// misfit says what of a merged template is not part of one.
func misfit(err error) error {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return fmt.Errorf("podTemplateOverlay is not part of a pod template: %s is a %s and has to be a %s; correct it", wrong.Field, wrong.Value, typeName(wrong.Type))
	}
	return fmt.Errorf("podTemplateOverlay is not part of a pod template: %w", err)
}

// typeName is what a type of Go is called in YAML.
func typeName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Slice, reflect.Array:
		return "list"
	case reflect.Struct, reflect.Map, reflect.Pointer:
		return "map"
	case reflect.Bool, reflect.String:
		return t.Kind().String()
	}
	return "number"
}

// forbidden is the path of the first field that an overlay may not set, in a fixed order.
func forbidden(field string, value any) string {
	switch v := value.(type) {
	case []any:
		for i, e := range v {
			if at := forbidden(field, e); at != "" {
				return fmt.Sprintf("[%d]%s", i, at)
			}
		}
	case map[string]any:
		if slices.Contains([]string{"nodeSelector", "matchLabels", "limits", "requests"}, field) {
			return "" // its keys are names that people chose
		}
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for _, k := range keys {
			if k == "securityContext" || k == "serviceAccountName" || k == "serviceAccount" ||
				k == "automountServiceAccountToken" || strings.HasPrefix(k, "host") {
				return "." + k
			}
			if at := forbidden(k, v[k]); at != "" {
				return "." + k + at
			}
		}
	}
	return ""
}

// keeps says what of ours got lost in the merge, which only directives can do.
func keeps(was, is *corev1.PodTemplateSpec, main string) error {
	lost := func(what string) error {
		return fmt.Errorf("podTemplateOverlay takes away or changes %s, which Holdfast sets; leave it as it is", what)
	}
	for k, v := range was.Labels {
		if is.Labels[k] != v {
			return lost("the label " + k)
		}
	}
	for k, v := range was.Annotations {
		if strings.HasPrefix(k, "apps.holdfast.dev/") && is.Annotations[k] != v {
			return lost("the annotation " + k)
		}
	}
	for k := range is.Annotations {
		if _, ours := was.Annotations[k]; strings.HasPrefix(k, "apps.holdfast.dev/") && !ours {
			return lost("the annotation " + k)
		}
	}
	if !equality.Semantic.DeepEqual(was.Spec.SecurityContext, is.Spec.SecurityContext) {
		return lost("spec.securityContext")
	}
	if was.Spec.ServiceAccountName != is.Spec.ServiceAccountName ||
		!equality.Semantic.DeepEqual(was.Spec.AutomountServiceAccountToken, is.Spec.AutomountServiceAccountToken) {
		return lost("spec.serviceAccountName or spec.automountServiceAccountToken")
	}
	named := func(c corev1.Container) bool { return c.Name == main }
	i, j := slices.IndexFunc(was.Spec.Containers, named), slices.IndexFunc(is.Spec.Containers, named)
	if j < 0 {
		return lost(fmt.Sprintf("the container %q", main))
	}
	if !equality.Semantic.DeepEqual(was.Spec.Containers[i].SecurityContext, is.Spec.Containers[j].SecurityContext) {
		return lost(fmt.Sprintf("the securityContext of the container %q", main))
	}
	return nil
}

// soundSpec is what is wrong with the containers of a pod after the merge. Those of the
// overlay are told from ours.
func soundSpec(pod *corev1.PodSpec, main string, storage []string) error {
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		if err := soundContainer(&c); err != nil {
			if c.Name != main {
				err = fmt.Errorf("podTemplateOverlay: container %q: %w", c.Name, err)
			}
			return err
		}
		switch {
		case len(validation.IsDNS1123Label(c.Name)) > 0:
			return fmt.Errorf("podTemplateOverlay has a container called %q; the name of a container is made of a-z, 0-9 and -", c.Name)
		case c.Image == "":
			return fmt.Errorf("podTemplateOverlay has container %q without an image; say which image it runs, or call it %q if it is the component's own", c.Name, main)
		}
		for _, m := range c.VolumeMounts {
			if !slices.Contains(storage, m.Name) && !slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name }) {
				return fmt.Errorf("podTemplateOverlay: container %q mounts volume %q, which does not exist; add it to volumes, or correct the name", c.Name, m.Name)
			}
		}
	}
	return nil
}

// secured gives every container that the overlay brought what the level of security asks
// of containers, and writes down defaults as everywhere.
func secured(template *corev1ac.PodTemplateSpecApplyConfiguration, main string, s appsapi.SecuritySettings) (*corev1ac.PodTemplateSpecApplyConfiguration, error) {
	context, err := convert[corev1ac.SecurityContextApplyConfiguration](containerSecurity(appsapi.SecuritySettings{Level: s.Level}))
	if err != nil {
		return nil, err
	}
	for _, list := range [][]corev1ac.ContainerApplyConfiguration{template.Spec.Containers, template.Spec.InitContainers} {
		for i := range list {
			c := &list[i]
			if c.SecurityContext == nil && (c.Name == nil || *c.Name != main) {
				c.SecurityContext = context
			}
			for j := range c.Env {
				if from := c.Env[j].ValueFrom; from != nil && from.FieldRef != nil && from.FieldRef.APIVersion == nil {
					from.FieldRef.WithAPIVersion("v1")
				}
			}
		}
	}
	return template, nil
}

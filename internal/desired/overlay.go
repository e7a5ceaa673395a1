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

// The schema does not validate the overlay. So the overlay is merged first, and the merged template is checked
// for changes of protected fields: directives of a strategic merge patch can also remove fields.

// applyOverlay merges the overlay into the pod template. storage are the volumes that a StatefulSet adds to its
// pods, which the template does not contain.
func applyOverlay(keys *appsapi.Keys, template *corev1ac.PodTemplateSpecApplyConfiguration, main string, p appsapi.PodSettings, storage []string) (*corev1ac.PodTemplateSpecApplyConfiguration, error) {
	if p.PodTemplateOverlay == nil || len(p.PodTemplateOverlay.Raw) == 0 {
		return template, nil
	}
	overlay := map[string]any{}
	if err := json.Unmarshal(p.PodTemplateOverlay.Raw, &overlay); err != nil {
		return nil, fmt.Errorf("podTemplateOverlay: %w", err)
	}
	before, err := json.Marshal(template)
	if err != nil {
		return nil, err
	}
	after, err := strategicpatch.StrategicMergePatch(before, p.PodTemplateOverlay.Raw, corev1.PodTemplateSpec{})
	if err != nil {
		return nil, overlayMergeError(err)
	}
	var original, merged corev1.PodTemplateSpec
	strict, err := kjson.UnmarshalStrict(after, &merged)
	if err = errors.Join(append(strict, err)...); err != nil {
		return nil, overlayTypeError(err)
	}
	if err := json.Unmarshal(before, &original); err != nil {
		return nil, err
	}
	if err := validateAllowed(overlay, &merged); err != nil {
		return nil, err
	}
	if err := validateProtected(keys, &original, &merged, main); err != nil {
		return nil, err
	}
	if err := validatePodSpec(&merged.Spec, main, storage); err != nil {
		return nil, err
	}
	out := &corev1ac.PodTemplateSpecApplyConfiguration{}
	if err := json.Unmarshal(after, out); err != nil {
		return nil, err
	}
	if out, err = withSecurityDefaults(out, main, p.Security); err != nil {
		return nil, err
	}
	return out, validatePodSecurity(out, p.Security.Level)
}

// overlayMergeError rewrites the errors of the library, which print Go maps.
func overlayMergeError(err error) error {
	text := err.Error()
	if _, key, ok := strings.Cut(text, "does not contain declared merge key: "); ok {
		return fmt.Errorf("podTemplateOverlay cannot be merged: a list item has no %s, which is the merge key; "+
			"add the key, for example {name: proxy, image: ...}", key)
	}
	if text, _, ok := strings.Cut(text, " in map: "); ok {
		return fmt.Errorf("podTemplateOverlay cannot be merged: %s; $patch must be replace, merge or delete", text)
	}
	return fmt.Errorf("podTemplateOverlay cannot be merged: %w; the overlay must have the form of a pod template: {metadata: {...}, spec: {...}}", err)
}

// overlayTypeError describes a field of the merged template that is unknown or has the wrong type.
func overlayTypeError(err error) error {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return fmt.Errorf("podTemplateOverlay is not a valid pod template: %s is a %s but must be a %s; "+
			"correct it", wrong.Field, wrong.Value, yamlTypeName(wrong.Type))
	}
	return fmt.Errorf("podTemplateOverlay is not a valid pod template: %w", err)
}

// yamlTypeName returns the YAML name of a Go type.
func yamlTypeName(t reflect.Type) string {
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

// validateProtected rejects an overlay that removes or changes protected fields.
func validateProtected(keys *appsapi.Keys, original, merged *corev1.PodTemplateSpec, main string) error {
	changedError := func(what string) error {
		return fmt.Errorf("podTemplateOverlay removes or changes %s, which Holdfast manages; remove this part of the overlay", what)
	}
	for k, v := range original.Labels {
		if merged.Labels[k] != v {
			return changedError("the label " + k)
		}
	}
	for k, v := range original.Annotations {
		if keys.Own(k) && merged.Annotations[k] != v {
			return changedError("the annotation " + k)
		}
	}
	for k := range merged.Annotations {
		if _, ours := original.Annotations[k]; keys.Own(k) && !ours {
			return changedError("the annotation " + k)
		}
	}
	if !equality.Semantic.DeepEqual(original.Spec.SecurityContext, merged.Spec.SecurityContext) {
		return changedError("spec.securityContext")
	}
	if original.Spec.ServiceAccountName != merged.Spec.ServiceAccountName ||
		!equality.Semantic.DeepEqual(original.Spec.AutomountServiceAccountToken, merged.Spec.AutomountServiceAccountToken) {
		return changedError("spec.serviceAccountName or spec.automountServiceAccountToken")
	}
	named := func(c corev1.Container) bool { return c.Name == main }
	i, j := slices.IndexFunc(original.Spec.Containers, named), slices.IndexFunc(merged.Spec.Containers, named)
	if j < 0 {
		return changedError(fmt.Sprintf("the container %q", main))
	}
	if !equality.Semantic.DeepEqual(original.Spec.Containers[i].SecurityContext, merged.Spec.Containers[j].SecurityContext) {
		return changedError(fmt.Sprintf("the securityContext of the container %q", main))
	}
	return nil
}

// validatePodSpec validates the containers of the merged template. Messages distinguish containers of the
// overlay from the main container.
func validatePodSpec(pod *corev1.PodSpec, main string, storage []string) error {
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		if err := validateContainer(&c); err != nil {
			if c.Name != main {
				err = fmt.Errorf("podTemplateOverlay: container %q: %w", c.Name, err)
			}
			return err
		}
		switch {
		case len(validation.IsDNS1123Label(c.Name)) > 0:
			return fmt.Errorf("podTemplateOverlay has a container named %q; a container name must consist of a-z, 0-9 and -", c.Name)
		case c.Image == "":
			return fmt.Errorf("podTemplateOverlay has container %q without an image; "+
				"set an image, or use the name %q for the main container of the component", c.Name, main)
		}
		for _, m := range c.VolumeMounts {
			if !slices.Contains(storage, m.Name) && !slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name }) {
				return fmt.Errorf("podTemplateOverlay: container %q mounts volume %q, which does not exist; add it to volumes, or correct the name", c.Name, m.Name)
			}
		}
	}
	return nil
}

// withSecurityDefaults sets defaults in a merged template: the security context of containers that the overlay
// adds, according to the security level, and fieldRef.apiVersion, see withFieldRefDefaults.
func withSecurityDefaults(template *corev1ac.PodTemplateSpecApplyConfiguration, main string, s appsapi.SecuritySettings) (*corev1ac.PodTemplateSpecApplyConfiguration, error) {
	securityContext, err := toApplyConfig[corev1ac.SecurityContextApplyConfiguration](containerSecurityContext(appsapi.SecuritySettings{Level: s.Level}))
	if err != nil {
		return nil, err
	}
	for _, list := range [][]corev1ac.ContainerApplyConfiguration{template.Spec.Containers, template.Spec.InitContainers} {
		for i := range list {
			c := &list[i]
			if c.SecurityContext == nil && (c.Name == nil || *c.Name != main) {
				c.SecurityContext = securityContext
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

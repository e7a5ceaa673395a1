package desired

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Fields with Kubernetes types have rules that are too expensive for the CRD, and rules that the API server
// does not check, such as the name of a Secret or the port of a probe. This code reports violations once, with
// the field of the spec. Otherwise the API server would reject the child repeatedly with the field of the
// child.
//
// It checks only the format of values. The API server checks everything else.

// validatePods validates the pod settings except for the container.
func validatePods(p appsapi.PodSettings) error {
	var all []error
	for _, v := range p.Volumes {
		if err := validateVolume(v); err != nil {
			all = append(all, fmt.Errorf("volumes[%s] %w", v.Name, err))
		}
	}
	size := 0
	for _, f := range p.Config.Files {
		size += len(f.Content)
	}
	if size > maxConfigFilesSize {
		all = append(all, fmt.Errorf("config.files has %d bytes in total, but a ConfigMap holds at most %d; "+
			"move large files into the image or a volume", size, maxConfigFilesSize))
	}
	for i, t := range p.Scheduling.Tolerations {
		if err := validateToleration(t); err != nil {
			all = append(all, fmt.Errorf("scheduling.tolerations[%d] %w", i, err))
		}
	}
	if n := p.Scheduling.PriorityClassName; n != "" && !isValidName(n) {
		all = append(all, fmt.Errorf("scheduling.priorityClassName is %q, which is not a valid name; run kubectl get priorityclass to list the classes", n))
	}
	all = append(all, validateKeys("podLabels", p.PodLabels), validateKeys("podAnnotations", p.PodAnnotations),
		validateKeys("scheduling.nodeSelector", p.Scheduling.NodeSelector))
	return joinErrors(all...)
}

// joinErrors returns all errors in one line, so that users can fix them together.
func joinErrors(all ...error) error {
	var messages []string
	for _, err := range all {
		if err != nil {
			messages = append(messages, err.Error())
		}
	}
	if len(messages) == 0 {
		return nil
	}
	return errors.New(strings.Join(messages, ". "))
}

// validateKeys validates the names of labels or annotations. The schema does not check that a prefix is a DNS
// name.
func validateKeys[V any](field string, values map[string]V) error {
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if len(validation.IsQualifiedName(strings.ToLower(key))) > 0 {
			return fmt.Errorf("%s contains %q, which is not a valid name: use at most 63 characters of A-Z, a-z, 0-9, -, _ and ., "+
				"with an optional prefix of a DNS name and /, for example example.com/team", field, key)
		}
	}
	return nil
}

// validateExpose validates the settings for access from outside the cluster.
func validateExpose(e *appsapi.ExposeSettings) error {
	if e == nil {
		return nil
	}
	for _, host := range e.Hostnames {
		for label := range strings.SplitSeq(host, ".") {
			if len(label) > maxLabelLength {
				return fmt.Errorf("expose.hostnames contains %q, which is not a valid DNS name: "+
					"each part can have at most %d characters", host, maxLabelLength)
			}
		}
	}
	return nil
}

// maxConfigFilesSize is the maximum size of the content of a ConfigMap.
const maxConfigFilesSize = 1 << 20

func validateVolume(v appsapi.Volume) error {
	kind, name := "", ""
	switch {
	case v.Secret != nil:
		kind, name = "Secret", v.Secret.Name
	case v.ConfigMap != nil:
		kind, name = "ConfigMap", v.ConfigMap.Name
	case v.PersistentVolumeClaim != nil:
		kind, name = "PersistentVolumeClaim", v.PersistentVolumeClaim.ClaimName
	case v.EmptyDir != nil && v.EmptyDir.SizeLimit != nil && v.EmptyDir.SizeLimit.Sign() < 0:
		return fmt.Errorf("has emptyDir.sizeLimit %s; it must not be negative", v.EmptyDir.SizeLimit)
	}
	if kind != "" && !isValidName(name) {
		return invalidReference(kind, name)
	}
	for _, o := range []*appsapi.ObjectVolume{v.Secret, v.ConfigMap} {
		if o == nil {
			continue
		}
		for _, item := range o.Items {
			if strings.HasPrefix(item.Path, "/") || strings.HasPrefix(item.Path, "..") || strings.Contains(item.Path, ":") || slices.Contains(strings.Split(item.Path, "/"), "..") {
				return fmt.Errorf("has key %q at path %q, which is outside the volume; "+
					"use a relative path without : and .., for example tls/key.pem", item.Key, item.Path)
			}
		}
	}
	return nil
}

func isValidName(name string) bool { return len(validation.IsDNS1123Subdomain(name)) == 0 }

// invalidReference reports a reference with an invalid name.
func invalidReference(kind, name string) error {
	return fmt.Errorf("references %s %q, which is not a valid name; use only lower-case letters, digits, dashes and dots", kind, name)
}

func validateToleration(t corev1.Toleration) error {
	effects := []corev1.TaintEffect{"", corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}
	switch {
	case t.Operator != "" && !slices.Contains([]corev1.TolerationOperator{"Exists", "Equal", "Lt", "Gt"}, t.Operator):
		return fmt.Errorf("has operator %q; use Exists or Equal", t.Operator)
	case t.Operator == corev1.TolerationOpExists && t.Value != "":
		return errors.New("has operator Exists and a value; remove the value, or use operator Equal")
	case t.Key == "" && t.Operator != corev1.TolerationOpExists:
		return errors.New("has no key; set the key of a taint, or operator Exists to match all taints")
	case !slices.Contains(effects, t.Effect):
		return fmt.Errorf("has effect %q; use NoSchedule, PreferNoSchedule or NoExecute, or leave it unset to match all effects", t.Effect)
	case t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute:
		return errors.New("has tolerationSeconds, which requires effect NoExecute; set the effect, or remove tolerationSeconds")
	}
	return nil
}

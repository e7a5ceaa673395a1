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

// What is said in types of Kubernetes has rules that our schema cannot pay for, and some
// that the API server does not check either: a Secret whose name nothing can have, a probe
// of a port that does not exist. Found here, they are reported once, in terms of the spec;
// found there, a child would be refused again and again, in terms of the child.
//
// Only what can never work is refused: anything else is for the API server to decide.

// validatePods is what is wrong with the pods of a component, beside their container.
func validatePods(p appsapi.PodSettings) error {
	for _, v := range p.Volumes {
		if err := validateVolume(v); err != nil {
			return fmt.Errorf("volumes: %q %w", v.Name, err)
		}
	}
	size := 0
	for _, f := range p.Config.Files {
		size += len(f.Content)
	}
	if size > maxConfigFilesSize {
		return fmt.Errorf("config.files have %d bytes together, and no more than %d fit into a ConfigMap; put what is large into the image or a volume", size, maxConfigFilesSize)
	}
	for i, t := range p.Scheduling.Tolerations {
		if err := validateToleration(t); err != nil {
			return fmt.Errorf("scheduling.tolerations[%d] %w", i, err)
		}
	}
	if n := p.Scheduling.PriorityClassName; n != "" && !isValidName(n) {
		return fmt.Errorf("scheduling.priorityClassName is %q, which no PriorityClass can be called; see kubectl get priorityclass", n)
	}
	return firstError(
		validateKeys("podLabels", p.PodLabels), validateKeys("podAnnotations", p.PodAnnotations), validateKeys("scheduling.nodeSelector", p.Scheduling.NodeSelector),
	)
}

// firstError is the first error, if there is one: people mend one thing after the other.
func firstError(all ...error) error {
	for _, err := range all {
		if err != nil {
			return err
		}
	}
	return nil
}

// validateKeys is what is wrong with the names of labels or annotations. The schema sees most
// of it, but not a prefix that is no DNS name.
func validateKeys[V any](field string, values map[string]V) error {
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if len(validation.IsQualifiedName(strings.ToLower(key))) > 0 {
			return fmt.Errorf("%s has %q, which is no name: it has at most 63 of A-Z, a-z, 0-9, -, _ and ., and may have a DNS name and / before it, for example example.com/team", field, key)
		}
	}
	return nil
}

// validateExpose is what is wrong with how a service is reached from outside.
func validateExpose(e *appsapi.ExposeSettings) error {
	if e == nil {
		return nil
	}
	for _, host := range e.Hostnames {
		for label := range strings.SplitSeq(host, ".") {
			if len(label) > maxLabelLength {
				return fmt.Errorf("expose.hostnames has %q, which is no DNS name: no part of it may have more than %d characters", host, maxLabelLength)
			}
		}
	}
	return nil
}

// maxConfigFilesSize is how much the API server takes as the content of a ConfigMap.
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
		return fmt.Errorf("has an emptyDir.sizeLimit of %s; it cannot be less than 0", v.EmptyDir.SizeLimit)
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
				return fmt.Errorf("shows key %q at %q, which is not within the volume: say a path without / at its beginning, : and .., for example tls/key.pem", item.Key, item.Path)
			}
		}
	}
	return nil
}

func isValidName(name string) bool { return len(validation.IsDNS1123Subdomain(name)) == 0 }

// invalidReference is a reference to what cannot exist.
func invalidReference(kind, name string) error {
	return fmt.Errorf("refers to %s %q, which nothing can be called: names are made of a-z, 0-9, - and .; correct it", kind, name)
}

func validateToleration(t corev1.Toleration) error {
	effects := []corev1.TaintEffect{"", corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}
	switch {
	case t.Operator != "" && !slices.Contains([]corev1.TolerationOperator{"Exists", "Equal", "Lt", "Gt"}, t.Operator):
		return fmt.Errorf("has operator %q; it is Exists or Equal", t.Operator)
	case t.Operator == corev1.TolerationOpExists && t.Value != "":
		return errors.New("has operator Exists and a value; remove the value, or use operator Equal")
	case t.Key == "" && t.Operator != corev1.TolerationOpExists:
		return errors.New("has no key; say the key of a taint, or operator Exists for all of them")
	case !slices.Contains(effects, t.Effect):
		return fmt.Errorf("has effect %q; it is NoSchedule, PreferNoSchedule or NoExecute, or unset for all of them", t.Effect)
	case t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute:
		return errors.New("has tolerationSeconds, which goes with effect NoExecute alone")
	}
	return nil
}

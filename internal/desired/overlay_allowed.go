package desired

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	psaapi "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Fields that an overlay can set. The operator creates pods with its own permissions, so fields that could give a pod
// more than its author may have are left out, and so is every field that a new version of Kubernetes adds.
var (
	overlayTemplateFields = []string{"metadata", "spec"}
	overlayPodFields      = []string{
		"activeDeadlineSeconds", "affinity", "containers", "dnsConfig", "dnsPolicy", "enableServiceLinks", "imagePullSecrets",
		"initContainers", "nodeSelector", "os", "preemptionPolicy", "priorityClassName", "readinessGates", "resourceClaims",
		"resources", "restartPolicy", "runtimeClassName", "schedulerName", "schedulingGates", "setHostnameAsFQDN", "shareProcessNamespace",
		"subdomain", "terminationGracePeriodSeconds", "tolerations", "topologySpreadConstraints", "volumes",
	}
	overlayContainerFields = []string{
		"args", "command", "env", "envFrom", "image", "imagePullPolicy", "lifecycle", "livenessProbe", "name", "ports",
		"readinessProbe", "resizePolicy", "resources", "restartPolicy", "startupProbe", "stdin", "stdinOnce",
		"terminationMessagePath", "terminationMessagePolicy", "tty", "volumeDevices", "volumeMounts", "workingDir",
	}
	// overlayFields are the allowed fields by the name of their parent.
	overlayFields = map[string][]string{
		"metadata":       {"annotations", "labels"},
		"spec":           overlayPodFields,
		"containers":     overlayContainerFields,
		"initContainers": overlayContainerFields,
		"ports":          {"containerPort", "name", "protocol"},
		"httpGet":        {"httpHeaders", "path", "port", "scheme"},
		"tcpSocket":      {"port"},
		"volumes": {
			"configMap", "downwardAPI", "emptyDir", "ephemeral", "image", "name", "persistentVolumeClaim", "projected", "secret",
		},
		"sources": {"clusterTrustBundle", "configMap", "downwardAPI", "secret"}, // of a projected volume: no token
	}
)

// validateAllowed rejects an overlay that sets fields which are not allowed. merged is the template with the overlay.
func validateAllowed(overlay map[string]any, merged *corev1.PodTemplateSpec) error {
	if field := disallowedField(overlayTemplateFields, overlay); field != "" {
		return fmt.Errorf("podTemplateOverlay sets %s, which is not allowed; "+
			"remove it, and use the fields security and serviceAccountName", field[1:])
	}
	if class := merged.Spec.PriorityClassName; strings.HasPrefix(class, "system-") {
		return fmt.Errorf("podTemplateOverlay sets spec.priorityClassName to %s, which is reserved for pods of the cluster; "+
			"use another PriorityClass", class)
	}
	return nil
}

// disallowedField returns the path of the first field that is not allowed, in a stable order. A nil list allows all
// fields at this level.
func disallowedField(allowed []string, value any) string {
	switch v := value.(type) {
	case []any:
		for i, item := range v {
			if below := disallowedField(allowed, item); below != "" {
				return fmt.Sprintf("[%d]%s", i, below)
			}
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			directive := strings.HasPrefix(k, "$") // of a strategic merge patch
			if allowed != nil && !directive && !slices.Contains(allowed, k) {
				return "." + k
			}
			fields := overlayFields[k]
			if k == "spec" && !slices.Contains(allowed, k) { // of a claim template
				fields = nil
			}
			if below := disallowedField(fields, v[k]); below != "" {
				return "." + k + below
			}
		}
	}
	return ""
}

// podSecurity evaluates the Pod Security Standards.
var podSecurity = sync.OnceValues(func() (policy.Evaluator, error) { return policy.NewEvaluator(policy.DefaultChecks(), nil) })

// validatePodSecurity rejects a pod template that does not comply with its security level.
func validatePodSecurity(template *corev1ac.PodTemplateSpecApplyConfiguration, level appsapi.SecurityLevel) error {
	evaluator, err := podSecurity()
	pod, podErr := toApplyConfig[corev1.PodTemplateSpec](template)
	if err = errors.Join(err, podErr); err != nil {
		return err
	}
	standard := psaapi.LevelVersion{Level: psaapi.LevelBaseline, Version: psaapi.LatestVersion()}
	if level == appsapi.SecurityRestricted {
		standard.Level = psaapi.LevelRestricted
	}
	result := policy.AggregateCheckResults(evaluator.EvaluatePod(standard, &pod.ObjectMeta, &pod.Spec))
	if result.Allowed {
		return nil
	}
	return fmt.Errorf("podTemplateOverlay does not comply with security level %s: %s; correct the overlay",
		cmp.Or(level, appsapi.SecurityBaseline), result.ForbiddenDetail())
}

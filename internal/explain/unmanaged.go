package explain

import (
	"regexp"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// kubernetesTerms maps fields of an application spec to the terms of Kubernetes.
var kubernetesTerms = strings.NewReplacer(
	"spec.probes.readiness", "readinessProbe",
	"spec.probes.liveness", "livenessProbe",
	"spec.probes.startup", "startupProbe",
	"spec.scheduling.spread", "topologySpreadConstraints",
	"spec.scheduling.tolerations", "tolerations",
	"spec.scheduling of", "nodeSelector and affinity of",
	"a spec.disruption.budget of the application", "a PodDisruptionBudget",
	"Set spec.security.level of the application to Restricted and fix the listed violations",
	"Fix the listed violations in the securityContext of the application",
	"spec.podTemplateOverlay", "lifecycle",
	"correct spec.expose of the application", "correct the Ingress",
	"Correct spec.expose of the application", "Correct the HTTPRoute",
	"Correct className in the storage of the component", "Create a claim with another storageClassName",
	"in the storage of the component", "in the claim",
)

var (
	// specFieldPattern matches the remaining fields, which have the same name in pods.
	specFieldPattern   = regexp.MustCompile(`\bspec\.([a-z])`)
	applicationPattern = regexp.MustCompile(`\b(of|[Cc]hange|[Cc]orrect) the application\b`)
)

// unmanagedFix rewrites a fix for an object that Holdfast does not manage: the fields are in the
// workload instead of an application.
func (s *Snapshot) unmanagedFix(fix string) string {
	if !strings.Contains(fix, "spec.") && !strings.Contains(fix, "the application") && !strings.Contains(fix, " component") {
		return fix
	}
	fix = specFieldPattern.ReplaceAllString(kubernetesTerms.Replace(fix), "$1")
	if o, ok := workloadRef(s.Workload); ok {
		fix = applicationPattern.ReplaceAllString(fix, "$1 "+strings.ReplaceAll(o.String(), "$", "$$"))
	}
	return fix
}

// workloadRef returns a reference to a workload, whose kind can be unset.
func workloadRef(workload any) (ObjectRef, bool) {
	kind := ""
	switch workload.(type) {
	case *appsv1.Deployment:
		kind = "Deployment"
	case *appsv1.StatefulSet:
		kind = "StatefulSet"
	case *appsv1.DaemonSet:
		kind = "DaemonSet"
	case *appsv1.ReplicaSet:
		kind = "ReplicaSet"
	case *batchv1.Job:
		kind = "Job"
	case *batchv1.CronJob:
		kind = "CronJob"
	case *corev1.Pod:
		kind = "Pod"
	default:
		return ObjectRef{}, false
	}
	return newObjectRef(kind, workload.(metav1.Object)), true
}

package explain

import (
	"regexp"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// kubernetesTerms are the words of our spec that Kubernetes has others for.
var kubernetesTerms = strings.NewReplacer(
	"spec.probes.readiness", "readinessProbe",
	"spec.probes.liveness", "livenessProbe",
	"spec.probes.startup", "startupProbe",
	"spec.scheduling.spread", "topologySpreadConstraints",
	"spec.scheduling.tolerations", "tolerations",
	"spec.scheduling of", "nodeSelector and affinity of",
	"a spec.disruption.budget of the application", "a PodDisruptionBudget",
	"Set spec.security.level of the application to Restricted and correct what else is named", "Correct what is named in the securityContext of the application",
	"spec.podTemplateOverlay", "lifecycle",
	"correct spec.expose of the application", "correct the Ingress",
	"Correct spec.expose of the application", "Correct the HTTPRoute",
	"in the storage of a new component", "in a new claim",
	"in the storage of the component", "in the claim",
)

var (
	// specFieldPattern is what is left of our spec: the fields that pods have by the same name.
	specFieldPattern   = regexp.MustCompile(`\bspec\.([a-z])`)
	applicationPattern = regexp.MustCompile(`\b(of|[Cc]hange|[Cc]orrect) the application\b`)
)

// unmanagedFix says what to do where no application of ours is: the workload itself has what
// would be in its spec.
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

// workloadRef names a workload, which does not need to carry its kind.
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

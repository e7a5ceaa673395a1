// Package web defines the children of an AppService for all peers, and when they are ready.
package web

import (
	"maps"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Labels returns the labels of a child: the recommended labels and the owner. The driver counts children by the owner.
func Labels(app *appsapi.AppService) map[string]string {
	return map[string]string{
		appsapi.LabelName: "service", appsapi.LabelInstance: app.Name, appsapi.LabelComponent: app.Name, appsapi.LabelPartOf: app.Name,
		appsapi.LabelManagedBy: managedBy, appsapi.DefaultKeys.OwnerKind: "AppService", appsapi.DefaultKeys.OwnerUID: string(app.UID),
	}
}

// managedBy is equal for all peers, so that the children are equal.
const managedBy = "holdfast"

// Selector returns the selector of the pods.
func Selector(app *appsapi.AppService) map[string]string {
	return map[string]string{appsapi.LabelManagedBy: managedBy, appsapi.DefaultKeys.Workload: "deployment-" + app.Name}
}

func objectMeta(app *appsapi.AppService, extraLabels map[string]string) metav1.ObjectMeta {
	labels := Labels(app)
	maps.Copy(labels, extraLabels)
	return metav1.ObjectMeta{
		Namespace: app.Namespace, Name: app.Name, Labels: labels,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(app, appsapi.GroupVersion.WithKind("AppService"))},
	}
}

// Deployment returns the same Deployment as Holdfast creates for an image with a port: with probe, preStop sleep,
// restricted security context and topology spread. The driver verifies that it is equal.
func Deployment(app *appsapi.AppService) *appsv1.Deployment {
	labels := Selector(app)
	labels[appsapi.LabelInstance] = app.Name
	none, one := intstr.FromInt32(0), intstr.FromInt32(1)
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment"},
		ObjectMeta: objectMeta(app, map[string]string{appsapi.LabelVersion: imageTag(app.Spec.Image), appsapi.DefaultKeys.Workload: "deployment-" + app.Name}),
		Spec: appsv1.DeploymentSpec{
			Replicas:                app.Spec.Replicas,
			ProgressDeadlineSeconds: new(int32(600)),
			Selector:                &metav1.LabelSelector{MatchLabels: Selector(app)},
			Strategy: appsv1.DeploymentStrategy{
				Type:          appsv1.RollingUpdateDeploymentStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDeployment{MaxUnavailable: &none, MaxSurge: &one},
			},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					Containers:                   []corev1.Container{container(app)},
					AutomountServiceAccountToken: new(false),
					EnableServiceLinks:           new(false),
					SecurityContext:              &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
					TopologySpreadConstraints:    []corev1.TopologySpreadConstraint{topologySpread(app, corev1.LabelHostname), topologySpread(app, corev1.LabelTopologyZone)},
				},
			},
		},
	}
}

func container(app *appsapi.AppService) corev1.Container {
	out := corev1.Container{
		Name: "app", Image: app.Spec.Image, Ports: ContainerPorts(app),
		Lifecycle:                &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 5}}},
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		SecurityContext:          &corev1.SecurityContext{AllowPrivilegeEscalation: new(false)},
	}
	if len(app.Spec.Ports) > 0 {
		port := intstr.FromInt32(targetPort(app.Spec.Ports[0]))
		out.ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: port}}}
	}
	return out
}

func topologySpread(app *appsapi.AppService, topologyKey string) corev1.TopologySpreadConstraint {
	return corev1.TopologySpreadConstraint{
		MaxSkew: 1, TopologyKey: topologyKey, WhenUnsatisfiable: corev1.ScheduleAnyway,
		LabelSelector: &metav1.LabelSelector{MatchLabels: Selector(app)}, MatchLabelKeys: []string{appsv1.DefaultDeploymentUniqueLabelKey},
	}
}

// imageTag returns the tag of an image.
func imageTag(image string) string { return image[strings.LastIndex(image, ":")+1:] }

// ContainerPorts returns the ports of the container with the API server's defaults.
func ContainerPorts(app *appsapi.AppService) []corev1.ContainerPort {
	var out []corev1.ContainerPort
	for _, p := range app.Spec.Ports {
		out = append(out, corev1.ContainerPort{Name: p.Name, ContainerPort: targetPort(p), Protocol: protocol(p)})
	}
	return out
}

// Service returns the Service of the pods. An AppService without ports has none: see [HasService].
func Service(app *appsapi.AppService) *corev1.Service {
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: corev1.SchemeGroupVersion.String(), Kind: "Service"},
		ObjectMeta: objectMeta(app, nil),
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, Selector: Selector(app), Ports: ServicePorts(app)},
	}
}

// HasService reports whether the AppService has ports.
func HasService(app *appsapi.AppService) bool { return len(app.Spec.Ports) > 0 }

// ServicePorts returns the ports of the Service with the API server's defaults.
func ServicePorts(app *appsapi.AppService) []corev1.ServicePort {
	var out []corev1.ServicePort
	for _, p := range app.Spec.Ports {
		out = append(out, corev1.ServicePort{Name: p.Name, Port: p.Port, TargetPort: intstr.FromInt32(targetPort(p)), Protocol: protocol(p)})
	}
	return out
}

func targetPort(p appsapi.Port) int32 {
	if p.TargetPort != 0 {
		return p.TargetPort
	}
	return p.Port
}

func protocol(p appsapi.Port) corev1.Protocol {
	if p.Protocol != "" {
		return p.Protocol
	}
	return corev1.ProtocolTCP
}

// Available reports whether the current Deployment was observed by its controller and enough pods are available.
func Available(d *appsv1.Deployment) bool {
	want := int32(1)
	if d.Spec.Replicas != nil {
		want = *d.Spec.Replicas
	}
	return d.Status.ObservedGeneration >= d.Generation && d.Status.AvailableReplicas >= want
}

// SetReadyStatus sets the Ready condition of app.
func SetReadyStatus(app *appsapi.AppService, ready bool, replicas, available int32) {
	condition := metav1.Condition{
		Type: appsapi.ConditionReady, Status: metav1.ConditionFalse, ObservedGeneration: app.Generation,
		Reason: appsapi.ReasonProgressing, Message: "Waiting for the Deployment",
	}
	if ready {
		condition.Status, condition.Reason, condition.Message = metav1.ConditionTrue, appsapi.ReasonReconciled, "Everything runs as declared"
	}
	meta.SetStatusCondition(&app.Status.Conditions, condition)
	app.Status.ObservedGeneration = app.Generation
	app.Status.Replicas, app.Status.AvailableReplicas = replicas, available
}

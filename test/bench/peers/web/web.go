// Package web says what the peers make of an AppService, and when that works.
package web

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Labels are those of a child. The driver counts children by the second.
func Labels(app *appsapi.AppService) map[string]string {
	return map[string]string{appsapi.LabelInstance: app.Name, appsapi.LabelOwnerUID: string(app.UID)}
}

// Selector finds the pods.
func Selector(app *appsapi.AppService) map[string]string {
	return map[string]string{appsapi.LabelInstance: app.Name}
}

func object(app *appsapi.AppService) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: app.Namespace, Name: app.Name, Labels: Labels(app),
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(app, appsapi.GroupVersion.WithKind("AppService"))},
	}
}

// Deployment runs the image.
func Deployment(app *appsapi.AppService) *appsv1.Deployment {
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment"},
		ObjectMeta: object(app),
		Spec: appsv1.DeploymentSpec{
			Replicas: app.Spec.Replicas,
			Selector: &metav1.LabelSelector{MatchLabels: Selector(app)},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: Selector(app)},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: app.Spec.Image, Ports: ContainerPorts(app)}}},
			},
		},
	}
}

// ContainerPorts are the ports of the container, with what the API server would fill in.
func ContainerPorts(app *appsapi.AppService) []corev1.ContainerPort {
	var out []corev1.ContainerPort
	for _, p := range app.Spec.Ports {
		out = append(out, corev1.ContainerPort{Name: p.Name, ContainerPort: target(p), Protocol: protocol(p)})
	}
	return out
}

// Service leads to the pods. An AppService without ports has none: see [HasService].
func Service(app *appsapi.AppService) *corev1.Service {
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: corev1.SchemeGroupVersion.String(), Kind: "Service"},
		ObjectMeta: object(app),
		Spec:       corev1.ServiceSpec{Selector: Selector(app), Ports: ServicePorts(app)},
	}
}

// HasService says whether there is anything to lead to.
func HasService(app *appsapi.AppService) bool { return len(app.Spec.Ports) > 0 }

// ServicePorts are the ports of the Service, with what the API server would fill in.
func ServicePorts(app *appsapi.AppService) []corev1.ServicePort {
	var out []corev1.ServicePort
	for _, p := range app.Spec.Ports {
		out = append(out, corev1.ServicePort{Name: p.Name, Port: p.Port, TargetPort: intstr.FromInt32(target(p)), Protocol: protocol(p)})
	}
	return out
}

func target(p appsapi.Port) int32 {
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

// Available says whether the controller-manager has seen the Deployment as it is now and
// enough pods serve.
func Available(d *appsv1.Deployment) bool {
	want := int32(1)
	if d.Spec.Replicas != nil {
		want = *d.Spec.Replicas
	}
	return d.Status.ObservedGeneration >= d.Generation && d.Status.AvailableReplicas >= want
}

// Report writes into the status of app whether it is ready.
func Report(app *appsapi.AppService, ready bool, replicas, available int32) {
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

package verbs_test

import (
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func (w *world) podTemplate(name, image string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: image}}}}
}

func (w *world) deployment(name, image string) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: w.meta(name), Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}, Template: w.podTemplate(name, image)}}
}

func (w *world) service(name string) *corev1.Service {
	return &corev1.Service{ObjectMeta: w.meta(name), Spec: corev1.ServiceSpec{
		Selector: map[string]string{"app": name}, Ports: []corev1.ServicePort{{Port: 80}}}}
}

func TestWhyExplainsObjectsOfOtherControllers(t *testing.T) {
	w := newStory(t)
	job := w.podTemplate("once", "other/once:done")
	job.Spec.RestartPolicy = corev1.RestartPolicyNever
	set := &appsv1.StatefulSet{ObjectMeta: w.meta("set"), Spec: appsv1.StatefulSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "set"}}, Template: w.podTemplate("set", "other/set:1")}}
	for _, obj := range []client.Object{
		w.deployment("dns", "other/dns:1"), w.service("dns"), set,
		&batchv1.Job{ObjectMeta: w.meta("once"), Spec: batchv1.JobSpec{Template: job}},
		&batchv1.CronJob{ObjectMeta: w.meta("nightly"), Spec: batchv1.CronJobSpec{Schedule: "0 0 1 1 *", JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: job}}}},
		w.deployment("broken", "other/broken:missing"), w.service("broken"), w.service("nothing"),
	} {
		w.Expect(w.Create(w.Context(), obj)).To(Succeed())
	}
	replicaSet := func(name string) string {
		var list appsv1.ReplicaSetList
		w.Expect(w.List(w.Context(), &list, client.InNamespace(w.NS), client.MatchingLabels{"app": name})).To(Succeed())
		w.Expect(list.Items).NotTo(BeEmpty())
		return list.Items[0].Name
	}
	w.Eventually(func() int { return w.run("why", "deployment/dns").code }, "60s", "100ms").Should(Equal(0))
	for _, object := range []string{"deploy/dns", "replicaset/" + replicaSet("dns"), "service/dns", "statefulset/set", "job/once", "cronjob/nightly", "node/" + w.nodeName(), "namespace/" + w.NS} {
		w.Eventually(func() string { return w.run("why", object).out }, "60s", "100ms").Should(MatchRegexp(`^\w+ \S+  READY\n$`), object)
		w.Expect(w.run("why", object).code).To(Equal(0), object)
	}

	const cause = `Image "other/broken:missing" does not exist in its registry`
	for _, object := range []string{"deployment/broken", "replicaset/" + replicaSet("broken"), "service/broken"} {
		w.Eventually(func() string { return w.run("why", object).out }, "60s", "100ms").Should(And(ContainSubstring("NOT READY"), ContainSubstring(cause)), object)
		w.Expect(w.run("why", object).code).To(Equal(2), object)
	}
	a := w.run("why", "service/nothing")
	w.Expect(a.code).To(Equal(2), a.out)
	w.Expect(a.out).To(ContainSubstring("Service nothing selects app=nothing, but no pod has these labels"))
	w.Expect(w.Delete(w.Context(), &appsv1.Deployment{ObjectMeta: w.meta("broken")})).To(Succeed())
}

// nodeName returns the name of a node.
func (w *world) nodeName() string {
	w.Helper()
	var nodes corev1.NodeList
	w.Expect(w.List(w.Context(), &nodes)).To(Succeed())
	w.Expect(nodes.Items).NotTo(BeEmpty())
	return nodes.Items[0].Name
}

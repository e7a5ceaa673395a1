package appservice_test

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// foreignDeployment is an existing Deployment with fields that conflict with those of Holdfast.
const foreignDeployment = `
metadata:
  labels: {team: red}
  annotations: {example.com/note: mine}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  strategy: {type: Recreate}
  template:
    metadata: {labels: {app: web, team: red}, annotations: {example.com/note: mine}}
    spec:
      containers:
      - name: nginx
        image: nginx:1.20
        env:
        - {name: THEIRS, value: "1"}
        - {name: MODE, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
        readinessProbe: {httpGet: {path: /theirs, port: 8080}}
        lifecycle: {preStop: {exec: {command: [sleep, "5"]}}}
        volumeMounts: [{name: cache, mountPath: /cache}]
      volumes: [{name: cache, emptyDir: {}}]`

const foreignService = `
metadata: {labels: {team: red}}
spec: {selector: {app: web}, ports: [{name: web, port: 80, targetPort: 8080}]}`

// adoptingSpec is a spec with which an AppService replaces them.
const adoptingSpec = `
image: shop/web:1
env: [{name: MODE, value: prod}]
ports: [{name: http, port: 80, targetPort: 8080}]`

func TestAdoptionAfterConflict(t *testing.T) {
	w := newStory(t)
	d := createForeign(w, w.decodeDeployment(foreignDeployment))
	w.waitStable(d)
	w.create(adoptingSpec)
	w.Eventually(w.condition("Ready"), "60s").Should(HavePrefix("False/NameConflict: Deployment"))
	edit(w, d, allowAdoption)
	w.Eventually(w.condition("Ready"), "60s", "100ms").Should(HavePrefix("True/Reconciled"))
	w.Expect(w.deployment().UID).To(Equal(d.UID))
	w.expectSteadyState()
}

func TestAdoptionWithReplicas(t *testing.T) {
	w := newStory(t)
	createForeign(w, w.decodeDeployment(foreignDeployment), allowAdoption)
	w.create(adoptingSpec + "\nreplicas: 3")
	w.waitReady()
	w.Expect(w.deployment().Status.ReadyReplicas).To(BeEquivalentTo(3))
	w.expectSteadyState()
}

func TestAdoptionIsRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range adoptionConflicts {
		t.Run(name, func(t *testing.T) {
			w := newStory(t)
			object := tc.theirs(w)
			w.create(adoptingSpec + tc.spec)
			w.Eventually(w.condition("Ready"), "60s").Should(Equal("False/NameConflict: " + fmt.Sprintf(tc.want, w.NS)))
			w.Eventually(w.events, "60s").Should(ContainElement("NameConflict"))
			w.Expect(w.Get(w.Context(), client.ObjectKeyFromObject(object), object)).To(Succeed())
			for _, m := range object.GetManagedFields() {
				w.Expect(m.Manager).NotTo(Equal("holdfast"), "a rejected object was written")
			}
		})
	}
}

// adoptionConflicts are objects with the adopt annotation that cannot be adopted.
var adoptionConflicts = map[string]struct {
	theirs func(*world) client.Object
	spec   string
	want   string
}{
	"several containers": {
		theirs: func(w *world) client.Object {
			d := w.decodeDeployment(foreignDeployment)
			d.Spec.Template.Spec.Containers = append(d.Spec.Template.Spec.Containers, corev1.Container{Name: "sidecar", Image: "theirs/sidecar:1"})
			return createForeign(w, d, allowAdoption)
		},
		want: `Deployment %s/web cannot be adopted: it has the containers [nginx sidecar] but none is named "app", so the main container is ambiguous; rename the main container to "app"`,
	},
	"another controller": {
		theirs: func(w *world) client.Object {
			d := w.decodeDeployment(foreignDeployment)
			setConfigMapOwner(w, d)
			return createForeign(w, d, allowAdoption)
		},
		want: `Deployment %s/web is controlled by ConfigMap "theirs"; rename that object or AppService "web"`,
	},
	"a selector on a Holdfast label": {
		theirs: func(w *world) client.Object {
			d := w.decodeDeployment(foreignDeployment)
			labels := map[string]string{"app.kubernetes.io/instance": "release"}
			d.Spec.Selector.MatchLabels, d.Spec.Template.Labels = labels, labels
			return createForeign(w, d, allowAdoption)
		},
		want: `Deployment %s/web cannot be adopted: its selector "app.kubernetes.io/instance=release" does not match the labels that Holdfast sets on its pods ` +
			`(app.kubernetes.io/instance=web,app.kubernetes.io/managed-by=holdfast,apps.holdfast.dev/workload=deployment-web), and a selector is immutable; ` +
			`delete Deployment web to have it recreated`,
	},
	"a Service with an unnamed port": {
		theirs: func(w *world) client.Object {
			s := w.decodeService(foreignService)
			s.Spec.Ports = []corev1.ServicePort{{Port: 8080}}
			return createForeign(w, s, allowAdoption)
		},
		want: "Service %s/web cannot be adopted: its port 8080 and port 80 of the spec must have different names; " +
			"name both ports, remove port 8080 from the Service, or add it to the spec",
	},
	"a headless Service": {
		theirs: func(w *world) client.Object {
			s := w.decodeService(foreignService)
			s.Spec.ClusterIP = "None"
			return createForeign(w, s, allowAdoption)
		},
		want: "Service %s/web cannot be adopted: its spec.clusterIP cannot change between None and an address; delete the Service to have it recreated, or change service.type in the spec",
	},
	"a Service with a cluster IP": {
		theirs: func(w *world) client.Object { return createForeign(w, w.decodeService(foreignService), allowAdoption) },
		spec:   "\nservice: {type: Headless}",
		want:   "Service %s/web cannot be adopted: its spec.clusterIP cannot change between None and an address; delete the Service to have it recreated, or change service.type in the spec",
	},
}

// allowAdoption sets the adopt annotation.
func allowAdoption[T client.Object](obj T) {
	annotations := obj.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations["apps.holdfast.dev/adopt"] = "true"
	obj.SetAnnotations(annotations)
}

// disallowAdoption removes the adopt annotation.
func disallowAdoption[T client.Object](obj T) {
	delete(obj.GetAnnotations(), "apps.holdfast.dev/adopt")
}

func (w *world) decodeDeployment(text string) *appsv1.Deployment {
	d := &appsv1.Deployment{}
	w.decode(text, d)
	d.Namespace, d.Name = w.NS, w.name
	return d
}

func (w *world) decodeService(text string) *corev1.Service {
	s := &corev1.Service{}
	w.decode(text, s)
	s.Namespace, s.Name = w.NS, w.name
	return s
}

// createForeign creates an object that Holdfast does not own.
func createForeign[T client.Object](w *world, obj T, changes ...func(T)) T {
	w.Helper()
	for _, change := range changes {
		change(obj)
	}
	w.Expect(w.Create(w.Context(), obj, client.FieldOwner("kubectl-create"))).To(Succeed())
	return obj
}

// TestAdoptionKeepsDeploymentAndService adopts running objects: the objects stay the same, there is one rolling update,
// and the Service always has endpoints.
func TestAdoptionKeepsDeploymentAndService(t *testing.T) {
	w := newStory(t)
	deployment, service := createForeign(w, w.decodeDeployment(foreignDeployment), allowAdoption), createForeign(w, w.decodeService(foreignService), allowAdoption)
	w.waitStable(deployment)
	w.create(adoptingSpec)
	w.waitReady()
	w.WaitIdle(w.name)

	d, s := w.deployment(), w.service()
	w.Expect(d.UID).To(Equal(deployment.UID))
	w.Expect(d.Generation).To(Equal(deployment.Generation+1), "the pods are replaced once")
	w.Expect(w.replicaSets()).To(HaveLen(2))
	w.Expect(*d.Spec.Replicas).To(BeEquivalentTo(2), "the replica count is kept")
	w.Expect(d.Spec.Selector.MatchLabels).To(Equal(map[string]string{"app": "web"}))
	w.Expect(d.Spec.Strategy.Type).To(Equal(appsv1.RollingUpdateDeploymentStrategyType))
	w.Expect(d.Labels).To(HaveKeyWithValue("team", "red"))
	w.Expect(d.Annotations).To(HaveKeyWithValue("example.com/note", "mine"))
	template := d.Spec.Template
	w.Expect(template.Labels).To(And(HaveKeyWithValue("app", "web"), HaveKeyWithValue("team", "red"), HaveKeyWithValue("apps.holdfast.dev/workload", "deployment-web")))
	w.Expect(template.Annotations).To(HaveKeyWithValue("example.com/note", "mine"))
	w.Expect(containerNames(d)).To(Equal([]string{"nginx"}))
	c := template.Spec.Containers[0]
	w.Expect(c.Image).To(Equal("shop/web:1"))
	w.Expect(c.Env).To(ConsistOf(corev1.EnvVar{Name: "THEIRS", Value: "1"}, corev1.EnvVar{Name: "MODE", Value: "prod"}))
	w.Expect(c.ReadinessProbe.HTTPGet).To(BeNil())
	w.Expect(c.Lifecycle.PreStop.Exec).To(BeNil())
	w.Expect(c.VolumeMounts).To(HaveLen(1))
	w.Expect(w.app().Status.Selector).To(Equal("app=web"))

	w.Expect(s.UID).To(Equal(service.UID))
	w.Expect(s.Spec.ClusterIP).To(Equal(service.Spec.ClusterIP))
	w.Expect(s.Spec.Selector).To(Equal(map[string]string{"app": "web"}))
	w.Expect(s.Labels).To(HaveKeyWithValue("team", "red"))
	w.Expect(w.events()).To(ConsistOf("ComponentAdopted", "FieldsTakenOver", "ComponentReady"))
	w.expectSteadyState()

	// The pods have the Holdfast labels now, so the annotation is no longer needed.
	edit(w, s, disallowAdoption)
	edit(w, d, disallowAdoption)
	w.Eventually(func() map[string]string { return w.service().Spec.Selector }, "60s").Should(Equal(
		map[string]string{"app.kubernetes.io/managed-by": "holdfast", "apps.holdfast.dev/workload": "deployment-web"}))
	w.expectSteadyState()
	w.Expect(w.deployment().Generation).To(Equal(d.Generation), "no pod is replaced")
	w.Expect(containerNames(w.deployment())).To(Equal([]string{"nginx"}))
}

func (w *world) replicaSets() []appsv1.ReplicaSet {
	w.Helper()
	var list appsv1.ReplicaSetList
	w.Expect(w.List(w.Context(), &list, client.InNamespace(w.NS))).To(Succeed())
	return list.Items
}

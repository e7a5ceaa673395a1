package store

import (
	"encoding/json"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

const canary = "s3cr3t-c4n4ry"

func podSpecWithSecrets() corev1.PodSpec {
	run := &corev1.ExecAction{Command: []string{"check", canary}}
	get := &corev1.HTTPGetAction{HTTPHeaders: []corev1.HTTPHeader{{Name: "Authorization", Value: canary}}}
	return corev1.PodSpec{Containers: []corev1.Container{{
		ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: run}}, LivenessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: get}},
		Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: run.DeepCopy()}, PostStart: &corev1.LifecycleHandler{HTTPGet: get.DeepCopy()}},
		Name:      "app", Image: "web:1", Command: []string{"run", "--password=" + canary}, Args: []string{canary},
		Env: []corev1.EnvVar{{Name: "PASSWORD", Value: canary}, {Name: "REF", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{Key: "k"}}}},
	}}}
}

// withEphemeralContainer returns a pod with an ephemeral container, which templates cannot have.
func withEphemeralContainer(s corev1.PodSpec) corev1.PodSpec {
	s.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Args: []string{canary}}}}
	return s
}

func withAnnotations() metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: "x", Annotations: map[string]string{
		"kubectl.kubernetes.io/last-applied-configuration": canary, "meta.helm.sh/release-name": "shop",
	}, ManagedFields: []metav1.ManagedFieldsEntry{
		{Manager: "kubectl", FieldsV1: metav1.NewFieldsV1(`{"f:` + canary + `":{}}`)}, {Manager: "kubelet", Subresource: "status"},
	}}
}

// TestProjectionDropsSecretValues checks that projections contain no values that may be secret.
func TestProjectionDropsSecretValues(t *testing.T) {
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"config": canary}}, Spec: podSpecWithSecrets()}
	cases := map[string]runtime.Object{
		"pod":         &corev1.Pod{ObjectMeta: withAnnotations(), Spec: withEphemeralContainer(podSpecWithSecrets())},
		"deployment":  &appsv1.Deployment{ObjectMeta: withAnnotations(), Spec: appsv1.DeploymentSpec{Template: *template.DeepCopy()}},
		"statefulset": &appsv1.StatefulSet{ObjectMeta: withAnnotations(), Spec: appsv1.StatefulSetSpec{Template: *template.DeepCopy()}},
		"daemonset":   &appsv1.DaemonSet{ObjectMeta: withAnnotations(), Spec: appsv1.DaemonSetSpec{Template: *template.DeepCopy()}},
		"replicaset":  &appsv1.ReplicaSet{ObjectMeta: withAnnotations(), Spec: appsv1.ReplicaSetSpec{Template: *template.DeepCopy()}},
		"job":         &batchv1.Job{ObjectMeta: withAnnotations(), Spec: batchv1.JobSpec{Template: *template.DeepCopy()}},
		"cronjob": &batchv1.CronJob{ObjectMeta: withAnnotations(), Spec: batchv1.CronJobSpec{JobTemplate: batchv1.JobTemplateSpec{
			Spec: batchv1.JobSpec{Template: *template.DeepCopy()}}}},
		"cloudmanager": &appsapi.CloudManager{ObjectMeta: withAnnotations(), Spec: appsapi.CloudManagerSpec{DB: appsapi.CloudManagerDatabase{RootPass: canary}}},
	}
	p := NewProjector(nil)
	for name, obj := range cases {
		t.Run(name, func(t *testing.T) {
			again := obj.DeepCopyObject()
			projected := p.Project(obj)
			text, err := json.Marshal(projected)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(text), canary) {
				t.Errorf("kept: %s", text)
			}
			if !strings.Contains(string(text), "meta.helm.sh/release-name") {
				t.Errorf("the application labels were dropped: %s", text)
			}
			if same, _ := json.Marshal(p.Project(again)); string(same) != string(text) {
				t.Error("the projection is not deterministic")
			}
		})
	}
}

func TestHashValueDetectsChanges(t *testing.T) {
	p, q := NewProjector(nil), NewProjector(nil)
	a, again, b := p.hashValue("a"), p.hashValue("a"), p.hashValue("b")
	if a == b || a != again {
		t.Error("hashes of different values are equal")
	}
	if p.hashValue("a") == q.hashValue("a") {
		t.Error("hashes do not depend on a key")
	}
}

func TestUnrelatedObjectsBecomeStubs(t *testing.T) {
	p := NewProjector(func(o metav1.Object) bool { return o.GetLabels()["member"] == "" })
	named := func(labels map[string]string) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", ResourceVersion: "7", Labels: labels}}
	}
	stub, ok := p.Project(named(nil)).(*Stub)
	if !ok || stub.Name != "a" || stub.ResourceVersion != "7" || stub.GroupVersionKind().Kind != "ConfigMap" {
		t.Errorf("kept %v", stub)
	}
	if _, ok := p.Project(named(map[string]string{"member": "yes"})).(*metav1.PartialObjectMetadata); !ok {
		t.Error("a member was dropped")
	}
	custom := func(labels map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "a/v1", "kind": "B", "metadata": map[string]any{"name": "x", "labels": labels},
			"spec": map[string]any{"big": "yes"}, "status": map[string]any{"phase": "Ready"}}}
	}
	if got := p.Project(custom(nil)).(*unstructured.Unstructured).Object; got["spec"] != nil || got["status"] == nil {
		t.Errorf("kept %v", got)
	}
	if got := p.Project(custom(map[string]any{"member": "yes"})).(*unstructured.Unstructured).Object; got["spec"] == nil {
		t.Errorf("kept %v", got)
	}
	s := New(func(runtime.Object) []Term { return []Term{{1, "x"}} }, nil)
	s.Set(stub)
	if e := s.Get(stub.GroupVersionKind().GroupKind(), "ns", "a"); e == nil || e.Object != nil || len(s.byUID) != 0 || len(s.postings) != 0 {
		t.Errorf("%v with %d UIDs and %d terms", e, len(s.byUID), len(s.postings))
	}
}

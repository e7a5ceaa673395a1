package inspect_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-dev/holdfast/internal/inspect"
)

// mustParse parses a part of an object.
func mustParse[T any](content string) (out T) {
	if err := yaml.UnmarshalStrict([]byte(content), &out); err != nil {
		panic(err)
	}
	return out
}

// allReferencesSpec is a pod spec with all types of references.
const allReferencesSpec = `
nodeName: n1
serviceAccountName: runner
imagePullSecrets: [{name: registry}]
initContainers:
- {name: first, image: "first:1", env: [{name: A, valueFrom: {configMapKeyRef: {name: c-env, key: k}}}]}
containers:
- name: main
  image: main:1
  env:
  - {name: A, value: plain}
  - {name: B, valueFrom: {secretKeyRef: {name: s-env, key: k, optional: true}}}
  - {name: C, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
  envFrom: [{configMapRef: {name: c-from}}, {secretRef: {name: s-from}}]
- {name: side, image: "main:1", envFrom: [{secretRef: {name: s-env}}]}
ephemeralContainers:
- {name: debug, image: "debug:1", envFrom: [{configMapRef: {name: c-debug}}]}
volumes:
- {name: a, configMap: {name: c-volume, optional: true}}
- {name: b, secret: {secretName: s-volume}}
- {name: c, persistentVolumeClaim: {claimName: claim}}
- {name: d, ephemeral: {volumeClaimTemplate: {spec: {}}}}
- {name: e, projected: {sources: [{configMap: {name: c-projected}}, {secret: {name: s-projected}}, {downwardAPI: {}}]}}
- {name: f, csi: {driver: d, nodePublishSecretRef: {name: s-csi}}}
- {name: g, azureFile: {secretName: s-azure, shareName: x}}
- {name: h, flexVolume: {driver: d, secretRef: {name: s-flex}}}
- {name: i, rbd: {monitors: [m], image: i, secretRef: {name: s-rbd}}}
- {name: j, cephfs: {monitors: [m], secretRef: {name: s-ceph}}}
- {name: k, iscsi: {targetPortal: p, iqn: q, lun: 0, secretRef: {name: s-iscsi}}}
- {name: l, scaleIO: {gateway: g, system: s, secretRef: {name: s-scale}}}
- {name: m, storageos: {secretRef: {name: s-storageos}}}
- {name: n, cinder: {volumeID: v, secretRef: {name: s-cinder}}}
- {name: o, emptyDir: {}}
- {name: p, image: {reference: "files:1"}}
`

// templateRefs returns the references of a template with allReferencesSpec.
func templateRefs() []inspect.Ref {
	return []inspect.Ref{
		{Kind: "ConfigMap", Name: "c-debug"}, {Kind: "ConfigMap", Name: "c-env"}, {Kind: "ConfigMap", Name: "c-from"}, {Kind: "ConfigMap", Name: "c-projected"},
		{Kind: "ConfigMap", Name: "c-volume", Optional: true},
		{Kind: "Node", Name: "n1"}, {Kind: "PersistentVolumeClaim", Name: "claim"},
		{Kind: "Secret", Name: "registry", Optional: true}, {Kind: "Secret", Name: "s-azure"}, {Kind: "Secret", Name: "s-ceph"}, {Kind: "Secret", Name: "s-cinder"},
		{Kind: "Secret", Name: "s-csi"}, {Kind: "Secret", Name: "s-env"}, {Kind: "Secret", Name: "s-flex"}, {Kind: "Secret", Name: "s-from"}, {Kind: "Secret", Name: "s-iscsi"},
		{Kind: "Secret", Name: "s-projected"}, {Kind: "Secret", Name: "s-rbd"}, {Kind: "Secret", Name: "s-scale"}, {Kind: "Secret", Name: "s-storageos"},
		{Kind: "Secret", Name: "s-volume"}, {Kind: "ServiceAccount", Name: "runner"},
	}
}

// podRefs returns the references of a pod with allReferencesSpec: its name determines one more claim.
func podRefs() []inspect.Ref {
	return append(templateRefs()[:7:7], append([]inspect.Ref{{Kind: "PersistentVolumeClaim", Name: "web-1-d"}}, templateRefs()[7:]...)...)
}

func podTemplate() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{Spec: mustParse[corev1.PodSpec](allReferencesSpec)}
}

// customResourceWithSpec returns a custom resource with a spec.
func customResourceWithSpec(kind, spec string) *unstruct {
	u := customResource(kind, "x", nil)
	u.Object["spec"] = mustParse[map[string]any](spec)
	return u
}

func TestReferences(t *testing.T) {
	rollout := customResourceWithSpec("Rollout", "{}")
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(new(podTemplate()))
	if err != nil {
		t.Fatal(err)
	}
	rollout.Object["spec"] = map[string]any{"template": content}
	cases := map[string]struct {
		obj  runtime.Object
		want []inspect.Ref
	}{
		"a pod": {&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-1"}, Spec: mustParse[corev1.PodSpec](allReferencesSpec)},
			podRefs()},
		"a Deployment":  {&appsv1.Deployment{Spec: appsv1.DeploymentSpec{Template: podTemplate()}}, templateRefs()},
		"a StatefulSet": {&appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Template: podTemplate()}}, templateRefs()},
		"a DaemonSet":   {&appsv1.DaemonSet{Spec: appsv1.DaemonSetSpec{Template: podTemplate()}}, templateRefs()},
		"a ReplicaSet":  {&appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Template: podTemplate()}}, templateRefs()},
		"a ReplicationController": {&corev1.ReplicationController{Spec: corev1.ReplicationControllerSpec{Template: new(podTemplate())}},
			templateRefs()},
		"a Job":                  {&batchv1.Job{Spec: batchv1.JobSpec{Template: podTemplate()}}, templateRefs()},
		"a CronJob":              {&batchv1.CronJob{Spec: batchv1.CronJobSpec{JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: podTemplate()}}}}, templateRefs()},
		"a kind with a template": {rollout, templateRefs()},
		"ReplicationController without a template": {&corev1.ReplicationController{}, nil},
		"template without a pod spec":              {customResourceWithSpec("Certificate", "{template: {metadata: {}}}"), nil},
		"invalid pod template":                     {customResourceWithSpec("Certificate", "{template: {spec: {containers: nothing}}}"), nil},
		"template of type string":                  {customResourceWithSpec("Report", "{template: monthly}"), nil},
		"spec of type string":                      {&unstruct{Object: map[string]any{"spec": "x"}}, nil},
		"an Ingress": {&networkingv1.Ingress{Spec: mustParse[networkingv1.IngressSpec](`{ingressClassName: nginx, defaultBackend: {service: {name: front}}, tls: [{secretName: cert}, {}],
rules: [{host: a}, {http: {paths: [{backend: {service: {name: back}}}, {backend: {service: {name: back}}}, {backend: {resource: {kind: Bucket, name: b}}}]}}]}`)},
			[]inspect.Ref{{Kind: "IngressClass", Name: "nginx"}, {Kind: "Secret", Name: "cert"}, {Kind: "Service", Name: "back"}, {Kind: "Service", Name: "front"}}},
		"an autoscaler": {&autoscalingv2.HorizontalPodAutoscaler{Spec: autoscalingv2.HorizontalPodAutoscalerSpec{ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{Kind: "Deployment", Name: "web"}}},
			[]inspect.Ref{{Kind: "Deployment", Name: "web"}}},
		"a claim": {&corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pv", StorageClassName: new("fast")}},
			[]inspect.Ref{{Kind: "PersistentVolume", Name: "pv"}, {Kind: "StorageClass", Name: "fast"}}},
		"a claim without a volume": {&corev1.PersistentVolumeClaim{}, nil},
		"a route": {customResourceWithSpec("HTTPRoute", "{rules: [{backendRefs: [{name: web, port: 80}, {name: api, kind: Service, namespace: demo}, {name: b, kind: Bucket}, {name: far, namespace: other}, word]}, word, {}]}"),
			[]inspect.Ref{{Kind: "Service", Name: "api"}, {Kind: "Service", Name: "web"}}},
		"a ConfigMap": {&corev1.ConfigMap{}, nil},
		"nil":         {nil, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, inspect.References(tc.obj)); diff != "" {
				t.Errorf("references (-want +got):\n%s", diff)
			}
		})
	}
}

func TestImages(t *testing.T) {
	want := []string{"debug:1", "files:1", "first:1", "main:1"}
	if diff := cmp.Diff(want, inspect.Images(&appsv1.Deployment{Spec: appsv1.DeploymentSpec{Template: podTemplate()}})); diff != "" {
		t.Errorf("images (-want +got):\n%s", diff)
	}
	if got := inspect.Images(&corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{}}}}); len(got) > 0 {
		t.Errorf("a container without an image has %q", got)
	}
	if got := inspect.Images(&corev1.Service{}); got != nil {
		t.Errorf("a Service has %q", got)
	}
}

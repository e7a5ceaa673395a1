package fieldmanager

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clientac "k8s.io/client-go/applyconfigurations"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

const benchDeployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: app
        image: app:1
        env: [{name: A, value: b}, {name: B, value: c}, {name: C, value: d}]
        ports: [{name: http, containerPort: 8080, protocol: TCP}]
        resources: {requests: {cpu: 10m, memory: 10Mi}}
        volumeMounts: [{name: cache, mountPath: /cache}]
        readinessProbe: {httpGet: {path: /, port: 8080}}
      volumes: [{name: cache, emptyDir: {}}]
`

func benchObjects(b *testing.B) (declared map[string]any, live *appsv1.Deployment) {
	b.Helper()
	live = &appsv1.Deployment{}
	if err := yaml.Unmarshal([]byte(benchDeployment), &declared); err != nil {
		b.Fatal(err)
	}
	if err := yaml.Unmarshal([]byte(benchDeployment), live); err != nil {
		b.Fatal(err)
	}
	return declared, live
}

func BenchmarkCompare(b *testing.B) {
	declared, live := benchObjects(b)
	want := map[string]any{"spec": declared["spec"]}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Compare(want, live); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkTypedCompare compares with the schema of client-go, see docs/adr/0019-libraries.md.
func BenchmarkTypedCompare(b *testing.B) {
	declared, live := benchObjects(b)
	converter := clientac.NewTypeConverter(clientgoscheme.Scheme)
	want, err := converter.ObjectToTyped(&unstructured.Unstructured{Object: declared})
	if err != nil {
		b.Fatal(err)
	}
	fields, err := want.ToFieldSet()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		typed, err := converter.ObjectToTyped(&appsv1.Deployment{TypeMeta: live.TypeMeta, Spec: live.Spec})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := want.Compare(typed.ExtractItems(fields)); err != nil {
			b.Fatal(err)
		}
	}
}

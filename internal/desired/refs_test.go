package desired_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
)

// A reference without a name cannot be read. It must not prevent the operator from reporting the field that the API
// server rejects.
func TestRefsWithoutNameAreIgnored(t *testing.T) {
	s := &appsapi.ServiceComponent{}
	s.Env = []corev1.EnvVar{
		{Name: "A", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{Key: "a"}}},
		{Name: "B", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{Key: "b"}}},
	}
	s.EnvFrom = []corev1.EnvFromSource{
		{ConfigMapRef: &corev1.ConfigMapEnvSource{}},
		{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "web"}}},
	}
	want := []desired.Ref{{Kind: "Secret", Name: "web"}}
	if diff := cmp.Diff(want, desired.Refs(desired.ExpandedComponent{Component: appsapi.Component{Name: "web", Service: s}})); diff != "" {
		t.Errorf("refs (-want +got):\n%s", diff)
	}
}

func TestChangedRefs(t *testing.T) {
	workload := func(refs string) *metav1.ObjectMeta {
		return &metav1.ObjectMeta{Annotations: map[string]string{appsapi.DefaultKeys.ConfigRefs: refs}}
	}
	before := workload(`[{"kind":"ConfigMap","name":"same","hash":"1"},{"kind":"ConfigMap","name":"removed","hash":"1"},{"kind":"Secret","name":"env","keys":"a","hash":"1"}]`)
	after := workload(`[{"kind":"ConfigMap","name":"same","hash":"1","resourceVersion":"2"},{"kind":"Secret","name":"env","keys":"a","hash":"2"},{"kind":"Secret","name":"created","hash":"1"}]`)
	want := []desired.Ref{{Kind: "Secret", Name: "created"}, {Kind: "Secret", Name: "env", Keys: "a"}}
	if diff := cmp.Diff(want, desired.ChangedRefs(appsapi.DefaultKeys, before, after)); diff != "" {
		t.Errorf("refs (-want +got):\n%s", diff)
	}
}

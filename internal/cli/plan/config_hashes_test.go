package plan

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/appkind"
	"github.com/holdfast-dev/holdfast/internal/desired"
)

// If a Secret was written after its hash was recorded, the plan assumes a change only for components that
// the operator has not applied since.
func TestRecordedHashIsValidWhileAnotherComponentIsRejected(t *testing.T) {
	secret := desired.Ref{Kind: desired.RefSecret, Name: "creds"}
	components := desired.ExpandComponents([]appsapi.Component{
		{Name: "api", Service: &appsapi.ServiceComponent{ServerSpec: appsapi.ServerSpec{
			ContainerSpec: appsapi.ContainerSpec{EnvFrom: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "creds"}}}}}}}},
		{Name: "web", Service: &appsapi.ServiceComponent{}},
	})
	stack := func(applied metav1.ConditionStatus, observed int64, apiHealth, webHealth string) appkind.Application {
		s := &appsapi.AppStack{ObjectMeta: metav1.ObjectMeta{Generation: 3}}
		s.Status.Conditions = []metav1.Condition{{Type: appsapi.ConditionApplied, Status: applied, ObservedGeneration: observed}}
		s.Status.Components = []appsapi.ComponentStatus{{Name: "api", Health: apiHealth}, {Name: "web", Health: webHealth}}
		return s
	}
	for name, tc := range map[string]struct {
		live appkind.Application
		want bool
	}{
		"new application":                  {nil, false},
		"applied":                          {stack(metav1.ConditionTrue, 3, "Healthy", "Healthy"), true},
		"not observed yet":                 {stack(metav1.ConditionTrue, 2, "Healthy", "Healthy"), false},
		"another component is rejected":    {stack(metav1.ConditionFalse, 3, "Healthy", "Degraded"), true},
		"the component itself is rejected": {stack(metav1.ConditionFalse, 3, "Degraded", "Healthy"), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := (&observer{live: tc.live}).isApplied(components, secret); got != tc.want {
				t.Errorf("isApplied = %t, want %t", got, tc.want)
			}
		})
	}
}

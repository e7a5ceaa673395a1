package desired

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

func TestKindLabelOfInvalidGroupVersionIsTheKind(t *testing.T) {
	for apiVersion, want := range map[string]string{
		"apps.holdfast.dev/v1alpha1": "App", "example.com/v1": "App.example.com", "v1": "App", "a/b/c": "App",
	} {
		if got := (Owner{Keys: appsapi.DefaultKeys, APIVersion: apiVersion, Kind: "App"}).KindLabel(); got != want {
			t.Errorf("%s: got %q, want %q", apiVersion, got, want)
		}
	}
}

func TestWorkloadsHavePods(t *testing.T) {
	all := Build(stack, components(t, `[{name: web, service: {image: a, replicas: 2, ports: [{port: 80}]}}, {name: once, job: {image: a}},
		{name: nightly, job: {image: a, schedule: "@daily"}}, {name: db, stateful: {image: a}}]`), ClusterState{})
	got := map[string]bool{}
	for _, c := range all {
		for _, child := range c.Children {
			got[child.Kind.Kind] = child.HasPods()
		}
	}
	want := map[string]bool{
		"Deployment": true, "Job": true, "CronJob": true, "StatefulSet": true, "Service": false, "PodDisruptionBudget": false,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFingerprintDependsOnHeldPodTemplate(t *testing.T) {
	child := singleComponent(component(t, `{image: a}`)).Children[0]
	config, err := child.Render(nil)
	must(err)
	if config.Fingerprint() != config.Hash() {
		t.Errorf("got fingerprint %q, want the hash %q", config.Fingerprint(), config.Hash())
	}
	config.HoldPodTemplate(&appsv1.Deployment{})
	if got, want := config.Fingerprint(), config.Hash()+" without its pods"; got != want {
		t.Errorf("got fingerprint %q, want %q", got, want)
	}
}

// TestSpecThatCannotBeEncodedIsReported: kinds written in Go can set values that YAML cannot contain.
func TestSpecThatCannotBeEncodedIsReported(t *testing.T) {
	invalid := &intstr.IntOrString{Type: 7}
	for name, tc := range map[string]struct {
		change func(s *appsapi.ServiceComponent)
		child  int
		want   string
	}{
		"the container": {func(s *appsapi.ServiceComponent) {
			s.Probes.Liveness = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: *invalid}}}
		}, 0, "json: error calling MarshalJSON for type intstr.IntOrString: impossible IntOrString.Type"},
		"the Deployment": {func(s *appsapi.ServiceComponent) { s.Update.MaxSurge = invalid }, 0,
			"encode web: json: error calling MarshalJSON for type *intstr.IntOrString: impossible IntOrString.Type"},
		"the PodDisruptionBudget": {func(s *appsapi.ServiceComponent) { s.Disruption.MaxUnavailable = invalid }, 1,
			"encode web: json: error calling MarshalJSON for type *intstr.IntOrString: impossible IntOrString.Type"},
	} {
		t.Run(name, func(t *testing.T) {
			c := component(t, `{image: a, replicas: 2}`)
			tc.change(c.Service)
			child := singleComponent(c).Children[tc.child]
			if child.InputHash != 0 {
				t.Errorf("got input hash %d, want 0", child.InputHash)
			}
			for _, render := range []func(runtime.Object) (*Config, error){child.Render, child.RenderReadOnly} {
				if _, err := render(nil); err == nil || err.Error() != tc.want {
					t.Errorf("got %v, want %q", err, tc.want)
				}
			}
		})
	}
}

// TestInvalidOverlayIsReportedByRender checks every kind of workload.
func TestInvalidOverlayIsReportedByRender(t *testing.T) {
	const want = "podTemplateOverlay sets spec.hostNetwork, which is not allowed; remove it, and use the fields security and serviceAccountName"
	const settings = `image: a, podTemplateOverlay: {spec: {hostNetwork: true}}`
	for spec, incompatible := range map[string]bool{
		`service: {` + settings + `}`: true, `stateful: {` + settings + `}`: true,
		`job: {` + settings + `}`: false, `job: {schedule: "@daily", ` + settings + `}`: false,
	} {
		_, err := Build(stack, components(t, `[{name: web, `+spec+`}]`), ClusterState{})[0].Children[0].Render(nil)
		var refusal *IncompatibleError
		if err == nil || err.Error() != want || errors.As(err, &refusal) != incompatible {
			t.Errorf("%s: got %T %v, want %q", spec, err, err, want)
		}
	}
}

func TestRenderReadOnlyWithoutMemo(t *testing.T) {
	want := &Config{hash: "1"}
	child := Child{Render: func(runtime.Object) (*Config, error) { return want, nil }}
	if got, err := child.RenderReadOnly(nil); got != want || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
}

// TestBindingWithoutPortsSetsNoVariables: package rollout rejects these specs before anything is applied.
func TestBindingWithoutPortsSetsNoVariables(t *testing.T) {
	for spec, want := range map[string][]corev1.EnvVar{
		`{name: other, service: {image: a, ports: [{port: 80}]}}`: nil,
		`{name: api, service: {image: a}}`:                        nil,
		`{name: api, job: {image: a}}`:                            nil,
		`{name: api, service: {image: a, ports: [{port: 80}]}}`: {
			{Name: "API_HOST", Value: "shop-api.shop.svc"}, {Name: "API_PORT", Value: "80"},
		},
	} {
		all := components(t, `[{name: web, bindings: [{component: api}], service: {image: a}}, `+spec+`]`)
		if diff := cmp.Diff(want, renderContext{Owner: stack, components: all}.bindingEnv(all[0])); diff != "" {
			t.Errorf("%s (-want +got):\n%s", spec, diff)
		}
	}
}

func TestRenderUsesStatusWhilePreviousDependenciesAreRecorded(t *testing.T) {
	for annotation, want := range map[string]bool{appsapi.DefaultKeys.PreviousDependsOn: true, appsapi.DefaultKeys.DependsOn: false} {
		if got := RenderUsesStatus(appsapi.DefaultKeys, &metav1.ObjectMeta{Annotations: map[string]string{annotation: "db"}}); got != want {
			t.Errorf("%s: got %t, want %t", annotation, got, want)
		}
	}
}

func TestSelectorThatCannotBeReadIsReported(t *testing.T) {
	live := liveDeployment("1", "true", "app")
	live.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Like"}}
	const want = `read the selector of Deployment web: "Like" is not a valid label selector operator`
	if _, err := singleComponent(component(t, `{image: a}`)).Children[0].Render(live); err == nil || err.Error() != want {
		t.Errorf("got %v, want %q", err, want)
	}
}

// TestAdoptedServiceKeepsItsOtherPorts: other ports stay if all ports have unique names.
func TestAdoptedServiceKeepsItsOtherPorts(t *testing.T) {
	live := withServicePorts(liveService("true", "10.0.0.1"),
		corev1.ServicePort{Port: 80, Protocol: "TCP"}, corev1.ServicePort{Name: "metrics", Port: 9090, Protocol: "TCP"})
	config, err := singleComponent(component(t, `{image: a, ports: [{name: http, port: 80}]}`)).Children[1].Render(live)
	must(err)
	fields, err := config.Fields()
	must(err)
	want := []any{map[string]any{"name": "http", "port": int64(80), "protocol": "TCP", "targetPort": int64(80)}}
	if diff := cmp.Diff(want, fields["spec"].(map[string]any)["ports"]); diff != "" {
		t.Errorf("applied ports (-want +got):\n%s", diff)
	}
}

package desired

import (
	"bytes"
	"errors"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var shop = Owner{Keys: appsapi.DefaultKeys, APIVersion: "apps.holdfast.dev/v1alpha1", Kind: "AppService", Namespace: "shop", Name: "web", UID: "11111111-2222-3333-4444-555555555555"}

// goldenCases returns the specs of services in testdata/specs with their live objects. The contract test of package
// apply sends the same specs to an API server.
func goldenCases(t *testing.T) map[string]goldenCase {
	t.Helper()
	cases := map[string]goldenCase{
		"live-count":   {live: []runtime.Object{liveDeployment("7", "", "app")}},
		"adopted":      {live: []runtime.Object{liveDeployment("3", "true", "nginx"), liveService("true", "10.0.0.1")}},
		"adopted-pair": {live: []runtime.Object{liveDeployment("3", "true", "app", "sidecar")}},
		"handed-over":  {live: []runtime.Object{liveDeployment("3", "", "nginx", "sidecar"), liveService("", "10.0.0.1")}},
	}
	files, err := filepath.Glob("testdata/specs/*.yaml")
	must(err)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		if name == "stack" || name == "data" {
			continue // several components
		}
		spec, err := os.ReadFile(file)
		must(err)
		cases[name] = goldenCase{spec: string(spec), live: cases[name].live}
	}
	return cases
}

type goldenCase struct {
	spec string
	live []runtime.Object
}

// liveDeployment returns a Deployment that another client created; without adopt it has been adopted.
func liveDeployment(replicas, adopt string, containers ...string) *appsv1.Deployment {
	d := &appsv1.Deployment{}
	must(yaml.Unmarshal([]byte(`
metadata: {name: web, namespace: shop, annotations: {}}
spec:
  replicas: `+replicas+`
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}}`), d))
	for _, c := range containers {
		d.Spec.Template.Spec.Containers = append(d.Spec.Template.Spec.Containers, corev1.Container{Name: c})
	}
	if adopt != "" {
		d.Annotations[appsapi.DefaultKeys.Adopt] = adopt
	} else {
		d.Annotations[appsapi.DefaultKeys.Container] = containers[0]
	}
	return d
}

func liveService(adopt, clusterIP string) *corev1.Service {
	s := &corev1.Service{}
	must(yaml.Unmarshal([]byte(`
metadata: {name: web, namespace: shop, annotations: {apps.holdfast.dev/adopt: "`+adopt+`"}}
spec: {clusterIP: `+clusterIP+`, selector: {app: web}}`), s))
	return s
}

// withSelector sets the selector of a Deployment.
func withSelector(d *appsv1.Deployment, labels map[string]string) *appsv1.Deployment {
	d.Spec.Selector.MatchLabels, d.Spec.Template.Labels = labels, labels
	return d
}

// withServicePorts sets the ports of a Service.
func withServicePorts(s *corev1.Service, ports ...corev1.ServicePort) *corev1.Service {
	s.Spec.Ports = ports
	return s
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func component(t *testing.T, spec string) appsapi.Component {
	t.Helper()
	c := appsapi.Component{Name: "web", ResourceName: "web", Service: &appsapi.ServiceComponent{}}
	if err := yaml.UnmarshalStrict([]byte(spec), c.Service); err != nil {
		t.Fatal(err)
	}
	return c
}

// singleComponent builds an application with a single component.
func singleComponent(c appsapi.Component) Component {
	return Build(shop, ExpandComponents([]appsapi.Component{c}), ClusterState{})[0]
}

// render returns the apply request as YAML.
func render(t *testing.T, child Child, live []runtime.Object) []byte {
	t.Helper()
	config, err := child.Render(findLive(child.ID, live))
	if err != nil {
		t.Fatal(err)
	}
	body, err := config.Patch("", "1")
	if err != nil {
		t.Fatal(err)
	}
	out, err := yaml.JSONToYAML(body)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func findLive(id ID, live []runtime.Object) runtime.Object {
	for _, obj := range live {
		switch obj.(type) {
		case *appsv1.Deployment:
			if id.Kind == KindDeployment {
				return obj
			}
		case *corev1.Service:
			if id.Kind == KindService {
				return obj
			}
		}
	}
	return nil
}

func TestGolden(t *testing.T) {
	for name, tc := range goldenCases(t) {
		t.Run(name, func(t *testing.T) {
			var got bytes.Buffer
			for _, child := range singleComponent(component(t, tc.spec)).Children {
				got.WriteString("---\n")
				got.Write(render(t, child, tc.live))
			}
			file := filepath.Join("testdata", name+".yaml")
			if *update {
				must(os.WriteFile(file, got.Bytes(), 0o644))
				return
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("a difference in a pod template restarts the pods of all users (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRenderIsDeterministic renders twice: with different hashes every reconcile would write.
func TestRenderIsDeterministic(t *testing.T) {
	for name, tc := range goldenCases(t) {
		t.Run(name, func(t *testing.T) {
			hash := func(i int) string {
				child := singleComponent(component(t, tc.spec)).Children[i]
				config, err := child.Render(findLive(child.ID, tc.live))
				if err != nil {
					t.Fatal(err)
				}
				return config.Hash()
			}
			for i := range singleComponent(component(t, tc.spec)).Children {
				if a, b := hash(i), hash(i); a != b {
					t.Errorf("child %d: %s, then %s", i, a, b)
				}
			}
		})
	}
}

// TestLiveReplicasAreNotOwned scales the live Deployment: the configuration does not change.
func TestLiveReplicasAreNotOwned(t *testing.T) {
	child := singleComponent(component(t, `{image: nginx}`)).Children[0]
	three, err := child.Render(liveDeployment("3", "", "app"))
	if err != nil {
		t.Fatal(err)
	}
	four, err := child.Render(liveDeployment("4", "", "app"))
	if err != nil {
		t.Fatal(err)
	}
	if three.Hash() != four.Hash() {
		t.Error("the live replicas are part of the hash")
	}
	fields, err := three.Fields()
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := fields["spec"].(map[string]any)["replicas"]; ok {
		t.Error("the configuration contains the live replicas")
	}
}

// TestConfigPatch: the request contains the labels and annotations of the configuration, and its preconditions.
func TestConfigPatch(t *testing.T) {
	child := singleComponent(component(t, `{image: nginx, ports: [{port: 80}], service: {annotations: {example.com/lb: internal}}}`)).Children[1]
	config, err := child.Render(nil)
	must(err)
	labels, annotations := maps.Clone(config.Labels()), maps.Clone(config.Annotations())
	body, err := config.Patch("the-uid", "42")
	must(err)
	var sent corev1.Service
	must(yaml.Unmarshal(body, &sent))
	if sent.UID != "the-uid" || sent.ResourceVersion != "42" {
		t.Errorf("got preconditions %q and %q", sent.UID, sent.ResourceVersion)
	}
	if diff := cmp.Diff(labels, sent.Labels); diff != "" {
		t.Error(diff)
	}
	annotations["apps.holdfast.dev/applied-hash"] = config.Hash()
	if diff := cmp.Diff(annotations, sent.Annotations); diff != "" {
		t.Error(diff)
	}
	if sent.Annotations["example.com/lb"] != "internal" || sent.Labels["app.kubernetes.io/managed-by"] != "holdfast" {
		t.Errorf("got %v and %v", sent.Annotations, sent.Labels)
	}
}

func TestIncompatibleLiveObjects(t *testing.T) {
	cases := map[string]struct {
		spec string
		live runtime.Object
		want string
	}{
		"several containers": {
			spec: `{image: nginx}`, live: liveDeployment("1", "true", "nginx", "sidecar"),
			want: `it has the containers [nginx sidecar] but none is named "app", so the main container is ambiguous; rename the main container to "app"`,
		},
		"a selector on a reserved label": {
			spec: `{image: nginx}`, live: withSelector(liveDeployment("1", "true", "nginx"), map[string]string{"app.kubernetes.io/instance": "release"}),
			want: `its selector "app.kubernetes.io/instance=release" does not match the labels that Holdfast sets on its pods ` +
				`(app.kubernetes.io/instance=web,app.kubernetes.io/managed-by=holdfast,apps.holdfast.dev/workload=deployment-web), ` +
				`and a selector is immutable; delete Deployment web to have it recreated`,
		},
		"a port without a name": {
			spec: `{image: nginx, ports: [{name: http, port: 80}]}`, live: withServicePorts(liveService("true", "10.0.0.1"), corev1.ServicePort{Port: 8080, Protocol: "TCP"}),
			want: "its port 8080 and port 80 of the spec must have different names; name both ports, remove port 8080 from the Service, or add it to the spec",
		},
		"a port of the same name": {
			spec: `{image: nginx, ports: [{name: http, port: 80}]}`, live: withServicePorts(liveService("true", "10.0.0.1"), corev1.ServicePort{Name: "http", Port: 8080, Protocol: "TCP"}),
			want: "its port 8080 and port 80 of the spec must have different names; name both ports, remove port 8080 from the Service, or add it to the spec",
		},
		"address to headless": {
			spec: `{image: nginx, ports: [{port: 80}], service: {type: Headless}}`, live: liveService("true", "10.0.0.1"),
			want: "its spec.clusterIP cannot change between None and an address; delete the Service to have it recreated, or change service.type in the spec",
		},
		"headless to address": {
			spec: `{image: nginx, ports: [{port: 80}]}`, live: liveService("true", "None"),
			want: "its spec.clusterIP cannot change between None and an address; delete the Service to have it recreated, or change service.type in the spec",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var refusal *IncompatibleError
			for _, child := range singleComponent(component(t, tc.spec)).Children {
				live := findLive(child.ID, []runtime.Object{tc.live})
				if live == nil {
					continue
				}
				_, err := child.Render(live)
				if !errors.As(err, &refusal) || refusal.Error() != tc.want {
					t.Errorf("got %v, want %q", err, tc.want)
				}
			}
			if refusal == nil {
				t.Error("no live object was rejected")
			}
		})
	}
}

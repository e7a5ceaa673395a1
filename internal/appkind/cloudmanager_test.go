package appkind

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/testutil/golden"
)

// loadSample decodes config/samples/cloudmanager.yaml and rejects unknown fields, as the API server does.
func loadSample(t *testing.T) *appsapi.CloudManager {
	t.Helper()
	content, err := os.ReadFile("../../config/samples/cloudmanager.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var cm appsapi.CloudManager
	if err := yaml.UnmarshalStrict(content, &cm); err != nil {
		t.Fatal(err)
	}
	return &cm
}

// A difference within db restarts the databases of all users on upgrade.
func TestCloudManagerSampleGolden(t *testing.T) {
	var components []appsapi.Component
	for _, c := range Components(loadSample(t)) {
		components = append(components, c.Component)
	}
	got, err := yaml.Marshal(components)
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "cloudmanager.yaml", string(got))
}

// componentSummary is a component without its pod settings.
type componentSummary struct {
	Name, ResourceName, Type string
	DependsOn                []string
	Bindings                 []appsapi.Binding
	Ports                    []appsapi.Port
}

func summarize(components []desired.ExpandedComponent) []componentSummary {
	var out []componentSummary
	for _, c := range components {
		s := componentSummary{c.Name, c.ResourceName, "neither", c.DependsOn, c.Bindings, nil}
		switch {
		case c.Service != nil:
			s.Type, s.Ports = "service", c.Service.Ports
		case c.Stateful != nil:
			s.Type, s.Ports = "stateful", c.Stateful.Ports
		}
		out = append(out, s)
	}
	return out
}

func TestCloudManagerComponents(t *testing.T) {
	const tcp = corev1.ProtocolTCP
	toDB := []appsapi.Binding{{Component: "db", EnvPrefix: "DB"}}
	toIdentity := []appsapi.Binding{{Component: "identity", EnvPrefix: "IDENTITY"}}
	mysql := []appsapi.Port{{Name: "mysql", Port: 3306, Protocol: tcp}}
	web := []appsapi.Port{{Port: 80, Protocol: tcp}}
	tests := map[string]struct {
		spec string
		want []componentSummary
	}{
		"only images": {
			spec: `{front: {deployment: {image: f}}, identity: {deployment: {image: i}}, db: {statefulSet: {image: d, storage: {size: 1Gi}}}}`,
			want: []componentSummary{
				{Name: "db", Type: "stateful", Ports: mysql},
				{Name: "identity", Type: "service", Bindings: toDB},
				{Name: "front", Type: "service", DependsOn: []string{"identity"}, Ports: web},
			},
		},
		"names": {
			spec: `{front: {deployment: {image: f, name: a}}, identity: {deployment: {image: i, name: b}}, db: {statefulSet: {image: d, name: c, storage: {size: 1Gi}}}}`,
			want: []componentSummary{
				{Name: "db", ResourceName: "c", Type: "stateful", Ports: mysql},
				{Name: "identity", ResourceName: "b", Type: "service", Bindings: toDB},
				{Name: "front", ResourceName: "a", Type: "service", DependsOn: []string{"identity"}, Ports: web},
			},
		},
		"identity with ports": {
			spec: `{front: {deployment: {image: f}}, identity: {deployment: {image: i, ports: [{port: 8080, protocol: TCP}]}}, db: {statefulSet: {image: d, storage: {size: 1Gi}}}}`,
			want: []componentSummary{
				{Name: "db", Type: "stateful", Ports: mysql},
				{Name: "identity", Type: "service", Bindings: toDB, Ports: []appsapi.Port{{Port: 8080, Protocol: tcp}}},
				{Name: "front", Type: "service", Bindings: toIdentity, Ports: web},
			},
		},
		"front with ports": {
			spec: `{front: {deployment: {image: f, ports: [{name: https, port: 443, targetPort: 8443, protocol: TCP}]}}, identity: {deployment: {image: i}}, db: {statefulSet: {image: d, storage: {size: 1Gi}}}}`,
			want: []componentSummary{
				{Name: "db", Type: "stateful", Ports: mysql},
				{Name: "identity", Type: "service", Bindings: toDB},
				{Name: "front", Type: "service", DependsOn: []string{"identity"}, Ports: []appsapi.Port{{Name: "https", Port: 443, TargetPort: 8443, Protocol: tcp}}},
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var cm appsapi.CloudManager
			if err := yaml.UnmarshalStrict([]byte(tc.spec), &cm.Spec); err != nil {
				t.Fatal(err)
			}
			before := cm.DeepCopy()
			if diff := cmp.Diff(tc.want, summarize(Components(&cm))); diff != "" {
				t.Errorf("components (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, &cm); diff != "" {
				t.Errorf("the object was changed (-before +after):\n%s", diff)
			}
		})
	}
}

// All fields of a deployment are part of its component.
func TestCloudManagerServiceFields(t *testing.T) {
	cm := loadSample(t)
	d := &cm.Spec.Identity.Deployment
	err := yaml.UnmarshalStrict([]byte(`{image: i, replicas: 0, command: [run], env: [{name: MODE, value: prod}], resources: {requests: {cpu: 10m}}}`), d)
	if err != nil {
		t.Fatal(err)
	}
	want := appsapi.ServiceComponent{ServerSpec: appsapi.ServerSpec{
		ContainerSpec: appsapi.ContainerSpec{Image: "i", Command: []string{"run"}, Env: d.Env, Resources: d.Resources},
		Replicas:      new(int32(0)),
	}}
	if diff := cmp.Diff(want, *CloudManagerComponents(cm)[1].Service); diff != "" {
		t.Errorf("identity (-want +got):\n%s", diff)
	}
}

// The resources of the StatefulSet are part of the database component.
func TestCloudManagerDatabaseResources(t *testing.T) {
	cm := loadSample(t)
	if err := yaml.UnmarshalStrict([]byte(`{limits: {memory: 2Gi}}`), &cm.Spec.DB.StatefulSet.Resources); err != nil {
		t.Fatal(err)
	}
	if got := Components(cm)[0].Stateful.Resources.Limits.Memory().String(); got != "2Gi" {
		t.Errorf("the server has a memory limit of %s, want 2Gi", got)
	}
}

func TestCloudManagerRootPassword(t *testing.T) {
	tests := map[string]struct {
		db   string
		want desired.Credential
	}{
		"in the spec": {db: `{rootPass: "123456"}`, want: desired.Credential{Value: "123456"}},
		"in a Secret": {db: `{rootPasswordSecretRef: {name: mine, key: pw}}`, want: desired.Credential{Credential: appsapi.Credential{SecretRef: &appsapi.SecretKeyReference{Name: "mine", Key: "pw"}}}},
		"generated":   {db: `{}`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var cm appsapi.CloudManager
			if err := yaml.UnmarshalStrict([]byte(tc.db), &cm.Spec.DB); err != nil {
				t.Fatal(err)
			}
			tc.want.Key, tc.want.File, tc.want.Hashed = "root-password", "root", true
			account := desired.Credential{Credential: appsapi.Credential{Key: "password"}, File: "user", Hashed: true}
			if diff := cmp.Diff([]desired.Credential{tc.want, account}, Components(&cm)[0].Credentials); diff != "" {
				t.Errorf("credentials (-want +got):\n%s", diff)
			}
		})
	}
}

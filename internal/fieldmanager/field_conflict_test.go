package fieldmanager

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/yaml"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
)

// TestUnionConflictsNameBothFields checks that a conflict names the other field and the declared
// field.
func TestUnionConflictsNameBothFields(t *testing.T) {
	inContainer := func(fields string) string {
		return "spec: {template: {spec: {terminationGracePeriodSeconds: 30, containers: [{name: app, " + fields + "}]}}}"
	}
	const container = `spec.template.spec.containers[app].`
	cases := map[string]struct {
		want, live string
		conflicts  []string
	}{
		"nothing": {want: inContainer("image: web"), live: inContainer("image: other")},
		"probe": {
			want:      inContainer("readinessProbe: {tcpSocket: {port: 80}}"),
			live:      inContainer("readinessProbe: {httpGet: {port: 80}}"),
			conflicts: []string{container + "readinessProbe.httpGet excludes " + container + "readinessProbe.tcpSocket"},
		},
		"variable with a value": {
			want:      inContainer("env: [{name: A, value: secret}]"),
			live:      inContainer("env: [{name: A, valueFrom: {fieldRef: {fieldPath: x}}}]"),
			conflicts: []string{container + `env[A].valueFrom excludes ` + container + `env[A].value`},
		},
		"variable without a value": {
			want:      inContainer("env: [{name: A}]"),
			live:      inContainer("env: [{name: A, value: x}]"),
			conflicts: []string{container + `env[A].value excludes ` + container + `env[A]`},
		},
		"requests and limits, in a fixed order": {
			want: inContainer(`resources: {limits: {cpu: "1", memory: 1Gi}}`),
			live: inContainer(`resources: {requests: {cpu: "2", memory: 2Gi}}`),
			conflicts: []string{container + "resources.requests.cpu excludes " + container + "resources.limits.cpu=1",
				container + "resources.requests.memory excludes " + container + "resources.limits.memory=1Gi"},
		},
		"grace period": {
			want: "spec: {template: {spec: {containers: [{name: app, lifecycle: {preStop: {sleep: {seconds: 40}}}}]}}}",
			live: inContainer("lifecycle: {preStop: {sleep: {seconds: 1}}}"),
			conflicts: []string{"spec.template.spec.terminationGracePeriodSeconds excludes " + container +
				"lifecycle.preStop.sleep.seconds=40"},
		},
		"privileges": {
			want: inContainer("securityContext: {allowPrivilegeEscalation: false}"),
			live: inContainer("securityContext: {privileged: true, capabilities: {add: [CAP_SYS_ADMIN]}}"),
			conflicts: []string{container + "securityContext.capabilities.add excludes " + container + "securityContext.allowPrivilegeEscalation=false",
				container + "securityContext.privileged excludes " + container + "securityContext.allowPrivilegeEscalation=false"},
		},
		"seccomp": {
			want:      "spec: {template: {spec: {securityContext: {seccompProfile: {type: RuntimeDefault}}}}}",
			live:      "spec: {template: {spec: {securityContext: {seccompProfile: {type: Localhost, localhostProfile: x}}}}}",
			conflicts: []string{"spec.template.spec.securityContext.seccompProfile.localhostProfile excludes spec.template.spec.securityContext.seccompProfile.type=RuntimeDefault"},
		},
		"progress deadline": {
			want:      "spec: {progressDeadlineSeconds: 600}",
			live:      "spec: {minReadySeconds: 700, progressDeadlineSeconds: 800}",
			conflicts: []string{"spec.minReadySeconds excludes spec.progressDeadlineSeconds=600"},
		},
		"Service type": {
			want:      "spec: {type: ClusterIP}",
			live:      "spec: {type: LoadBalancer, loadBalancerSourceRanges: [10.0.0.0/8]}",
			conflicts: []string{"spec.loadBalancerSourceRanges excludes spec.type=ClusterIP"},
		},
		"PodDisruptionBudget": {
			want:      "spec: {maxUnavailable: 1, unhealthyPodEvictionPolicy: AlwaysAllow}",
			live:      "spec: {minAvailable: 1, unhealthyPodEvictionPolicy: AlwaysAllow}",
			conflicts: []string{"spec.minAvailable excludes spec.maxUnavailable=1"},
		},
		"port name": {
			want:      "spec: {ports: [{name: http, port: 80, protocol: TCP}]}",
			live:      "spec: {ports: [{name: http, port: 81, protocol: TCP}]}",
			conflicts: []string{`spec.ports[81/TCP] excludes spec.ports[80/TCP]`},
		},
		"additional port": {
			want: "spec: {ports: [{name: http, port: 80, protocol: TCP}]}",
			live: "spec: {ports: [{name: http, port: 80, protocol: TCP}, {name: admin, port: 81, protocol: TCP}]}",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			found, err := UnionConflicts(decode(t, tc.want), &unstructured.Unstructured{Object: decode(t, tc.live)})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, c := range found {
				got = append(got, pathText(c.Path)+" excludes "+c.Declared)
			}
			if diff := cmp.Diff(tc.conflicts, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// decode parses YAML with the number types of objects.
func decode(t *testing.T, text string) map[string]any {
	t.Helper()
	content, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON(append([]byte(`{"apiVersion":"v1","kind":"X",`), content[1:]...)); err != nil {
		t.Fatal(err)
	}
	delete(obj.Object, "apiVersion")
	delete(obj.Object, "kind")
	return obj.Object
}

// TestForeignFields checks that only conflicts are reported that an apply cannot resolve without
// rewriting the entry of another manager.
func TestForeignFields(t *testing.T) {
	const httpGet, tcpSocket = `{"f:spec":{"f:probe":{"f:httpGet":{".":{},"f:port":{}}}}}`, `{"f:spec":{"f:probe":{"f:tcpSocket":{}}}}`
	conflict := UnionConflict{Path: fieldpath.MakePathOrDie("spec", "probe", "httpGet"), Declared: "spec.probe.tcpSocket"}
	cases := map[string]struct {
		entries []metav1.ManagedFieldsEntry
		want    []string
	}{
		"no manager": {entries: []metav1.ManagedFieldsEntry{managedFieldsEntry("holdfast", "Apply", "", tcpSocket)}},
		"our field from an earlier spec": {entries: []metav1.ManagedFieldsEntry{
			managedFieldsEntry("holdfast", "Apply", "", httpGet), managedFieldsEntry("holdfast", "Update", "", httpGet)}},
		"unknown manager": {entries: []metav1.ManagedFieldsEntry{managedFieldsEntry("before-first-apply", "Update", "", httpGet)}},
		"other field":     {entries: []metav1.ManagedFieldsEntry{managedFieldsEntry("kubectl-edit", "Update", "", tcpSocket)}},
		"other manager": {
			entries: []metav1.ManagedFieldsEntry{managedFieldsEntry("holdfast", "Apply", "", tcpSocket), managedFieldsEntry("kubectl-edit", "Update", "", httpGet)},
			want:    []string{`spec.probe.httpGet of field manager "kubectl-edit"`},
		},
		"our manager and another one": {
			entries: []metav1.ManagedFieldsEntry{managedFieldsEntry("holdfast", "Apply", "", httpGet), managedFieldsEntry("helm", "Update", "", httpGet)},
			want:    []string{`spec.probe.httpGet of field manager "helm"`},
		},
		"several managers": {
			entries: []metav1.ManagedFieldsEntry{managedFieldsEntry("argocd", "Apply", "", httpGet), managedFieldsEntry("helm", "Update", "", httpGet),
				managedFieldsEntry("helm", "Apply", "", httpGet)},
			want: []string{`spec.probe.httpGet of field managers "argocd" and "helm"`},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			foreign, err := ForeignFields(appsapi.DefaultKeys.FieldManager, []UnionConflict{conflict}, tc.entries)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range foreign {
				got = append(got, f.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	if _, err := ForeignFields(appsapi.DefaultKeys.FieldManager, []UnionConflict{conflict}, []metav1.ManagedFieldsEntry{managedFieldsEntry("kubectl-edit", "Update", "", `[`)}); err == nil {
		t.Error("invalid managedFields are ignored")
	}
}

// TestFieldConflictMessage checks that the message names object, field, manager and the next step.
func TestFieldConflictMessage(t *testing.T) {
	owner := desired.Owner{Keys: appsapi.DefaultKeys, Kind: "AppStack", Namespace: "shop", Name: "shop"}
	id := desired.ID{Kind: desired.KindDeployment, Name: "shop-web"}
	field := ForeignField{UnionConflict{fieldpath.MakePathOrDie("spec", "minReadySeconds"), "spec.progressDeadlineSeconds=600"}, []string{"kubectl-edit"}}
	const begin = `Deployment shop/shop-web: field spec.minReadySeconds is set by field manager "kubectl-edit" and conflicts with spec.progressDeadlineSeconds=600, which AppStack shop declares`
	const end = `; revert that change (kubectl edit deployment shop-web -n shop), or let Holdfast revert it: kubectl annotate deployment shop-web -n shop apps.holdfast.dev/take-ownership=true`
	for n, want := range []string{begin + end, begin + ", and 1 more field conflicts" + end, begin + ", and 2 more fields conflict" + end} {
		fields := []ForeignField{field, field, field}[:n+1]
		if got := NewFieldConflict(owner, id, fields).Error(); got != want {
			t.Errorf("%d fields:\n%s", n+1, cmp.Diff(want, got))
		}
	}
}

func TestAllowsTakeover(t *testing.T) {
	for annotation, want := range map[string]bool{
		"apps.holdfast.dev/take-ownership=true":  true,
		"apps.holdfast.dev/adopt=true":           true,
		"apps.holdfast.dev/take-ownership=false": false,
		"apps.holdfast.dev/adopt=":               false,
		"example.com/other=true":                 false,
	} {
		key, value, _ := strings.Cut(annotation, "=")
		if got := AllowsTakeover(appsapi.DefaultKeys, &metav1.ObjectMeta{Annotations: map[string]string{key: value}}); got != want {
			t.Errorf("%s: %t", annotation, got)
		}
	}
}

package desired

import (
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

const statefulSpec = `[{name: db, dependsOn: [queue], stateful: {image: "db:1", storage: [{name: data, mountPath: /data, size: 1Gi}]}}]`

// sentStatefulSet returns the StatefulSet as sent to the API server.
func sentStatefulSet(t *testing.T, config *Config) *appsv1.StatefulSet {
	t.Helper()
	body, err := config.Patch("", "1")
	must(err)
	set := &appsv1.StatefulSet{}
	must(json.Unmarshal(body, set))
	return set
}

// renderedPod returns the pod spec of a new stateful component.
func renderedPod(t *testing.T, c Component) corev1.PodSpec {
	t.Helper()
	config, err := c.Children[0].Render(nil)
	must(err)
	return sentStatefulSet(t, config).Spec.Template.Spec
}

func appliedStatefulSet(t *testing.T, spec string) *appsv1.StatefulSet {
	t.Helper()
	config, err := Build(stack, components(t, spec), ClusterState{})[0].Children[0].Render(nil)
	must(err)
	return sentStatefulSet(t, config)
}

func TestImmutableFieldsOfStatefulSetMustMatch(t *testing.T) {
	const selector = "its spec.selector is not map[app.kubernetes.io/managed-by:holdfast apps.holdfast.dev/workload:statefulset-shop-db]"
	const next = ", and the field is immutable; delete StatefulSet shop-db with --cascade=orphan to have it recreated without restarting its pods"
	for name, tc := range map[string]struct {
		change func(s *appsv1.StatefulSetSpec)
		want   string
	}{
		"as applied":       {func(*appsv1.StatefulSetSpec) {}, ""},
		"no selector":      {func(s *appsv1.StatefulSetSpec) { s.Selector = nil }, selector + next},
		"another selector": {func(s *appsv1.StatefulSetSpec) { s.Selector.MatchLabels = nil }, selector + next},
		"another Service":  {func(s *appsv1.StatefulSetSpec) { s.ServiceName = "db" }, "its spec.serviceName is not shop-db-headless" + next},
		"ordered pods": {func(s *appsv1.StatefulSetSpec) { s.PodManagementPolicy = appsv1.OrderedReadyPodManagement },
			"its spec.podManagementPolicy is not Parallel" + next},
	} {
		t.Run(name, func(t *testing.T) {
			live := appliedStatefulSet(t, statefulSpec)
			tc.change(&live.Spec)
			_, err := Build(stack, components(t, statefulSpec), ClusterState{})[0].Children[0].Render(live)
			var incompatible *IncompatibleError
			if tc.want == "" && err != nil || tc.want != "" && (!errors.As(err, &incompatible) || err.Error() != tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// TestStatefulSetKeepsLiveClaimTemplatesAndReplicas: claim templates are immutable, so those of the live object are sent.
func TestStatefulSetKeepsLiveClaimTemplatesAndReplicas(t *testing.T) {
	const grown = `[{name: db, stateful: {image: "db:1", storage: [{name: data, mountPath: /data, size: 5Gi}]}}]`
	const scaled = `[{name: db, stateful: {image: "db:1", replicas: 2, storage: [{name: data, mountPath: /data, size: 5Gi}]}}]`
	live := appliedStatefulSet(t, statefulSpec)
	live.Spec.Replicas = new(int32(4))
	for name, tc := range map[string]struct {
		spec     string
		live     *appsv1.StatefulSet
		orphaned int32
		size     string
		replicas *int32
	}{
		"new":                             {spec: grown, size: "5Gi"},
		"new, replicas in the spec":       {spec: scaled, size: "5Gi", replicas: new(int32(2)), orphaned: 3},
		"recreated around its pods":       {spec: grown, size: "5Gi", replicas: new(int32(3)), orphaned: 3},
		"existing":                        {spec: grown, live: live, size: "1Gi", replicas: new(int32(4))},
		"existing, replicas in the spec ": {spec: scaled, live: live, size: "1Gi", replicas: new(int32(2))},
	} {
		t.Run(name, func(t *testing.T) {
			c := Build(stack, components(t, tc.spec), ClusterState{OrphanedReplicas: map[string]int32{"db": tc.orphaned}})[0]
			config, err := renderOrNew(c.Children[0], tc.live)
			must(err)
			sent := sentStatefulSet(t, config)
			if diff := cmp.Diff(tc.replicas, sent.Spec.Replicas); diff != "" {
				t.Errorf("replicas (-want +got):\n%s", diff)
			}
			size := sent.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests[corev1.ResourceStorage]
			if got := size.String(); got != tc.size || len(sent.Spec.VolumeClaimTemplates) != 1 {
				t.Errorf("got size %s of %d claim templates, want %s", got, len(sent.Spec.VolumeClaimTemplates), tc.size)
			}
		})
	}
}

func renderOrNew(child Child, live *appsv1.StatefulSet) (*Config, error) {
	if live == nil {
		return child.Render(nil)
	}
	return child.Render(live)
}

func TestDependsOnDriftOfStatefulSetIsReverted(t *testing.T) {
	child := Build(stack, components(t, statefulSpec), ClusterState{})[0].Children[0]
	made, err := child.Render(nil)
	must(err)
	want := maps.Clone(made.Annotations())
	live := appliedStatefulSet(t, statefulSpec)
	live.Annotations[appsapi.DefaultKeys.DependsOn] = "theirs"
	now, err := child.Render(live)
	must(err)
	if diff := cmp.Diff(want, now.Annotations()); diff != "" || now.Hash() != made.Hash() {
		t.Errorf("hash %s, want %s; annotations (-want +got):\n%s", now.Hash(), made.Hash(), diff)
	}
	if live.Annotations[appsapi.DefaultKeys.DependsOn] != "theirs" {
		t.Error("the live object was changed")
	}
}

func TestHoldPodTemplateOfStatefulSet(t *testing.T) {
	live := appliedStatefulSet(t, statefulSpec)
	live.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: "holdfast", Operation: "Apply", APIVersion: "apps/v1", FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:template":{"f:spec":{"f:containers":{
			"k:{\"name\":\"app\"}":{".":{},"f:name":{},"f:image":{}}}}}}}`),
	}}
	const updated = `[{name: db, stateful: {image: "db:2", storage: [{name: data, mountPath: /data, size: 1Gi}]}}]`
	config, err := Build(stack, components(t, updated), ClusterState{})[0].Children[0].Render(live)
	must(err)
	config.HoldPodTemplate(live)
	must(config.SendLivePodTemplate(live))
	fields, err := config.Fields()
	must(err)
	if template, held := fields["spec"].(map[string]any)["template"]; held {
		t.Errorf("the configuration contains the template %v", template)
	}
	sent := sentStatefulSet(t, config)
	want := corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "db:1"}}}}
	if diff := cmp.Diff(want, sent.Spec.Template); diff != "" {
		t.Errorf("template (-want +got):\n%s", diff)
	}
	if len(sent.Spec.VolumeClaimTemplates) != 1 {
		t.Errorf("got %d claim templates, want 1", len(sent.Spec.VolumeClaimTemplates))
	}
}

func TestSendLivePodTemplateReportsUnreadableManagedFields(t *testing.T) {
	unreadable := []metav1.ManagedFieldsEntry{{
		Manager: "holdfast", Operation: "Apply", APIVersion: "apps/v1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"x:":{}}`),
	}}
	live := appliedStatefulSet(t, statefulSpec)
	live.ManagedFields = unreadable
	config, err := Build(stack, components(t, statefulSpec), ClusterState{})[0].Children[0].Render(live)
	must(err)
	const want = "extract the managed fields of shop-db: "
	if err := config.SendLivePodTemplate(live); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %q and the cause", err, want)
	}
}

func TestValidateStorage(t *testing.T) {
	const data = `storage: [{name: data, mountPath: /data, size: 1Gi}], `
	for spec, want := range map[string]string{
		data: "",
		`storage: [{name: data, mountPath: /data, size: 0}]`: `storage "data" has size 0; ` +
			`the size must be greater than 0, for example 20Gi`,
		`storage: [{name: holdfast-files, mountPath: /data, size: 1Gi}]`: `storage "holdfast-files" has the reserved name of the volume ` +
			`for config.files; use another name`,
		data + `volumes: [{name: tmp, mountPath: /tmp, emptyDir: {}}]`: "",
		data + `volumes: [{name: data, mountPath: /tmp, emptyDir: {}}]`: `volumes and storage both contain "data"; ` +
			`use another name for one of them`,
		data + `volumes: [{name: tmp, mountPath: /data, emptyDir: {}}]`: `volume "tmp" and storage "data" are both mounted at /data; ` +
			`use another path for one of them`,
		data + `config: {files: [{path: /data, content: a}]}`: `config.files contains /data, where storage "data" is mounted; ` +
			`use another path for one of them`,
		`storage: [{name: data, mountPath: /data/db, size: 1Gi}], config: {files: [{path: /data, content: a}]}`: `config.files contains /data, ` +
			`and storage "data" is mounted at /data/db, but /data cannot be both a file and a directory; use another path for one of them`,
		`storage: [{size: 0}], config: {files: [{path: /a, content: a}, {path: /a/b, content: a}]}`: "config.files contains /a and /a/b, " +
			"but /a cannot be both a file and a directory; use another path for one of them. " +
			`storage "" has size 0; the size must be greater than 0, for example 20Gi`,
		data + `podTemplateOverlay: {spec: {x: false}}`: `podTemplateOverlay is not a valid pod template: unknown field "spec.x"`,
	} {
		c := Build(stack, components(t, `[{name: db, stateful: {image: a, `+spec+`}}]`), ClusterState{})[0]
		if c.InvalidMessage != want {
			t.Errorf("%s:\ngot  %q\nwant %q", spec, c.InvalidMessage, want)
		}
	}
}

func TestStatefulProgressDeadline(t *testing.T) {
	for spec, want := range map[string]int32{`image: a`: 600, `image: a, update: {progressDeadlineSeconds: 60}`: 60} {
		if got := Build(stack, components(t, `[{name: db, stateful: {`+spec+`}}]`), ClusterState{})[0].ProgressDeadlineSeconds; got != want {
			t.Errorf("%s: got %d seconds, want %d", spec, got, want)
		}
	}
}

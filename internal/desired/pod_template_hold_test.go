package desired

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// webDeployment returns the Deployment of a component called web in a stack with one called db.
func webDeployment(t *testing.T, web string) Child {
	t.Helper()
	return Build(stack, components(t, `[`+web+`, {name: db, service: {image: db, ports: [{port: 1}]}}]`), ClusterState{})[0].Children[0]
}

func TestReplacesPods(t *testing.T) {
	first, err := webDeployment(t, `{name: web, dependsOn: [db], service: {image: a, replicas: 2}}`).Render(nil)
	must(err)
	body, err := first.Patch("", "1")
	must(err)
	live := &appsv1.Deployment{}
	must(json.Unmarshal(body, live))
	for web, want := range map[string]bool{
		`{name: web, dependsOn: [db], service: {image: a, replicas: 2}}`:                                    false,
		`{name: web, dependsOn: [db], service: {image: a, replicas: 5}}`:                                    false,
		`{name: web, dependsOn: [db], service: {image: a, replicas: 2, update: {minReadySeconds: 3}}}`:      false,
		`{name: web, dependsOn: [db], service: {image: b, replicas: 2}}`:                                    true,
		`{name: web, service: {image: a, replicas: 2}}`:                                                     true, // dependencies belong to the pods
		`{name: web, bindings: [{component: db}], service: {image: a, replicas: 2}}`:                        true,
		`{name: web, dependsOn: [db], service: {image: a, env: [{name: A, value: b}], replicas: 2}}`:        true,
		`{name: web, dependsOn: [db], resourceName: shop-web, service: {image: a, ports: [], replicas: 2}}`: false,
	} {
		config, err := webDeployment(t, web).Render(live)
		must(err)
		if got := config.ReplacesPods(live); got != want {
			t.Errorf("%s: got %v", web, got)
		}
	}
}

// TestHoldPodTemplate applies everything except the pod template. Owned fields of the live template are sent, so that
// they stay; fields of other managers are not.
func TestHoldPodTemplate(t *testing.T) {
	live := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Name: "shop-web", Namespace: "shop",
			Labels:      map[string]string{"app.kubernetes.io/version": "1"},
			Annotations: map[string]string{"apps.holdfast.dev/applied-hash": "old.pods", "apps.holdfast.dev/depends-on": "queue"},
			ManagedFields: []metav1.ManagedFieldsEntry{{
				Manager: "holdfast", Operation: "Apply", APIVersion: "apps/v1", FieldsType: "FieldsV1",
				FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:replicas":{},"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"app\"}":{".":{},"f:name":{},"f:image":{}}}}}}}`),
			}},
		},
	}
	must(json.Unmarshal([]byte(`{"replicas": 2, "selector": {"matchLabels": {"app.kubernetes.io/managed-by": "holdfast", "apps.holdfast.dev/workload": "deployment-shop-web"}}, "template": {"spec": {"containers": [
		{"name": "app", "image": "a", "imagePullPolicy": "Always"}, {"name": "sidecar", "image": "theirs"}]}}}`), &live.Spec))
	config, err := webDeployment(t, `{name: web, dependsOn: [db], service: {image: "b:2", replicas: 5}}`).Render(live)
	must(err)
	fullHash := config.Hash()
	config.HoldPodTemplate(live)
	if !config.HoldsPodTemplate() || config.Hash() == fullHash || config.Fingerprint() == config.Hash() {
		t.Errorf("hash %s, fingerprint %s", config.Hash(), config.Fingerprint())
	}
	if got := config.Annotations()["apps.holdfast.dev/depends-on"]; got != "queue" {
		t.Errorf("depends-on is %q, want queue", got)
	}
	if got := config.Labels()["app.kubernetes.io/version"]; got != "1" {
		t.Errorf("the version label is %q, want 1", got)
	}
	must(config.SendLivePodTemplate(live))
	fields, err := config.Fields()
	must(err)
	if _, held := fields["spec"].(map[string]any)["template"]; held {
		t.Error("the configuration contains the pod template")
	}
	body, err := config.Patch("uid", "2")
	must(err)
	var sent struct {
		Spec struct {
			Replicas int
			Template any
		}
	}
	must(json.Unmarshal(body, &sent))
	want := map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "app", "image": "a"}}}}
	if diff := cmp.Diff(want, sent.Spec.Template); diff != "" || sent.Spec.Replicas != 5 {
		t.Errorf("replicas %d, template:\n%s", sent.Spec.Replicas, diff)
	}
}

// TestHoldPodTemplateOfCronJob does the same for a CronJob.
func TestHoldPodTemplateOfCronJob(t *testing.T) {
	cron := func(image, schedule string) Child {
		return Build(stack, ExpandComponents([]appsapi.Component{{Name: "nightly", Job: &appsapi.JobComponent{
			ContainerSpec: appsapi.ContainerSpec{Image: image}, Schedule: schedule}}}), ClusterState{})[0].Children[0]
	}
	live := appliedCronJob(t, cron("a", "@daily"))
	live.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: "holdfast", Operation: "Apply", APIVersion: "batch/v1", FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:jobTemplate":{"f:spec":{"f:template":{"f:spec":{"f:containers":{
			"k:{\"name\":\"app\"}":{".":{},"f:name":{},"f:image":{}}}}}}}}}`),
	}}
	config, err := cron("a", "@hourly").Render(live)
	must(err)
	if config.ReplacesPods(live) {
		t.Error("another schedule replaces pods")
	}
	config, err = cron("b", "@hourly").Render(live)
	must(err)
	if !config.ReplacesPods(live) {
		t.Error("another image does not replace pods")
	}
	config.HoldPodTemplate(live)
	must(config.SendLivePodTemplate(live))
	fields, err := config.Fields()
	must(err)
	if _, held := fields["spec"].(map[string]any)["jobTemplate"]; held {
		t.Error("the configuration contains the pod template")
	}
	body, err := config.Patch("uid", "2")
	must(err)
	sent := &batchv1.CronJob{}
	must(json.Unmarshal(body, sent))
	want := []corev1.Container{{Name: "app", Image: "a"}}
	if diff := cmp.Diff(want, sent.Spec.JobTemplate.Spec.Template.Spec.Containers); diff != "" || sent.Spec.Schedule != "@hourly" {
		t.Errorf("schedule %q, containers (-want +got):\n%s", sent.Spec.Schedule, diff)
	}
}

// appliedCronJob returns a CronJob after its first apply.
func appliedCronJob(t *testing.T, child Child) *batchv1.CronJob {
	t.Helper()
	config, err := child.Render(nil)
	must(err)
	body, err := config.Patch("", "1")
	must(err)
	live := &batchv1.CronJob{}
	must(json.Unmarshal(body, live))
	return live
}

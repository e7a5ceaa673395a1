package v1alpha1_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// testServiceStatus checks that a full status is accepted and that only the status subresource changes it.
func testServiceStatus(t *testing.T, apps dynamic.ResourceInterface) {
	const cause = `{code: ImageNotFound, message: the image does not exist, object: {kind: Pod, name: web-1}, since: "2026-01-02T03:04:05Z"}`
	const full = `
observedGeneration: 3
conditions: [{type: Ready, status: "False", reason: Progressing, message: 1 of 2 pods are ready, observedGeneration: 3, lastTransitionTime: "2026-01-02T03:04:05Z"}]
replicas: 2
readyReplicas: 0
availableReplicas: 0
replicasReady: 0/2
selector: app.kubernetes.io/managed-by=holdfast
endpoints: [{name: http, url: "http://web.shop.svc:80"}]
causes: [` + cause + `]`

	stored := create(t, apps, appService(t, "web", `{image: nginx}`))
	stored.Object["status"] = parse(t, full)
	stored.Object["spec"] = parse(t, `{image: other}`)
	stored, err := apps.UpdateStatus(t.Context(), stored, metav1.UpdateOptions{FieldValidation: strict})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{"spec": parse(t, `{image: nginx}`), "status": parse(t, full)}, map[string]any{"spec": stored.Object["spec"], "status": stored.Object["status"]}); diff != "" {
		t.Errorf("object after a status update (-want +got):\n%s", diff)
	}

	stored.Object["status"] = parse(t, `{observedGeneration: 4}`)
	stored, err = apps.Update(t.Context(), stored, metav1.UpdateOptions{FieldValidation: strict})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(parse(t, full), stored.Object["status"]); diff != "" {
		t.Errorf("status after a spec update (-want +got):\n%s", diff)
	}

	stored.Object["status"] = parse(t, `{causes: [`+strings.Join([]string{cause, cause, cause, cause}, ",")+`]}`)
	_, err = apps.UpdateStatus(t.Context(), stored, metav1.UpdateOptions{})
	wantRejected(t, err, "status.causes: Too many: 4: must have at most 3 items")
}

// testServiceScale checks that the scale subresource works only while replicas is set.
func testServiceScale(t *testing.T, apps dynamic.ResourceInterface) {
	replicas := func(t *testing.T, scale *unstructured.Unstructured) int64 {
		t.Helper()
		n, _, err := unstructured.NestedInt64(scale.Object, "spec", "replicas")
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	scaleTo := func(t *testing.T, name string, n int) error {
		t.Helper()
		patch := fmt.Sprintf(`{"spec":{"replicas":%d}}`, n) // as sent by kubectl scale
		_, err := apps.Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "scale")
		return err
	}

	t.Run("replicas set", func(t *testing.T) {
		name := create(t, apps, appService(t, "web", `{image: nginx, replicas: 2}`)).GetName()
		scale, err := apps.Get(t.Context(), name, metav1.GetOptions{}, "scale")
		if err != nil {
			t.Fatal(err)
		}
		if got := replicas(t, scale); got != 2 {
			t.Errorf("scale has %d replicas, want 2", got)
		}
		if err := scaleTo(t, name, 5); err != nil {
			t.Fatal(err)
		}
		stored, err := apps.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := replicas(t, stored); got != 5 {
			t.Errorf("after scaling to 5 the spec has %d replicas", got)
		}
		wantRejected(t, scaleTo(t, name, 10001), "spec.replicas: spec.replicas in body should be less than or equal to 10000")
	})

	t.Run("replicas unset", func(t *testing.T) {
		name := create(t, apps, appService(t, "web", `{image: nginx}`)).GetName()
		_, err := apps.Get(t.Context(), name, metav1.GetOptions{}, "scale")
		if want := `the spec replicas field ".spec.replicas" does not exist`; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %s", err, want)
		}
		if err := scaleTo(t, name, 3); err != nil {
			t.Fatal(err)
		}
		scale, err := apps.Get(t.Context(), name, metav1.GetOptions{}, "scale")
		if err != nil {
			t.Fatal(err)
		}
		if got := replicas(t, scale); got != 3 {
			t.Errorf("after scaling to 3 the scale has %d replicas", got)
		}
	})
}

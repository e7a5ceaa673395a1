package schemawalk

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

var podResource = schema.GroupVersionResource{Version: "v1", Resource: "pods"}

// createDatabasePod creates the pod of a database, because the operator connects to its server. Other workloads need
// only a status.
func (p *controllerSim) createDatabasePod(ctx context.Context, o *unstructured.Unstructured) error {
	if o.GetKind() != "StatefulSet" || o.GetLabels()["app.kubernetes.io/name"] != "database" {
		return nil
	}
	name := o.GetName() + "-0"
	if _, exists := p.created.LoadOrStore("pod "+name, true); exists {
		return nil
	}
	template, _, _ := unstructured.NestedMap(o.Object, "spec", "template")
	pod := &unstructured.Unstructured{Object: template}
	pod.SetAPIVersion("v1")
	pod.SetKind("Pod")
	pod.SetName(name)
	data := map[string]any{"name": "data", "persistentVolumeClaim": map[string]any{"claimName": "data-" + name}}
	if strings.HasPrefix(o.GetName(), withoutClaimsPrefix) {
		data = map[string]any{"name": "data", "emptyDir": map[string]any{}}
	}
	volumes, _, _ := unstructured.NestedSlice(pod.Object, "spec", "volumes")
	if err := unstructured.SetNestedSlice(pod.Object, append(volumes, data), "spec", "volumes"); err != nil {
		return err
	}
	for _, field := range []string{"priorityClassName", "resourceClaims", "schedulerName"} { // require other objects
		unstructured.RemoveNestedField(pod.Object, "spec", field)
	}
	pods := p.client.Resource(podResource).Namespace(o.GetNamespace())
	if _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		p.created.Delete("pod " + name)
		return err
	}
	n := p.addressCount.Add(1)
	address := fmt.Sprintf("10.%d.%d.%d", 1+n>>16&127, n>>8&255, n&255)
	body, err := json.Marshal(map[string]any{"status": map[string]any{
		"phase": "Running", "podIP": address, "podIPs": []any{map[string]any{"ip": address}},
		"conditions": []any{map[string]any{"type": "Ready", "status": "True", "lastTransitionTime": time.Now().UTC().Format(time.RFC3339)}},
	}})
	if err != nil {
		return err
	}
	_, err = pods.Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: "player"}, "status")
	return err
}

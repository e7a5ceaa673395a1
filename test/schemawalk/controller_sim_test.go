package schemawalk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// controllerSim sets the status of children as if Kubernetes controllers had completed them. There is no
// controller-manager, because the pods and ReplicaSets of a thousand applications would cause most of the load and
// are not compared.
type controllerSim struct {
	client  dynamic.Interface
	logf    func(format string, args ...any)
	created sync.Map // the created claims and pods
	// addressCount counts the assigned pod addresses.
	addressCount atomic.Int32
}

// handle simulates the controllers of a child.
func (p *controllerSim) handle(ctx context.Context, resource string, o *unstructured.Unstructured) {
	client := p.client.Resource(childResources[resource]).Namespace(o.GetNamespace())
	var err error
	if o.GetDeletionTimestamp() != nil {
		if len(o.GetFinalizers()) > 0 { // the garbage collector deletes it
			_, err = client.Patch(ctx, o.GetName(), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		}
	} else if resource == claimResource {
		err = p.bindClaim(ctx, o)
	} else if err = errors.Join(p.createClaims(ctx, o), p.createDatabasePod(ctx, o)); err == nil {
		if status := completedStatus(o); status != nil && !statusContains(o.Object["status"], status) {
			body, _ := json.Marshal(map[string]any{"status": status})
			_, err = client.Patch(ctx, o.GetName(), types.MergePatchType, body, metav1.PatchOptions{FieldManager: "player"}, "status")
		}
	}
	if err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
		p.logf("simulate %s %s: %v", o.GetKind(), o.GetName(), err)
	}
}

// createClaims creates the PersistentVolumeClaims of a StatefulSet before its pods count as running.
func (p *controllerSim) createClaims(ctx context.Context, o *unstructured.Unstructured) error {
	if o.GetKind() != "StatefulSet" || strings.HasPrefix(o.GetName(), withoutClaimsPrefix) {
		return nil
	}
	pods, _, _ := unstructured.NestedInt64(o.Object, "spec", "replicas")
	labels, _, _ := unstructured.NestedStringMap(o.Object, "spec", "selector", "matchLabels")
	templates, _, _ := unstructured.NestedSlice(o.Object, "spec", "volumeClaimTemplates")
	for _, t := range templates {
		for i := range pods {
			template := unstructured.Unstructured{Object: t.(map[string]any)}
			claim := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": template.Object["spec"]}}
			claim.SetName(fmt.Sprintf("%s-%s-%d", template.GetName(), o.GetName(), i))
			claim.SetLabels(labels)
			if _, exists := p.created.Load(claim.GetName()); exists {
				continue
			}
			_, err := p.client.Resource(childResources[claimResource]).Namespace(o.GetNamespace()).Create(ctx, claim, metav1.CreateOptions{})
			if err != nil && !apierrors.IsAlreadyExists(err) {
				return err
			}
			p.created.Store(claim.GetName(), true)
		}
	}
	return nil
}

// bindClaim binds a claim to the volume that the storage simulator has created for it.
func (p *controllerSim) bindClaim(ctx context.Context, o *unstructured.Unstructured) error {
	client := p.client.Resource(childResources[claimResource]).Namespace(o.GetNamespace())
	if volume, _, _ := unstructured.NestedString(o.Object, "spec", "volumeName"); volume == "" {
		body := fmt.Appendf(nil, `{"spec":{"volumeName":"vol-%s"}}`, o.GetUID())
		_, err := client.Patch(ctx, o.GetName(), types.MergePatchType, body, metav1.PatchOptions{FieldManager: "player"})
		return err
	}
	if phase, _, _ := unstructured.NestedString(o.Object, "status", "phase"); phase == "Bound" {
		return nil
	}
	modes, _, _ := unstructured.NestedSlice(o.Object, "spec", "accessModes")
	size, _, _ := unstructured.NestedMap(o.Object, "spec", "resources", "requests")
	body, err := json.Marshal(map[string]any{"status": map[string]any{"phase": "Bound", "accessModes": modes, "capacity": size}})
	if err != nil {
		return err
	}
	_, err = client.Patch(ctx, o.GetName(), types.MergePatchType, body, metav1.PatchOptions{FieldManager: "player"}, "status")
	return err
}

// completedStatus returns the final status of a child, or nil if the operator does not wait for a status.
func completedStatus(o *unstructured.Unstructured) map[string]any {
	switch o.GetKind() {
	case "Deployment", "StatefulSet":
		n, _, _ := unstructured.NestedInt64(o.Object, "spec", "replicas")
		return map[string]any{"observedGeneration": o.GetGeneration(), "replicas": n, "updatedReplicas": n, "readyReplicas": n, "availableReplicas": n}
	case "Job":
		if done, _, _ := unstructured.NestedInt64(o.Object, "status", "succeeded"); done > 0 {
			return nil
		}
		now := time.Now().UTC().Format(time.RFC3339)
		condition := func(kind string) map[string]any {
			return map[string]any{"type": kind, "status": "True", "lastTransitionTime": now, "lastProbeTime": now}
		}
		return map[string]any{"succeeded": int64(1), "startTime": now, "completionTime": now, "ready": int64(0),
			"conditions": []any{condition("SuccessCriteriaMet"), condition("Complete")}}
	case "Service":
		if kind, _, _ := unstructured.NestedString(o.Object, "spec", "type"); kind == "LoadBalancer" {
			return map[string]any{"loadBalancer": map[string]any{"ingress": []any{map[string]any{"ip": "192.0.2.1", "ipMode": "VIP"}}}}
		}
	case "HTTPRoute":
		return map[string]any{"parents": acceptedParents(o)}
	}
	return nil
}

// acceptedParents returns the route status with all Gateways in state Accepted.
func acceptedParents(o *unstructured.Unstructured) []any {
	refs, _, _ := unstructured.NestedSlice(o.Object, "spec", "parentRefs")
	var out []any
	for _, ref := range refs {
		condition := func(kind string) map[string]any {
			return map[string]any{"type": kind, "status": "True", "reason": kind, "message": "", "observedGeneration": o.GetGeneration(),
				"lastTransitionTime": o.GetCreationTimestamp().UTC().Format(time.RFC3339)}
		}
		out = append(out, map[string]any{"parentRef": ref, "controllerName": "example.com/player",
			"conditions": []any{condition("Accepted"), condition("ResolvedRefs")}})
	}
	return out
}

// statusContains reports whether a status contains all wanted values. Zero values may be missing.
func statusContains(status any, want map[string]any) bool {
	got, _ := status.(map[string]any)
	for k, v := range want {
		if got[k] == nil && v == int64(0) {
			continue
		}
		if !reflect.DeepEqual(got[k], v) {
			return false
		}
	}
	return true
}

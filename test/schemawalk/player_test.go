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

// player says of children what Kubernetes' controllers would: done. There is no
// controller-manager, because pods and ReplicaSets of a thousand applications would be
// most of the work, and nothing of what is compared.
type player struct {
	client dynamic.Interface
	report func(format string, args ...any)
	made   sync.Map // the claims and pods that were made
	// addresses counts those of pods.
	addresses atomic.Int32
}

// play reacts to a child as it is now.
func (p *player) play(ctx context.Context, resource string, o *unstructured.Unstructured) {
	client := p.client.Resource(children[resource]).Namespace(o.GetNamespace())
	var err error
	if o.GetDeletionTimestamp() != nil {
		if len(o.GetFinalizers()) > 0 { // the garbage collector's part
			_, err = client.Patch(ctx, o.GetName(), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		}
	} else if resource == claims {
		err = p.bind(ctx, o)
	} else if err = errors.Join(p.claim(ctx, o), p.serve(ctx, o)); err == nil {
		if status := played(o); status != nil && !agrees(o.Object["status"], status) {
			body, _ := json.Marshal(map[string]any{"status": status})
			_, err = client.Patch(ctx, o.GetName(), types.MergePatchType, body, metav1.PatchOptions{FieldManager: "player"}, "status")
		}
	}
	if err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
		p.report("play %s %s: %v", o.GetKind(), o.GetName(), err)
	}
}

// claim makes what the pods of a StatefulSet need, before they are said to run.
func (p *player) claim(ctx context.Context, o *unstructured.Unstructured) error {
	if o.GetKind() != "StatefulSet" || strings.HasPrefix(o.GetName(), withoutClaims) {
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
			if _, before := p.made.Load(claim.GetName()); before {
				continue
			}
			_, err := p.client.Resource(children[claims]).Namespace(o.GetNamespace()).Create(ctx, claim, metav1.CreateOptions{})
			if err != nil && !apierrors.IsAlreadyExists(err) {
				return err
			}
			p.made.Store(claim.GetName(), true)
		}
	}
	return nil
}

// bind gives a claim the volume that the simulator of storage has made for it.
func (p *player) bind(ctx context.Context, o *unstructured.Unstructured) error {
	client := p.client.Resource(children[claims]).Namespace(o.GetNamespace())
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

// played is the status of a child whose controllers are done with it, nil if nobody waits
// for one.
func played(o *unstructured.Unstructured) map[string]any {
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
		return map[string]any{"parents": attached(o)}
	}
	return nil
}

// attached says that each Gateway has taken a route.
func attached(o *unstructured.Unstructured) []any {
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

// agrees says whether a status has all of what is to be said; a zero need not be there.
func agrees(status any, said map[string]any) bool {
	now, _ := status.(map[string]any)
	for k, v := range said {
		if now[k] == nil && v == int64(0) {
			continue
		}
		if !reflect.DeepEqual(now[k], v) {
			return false
		}
	}
	return true
}

package storage

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func makeBoundClaim(request, capacity, allocated string, status corev1.ClaimResourceStatus) *corev1.PersistentVolumeClaim {
	claim := makeClaim(request)
	claim.Spec.VolumeName = "pvc-7a1"
	claim.Status.Phase = corev1.ClaimBound
	claim.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(capacity)}
	if allocated != "" {
		claim.Status.AllocatedResources = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(allocated)}
	}
	if status != "" {
		claim.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{corev1.ResourceStorage: status}
	}
	return claim
}

func TestExpansionDue(t *testing.T) {
	unbound := makeClaim("2Gi")
	broken := faults{{"storage.holdfast.dev/fail-grow-node": "no"}}
	limited := faults{{"storage.holdfast.dev/max-size-node": "1536Mi"}}
	for name, tc := range map[string]struct {
		claim  *corev1.PersistentVolumeClaim
		faults faults
		want   bool
	}{
		"not bound":                                     {claim: unbound},
		"as large as requested":                         {claim: makeBoundClaim("1Gi", "1Gi", "", "")},
		"small request, rounded up":                     {claim: makeBoundClaim("200Mi", "300Mi", "", "")},
		"first expansion":                               {claim: makeBoundClaim("2Gi", "1Gi", "", ""), want: true},
		"second expansion":                              {claim: makeBoundClaim("3Gi", "2Gi", "2Gi", ""), want: true},
		"kubelet has not started":                       {claim: makeBoundClaim("2Gi", "1Gi", "2Gi", "NodeResizePending")},
		"kubelet is expanding":                          {claim: makeBoundClaim("2Gi", "1Gi", "2Gi", "NodeResizeInProgress")},
		"request raised while kubelet is expanding":     {claim: makeBoundClaim("3Gi", "1Gi", "2Gi", "NodeResizeInProgress")},
		"rejected earlier":                              {claim: makeBoundClaim("2Gi", "1Gi", "2Gi", "ControllerResizeInfeasible"), want: true},
		"interrupted by a restart":                      {claim: makeBoundClaim("2Gi", "1Gi", "2Gi", "ControllerResizeInProgress"), want: true},
		"infeasible on node, fault removed":             {claim: makeBoundClaim("2Gi", "1Gi", "2Gi", "NodeResizeInfeasible"), want: true},
		"infeasible on node, fault remains":             {claim: makeBoundClaim("2Gi", "1Gi", "2Gi", "NodeResizeInfeasible"), faults: broken},
		"infeasible on node, request lowered":           {claim: makeBoundClaim("1536Mi", "1Gi", "2Gi", "NodeResizeInfeasible"), faults: broken, want: true},
		"infeasible on node, limit remains":             {claim: makeBoundClaim("2Gi", "1Gi", "2Gi", "NodeResizeInfeasible"), faults: limited},
		"infeasible on node, now within the limit":      {claim: makeBoundClaim("1536Mi", "1Gi", "2Gi", "NodeResizeInfeasible"), faults: limited, want: true},
		"infeasible on node, request raised":            {claim: makeBoundClaim("3Gi", "1Gi", "2Gi", "NodeResizeInfeasible"), faults: broken, want: true},
		"infeasible on node, same size in another unit": {claim: makeBoundClaim("2048Mi", "1Gi", "2Gi", "NodeResizeInfeasible"), faults: broken},
		"infeasible on node, request reverted":          {claim: makeBoundClaim("1Gi", "1Gi", "2Gi", "NodeResizeInfeasible")},
	} {
		t.Run(name, func(t *testing.T) {
			if got := expansionDue(tc.claim, tc.faults); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestStatusPatches(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	claim := makeBoundClaim("2Gi", "1Gi", "3Gi", "NodeResizeInfeasible")
	claim.Status.Conditions = []corev1.PersistentVolumeClaimCondition{
		{Type: "ModifyingVolume", Status: "True"},
		{Type: "NodeResizeError", Status: "True", Message: "old"},
		{Type: "FileSystemResizePending", Status: "True"},
	}
	const others = `{"type":"ModifyingVolume","status":"True","lastProbeTime":null,"lastTransitionTime":null}`
	for name, tc := range map[string]struct {
		patch statusPatch
		want  string
	}{
		"pending": {
			patch: pendingPatch(claim, resource.MustParse("2Gi"), now),
			want: `{"metadata":{"resourceVersion":"12"},"status":{"conditions":[` + others + `,` +
				`{"type":"FileSystemResizePending","status":"True","lastProbeTime":null,"lastTransitionTime":"2026-03-01T12:00:00Z",` +
				`"message":"Waiting for user to (re-)start a pod to finish file system resize of volume on node."}],` +
				`"allocatedResources":{"storage":"2Gi"},"allocatedResourceStatuses":{"storage":"NodeResizePending"}}}`,
		},
		"infeasible": {
			patch: infeasiblePatch(claim, resource.MustParse("2Gi"), "no space", now),
			want: `{"metadata":{"resourceVersion":"12"},"status":{"conditions":[` + others + `,` +
				`{"type":"ControllerResizeError","status":"True","lastProbeTime":null,"lastTransitionTime":"2026-03-01T12:00:00Z",` +
				`"message":"no space"}],` +
				`"allocatedResources":{"storage":"2Gi"},"allocatedResourceStatuses":{"storage":"ControllerResizeInfeasible"}}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := string(mustMarshal(tc.patch)); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
	if len(claim.Status.Conditions) != 3 || claim.Status.Conditions[1].Type != "NodeResizeError" {
		t.Error("building a patch must not modify the cached claim")
	}
}

func TestInfeasibleReported(t *testing.T) {
	infeasible := makeBoundClaim("2Gi", "1Gi", "2Gi", "ControllerResizeInfeasible")
	infeasible.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{Type: "ControllerResizeError", Message: "no space"}}
	for name, tc := range map[string]struct {
		claim     *corev1.PersistentVolumeClaim
		size, msg string
		want      bool
	}{
		"already reported": {claim: infeasible, size: "2Gi", msg: "no space", want: true},
		"another size":     {claim: infeasible, size: "3Gi", msg: "no space"},
		"another message":  {claim: infeasible, size: "2Gi", msg: "quota"},
		"not reported":     {claim: makeBoundClaim("2Gi", "1Gi", "", ""), size: "2Gi", msg: "no space"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := infeasibleReported(tc.claim, resource.MustParse(tc.size), tc.msg); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

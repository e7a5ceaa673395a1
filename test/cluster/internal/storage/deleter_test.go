package storage

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestDisposalOf(t *testing.T) {
	for name, tc := range map[string]struct {
		phase   corev1.PersistentVolumePhase
		policy  corev1.PersistentVolumeReclaimPolicy
		deleted bool
		done    bool
		want    disposal
	}{
		"new":                      {phase: "Pending", policy: "Delete", want: disposalKeep},
		"bound":                    {phase: "Bound", policy: "Delete", want: disposalKeep},
		"bound and deleted":        {phase: "Bound", policy: "Delete", deleted: true, want: disposalKeep},
		"released":                 {phase: "Released", policy: "Delete", want: disposalDelete},
		"released and deleted":     {phase: "Released", policy: "Delete", deleted: true, want: disposalDelete},
		"failed and deleted":       {phase: "Failed", policy: "Delete", deleted: true, want: disposalDelete},
		"retained":                 {phase: "Released", policy: "Retain", want: disposalKeep},
		"retained and deleted":     {phase: "Released", policy: "Retain", deleted: true, want: disposalRelease},
		"deleted before it bound":  {phase: "Available", policy: "Delete", deleted: true, want: disposalDelete},
		"released, finalizer gone": {phase: "Released", policy: "Delete", done: true, want: disposalDelete},
		"deleted, finalizer gone":  {phase: "Released", policy: "Delete", deleted: true, done: true, want: disposalKeep},
		"retained, deleted, bound": {phase: "Bound", policy: "Retain", deleted: true, want: disposalKeep},
	} {
		t.Run(name, func(t *testing.T) {
			pv := &corev1.PersistentVolume{}
			if !tc.done {
				pv.Finalizers = []string{"storage.holdfast.dev/loop-file"}
			}
			pv.Status.Phase = tc.phase
			pv.Spec.PersistentVolumeReclaimPolicy = tc.policy
			if tc.deleted {
				now := metav1.Now()
				pv.DeletionTimestamp = &now
			}
			if got := disposalOf(pv); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}

func TestFinalizerPatch(t *testing.T) {
	for name, tc := range map[string]struct {
		finalizers []string
		want       string
	}{
		"only own":    {[]string{"storage.holdfast.dev/loop-file"}, `{"metadata":{"finalizers":[],"resourceVersion":"5"}}`},
		"with others": {[]string{"a/b", "storage.holdfast.dev/loop-file", "c/d"}, `{"metadata":{"finalizers":["a/b","c/d"],"resourceVersion":"5"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "5", Finalizers: tc.finalizers}}
			if got := string(finalizerPatch(pv)); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

package apply

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/ownership"
)

// TestOwnerMetadataIsRestored checks which lost metadata must be restored, and that our owner
// reference then exists once, next to those of others.
func TestOwnerMetadataIsRestored(t *testing.T) {
	owner := desired.Owner{Keys: appsapi.DefaultKeys, APIVersion: "apps.holdfast.dev/v1alpha1", Kind: "AppStack", Namespace: "shop", Name: "shop", UID: ownerUID}
	other := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "theirs", UID: "theirs"}
	cases := map[string]struct {
		change      func(*appsv1.ControllerRevision)
		ours, owned bool
	}{
		"nothing":                        {func(*appsv1.ControllerRevision) {}, true, true},
		"owner reference":                {func(r *appsv1.ControllerRevision) { r.OwnerReferences = nil }, true, false},
		"version of the owner reference": {func(r *appsv1.ControllerRevision) { r.OwnerReferences[0].APIVersion = "apps.holdfast.dev/v9" }, true, false},
		"controller flag":                {func(r *appsv1.ControllerRevision) { r.OwnerReferences[0].Controller = nil }, true, false},
		"label":                          {func(r *appsv1.ControllerRevision) { delete(r.Labels, appsapi.DefaultKeys.OwnerKind) }, true, false},
		"everything":                     {func(r *appsv1.ControllerRevision) { r.OwnerReferences, r.Labels = nil, nil }, false, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := desired.NewRevision(owner, "0123456789", nil, 1, nil)
			tc.change(r)
			if ownership.BelongsTo(owner, r) != tc.ours || ownership.HasOwnerMetadata(owner, r) != tc.owned {
				t.Errorf("belongs %t, has owner metadata %t", ownership.BelongsTo(owner, r), ownership.HasOwnerMetadata(owner, r))
			}
			want := []metav1.OwnerReference{other, desired.OwnerReference(owner)}
			if diff := cmp.Diff(want, withOwnerReference(owner, append(r.OwnerReferences, other))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

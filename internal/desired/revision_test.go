package desired

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

func TestNewRevision(t *testing.T) {
	want := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: RevisionName(stack, "0123456789"),
			Labels: map[string]string{
				"app.kubernetes.io/instance": "shop", "app.kubernetes.io/part-of": "shop", "app.kubernetes.io/managed-by": "holdfast",
				"apps.holdfast.dev/owner-kind": "AppStack", "apps.holdfast.dev/owner-uid": string(stack.UID),
			},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps.holdfast.dev/v1alpha1", Kind: "AppStack", Name: "shop", UID: stack.UID,
				Controller: new(true), BlockOwnerDeletion: new(true),
			}},
		},
		Data: runtime.RawExtension{Raw: []byte(`{}`)}, Revision: 3,
	}
	got := NewRevision(stack, "0123456789", []byte(`{}`), 3, nil)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("without jobs (-want +got):\n%s", diff)
	}
	if jobs := RevisionJobHashes(appsapi.DefaultKeys, got); jobs != nil {
		t.Errorf("got jobs %v, want none", jobs)
	}
	want.Annotations = map[string]string{"apps.holdfast.dev/job-spec": "a,b"}
	got = NewRevision(stack, "0123456789", []byte(`{}`), 3, []string{"a", "b"})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("with jobs (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a", "b"}, RevisionJobHashes(appsapi.DefaultKeys, got)); diff != "" {
		t.Errorf("jobs (-want +got):\n%s", diff)
	}
}

func TestRevisionNameDependsOnOwnerAndHash(t *testing.T) {
	recreated, long := stack, stack
	recreated.UID = "another"
	long.Name = strings.Repeat("n", 63)
	seen := map[string]bool{}
	for _, name := range []string{
		RevisionName(stack, "0123456789"), RevisionName(stack, "1123456789"), RevisionName(recreated, "0123456789"),
		RevisionName(long, "0123456789"),
	} {
		if seen[name] || len(name) > maxLabelLength {
			t.Errorf("%q is too long or used twice", name)
		}
		seen[name] = true
	}
	if got := RevisionName(stack, "0123456789"); !strings.HasPrefix(got, "shop-") || len(got) != len("shop-0123456789") {
		t.Errorf("got %q", got)
	}
}

func TestJobSpecHashesAreSortedAndUnique(t *testing.T) {
	got := JobSpecHashes([]Component{{JobSpecHash: "b"}, {}, {JobSpecHash: "a"}, {JobSpecHash: "b"}})
	if diff := cmp.Diff([]string{"a", "b"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

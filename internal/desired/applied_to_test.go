package desired

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

func TestAppliedToComparesTheHashOfItsOperator(t *testing.T) {
	theirs := appsapi.NewKeys("example.com", "theirs")
	c := appsapi.Component{Name: "web", Service: &appsapi.ServiceComponent{}}
	c.Service.Image = "shop/web:1"
	child := Build(Owner{Keys: theirs, Namespace: "shop", Name: "shop", UID: "us"}, ExpandComponents([]appsapi.Component{c}), ClusterState{})[0].Children[0]
	config, err := child.Render(nil)
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]bool{theirs.AppliedHash: true, appsapi.DefaultKeys.AppliedHash: false} {
		live := &metav1.ObjectMeta{Annotations: map[string]string{key: config.Hash()}}
		if got := config.AppliedTo(live); got != want {
			t.Errorf("hash in %s: applied = %t, want %t", key, got, want)
		}
	}
}

func TestExpandAddsPlainPasswords(t *testing.T) {
	got := ExpandComponents([]appsapi.Component{{Name: "db", Stateful: &appsapi.StatefulComponent{Credentials: []appsapi.Credential{{Key: "admin"}, {Key: "reader"}}}}},
		PlainPassword{Component: "db", Key: "admin", Value: "secret"}, PlainPassword{Component: "other", Key: "reader", Value: "wrong"})
	if c := got[0].Credentials; len(c) != 2 || c[0].Value != "secret" || c[1].Value != "" {
		t.Errorf("credentials: %+v", c)
	}
}

func TestRetainedClaimMetadataHasNoClaim(t *testing.T) {
	meta := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "data-db-0", Labels: map[string]string{appsapi.DefaultKeys.Workload: "statefulset-db"}}}
	got := RetainedClaimMetadata(appsapi.DefaultKeys, meta)
	whole := RetainedClaim(appsapi.DefaultKeys, &corev1.PersistentVolumeClaim{ObjectMeta: meta.ObjectMeta})
	if got.ID != whole.ID || got.WorkloadID() != "statefulset-db" || got.Claim != nil {
		t.Errorf("%+v", got)
	}
}

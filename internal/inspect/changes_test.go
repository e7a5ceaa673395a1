package inspect

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

func TestRecentChanges(t *testing.T) {
	at := func(second int64) metav1.Time { return metav1.NewTime(time.Unix(second, 0)) }
	managedBy := func(by, subresource string, second int64) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: by, Subresource: subresource, Time: new(at(second))}
	}
	owned := []metav1.OwnerReference{{UID: "shop"}}
	app := &appsapi.AppStack{ObjectMeta: metav1.ObjectMeta{Name: "shop", UID: "shop", CreationTimestamp: at(10), ManagedFields: []metav1.ManagedFieldsEntry{
		managedBy("kubectl-create", "", 10), managedBy("kubectl-edit", "", 50), managedBy("holdfast", "", 60), managedBy("holdfast-status", "status", 70),
	}}}
	web := &appsv1.Deployment{TypeMeta: metav1.TypeMeta{Kind: "Deployment"}, ObjectMeta: metav1.ObjectMeta{
		Name: "shop-web", CreationTimestamp: at(11), OwnerReferences: owned, ManagedFields: []metav1.ManagedFieldsEntry{
			managedBy("holdfast", "", 11), managedBy("helm", "", 80), managedBy("kube-controller-manager", "scale", 90), managedBy("kube-controller-manager", "status", 99),
		}}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "shop-web-1", ManagedFields: []metav1.ManagedFieldsEntry{managedBy("kubectl-label", "", 95)}}}
	var got []string
	for _, c := range recentChanges(Input{App: app, Kind: "AppStack", Objects: []runtime.Object{web, pod}}) {
		got = append(got, c.Object.Kind+" "+c.Object.Name+" by "+c.Manager)
	}
	want := []string{"Deployment shop-web by kube-controller-manager", "Deployment shop-web by helm", "AppStack shop by kubectl-edit"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

package execute

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/apply"
	"github.com/holdfast-dev/holdfast/internal/childkind"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

// The operator deletes a ready StatefulSet, without its pods, to create it again. The deleted
// StatefulSet must not count as ready.
func TestComponentIsNotReadyWhileItsStatefulSetIsRecreated(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, appsapi.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	app := &appsapi.AppStack{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "shop", UID: "app", Generation: 1}}
	id := desired.ID{Kind: desired.KindStatefulSet, Name: "shop-db"}
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "shop-db", UID: "set", Generation: 1, OwnerReferences: []metav1.OwnerReference{
			{APIVersion: appsapi.GroupVersion.String(), Kind: "AppStack", Name: "shop", UID: "app", Controller: new(true)}}},
		Spec:   appsv1.StatefulSetSpec{Replicas: new(int32(1))},
		Status: appsv1.StatefulSetStatus{ObservedGeneration: 1, Replicas: 1, ReadyReplicas: 1, AvailableReplicas: 1, UpdatedReplicas: 1},
	}
	server := fake.NewClientBuilder().WithScheme(scheme).WithObjects(app, set).Build()
	e := &Executor{Kind: stackKind, ChildKinds: childkind.All, Cache: server, APIReader: server, Writer: apply.New(server, server, server, clock.RealClock{})}
	s := NewScope(app, desired.Owner{Keys: appsapi.DefaultKeys, APIVersion: appsapi.GroupVersion.String(), Kind: "AppStack", Namespace: "shop", Name: "shop", UID: "app"})
	s.Components = []desired.Component{{Name: "db", Workload: id, Children: []desired.Child{{ID: id}}}}
	s.Children = rollout.Observed{id: set}
	s.Plan = rollout.Plan{Steps: []rollout.Step{{Component: "db", Data: &rollout.DataPlan{RecreateStatefulSet: true}}}}
	e.changeVolumes(t.Context(), s)
	if len(s.ChildErrs) > 0 {
		t.Fatal(s.ChildErrs)
	}
	if s.Child(id) != nil {
		t.Error("the deleted StatefulSet still counts as a child")
	}
}

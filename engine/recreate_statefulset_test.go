package engine

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
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/health"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

// A StatefulSet that the operator has just deleted, to create it again around its pods, was ready.
// The application must not be Ready because of it.
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
	r := &reconciler[*appsapi.AppStack]{
		kind: Kind[*appsapi.AppStack]{New: func() *appsapi.AppStack { return &appsapi.AppStack{} }}, gvk: appsapi.GroupVersion.WithKind("AppStack"),
		client: server, cache: server, apiReader: server, applier: apply.New(server, server, server, clock.RealClock{}),
	}
	owner := desired.Owner{APIVersion: appsapi.GroupVersion.String(), Kind: "AppStack", Namespace: "shop", Name: "shop", UID: "app"}
	component := desired.Component{Name: "db", Workload: id, Children: []desired.Child{{ID: id}}}
	res := newResult("shop", rollout.Observed{id: set})
	if got := childrenHealth(component, &res); got.Status != health.Healthy {
		t.Fatalf("before, the component is %s: %s", got.Status, got.Message)
	}
	plan := rollout.Plan{Steps: []rollout.Step{{Component: "db", Data: &rollout.DataPlan{RecreateStatefulSet: true}}}}
	r.expandVolumes(t.Context(), app, owner, &observed{components: []desired.Component{component}}, plan, &res)
	if len(res.childErrs) > 0 {
		t.Fatal(res.childErrs)
	}
	if got := childrenHealth(component, &res); got.Status != health.Progressing {
		t.Errorf("the component is %s although its StatefulSet was deleted: %s", got.Status, got.Message)
	}
}

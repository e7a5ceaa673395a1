package bench

import (
	"encoding/json"
	"maps"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// verifySameChildren checks that a contender creates the same Deployment and Service as the operator: a smaller
// Deployment makes every write cheaper, also for the controller-manager. Annotations for the operator's own use are not
// required, additional labels are allowed, and one label may have another value.
func (s *harness) verifySameChildren(bodies *requestBodies) {
	s.Helper()
	app := s.kind.newObject(0)
	s.must(s.Get(s.Context(), client.ObjectKeyFromObject(app), app))
	// The same name in another namespace, so that the objects are equal.
	const otherNamespace = "default"
	reference := bodies.forApp(&appsapi.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: otherNamespace, Name: app.GetName(), UID: app.GetUID()}})
	kube, dryRun := newBareClient(s, bodies).kube, operatorApplyOptions
	dryRun.DryRun = []string{metav1.DryRunAll}

	want, err := kube.AppsV1().Deployments(otherNamespace).Patch(s.Context(), app.GetName(), types.ApplyPatchType, []byte(reference.deployment), dryRun)
	s.must(err)
	delete(want.Spec.Template.Annotations, appsapi.DefaultKeys.ConfigHash)
	have := &appsv1.Deployment{}
	s.must(s.Get(s.Context(), client.ObjectKeyFromObject(app), have))
	s.compareObjects(want, want.Spec, have, have.Spec)

	wantService, err := kube.CoreV1().Services(otherNamespace).Patch(s.Context(), app.GetName(), types.ApplyPatchType, []byte(reference.service), dryRun)
	s.must(err)
	haveService := &corev1.Service{}
	s.must(s.Get(s.Context(), client.ObjectKeyFromObject(app), haveService))
	for _, service := range []*corev1.Service{wantService, haveService} {
		service.Spec.ClusterIP, service.Spec.ClusterIPs = "", nil
	}
	s.compareObjects(wantService, wantService.Spec, haveService, haveService.Spec)
}

func (s *harness) compareObjects(want client.Object, wantSpec any, have client.Object, haveSpec any) {
	s.Helper()
	labels := have.GetLabels()
	if _, ok := labels[appsapi.LabelManagedBy]; ok { // some contenders set their own name there
		labels[appsapi.LabelManagedBy] = want.GetLabels()[appsapi.LabelManagedBy]
	}
	maps.DeleteFunc(labels, func(key, _ string) bool { _, desired := want.GetLabels()[key]; return !desired })
	if diff := cmp.Diff(want.GetLabels(), labels); diff != "" {
		s.Errorf("labels of %T %s differ from those of Holdfast:\n%s", have, have.GetName(), diff)
	}
	if diff := cmp.Diff(s.toJSONMap(wantSpec), s.toJSONMap(haveSpec)); diff != "" {
		s.Errorf("%T %s differs from that of Holdfast:\n%s", have, have.GetName(), diff)
	}
}

// toJSONMap converts to the API server's encoding, in which empty and unset are equal.
func (s *harness) toJSONMap(spec any) (out map[string]any) {
	s.Helper()
	content, err := json.Marshal(spec)
	s.must(err)
	s.must(json.Unmarshal(content, &out))
	return out
}

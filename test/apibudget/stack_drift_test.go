package apibudget

import (
	"reflect"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func newJob(meta metav1.ObjectMeta) client.Object { return &batchv1.Job{ObjectMeta: meta} }
func newRevision(meta metav1.ObjectMeta) client.Object {
	return &appsv1.ControllerRevision{ObjectMeta: meta}
}

// stackDrifts returns drifts of objects that an AppService does not have: other components, a Job, revisions. A
// deleted Job runs again. A removed health mark and a deleted revision are restored.
func stackDrifts() []drift {
	all := []drift{
		{name: "Deployment of api: image", component: "api", newChild: newDeployment, allowed: podChurn, change: func(o client.Object) {
			o.(*appsv1.Deployment).Spec.Template.Spec.Containers[0].Image = "other/api:9"
		}},
		{name: "Deployment of lone: replicas", component: "lone", newChild: newDeployment, allowed: podChurn, change: func(o client.Object) {
			o.(*appsv1.Deployment).Spec.Replicas = new(int32(2))
		}},
		{name: "Service of web: selector", component: "web", newChild: newService, change: func(o client.Object) {
			o.(*corev1.Service).Spec.Selector = map[string]string{"app": "other"}
		}},
		{name: "Service of api: deleted", component: "api", newChild: newService, allowed: requestCounts{events: 1, reads: 2}},
		{name: "Job: label changed", component: "migrate", newChild: newJob, change: changeLabel("app.kubernetes.io/part-of", "other")},
		{name: "Job: deleted", component: "migrate", newChild: newJob, allowed: requestCounts{status: 2, events: 2, reads: 2}},
		{name: "revision: mark removed", newChild: newRevision, required: requestCounts{healthyMarks: 1}, change: func(o client.Object) {
			delete(o.GetAnnotations(), "apps.holdfast.dev/revision-healthy")
		}},
		// One read checks that the stack still exists before the revision is recreated.
		{name: "revision: deleted", newChild: newRevision, required: requestCounts{revisions: 1, healthyMarks: 1}, allowed: requestCounts{reads: 1}},
	}
	for i := range all {
		all[i].name = "stack, " + all[i].name
	}
	return all
}

// stackDriftTargets returns the children of stacks with drift.
func (s *harness) stackDriftTargets() []driftTarget {
	s.Helper()
	objectsByKind := s.stackObjects()
	return s.driftTargets(stackDrifts(), s.stackNames(), func(d drift, app string) client.Object {
		for _, objects := range objectsByKind {
			for _, obj := range objects {
				l := obj.GetLabels()
				if reflect.TypeOf(obj) == reflect.TypeOf(d.newChild(metav1.ObjectMeta{})) &&
					l["app.kubernetes.io/instance"] == app && l["app.kubernetes.io/component"] == d.component {
					return obj
				}
			}
		}
		s.Fatalf("%s has no child for the drift %q", app, d.name)
		return nil
	})
}

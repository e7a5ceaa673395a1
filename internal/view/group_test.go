package view_test

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// foreign is an object of ours as Helm would have made it: nothing of ours is left but the
// labels that selectors need, under other names.
func foreign(obj runtime.Object) runtime.Object {
	obj = obj.DeepCopyObject()
	o := obj.(metav1.Object)
	labels := map[string]string{}
	for k, v := range o.GetLabels() {
		if !strings.Contains(k, "holdfast") && k != appsapi.LabelManagedBy && k != appsapi.LabelPartOf {
			labels[k] = v
		}
	}
	o.SetLabels(labels)
	if ref := metav1.GetControllerOf(o); ref != nil && ref.Kind == "AppStack" {
		o.SetOwnerReferences(nil)
		o.SetAnnotations(map[string]string{"meta.helm.sh/release-name": "shop", "meta.helm.sh/release-namespace": "demo"})
	}
	return obj
}

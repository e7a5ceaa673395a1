package inspect

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/explain"
)

// maxChanges is how many changes are told.
const maxChanges = 5

// Change says who last wrote an object, as the API server recorded it: that something stopped
// working is most often because somebody changed something.
type Change struct {
	Object explain.ObjectRef
	// Manager is the field manager.
	Manager string
	Time    time.Time
}

// recentChanges are the newest ones to what was declared, and by whom: the application itself, and
// what others than the operator wrote into its children.
func recentChanges(in Input) []Change {
	all := objectChanges(explain.ObjectRef{Kind: in.Kind, Namespace: in.App.GetNamespace(), Name: in.App.GetName(), UID: in.App.GetUID()}, in.App)
	for _, obj := range in.Objects {
		if child, ok := obj.(metav1.Object); ok && isDeclaredChild(in, child) {
			all = append(all, objectChanges(newObjectRef(obj), child)...)
		}
	}
	return latestChanges(all)
}

// recentRootChanges are those of objects that nobody else made.
func recentRootChanges(roots []runtime.Object) []Change {
	var all []Change
	for _, obj := range roots {
		all = append(all, objectChanges(newObjectRef(obj), obj.(metav1.Object))...)
	}
	return latestChanges(all)
}

// objectChanges are those of one object. What controllers write into the status is no change, and
// neither is what made the object.
func objectChanges(o explain.ObjectRef, obj metav1.Object) []Change {
	var all []Change
	for _, m := range obj.GetManagedFields() {
		if m.Subresource != "" && m.Subresource != "scale" || m.Time == nil || isOperatorManager(m.Manager) {
			continue
		}
		if m.Time.Time.Equal(obj.GetCreationTimestamp().Time) {
			continue
		}
		all = append(all, Change{Object: o, Manager: m.Manager, Time: m.Time.Time})
	}
	return all
}

func latestChanges(all []Change) []Change {
	slices.SortStableFunc(all, func(a, b Change) int {
		return cmp.Or(b.Time.Compare(a.Time), cmp.Compare(a.Object.Kind, b.Object.Kind), cmp.Compare(a.Object.Name, b.Object.Name), cmp.Compare(a.Manager, b.Manager))
	})
	return all[:min(len(all), maxChanges)]
}

// isDeclaredChild says whether an object is one that the application declares: of pods and what else
// controllers make nobody wants to hear.
func isDeclaredChild(in Input, child metav1.Object) bool {
	return slices.ContainsFunc(child.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.UID == in.App.GetUID() })
}

func isOperatorManager(manager string) bool {
	return manager == appsapi.FieldManager || manager == appsapi.FieldManagerStatus
}

package inspect

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/appkind"
	"github.com/holdfast-dev/holdfast/internal/explain"
)

// maxChanges limits the reported changes.
const maxChanges = 5

// Change is the last write of a field manager to an object, as recorded in managedFields. Recent changes
// are the most frequent reason for problems.
type Change struct {
	Object explain.ObjectRef
	// Manager is the field manager.
	Manager string
	Time    time.Time
}

// recentChanges returns the newest changes to the application and to its children by field managers other
// than the operator.
func recentChanges(in Input) []Change {
	all := objectChanges(appRef(in), in.App)
	for _, obj := range in.Objects {
		if child, ok := obj.(metav1.Object); ok && isDeclaredChild(in, child) {
			all = append(all, objectChanges(newObjectRef(obj), child)...)
		}
	}
	return latestChanges(all)
}

// recentRootChanges returns the newest changes to the roots of an unmanaged application.
func recentRootChanges(roots []runtime.Object) []Change {
	var all []Change
	for _, obj := range roots {
		all = append(all, objectChanges(newObjectRef(obj), obj.(metav1.Object))...)
	}
	return latestChanges(all)
}

// objectChanges returns the changes to one object. Status updates and the creation do not count.
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

// isDeclaredChild reports whether an object is a child of the application. Changes to pods and other
// objects created by controllers are not of interest.
func isDeclaredChild(in Input, child metav1.Object) bool {
	return slices.ContainsFunc(child.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.UID == in.App.GetUID() })
}

func isOperatorManager(manager string) bool {
	return slices.ContainsFunc(appkind.AllKeys(), func(k *appsapi.Keys) bool { return manager == k.FieldManager || manager == k.FieldManagerStatus })
}

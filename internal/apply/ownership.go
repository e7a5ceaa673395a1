package apply

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
)

// NameConflict is an object of somebody else with the name of a child.
type NameConflict struct {
	Child     desired.ID
	Namespace string
	// Why says whose it is and what to do about it.
	Why string
	// refused is set when its owner would let us in: an edit of the spec may end that.
	refused bool
}

func (c *NameConflict) Error() string {
	return fmt.Sprintf("%s %s/%s %s", c.Child.Kind.Kind, c.Namespace, c.Child.Name, c.Why)
}

// Leaving is a child that is on its way out: it cannot be held, only replaced.
type Leaving struct {
	Child     desired.ID
	Namespace string
	Why       string
}

func (l *Leaving) Error() string {
	return fmt.Sprintf("%s %s/%s %s", l.Child.Kind.Kind, l.Namespace, l.Child.Name, l.Why)
}

// claim says whether we may write an object that exists, and whether it was not ours
// before.
func claim(owner desired.Owner, id desired.ID, live client.Object) (adopting bool, err error) {
	ref := metav1.GetControllerOfNoCopy(live)
	switch {
	case ref != nil && ref.UID == owner.UID, ref == nil && live.GetLabels()[appsapi.LabelOwnerUID] == string(owner.UID):
		if live.GetDeletionTimestamp() != nil {
			return false, &Leaving{Child: id, Namespace: owner.Namespace, Why: leavingWhy(live)}
		}
		return false, nil
	case ref != nil && ref.Kind == owner.Kind && ref.Name == owner.Name && group(ref.APIVersion) == group(owner.APIVersion):
		return false, &Leaving{Child: id, Namespace: owner.Namespace, Why: fmt.Sprintf(
			"still belongs to the deleted %s of the same name and is being removed by the garbage collector", owner.Kind)}
	case ref != nil:
		return false, conflict(owner, id, fmt.Sprintf("belongs to %s %q and is left alone; rename %s %q, or that one",
			ref.Kind, ref.Name, owner.Kind, owner.Name))
	case live.GetAnnotations()[appsapi.AnnotationAdopt] == "true":
		return true, nil
	}
	whose := "exists and is not Holdfast's"
	if l := live.GetLabels(); l[appsapi.LabelOwnerUID] != "" {
		whose = fmt.Sprintf("was left behind by another %s %q", l[appsapi.LabelOwnerKind], l[appsapi.LabelInstance])
	}
	return false, conflict(owner, id, fmt.Sprintf("%s, so it is left alone; delete it, choose another name, or hand it over: "+
		"kubectl annotate %s %s -n %s %s=true", whose, strings.ToLower(id.Kind.Kind), id.Name, owner.Namespace, appsapi.AnnotationAdopt))
}

func leavingWhy(live client.Object) string {
	if f := live.GetFinalizers(); len(f) > 0 {
		return "is being deleted and waits for " + strings.Join(f, ", ")
	}
	return "is being deleted"
}

func group(apiVersion string) string {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return apiVersion
	}
	return gv.Group
}

func conflict(owner desired.Owner, id desired.ID, why string) *NameConflict {
	return &NameConflict{Child: id, Namespace: owner.Namespace, Why: why}
}

// ownerLives asks the API server before a child is made again or gets its reference back:
// is the owner still there, and its spec the one that we know? When an owner is deleted its
// children go, or lose their references to be kept, and our cache may see that before it
// sees why.
func (a *Applier) ownerLives(ctx context.Context, owner desired.Owner, id desired.ID) error {
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind))
	err := a.live.Get(ctx, client.ObjectKey{Namespace: owner.Namespace, Name: owner.Name}, live)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("get %s %s/%s: %w", owner.Kind, owner.Namespace, owner.Name, err)
	}
	if live.UID != owner.UID || live.DeletionTimestamp != nil || owner.Generation != 0 && live.Generation != owner.Generation {
		return stale(owner, id)
	}
	return nil
}

package own

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
)

// NameConflict is an object of somebody else with the name of a child.
type NameConflict struct {
	Child     desired.ID
	Namespace string
	// Why says whose it is and what to do about it.
	Why string
	// Refused is set when its owner would let us in: an edit of the spec may end that.
	Refused bool
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

// Claim says whether we may write an object that exists, and whether it was not ours
// before.
func Claim(owner desired.Owner, id desired.ID, live Object) (adopting bool, err error) {
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
		return false, Conflict(owner, id, fmt.Sprintf("belongs to %s %q and is left alone; rename %s %q, or that one",
			ref.Kind, ref.Name, owner.Kind, owner.Name))
	case live.GetAnnotations()[appsapi.AnnotationAdopt] == "true":
		return true, nil
	}
	whose := "exists and is not Holdfast's"
	if l := live.GetLabels(); l[appsapi.LabelOwnerUID] != "" {
		whose = fmt.Sprintf("was left behind by another %s %q", l[appsapi.LabelOwnerKind], l[appsapi.LabelInstance])
	}
	return false, Conflict(owner, id, fmt.Sprintf("%s, so it is left alone; delete it, choose another name, or hand it over: "+
		"kubectl annotate %s %s -n %s %s=true", whose, strings.ToLower(id.Kind.Kind), id.Name, owner.Namespace, appsapi.AnnotationAdopt))
}

func leavingWhy(live Object) string {
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

// Conflict is one about a child.
func Conflict(owner desired.Owner, id desired.ID, why string) *NameConflict {
	return &NameConflict{Child: id, Namespace: owner.Namespace, Why: why}
}

// Ours says whether an object belongs to an application: by its reference or, if somebody
// took that away, by its label.
func Ours(owner desired.Owner, obj metav1.Object) bool {
	ref := metav1.GetControllerOfNoCopy(obj)
	return ref != nil && ref.UID == owner.UID || ref == nil && obj.GetLabels()[appsapi.LabelOwnerUID] == string(owner.UID)
}

// Owned says whether an object of ours has everything that says so.
func Owned(owner desired.Owner, obj metav1.Object) bool {
	return ownerHeld(owner, obj) && contains(obj.GetLabels(), desired.OwnerLabels(owner))
}

// ClaimTaken is a claim of somebody else with the name of one that new pods would use.
func ClaimTaken(owner desired.Owner, name string) *NameConflict {
	return Conflict(owner, desired.ID{Kind: desired.KindClaim, Name: name}, fmt.Sprintf(
		"exists and is not Holdfast's, so no pod is started with it; delete it, give the component another name, or hand it over: kubectl annotate pvc %s -n %s %s=true",
		name, owner.Namespace, appsapi.AnnotationAdopt))
}

// MissingSource is a Secret, or a key of one, that a password was to be copied from.
type MissingSource struct{ Why string }

func (m *MissingSource) Error() string { return m.Why }

// NoSource says that there is no Secret to copy a credential from.
func NoSource(owner desired.Owner, c appsapi.Credential) *MissingSource {
	return &MissingSource{fmt.Sprintf("Secret %s/%s, from which the credential %q is copied, does not exist; create it", owner.Namespace, c.SecretRef.Name, c.Key)}
}

// LostCredential is a password that data is opened with, and that is gone.
type LostCredential struct{ Why string }

func (l *LostCredential) Error() string { return l.Why }

// Lost says that a Secret lacks a password that cannot be made again.
func Lost(owner desired.Owner, secret, key string) *LostCredential {
	return &LostCredential{fmt.Sprintf("Secret %s/%s has nothing under the key %q, and there is data that only this password opens, so no new one is made. "+
		`Add it: kubectl patch secret %s -n %s -p '{"stringData":{"%s":"..."}}'`,
		owner.Namespace, secret, key, secret, owner.Namespace, key)}
}

// UnknownKind is a child of a kind that the cluster does not know.
type UnknownKind struct {
	Child     desired.ID
	Namespace string
}

func (u *UnknownKind) Error() string {
	hint := ""
	if u.Child.Kind == desired.KindRoute {
		hint = "; install the Gateway API, or use expose.ingressClassName instead of expose.gatewayRef"
	}
	return fmt.Sprintf("%s %s/%s cannot be created, because the cluster does not know the kind %s of %s%s",
		u.Child.Kind.Kind, u.Namespace, u.Child.Name, u.Child.Kind.Kind, u.Child.Kind.GroupVersion(), hint)
}

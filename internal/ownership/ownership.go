package ownership

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
	// Message says whose it is and what to do about it.
	Message string
	// Incompatible is set when its owner would let us in: an edit of the spec may end that.
	Incompatible bool
}

func (c *NameConflict) Error() string {
	return fmt.Sprintf("%s %s/%s %s", c.Child.Kind.Kind, c.Namespace, c.Child.Name, c.Message)
}

// Terminating is a child that is on its way out: it cannot be held, only replaced.
type Terminating struct {
	Child     desired.ID
	Namespace string
	Message   string
}

func (l *Terminating) Error() string {
	return fmt.Sprintf("%s %s/%s %s", l.Child.Kind.Kind, l.Namespace, l.Child.Name, l.Message)
}

// CheckOwnership says whether we may write an object that exists, and whether it was not ours
// before.
func CheckOwnership(owner desired.Owner, id desired.ID, live Object) (adopting bool, err error) {
	ref := metav1.GetControllerOfNoCopy(live)
	switch {
	case ref != nil && ref.UID == owner.UID, ref == nil && live.GetLabels()[appsapi.LabelOwnerUID] == string(owner.UID):
		if live.GetDeletionTimestamp() != nil {
			return false, &Terminating{Child: id, Namespace: owner.Namespace, Message: terminatingMessage(live)}
		}
		return false, nil
	case ref != nil && ref.Kind == owner.Kind && ref.Name == owner.Name && group(ref.APIVersion) == group(owner.APIVersion):
		return false, &Terminating{Child: id, Namespace: owner.Namespace, Message: fmt.Sprintf(
			"still belongs to the deleted %s of the same name and is being removed by the garbage collector", owner.Kind)}
	case ref != nil:
		return false, NewNameConflict(owner, id, fmt.Sprintf("belongs to %s %q and is left alone; rename %s %q, or that one",
			ref.Kind, ref.Name, owner.Kind, owner.Name))
	case live.GetAnnotations()[appsapi.AnnotationAdopt] == "true":
		return true, nil
	}
	origin := "exists and is not Holdfast's"
	if l := live.GetLabels(); l[appsapi.LabelOwnerUID] != "" {
		origin = fmt.Sprintf("was left behind by another %s %q", l[appsapi.LabelOwnerKind], l[appsapi.LabelInstance])
	}
	return false, NewNameConflict(owner, id, fmt.Sprintf("%s, so it is left alone; delete it, choose another name, or hand it over: "+
		"kubectl annotate %s %s -n %s %s=true", origin, strings.ToLower(id.Kind.Kind), id.Name, owner.Namespace, appsapi.AnnotationAdopt))
}

func terminatingMessage(live Object) string {
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

// NewNameConflict is one about a child.
func NewNameConflict(owner desired.Owner, id desired.ID, message string) *NameConflict {
	return &NameConflict{Child: id, Namespace: owner.Namespace, Message: message}
}

// BelongsTo says whether an object belongs to an application: by its reference or, if somebody
// took that away, by its label.
func BelongsTo(owner desired.Owner, obj metav1.Object) bool {
	ref := metav1.GetControllerOfNoCopy(obj)
	return ref != nil && ref.UID == owner.UID || ref == nil && obj.GetLabels()[appsapi.LabelOwnerUID] == string(owner.UID)
}

// HasOwnerMetadata says whether an object of ours has everything that says so.
func HasOwnerMetadata(owner desired.Owner, obj metav1.Object) bool {
	return ownerReferenceMatches(owner, obj) && containsAll(obj.GetLabels(), desired.OwnerLabels(owner))
}

// NewClaimNameConflict is a claim of somebody else with the name of one that new pods would use.
func NewClaimNameConflict(owner desired.Owner, name string) *NameConflict {
	return NewNameConflict(owner, desired.ID{Kind: desired.KindClaim, Name: name}, fmt.Sprintf(
		"exists and is not Holdfast's, so no pod is started with it; delete it, give the component another name, or hand it over: kubectl annotate pvc %s -n %s %s=true",
		name, owner.Namespace, appsapi.AnnotationAdopt))
}

// CredentialSourceError is a Secret, or a key of one, that a password was to be copied from.
type CredentialSourceError struct{ Message string }

func (m *CredentialSourceError) Error() string { return m.Message }

// NewMissingCredentialSecret says that there is no Secret to copy a credential from.
func NewMissingCredentialSecret(owner desired.Owner, c appsapi.Credential) *CredentialSourceError {
	return &CredentialSourceError{fmt.Sprintf("Secret %s/%s, from which the credential %q is copied, does not exist; create it", owner.Namespace, c.SecretRef.Name, c.Key)}
}

// LostCredential is a password that data is opened with, and that is gone.
type LostCredential struct{ Message string }

func (l *LostCredential) Error() string { return l.Message }

// NewLostCredential says that a Secret lacks a password that cannot be made again.
func NewLostCredential(owner desired.Owner, secret, key string) *LostCredential {
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

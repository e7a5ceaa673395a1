package ownership

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
)

// NameConflict is an object of another owner with the name of a child.
type NameConflict struct {
	Child     desired.ID
	Namespace string
	// Message names the owner and the next step.
	Message string
	// Incompatible is set if the object may be adopted, but does not fit the spec: an edit of the
	// spec may resolve it.
	Incompatible bool
	// Unmanaged is set if the object has no owner, so that a user can allow its adoption.
	Unmanaged bool
}

func (c *NameConflict) Error() string {
	return fmt.Sprintf("%s %s/%s %s", c.Child.Kind.Kind, c.Namespace, c.Child.Name, c.Message)
}

// Terminating is a child that is being deleted: it cannot be updated, only recreated.
type Terminating struct {
	Child     desired.ID
	Namespace string
	Message   string
}

func (l *Terminating) Error() string {
	return fmt.Sprintf("%s %s/%s %s", l.Child.Kind.Kind, l.Namespace, l.Child.Name, l.Message)
}

// CheckOwnership returns an error if a live object must not be written. adopting is set if it did
// not belong to the application before.
func CheckOwnership(owner desired.Owner, id desired.ID, live metav1.Object) (adopting bool, err error) {
	ref := metav1.GetControllerOfNoCopy(live)
	switch {
	case ref != nil && ref.UID == owner.UID, ref == nil && live.GetLabels()[owner.Keys.OwnerUID] == string(owner.UID):
		if live.GetDeletionTimestamp() != nil {
			return false, &Terminating{Child: id, Namespace: owner.Namespace, Message: terminatingMessage(live)}
		}
		return false, nil
	case ref != nil && ref.Kind == owner.Kind && ref.Name == owner.Name && group(ref.APIVersion) == group(owner.APIVersion):
		return false, &Terminating{Child: id, Namespace: owner.Namespace, Message: fmt.Sprintf(
			"is still controlled by the deleted %s of the same name; waiting for the garbage collector to delete it", owner.Kind)}
	case ref != nil:
		return false, NewNameConflict(owner, id, fmt.Sprintf("is controlled by %s %q; rename that object or %s %q",
			ref.Kind, ref.Name, owner.Kind, owner.Name))
	case live.GetAnnotations()[owner.Keys.Adopt] == "true":
		return true, nil
	}
	if l := live.GetLabels(); l[owner.Keys.OwnerUID] != "" {
		return false, NewNameConflict(owner, id, fmt.Sprintf("was created by another %s %q; delete it, choose another name, or allow adoption of all its objects "+
			"(checked again within 30 s): kubectl annotate %s -n %s -l %s=%s %s=true", l[owner.Keys.OwnerKind], l[appsapi.LabelInstance],
			adoptableResources, owner.Namespace, owner.Keys.OwnerUID, l[owner.Keys.OwnerUID], owner.Keys.Adopt))
	}
	conflict := NewNameConflict(owner, id, fmt.Sprintf("exists and is not managed by Holdfast; delete it, choose another name, or allow adoption "+
		"(checked again within 30 s): kubectl annotate %s %s -n %s %s=true", strings.ToLower(id.Kind.Kind), id.Name, owner.Namespace, owner.Keys.Adopt))
	conflict.Unmanaged = true
	return false, conflict
}

// adoptableResources are the children that a deletion with --cascade=orphan leaves behind in every cluster. Routes are
// missing, because kubectl fails if the cluster does not serve a kind.
const adoptableResources = "deployments,statefulsets,jobs,cronjobs,services,configmaps,poddisruptionbudgets,horizontalpodautoscalers,ingresses"

// maxListedConflicts limits the length of the message. Users find the others in the next message.
const maxListedConflicts = 10

// UnmanagedMessage returns one message for several unmanaged objects, with one command.
func UnmanagedMessage(owner desired.Owner, conflicts []*NameConflict) string {
	more := ""
	if n := len(conflicts) - maxListedConflicts; n > 0 {
		conflicts, more = conflicts[:maxListedConflicts], fmt.Sprintf(" and %d more", n)
	}
	var objects, args []string
	for _, c := range conflicts {
		objects = append(objects, c.Child.Kind.Kind+" "+c.Namespace+"/"+c.Child.Name)
		args = append(args, strings.ToLower(c.Child.Kind.Kind)+"/"+c.Child.Name)
	}
	return fmt.Sprintf("%s%s exist and are not managed by Holdfast; delete them, choose other names, or allow adoption (checked again within 30 s): "+
		"kubectl annotate %s -n %s %s=true", strings.Join(objects, ", "), more, strings.Join(args, " "), owner.Namespace, owner.Keys.Adopt)
}

func terminatingMessage(live metav1.Object) string {
	if f := live.GetFinalizers(); len(f) > 0 {
		return "is being deleted; waiting for finalizers " + strings.Join(f, ", ")
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

// NewNameConflict returns a name conflict of a child.
func NewNameConflict(owner desired.Owner, id desired.ID, message string) *NameConflict {
	return &NameConflict{Child: id, Namespace: owner.Namespace, Message: message}
}

// BelongsTo reports whether an object belongs to an application: by its owner reference or, if that
// was removed, by its label.
func BelongsTo(owner desired.Owner, obj metav1.Object) bool {
	ref := metav1.GetControllerOfNoCopy(obj)
	return ref != nil && ref.UID == owner.UID || ref == nil && obj.GetLabels()[owner.Keys.OwnerUID] == string(owner.UID)
}

// HasOwnerMetadata reports whether an object has the complete owner reference and owner labels.
func HasOwnerMetadata(owner desired.Owner, obj metav1.Object) bool {
	return HasOwnerReference(owner, obj) && labels.SelectorFromValidatedSet(desired.OwnerLabels(owner)).Matches(labels.Set(obj.GetLabels()))
}

// HasOwnerReference compares the whole reference: the garbage collector and our watches find the
// owner by kind and name.
func HasOwnerReference(owner desired.Owner, obj metav1.Object) bool {
	ref := metav1.GetControllerOfNoCopy(obj)
	return ref != nil && ref.UID == owner.UID && ref.APIVersion == owner.APIVersion &&
		ref.Kind == owner.Kind && ref.Name == owner.Name &&
		ref.BlockOwnerDeletion != nil && *ref.BlockOwnerDeletion
}

// NewClaimNameConflict returns the conflict about a claim of another owner that new pods would use.
func NewClaimNameConflict(owner desired.Owner, name string) *NameConflict {
	return NewNameConflict(owner, desired.ID{Kind: desired.KindClaim, Name: name}, fmt.Sprintf(
		"exists and is not managed by Holdfast, so no pod is started with it; delete it, rename the component, or allow adoption (checked again within 30 s): kubectl "+
			"annotate pvc %s -n %s %s=true",
		name, owner.Namespace, owner.Keys.Adopt))
}

// CredentialSourceError means that the Secret or key that a password is copied from is missing or
// unusable.
type CredentialSourceError struct{ Message string }

func (m *CredentialSourceError) Error() string { return m.Message }

// NewMissingCredentialSecret returns the error for a missing source Secret.
func NewMissingCredentialSecret(owner desired.Owner, c desired.Credential) *CredentialSourceError {
	return &CredentialSourceError{fmt.Sprintf(
		"Secret %s/%s, the source of credential %q, does not exist; create it", owner.Namespace, c.SecretRef.Name, c.Key)}
}

// LostCredential means that a password that existing data requires is missing.
type LostCredential struct{ Message string }

func (l *LostCredential) Error() string { return l.Message }

// NewLostCredential returns the error for a missing key of a credential Secret.
func NewLostCredential(owner desired.Owner, secret, key string) *LostCredential {
	return &LostCredential{fmt.Sprintf("Secret %s/%s has no key %q. The existing data requires this password, so a new one is not generated. "+
		`Add it: kubectl patch secret %s -n %s -p '{"stringData":{"%s":"..."}}'`,
		owner.Namespace, secret, key, secret, owner.Namespace, key)}
}

// UnknownKind is a child of a kind that the cluster does not serve.
type UnknownKind struct {
	Child     desired.ID
	Namespace string
}

func (u *UnknownKind) Error() string {
	hint := ""
	if u.Child.Kind == desired.KindRoute {
		hint = "; install the Gateway API, or use expose.ingressClassName instead of expose.gatewayRef"
	}
	return fmt.Sprintf("%s %s/%s cannot be created because the cluster does not serve kind %s of %s%s",
		u.Child.Kind.Kind, u.Namespace, u.Child.Name, u.Child.Kind.Kind, u.Child.Kind.GroupVersion(), hint)
}

package fieldmanager

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
)

// FieldConflict is a child that cannot be applied because fields of other field managers conflict
// with declared fields.
type FieldConflict struct {
	Child     desired.ID
	Namespace string
	// Message names the field, its manager and the next step.
	Message string
}

func (c *FieldConflict) Error() string {
	return fmt.Sprintf("%s %s/%s: %s", c.Child.Kind.Kind, c.Namespace, c.Child.Name, c.Message)
}

// NewFieldConflict describes the fields of a child that other managers have set. There must be at least one.
func NewFieldConflict(owner desired.Owner, id desired.ID, fields []ForeignField) *FieldConflict {
	first, others := fields[0], ""
	switch n := len(fields) - 1; {
	case n == 1:
		others = ", and 1 more field conflicts"
	case n > 1:
		others = fmt.Sprintf(", and %d more fields conflict", n)
	}
	object := fmt.Sprintf("%s %s -n %s", strings.ToLower(id.Kind.Kind), id.Name, owner.Namespace)
	return &FieldConflict{Child: id, Namespace: owner.Namespace, Message: fmt.Sprintf(
		"field %s is set by %s and conflicts with %s, which %s %s declares%s; revert that change (kubectl edit %s), "+
			"or let Holdfast revert it: kubectl annotate %s %s=true",
		pathText(first.Path), first.ManagerText(), first.Declared, owner.Kind, owner.Name, others, object, object, owner.Keys.TakeOwnership)}
}

// ForeignField is a field that other managers have set and that excludes a field that we declare.
type ForeignField struct {
	UnionConflict
	Managers []string
}

// ManagerText names the managers in a sentence.
func (f ForeignField) ManagerText() string {
	quoted := make([]string, len(f.Managers))
	for i, m := range f.Managers {
		quoted[i] = fmt.Sprintf("%q", m)
	}
	if len(quoted) == 1 {
		return "field manager " + quoted[0]
	}
	return "field managers " + strings.Join(quoted, " and ")
}

// String names the field and its managers.
func (f ForeignField) String() string { return pathText(f.Path) + " of " + f.ManagerText() }

// beforeFirstApply is the manager that the API server records for fields that were set while
// managedFields was empty. It stands for an unknown manager.
const beforeFirstApply = "before-first-apply"

// ForeignFields returns the conflicts that an apply does not resolve because the fields belong to
// other managers. Fields without a manager, or managed only by us, are omitted.
func ForeignFields(manager string, conflicts []UnionConflict, managedFields []metav1.ManagedFieldsEntry) ([]ForeignField, error) {
	managers := make([][]string, len(conflicts))
	for _, entry := range managedFields {
		if entry.Manager == manager || entry.Manager == beforeFirstApply {
			continue
		}
		set, err := entryFields(entry)
		if err != nil {
			return nil, err
		}
		for i, c := range conflicts {
			if hasBelow(set, c.Path) && !slices.Contains(managers[i], entry.Manager) {
				managers[i] = append(managers[i], entry.Manager)
			}
		}
	}
	var foreign []ForeignField
	for i, c := range conflicts {
		if len(managers[i]) > 0 {
			foreign = append(foreign, ForeignField{c, managers[i]})
		}
	}
	return foreign, nil
}

// AllowsTakeover reports whether the entries of other managers in metadata.managedFields may be
// rewritten. The permission is on the object and not on the application: users who grant it can
// change the object anyway, and it does not cover other objects.
func AllowsTakeover(keys *appsapi.Keys, live metav1.Object) bool {
	annotations := live.GetAnnotations()
	return annotations[keys.TakeOwnership] == "true" || annotations[keys.Adopt] == "true"
}

package desired

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// A component with data has the claims of its volumes and the Secret with the credentials. They have no owner
// reference, so that the garbage collector does not delete them. Their labels identify their owner: data is
// found by listing existing objects, never by computing names.

// Kinds of retained objects.
var (
	KindClaim  = corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim")
	KindSecret = corev1.SchemeGroupVersion.WithKind("Secret")
)

// RetainedObject is a claim, or the Secret with the credentials of a component.
type RetainedObject struct {
	ID
	metav1.Object
	// Claim is nil for a Secret.
	Claim *corev1.PersistentVolumeClaim
	keys  *appsapi.Keys
}

// RetainedClaim returns a claim as retained data.
func RetainedClaim(keys *appsapi.Keys, c *corev1.PersistentVolumeClaim) RetainedObject {
	return RetainedObject{ID: ID{Kind: KindClaim, Name: c.Name}, Object: c, Claim: c, keys: keys}
}

// RetainedSecret returns a Secret, or its metadata, as retained data.
func RetainedSecret(keys *appsapi.Keys, secret metav1.Object) RetainedObject {
	return RetainedObject{ID: ID{Kind: KindSecret, Name: secret.GetName()}, Object: secret, keys: keys}
}

// RetainedClaimMetadata returns a claim of which only the metadata was read.
func RetainedClaimMetadata(keys *appsapi.Keys, claim metav1.Object) RetainedObject {
	return RetainedObject{ID: ID{Kind: KindClaim, Name: claim.GetName()}, Object: claim, keys: keys}
}

// Component returns the component that the object belongs to. A new claim has no component label yet.
func (k RetainedObject) Component() string { return k.GetLabels()[appsapi.LabelComponent] }

// WorkloadID returns the label value that the object shares with its StatefulSet and pods.
func (k RetainedObject) WorkloadID() string { return k.GetLabels()[k.keys.Workload] }

// MarkedRetained reports whether the object has the retained label, because no component uses it.
func (k RetainedObject) MarkedRetained() bool { return k.GetLabels()[k.keys.Retained] == "true" }

// Released reports whether the user has released the data from its component.
func (k RetainedObject) Released() bool {
	return k.GetAnnotations()[k.keys.Released] == "true"
}

// BelongsTo reports whether the object belongs to an application of this kind and name, including previous
// applications.
func (k RetainedObject) BelongsTo(owner Owner) bool {
	l := k.GetLabels()
	return l[appsapi.LabelInstance] == owner.Name && l[k.keys.OwnerKind] == owner.KindLabel()
}

// String returns the kind and name.
func (k RetainedObject) String() string { return k.Kind.Kind + " " + k.Name }

// StatefulSetName returns the name of the StatefulSet that the data belongs to. The label can contain only a
// hash of a long name, so the name is derived from the name of the object and verified with the label.
func (k RetainedObject) StatefulSetName() string {
	name := k.Name
	if k.Claim == nil {
		return strings.TrimSuffix(name, authSuffix)
	}
	end := strings.LastIndex(name, "-")
	for i := range max(end, 0) {
		if name[i] == '-' && WorkloadID(KindStatefulSet.Kind, name[i+1:end]) == k.WorkloadID() {
			return name[i+1 : end]
		}
	}
	return ""
}

// UsedBy reports whether an active pod uses the object. A claim is used by the pods that mount it, a Secret by
// all pods of its StatefulSet.
func (k RetainedObject) UsedBy(pod *corev1.Pod) bool {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return false
	}
	if k.Claim == nil {
		return pod.Labels[k.keys.Workload] == k.WorkloadID()
	}
	for i := range pod.Spec.Volumes {
		if c := pod.Spec.Volumes[i].PersistentVolumeClaim; c != nil && c.ClaimName == k.Claim.Name {
			return true
		}
	}
	return false
}

// RetainedLabels returns the labels that identify the owner of data.
func RetainedLabels(owner Owner, c Component) map[string]string {
	l := childLabels(owner, ExpandedComponent{Component: appsapi.Component{Name: c.Name, Stateful: &appsapi.StatefulComponent{}}})
	l[owner.Keys.Workload] = c.WorkloadID
	return l
}

// dataLocation describes where the data of a component is.
type dataLocation struct {
	statefulSet string
	retained    []RetainedObject
	// conflict describes why the component must not start.
	conflict string
	// startsEmpty is set if the conflict is that the component would start without existing data.
	startsEmpty bool
}

// locateData finds the data of all components.
func locateData(owner Owner, components []ExpandedComponent, retained []RetainedObject) map[string]dataLocation {
	locator := dataLocator{owner: owner, declared: map[string]bool{}, renamedFrom: map[string]bool{}, byComponent: map[string]map[string][]RetainedObject{}, byStatefulSet: map[string][]RetainedObject{}}
	for _, c := range components {
		locator.declared[c.Name] = true
		if c.Stateful != nil {
			locator.renamedFrom[c.RenamedFrom] = true
		}
	}
	for _, k := range retained {
		set := k.StatefulSetName()
		locator.byStatefulSet[set] = append(locator.byStatefulSet[set], k)
		if k.BelongsTo(owner) {
			if locator.byComponent[k.Component()] == nil {
				locator.byComponent[k.Component()] = map[string][]RetainedObject{}
			}
			locator.byComponent[k.Component()][set] = append(locator.byComponent[k.Component()][set], k)
		}
	}
	out := map[string]dataLocation{}
	for _, c := range components {
		if c.Stateful != nil {
			out[c.Name] = locator.locateComponentData(c)
		}
	}
	return out
}

// dataLocator finds the data of components.
type dataLocator struct {
	owner Owner
	// declared are the components of the spec, renamedFrom the previous names of components.
	declared, renamedFrom map[string]bool
	// byComponent is the data of the application by component and StatefulSet.
	byComponent map[string]map[string][]RetainedObject
	// byStatefulSet is all data by StatefulSet.
	byStatefulSet map[string][]RetainedObject
}

// locateComponentData returns the location of the existing data of a component, or else a new location.
func (f dataLocator) locateComponentData(c ExpandedComponent) dataLocation {
	sets := map[string]bool{}
	for set := range f.byComponent[c.Name] {
		sets[set] = true
	}
	if c.RenamedFrom != "" && !f.declared[c.RenamedFrom] {
		for set := range f.byComponent[c.RenamedFrom] {
			sets[set] = true
		}
	}
	switch names := slices.Sorted(maps.Keys(sets)); len(names) {
	case 0:
		return f.newDataLocation(c)
	case 1:
		for _, k := range f.byStatefulSet[names[0]] {
			if k.Component() != "" && !k.BelongsTo(f.owner) && !k.Adoptable() {
				return dataLocation{statefulSet: names[0], conflict: f.occupiedMessage(c, k)}
			}
		}
		return dataLocation{statefulSet: names[0], retained: f.byStatefulSet[names[0]]}
	default:
		return dataLocation{statefulSet: names[0], conflict: fmt.Sprintf("Data of component %q exists in more than one place: %s and %s. "+
			"Remove the label %s from the objects that the component must not use",
			c.Name, f.byStatefulSet[names[0]][0], f.byStatefulSet[names[1]][0], appsapi.LabelComponent)}
	}
}

// newDataLocation returns the location of the data of a component that has no data yet.
func (f dataLocator) newDataLocation(c ExpandedComponent) dataLocation {
	set := shortenTo(DeclaredName(f.owner, c), maxStatefulSetName)
	location := dataLocation{statefulSet: set, retained: f.byStatefulSet[set]}
	for _, k := range location.retained {
		switch {
		case k.Adoptable(), f.isRenamedBack(c, k):
		case k.Component() != "":
			return dataLocation{statefulSet: set, conflict: f.occupiedMessage(c, k)}
		case k.WorkloadID() == "": // another client created a Secret with this name
			return dataLocation{statefulSet: set, conflict: fmt.Sprintf("%s exists and is not managed by Holdfast, so component %q does not start. "+
				"Delete it, rename the component, or allow Holdfast to adopt it: kubectl annotate secret %s -n %s %s=true",
				k, c.Name, k.Name, f.owner.Namespace, f.owner.Keys.Adopt)}
		}
	}
	if len(location.retained) > 0 {
		return location
	}
	for _, other := range slices.Sorted(maps.Keys(f.byComponent)) {
		if f.declared[other] || f.renamedFrom[other] {
			continue
		}
		for _, statefulSet := range slices.Sorted(maps.Keys(f.byComponent[other])) {
			for _, k := range f.byComponent[other][statefulSet] {
				if k.Claim != nil && !k.Released() {
					return dataLocation{statefulSet: set, conflict: f.startsEmptyMessage(c, k), startsEmpty: true}
				}
			}
		}
	}
	return location
}

// isRenamedBack reports whether data at the location of a component has the label of another name that the component
// had since: an edit, for example a git revert, has restored its first name. Data that is marked as retained was not
// in use before the edit, so it can be of another component; so can data at a name that the spec chose.
func (f dataLocator) isRenamedBack(c ExpandedComponent, k RetainedObject) bool {
	return c.ResourceName == "" && k.BelongsTo(f.owner) && !f.declared[k.Component()] && !f.renamedFrom[k.Component()] && !k.MarkedRetained()
}

// Adoptable reports whether data has the annotation that allows its adoption.
func (k RetainedObject) Adoptable() bool { return k.GetAnnotations()[k.keys.Adopt] == "true" }

// occupiedMessage reports that the data at the location belongs to another component.
func (f dataLocator) occupiedMessage(c ExpandedComponent, k RetainedObject) string {
	l := k.GetLabels()
	holder := fmt.Sprintf("component %q of %s %q", k.Component(), l[k.keys.OwnerKind], l[appsapi.LabelInstance])
	if k.BelongsTo(f.owner) && !f.declared[k.Component()] {
		return fmt.Sprintf("%s belongs to %s, which was removed from the spec, so component %q does not start. "+
			"If it is the same component, set renamedFrom: %s; otherwise rename the component", k, holder, c.Name, k.Component())
	}
	return fmt.Sprintf("%s belongs to %s, so component %q does not start. "+
		"Rename the component, or allow Holdfast to adopt it: kubectl annotate %s %s -n %s %s=true",
		k, holder, c.Name, strings.ToLower(k.Kind.Kind), k.Name, f.owner.Namespace, f.owner.Keys.Adopt)
}

// startsEmptyMessage reports that a component would start with empty volumes although unclaimed data exists.
func (f dataLocator) startsEmptyMessage(c ExpandedComponent, k RetainedObject) string {
	return fmt.Sprintf("%q would start with empty volumes, although %s has the data of component %q. "+
		"If it is the same component, set renamedFrom: %s; if not, release the data: kubectl annotate pvc %s -n %s %s=true",
		c.Name, k, k.Component(), k.Component(), k.Name, f.owner.Namespace, f.owner.Keys.Released)
}

// RetainedWorkloadIDs returns the workload labels of all data that can belong to the components of an
// application. retained is the data with the labels of the application.
func RetainedWorkloadIDs(owner Owner, components []ExpandedComponent, retained []RetainedObject) []string {
	var out []string
	for _, c := range components {
		if c.Stateful != nil {
			out = append(out, WorkloadID(KindStatefulSet.Kind, shortenTo(DeclaredName(owner, c), maxStatefulSetName)))
		}
	}
	for _, k := range retained {
		out = append(out, k.WorkloadID())
	}
	slices.Sort(out)
	return slices.DeleteFunc(slices.Compact(out), func(w string) bool { return w == "" })
}

// RetainedFor returns the data that is relevant to an application, out of all data of its namespace.
func RetainedFor(owner Owner, components []ExpandedComponent, all []RetainedObject) []RetainedObject {
	ours := slices.DeleteFunc(slices.Clone(all), func(k RetainedObject) bool { return !k.BelongsTo(owner) || k.WorkloadID() == "" })
	workloads := RetainedWorkloadIDs(owner, components, ours)
	return slices.DeleteFunc(slices.Clone(all), func(k RetainedObject) bool { return !slices.Contains(workloads, k.WorkloadID()) })
}

// SortRetained sorts by kind and name, so that messages do not depend on the order of a cache.
func SortRetained(retained []RetainedObject) []RetainedObject {
	slices.SortFunc(retained, func(a, b RetainedObject) int {
		return cmp.Or(cmp.Compare(a.Kind.Kind, b.Kind.Kind), cmp.Compare(a.Name, b.Name))
	})
	return retained
}

// CredentialSecrets returns references to the Secrets with the credentials of components, existing or not, and
// to the Secrets that the credentials are copied from.
func CredentialSecrets(owner Owner, components []ExpandedComponent, retained []RetainedObject) (credentialRefs, sourceRefs []Ref) {
	var locations map[string]dataLocation
	for _, c := range components {
		if len(c.Credentials) == 0 {
			continue
		}
		if locations == nil {
			locations = locateData(owner, components, retained)
		}
		credentialRefs = append(credentialRefs, Ref{Kind: RefSecret, Name: locations[c.Name].statefulSet + authSuffix})
		for _, credential := range c.Credentials {
			if from := credential.SecretRef; from != nil {
				sourceRefs = append(sourceRefs, Ref{Kind: RefSecret, Name: from.Name})
			}
		}
	}
	return credentialRefs, sourceRefs
}

// UnusedRetained returns the claims and credentials of an application that no component uses.
func UnusedRetained(owner Owner, components []Component, retained []RetainedObject) []RetainedObject {
	used := map[ID]bool{}
	for _, c := range components {
		if c.Data != nil {
			for _, k := range c.Data.Retained {
				used[k.ID] = true
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(retained), func(k RetainedObject) bool { return !k.BelongsTo(owner) || used[k.ID] })
}

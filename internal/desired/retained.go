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

// What is kept of a component that has data: the claims of its volumes, and the Secret with
// the passwords to what is on them. They have no owner that could take them along, and it is
// their labels that say whose they are: where the data of a component is, is found by
// looking at what exists, never by computing a name.

// The kinds of what is kept.
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
}

// Component is the one that it belongs to; nobody has said so yet of a claim that was just
// made.
func (k RetainedObject) Component() string { return k.GetLabels()[appsapi.LabelComponent] }

// WorkloadID is the label that it shares with its StatefulSet and the pods of that.
func (k RetainedObject) WorkloadID() string { return k.GetLabels()[appsapi.LabelWorkload] }

// MarkedRetained says whether it is kept although no component wants it.
func (k RetainedObject) MarkedRetained() bool { return k.GetLabels()[appsapi.LabelRetained] == "true" }

// Released says whether its owner has said that no component is meant to have it.
func (k RetainedObject) Released() bool {
	return k.GetAnnotations()[appsapi.AnnotationReleased] == "true"
}

// BelongsTo says whether it belongs to an application of this kind and name, this one or an
// earlier one.
func (k RetainedObject) BelongsTo(owner Owner) bool {
	l := k.GetLabels()
	return l[appsapi.LabelInstance] == owner.Name && l[appsapi.LabelOwnerKind] == owner.KindLabel()
}

// String names it.
func (k RetainedObject) String() string { return k.Kind.Kind + " " + k.Name }

// StatefulSetName is the name of the StatefulSet whose data it is. A label may have room only for a
// hash of that, so it is taken from the name, and held against the label.
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

// UsedBy says whether a pod that has not ended has a claim, or is of the set whose credentials
// a Secret has.
func (k RetainedObject) UsedBy(pod *corev1.Pod) bool {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return false
	}
	if k.Claim == nil {
		return pod.Labels[appsapi.LabelWorkload] == k.WorkloadID()
	}
	for i := range pod.Spec.Volumes {
		if c := pod.Spec.Volumes[i].PersistentVolumeClaim; c != nil && c.ClaimName == k.Claim.Name {
			return true
		}
	}
	return false
}

// RetainedLabels are those that say whose the data of a component is.
func RetainedLabels(owner Owner, c Component) map[string]string {
	l := childLabels(owner, appsapi.Component{Name: c.Name, Stateful: &appsapi.StatefulComponent{}})
	l[appsapi.LabelWorkload] = c.WorkloadID
	return l
}

// dataLocation is where the data of a component is.
type dataLocation struct {
	statefulSet string
	retained    []RetainedObject
	// conflict is why the component must not start.
	conflict string
}

// locateData finds the data of every component that has some.
func locateData(owner Owner, components []appsapi.Component, retained []RetainedObject) map[string]dataLocation {
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
			out[c.Name] = locator.locate(c)
		}
	}
	return out
}

// dataLocator looks for data.
type dataLocator struct {
	owner Owner
	// declared are the components of the spec, and taken those that one of them was before.
	declared, renamedFrom map[string]bool
	// byComponent is what the application keeps, by component and StatefulSet.
	byComponent map[string]map[string][]RetainedObject
	// byStatefulSet is everything, by StatefulSet.
	byStatefulSet map[string][]RetainedObject
}

func (f dataLocator) locate(c appsapi.Component) dataLocation {
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
		return f.newLocation(c)
	case 1:
		for _, k := range f.byStatefulSet[names[0]] {
			if k.Component() != "" && !k.BelongsTo(f.owner) && !dataHasAdoptAnnotation(k) {
				return dataLocation{statefulSet: names[0], conflict: f.occupiedMessage(c, k)}
			}
		}
		return dataLocation{statefulSet: names[0], retained: f.byStatefulSet[names[0]]}
	default:
		return dataLocation{statefulSet: names[0], conflict: fmt.Sprintf("There is data of component %q in more than one place, %s and %s, so it does not start with either. "+
			"Take the label %s off the one that it is not to have",
			c.Name, f.byStatefulSet[names[0]][0], f.byStatefulSet[names[1]][0], appsapi.LabelComponent)}
	}
}

// newLocation is the home of a component that has no data yet.
func (f dataLocator) newLocation(c appsapi.Component) dataLocation {
	set := shortenTo(ResourceName(f.owner, c), maxStatefulSetName)
	location := dataLocation{statefulSet: set, retained: f.byStatefulSet[set]}
	for _, k := range location.retained {
		switch {
		case dataHasAdoptAnnotation(k):
		case k.Component() != "":
			return dataLocation{statefulSet: set, conflict: f.occupiedMessage(c, k)}
		case k.WorkloadID() == "": // a Secret that happens to have the name
			return dataLocation{statefulSet: set, conflict: fmt.Sprintf("%s exists and is not Holdfast's, so component %q does not start with it. "+
				"Delete it, give the component another name, or hand it over: kubectl annotate secret %s -n %s %s=true",
				k, c.Name, k.Name, f.owner.Namespace, appsapi.AnnotationAdopt)}
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
					return dataLocation{statefulSet: set, conflict: f.startsEmptyMessage(c, k)}
				}
			}
		}
	}
	return location
}

// dataHasAdoptAnnotation says whether the owner of some data lets us have it.
func dataHasAdoptAnnotation(k RetainedObject) bool {
	return k.GetAnnotations()[appsapi.AnnotationAdopt] == "true"
}

// occupiedMessage says that the place where the data would be is somebody else's.
func (f dataLocator) occupiedMessage(c appsapi.Component, k RetainedObject) string {
	l := k.GetLabels()
	holder := fmt.Sprintf("component %q of %s %q", k.Component(), l[appsapi.LabelOwnerKind], l[appsapi.LabelInstance])
	if k.BelongsTo(f.owner) && !f.declared[k.Component()] {
		return fmt.Sprintf("%s has the data of %s, which left the spec, so component %q does not start with it. "+
			"If it is the same component, say renamedFrom: %s; otherwise give the component another name", k, holder, c.Name, k.Component())
	}
	return fmt.Sprintf("%s has the data of %s, so component %q does not start with it. "+
		"Give the component another name, or hand it over: kubectl annotate %s %s -n %s %s=true",
		k, holder, c.Name, strings.ToLower(k.Kind.Kind), k.Name, f.owner.Namespace, appsapi.AnnotationAdopt)
}

// startsEmptyMessage says that a component would start empty, although there is data that may be its.
func (f dataLocator) startsEmptyMessage(c appsapi.Component, k RetainedObject) string {
	return fmt.Sprintf("%q would start empty beside %s, which has the data of %q. "+
		"If it is the same component, say renamedFrom: %s; if not: kubectl annotate pvc %s -n %s %s=true",
		c.Name, k, k.Component(), k.Component(), k.Name, f.owner.Namespace, appsapi.AnnotationReleased)
}

// RetainedWorkloadIDs are the labels by which data is found that may be that of the components of an
// application, given what says by its own labels that it is the application's.
func RetainedWorkloadIDs(owner Owner, components []appsapi.Component, retained []RetainedObject) []string {
	var out []string
	for _, c := range components {
		if c.Stateful != nil {
			out = append(out, WorkloadID(KindStatefulSet.Kind, shortenTo(ResourceName(owner, c), maxStatefulSetName)))
		}
	}
	for _, k := range retained {
		out = append(out, k.WorkloadID())
	}
	slices.Sort(out)
	return slices.DeleteFunc(slices.Compact(out), func(w string) bool { return w == "" })
}

// RetainedFor is what matters to an application of all that is kept in its namespace.
func RetainedFor(owner Owner, components []appsapi.Component, all []RetainedObject) []RetainedObject {
	ours := slices.DeleteFunc(slices.Clone(all), func(k RetainedObject) bool { return !k.BelongsTo(owner) || k.WorkloadID() == "" })
	workloads := RetainedWorkloadIDs(owner, components, ours)
	return slices.DeleteFunc(slices.Clone(all), func(k RetainedObject) bool { return !slices.Contains(workloads, k.WorkloadID()) })
}

// SortRetained sorts by kind and name. A cache lists in any order, and what is said about data must
// not change with it.
func SortRetained(retained []RetainedObject) []RetainedObject {
	slices.SortFunc(retained, func(a, b RetainedObject) int {
		return cmp.Or(cmp.Compare(a.Kind.Kind, b.Kind.Kind), cmp.Compare(a.Name, b.Name))
	})
	return retained
}

// CredentialSecrets are those that have, or will have, the credentials of components, and those that
// credentials are copied from.
func CredentialSecrets(owner Owner, components []appsapi.Component, retained []RetainedObject) (credentialRefs, sourceRefs []Ref) {
	var locations map[string]dataLocation
	for _, c := range components {
		if c.Stateful == nil || len(c.Stateful.Credentials) == 0 {
			continue
		}
		if locations == nil {
			locations = locateData(owner, components, retained)
		}
		credentialRefs = append(credentialRefs, Ref{Kind: RefSecret, Name: locations[c.Name].statefulSet + authSuffix})
		for _, credential := range c.Stateful.Credentials {
			if from := credential.SecretRef; from != nil {
				sourceRefs = append(sourceRefs, Ref{Kind: RefSecret, Name: from.Name})
			}
		}
	}
	return credentialRefs, sourceRefs
}

// UnusedRetained are the claims and credentials of an application that no component of it has.
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

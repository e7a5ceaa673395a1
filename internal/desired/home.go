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

// Kept is a claim, or the Secret with the credentials of a component.
type Kept struct {
	ID
	metav1.Object
	// Claim is nil for a Secret.
	Claim *corev1.PersistentVolumeClaim
}

// Component is the one that it belongs to; nobody has said so yet of a claim that was just
// made.
func (k Kept) Component() string { return k.GetLabels()[appsapi.LabelComponent] }

// Workload is the label that it shares with its StatefulSet and the pods of that.
func (k Kept) Workload() string { return k.GetLabels()[appsapi.LabelWorkload] }

// Retained says whether it is kept although no component wants it.
func (k Kept) Retained() bool { return k.GetLabels()[appsapi.LabelRetained] == "true" }

// Released says whether its owner has said that no component is meant to have it.
func (k Kept) Released() bool { return k.GetAnnotations()[appsapi.AnnotationReleased] == "true" }

// Of says whether it belongs to an application of this kind and name, this one or an
// earlier one.
func (k Kept) Of(owner Owner) bool {
	l := k.GetLabels()
	return l[appsapi.LabelInstance] == owner.Name && l[appsapi.LabelOwnerKind] == owner.Kind
}

// String names it.
func (k Kept) String() string { return k.Kind.Kind + " " + k.Name }

// Set is the name of the StatefulSet whose data it is. A label may have room only for a
// hash of that, so it is taken from the name, and held against the label.
func (k Kept) Set() string {
	name := k.Name
	if k.Claim == nil {
		return strings.TrimSuffix(name, authSuffix)
	}
	end := strings.LastIndex(name, "-")
	for i := range max(end, 0) {
		if name[i] == '-' && WorkloadID(KindStatefulSet.Kind, name[i+1:end]) == k.Workload() {
			return name[i+1 : end]
		}
	}
	return ""
}

// UsedBy says whether a pod that has not ended has a claim, or is of the set whose credentials
// a Secret has.
func (k Kept) UsedBy(pod *corev1.Pod) bool {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return false
	}
	if k.Claim == nil {
		return pod.Labels[appsapi.LabelWorkload] == k.Workload()
	}
	for i := range pod.Spec.Volumes {
		if c := pod.Spec.Volumes[i].PersistentVolumeClaim; c != nil && c.ClaimName == k.Claim.Name {
			return true
		}
	}
	return false
}

// KeptLabels are those that say whose the data of a component is.
func KeptLabels(owner Owner, c Component) map[string]string {
	l := childLabels(owner, appsapi.Component{Name: c.Name, Stateful: &appsapi.StatefulComponent{}})
	l[appsapi.LabelWorkload] = c.WorkloadID
	return l
}

// home is where the data of a component is.
type home struct {
	set  string
	kept []Kept
	// refused is why the component must not start.
	refused string
}

// homes finds the data of every component that has some.
func homes(owner Owner, components []appsapi.Component, kept []Kept) map[string]home {
	f := finder{owner: owner, named: map[string]bool{}, taken: map[string]bool{}, of: map[string]map[string][]Kept{}, in: map[string][]Kept{}}
	for _, c := range components {
		f.named[c.Name] = true
		if c.Stateful != nil {
			f.taken[c.RenamedFrom] = true
		}
	}
	for _, k := range kept {
		set := k.Set()
		f.in[set] = append(f.in[set], k)
		if k.Of(owner) {
			if f.of[k.Component()] == nil {
				f.of[k.Component()] = map[string][]Kept{}
			}
			f.of[k.Component()][set] = append(f.of[k.Component()][set], k)
		}
	}
	out := map[string]home{}
	for _, c := range components {
		if c.Stateful != nil {
			out[c.Name] = f.home(c)
		}
	}
	return out
}

// finder looks for data.
type finder struct {
	owner Owner
	// named are the components of the spec, and taken those that one of them was before.
	named, taken map[string]bool
	// of is what the application keeps, by component and StatefulSet.
	of map[string]map[string][]Kept
	// in is everything, by StatefulSet.
	in map[string][]Kept
}

func (f finder) home(c appsapi.Component) home {
	sets := map[string]bool{}
	for set := range f.of[c.Name] {
		sets[set] = true
	}
	if c.RenamedFrom != "" && !f.named[c.RenamedFrom] {
		for set := range f.of[c.RenamedFrom] {
			sets[set] = true
		}
	}
	switch names := slices.Sorted(maps.Keys(sets)); len(names) {
	case 0:
		return f.fresh(c)
	case 1:
		for _, k := range f.in[names[0]] {
			if k.Component() != "" && !k.Of(f.owner) && !handedOver(k) {
				return home{set: names[0], refused: f.occupied(c, k)}
			}
		}
		return home{set: names[0], kept: f.in[names[0]]}
	default:
		return home{set: names[0], refused: fmt.Sprintf("There is data of component %q in more than one place, %s and %s, so it does not start with either. "+
			"Take the label %s off the one that it is not to have",
			c.Name, f.in[names[0]][0], f.in[names[1]][0], appsapi.LabelComponent)}
	}
}

// fresh is the home of a component that has no data yet.
func (f finder) fresh(c appsapi.Component) home {
	set := shortenTo(Name(f.owner, c), maxStatefulSet)
	h := home{set: set, kept: f.in[set]}
	for _, k := range h.kept {
		switch {
		case handedOver(k):
		case k.Component() != "":
			return home{set: set, refused: f.occupied(c, k)}
		case k.Workload() == "": // a Secret that happens to have the name
			return home{set: set, refused: fmt.Sprintf("%s exists and is not Holdfast's, so component %q does not start with it. "+
				"Delete it, give the component another name, or hand it over: kubectl annotate secret %s -n %s %s=true",
				k, c.Name, k.Name, f.owner.Namespace, appsapi.AnnotationAdopt)}
		}
	}
	if len(h.kept) > 0 {
		return h
	}
	for _, other := range slices.Sorted(maps.Keys(f.of)) {
		if f.named[other] || f.taken[other] {
			continue
		}
		for _, place := range slices.Sorted(maps.Keys(f.of[other])) {
			for _, k := range f.of[other][place] {
				if k.Claim != nil && !k.Released() {
					return home{set: set, refused: f.beside(c, k)}
				}
			}
		}
	}
	return h
}

// handedOver says whether the owner of some data lets us have it.
func handedOver(k Kept) bool { return k.GetAnnotations()[appsapi.AnnotationAdopt] == "true" }

// occupied says that the place where the data would be is somebody else's.
func (f finder) occupied(c appsapi.Component, k Kept) string {
	l := k.GetLabels()
	whose := fmt.Sprintf("component %q of %s %q", k.Component(), l[appsapi.LabelOwnerKind], l[appsapi.LabelInstance])
	if k.Of(f.owner) && !f.named[k.Component()] {
		return fmt.Sprintf("%s has the data of %s, which left the spec, so component %q does not start with it. "+
			"If it is the same component, say renamedFrom: %s; otherwise give the component another name", k, whose, c.Name, k.Component())
	}
	return fmt.Sprintf("%s has the data of %s, so component %q does not start with it. "+
		"Give the component another name, or hand it over: kubectl annotate %s %s -n %s %s=true",
		k, whose, c.Name, strings.ToLower(k.Kind.Kind), k.Name, f.owner.Namespace, appsapi.AnnotationAdopt)
}

// beside says that a component would start empty, although there is data that may be its.
func (f finder) beside(c appsapi.Component, k Kept) string {
	return fmt.Sprintf("%q would start empty beside %s, which has the data of %q. "+
		"If it is the same component, say renamedFrom: %s; if not: kubectl annotate pvc %s -n %s %s=true",
		c.Name, k, k.Component(), k.Component(), k.Name, f.owner.Namespace, appsapi.AnnotationReleased)
}

// Workloads are the labels by which data is found that may be that of the components of an
// application, given what says by its own labels that it is the application's.
func Workloads(owner Owner, components []appsapi.Component, kept []Kept) []string {
	var out []string
	for _, c := range components {
		if c.Stateful != nil {
			out = append(out, WorkloadID(KindStatefulSet.Kind, shortenTo(Name(owner, c), maxStatefulSet)))
		}
	}
	for _, k := range kept {
		out = append(out, k.Workload())
	}
	slices.Sort(out)
	return slices.DeleteFunc(slices.Compact(out), func(w string) bool { return w == "" })
}

// Concerning is what matters to an application of all that is kept in its namespace.
func Concerning(owner Owner, components []appsapi.Component, all []Kept) []Kept {
	ours := slices.DeleteFunc(slices.Clone(all), func(k Kept) bool { return !k.Of(owner) || k.Workload() == "" })
	workloads := Workloads(owner, components, ours)
	return slices.DeleteFunc(slices.Clone(all), func(k Kept) bool { return !slices.Contains(workloads, k.Workload()) })
}

// InOrder sorts by kind and name. A cache lists in any order, and what is said about data must
// not change with it.
func InOrder(kept []Kept) []Kept {
	slices.SortFunc(kept, func(a, b Kept) int {
		return cmp.Or(cmp.Compare(a.Kind.Kind, b.Kind.Kind), cmp.Compare(a.Name, b.Name))
	})
	return kept
}

// Secrets are those that have, or will have, the credentials of components, and those that
// credentials are copied from.
func Secrets(owner Owner, components []appsapi.Component, kept []Kept) (own, sources []Ref) {
	var places map[string]home
	for _, c := range components {
		if c.Stateful == nil || len(c.Stateful.Credentials) == 0 {
			continue
		}
		if places == nil {
			places = homes(owner, components, kept)
		}
		own = append(own, Ref{Kind: RefSecret, Name: places[c.Name].set + authSuffix})
		for _, credential := range c.Stateful.Credentials {
			if from := credential.SecretRef; from != nil {
				sources = append(sources, Ref{Kind: RefSecret, Name: from.Name})
			}
		}
	}
	return own, sources
}

// Unwanted are the claims and credentials of an application that no component of it has.
func Unwanted(owner Owner, components []Component, kept []Kept) []Kept {
	wanted := map[ID]bool{}
	for _, c := range components {
		if c.Data != nil {
			for _, k := range c.Data.Kept {
				wanted[k.ID] = true
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(kept), func(k Kept) bool { return !k.Of(owner) || wanted[k.ID] })
}

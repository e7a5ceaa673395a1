package rollout

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/health"
	"github.com/holdfast-dev/holdfast/internal/mariadb"
)

// Data is what to do about the data of a component.
type Data struct {
	// Label are the claims and credentials that do not say yet that they are the
	// component's, with all labels that they have to have.
	Label []Labels
	// Create is the Secret with the credentials that does not exist yet, and Complete one that
	// may lack some of them.
	Create, Complete bool
	// Claims are the names of claims that new pods will take or make: none of them may be
	// somebody else's.
	Claims []string
	// Grow are claims that have to ask for another size.
	Grow []Growth
	// Renew is set when the StatefulSet has to be made anew around its pods, because the
	// claims of later pods have to be different.
	Renew bool
	// Verdict is what there is to say about it; nil is nothing.
	Verdict *health.Verdict
	// Waits is what to say about a claim that has no volume yet, if nothing else is.
	Waits *health.Verdict
	// Start is false when pods must not be created or replaced.
	Start bool
}

// Labels are those that a claim or Secret has to have.
type Labels struct {
	desired.Kept
	Want map[string]string
}

// data decides about the data of a component; live is its StatefulSet, if that is ours.
func (p *planner) data(c *desired.Component, live Object) *Data {
	d := &Data{Start: true}
	set, _ := live.(*appsv1.StatefulSet)
	if set == nil && c.Data.Refused != "" {
		d.Start = false
		d.Verdict = refused(appsapi.ReasonDataConflict, c.Data.Refused)
		return d
	}
	// Somebody else's set has the data in use, so it is theirs, whatever was handed over:
	// two that both write their name on it would never come to an end. The apply says whose
	// the set is.
	if there := p.Seen[c.Workload]; there != nil && !p.runsForUs(there) && there.GetAnnotations()[appsapi.AnnotationAdopt] != "true" {
		return d
	}
	if other := otherVolumes(c); set == nil && other != "" {
		d.Start = false
		d.Verdict = refused(appsapi.ReasonDataConflict, other)
		return d
	}
	if other := cmp.Or(olderServer(c, p.Started[c.Name]), otherSchema(c)); other != "" {
		d.Start = false
		d.Verdict = refused(appsapi.ReasonDataConflict, other)
		return d
	}
	want := desired.KeptLabels(p.Owner, *c)
	for _, k := range c.Data.Kept {
		if !has(k.GetLabels(), want) || k.Retained() {
			d.Label = append(d.Label, Labels{k, want})
		}
	}
	if len(c.Data.Credentials) > 0 && !c.Data.HasSecret() {
		if c.Data.HasClaims() {
			d.Start = false
			d.Verdict = refused(appsapi.ReasonCredentialsLost, lost(p.Owner, c))
			return d
		}
		d.Create = true
	}
	d.Complete = len(c.Data.Credentials) > 0 && !d.Create && !c.Data.Complete()
	d.Claims = newClaims(c, set)
	p.storage(c, set, d)
	return d
}

// otherVolumes says that a component would start without some of its data.
func otherVolumes(c *desired.Component) string {
	for _, k := range c.Data.Kept {
		if k.Claim == nil || slices.ContainsFunc(c.Data.Storage, func(s appsapi.StorageSpec) bool {
			return strings.HasPrefix(k.Name, desired.ClaimPrefix(s.Name, c.Workload.Name))
		}) {
			continue
		}
		return fmt.Sprintf("%s has data of component %q, and storage has no volume of that name. Add it again, or give the new component another name", k, c.Name)
	}
	return ""
}

// olderServer says that a database would be run by a server that is older than its data, or than the one that has
// been let near it since. Some start all the same, and do damage.
func olderServer(c *desired.Component, started string) string {
	if c.Database == nil {
		return ""
	}
	wanted := c.Database.VersionOf(c.Database.Image)
	if wanted == (mariadb.Version{}) {
		return "" // nothing says what it is
	}
	for _, k := range c.Data.Kept {
		if k.Claim == nil {
			continue
		}
		wrote, _ := mariadb.ParseVersion(k.GetAnnotations()[appsapi.AnnotationServerVersion]) // zero when it says none
		by := k.GetAnnotations()[appsapi.AnnotationServerImage]
		if since := c.Database.VersionOf(started); wrote.OlderThan(since) {
			wrote, by = since, started
		}
		if !wanted.OlderThan(wrote) || by == c.Database.Image {
			continue // the tag of the image that wrote it may say anything
		}
		return fmt.Sprintf("%s was written by MariaDB %s, and image %s is of the series %s, which cannot be trusted with it: nothing is changed. "+
			"Go back to an image of %s or later; to get to an older one, dump the data and load it into a new component",
			k, wrote, c.Database.Image, wanted.Series(), wrote.Series())
	}
	return ""
}

func otherSchema(c *desired.Component) string {
	if c.Database == nil {
		return ""
	}
	return c.Database.Conflict
}

func refused(reason, message string) *health.Verdict {
	return &health.Verdict{Status: health.Degraded, Reason: reason, Message: message}
}

func has(labels, want map[string]string) bool {
	got := map[string]string{}
	for k := range want {
		if v, ok := labels[k]; ok {
			got[k] = v
		}
	}
	return maps.Equal(got, want)
}

func lost(owner desired.Owner, c *desired.Component) string {
	keys := ""
	for _, credential := range c.Data.Credentials {
		keys += fmt.Sprintf(" --from-literal=%s=...", credential.Key)
	}
	return fmt.Sprintf("Secret %s/%s with the credentials of component %q is gone, and its data can only be opened with those, so no new ones are made. "+
		"Restore it: kubectl create secret generic %s -n %s%s",
		owner.Namespace, c.Data.Secret, c.Name, c.Data.Secret, owner.Namespace, keys)
}

// newClaims are the names of the claims that the next apply may make Kubernetes use.
func newClaims(c *desired.Component, set *appsv1.StatefulSet) []string {
	want := wanted(c, set)
	from := int32(0)
	if set != nil && set.Spec.Replicas != nil {
		from = *set.Spec.Replicas
	}
	var names []string
	for i := from; i < want; i++ {
		for _, s := range c.Data.Storage {
			if name := desired.ClaimName(s.Name, c.Workload.Name, i); c.Data.Claim(name) == nil {
				names = append(names, name)
			}
		}
	}
	return names
}

// wanted is how many pods there are to be.
func wanted(c *desired.Component, set *appsv1.StatefulSet) int32 {
	switch {
	case c.Data.Replicas != nil:
		return *c.Data.Replicas
	case set != nil && set.Spec.Replicas != nil:
		return *set.Spec.Replicas
	case set == nil && c.Data.Running > 0:
		return c.Data.Running
	}
	return 1
}

// leavesPods says whether a set is on its way out without its pods.
func leavesPods(live Object) bool {
	_, ok := live.(*appsv1.StatefulSet)
	return ok && live.GetDeletionTimestamp() != nil && slices.Contains(live.GetFinalizers(), metav1.FinalizerOrphanDependents)
}

// unwanted decides what becomes of claims and credentials that no component has. Nothing
// is deleted that was kept on purpose before, nor while a component does not start because
// of such data.
func (p *planner) unwanted(plan *Plan) {
	conflict := false
	for _, s := range plan.Steps {
		conflict = conflict || s.Data != nil && s.Data.Verdict != nil && s.Data.Verdict.Reason == appsapi.ReasonDataConflict
	}
	for _, k := range desired.Unwanted(p.Owner, p.Components, p.Kept) {
		if p.workloadRuns(k.Workload()) {
			continue
		}
		switch mine := k.GetLabels()[appsapi.LabelOwnerUID] == string(p.Owner.UID); {
		case k.Retained():
		case mine && p.DeleteData && opens(k, p.Kept):
		case mine && p.DeleteData && !conflict:
			plan.Purge = append(plan.Purge, k)
		case mine && !p.DeleteData:
			want := maps.Clone(k.GetLabels())
			want[appsapi.LabelRetained] = "true"
			plan.Retain = append(plan.Retain, Labels{k, want})
		}
	}
}

// workloadRuns says whether there is a StatefulSet that uses some data.
func (p *planner) workloadRuns(id string) bool {
	for _, live := range p.Seen {
		if set, ok := live.(*appsv1.StatefulSet); ok && set.Labels[appsapi.LabelWorkload] == id {
			return true
		}
	}
	return false
}

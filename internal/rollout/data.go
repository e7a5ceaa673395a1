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

// DataPlan is what to do about the data of a component.
type DataPlan struct {
	// Relabel are the claims and credentials that do not say yet that they are the
	// component's, with all labels that they have to have.
	Relabel []LabelUpdate
	// CreateSecret is the Secret with the credentials that does not exist yet, and Complete one that
	// may lack some of them.
	CreateSecret, CompleteSecret bool
	// NewClaims are the names of claims that new pods will take or make: none of them may be
	// somebody else's.
	NewClaims []string
	// ResizeClaims are claims that have to ask for another size.
	ResizeClaims []ClaimResize
	// RecreateStatefulSet is set when the StatefulSet has to be made anew around its pods, because the
	// claims of later pods have to be different.
	RecreateStatefulSet bool
	// Health is what there is to say about it; nil is nothing.
	Health *health.Result
	// PendingVolume is what to say about a claim that has no volume yet, if nothing else is.
	PendingVolume *health.Result
	// PodsAllowed is false when pods must not be created or replaced.
	PodsAllowed bool
}

// LabelUpdate are those that a claim or Secret has to have.
type LabelUpdate struct {
	desired.RetainedObject
	DesiredLabels map[string]string
}

// planData decides about the data of a component; live is its StatefulSet, if that is ours.
func (p *planner) planData(c *desired.Component, live Object) *DataPlan {
	d := &DataPlan{PodsAllowed: true}
	set, _ := live.(*appsv1.StatefulSet)
	if set == nil && c.Data.Conflict != "" {
		d.PodsAllowed = false
		d.Health = degraded(appsapi.ReasonDataConflict, c.Data.Conflict)
		return d
	}
	// Somebody else's set has the data in use, so it is theirs, whatever was handed over:
	// two that both write their name on it would never come to an end. The apply says whose
	// the set is.
	if existing := p.Observed[c.Workload]; existing != nil && !p.belongsToOwner(existing) && existing.GetAnnotations()[appsapi.AnnotationAdopt] != "true" {
		return d
	}
	if conflict := missingStorageConflict(c); set == nil && conflict != "" {
		d.PodsAllowed = false
		d.Health = degraded(appsapi.ReasonDataConflict, conflict)
		return d
	}
	if conflict := cmp.Or(downgradeConflict(c, p.StartedImages[c.Name]), schemaConflict(c)); conflict != "" {
		d.PodsAllowed = false
		d.Health = degraded(appsapi.ReasonDataConflict, conflict)
		return d
	}
	want := desired.RetainedLabels(p.Owner, *c)
	for _, k := range c.Data.Retained {
		if !hasLabels(k.GetLabels(), want) || k.MarkedRetained() {
			d.Relabel = append(d.Relabel, LabelUpdate{k, want})
		}
	}
	if len(c.Data.Credentials) > 0 && !c.Data.HasSecret() {
		if c.Data.HasClaims() {
			d.PodsAllowed = false
			d.Health = degraded(appsapi.ReasonCredentialsLost, lostCredentialsMessage(p.Owner, c))
			return d
		}
		d.CreateSecret = true
	}
	d.CompleteSecret = len(c.Data.Credentials) > 0 && !d.CreateSecret && !c.Data.SecretComplete()
	d.NewClaims = newClaimNames(c, set)
	p.planStorage(c, set, d)
	return d
}

// missingStorageConflict says that a component would start without some of its data.
func missingStorageConflict(c *desired.Component) string {
	for _, k := range c.Data.Retained {
		if k.Claim == nil || slices.ContainsFunc(c.Data.Storage, func(s appsapi.StorageSpec) bool {
			return strings.HasPrefix(k.Name, desired.ClaimPrefix(s.Name, c.Workload.Name))
		}) {
			continue
		}
		return fmt.Sprintf("%s has data of component %q, and storage has no volume of that name. Add it again, or give the new component another name", k, c.Name)
	}
	return ""
}

// downgradeConflict says that a database would be run by a server that is older than its data, or than the one that has
// been let near it since. Some start all the same, and do damage.
func downgradeConflict(c *desired.Component, started string) string {
	if c.Database == nil {
		return ""
	}
	target := c.Database.ImageVersion(c.Database.Image)
	if target == (mariadb.Version{}) {
		return "" // nothing says what it is
	}
	for _, k := range c.Data.Retained {
		if k.Claim == nil {
			continue
		}
		written, _ := mariadb.ParseVersion(k.GetAnnotations()[appsapi.AnnotationServerVersion]) // zero when it says none
		writtenBy := k.GetAnnotations()[appsapi.AnnotationServerImage]
		if startedVersion := c.Database.ImageVersion(started); written.OlderThan(startedVersion) {
			written, writtenBy = startedVersion, started
		}
		if !target.OlderThan(written) || writtenBy == c.Database.Image {
			continue // the tag of the image that wrote it may say anything
		}
		return fmt.Sprintf("%s was written by MariaDB %s, and image %s is of the series %s, which cannot be trusted with it: nothing is changed. "+
			"Go back to an image of %s or later; to get to an older one, dump the data and load it into a new component",
			k, written, c.Database.Image, target.Series(), written.Series())
	}
	return ""
}

func schemaConflict(c *desired.Component) string {
	if c.Database == nil {
		return ""
	}
	return c.Database.SchemaConflict
}

func degraded(reason, message string) *health.Result {
	return &health.Result{Status: health.Degraded, Reason: reason, Message: message}
}

func hasLabels(labels, want map[string]string) bool {
	got := map[string]string{}
	for k := range want {
		if v, ok := labels[k]; ok {
			got[k] = v
		}
	}
	return maps.Equal(got, want)
}

func lostCredentialsMessage(owner desired.Owner, c *desired.Component) string {
	keys := ""
	for _, credential := range c.Data.Credentials {
		keys += fmt.Sprintf(" --from-literal=%s=...", credential.Key)
	}
	return fmt.Sprintf("Secret %s/%s with the credentials of component %q is gone, and its data can only be opened with those, so no new ones are made. "+
		"Restore it: kubectl create secret generic %s -n %s%s",
		owner.Namespace, c.Data.Secret, c.Name, c.Data.Secret, owner.Namespace, keys)
}

// newClaimNames are the names of the claims that the next apply may make Kubernetes use.
func newClaimNames(c *desired.Component, set *appsv1.StatefulSet) []string {
	want := desiredReplicas(c, set)
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

// desiredReplicas is how many pods there are to be.
func desiredReplicas(c *desired.Component, set *appsv1.StatefulSet) int32 {
	switch {
	case c.Data.Replicas != nil:
		return *c.Data.Replicas
	case set != nil && set.Spec.Replicas != nil:
		return *set.Spec.Replicas
	case set == nil && c.Data.OrphanedReplicas > 0:
		return c.Data.OrphanedReplicas
	}
	return 1
}

// isOrphaningPods says whether a set is on its way out without its pods.
func isOrphaningPods(live Object) bool {
	_, ok := live.(*appsv1.StatefulSet)
	return ok && live.GetDeletionTimestamp() != nil && slices.Contains(live.GetFinalizers(), metav1.FinalizerOrphanDependents)
}

// planUnusedData decides what becomes of claims and credentials that no component has. Nothing
// is deleted that was kept on purpose before, nor while a component does not start because
// of such data.
func (p *planner) planUnusedData(plan *Plan) {
	conflict := false
	for _, s := range plan.Steps {
		conflict = conflict || s.Data != nil && s.Data.Health != nil && s.Data.Health.Reason == appsapi.ReasonDataConflict
	}
	for _, k := range desired.UnusedRetained(p.Owner, p.Components, p.Retained) {
		if p.workloadExists(k.WorkloadID()) {
			continue
		}
		switch owned := k.GetLabels()[appsapi.LabelOwnerUID] == string(p.Owner.UID); {
		case k.MarkedRetained():
		case owned && p.DeleteData && unlocksExistingData(k, p.Retained):
		case owned && p.DeleteData && !conflict:
			plan.Purge = append(plan.Purge, k)
		case owned && !p.DeleteData:
			want := maps.Clone(k.GetLabels())
			want[appsapi.LabelRetained] = "true"
			plan.Retain = append(plan.Retain, LabelUpdate{k, want})
		}
	}
}

// workloadExists says whether there is a StatefulSet that uses some data.
func (p *planner) workloadExists(workloadID string) bool {
	for _, live := range p.Observed {
		if set, ok := live.(*appsv1.StatefulSet); ok && set.Labels[appsapi.LabelWorkload] == workloadID {
			return true
		}
	}
	return false
}

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

// DataPlan is the plan for the data of a component.
type DataPlan struct {
	// Relabel are the claims and credentials that lack labels of the component, with all labels
	// that they need.
	Relabel []LabelUpdate
	// CreateSecret means that the Secret with the credentials does not exist yet, CompleteSecret
	// that it may lack keys.
	CreateSecret, CompleteSecret bool
	// NewClaims are the names of claims that new pods will use or create. Existing claims with
	// these names must not belong to another owner.
	NewClaims []string
	// ResizeClaims are claims whose request must change.
	ResizeClaims []ClaimResize
	// ReplaceClaims are claims that differ from the spec and were never bound, so that they have no
	// data. They are deleted, and the StatefulSet creates them again.
	ReplaceClaims []desired.RetainedObject
	// RecreateStatefulSet is set if the claim templates of the StatefulSet differ from the spec. It
	// is recreated with orphan propagation, so its pods keep running.
	RecreateStatefulSet bool
	// Health is the problem or progress to report; nil if there is nothing to report.
	Health *health.Result
	// PendingVolume reports a claim that is not bound. It is used only if Health is nil.
	PendingVolume *health.Result
	// PodsAllowed is false if pods must not be created or replaced.
	PodsAllowed bool
}

// LabelUpdate are the labels that a claim or Secret needs.
type LabelUpdate struct {
	desired.RetainedObject
	DesiredLabels map[string]string
}

// planData plans the data of a component. live is its StatefulSet if the application controls it.
func (p *planner) planData(c *desired.Component, live Object) *DataPlan {
	d := &DataPlan{PodsAllowed: true}
	set, _ := live.(*appsv1.StatefulSet)
	if c.Data.Conflict != "" && (set == nil || !c.Data.StartsEmpty) {
		d.PodsAllowed = false
		d.Health = degradedHealth(appsapi.ReasonDataConflict, c.Data.Conflict)
		return d
	}
	// A StatefulSet of another owner uses the data, so the data belongs to that owner, even if it is
	// labeled as retained: otherwise two owners would keep overwriting each other's labels. The apply
	// reports the owner of the StatefulSet.
	if existing := p.Observed[c.Workload]; existing != nil && !p.belongsToOwner(existing) && existing.GetAnnotations()[p.Owner.Keys.Adopt] != "true" {
		return d
	}
	if conflict := missingStorageConflict(c); set == nil && conflict != "" {
		d.PodsAllowed = false
		d.Health = degradedHealth(appsapi.ReasonDataConflict, conflict)
		return d
	}
	if conflict := cmp.Or(downgradeConflict(p.Owner.Keys, c, p.StartedImages[c.Name]), schemaConflict(c)); conflict != "" {
		d.PodsAllowed = false
		d.Health = degradedHealth(appsapi.ReasonDataConflict, conflict)
		return d
	}
	if restored := unconfirmedSecret(c); restored != nil {
		d.PodsAllowed = false
		d.Health = degradedHealth(appsapi.ReasonCredentialsLost, unconfirmedSecretMessage(p.Owner, c, *restored))
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
			d.Health = degradedHealth(appsapi.ReasonCredentialsLost, lostCredentialsMessage(p.Owner, c))
			return d
		}
		d.CreateSecret = true
	}
	d.CompleteSecret = len(c.Data.Credentials) > 0 && !d.CreateSecret && !c.Data.SecretComplete()
	d.NewClaims = newClaimNames(c, set)
	p.planStorage(c, set, d)
	return d
}

// missingStorageConflict reports that a component would start without part of its data.
func missingStorageConflict(c *desired.Component) string {
	for _, k := range c.Data.Retained {
		if k.Claim == nil || slices.ContainsFunc(c.Data.Storage, func(s appsapi.StorageSpec) bool {
			return strings.HasPrefix(k.Name, desired.ClaimPrefix(s.Name, c.Workload.Name))
		}) {
			continue
		}
		return fmt.Sprintf("%s contains data of component %q, but the component no longer declares its volume in storage. "+
			"Add the volume again, or rename the new component", k, c.Name)
	}
	return ""
}

// downgradeConflict reports that the image of a database is older than the server version that is
// recorded at its data, or older than startedImage, whose server may have written the data since then.
// Some older servers start anyway and damage the data.
func downgradeConflict(keys *appsapi.Keys, c *desired.Component, startedImage string) string {
	if c.Database == nil {
		return ""
	}
	target := c.Database.ImageVersion(c.Database.Image)
	if target == (mariadb.Version{}) {
		return "" // unknown version
	}
	for _, k := range c.Data.Retained {
		if k.Claim == nil {
			continue
		}
		written, _ := mariadb.ParseVersion(k.GetAnnotations()[keys.ServerVersion]) // zero if it is not recorded
		writtenBy := k.GetAnnotations()[keys.ServerImage]
		if startedVersion := c.Database.ImageVersion(startedImage); written.OlderThan(startedVersion) {
			written, writtenBy = startedVersion, startedImage
		}
		if !target.OlderThan(written) || writtenBy == c.Database.Image {
			continue // the image itself wrote the data; its tag may be misleading
		}
		return fmt.Sprintf("%s was written by MariaDB %s, but image %s is from the older series %s. "+
			"A downgrade can damage the data, so nothing is changed. Use an image of series %s or later; to downgrade, dump the data and load it into a new component",
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

func degradedHealth(reason, message string) *health.Result {
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
	return fmt.Sprintf("Secret %s/%s with the credentials of component %q does not exist. "+
		"The existing data requires these credentials, so new ones are not generated. Restore the Secret: kubectl create secret generic %s -n %s%s && %s",
		owner.Namespace, c.Data.Secret, c.Name, c.Data.Secret, owner.Namespace, keys, adoptCommand(owner, c.Data.Secret))
}

// unconfirmedSecret returns the Secret with the name of the credentials, if a user has created it but has not allowed its
// adoption. The operator must not change Secrets of others.
func unconfirmedSecret(c *desired.Component) *desired.RetainedObject {
	i := slices.IndexFunc(c.Data.Retained, func(k desired.RetainedObject) bool {
		return k.Claim == nil && k.WorkloadID() == "" && !k.Adoptable()
	})
	if i < 0 {
		return nil
	}
	return &c.Data.Retained[i]
}

func unconfirmedSecretMessage(owner desired.Owner, c *desired.Component, secret desired.RetainedObject) string {
	return fmt.Sprintf("%s exists, but is not managed by Holdfast. If it contains the credentials of component %q, allow Holdfast to use it: %s",
		secret, c.Name, adoptCommand(owner, secret.Name))
}

func adoptCommand(owner desired.Owner, secret string) string {
	return fmt.Sprintf("kubectl annotate secret %s -n %s %s=true", secret, owner.Namespace, owner.Keys.Adopt)
}

// newClaimNames returns the names of the claims that new pods will use after the next apply.
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

// desiredReplicas returns the desired number of pods.
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

// isOrphaningPods reports whether a StatefulSet is being deleted with orphan propagation.
func isOrphaningPods(live Object) bool {
	_, ok := live.(*appsv1.StatefulSet)
	return ok && live.GetDeletionTimestamp() != nil && slices.Contains(live.GetFinalizers(), metav1.FinalizerOrphanDependents)
}

// planUnusedData plans claims and credentials without a component. It never deletes data that was
// retained before, and deletes nothing while a component does not start because of a data conflict.
func (p *planner) planUnusedData(plan *Plan) {
	conflict := false
	for _, s := range plan.Steps {
		conflict = conflict || s.Data != nil && s.Data.Health != nil && s.Data.Health.Reason == appsapi.ReasonDataConflict
	}
	for _, k := range desired.UnusedRetained(p.Owner, p.Components, p.Retained) {
		if p.workloadExists(k.WorkloadID()) {
			continue
		}
		switch owned := k.GetLabels()[p.Owner.Keys.OwnerUID] == string(p.Owner.UID); {
		case k.MarkedRetained():
		case owned && p.DeleteData && isNeededByExistingData(k, p.Retained):
		case owned && p.DeleteData && !conflict:
			plan.Purge = append(plan.Purge, k)
		case owned && !p.DeleteData:
			want := maps.Clone(k.GetLabels())
			want[p.Owner.Keys.Retained] = "true"
			plan.Retain = append(plan.Retain, LabelUpdate{k, want})
		}
	}
}

// workloadExists reports whether a StatefulSet with the given workload ID exists.
func (p *planner) workloadExists(workloadID string) bool {
	for _, live := range p.Observed {
		if set, ok := live.(*appsv1.StatefulSet); ok && set.Labels[p.Owner.Keys.Workload] == workloadID {
			return true
		}
	}
	return false
}

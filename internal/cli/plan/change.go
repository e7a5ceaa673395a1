package plan

import (
	"reflect"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/rollout"
	"github.com/holdfast-dev/holdfast/internal/simulate"
)

// Effects on data.
const (
	dataNew      = "New"
	dataGrows    = "Grows"
	dataRetained = "Retained"
	dataReused   = "Found"
	dataDeleted  = "Deleted"
)

// newChange converts the simulated result of an object.
func newChange(o *simulate.ObjectResult, estimated bool) (Change, error) {
	c := Change{Component: o.Component, Kind: o.ID.Kind.Kind, Name: o.ID.Name, Action: Unchanged}
	if o.Rejected != nil {
		c.Reason = o.Rejected.Error()
	}
	var err error
	switch {
	case o.Before == nil && o.After == nil: // created and deleted again, or never created
	case o.Before == nil:
		c.Action = Created
		c.Runs = o.ID.Kind == desired.KindJob
	case o.After == nil:
		c.Action = Deleted
	default:
		if c.Fields, err = changedFields(o.Before, o.After); err != nil {
			return c, err
		}
		switch {
		case o.Recreated:
			c.Action, c.Runs = Recreated, o.ID.Kind == desired.KindJob
		case len(c.Fields) > 0:
			c.Action = Changed
		}
		if c.Restarts, err = restartedPods(o.Before, o.After); err != nil {
			return c, err
		}
	}
	c.Data = dataEffect(o, c)
	switch {
	case c.Action != Unchanged:
		c.Step, c.WaitsFor, c.BlockedBy, c.Estimated = o.Pass, o.WaitsFor, o.PendingReason, estimated
	case c.Reason != "":
		c.Action, c.WaitsFor = Rejected, o.WaitsFor
	}
	return c, nil
}

// changedFields returns the fields that change. The data of a revision is immutable.
func changedFields(before, now rollout.Object) ([]Field, error) {
	b, err := simulate.StripServerFields(before)
	if err != nil {
		return nil, err
	}
	n, err := simulate.StripServerFields(now)
	if err != nil {
		return nil, err
	}
	out := diff(b, n)
	unknown := []string{serverVersionPath}
	if strings.Contains(now.GetAnnotations()[appsapi.DefaultKeys.ConfigRefs], `"`+simulate.UnknownHash+`"`) {
		unknown = append(unknown, derivedPaths...)
	}
	for i := range out {
		if slices.Contains(unknown, out[i].Path) {
			out[i].New, out[i].Unknown = nil, true
		}
	}
	return out, nil
}

// serverVersionPath is the path of the database server version, which only the running server knows.
var serverVersionPath = "metadata.annotations[" + appsapi.DefaultKeys.ServerVersion + "]"

// derivedPaths are the paths of fields that are derived from other fields or from referenced objects.
var derivedPaths = []string{
	"metadata.annotations[" + appsapi.DefaultKeys.AppliedHash + "]",
	"metadata.annotations[" + appsapi.DefaultKeys.ConfigRefs + "]",
	"spec.template.metadata.annotations[" + appsapi.DefaultKeys.ConfigHash + "]",
}

// restartedPods returns the number of pods that are replaced because the pod template changes.
func restartedPods(before, now rollout.Object) (int32, error) {
	var oldReplicas, newReplicas *int32
	var oldTemplate, newTemplate *corev1.PodTemplateSpec
	switch b := before.(type) {
	case *appsv1.Deployment:
		n := now.(*appsv1.Deployment)
		oldReplicas, newReplicas, oldTemplate, newTemplate = b.Spec.Replicas, n.Spec.Replicas, &b.Spec.Template, &n.Spec.Template
	case *appsv1.StatefulSet:
		n := now.(*appsv1.StatefulSet)
		oldReplicas, newReplicas, oldTemplate, newTemplate = b.Spec.Replicas, n.Spec.Replicas, &b.Spec.Template, &n.Spec.Template
	default:
		return 0, nil
	}
	if replicaCount(oldReplicas) == 0 || replicaCount(newReplicas) == 0 {
		return 0, nil // scaled to or from zero: no pods are replaced
	}
	x, err := comparableTemplate(oldTemplate)
	if err != nil {
		return 0, err
	}
	y, err := comparableTemplate(newTemplate)
	if err != nil || reflect.DeepEqual(x, y) {
		return 0, err
	}
	return replicaCount(oldReplicas), nil
}

func comparableTemplate(t *corev1.PodTemplateSpec) (map[string]any, error) {
	return simulate.StripServerFields(&corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Name: "template"}, Template: *t})
}

func replicaCount(n *int32) int32 {
	if n == nil {
		return 1
	}
	return *n
}

// dataEffect returns the effect on a claim or its credentials.
func dataEffect(o *simulate.ObjectResult, c Change) string {
	if o.ID.Kind != desired.KindClaim && o.ID.Kind != desired.KindSecret {
		return ""
	}
	retained := func(obj rollout.Object) bool { return obj.GetLabels()[appsapi.DefaultKeys.Retained] == "true" }
	switch {
	case c.Action == Created:
		return dataNew
	case c.Action == Deleted:
		return dataDeleted
	case c.Action != Changed:
		return ""
	case slices.ContainsFunc(c.Fields, func(f Field) bool { return strings.HasPrefix(f.Path, "spec.resources.requests") }):
		return dataGrows
	case !retained(o.Before) && retained(o.After):
		return dataRetained
	case retained(o.Before) && !retained(o.After):
		return dataReused
	}
	return ""
}

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
	"github.com/holdfast-dev/holdfast/internal/rehearsal"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

// What becomes of data.
const (
	dataNew      = "New"
	dataGrows    = "Grows"
	dataRetained = "Retained"
	dataFound    = "Found"
	dataDeleted  = "Deleted"
)

// changeOf is an outcome in words.
func changeOf(o *rehearsal.Outcome, guessed bool) (Change, error) {
	c := Change{Component: o.Component, Kind: o.ID.Kind.Kind, Name: o.ID.Name, Action: Unchanged}
	if o.Refused != nil {
		c.Reason = o.Refused.Error()
	}
	var err error
	switch {
	case o.Before == nil && o.Now == nil: // it came and went, or never came
	case o.Before == nil:
		c.Action = Created
		c.Runs = o.ID.Kind == desired.KindJob
	case o.Now == nil:
		c.Action = Deleted
	default:
		if c.Fields, err = fields(o.Before, o.Now); err != nil {
			return c, err
		}
		switch {
		case o.Anew:
			c.Action, c.Runs = Recreated, o.ID.Kind == desired.KindJob
		case len(c.Fields) > 0:
			c.Action = Changed
		}
		if c.Restarts, err = restarts(o.Before, o.Now); err != nil {
			return c, err
		}
	}
	c.Data = data(o, c)
	switch {
	case c.Action != Unchanged:
		c.Step, c.After, c.Because, c.Guessed = o.Pass, o.WaitsFor, o.Why, guessed
	case c.Reason != "":
		c.Action, c.After = Refused, o.WaitsFor
	}
	return c, nil
}

// fields are those that change. The data of a revision is the spec that it remembers, and
// never changes.
func fields(before, now rollout.Object) ([]Field, error) {
	b, err := rehearsal.Plain(before)
	if err != nil {
		return nil, err
	}
	n, err := rehearsal.Plain(now)
	if err != nil {
		return nil, err
	}
	out := diff(b, n)
	if !strings.Contains(now.GetAnnotations()[appsapi.AnnotationRefs], `"`+notKnown+`"`) {
		return out, nil
	}
	for i := range out {
		if slices.Contains(hashes, out[i].Path) {
			out[i].New, out[i].Unknown = nil, true
		}
	}
	return out, nil
}

// hashes are the paths of what follows from other fields, and from what pods read.
var hashes = []string{
	"metadata.annotations[" + appsapi.AnnotationApplied + "]",
	"metadata.annotations[" + appsapi.AnnotationRefs + "]",
	"spec.template.metadata.annotations[" + appsapi.AnnotationConfig + "]",
}

// restarts is how many pods are replaced, because they are made of another template.
func restarts(before, now rollout.Object) (int32, error) {
	var had, has *int32
	var old, wanted *corev1.PodTemplateSpec
	switch b := before.(type) {
	case *appsv1.Deployment:
		n := now.(*appsv1.Deployment)
		had, has, old, wanted = b.Spec.Replicas, n.Spec.Replicas, &b.Spec.Template, &n.Spec.Template
	case *appsv1.StatefulSet:
		n := now.(*appsv1.StatefulSet)
		had, has, old, wanted = b.Spec.Replicas, n.Spec.Replicas, &b.Spec.Template, &n.Spec.Template
	default:
		return 0, nil
	}
	if count(had) == 0 || count(has) == 0 {
		return 0, nil // nothing to replace, or nothing to replace it
	}
	x, err := plainTemplate(old)
	if err != nil {
		return 0, err
	}
	y, err := plainTemplate(wanted)
	if err != nil || reflect.DeepEqual(x, y) {
		return 0, err
	}
	return count(had), nil
}

func plainTemplate(t *corev1.PodTemplateSpec) (map[string]any, error) {
	return rehearsal.Plain(&corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Name: "template"}, Template: *t})
}

func count(n *int32) int32 {
	if n == nil {
		return 1
	}
	return *n
}

// data says what becomes of a claim or of credentials.
func data(o *rehearsal.Outcome, c Change) string {
	if o.ID.Kind != desired.KindClaim && o.ID.Kind != desired.KindSecret {
		return ""
	}
	retained := func(obj rollout.Object) bool { return obj.GetLabels()[appsapi.LabelRetained] == "true" }
	switch {
	case c.Action == Created:
		return dataNew
	case c.Action == Deleted:
		return dataDeleted
	case c.Action != Changed:
		return ""
	case slices.ContainsFunc(c.Fields, func(f Field) bool { return strings.HasPrefix(f.Path, "spec.resources.requests") }):
		return dataGrows
	case !retained(o.Before) && retained(o.Now):
		return dataRetained
	case retained(o.Before) && !retained(o.Now):
		return dataFound
	}
	return ""
}

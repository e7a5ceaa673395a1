package simulate

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/ownership"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

// applyPlan writes a plan into the copy, in the order in which the operator writes it. What the
// API server refuses is noted; the error is that it could not be asked.
func (sim *simulator) applyPlan(plan rollout.Plan) error {
	for i := range plan.Steps {
		if err := sim.prepareData(&plan.Steps[i]); err != nil {
			return err
		}
	}
	if err := sim.applySteps(plan); err != nil {
		return err
	}
	if err := sim.growClaims(plan); err != nil {
		return err
	}
	if len(sim.rejections) > 0 {
		return nil // the operator prunes only after everything else succeeded
	}
	for _, r := range plan.Prune {
		sim.deleteChild(r.Child)
	}
	return sim.finalizeData(plan)
}

// prepareData does what has to be done about data before its component is applied.
func (sim *simulator) prepareData(step *rollout.Step) error {
	if step.Data == nil || !step.Data.PodsAllowed {
		return nil
	}
	c := sim.component(step.Component)
	if sim.observed[c.Workload] == nil && !slices.ContainsFunc(step.Apply, func(a rollout.ChildApply) bool { return a.ID == c.Workload }) {
		return nil // it waits for something else
	}
	rejected, err := sim.startData(c, step.Data)
	if rejected != nil {
		sim.rejections[c.Workload] = rejected
		step.RemoveFirst, step.Apply, step.Remove, step.Data.ResizeClaims, step.Data.RecreateStatefulSet = nil, nil, nil, nil, false
	}
	return err
}

func (sim *simulator) startData(c desired.Component, d *rollout.DataPlan) (rejected, err error) {
	var adopted []desired.RetainedObject
	for _, name := range d.NewClaims {
		existing, err := sim.server.GetClaim(name)
		switch {
		case err != nil:
			return nil, err
		case existing == nil:
		case existing.Annotations[appsapi.AnnotationAdopt] == "true":
			adopted = append(adopted, desired.RetainedObject{ID: desired.ID{Kind: desired.KindClaim, Name: name}, Object: existing, Claim: existing})
		case existing.Labels[appsapi.LabelManagedBy] != appsapi.ManagedBy:
			return ownership.NewClaimNameConflict(sim.Owner, name), nil
		}
	}
	for _, l := range d.Relabel {
		sim.setLabels(l.RetainedObject, l.DesiredLabels)
	}
	if d.CreateSecret {
		if rejected, err := sim.createSecret(c); rejected != nil || err != nil {
			return rejected, err
		}
	}
	for _, k := range adopted {
		sim.retained = desired.SortRetained(append(sim.retained, k))
		sim.setLabels(k, desired.RetainedLabels(sim.Owner, c))
	}
	return nil, nil
}

// createSecret makes the credentials of a component, without a value.
func (sim *simulator) createSecret(c desired.Component) (rejected, err error) {
	for _, credential := range c.Data.Credentials {
		if from := credential.SecretRef; from != nil {
			exists, err := sim.server.HasSecret(from.Name)
			if err != nil {
				return nil, err
			}
			if !exists {
				return ownership.NewMissingCredentialSecret(sim.Owner, credential), nil
			}
		}
	}
	id := desired.ID{Kind: desired.KindSecret, Name: c.Data.Secret}
	secret := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: sim.Owner.Namespace, Name: id.Name, Labels: desired.RetainedLabels(sim.Owner, c),
	}}
	secret.SetGroupVersionKind(desired.KindSecret)
	sim.retained = desired.SortRetained(append(sim.retained, desired.RetainedObject{ID: id, Object: secret}))
	sim.recordWrite(id)
	return nil, nil
}

// setLabels gives a claim or Secret labels of ours.
func (sim *simulator) setLabels(k desired.RetainedObject, want map[string]string) {
	changed := false
	sim.mutate(k.ID, func(m metav1.Object) {
		labels := map[string]string{}
		for key, v := range m.GetLabels() {
			if key != appsapi.LabelRetained {
				labels[key] = v
			}
		}
		for key, v := range want {
			labels[key] = v
		}
		m.SetLabels(labels)
		changed = true
	})
	if changed {
		sim.recordWrite(k.ID)
	}
}

// mutate puts a changed copy in the place of what is kept.
func (sim *simulator) mutate(id desired.ID, mutate func(metav1.Object)) {
	sim.retained = slices.Clone(sim.retained)
	for i, k := range sim.retained {
		if k.ID != id {
			continue
		}
		if k.Claim != nil {
			k.Claim = k.Claim.DeepCopy()
			k.Object = k.Claim
		} else {
			k.Object = retainedObject(k).DeepCopyObject().(metav1.Object)
		}
		mutate(k.Object)
		sim.retained[i] = k
	}
}

func (sim *simulator) applySteps(plan rollout.Plan) error {
	failed := map[string]bool{}
	for _, step := range plan.Steps {
		for _, id := range step.RemoveFirst {
			sim.deleteChild(id)
		}
	}
	for _, step := range plan.Steps {
		for _, a := range step.Apply {
			rejected, err := sim.apply(a)
			if err != nil {
				return err
			}
			if rejected != nil {
				sim.rejections[a.ID], failed[step.Component] = rejected, true
			}
		}
	}
	for _, step := range plan.Steps {
		for _, id := range step.Remove {
			if !failed[step.Component] {
				sim.deleteChild(id)
			}
		}
	}
	return nil
}

// unreachableError is an error of a Server that says nothing about the object: it could not be
// asked.
type unreachableError struct{ error }

func (u unreachableError) Unwrap() error { return u.error }

// Unreachable marks an error as one of those.
func Unreachable(err error) error { return unreachableError{err} }

// apply applies a child as the operator does: not what is somebody else's, and not what
// changes nothing.
func (sim *simulator) apply(a rollout.ChildApply) (rejected, err error) {
	live := sim.observed[a.ID]
	if live == nil {
		live = sim.unowned[a.ID]
	}
	if live != nil {
		if _, err := ownership.CheckOwnership(sim.Owner, a.ID, live); err != nil {
			return err, nil
		}
	}
	config, err := sim.render(a.Child, live)
	if err != nil {
		return err, nil
	}
	if live != nil && a.HoldPodTemplate && config.ReplacesPods(live) {
		config.HoldPodTemplate(live)
	}
	if live != nil && sim.inSync(config, live) {
		return nil, nil
	}
	result, err := sim.server.Apply(a.ID, config, live, sim.deleted[a.ID])
	var unreachableErr unreachableError
	if errors.As(err, &unreachableErr) {
		return nil, err
	}
	if err != nil {
		return err, nil
	}
	if live != nil && equalSpec(live, result) {
		return nil, nil // somebody insists on something else, and gets it
	}
	sim.observed[a.ID] = result
	delete(sim.unowned, a.ID)
	sim.recreated[a.ID] = sim.deleted[a.ID]
	sim.recordWrite(a.ID)
	return nil, nil
}

func (sim *simulator) render(child desired.Child, live rollout.Object) (*desired.Config, error) {
	if live == nil {
		return child.Render(nil)
	}
	config, err := child.Render(live)
	var refusal *desired.IncompatibleError
	if errors.As(err, &refusal) {
		return nil, ownership.NewNameConflict(sim.Owner, child.ID, "cannot be taken over: "+refusal.Message)
	}
	return config, err
}

// inSync says whether an object is as we want it.
func (sim *simulator) inSync(config *desired.Config, live rollout.Object) bool {
	want, err := config.Fields()
	if err != nil || !ownership.MetadataMatches(sim.Owner, config, live) {
		return false
	}
	projected, err := ownership.Compare(want, live)
	return err == nil && projected == ""
}

// deleteChild deletes a child of ours.
func (sim *simulator) deleteChild(id desired.ID) {
	live := sim.observed[id]
	if run, ok := live.(*batchv1.Job); ok && rollout.JobFinished(run) && sim.isJobRetained(run) {
		return
	}
	if live != nil && metav1.IsControlledBy(live, &metav1.ObjectMeta{UID: sim.Owner.UID}) {
		delete(sim.observed, id)
		sim.deleted[id] = sim.Observed[id] != nil
		sim.recordWrite(id)
	}
}

// growClaims makes claims ask for the size that the spec says, and the set anew when all do.
func (sim *simulator) growClaims(plan rollout.Plan) error {
	for _, step := range plan.Steps {
		if step.Data == nil || sim.rejections[sim.component(step.Component).Workload] != nil {
			continue
		}
		for _, g := range step.Data.ResizeClaims {
			id := desired.ID{Kind: desired.KindClaim, Name: g.Claim.Name}
			if sim.writtenThisPass[id] {
				continue // it was given labels a moment ago: the operator waits until it sees that
			}
			err := sim.server.Resize(g.Claim, g.Size)
			var unreachableErr unreachableError
			switch {
			case errors.As(err, &unreachableErr):
				return err
			case err != nil:
				sim.rejections[id] = err
			default:
				sim.mutate(id, func(m metav1.Object) {
					m.(*corev1.PersistentVolumeClaim).Spec.Resources.Requests[corev1.ResourceStorage] = g.Size
				})
				sim.recordWrite(id)
			}
		}
		if step.Data.RecreateStatefulSet {
			c := sim.component(step.Component)
			sim.runningPods[c.Name] = desiredReplicas(sim.observed[c.Workload])
			sim.deleteChild(c.Workload)
		}
	}
	return nil
}

// finalizeData does what has to be done about data that no component has, and forgets specs.
func (sim *simulator) finalizeData(plan rollout.Plan) error {
	for _, l := range plan.Retain {
		sim.setLabels(l.RetainedObject, l.DesiredLabels)
	}
	for _, k := range plan.Purge {
		user, err := sim.server.PodUsing(k)
		if err != nil {
			return err
		}
		if user != "" {
			sim.problems[k.Component()] = fmt.Sprintf("%s stays for as long as %s uses it", k, user)
			continue
		}
		sim.retained = slices.DeleteFunc(slices.Clone(sim.retained), func(o desired.RetainedObject) bool { return o.ID == k.ID })
		sim.recordWrite(k.ID)
	}
	for _, r := range sim.revisionPlan.Prune {
		sim.deleteRevision(r)
	}
	return nil
}

func (sim *simulator) component(name string) desired.Component {
	return sim.components[slices.IndexFunc(sim.components, func(c desired.Component) bool { return c.Name == name })]
}

// recordWrite notes a write.
func (sim *simulator) recordWrite(id desired.ID) {
	sim.writtenThisPass[id], sim.lastWrite[id] = true, sim.current
}

func union(a, b []string) []string {
	out := slices.Clone(a)
	for _, s := range b {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// joinNames joins names as one says them.
func joinNames(names []string) string {
	last := len(names) - 1
	if last < 1 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

package rehearsal

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
	"github.com/holdfast-dev/holdfast/internal/own"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

// act writes a plan into the copy, in the order in which the operator writes it. What the
// API server refuses is noted; the error is that it could not be asked.
func (p *player) act(plan rollout.Plan) error {
	for i := range plan.Steps {
		if err := p.prepare(&plan.Steps[i]); err != nil {
			return err
		}
	}
	if err := p.execute(plan); err != nil {
		return err
	}
	if err := p.grow(plan); err != nil {
		return err
	}
	if len(p.errors) > 0 {
		return nil // the operator prunes only after everything else succeeded
	}
	for _, r := range plan.Prune {
		p.remove(r.Child)
	}
	return p.settle(plan)
}

// prepare does what has to be done about data before its component is applied.
func (p *player) prepare(step *rollout.Step) error {
	if step.Data == nil || !step.Data.Start {
		return nil
	}
	c := p.component(step.Component)
	if p.seen[c.Workload] == nil && !slices.ContainsFunc(step.Apply, func(a rollout.Application) bool { return a.ID == c.Workload }) {
		return nil // it waits for something else
	}
	refused, err := p.begin(c, step.Data)
	if refused != nil {
		p.errors[c.Workload] = refused
		step.First, step.Apply, step.Remove, step.Data.Grow, step.Data.Renew = nil, nil, nil, nil, false
	}
	return err
}

func (p *player) begin(c desired.Component, d *rollout.Data) (refused, err error) {
	var given []desired.Kept
	for _, name := range d.Claims {
		there, err := p.server.Claim(name)
		switch {
		case err != nil:
			return nil, err
		case there == nil:
		case there.Annotations[appsapi.AnnotationAdopt] == "true":
			given = append(given, desired.Kept{ID: desired.ID{Kind: desired.KindClaim, Name: name}, Object: there, Claim: there})
		case there.Labels[appsapi.LabelManagedBy] != appsapi.ManagedBy:
			return own.ClaimTaken(p.Owner, name), nil
		}
	}
	for _, l := range d.Label {
		p.label(l.Kept, l.Want)
	}
	if d.Create {
		if refused, err := p.makeSecret(c); refused != nil || err != nil {
			return refused, err
		}
	}
	for _, k := range given {
		p.kept = desired.InOrder(append(p.kept, k))
		p.label(k, desired.KeptLabels(p.Owner, c))
	}
	return nil, nil
}

// makeSecret makes the credentials of a component, without a value.
func (p *player) makeSecret(c desired.Component) (refused, err error) {
	for _, credential := range c.Data.Credentials {
		if from := credential.SecretRef; from != nil {
			there, err := p.server.HasSecret(from.Name)
			if err != nil {
				return nil, err
			}
			if !there {
				return own.NoSource(p.Owner, credential), nil
			}
		}
	}
	id := desired.ID{Kind: desired.KindSecret, Name: c.Data.Secret}
	secret := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: p.Owner.Namespace, Name: id.Name, Labels: desired.KeptLabels(p.Owner, c),
	}}
	secret.SetGroupVersionKind(desired.KindSecret)
	p.kept = desired.InOrder(append(p.kept, desired.Kept{ID: id, Object: secret}))
	p.touch(id)
	return nil, nil
}

// label gives a claim or Secret labels of ours.
func (p *player) label(k desired.Kept, want map[string]string) {
	changed := false
	p.change(k.ID, func(m metav1.Object) {
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
		p.touch(k.ID)
	}
}

// change puts a changed copy in the place of what is kept.
func (p *player) change(id desired.ID, change func(metav1.Object)) {
	p.kept = slices.Clone(p.kept)
	for i, k := range p.kept {
		if k.ID != id {
			continue
		}
		if k.Claim != nil {
			k.Claim = k.Claim.DeepCopy()
			k.Object = k.Claim
		} else {
			k.Object = objectOf(k).DeepCopyObject().(metav1.Object)
		}
		change(k.Object)
		p.kept[i] = k
	}
}

func (p *player) execute(plan rollout.Plan) error {
	failed := map[string]bool{}
	for _, step := range plan.Steps {
		for _, id := range step.First {
			p.remove(id)
		}
	}
	for _, step := range plan.Steps {
		for _, a := range step.Apply {
			refused, err := p.apply(a)
			if err != nil {
				return err
			}
			if refused != nil {
				p.errors[a.ID], failed[step.Component] = refused, true
			}
		}
	}
	for _, step := range plan.Steps {
		for _, id := range step.Remove {
			if !failed[step.Component] {
				p.remove(id)
			}
		}
	}
	return nil
}

// unreachable is an error of a Server that says nothing about the object: it could not be
// asked.
type unreachable struct{ error }

func (u unreachable) Unwrap() error { return u.error }

// Unreachable marks an error as one of those.
func Unreachable(err error) error { return unreachable{err} }

// apply applies a child as the operator does: not what is somebody else's, and not what
// changes nothing.
func (p *player) apply(a rollout.Application) (refused, err error) {
	live := p.seen[a.ID]
	if live == nil {
		live = p.others[a.ID]
	}
	if live != nil {
		if _, err := own.Claim(p.Owner, a.ID, live); err != nil {
			return err, nil
		}
	}
	config, err := p.render(a.Child, live)
	if err != nil {
		return err, nil
	}
	if live != nil && a.HoldPods && config.ReplacesPods(live) {
		config.HoldPods(live)
	}
	if live != nil && p.holds(config, live) {
		return nil, nil
	}
	answer, err := p.server.Apply(a.ID, config, live, p.gone[a.ID])
	var unasked unreachable
	if errors.As(err, &unasked) {
		return nil, err
	}
	if err != nil {
		return err, nil
	}
	if live != nil && same(live, answer) {
		return nil, nil // somebody insists on something else, and gets it
	}
	p.seen[a.ID] = answer
	delete(p.others, a.ID)
	p.anew[a.ID] = p.gone[a.ID]
	p.touch(a.ID)
	return nil, nil
}

func (p *player) render(child desired.Child, live rollout.Object) (*desired.Config, error) {
	if live == nil {
		return child.Render(nil)
	}
	config, err := child.Render(live)
	var refusal *desired.Refusal
	if errors.As(err, &refusal) {
		return nil, own.Conflict(p.Owner, child.ID, "cannot be taken over: "+refusal.Why)
	}
	return config, err
}

// holds says whether an object is as we want it.
func (p *player) holds(config *desired.Config, live rollout.Object) bool {
	want, err := config.Fields()
	if err != nil || !own.MetadataHeld(p.Owner, config, live) {
		return false
	}
	projected, err := own.Compare(want, live)
	return err == nil && projected == ""
}

// remove deletes a child of ours.
func (p *player) remove(id desired.ID) {
	live := p.seen[id]
	if run, ok := live.(*batchv1.Job); ok && rollout.Finished(run) && p.remembers(run) {
		return
	}
	if live != nil && metav1.IsControlledBy(live, &metav1.ObjectMeta{UID: p.Owner.UID}) {
		delete(p.seen, id)
		p.gone[id] = p.Seen[id] != nil
		p.touch(id)
	}
}

// grow makes claims ask for the size that the spec says, and the set anew when all do.
func (p *player) grow(plan rollout.Plan) error {
	for _, step := range plan.Steps {
		if step.Data == nil || p.errors[p.component(step.Component).Workload] != nil {
			continue
		}
		for _, g := range step.Data.Grow {
			id := desired.ID{Kind: desired.KindClaim, Name: g.Claim.Name}
			if p.wrote[id] {
				continue // it was given labels a moment ago: the operator waits until it sees that
			}
			err := p.server.Resize(g.Claim, g.Size)
			var unasked unreachable
			switch {
			case errors.As(err, &unasked):
				return err
			case err != nil:
				p.errors[id] = err
			default:
				p.change(id, func(m metav1.Object) {
					m.(*corev1.PersistentVolumeClaim).Spec.Resources.Requests[corev1.ResourceStorage] = g.Size
				})
				p.touch(id)
			}
		}
		if step.Data.Renew {
			c := p.component(step.Component)
			p.running[c.Name] = replicasOf(p.seen[c.Workload])
			p.remove(c.Workload)
		}
	}
	return nil
}

// settle does what has to be done about data that no component has, and forgets specs.
func (p *player) settle(plan rollout.Plan) error {
	for _, l := range plan.Retain {
		p.label(l.Kept, l.Want)
	}
	for _, k := range plan.Purge {
		user, err := p.server.User(k)
		if err != nil {
			return err
		}
		if user != "" {
			p.trouble[k.Component()] = fmt.Sprintf("%s stays for as long as %s uses it", k, user)
			continue
		}
		p.kept = slices.DeleteFunc(slices.Clone(p.kept), func(o desired.Kept) bool { return o.ID == k.ID })
		p.touch(k.ID)
	}
	for _, r := range p.past.Forget {
		p.forget(r)
	}
	return nil
}

func (p *player) component(name string) desired.Component {
	return p.components[slices.IndexFunc(p.components, func(c desired.Component) bool { return c.Name == name })]
}

// touch notes a write.
func (p *player) touch(id desired.ID) { p.wrote[id], p.written[id] = true, p.now }

func union(a, b []string) []string {
	out := slices.Clone(a)
	for _, s := range b {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// and joins names as one says them.
func and(names []string) string {
	last := len(names) - 1
	if last < 1 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

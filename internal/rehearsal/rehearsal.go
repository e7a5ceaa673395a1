// Package rehearsal plays what the operator would do about an application, pass by pass, on
// a copy of what is in the cluster. It decides with the operator's own planner and asks a
// Server what the API server would make of each write. Between two passes it plays a
// Kubernetes in which everything goes well: pods become ready, jobs end, volumes grow.
//
//	seen, kept ──► desired.For ──► rollout.For ──► write into the copy ─┐
//	     ▲                                                              │
//	     ├── something was written: look again ◄────────────────────────┤
//	     └── nothing was: everything becomes ready, the next round ◄────┘
//
// Safety rule: it changes nothing that it is given, and a Server that it is given must not
// change anything either.
package rehearsal

import (
	"fmt"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/health"
	"github.com/holdfast-dev/holdfast/internal/history"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

// Input is an application, and the cluster as it is.
type Input struct {
	Owner    desired.Owner
	Specs    []appsapi.Component
	Contents desired.Contents
	// Seen are the children of the application, and what else of ours has the name of one.
	Seen rollout.Seen
	// Others have the name of a child, and nothing that says that they are ours. The operator
	// meets them when it writes.
	Others rollout.Seen
	Kept   []desired.Kept
	// Running counts the pods of components that have no StatefulSet.
	Running map[string]int32
	// Spec is what is remembered of the application; nil is nothing. Revisions are those
	// that are remembered, and Limit is how many may be, 0 for the usual number.
	Spec      *history.Spec
	Revisions []*appsv1.ControllerRevision
	Limit     int
	// DeleteData is set when data goes with the component that it belongs to.
	DeleteData bool
}

// Server answers as the API server would, and changes nothing.
type Server interface {
	// Apply returns what an object becomes. live is nil if there is none; anew is set if
	// there is one that will be deleted before.
	Apply(id desired.ID, config *desired.Config, live rollout.Object, anew bool) (rollout.Object, error)
	// Resize says whether a claim may ask for another size.
	Resize(claim *corev1.PersistentVolumeClaim, size resource.Quantity) error
	// Claim returns the claim of a name, or nil.
	Claim(name string) (*corev1.PersistentVolumeClaim, error)
	// HasSecret says whether there is a Secret of a name.
	HasSecret(name string) (bool, error)
	// User names a pod of somebody else that uses what is kept, or nothing.
	User(kept desired.Kept) (string, error)
}

// Result is what the operator would do, until there is nothing left to do.
type Result struct {
	// Invalid is why the spec can never work. Nothing is written then.
	Invalid error
	// HandsOff is set when everything is suspended, and Held when something that left the
	// spec stays because of that.
	HandsOff, Held bool
	// Components are those of the spec.
	Components []desired.Component
	// Outcomes has an entry for everything that is there before or after, or is refused.
	Outcomes map[desired.ID]*Outcome
	// Trouble is why a component does not get on, by its name: about its data, or because
	// it waits for something that will not come.
	Trouble map[string]string
}

// Outcome is what becomes of one object.
type Outcome struct {
	ID        desired.ID
	Component string
	// Before and Now are nil when it does not exist then.
	Before, Now rollout.Object
	// Anew is set when it is deleted and made again; its pods stay if it is a StatefulSet.
	Anew bool
	// Pass is the last one that wrote it, from 1; 0 is none.
	Pass int
	// WaitsFor are the components that have to be ready first.
	WaitsFor []string
	// Why it stays for a while although nobody wants it.
	Why string
	// Refused is why it cannot be what the spec wants.
	Refused error
}

// Play plays until there is nothing left to write.
func Play(in Input, server Server) (*Result, error) {
	p := &player{
		Input: in, server: server, seen: maps.Clone(in.Seen), others: maps.Clone(in.Others),
		running: maps.Clone(in.Running), gone: map[desired.ID]bool{}, anew: map[desired.ID]bool{},
		waits: map[string][]wait{}, stays: map[string]wait{}, written: map[desired.ID]moment{}, trouble: map[string]string{},
	}
	if p.running == nil {
		p.running = map[string]int32{}
	}
	p.kept = append(p.kept, in.Kept...)
	p.revisions = append(p.revisions, in.Revisions...)
	// Each pass writes something, or makes something ready.
	for most := 50 + 10*(len(in.Specs)+len(in.Seen)); ; {
		p.now.pass++
		end, err := p.play()
		if err != nil {
			return nil, err
		}
		if end {
			return p.result(), nil
		}
		if p.now.pass == most {
			return nil, fmt.Errorf("there is no end to what would be written of %s %s/%s", in.Owner.Kind, in.Owner.Namespace, in.Owner.Name)
		}
	}
}

// moment is a pass, and the round that it is in. A round ends when nothing more can be
// written until something becomes ready.
type moment struct{ round, pass int }

// wait is what a component waited for in a round.
type wait struct {
	round int
	on    []string
	why   string
}

// player plays one application.
type player struct {
	Input
	server Server

	// The copy of the cluster.
	seen, others rollout.Seen
	kept         []desired.Kept
	running      map[string]int32
	revisions    []*appsv1.ControllerRevision

	now        moment
	wrote      map[desired.ID]bool  // in this pass
	errors     map[desired.ID]error // of this pass
	components []desired.Component
	past       history.Plan
	invalid    error
	handsOff   bool
	held       bool

	// What was seen on the way.
	gone, anew map[desired.ID]bool
	waits      map[string][]wait
	stays      map[string]wait
	written    map[desired.ID]moment
	trouble    map[string]string // of the last pass
}

// play plays one pass, and what Kubernetes does when there is nothing left to write.
func (p *player) play() (end bool, err error) {
	p.wrote, p.errors, p.trouble = map[desired.ID]bool{}, map[desired.ID]error{}, map[string]string{}
	plan, ok := p.decide()
	if !ok {
		return true, nil
	}
	p.note(plan)
	if err := p.remember(); err != nil {
		return false, err
	}
	if err := p.act(plan); err != nil {
		return false, err
	}
	if len(p.wrote) > 0 {
		return false, nil // what goes is gone before anything is ready
	}
	moved := p.becomeReady()
	p.now.round++
	return !moved && !p.markHealthy(plan), nil
}

// decide asks the planner of the operator. There is nothing to do for a spec that can never
// work, and with hands off.
func (p *player) decide() (plan rollout.Plan, ok bool) {
	p.components = desired.For(p.Owner, p.Specs, desired.Known{Contents: p.Contents, Kept: p.kept, Running: p.running})
	p.past = history.Plan{}
	keep := map[string]bool{}
	if p.Spec != nil {
		p.past = history.For(desired.RevisionName(p.Owner, p.Spec.Hash), p.revisions, p.Limit)
		keep = rollout.JobsToKeep(p.revisions, p.past.Forget)
	}
	plan, p.invalid = rollout.For(rollout.Input{
		Owner: p.Owner, Components: p.components, Seen: p.seen, KeepJobs: keep, Kept: p.kept, DeleteData: p.DeleteData,
		Databases: letIn(p.components),
	})
	p.handsOff, p.held = p.invalid == nil && len(plan.Steps) == 0, plan.Held
	return plan, p.invalid == nil && !p.handsOff
}

// letIn says that a database whose server runs lets its application in.
func letIn(components []desired.Component) map[string]health.Verdict {
	out := map[string]health.Verdict{}
	for _, c := range components {
		if c.Database != nil {
			out[c.Name] = health.Verdict{Status: health.Healthy}
		}
	}
	return out
}

// note keeps what waits for what.
func (p *player) note(plan rollout.Plan) {
	for _, s := range plan.Steps {
		switch {
		case len(s.WaitsFor) > 0:
			p.waits[s.Component] = append(p.waits[s.Component], wait{round: p.now.round, on: s.WaitsFor})
			p.trouble[s.Component] = "waits for " + and(s.WaitsFor)
		case s.Runs != nil:
			p.waits[s.Component] = append(p.waits[s.Component], wait{round: p.now.round})
		}
		if s.Data != nil && s.Data.Verdict != nil && s.Data.Verdict.Status == "Degraded" {
			p.trouble[s.Component] = s.Data.Verdict.Message
		}
	}
	for _, k := range plan.Keep {
		p.stays[k.Component] = wait{round: p.now.round, why: k.Why}
		p.trouble[k.Component] = k.Why
	}
}

// result compares what is there now with what was there before.
func (p *player) result() *Result {
	r := &Result{Invalid: p.invalid, HandsOff: p.handsOff, Held: p.held, Components: p.components,
		Outcomes: map[desired.ID]*Outcome{}, Trouble: p.trouble}
	entry := func(id desired.ID) *Outcome {
		o := r.Outcomes[id]
		if o == nil {
			o = &Outcome{ID: id, Pass: p.written[id].pass, Anew: p.anew[id]}
			r.Outcomes[id] = o
		}
		return o
	}
	before, now := p.everything(p.Seen, p.Kept, p.Revisions), p.everything(p.seen, p.kept, p.revisions)
	for id, obj := range before {
		entry(id).Before = obj
	}
	for id, obj := range now {
		o := entry(id)
		o.Now = obj
		if o.Before == nil && p.Others[id] != nil { // it was taken over
			o.Before = p.Others[id]
		}
	}
	for id, err := range p.errors {
		entry(id).Refused = err
	}
	for _, o := range r.Outcomes {
		p.explain(o)
	}
	return r
}

// explain says whose an outcome is and what it waits for.
func (p *player) explain(o *Outcome) {
	written := p.written[o.ID]
	for _, obj := range []rollout.Object{o.Before, o.Now} {
		if obj != nil && obj.GetLabels()[appsapi.LabelComponent] != "" {
			o.Component = obj.GetLabels()[appsapi.LabelComponent]
		}
	}
	for i := range p.components {
		for _, child := range p.components[i].Children {
			if child.ID == o.ID {
				o.Component = p.components[i].Name
			}
		}
	}
	if o.Now == nil {
		if s, ok := p.stays[o.Component]; ok && s.round < written.round {
			o.Why = s.why
		}
		return
	}
	for _, w := range p.waits[o.Component] {
		if w.round < written.round || o.Pass == 0 {
			o.WaitsFor = union(o.WaitsFor, w.on)
		}
	}
	if o.Pass == 0 && o.Before != nil {
		o.WaitsFor = nil // nothing is written to it at all
	}
}

// everything is all that there is, by name.
func (p *player) everything(seen rollout.Seen, kept []desired.Kept, revisions []*appsv1.ControllerRevision) map[desired.ID]rollout.Object {
	all := map[desired.ID]rollout.Object{}
	for id, obj := range seen {
		if metav1.IsControlledBy(obj, &metav1.ObjectMeta{UID: p.Owner.UID}) {
			all[id] = obj
		}
	}
	for _, k := range kept {
		all[k.ID] = objectOf(k)
	}
	for _, r := range revisions {
		all[desired.ID{Kind: desired.KindRevision, Name: r.Name}] = r
	}
	return all
}

func objectOf(k desired.Kept) rollout.Object {
	if k.Claim != nil {
		return k.Claim
	}
	if obj, ok := k.Object.(rollout.Object); ok {
		return obj
	}
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: k.Name, Labels: k.GetLabels(), Annotations: k.GetAnnotations()}}
}

package simulate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/apply"
	"github.com/holdfast-dev/holdfast/internal/childkind"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/health"
	"github.com/holdfast-dev/holdfast/internal/reconcile/execute"
	"github.com/holdfast-dev/holdfast/internal/revision"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

// Input is an application and the state of the cluster.
type Input struct {
	Kind execute.Kind
	// App is the application as it would be stored, Live the stored one, or nil.
	App, Live execute.Application
	// Objects are all children, claims and Secrets (metadata only) in the namespace with the managed-by
	// label.
	Objects    []client.Object
	ConfigRefs execute.ConfigRefs
	// Reader reads other objects: pods, and objects without the label.
	Reader client.Reader
	// SecretsHidden is set if the caller has no permission to read Secrets.
	SecretsHidden bool
	// MissingKinds are the kinds that the cluster does not serve.
	MissingKinds map[schema.GroupVersionKind]bool
}

// APIServer returns the results of writes without storing them. Errors that are unrelated to the object,
// such as timeouts, must be marked with Unreachable.
type APIServer interface {
	// Apply returns the object after an apply.
	Apply(Apply) (rollout.Object, error)
	// Resize returns an error if a claim cannot request another size.
	Resize(claim *corev1.PersistentVolumeClaim, size resource.Quantity) error
}

// Apply is a server-side apply of one object.
type Apply struct {
	ID     desired.ID
	Config *desired.Config
	// Current is the object of the copy, or nil.
	Current rollout.Object
	// Stored is the object of the cluster, or nil.
	Stored rollout.Object
	// Recreated is set if the stored object is deleted first.
	Recreated bool
}

// UnknownHash is the placeholder for the hash of a Secret that only the operator can compute.
const UnknownHash = "not-known"

type unreachableError struct{ error }

func (u unreachableError) Unwrap() error { return u.error }

// Unreachable marks an error that is unrelated to the object. It ends the simulation.
func Unreachable(err error) error { return unreachableError{err} }

// maxStalePasses is the maximum number of consecutive stale passes without a write. The copy is up to date
// in the next pass; more stale passes mean that the state never becomes current.
const maxStalePasses = 3

// passID identifies a pass and its round. A round ends when all further writes wait for readiness.
type passID struct{ round, pass int }

// waitRecord records the components that a component waited for in a round.
type waitRecord struct {
	round      int
	components []string
	reason     string
}

// simulator simulates one application.
type simulator struct {
	*cluster
	executor *execute.Executor

	first, last *execute.Scope
	stalePasses int
	// waits and pendingRemovals are keyed by component.
	waits           map[string][]waitRecord
	pendingRemovals map[string]waitRecord
	problems        map[string]string // of the last pass
}

// Run simulates until there are no more writes.
func Run(ctx context.Context, in Input, server APIServer) (*Result, error) {
	c := newCluster(in, server)
	sim := &simulator{cluster: c, waits: map[string][]waitRecord{}, pendingRemovals: map[string]waitRecord{}}
	sim.executor = &execute.Executor{
		Kind: in.Kind, ChildKinds: childkind.All, Cache: c, APIReader: c, Writer: c, OwnWrites: execute.NewOwnWrites(),
		ConfigRefs: configRefs{in.ConfigRefs, c}, Databases: databases{c}, OptionalKinds: optionalKinds(in.MissingKinds),
	}
	if err := sim.loadBindings(ctx); err != nil {
		return nil, err
	}
	// Each pass writes an object or makes one ready, so the number of passes is limited.
	for range 50 + 10*(len(in.Kind.Components(in.App))+len(in.Objects)) {
		done, err := sim.runPass(ctx)
		if err != nil {
			return nil, err
		}
		if done {
			return sim.result(), nil
		}
	}
	return nil, fmt.Errorf("the operator would repeatedly change %s %s/%s without reaching a stable state",
		in.Kind.GVK.Kind, in.App.GetNamespace(), in.App.GetName())
}

// runPass runs one reconcile, and advances the controllers if there were no writes.
func (sim *simulator) runPass(ctx context.Context) (done bool, err error) {
	sim.startPass()
	s := sim.executor.Run(ctx, sim.app)
	if sim.first == nil {
		sim.first = s
	}
	sim.last, sim.problems = s, map[string]string{}
	switch {
	case sim.unreachable != nil:
		return false, sim.unreachable
	case s.ObserveErr != nil:
		return false, s.ObserveErr
	case s.SpecErr != nil:
		return true, nil //nolint:nilerr // part of the result
	case len(s.Plan.Steps) == 0: // all components are suspended
		return true, nil
	case s.ObjectErr != nil && !s.IsStale():
		return false, s.ObjectErr
	}
	if err := sim.recordWaits(ctx, s); err != nil {
		return false, err
	}
	if sim.hasWrites() {
		sim.stalePasses = 0
		return false, nil
	}
	if s.IsStale() && sim.stalePasses < maxStalePasses {
		sim.stalePasses++
		return false, nil
	}
	changed := sim.advance(s.Components)
	sim.current.round++
	if changed {
		return false, nil
	}
	marked, err := sim.markHealthy(ctx, s)
	return !marked, err
}

// recordWaits records which components wait, and for which reason.
func (sim *simulator) recordWaits(ctx context.Context, s *execute.Scope) error {
	for _, step := range s.Plan.Steps {
		switch {
		case len(step.WaitsFor) > 0:
			sim.waits[step.Component] = append(sim.waits[step.Component], waitRecord{round: sim.current.round, components: step.WaitsFor})
			sim.problems[step.Component] = "waits for " + joinNames(step.WaitsFor)
		case step.PreviousRun != nil:
			sim.waits[step.Component] = append(sim.waits[step.Component], waitRecord{round: sim.current.round})
		}
		if step.Data != nil && step.Data.Health != nil && step.Data.Health.Status == health.Degraded {
			sim.problems[step.Component] = step.Data.Health.Message
		}
	}
	for _, k := range s.Plan.PendingRemovals {
		sim.pendingRemovals[k.Component] = waitRecord{round: sim.current.round, reason: k.Message}
		sim.problems[k.Component] = k.Message
	}
	for _, k := range s.Plan.Purge {
		if sim.get(k.ID) == nil || len(s.ChildErrs) > 0 {
			continue
		}
		user, err := sim.retained().FindUser(ctx, s.Owner, k)
		if err != nil {
			return err
		}
		if user != "" {
			sim.problems[k.Component()] = fmt.Sprintf("%s is kept while %s uses it", k, user)
		}
	}
	return nil
}

// markHealthy marks the current revision as healthy if all components are ready. The operator can then
// prune the previous healthy revision.
func (sim *simulator) markHealthy(ctx context.Context, s *execute.Scope) (marked bool, err error) {
	waiting := slices.ContainsFunc(s.Plan.Steps, rollout.Step.IsWaiting)
	if s.History.Current == nil || revision.IsHealthy(s.Owner.Keys, s.History.Current) || len(s.ChildErrs) > 0 || len(sim.problems) > 0 || waiting {
		return false, nil
	}
	for _, c := range s.Components {
		for _, child := range c.Children {
			if health.Evaluate(s.Children[child.ID]).Status != health.Healthy {
				return false, nil
			}
		}
		if c.Suspended && rollout.HasPendingChanges(s.Owner.Keys, c, s.Children) {
			return false, nil
		}
	}
	sim.current.pass++
	return true, sim.executor.MarkRevisionHealthy(ctx, s)
}

// rejection returns the error of a child unless it is only caused by outdated state.
func rejection(err error) error {
	if errors.Is(err, apply.ErrStale) {
		return nil
	}
	return err
}

// joinNames joins names with commas and "and".
func joinNames(names []string) string {
	last := len(names) - 1
	if last < 1 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

package engine

import (
	"time"

	"github.com/go-logr/logr"

	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

// logPlan states at V(1) what was decided for each component and why. A component that is applied
// as usual is not mentioned: what was written is logged where it is written.
func logPlan(log logr.Logger, plan rollout.Plan) {
	log = log.V(1)
	if !log.Enabled() {
		return
	}
	for _, s := range plan.Steps {
		log := log.WithValues("component", s.Component)
		if len(s.WaitsFor) > 0 {
			log.Info("Holding component back", "reason", "dependencies are not ready", "waitsFor", s.WaitsFor)
		}
		if s.PreviousRun != nil {
			log.Info("Holding job back", "reason", "its previous run has not ended", "job", s.PreviousRun.Name)
		}
		for _, child := range s.Apply {
			if child.HoldPodTemplate {
				log.Info("Applying without its pod template", "reason", "dependencies are not ready", "child", childName(child.ID))
			}
		}
		for _, id := range s.RemoveFirst {
			log.Info("Removing before apply", "reason", "it would undo what is applied", "child", childName(id))
		}
		for _, id := range s.Remove {
			log.Info("Removing", "reason", "the component does not declare it", "child", childName(id))
		}
		if d := s.Data; d != nil && d.Health != nil {
			log.Info("Leaving data unchanged", "reason", d.Health.Reason, "message", d.Health.Message)
		}
	}
	for _, p := range plan.Prune {
		log.Info("Pruning", "reason", "no longer in the spec", "component", p.Component, "child", childName(p.Child))
	}
	for _, p := range plan.PendingRemovals {
		log.Info("Keeping a removed component", "component", p.Component, "reason", p.Message)
	}
}

// logRequeue states at V(1) why an application is reconciled again although nothing changed.
func logRequeue(log logr.Logger, after time.Duration, reason string) {
	log.V(1).Info("Requeuing", "after", after.Round(time.Millisecond), "reason", reason)
}

func childName(id desired.ID) string { return id.Kind.Kind + "/" + id.Name }

package execute

import (
	"github.com/go-logr/logr"

	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

// logPlan logs at V(1) each decision and its reason. It does not mention components that are applied
// as usual: writes are logged where they happen.
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
			log.Info("Removing before apply", "reason", "it would change fields that the plan sets", "child", childName(id))
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

func childName(id desired.ID) string { return id.Kind.Kind + "/" + id.Name }

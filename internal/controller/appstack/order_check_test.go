package appstack_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
)

// dependencyWait is the time from the readiness of the last dependency to the rollout of a component.
type dependencyWait struct {
	rollout
	dependencyReady workloadState // of the last dependency
	latency         time.Duration
}

// checkOrder checks every rollout: each dependency must have been ready with the spec of that time. It returns the
// violations and the rollouts that waited for a dependency.
func (f *timeline) checkOrder() (wrong []string, waits []dependencyWait) {
	for _, t := range f.rollouts() {
		spec := f.specAt(t.version)
		violations, last := f.violations(t, spec)
		wrong = append(wrong, violations...)
		if last.version > spec.version {
			waits = append(waits, dependencyWait{t, last, t.observedAt.Sub(last.observedAt)})
		}
	}
	return wrong, waits
}

// violations returns why the spec does not allow a rollout. last is the state in which the last dependency became ready.
func (f *timeline) violations(t rollout, spec *observedSpec) (wrong []string, last workloadState) {
	c := componentOf(&spec.AppStackSpec, t.component)
	switch {
	case c == nil:
		return []string{fmt.Sprintf("%s changed to %s, but is not in the spec", t.component, t.workloadState)}, last
	case t.podSummary != desiredPodSummary(c):
		wrong = append(wrong, fmt.Sprintf("%s changed to %s, want %s", t.component, t.workloadState, desiredPodSummary(c)))
	}
	for _, dependency := range dependenciesOf(c) {
		dep := componentOf(&spec.AppStackSpec, dependency)
		since, ok := f.readyBefore(dep, t.version)
		if !ok {
			wrong = append(wrong, fmt.Sprintf("%s changed to %s before %s was ready with %s: %v", t.component, t.workloadState, dependency, desiredPodSummary(dep), f.states[dependency]))
		}
		if since.version > last.version {
			last = since
		}
	}
	return wrong, last
}

// auditCheck maps resource versions to the audit events of their writes.
type auditCheck map[int64]*audit.Event

func newAuditCheck(events audit.Events) auditCheck {
	out := auditCheck{}
	writes := events.Writes().Of("deployments.apps", "jobs.batch").Where((*audit.Event).Accepted)
	for i := range writes {
		var response struct {
			Metadata struct{ ResourceVersion string }
		}
		if json.Unmarshal(writes[i].ResponseObject, &response) != nil {
			continue
		}
		// The response to a write without a change has an old version: the first write counts.
		version, err := strconv.ParseInt(response.Metadata.ResourceVersion, 10, 64)
		if err == nil && out[version] == nil {
			out[version] = &writes[i]
		}
	}
	return out
}

// violations checks with the audit log that the operator made each rollout, and that it was requested after the write
// that made the dependency ready. Resource versions alone cannot show that the order was intended.
func (w auditCheck) violations(f *timeline, waits []dependencyWait) []string {
	var wrong []string
	for _, t := range f.rollouts() {
		if e := w[t.version]; e == nil || e.User.Username != operator.User {
			wrong = append(wrong, fmt.Sprintf("%s changed to %s by %+v, not by the operator", t.component, t.workloadState, e))
		}
	}
	for _, e := range waits {
		ready, write := w[e.dependencyReady.version], w[e.version]
		switch {
		case ready == nil || write == nil:
			wrong = append(wrong, fmt.Sprintf("%s waited until %d: write not in the audit log", e.component, e.dependencyReady.version))
		case !write.Received.After(ready.Received):
			wrong = append(wrong, fmt.Sprintf("%s was written at %s, before its dependency became ready at %s",
				e.component, write.Received, ready.Received))
		}
	}
	return wrong
}

// formatQuantiles formats the quantiles of durations.
func formatQuantiles(all []time.Duration) string {
	if len(all) == 0 {
		return "no measurements"
	}
	return fmt.Sprintf("median %s, p90 %s, max %s", quantile(all, 50), quantile(all, 90), quantile(all, 100))
}

func quantile(all []time.Duration, percent int) time.Duration {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[min(len(sorted)-1, len(sorted)*percent/100)].Round(100 * time.Microsecond)
}

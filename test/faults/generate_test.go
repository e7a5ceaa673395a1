package faults

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// staleRestartScopes are the points of a step, in percent of its events, to which a restart goes back, and the kinds
// that are stale: a watch may lag for one kind and not for another.
var (
	staleRestartPercents = []int{0, 15, 30, 45, 60, 75, 90}
	staleRestartScopes   = []string{"all", "apps", "children"}
)

// errorCodes are the errors of the error matrix.
var errorCodes = []string{"409", "403", "422", "429", "500", "reset"}

// watchedResources are the resources that the operator watches, dataResources those of scenarios with data.
var (
	watchedResources = []string{
		"appservices.apps.holdfast.dev", "appstacks.apps.holdfast.dev", "deployments.apps", "services", "jobs.batch",
		"pods", "controllerrevisions.apps", "configmaps", "secrets",
	}
	dataResources = []string{
		"appstacks.apps.holdfast.dev", "deployments.apps", "services", "pods", "controllerrevisions.apps", "secrets",
		"statefulsets.apps", "persistentvolumeclaims",
	}
)

func isDataStep(step string) bool {
	return strings.HasPrefix(step, "data-") || strings.HasPrefix(step, "database-")
}

func resourcesOf(step string) []string {
	if isDataStep(step) {
		return dataResources
	}
	return watchedResources
}

// generatePlans returns all plans for these writes by step. Of double crashes it selects two per write: all pairs would
// be tens of thousands.
func generatePlans(writes map[string][]string, seed uint64) []plan {
	rng := rand.New(rand.NewPCG(seed, 0))
	var plans []plan
	for _, s := range allSteps() {
		add := func(kind string, args ...string) { plans = append(plans, plan{kind, s.name, args}) }
		for _, w := range writes[s.name] {
			for _, mode := range crashModes {
				add(crash, w, mode)
			}
			for first := 1; first <= 3; first += 2 { // soon after the first crash, and later
				add(doubleCrash, w, pick(rng, crashModes), strconv.Itoa(first+rng.IntN(2)), pick(rng, crashModes))
			}
			add(lostResponse, w)
			for _, code := range errorCodes {
				add(errorResponse, w, code)
			}
		}
		for _, percent := range staleRestartPercents {
			for _, scope := range staleRestartScopes {
				add(staleRestart, strconv.Itoa(percent), scope)
			}
		}
		for _, r := range resourcesOf(s.name) {
			add(missedEvents, r)
		}
		for _, ms := range []int{300, 1500} {
			add(delayedEvents, strconv.Itoa(ms))
		}
		add(expiredWatches)
	}
	return plans
}

func pick(rng *rand.Rand, values []string) string { return values[rng.IntN(len(values))] }

// samplePlans selects n plans: as many of each step, so that few runs are needed, and of each kind in turn.
func samplePlans(plans []plan, n int, seed uint64) []plan {
	rng := rand.New(rand.NewPCG(seed, 1))
	byStep := map[string][]plan{}
	for _, p := range plans {
		byStep[p.step] = append(byStep[p.step], p)
	}
	var sampled []plan
	for len(sampled) < min(n, len(plans)) {
		for _, s := range allSteps() {
			remaining := byStep[s.name]
			if len(remaining) == 0 || len(sampled) == n {
				continue
			}
			kind := pick(rng, planKinds)
			i := slices.IndexFunc(remaining, func(p plan) bool { return p.kind == kind })
			if i < 0 {
				i = 0
			}
			candidates := 0
			for _, p := range remaining {
				if p.kind == remaining[i].kind {
					candidates++
				}
			}
			skip := rng.IntN(candidates)
			for j, p := range remaining {
				if p.kind != remaining[i].kind {
					continue
				}
				if skip == 0 {
					sampled = append(sampled, p)
					byStep[s.name] = slices.Delete(slices.Clone(remaining), j, j+1)
					break
				}
				skip--
			}
		}
	}
	return sampled
}

// parseWrites reads the list of writes: lines of a step and a write.
func parseWrites(content string) (map[string][]string, error) {
	writes := map[string][]string{}
	for line := range strings.Lines(content) {
		step, write, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok {
			return nil, fmt.Errorf("%q is not a step and a write", line)
		}
		writes[step] = append(writes[step], write)
	}
	return writes, nil
}

func formatWrites(writes map[string][]string) string {
	var text strings.Builder
	for _, s := range allSteps() {
		for _, w := range writes[s.name] {
			fmt.Fprintln(&text, s.name, w)
		}
	}
	return text.String()
}

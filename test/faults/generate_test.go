package faults

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// pasts are the moments of a step, in percent of its events, that a restart goes back to,
// and whose past it is: a watch may lag behind for one kind and not for another.
var (
	moments = []int{0, 15, 30, 45, 60, 75, 90}
	pasts   = []string{"all", "apps", "children"}
)

// codes are the answers of the error matrix.
var codes = []string{"409", "403", "422", "429", "500", "reset"}

// resources that the operator watches; those of data, where there is some.
var (
	resources = []string{
		"appservices.apps.holdfast.dev", "appstacks.apps.holdfast.dev", "deployments.apps", "services", "jobs.batch",
		"pods", "controllerrevisions.apps", "configmaps", "secrets",
	}
	dataResources = []string{
		"appstacks.apps.holdfast.dev", "deployments.apps", "services", "pods", "controllerrevisions.apps", "secrets",
		"statefulsets.apps", "persistentvolumeclaims",
	}
)

func isData(step string) bool {
	return strings.HasPrefix(step, "data-") || strings.HasPrefix(step, "database-")
}

func resourcesOf(step string) []string {
	if isData(step) {
		return dataResources
	}
	return resources
}

// generate makes every plan there is for these writes, by step. Of double crashes two are
// drawn per write: all pairs would be tens of thousands.
func generate(writes map[string][]string, seed uint64) []plan {
	chance := rand.New(rand.NewPCG(seed, 0))
	var plans []plan
	for _, s := range allSteps() {
		add := func(kind string, args ...string) { plans = append(plans, plan{kind, s.name, args}) }
		for _, w := range writes[s.name] {
			for _, mode := range modes {
				add(crash, w, mode)
			}
			for first := 1; first <= 3; first += 2 { // soon after the first crash, and later
				add(crash2, w, draw(chance, modes), strconv.Itoa(first+chance.IntN(2)), draw(chance, modes))
			}
			add(lost, w)
			for _, code := range codes {
				add(refuse, w, code)
			}
		}
		for _, percent := range moments {
			for _, whose := range pasts {
				add(travel, strconv.Itoa(percent), whose)
			}
		}
		for _, r := range resourcesOf(s.name) {
			add(unseen, r)
		}
		for _, ms := range []int{300, 1500} {
			add(lag, strconv.Itoa(ms))
		}
		add(relist)
	}
	return plans
}

func draw(chance *rand.Rand, from []string) string { return from[chance.IntN(len(from))] }

// sample draws n plans: as many of each step, so that few runs carry them,
// and of each kind in turn.
func sample(plans []plan, n int, seed uint64) []plan {
	chance := rand.New(rand.NewPCG(seed, 1))
	byStep := map[string][]plan{}
	for _, p := range plans {
		byStep[p.step] = append(byStep[p.step], p)
	}
	var drawn []plan
	for len(drawn) < min(n, len(plans)) {
		for _, s := range allSteps() {
			left := byStep[s.name]
			if len(left) == 0 || len(drawn) == n {
				continue
			}
			kind := draw(chance, kindsOfPlans)
			i := slices.IndexFunc(left, func(p plan) bool { return p.kind == kind })
			if i < 0 {
				i = 0
			}
			same := 0
			for _, p := range left {
				if p.kind == left[i].kind {
					same++
				}
			}
			skip := chance.IntN(same)
			for j, p := range left {
				if p.kind != left[i].kind {
					continue
				}
				if skip == 0 {
					drawn = append(drawn, p)
					byStep[s.name] = slices.Delete(slices.Clone(left), j, j+1)
					break
				}
				skip--
			}
		}
	}
	return drawn
}

// parseWrites reads the list of all writes of the scenarios: lines of a step and a write.
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

func printWrites(writes map[string][]string) string {
	var text strings.Builder
	for _, s := range allSteps() {
		for _, w := range writes[s.name] {
			fmt.Fprintln(&text, s.name, w)
		}
	}
	return text.String()
}

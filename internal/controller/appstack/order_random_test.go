package appstack_test

import (
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/podsim"
)

var orderSeed = flag.Uint64("seed", 0, "seed of the random stacks to repeat")

// longRun runs all random stacks: HOLDFAST_LONG=1 go test ./internal/controller/appstack.
var longRun = os.Getenv("HOLDFAST_LONG") != ""

// rng creates random stacks. A seed always creates the same ones.
type rng struct{ *rand.Rand }

func newRNG(t *testing.T) rng {
	t.Helper()
	seed := *orderSeed
	if seed == 0 {
		seed = rand.Uint64N(1e6) + 1
	}
	t.Logf("seed %d: go test ./internal/controller/appstack -run %s -seed %d", seed, t.Name(), seed)
	return rng{rand.New(rand.NewPCG(seed, 0))}
}

// oneIn returns true with probability 1/n.
func (r rng) oneIn(n int) bool { return r.IntN(n) == 0 }

// randomImage returns an image whose pods are ready at once, or after individual delays of up to 0.5 s.
func (r rng) randomImage(component string, version int) string {
	if r.oneIn(2) {
		return fmt.Sprintf("shop/%s:%d", component, version)
	}
	return fmt.Sprintf("shop/%s:%d-%d", component, version, 50+r.IntN(450))
}

// randomStack returns n components in random order with random acyclic dependencies.
func (r rng) randomStack(n int) appsapi.AppStackSpec {
	var components []appsapi.Component
	for i := range n {
		c := appsapi.Component{Name: fmt.Sprintf("c%d", i)}
		if r.oneIn(4) {
			c.Job = &appsapi.JobComponent{BackoffLimit: new(int32(0))}
			c.Job.Image = r.randomImage(c.Name, 1)
		} else {
			c.Service = &appsapi.ServiceComponent{ServerSpec: appsapi.ServerSpec{Replicas: new(int32(1 + r.IntN(3)))}}
			// Without a probe, dependents would wait until the pods have settled.
			c.Service.Probes.Readiness = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"ready"}}}}
			c.Service.Image = r.randomImage(c.Name, 1)
			if r.oneIn(2) {
				c.Service.Ports = []appsapi.Port{{Port: 80, TargetPort: 8080}}
			}
		}
		for _, j := range r.Perm(i)[:min(i, r.IntN(4))] {
			r.addDependency(&c, &components[j])
		}
		components = append(components, c)
	}
	r.Shuffle(n, func(i, j int) { components[i], components[j] = components[j], components[i] })
	return appsapi.AppStackSpec{Components: components}
}

// addDependency adds a dependency, as a binding where possible.
func (r rng) addDependency(c, to *appsapi.Component) {
	if to.Service != nil && len(to.Service.Ports) > 0 && r.oneIn(2) {
		c.Bindings = append(c.Bindings, appsapi.Binding{Component: to.Name})
		return
	}
	c.DependsOn = append(c.DependsOn, to.Name)
}

// randomUpgrade changes the image of at least one component.
func (r rng) randomUpgrade(spec appsapi.AppStackSpec) appsapi.AppStackSpec {
	spec = *spec.DeepCopy()
	always := r.IntN(len(spec.Components))
	for i := range spec.Components {
		if c := &spec.Components[i]; i == always || r.oneIn(2) {
			setImage(c, r.randomImage(c.Name, 2))
		}
	}
	return spec
}

func imageOf(c *appsapi.Component) string {
	if c.Job != nil {
		return c.Job.Image
	}
	return c.Service.Image
}

func setImage(c *appsapi.Component, image string) {
	if c.Job != nil {
		c.Job.Image = image
		return
	}
	c.Service.Image = image
}

// dependenciesOf returns the dependencies of a component.
func dependenciesOf(c *appsapi.Component) []string {
	dependencies := slices.Clone(c.DependsOn)
	for _, b := range c.Bindings {
		dependencies = append(dependencies, b.Component)
	}
	return dependencies
}

func componentOf(spec *appsapi.AppStackSpec, name string) *appsapi.Component {
	i := slices.IndexFunc(spec.Components, func(c appsapi.Component) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return &spec.Components[i]
}

// behaviorByImageTag returns the behavior of an image tag: "2" is ready at once, "2-300" within 300 ms, "2-never" never.
func behaviorByImageTag(pod *corev1.Pod) podsim.Behavior {
	i := slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == "app" })
	if i < 0 {
		return podsim.Behavior{}
	}
	_, tag, _ := strings.Cut(pod.Spec.Containers[i].Image, ":")
	_, variant, _ := strings.Cut(tag, "-")
	if b, ok := behaviors[variant]; ok {
		return b
	}
	var delay time.Duration
	if maxDelay, err := strconv.Atoi(variant); err == nil {
		h := fnv.New32a()
		_, _ = h.Write([]byte(pod.UID)) // writing to a hash cannot fail
		delay = time.Duration(50+int(h.Sum32())%max(1, maxDelay-50)) * time.Millisecond
	}
	if pod.Spec.RestartPolicy == corev1.RestartPolicyNever {
		return podsim.Succeeded().After(delay)
	}
	return podsim.Slow(delay)
}

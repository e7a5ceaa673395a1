package environment

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
	"github.com/holdfast-dev/holdfast/internal/testutil/watcher"
)

// dependencyGraphs are stacks of four components by their dependencies.
var dependencyGraphs = map[string]map[string][]string{
	"chain":   {"a": nil, "b": {"a"}, "c": {"b"}, "d": {"c"}},
	"diamond": {"a": nil, "b": {"a"}, "c": {"a"}, "d": {"b", "c"}},
}

var deploymentResource = appsv1.SchemeGroupVersion.WithResource("deployments")

// TestOrderedRollout makes every component of every graph fail in turn. The rollout must stop there, independent
// components must continue, and both a revert and a fix must complete it.
func TestOrderedRollout(t *testing.T) {
	w, row := newWorld(t, "15 ordered rollout")
	observer, err := watcher.Start(w.Context(), w.Plane.Config, deploymentResource)
	w.Expect(err).NotTo(HaveOccurred())
	w.Cleanup(observer.Stop)
	var rollouts []*rolloutCase
	edges := 0
	for shape, dependencies := range dependencyGraphs {
		row.Generated += len(dependencies)
		if shape == "chain" && !longRun {
			continue // the diamond covers all of it except one level
		}
		for component := range dependencies {
			rollouts = append(rollouts, &rolloutCase{world: w, name: shape + "-" + component, dependencies: dependencies, failing: component})
			edges += len(dependencies[component])
		}
	}
	var group sync.WaitGroup
	for _, r := range rollouts {
		group.Go(r.run)
	}
	group.Wait()
	requests, err := w.AuditLog.Since(w.Context(), w.Plane.Config, 0)
	w.Expect(err).NotTo(HaveOccurred())
	operatorVersions := resourceVersionsWritten(requests.In(w.NS).By(operator.User))
	changes := 0
	for _, r := range rollouts {
		violations, n := r.check(observer.State(), operatorVersions)
		if changes += n; len(violations) > 0 {
			row.Failed++
			row.Failures = append(row.Failures, r.name+": "+strings.Join(violations, "; "))
			w.Errorf("%s:\n%s", r.name, strings.Join(violations, "\n"))
		}
	}
	row.Run = len(rollouts)
	row.Measured = fmt.Sprintf("%d rollouts of stacks with %d edges in all, each stopped by a failed component, reverted, stopped again and fixed: "+
		"%d creations and replacements of pods, none before its dependencies were ready; no component had more than one pod unavailable", len(rollouts), edges, changes)
}

// rolloutCase is the rollout of one stack.
type rolloutCase struct {
	*world
	name         string
	dependencies map[string][]string
	failing      string
	specs        []specVersion
}

// specVersion is the images in the spec from a resource version on.
type specVersion struct {
	version int64
	images  map[string]string
}

func (r *rolloutCase) run() {
	var spec strings.Builder
	spec.WriteString("components:\n")
	for _, c := range slices.Sorted(maps.Keys(r.dependencies)) {
		fmt.Fprintf(&spec, "- {name: %s, dependsOn: [%s], service: {image: %q, replicas: 2}}\n", c, strings.Join(r.dependencies[c], ", "), r.image(c, "1"))
	}
	r.recordSpec(r.createStack(r.name, spec.String()), r.images("1"))
	r.waitReady(r.name)

	for _, tag := range []string{"1", "3"} { // revert, then fix
		broken := r.images("2")
		broken[r.failing] = r.image(r.failing, "never")
		r.expectHalt(broken)
		r.updateImages(r.images(tag))
		r.waitReady(r.name)
		for c, image := range r.images(tag) {
			r.Expect(r.runsImage(r.name+"-"+c, image)).To(BeTrue(), "%s of %s", c, r.name)
		}
	}
}

// expectHalt sets images of which one never becomes ready and waits until the rollout stops.
func (r *rolloutCase) expectHalt(broken map[string]string) {
	r.updateImages(broken)
	want := map[string]string{}
	for c := range r.dependencies {
		want[c] = broken[c]
		if r.dependsOn(c, r.failing) {
			want[c] = r.image(c, "1")
		}
	}
	images := func() map[string]string {
		got := map[string]string{}
		for c := range r.dependencies {
			got[c] = r.getDeployment(r.name + "-" + c).Spec.Template.Spec.Containers[0].Image
		}
		return got
	}
	r.Eventually(images, "60s", "50ms").Should(Equal(want), r.name)
	r.Consistently(images, sampleOrFull(time.Second, 5*time.Second), "100ms").Should(Equal(want), r.name)
	// Independent components may still be rolling out.
	r.Eventually(func() string { return r.Condition(&appsapi.AppStack{ObjectMeta: r.objectMeta(r.name)}, "Ready") }, "60s", "50ms").Should(And(
		HavePrefix("False/"), Or(ContainSubstring("%q", r.failing), ContainSubstring("Deployment %s/%s-%s", r.NS, r.name, r.failing))))
}

// dependsOn reports whether a component depends on another one, directly or indirectly.
func (r *rolloutCase) dependsOn(component, other string) bool {
	return slices.ContainsFunc(r.dependencies[component], func(n string) bool { return n == other || r.dependsOn(n, other) })
}

func (r *rolloutCase) image(component, tag string) string {
	return fmt.Sprintf("shop/%s:%s", component, tag)
}

func (r *rolloutCase) images(tag string) map[string]string {
	out := map[string]string{}
	for c := range r.dependencies {
		out[c] = r.image(c, tag)
	}
	return out
}

func (r *rolloutCase) updateImages(images map[string]string) {
	r.recordSpec(r.setImages(r.name, images), images)
}

func (r *rolloutCase) recordSpec(stack *appsapi.AppStack, images map[string]string) {
	version, err := strconv.ParseInt(stack.ResourceVersion, 10, 64)
	r.Expect(err).NotTo(HaveOccurred())
	r.specs = append(r.specs, specVersion{version, images})
}

// deploymentState is one state of the Deployment of a component.
type deploymentState struct {
	version             int64
	image               string
	ready               bool // most replicas are ready with this image
	available, replicas int32
}

// deploymentStates returns the states of every component in the order of resource versions.
func (r *rolloutCase) deploymentStates(observed watcher.State) (map[string][]deploymentState, error) {
	out := map[string][]deploymentState{}
	for c := range r.dependencies {
		for _, e := range observed.History(deploymentResource, r.NS+"/"+r.name+"-"+c) {
			var d appsv1.Deployment
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(e.Object.Object, &d); err != nil {
				return nil, err
			}
			version, err := strconv.ParseInt(e.ResourceVersion, 10, 64)
			if err != nil {
				return nil, err
			}
			s := d.Status
			out[c] = append(out[c], deploymentState{
				version: version, image: d.Spec.Template.Spec.Containers[0].Image, available: s.AvailableReplicas, replicas: *d.Spec.Replicas,
				ready: s.ObservedGeneration >= d.Generation && s.ReadyReplicas-(s.Replicas-s.UpdatedReplicas) >= *d.Spec.Replicas/2+1,
			})
		}
	}
	return out, nil
}

// check verifies every creation and replacement of pods: the operator made it, the spec requested it, and all
// dependencies were ready in the requested version.
func (r *rolloutCase) check(observed watcher.State, operatorVersions map[int64]bool) (violations []string, changes int) {
	states, err := r.deploymentStates(observed)
	if err != nil {
		return []string{err.Error()}, 0
	}
	for component, all := range states {
		image, wasAvailable := "", false
		for _, s := range all {
			if wasAvailable = wasAvailable || s.available == s.replicas; wasAvailable && s.available < s.replicas-1 {
				violations = append(violations, fmt.Sprintf("%s had %d of %d pods available at %d", component, s.available, s.replicas, s.version))
			}
			if s.image == image {
				continue
			}
			image, changes = s.image, changes+1
			if !operatorVersions[s.version] {
				violations = append(violations, fmt.Sprintf("%s changed to %s at %d, but not by the operator", component, s.image, s.version))
			}
			violations = append(violations, r.violationsOf(states, component, s)...)
		}
	}
	return violations, changes
}

func (r *rolloutCase) violationsOf(states map[string][]deploymentState, component string, s deploymentState) []string {
	var current specVersion
	for _, a := range r.specs {
		if a.version < s.version {
			current = a
		}
	}
	var violations []string
	if s.image != current.images[component] {
		violations = append(violations, fmt.Sprintf("%s changed to %s at %d, want %s", component, s.image, s.version, current.images[component]))
	}
	for _, dependency := range r.dependencies[component] {
		ready := false
		for _, n := range states[dependency] {
			if n.version >= s.version {
				break
			}
			ready = n.image == current.images[dependency] && (ready || n.ready)
		}
		if !ready {
			violations = append(violations, fmt.Sprintf("%s changed to %s at %d before %s was ready with %s", component, s.image, s.version, dependency, current.images[dependency]))
		}
	}
	return violations
}

// resourceVersionsWritten returns the resource versions that the writes produced.
func resourceVersionsWritten(requests audit.Events) map[int64]bool {
	out := map[int64]bool{}
	for _, e := range requests.Writes().Of("deployments.apps").Where((*audit.Event).Accepted) {
		var response struct {
			Metadata struct{ ResourceVersion string }
		}
		if json.Unmarshal(e.ResponseObject, &response) == nil {
			if version, err := strconv.ParseInt(response.Metadata.ResourceVersion, 10, 64); err == nil {
				out[version] = true
			}
		}
	}
	return out
}

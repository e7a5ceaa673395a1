package environment

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
	"github.com/holdfast-dev/holdfast/internal/testutil/watcher"
	"github.com/holdfast-dev/holdfast/test/faults/report"
)

func init() { together["15 ordered rollout"] = orderedRollout }

// shapes are stacks of four, by what each component needs.
var shapes = map[string]map[string][]string{
	"chain":   {"a": nil, "b": {"a"}, "c": {"b"}, "d": {"c"}},
	"diamond": {"a": nil, "b": {"a"}, "c": {"a"}, "d": {"b", "c"}},
}

var deployments = appsv1.SchemeGroupVersion.WithResource("deployments")

// orderedRollout lets every component of every shape fail in turn: the rollout halts there,
// what does not wait for it runs on, and both ways out of it lead to the end.
func orderedRollout(w *world, row *report.Row) {
	eye, err := watcher.Start(w.Context(), w.Plane.Config, deployments)
	w.Expect(err).NotTo(HaveOccurred())
	w.Cleanup(eye.Stop)
	var rollouts []*rollout
	edges := 0
	for shape, needs := range shapes {
		row.Generated += len(needs)
		if shape == "chain" && !long {
			continue // the diamond has all of it but one step more
		}
		for component := range needs {
			rollouts = append(rollouts, &rollout{world: w, name: shape + "-" + component, needs: needs, fails: component})
			edges += len(needs[component])
		}
	}
	var group sync.WaitGroup
	for _, r := range rollouts {
		group.Go(r.play)
	}
	group.Wait()
	requests, err := w.Log.Since(w.Context(), w.Plane.Config, 0)
	w.Expect(err).NotTo(HaveOccurred())
	written := writtenBy(requests.In(w.NS).By(operator.User))
	turns := 0
	for _, r := range rollouts {
		wrong, n := r.judge(eye.State(), written)
		if turns += n; len(wrong) > 0 {
			row.Failed++
			row.Failures = append(row.Failures, r.name+": "+strings.Join(wrong, "; "))
			w.Errorf("%s:\n%s", r.name, strings.Join(wrong, "\n"))
		}
	}
	row.Run = len(rollouts)
	row.Seen = fmt.Sprintf("%d rollouts of stacks with %d edges in all, each halted by a failure at one component, went back, halted again and went forward: "+
		"%d creations and replacements of pods, 0 before what they need was ready; nobody lost more than one pod", len(rollouts), edges, turns)
}

// rollout is the story of one stack.
type rollout struct {
	*world
	name  string
	needs map[string][]string
	fails string
	asked []asked
}

// asked is which images the spec asks for, from a resource version on.
type asked struct {
	version int64
	images  map[string]string
}

func (r *rollout) play() {
	var spec strings.Builder
	spec.WriteString("components:\n")
	for _, c := range slices.Sorted(maps.Keys(r.needs)) {
		fmt.Fprintf(&spec, "- {name: %s, dependsOn: [%s], service: {image: %q, replicas: 2}}\n", c, strings.Join(r.needs[c], ", "), r.image(c, "1"))
	}
	r.note(r.create(r.name, spec.String()), r.images("1"))
	r.becomesReady(r.name)

	for _, out := range []string{"1", "3"} { // back, and forward
		broken := r.images("2")
		broken[r.fails] = r.image(r.fails, "never")
		r.halts(broken)
		r.asks(r.images(out))
		r.becomesReady(r.name)
		for c, image := range r.images(out) {
			r.Expect(r.runs(r.name+"-"+c, image)).To(BeTrue(), "%s of %s", c, r.name)
		}
	}
}

// halts asks for images of which one will never be ready, and waits until nothing moves.
func (r *rollout) halts(broken map[string]string) {
	r.asks(broken)
	want := map[string]string{}
	for c := range r.needs {
		want[c] = broken[c]
		if r.waitsFor(c, r.fails) {
			want[c] = r.image(c, "1")
		}
	}
	images := func() map[string]string {
		got := map[string]string{}
		for c := range r.needs {
			got[c] = r.deployment(r.name + "-" + c).Spec.Template.Spec.Containers[0].Image
		}
		return got
	}
	r.Eventually(images, "60s", "50ms").Should(Equal(want), r.name)
	time.Sleep(lasts(time.Second, 5*time.Second)) // what comes too soon would come now
	r.Expect(images()).To(Equal(want), r.name)
	// Those beside it may still be on their way.
	r.Eventually(func() string { return r.Condition(&appsapi.AppStack{ObjectMeta: r.meta(r.name)}, "Ready") }, "60s", "50ms").Should(And(
		HavePrefix("False/"), Or(ContainSubstring("%q", r.fails), ContainSubstring("Deployment %s/%s-%s", r.NS, r.name, r.fails))))
}

// waitsFor says whether a component needs another one, directly or not.
func (r *rollout) waitsFor(component, other string) bool {
	return slices.ContainsFunc(r.needs[component], func(n string) bool { return n == other || r.waitsFor(n, other) })
}

func (r *rollout) image(component, tag string) string {
	return fmt.Sprintf("shop/%s:%s", component, tag)
}

func (r *rollout) images(tag string) map[string]string {
	out := map[string]string{}
	for c := range r.needs {
		out[c] = r.image(c, tag)
	}
	return out
}

func (r *rollout) asks(images map[string]string) { r.note(r.setImages(r.name, images), images) }

func (r *rollout) note(stack *appsapi.AppStack, images map[string]string) {
	version, err := strconv.ParseInt(stack.ResourceVersion, 10, 64)
	r.Expect(err).NotTo(HaveOccurred())
	r.asked = append(r.asked, asked{version, images})
}

// scene is one state of the Deployment of a component.
type scene struct {
	version           int64
	image             string
	ready             bool // a majority is, with this image
	available, wanted int32
}

// scenes are the states of every component, in the order of resource versions.
func (r *rollout) scenes(seen watcher.State) (map[string][]scene, error) {
	out := map[string][]scene{}
	for c := range r.needs {
		for _, e := range seen.History(deployments, r.NS+"/"+r.name+"-"+c) {
			var d appsv1.Deployment
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(e.Object.Object, &d); err != nil {
				return nil, err
			}
			version, err := strconv.ParseInt(e.ResourceVersion, 10, 64)
			if err != nil {
				return nil, err
			}
			s := d.Status
			out[c] = append(out[c], scene{
				version: version, image: d.Spec.Template.Spec.Containers[0].Image, available: s.AvailableReplicas, wanted: *d.Spec.Replicas,
				ready: s.ObservedGeneration >= d.Generation && s.ReadyReplicas-(s.Replicas-s.UpdatedReplicas) >= *d.Spec.Replicas/2+1,
			})
		}
	}
	return out, nil
}

// judge goes through every creation and every replacement of pods: the operator did it, the
// spec asked for it, and everything that is needed was ready as the spec asked for.
func (r *rollout) judge(seen watcher.State, written map[int64]bool) (wrong []string, turns int) {
	scenes, err := r.scenes(seen)
	if err != nil {
		return []string{err.Error()}, 0
	}
	for component, all := range scenes {
		image, up := "", false
		for _, s := range all {
			if up = up || s.available == s.wanted; up && s.available < s.wanted-1 {
				wrong = append(wrong, fmt.Sprintf("%s had %d of %d pods at %d", component, s.available, s.wanted, s.version))
			}
			if s.image == image {
				continue
			}
			image, turns = s.image, turns+1
			if !written[s.version] {
				wrong = append(wrong, fmt.Sprintf("%s became %s at %d, and not by the operator", component, s.image, s.version))
			}
			wrong = append(wrong, r.objections(scenes, component, s)...)
		}
	}
	return wrong, turns
}

func (r *rollout) objections(scenes map[string][]scene, component string, s scene) []string {
	var now asked
	for _, a := range r.asked {
		if a.version < s.version {
			now = a
		}
	}
	var wrong []string
	if s.image != now.images[component] {
		wrong = append(wrong, fmt.Sprintf("%s became %s at %d, and the spec says %s", component, s.image, s.version, now.images[component]))
	}
	for _, need := range r.needs[component] {
		ready := false
		for _, n := range scenes[need] {
			if n.version >= s.version {
				break
			}
			ready = n.image == now.images[need] && (ready || n.ready)
		}
		if !ready {
			wrong = append(wrong, fmt.Sprintf("%s became %s at %d before %s was ready as %s", component, s.image, s.version, need, now.images[need]))
		}
	}
	return wrong
}

// writtenBy are the resource versions that writes led to.
func writtenBy(requests audit.Events) map[int64]bool {
	out := map[int64]bool{}
	for _, e := range requests.Writes().Of("deployments.apps").Where((*audit.Event).Accepted) {
		var answer struct {
			Metadata struct{ ResourceVersion string }
		}
		if json.Unmarshal(e.ResponseObject, &answer) == nil {
			if version, err := strconv.ParseInt(answer.Metadata.ResourceVersion, 10, 64); err == nil {
				out[version] = true
			}
		}
	}
	return out
}

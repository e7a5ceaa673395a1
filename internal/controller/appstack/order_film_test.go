package appstack_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/stage"
	"github.com/holdfast-dev/holdfast/internal/testutil/watcher"
)

var (
	orderStacks      = schema.GroupVersionResource{Group: "apps.holdfast.dev", Version: "v1alpha1", Resource: "appstacks"}
	orderDeployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	orderJobs        = schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}
)

// watchOrder sees every state of every stack and workload from now on.
func watchOrder(t *testing.T, s *stage.Stage) *watcher.Watcher {
	t.Helper()
	eye, err := watcher.Start(t.Context(), s.Plane.Config, orderStacks, orderDeployments, orderJobs)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(eye.Stop)
	return eye
}

// film is what a watch saw of one stack. Everything in it is in the order of resource
// versions: they count the writes to the whole cluster, whatever the kind.
type film struct {
	specs  []askedSpec
	scenes map[string][]scene // by component
}

// askedSpec is a spec from the moment on at which it was stored.
type askedSpec struct {
	version int64
	seen    time.Time
	appsapi.AppStackSpec
}

// scene is one state of the workload of a component.
type scene struct {
	version int64
	seen    time.Time
	object  string // its UID
	job     bool
	gone    bool
	shape   string // what of its pods the spec says
	pods    string // the whole template
	ready   bool   // enough for those that wait for it
}

func (s scene) String() string {
	return fmt.Sprintf("%s (ready %t, gone %t) at %d", s.shape, s.ready, s.gone, s.version)
}

// shapeOf is what a spec says of the pods of a component and a live template shows: the
// image and, of a service, whom it is bound to. A job does not run again for that.
func shapeOf(c *appsapi.Component) string {
	var hosts []string
	for _, b := range c.Bindings {
		hosts = append(hosts, strings.ToUpper(b.Component)+"_HOST")
	}
	slices.Sort(hosts)
	if c.Job != nil {
		return c.Job.Image
	}
	return strings.Join(append([]string{c.Service.Image}, hosts...), " ")
}

func shapeOfPods(spec *corev1.PodSpec, job bool) string {
	var image string
	var hosts []string
	for i := range spec.Containers {
		if spec.Containers[i].Name != "app" {
			continue
		}
		image = spec.Containers[i].Image
		for _, v := range spec.Containers[i].Env {
			if strings.HasSuffix(v.Name, "_HOST") {
				hosts = append(hosts, v.Name)
			}
		}
	}
	slices.Sort(hosts)
	if job {
		return image
	}
	return strings.Join(append([]string{image}, hosts...), " ")
}

// filmOf cuts what was seen of one stack out of everything that was seen.
func filmOf(events []watcher.Event, namespace, stack string) (film, error) {
	f := film{scenes: map[string][]scene{}}
	for _, e := range events {
		labels := e.Object.GetLabels()
		var err error
		switch {
		case e.Resource == orderStacks && e.Key == namespace+"/"+stack:
			err = f.addSpec(e)
		case e.Resource == orderStacks, e.Object.GetNamespace() != namespace, labels["app.kubernetes.io/instance"] != stack:
		default:
			err = f.addScene(labels["app.kubernetes.io/component"], e)
		}
		if err != nil {
			return f, fmt.Errorf("%s: %w", e, err)
		}
	}
	for _, all := range f.scenes {
		slices.SortStableFunc(all, func(a, b scene) int { return int(a.version - b.version) })
	}
	return f, nil
}

func (f *film) addSpec(e watcher.Event) error {
	var s appsapi.AppStack
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(e.Object.Object, &s); err != nil {
		return err
	}
	if s.Generation <= int64(len(f.specs)) || e.Type == watch.Deleted {
		return nil // only its status
	}
	if s.Generation != int64(len(f.specs))+1 {
		return fmt.Errorf("generation %d follows %d", s.Generation, len(f.specs))
	}
	version, err := strconv.ParseInt(e.ResourceVersion, 10, 64)
	f.specs = append(f.specs, askedSpec{version, e.Seen, s.Spec})
	return err
}

func (f *film) addScene(component string, e watcher.Event) error {
	version, err := strconv.ParseInt(e.ResourceVersion, 10, 64)
	if err != nil {
		return err
	}
	s := scene{version: version, seen: e.Seen, object: string(e.UID), job: e.Resource == orderJobs, gone: e.Type == watch.Deleted}
	var template corev1.PodTemplateSpec
	if s.job {
		var j batchv1.Job
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(e.Object.Object, &j)
		template, s.ready = j.Spec.Template, isComplete(&j)
	} else {
		var d appsv1.Deployment
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(e.Object.Object, &d)
		template, s.ready = d.Spec.Template, hasMajority(&d)
	}
	if err != nil {
		return err
	}
	s.shape = shapeOfPods(&template.Spec, s.job)
	pods, err := json.Marshal(template)
	s.pods = string(pods)
	f.scenes[component] = append(f.scenes[component], s)
	return err
}

func isComplete(j *batchv1.Job) bool {
	return slices.ContainsFunc(j.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Type == batchv1.JobComplete && c.Status == corev1.ConditionTrue
	})
}

// hasMajority says whether a majority is ready at the revision that was asked for.
func hasMajority(d *appsv1.Deployment) bool {
	s := d.Status
	return s.ObservedGeneration >= d.Generation && s.ReadyReplicas-(s.Replicas-s.UpdatedReplicas) >= *d.Spec.Replicas/2+1
}

// turn is a scene in which a workload was made, or its pods became others.
type turn struct {
	component string
	scene
}

// turns are all of them, in order.
func (f *film) turns() []turn {
	var out []turn
	for component, all := range f.scenes {
		before := map[string]string{}
		for _, s := range all {
			if was, ok := before[s.object]; !s.gone && (!ok || was != s.pods) {
				out = append(out, turn{component, s})
			}
			before[s.object] = s.pods
		}
	}
	slices.SortFunc(out, func(a, b turn) int { return int(a.version - b.version) })
	return out
}

// askedAt is the spec that was stored before a version.
func (f *film) askedAt(version int64) *askedSpec {
	var found *askedSpec
	for i := range f.specs {
		if f.specs[i].version < version {
			found = &f.specs[i]
		}
	}
	return found
}

// readyBefore is the moment at which a component became ready as a spec wants it, if that
// was before a version.
func (f *film) readyBefore(c *appsapi.Component, version int64) (scene, bool) {
	var since scene
	found := false
	for _, s := range f.scenes[c.Name] {
		switch {
		case s.version >= version:
			return since, found
		case s.job && s.shape != shapeOf(c): // another run
		case s.gone, s.shape != shapeOf(c):
			found = false
		case s.ready && !found:
			since, found = s, true
		}
	}
	return since, found
}

// last is how a component was seen last; a job is the run that the spec asks for.
func (f *film) last(c *appsapi.Component) (scene, bool) {
	for _, s := range slices.Backward(f.scenes[c.Name]) {
		if c.Job == nil || s.shape == shapeOf(c) {
			return s, !s.gone
		}
	}
	return scene{}, false
}

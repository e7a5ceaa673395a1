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
	"github.com/holdfast-dev/holdfast/internal/testutil/harness"
	"github.com/holdfast-dev/holdfast/internal/testutil/watcher"
)

var (
	orderStackResource      = schema.GroupVersionResource{Group: "apps.holdfast.dev", Version: "v1alpha1", Resource: "appstacks"}
	orderDeploymentResource = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	orderJobResource        = schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}
)

// startOrderWatcher sees every state of every stack and workload from now on.
func startOrderWatcher(t *testing.T, s *harness.Harness) *watcher.Watcher {
	t.Helper()
	observer, err := watcher.Start(t.Context(), s.Plane.Config, orderStackResource, orderDeploymentResource, orderJobResource)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(observer.Stop)
	return observer
}

// timeline is what a watch saw of one stack. Everything in it is in the order of resource
// versions: they count the writes to the whole cluster, whatever the kind.
type timeline struct {
	specs  []observedSpec
	states map[string][]workloadState // by component
}

// observedSpec is a spec from the moment on at which it was stored.
type observedSpec struct {
	version    int64
	observedAt time.Time
	appsapi.AppStackSpec
}

// workloadState is one state of the workload of a component.
type workloadState struct {
	version     int64
	observedAt  time.Time
	uid         string // its UID
	job         bool
	deleted     bool
	podSummary  string // what of its pods the spec says
	podTemplate string // the whole template
	ready       bool   // enough for those that wait for it
}

func (s workloadState) String() string {
	return fmt.Sprintf("%s (ready %t, gone %t) at %d", s.podSummary, s.ready, s.deleted, s.version)
}

// desiredPodSummary is what a spec says of the pods of a component and a live template shows: the
// image and, of a service, whom it is bound to. A job does not run again for that.
func desiredPodSummary(c *appsapi.Component) string {
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

func livePodSummary(spec *corev1.PodSpec, job bool) string {
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

// newTimeline cuts what was seen of one stack out of everything that was seen.
func newTimeline(events []watcher.Event, namespace, stack string) (timeline, error) {
	f := timeline{states: map[string][]workloadState{}}
	for _, e := range events {
		labels := e.Object.GetLabels()
		var err error
		switch {
		case e.Resource == orderStackResource && e.Key == namespace+"/"+stack:
			err = f.addSpec(e)
		case e.Resource == orderStackResource, e.Object.GetNamespace() != namespace, labels["app.kubernetes.io/instance"] != stack:
		default:
			err = f.addState(labels["app.kubernetes.io/component"], e)
		}
		if err != nil {
			return f, fmt.Errorf("%s: %w", e, err)
		}
	}
	for _, all := range f.states {
		slices.SortStableFunc(all, func(a, b workloadState) int { return int(a.version - b.version) })
	}
	return f, nil
}

func (f *timeline) addSpec(e watcher.Event) error {
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
	f.specs = append(f.specs, observedSpec{version, e.ObservedAt, s.Spec})
	return err
}

func (f *timeline) addState(component string, e watcher.Event) error {
	version, err := strconv.ParseInt(e.ResourceVersion, 10, 64)
	if err != nil {
		return err
	}
	s := workloadState{version: version, observedAt: e.ObservedAt, uid: string(e.UID), job: e.Resource == orderJobResource, deleted: e.Type == watch.Deleted}
	var template corev1.PodTemplateSpec
	if s.job {
		var j batchv1.Job
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(e.Object.Object, &j)
		template, s.ready = j.Spec.Template, hasCompleted(&j)
	} else {
		var d appsv1.Deployment
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(e.Object.Object, &d)
		template, s.ready = d.Spec.Template, hasReadyMajority(&d)
	}
	if err != nil {
		return err
	}
	s.podSummary = livePodSummary(&template.Spec, s.job)
	pods, err := json.Marshal(template)
	s.podTemplate = string(pods)
	f.states[component] = append(f.states[component], s)
	return err
}

func hasCompleted(j *batchv1.Job) bool {
	return slices.ContainsFunc(j.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Type == batchv1.JobComplete && c.Status == corev1.ConditionTrue
	})
}

// hasReadyMajority says whether a majority is ready at the revision that was asked for.
func hasReadyMajority(d *appsv1.Deployment) bool {
	s := d.Status
	return s.ObservedGeneration >= d.Generation && s.ReadyReplicas-(s.Replicas-s.UpdatedReplicas) >= *d.Spec.Replicas/2+1
}

// rollout is a scene in which a workload was made, or its pods became others.
type rollout struct {
	component string
	workloadState
}

// rollouts are all of them, in order.
func (f *timeline) rollouts() []rollout {
	var out []rollout
	for component, all := range f.states {
		before := map[string]string{}
		for _, s := range all {
			if previous, ok := before[s.uid]; !s.deleted && (!ok || previous != s.podTemplate) {
				out = append(out, rollout{component, s})
			}
			before[s.uid] = s.podTemplate
		}
	}
	slices.SortFunc(out, func(a, b rollout) int { return int(a.version - b.version) })
	return out
}

// specAt is the spec that was stored before a version.
func (f *timeline) specAt(version int64) *observedSpec {
	var found *observedSpec
	for i := range f.specs {
		if f.specs[i].version < version {
			found = &f.specs[i]
		}
	}
	return found
}

// readyBefore is the moment at which a component became ready as a spec wants it, if that
// was before a version.
func (f *timeline) readyBefore(c *appsapi.Component, version int64) (workloadState, bool) {
	var since workloadState
	found := false
	for _, s := range f.states[c.Name] {
		switch {
		case s.version >= version:
			return since, found
		case s.job && s.podSummary != desiredPodSummary(c): // another run
		case s.deleted, s.podSummary != desiredPodSummary(c):
			found = false
		case s.ready && !found:
			since, found = s, true
		}
	}
	return since, found
}

// lastState is how a component was seen last; a job is the run that the spec asks for.
func (f *timeline) lastState(c *appsapi.Component) (workloadState, bool) {
	for _, s := range slices.Backward(f.states[c.Name]) {
		if c.Job == nil || s.podSummary == desiredPodSummary(c) {
			return s, !s.deleted
		}
	}
	return workloadState{}, false
}

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

// startOrderWatcher records every state of every stack and workload from now on.
func startOrderWatcher(t *testing.T, s *harness.Harness) *watcher.Watcher {
	t.Helper()
	observer, err := watcher.Start(t.Context(), s.Plane.Config, orderStackResource, orderDeploymentResource, orderJobResource)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(observer.Stop)
	return observer
}

// timeline is the observed history of one stack, ordered by resource version, which counts all writes to the cluster.
type timeline struct {
	specs  []observedSpec
	states map[string][]workloadState // by component
}

// observedSpec is a spec and the version at which it was stored.
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
	podSummary  string // short form of the pod template
	podTemplate string // the whole pod template
	ready       bool   // ready enough for its dependents
}

func (s workloadState) String() string {
	return fmt.Sprintf("%s (ready %t, gone %t) at %d", s.podSummary, s.ready, s.deleted, s.version)
}

// desiredPodSummary returns the expected pod summary of a component: the image and, for a service, its bindings. A job
// does not run again for a change of bindings.
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

// newTimeline extracts the history of one stack from all events.
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
		return nil // status change only
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

// hasReadyMajority reports whether most replicas are ready with the current pod template.
func hasReadyMajority(d *appsv1.Deployment) bool {
	s := d.Status
	return s.ObservedGeneration >= d.Generation && s.ReadyReplicas-(s.Replicas-s.UpdatedReplicas) >= *d.Spec.Replicas/2+1
}

// rollout is an event that created a workload or changed its pods.
type rollout struct {
	component string
	workloadState
}

// rollouts returns all rollouts in order.
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

// specAt returns the spec that was stored before a version.
func (f *timeline) specAt(version int64) *observedSpec {
	var found *observedSpec
	for i := range f.specs {
		if f.specs[i].version < version {
			found = &f.specs[i]
		}
	}
	return found
}

// readyBefore returns the state in which a component became ready with its spec, if that was before a version.
func (f *timeline) readyBefore(c *appsapi.Component, version int64) (workloadState, bool) {
	var since workloadState
	found := false
	for _, s := range f.states[c.Name] {
		switch {
		case s.version >= version:
			return since, found
		case s.job && s.podSummary != desiredPodSummary(c): // a run of another spec
		case s.deleted, s.podSummary != desiredPodSummary(c):
			found = false
		case s.ready && !found:
			since, found = s, true
		}
	}
	return since, found
}

// lastState returns the last state of a component; for a job, of the run of the current spec.
func (f *timeline) lastState(c *appsapi.Component) (workloadState, bool) {
	for _, s := range slices.Backward(f.states[c.Name]) {
		if c.Job == nil || s.podSummary == desiredPodSummary(c) {
			return s, !s.deleted
		}
	}
	return workloadState{}, false
}

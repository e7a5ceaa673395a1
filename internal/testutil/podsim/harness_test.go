package podsim_test

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes"

	"github.com/holdfast-dev/holdfast/internal/testutil"
	"github.com/holdfast-dev/holdfast/internal/testutil/controlplane"
	"github.com/holdfast-dev/holdfast/internal/testutil/podsim"
	"github.com/holdfast-dev/holdfast/internal/testutil/watcher"
)

var (
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	jobs        = schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}
	pods        = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
)

const waitTimeout = 40 * time.Second

// harness is a control plane with a simulator and an independent watch.
type harness struct {
	*testing.T
	plane  *controlplane.Plane
	ns     string
	client kubernetes.Interface
	sim    *podsim.Simulator
	w      *watcher.Watcher
}

func newHarness(t *testing.T, options ...podsim.Option) *harness {
	t.Helper()
	return newHarnessOn(t, testutil.ControlPlane(t, controlplane.Options{}), options...)
}

func newHarnessOn(t *testing.T, plane *controlplane.Plane, options ...podsim.Option) *harness {
	t.Helper()
	s := &harness{T: t, plane: plane, ns: testutil.Namespace(t, plane.Config)}
	var err error
	s.client, err = kubernetes.NewForConfig(plane.Config)
	s.check(err)
	s.w, err = watcher.Start(t.Context(), plane.Config, deployments, jobs, pods)
	s.check(err)
	t.Cleanup(s.w.Stop)
	s.sim, err = podsim.Start(t.Context(), plane.Config, options...)
	s.check(err)
	t.Cleanup(s.sim.Stop)
	return s
}

func (s *harness) check(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *harness) waitFor(what string, done func(watcher.State) bool) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), waitTimeout)
	defer cancel()
	s.check(s.w.WaitFor(ctx, what, done))
}

// setBehaviors sets behaviors by the label "app" of the pods; all others get the default.
func (s *harness) setBehaviors(byApp map[string]podsim.Behavior) {
	byApp = maps.Clone(byApp)
	s.sim.SetBehavior(func(pod *corev1.Pod) podsim.Behavior { return byApp[pod.Labels["app"]] })
}

func (s *harness) createDeployment(d *appsv1.Deployment) {
	s.Helper()
	_, err := s.client.AppsV1().Deployments(s.ns).Create(s.Context(), d, metav1.CreateOptions{})
	s.check(err)
}

func (s *harness) patchDeployment(name, patch string) {
	s.Helper()
	_, err := s.client.AppsV1().Deployments(s.ns).Patch(s.Context(), name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
	s.check(err)
}

func (s *harness) setBehavior(name, behavior string) {
	s.Helper()
	s.patchDeployment(name, `{"spec":{"template":{"metadata":{"annotations":{"podsim.holdfast.dev/behavior":"`+behavior+`"}}}}}`)
}

// createPod creates a pod without an owner and returns its name.
func (s *harness) createPod(app, behavior string, finalizers ...string) string {
	s.Helper()
	t := podTemplate(map[string]string{"app": app})
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "pod-", Labels: t.Labels, Annotations: behaviorAnnotations(behavior), Finalizers: finalizers},
		Spec:       t.Spec,
	}
	pod, err := s.client.CoreV1().Pods(s.ns).Create(s.Context(), pod, metav1.CreateOptions{})
	s.check(err)
	return pod.Name
}

// createJob creates a Job that fails at the first pod failure.
func (s *harness) createJob(name, behavior string) {
	s.Helper()
	t := podTemplate(map[string]string{"app": name})
	t.Annotations = behaviorAnnotations(behavior)
	t.Spec.RestartPolicy = corev1.RestartPolicyNever
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: batchv1.JobSpec{BackoffLimit: new(int32(0)), Template: t}}
	_, err := s.client.BatchV1().Jobs(s.ns).Create(s.Context(), job, metav1.CreateOptions{})
	s.check(err)
}

// jobResult returns the final condition of a Job.
func (s *harness) jobResult(state watcher.State, name string) batchv1.JobConditionType {
	job := &batchv1.Job{}
	if o := state.Get(jobs, s.ns+"/"+name); o != nil {
		convert(s.T, o, job)
	}
	for _, c := range job.Status.Conditions {
		if c.Status == corev1.ConditionTrue && (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) {
			return c.Type
		}
	}
	return ""
}

// newDeployment returns a Deployment with a progress deadline of two seconds.
func newDeployment(name string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas:                &replicas,
			ProgressDeadlineSeconds: new(int32(2)),
			Selector:                &metav1.LabelSelector{MatchLabels: labels},
			Template:                podTemplate(labels),
		},
	}
}

func podTemplate(labels map[string]string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "example.com/shop/app:1.0"}}},
	}
}

func withBehavior(d *appsv1.Deployment, behavior string) *appsv1.Deployment {
	d.Spec.Template.Annotations = behaviorAnnotations(behavior)
	return d
}

func behaviorAnnotations(behavior string) map[string]string {
	if behavior == "" {
		return nil
	}
	return map[string]string{"podsim.holdfast.dev/behavior": behavior}
}

// allReady is called after every event, so it does not convert objects.
func allReady(state watcher.State, ns string, n int, replicas int64) bool {
	ready := 0
	for _, d := range state.Live(deployments) {
		if got, _, _ := unstructured.NestedInt64(d.Object, "status", "readyReplicas"); d.GetNamespace() == ns && got == replicas {
			ready++
		}
	}
	return ready == n
}

func countReady(list []*unstructured.Unstructured) int {
	n := 0
	for _, o := range list {
		conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
		for _, c := range conditions {
			if c, ok := c.(map[string]any); ok && c["type"] == "Ready" && c["status"] == "True" {
				n++
			}
		}
	}
	return n
}

func (s *harness) deployment(state watcher.State, name string) *appsv1.Deployment {
	d := &appsv1.Deployment{}
	if o := state.Get(deployments, s.ns+"/"+name); o != nil {
		convert(s.T, o, d)
	}
	return d
}

func (s *harness) podsOf(state watcher.State, app string) []*corev1.Pod {
	var list []*corev1.Pod
	for _, o := range state.Live(pods) {
		if o.GetNamespace() == s.ns && o.GetLabels()["app"] == app {
			pod := &corev1.Pod{}
			convert(s.T, o, pod)
			list = append(list, pod)
		}
	}
	return list
}

// hasReadyPods reports whether a Deployment has n ready pods and no others. It checks the status and the pods, because
// they are watched separately.
func (s *harness) hasReadyPods(state watcher.State, name string, n int32) bool {
	list := s.podsOf(state, name)
	unready := func(pod *corev1.Pod) bool { return !isReady(pod) }
	return s.deployment(state, name).Status.ReadyReplicas == n && len(list) == int(n) && !slices.ContainsFunc(list, unready)
}

// onlyPod returns the only pod of an app, or an empty one.
func (s *harness) onlyPod(state watcher.State, app string) *corev1.Pod {
	if list := s.podsOf(state, app); len(list) == 1 {
		return list[0]
	}
	return &corev1.Pod{}
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func podUIDs(list []*corev1.Pod) sets.Set[types.UID] {
	all := sets.New[types.UID]()
	for _, pod := range list {
		all.Insert(pod.UID)
	}
	return all
}

func convert(t *testing.T, from *unstructured.Unstructured, to any) {
	t.Helper()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(from.Object, to); err != nil {
		t.Fatal(err)
	}
}

func deploymentCondition(d *appsv1.Deployment, t appsv1.DeploymentConditionType) appsv1.DeploymentCondition {
	i := slices.IndexFunc(d.Status.Conditions, func(c appsv1.DeploymentCondition) bool { return c.Type == t })
	if i < 0 {
		return appsv1.DeploymentCondition{}
	}
	return d.Status.Conditions[i]
}

// firstProblem returns the problem of the first failing pod, as shown in its status.
func firstProblem(list []*corev1.Pod) string {
	for _, pod := range list {
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
				return c.Reason
			}
		}
		for _, c := range pod.Status.ContainerStatuses {
			switch {
			case c.State.Waiting != nil:
				return c.Name + ": " + c.State.Waiting.Reason
			case c.State.Terminated != nil:
				return c.Name + ": " + c.State.Terminated.Reason
			case !c.Ready:
				return c.Name + ": not ready"
			}
		}
	}
	return ""
}

// diffStatus compares two statuses without their times.
func diffStatus(want, got corev1.PodStatus) string {
	return cmp.Diff(want, got, cmpopts.IgnoreTypes(metav1.Time{}))
}

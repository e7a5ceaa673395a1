package rollout

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
)

var shop = desired.Owner{Keys: appsapi.DefaultKeys, APIVersion: "apps.holdfast.dev/v1alpha1", Kind: "AppStack", Namespace: "shop", Name: "shop", UID: "ours"}

var noon = metav1.NewTime(time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC))

// componentOption changes a component of a test case.
// testSpec is a component of a spec.
type testSpec struct {
	appsapi.Component
	suspended bool
}

func expand(specs []testSpec) []desired.ExpandedComponent {
	var components []appsapi.Component
	for _, s := range specs {
		components = append(components, s.Component)
	}
	out := desired.ExpandComponents(components)
	for i, s := range specs {
		out[i].Operations.Suspend = s.suspended
	}
	return out
}

type componentOption func(*testSpec)

func service(name, version string, changes ...componentOption) testSpec {
	c := testSpec{Component: appsapi.Component{Name: name, Service: &appsapi.ServiceComponent{}}}
	c.Service.Image = name + ":" + version
	return withOptions(c, changes)
}

func job(name, version string, changes ...componentOption) testSpec {
	c := testSpec{Component: appsapi.Component{Name: name, Job: &appsapi.JobComponent{}}}
	c.Job.Image = name + ":" + version
	return withOptions(c, changes)
}

func withOptions(c testSpec, changes []componentOption) testSpec {
	for _, f := range changes {
		f(&c)
	}
	return c
}

func dependsOn(names ...string) componentOption {
	return func(c *testSpec) { c.DependsOn = names }
}
func withResourceName(name string) componentOption {
	return func(c *testSpec) { c.ResourceName = name }
}
func renamedFrom(name string) componentOption {
	return func(c *testSpec) { c.RenamedFrom = name }
}
func suspended(c *testSpec) { c.suspended = true }
func nightly(c *testSpec)   { c.Job.Schedule = "@daily" }
func withPort(c *testSpec)  { c.Service.Ports = []appsapi.Port{{Port: 80}} }

func boundTo(name string) componentOption {
	return func(c *testSpec) { c.Bindings = append(c.Bindings, appsapi.Binding{Component: name}) }
}

func stack(spec ...testSpec) []testSpec { return spec }

// liveObjects are the objects of a spec after everything was applied and became ready.
func liveObjects(spec ...testSpec) Observed {
	observed := Observed{}
	for _, c := range desired.Build(shop, expand(spec), desired.ClusterState{}) {
		for _, child := range c.Children {
			observed[child.ID] = appliedChild(child, nil)
		}
	}
	return observed
}

// appliedChild is a child after it was applied and became ready.
func appliedChild(child desired.Child, before Object) Object {
	config, err := child.Render(before)
	must(err)
	body, err := config.Patch("", "1")
	must(err)
	switch child.Kind {
	case desired.KindDeployment:
		d := &appsv1.Deployment{}
		must(json.Unmarshal(body, d))
		n := int32(1)
		if d.Spec.Replicas != nil {
			n = *d.Spec.Replicas
		}
		d.Generation = 2
		d.Status = appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n}
		return d
	case desired.KindStatefulSet:
		s := &appsv1.StatefulSet{}
		must(json.Unmarshal(body, s))
		n := int32(1)
		if s.Spec.Replicas != nil {
			n = *s.Spec.Replicas
		}
		s.Generation = 2
		s.Status = appsv1.StatefulSetStatus{ObservedGeneration: 2, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n}
		return s
	case desired.KindJob:
		j := &batchv1.Job{}
		must(json.Unmarshal(body, j))
		jobComplete(j)
		return j
	case desired.KindCronJob:
		j := &batchv1.CronJob{}
		must(json.Unmarshal(body, j))
		return j
	}
	obj, err := clientgoscheme.Scheme.New(child.Kind)
	must(err)
	must(json.Unmarshal(body, obj))
	return obj.(Object)
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// replicas sets replicas without a budget, which other cases cover.
func replicas(n int32) componentOption {
	return func(c *testSpec) {
		c.Service.Replicas, c.Service.Disruption.Budget = &n, appsapi.DisruptionNone
	}
}

// mutation changes the live objects.
type mutation func(Observed)

// mutateChild changes the child of a kind whose name has this prefix.
func mutateChild[T Object](name string, f func(T)) mutation {
	return func(seen Observed) {
		for id, live := range seen {
			if typed, ok := live.(T); ok && strings.HasPrefix(id.Name, name) {
				f(typed)
				return
			}
		}
		panic("no such child: " + name)
	}
}

// deleteChild deletes children.
func deleteChild(kind, name string) mutation {
	return func(seen Observed) {
		for id := range seen {
			if id.Kind.Kind == kind && strings.HasPrefix(id.Name, name) {
				delete(seen, id)
				return
			}
		}
		panic("no such child: " + name)
	}
}

// addLive adds live objects.
func addLive(spec ...testSpec) mutation {
	return func(seen Observed) {
		for id, live := range liveObjects(spec...) {
			seen[id] = live
		}
	}
}

// rollOut applies the desired state of a component and replaces its pods.
func rollOut(name string, spec ...testSpec) mutation {
	return func(seen Observed) {
		for _, c := range desired.Build(shop, expand(spec), desired.ClusterState{}) {
			for _, child := range c.Children {
				if c.Name == name {
					seen[child.ID] = appliedChild(child, seen[child.ID])
				}
			}
		}
	}
}

func unready(d *appsv1.Deployment) { d.Status.ReadyReplicas, d.Status.AvailableReplicas = 0, 0 }
func readyReplicas(n int32) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) { d.Status.ReadyReplicas, d.Status.AvailableReplicas = n, n }
}
func rollingOut(d *appsv1.Deployment)      { d.Status.Replicas++ }
func terminatingPods(d *appsv1.Deployment) { d.Status.TerminatingReplicas = new(int32(1)) }

func jobStarting(j *batchv1.Job) { j.Status = batchv1.JobStatus{Active: 1} }
func jobRunning(j *batchv1.Job)  { j.Status = batchv1.JobStatus{Active: 1, Ready: new(int32(1))} }
func jobFailed(j *batchv1.Job)   { finishJob(j, batchv1.JobFailed) }
func jobComplete(j *batchv1.Job) { finishJob(j, batchv1.JobComplete) }

func finishJob(j *batchv1.Job, conditionType batchv1.JobConditionType) {
	j.Status = batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: conditionType, Status: corev1.ConditionTrue}}}
}

func ownedByOther[T Object](o T) {
	o.SetOwnerReferences([]metav1.OwnerReference{{UID: "theirs", Controller: new(true)}})
}
func unowned[T Object](o T) { o.SetOwnerReferences(nil) }

func terminating[T Object](finalizers ...string) func(T) {
	return func(o T) {
		o.SetDeletionTimestamp(&noon)
		o.SetFinalizers(finalizers)
	}
}

func annotated[T Object](key, value string) func(T) {
	return func(o T) {
		annotations := o.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[key] = value
		o.SetAnnotations(annotations)
	}
}

// planLines formats a plan for comparison. Jobs are named after their image, because the hash in
// their names has no meaning here.
func planLines(p Plan) []string {
	var out []string
	for _, s := range p.Steps {
		var parts []string
		if len(s.RemoveFirst) > 0 {
			parts = append(parts, "first remove "+join(s.RemoveFirst, describeID))
		}
		if len(s.Apply) > 0 {
			parts = append(parts, "apply "+join(s.Apply, func(a ChildApply) string {
				if a.HoldPodTemplate {
					return describeID(a.ID) + " without its pod template"
				}
				return describeID(a.ID)
			}))
		}
		if len(s.Remove) > 0 {
			parts = append(parts, "remove "+join(s.Remove, describeID))
		}
		if len(s.WaitsFor) > 0 {
			parts = append(parts, "wait for "+strings.Join(s.WaitsFor, ", "))
		}
		if s.PreviousRun != nil {
			parts = append(parts, "wait for the end of "+describeID(*s.PreviousRun))
		}
		if s.IsWaiting() != (len(s.WaitsFor) > 0 || s.PreviousRun != nil) {
			parts = append(parts, "inconsistent waiting state")
		}
		out = append(out, s.Component+": "+strings.Join(parts, "; "))
	}
	for _, r := range p.Prune {
		out = append(out, fmt.Sprintf("prune %s of %s", describeID(r.Child), r.Component))
	}
	for _, k := range p.PendingRemovals {
		out = append(out, fmt.Sprintf("keep %s: %s", k.Component, k.Message))
	}
	return out
}

func join[T any](list []T, text func(T) string) string {
	var out []string
	for _, item := range list {
		out = append(out, text(item))
	}
	return strings.Join(out, ", ")
}

func describeID(id desired.ID) string {
	name := id.Name
	if id.Kind == desired.KindJob {
		for _, version := range []string{"1", "2", "3"} {
			if strings.HasSuffix(name, desired.Build(shop, expand(stack(job("migrate", version))), desired.ClusterState{})[0].JobSpecHash) {
				name = "migrate:" + version
			}
		}
	}
	return id.Kind.Kind + " " + name
}

// planWith plans for a spec and live objects of an earlier one.
func planWith(now []testSpec, observed Observed, protectedJobs map[string]bool, mutations ...mutation) (Plan, error) {
	for _, d := range mutations {
		d(observed)
	}
	return NewPlan(Input{Owner: shop, Components: desired.Build(shop, expand(now), desired.ClusterState{}), Observed: observed, ProtectedJobs: protectedJobs})
}

// jobSpecHash is the hash of the spec of a job.
func jobSpecHash(c testSpec) string {
	return desired.Build(shop, expand(stack(c)), desired.ClusterState{})[0].JobSpecHash
}

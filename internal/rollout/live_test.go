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

var shop = desired.Owner{APIVersion: "apps.holdfast.dev/v1alpha1", Kind: "AppStack", Namespace: "shop", Name: "shop", UID: "ours"}

var noon = metav1.NewTime(time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC))

// change is something about a component that a case is about.
type change func(*appsapi.Component)

func service(name, version string, changes ...change) appsapi.Component {
	c := appsapi.Component{Name: name, Service: &appsapi.ServiceComponent{}}
	c.Service.Image = name + ":" + version
	return changed(c, changes)
}

func job(name, version string, changes ...change) appsapi.Component {
	c := appsapi.Component{Name: name, Job: &appsapi.JobComponent{}}
	c.Job.Image = name + ":" + version
	return changed(c, changes)
}

func changed(c appsapi.Component, changes []change) appsapi.Component {
	for _, f := range changes {
		f(&c)
	}
	return c
}

func needing(names ...string) change { return func(c *appsapi.Component) { c.DependsOn = names } }
func called(name string) change      { return func(c *appsapi.Component) { c.ResourceName = name } }
func was(name string) change         { return func(c *appsapi.Component) { c.RenamedFrom = name } }
func held(c *appsapi.Component)      { c.Suspend = true }
func nightly(c *appsapi.Component)   { c.Job.Schedule = "@daily" }
func ports(c *appsapi.Component)     { c.Service.Ports = []appsapi.Port{{Port: 80}} }

func boundTo(name string) change {
	return func(c *appsapi.Component) { c.Bindings = append(c.Bindings, appsapi.Binding{Component: name}) }
}

func stack(spec ...appsapi.Component) []appsapi.Component { return spec }

// lives is what lives when everything in the spec was applied and is well.
func lives(spec ...appsapi.Component) Seen {
	seen := Seen{}
	for _, c := range desired.For(shop, spec, desired.Known{}) {
		for _, child := range c.Children {
			seen[child.ID] = applied(child, nil)
		}
	}
	return seen
}

// applied is a child after it was applied to what was there, and got well.
func applied(child desired.Child, before Object) Object {
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
		complete(j)
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

// replicas without a budget: what is about the number of pods has cases of its own.
func replicas(n int32) change {
	return func(c *appsapi.Component) {
		c.Service.Replicas, c.Service.Disruption.Budget = &n, appsapi.DisruptionNone
	}
}

// deed is something that happened to what lives.
type deed func(Seen)

// to does something to the child of a kind whose name begins so.
func to[T Object](name string, f func(T)) deed {
	return func(seen Seen) {
		for id, live := range seen {
			if typed, ok := live.(T); ok && strings.HasPrefix(id.Name, name) {
				f(typed)
				return
			}
		}
		panic("there is no " + name)
	}
}

// gone takes children away.
func gone(kind, name string) deed {
	return func(seen Seen) {
		for id := range seen {
			if id.Kind.Kind == kind && strings.HasPrefix(id.Name, name) {
				delete(seen, id)
				return
			}
		}
		panic("there is no " + name)
	}
}

// also adds what lives beside it.
func also(spec ...appsapi.Component) deed {
	return func(seen Seen) {
		for id, live := range lives(spec...) {
			seen[id] = live
		}
	}
}

// rollOut applies what is wanted of a component now, and its pods are new.
func rollOut(name string, spec ...appsapi.Component) deed {
	return func(seen Seen) {
		for _, c := range desired.For(shop, spec, desired.Known{}) {
			for _, child := range c.Children {
				if c.Name == name {
					seen[child.ID] = applied(child, seen[child.ID])
				}
			}
		}
	}
}

func fallsOver(d *appsv1.Deployment) { d.Status.ReadyReplicas, d.Status.AvailableReplicas = 0, 0 }
func ready(n int32) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) { d.Status.ReadyReplicas, d.Status.AvailableReplicas = n, n }
}
func rolling(d *appsv1.Deployment) { d.Status.Replicas++ }
func losing(d *appsv1.Deployment)  { d.Status.TerminatingReplicas = new(int32(1)) }

func idle(j *batchv1.Job)     { j.Status = batchv1.JobStatus{Active: 1} }
func atWork(j *batchv1.Job)   { j.Status = batchv1.JobStatus{Active: 1, Ready: new(int32(1))} }
func failed(j *batchv1.Job)   { end(j, batchv1.JobFailed) }
func complete(j *batchv1.Job) { end(j, batchv1.JobComplete) }

func end(j *batchv1.Job, how batchv1.JobConditionType) {
	j.Status = batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: how, Status: corev1.ConditionTrue}}}
}

func theirs[T Object](o T) {
	o.SetOwnerReferences([]metav1.OwnerReference{{UID: "theirs", Controller: new(true)}})
}
func nobodys[T Object](o T) { o.SetOwnerReferences(nil) }

func leaves[T Object](finalizers ...string) func(T) {
	return func(o T) {
		o.SetDeletionTimestamp(&noon)
		o.SetFinalizers(finalizers)
	}
}

func noted[T Object](key, value string) func(T) {
	return func(o T) {
		all := o.GetAnnotations()
		if all == nil {
			all = map[string]string{}
		}
		all[key] = value
		o.SetAnnotations(all)
	}
}

// lines is a plan as a person would note it down. Jobs are called after their image: the
// hash in their names says nothing.
func lines(p Plan) []string {
	var out []string
	for _, s := range p.Steps {
		var parts []string
		if len(s.First) > 0 {
			parts = append(parts, "first remove "+join(s.First, nameOf))
		}
		if len(s.Apply) > 0 {
			parts = append(parts, "apply "+join(s.Apply, func(a Application) string {
				if a.HoldPods {
					return nameOf(a.ID) + " without its pods"
				}
				return nameOf(a.ID)
			}))
		}
		if len(s.Remove) > 0 {
			parts = append(parts, "remove "+join(s.Remove, nameOf))
		}
		if len(s.WaitsFor) > 0 {
			parts = append(parts, "wait for "+strings.Join(s.WaitsFor, ", "))
		}
		if s.Runs != nil {
			parts = append(parts, "wait for the end of "+nameOf(*s.Runs))
		}
		if s.Waits() != (len(s.WaitsFor) > 0 || s.Runs != nil) {
			parts = append(parts, "and does not know whether it waits")
		}
		out = append(out, s.Component+": "+strings.Join(parts, "; "))
	}
	for _, r := range p.Prune {
		out = append(out, fmt.Sprintf("prune %s of %s", nameOf(r.Child), r.Component))
	}
	for _, k := range p.Keep {
		out = append(out, fmt.Sprintf("keep %s: %s", k.Component, k.Why))
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

func nameOf(id desired.ID) string {
	name := id.Name
	if id.Kind == desired.KindJob {
		for _, version := range []string{"1", "2", "3"} {
			if strings.HasSuffix(name, desired.For(shop, stack(job("migrate", version)), desired.Known{})[0].JobSpec) {
				name = "migrate:" + version
			}
		}
	}
	return id.Kind.Kind + " " + name
}

// plan plans for a spec and what became of an earlier one.
func plan(now []appsapi.Component, seen Seen, keepJobs map[string]bool, deeds ...deed) (Plan, error) {
	for _, d := range deeds {
		d(seen)
	}
	return For(Input{Owner: shop, Components: desired.For(shop, now, desired.Known{}), Seen: seen, KeepJobs: keepJobs})
}

// jobSpec is the hash of the spec of a job.
func jobSpec(c appsapi.Component) string {
	return desired.For(shop, stack(c), desired.Known{})[0].JobSpec
}

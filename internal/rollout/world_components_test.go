package rollout

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
)

// Kinds of test components.
const (
	kindService = iota
	kindJob
	kindCronJob
)

// testComponent is a component of an application of the property test.
type testComponent struct {
	name, resourceName, renamedFrom string
	kind                            int
	rank                            int      // depends only on lower ranks, so there is no cycle
	dependencies                    []string // sorted
	version                         int      // of the pod template
	replicas                        int32
	ports, suspended                bool
}

func (p testComponent) String() string {
	kind := [...]string{"service", "job", "cronjob"}[p.kind]
	out := fmt.Sprintf("%s %s v%d as %s depends on [%s]", kind, p.name, p.version, p.resourceName, strings.Join(p.dependencies, " "))
	for word, on := range map[string]bool{" from " + p.renamedFrom: p.renamedFrom != "", " with ports": p.ports, " suspended": p.suspended} {
		if on {
			out += word
		}
	}
	return out
}

// childFactory creates the children of test components.
type childFactory interface {
	components(parts []testComponent) []desired.Component
	// apply returns a child after it was applied to the live one.
	apply(w *world, p testComponent, child desired.Child, live Object, holdPods bool) Object
}

// fastFactory creates minimal children: they are rendered in advance, with the annotations that
// package desired would write. This makes many graphs possible.
type fastFactory struct{}

var _ childFactory = fastFactory{}

// prerendered are real configurations, so that their comparison of pod templates is real. Two of
// them differ in their pod template.
var prerendered = sync.OnceValue(func() (configs struct{ pods, cron, rest []*desired.Config }) {
	one := func(c testSpec, child int) *desired.Config {
		config, err := desired.Build(shop, expand(stack(c)), desired.ClusterState{})[0].Children[child].Render(nil)
		must(err)
		return config
	}
	for version := range 256 {
		tag := fmt.Sprint(version)
		configs.pods = append(configs.pods, one(service("x", tag), 0))
		configs.cron = append(configs.cron, one(job("x", tag, nightly), 0))
	}
	configs.rest = []*desired.Config{one(service("x", "1", withPort), 1), one(job("x", "1"), 0)}
	return configs
})

func prerenderedConfig(id desired.ID, version int) *desired.Config {
	all := prerendered()
	switch id.Kind {
	case desired.KindDeployment:
		return all.pods[version%len(all.pods)]
	case desired.KindCronJob:
		return all.cron[version%len(all.cron)]
	case desired.KindJob:
		return all.rest[1]
	}
	return all.rest[0]
}

func (fastFactory) components(parts []testComponent) []desired.Component {
	hasPort := make(map[string]bool, len(parts))
	for _, p := range parts {
		hasPort[p.name] = p.kind == kindService && p.ports
	}
	out := make([]desired.Component, 0, len(parts))
	for _, p := range parts {
		c := desired.Component{
			Name: p.name, ResourceName: p.resourceName, RenamedFrom: p.renamedFrom, DependsOn: p.dependencies, Suspended: p.suspended,
			Type: appsapi.ComponentService, Workload: desired.ID{Kind: desired.KindDeployment, Name: p.resourceName},
		}
		switch p.kind {
		case kindJob:
			c.JobSpecHash = fmt.Sprint("v", p.version)
			c.Type, c.Workload = appsapi.ComponentJob, desired.ID{Kind: desired.KindJob, Name: p.resourceName + "-" + c.JobSpecHash}
		case kindCronJob:
			c.NonBlocking = true
			c.Type, c.Workload = appsapi.ComponentJob, desired.ID{Kind: desired.KindCronJob, Name: p.resourceName}
		}
		child := func(id desired.ID) desired.Child {
			return desired.Child{ID: id, Render: func(runtime.Object) (*desired.Config, error) { return prerenderedConfig(id, p.version), nil }}
		}
		for _, dep := range p.dependencies {
			if hasPort[dep] {
				c.BoundTo = append(c.BoundTo, dep)
			}
		}
		if hasPort[p.name] {
			c.Endpoints = make([]appsapi.Endpoint, 1)
			c.Children = append(c.Children, child(desired.ID{Kind: desired.KindService, Name: p.resourceName}))
		}
		// Not the first one, although package desired starts with it: the planner must not depend
		// on the order.
		c.Children = append(c.Children, child(c.Workload))
		out = append(out, c)
	}
	return out
}

func (fastFactory) apply(w *world, p testComponent, child desired.Child, live Object, holdPods bool) Object {
	if live == nil {
		live = emptyObject(child.ID)
	}
	live.SetLabels(map[string]string{appsapi.LabelComponent: p.name, appsapi.DefaultKeys.OwnerUID: string(shop.UID)})
	live.SetOwnerReferences(ownerReferences)
	if child.Kind == desired.KindService {
		return live
	}
	annotations := map[string]string{}
	if live.GetAnnotations()[appsapi.DefaultKeys.Prune] != "" {
		annotations[appsapi.DefaultKeys.Prune] = appsapi.PruneDisabled
	}
	depends, hash := strings.Join(p.dependencies, ","), prerenderedConfig(child.ID, p.version).Hash()
	if holdPods || child.Kind == desired.KindJob && live.GetAnnotations() != nil {
		depends, hash = live.GetAnnotations()[appsapi.DefaultKeys.DependsOn], live.GetAnnotations()[appsapi.DefaultKeys.AppliedHash]
	}
	annotations[appsapi.DefaultKeys.AppliedHash] = hash
	if depends != "" {
		annotations[appsapi.DefaultKeys.DependsOn] = depends
	}
	if d, ok := live.(*appsv1.Deployment); ok {
		d.Spec.Replicas = &p.replicas
		if former := w.formerDependencies(p, d); len(former) > 0 {
			annotations[appsapi.DefaultKeys.PreviousDependsOn] = strings.Join(former, ",")
		}
	}
	if child.Kind == desired.KindJob {
		annotations[appsapi.DefaultKeys.JobSpec] = child.Name[strings.LastIndex(child.Name, "-")+1:]
	}
	live.SetAnnotations(annotations)
	return live
}

var ownerReferences = []metav1.OwnerReference{{UID: shop.UID, Controller: new(true)}}

func emptyObject(id desired.ID) Object {
	meta := metav1.ObjectMeta{Name: id.Name, Namespace: shop.Namespace}
	switch id.Kind {
	case desired.KindDeployment:
		return &appsv1.Deployment{ObjectMeta: meta}
	case desired.KindJob:
		return &batchv1.Job{ObjectMeta: meta}
	case desired.KindCronJob:
		return &batchv1.CronJob{ObjectMeta: meta}
	}
	return &corev1.Service{ObjectMeta: meta}
}

// formerDependencies does the same as package desired.
func (w *world) formerDependencies(p testComponent, d *appsv1.Deployment) []string {
	oldPods := d.Status.ObservedGeneration < d.Generation || d.Status.Replicas != d.Status.UpdatedReplicas
	if d.Annotations == nil || d.Annotations[appsapi.DefaultKeys.DependsOn] == strings.Join(p.dependencies, ",") && !oldPods {
		return nil
	}
	var out []string
	for _, e := range desired.PodDependencies(appsapi.DefaultKeys, d) {
		if !slices.Contains(p.dependencies, e) && !slices.Contains(out, e) {
			out = append(out, e)
		}
	}
	return out
}

// realFactory creates children with package desired.
type realFactory struct{}

var _ childFactory = realFactory{}

func (realFactory) components(parts []testComponent) []desired.Component {
	var spec []testSpec
	for _, p := range parts {
		var c testSpec
		switch p.kind {
		case kindService:
			c = service("x", fmt.Sprint(p.version), replicas(p.replicas))
		case kindJob:
			c = job("x", fmt.Sprint(p.version))
		case kindCronJob:
			c = job("x", fmt.Sprint(p.version), nightly)
		}
		c.Name, c.ResourceName, c.RenamedFrom, c.suspended = p.name, p.resourceName, p.renamedFrom, p.suspended
		if p.ports && p.kind == kindService {
			withPort(&c)
		}
		for _, need := range p.dependencies {
			i := slices.IndexFunc(parts, func(o testComponent) bool { return o.name == need })
			if parts[i].ports && parts[i].kind == kindService {
				boundTo(need)(&c)
				continue
			}
			c.DependsOn = append(c.DependsOn, need)
		}
		spec = append(spec, c)
	}
	return desired.Build(shop, expand(spec), desired.ClusterState{})
}

func (realFactory) apply(_ *world, _ testComponent, child desired.Child, live Object, holdPods bool) Object {
	config, err := child.Render(live)
	must(err)
	if holdPods && config.ReplacesPods(live) {
		config.HoldPodTemplate(live)
	}
	annotations := maps.Clone(config.Annotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[appsapi.DefaultKeys.AppliedHash] = config.Hash()
	if live == nil {
		live = appliedChild(child, nil)
		clearStatus(live)
	} else if d, ok := live.(*appsv1.Deployment); ok && !config.HoldsPodTemplate() {
		now := appliedChild(child, live).(*appsv1.Deployment)
		d.Spec = now.Spec
	}
	if live.GetAnnotations()[appsapi.DefaultKeys.Prune] != "" {
		annotations[appsapi.DefaultKeys.Prune] = appsapi.PruneDisabled
	}
	live.SetLabels(config.Labels())
	live.SetAnnotations(annotations)
	live.SetOwnerReferences(ownerReferences)
	return live
}

// clearStatus returns an object that its controller has not observed yet.
func clearStatus(live Object) {
	switch o := live.(type) {
	case *appsv1.Deployment:
		o.Generation, o.Status = 0, appsv1.DeploymentStatus{}
	case *batchv1.Job:
		o.Status = batchv1.JobStatus{}
	}
}

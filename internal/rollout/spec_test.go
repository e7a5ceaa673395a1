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

// What a part is.
const (
	aService = iota
	aJob
	aCronJob
)

// part is a component of an application of the property test.
type part struct {
	name, resource, from string
	kind                 int
	rank                 int      // it may need those of a lower one, so there is no circle
	needs                []string // sorted
	version              int      // of its pods; another one is another template
	replicas             int32
	ports, held          bool
}

func (p part) String() string {
	kind := [...]string{"service", "job", "cronjob"}[p.kind]
	out := fmt.Sprintf("%s %s v%d as %s needs [%s]", kind, p.name, p.version, p.resource, strings.Join(p.needs, " "))
	for word, on := range map[string]bool{" from " + p.from: p.from != "", " with ports": p.ports, " suspended": p.held} {
		if on {
			out += word
		}
	}
	return out
}

// maker makes children of parts.
type maker interface {
	components(parts []part) []desired.Component
	// apply is a child after it was applied to what was there.
	apply(w *world, p part, child desired.Child, live Object, holdPods bool) Object
}

// quick makes children that are as small as can be: they are rendered in advance, and the
// annotations are what package desired would write. It makes many graphs possible.
type quick struct{}

var _ maker = quick{}

// rendered are real configurations, so that what they answer about pods is real. Two of
// them differ in their pods.
var rendered = sync.OnceValue(func() (configs struct{ pods, cron, rest []*desired.Config }) {
	one := func(c appsapi.Component, child int) *desired.Config {
		config, err := desired.For(shop, stack(c), desired.Known{})[0].Children[child].Render(nil)
		must(err)
		return config
	}
	for version := range 256 {
		tag := fmt.Sprint(version)
		configs.pods = append(configs.pods, one(service("x", tag), 0))
		configs.cron = append(configs.cron, one(job("x", tag, nightly), 0))
	}
	configs.rest = []*desired.Config{one(service("x", "1", ports), 1), one(job("x", "1"), 0)}
	return configs
})

func config(id desired.ID, version int) *desired.Config {
	all := rendered()
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

func (quick) components(parts []part) []desired.Component {
	listens := make(map[string]bool, len(parts))
	for _, p := range parts {
		listens[p.name] = p.kind == aService && p.ports
	}
	out := make([]desired.Component, 0, len(parts))
	for _, p := range parts {
		c := desired.Component{
			Name: p.name, ResourceName: p.resource, RenamedFrom: p.from, DependsOn: p.needs, Suspended: p.held,
			Type: appsapi.ComponentService, Workload: desired.ID{Kind: desired.KindDeployment, Name: p.resource},
		}
		switch p.kind {
		case aJob:
			c.JobSpec = fmt.Sprint("v", p.version)
			c.Type, c.Workload = appsapi.ComponentJob, desired.ID{Kind: desired.KindJob, Name: p.resource + "-" + c.JobSpec}
		case aCronJob:
			c.GatesNobody = true
			c.Type, c.Workload = appsapi.ComponentJob, desired.ID{Kind: desired.KindCronJob, Name: p.resource}
		}
		child := func(id desired.ID) desired.Child {
			return desired.Child{ID: id, Render: func(runtime.Object) (*desired.Config, error) { return config(id, p.version), nil }}
		}
		for _, need := range p.needs {
			if listens[need] {
				c.BoundTo = append(c.BoundTo, need)
			}
		}
		if listens[p.name] {
			c.Endpoints = make([]appsapi.Endpoint, 1)
			c.Children = append(c.Children, child(desired.ID{Kind: desired.KindService, Name: p.resource}))
		}
		// Not the first one, although it is in real life: nothing may rely on that.
		c.Children = append(c.Children, child(c.Workload))
		out = append(out, c)
	}
	return out
}

func (quick) apply(w *world, p part, child desired.Child, live Object, holdPods bool) Object {
	if live == nil {
		live = bare(child.ID)
	}
	live.SetLabels(map[string]string{appsapi.LabelComponent: p.name, appsapi.LabelOwnerUID: string(shop.UID)})
	live.SetOwnerReferences(ourReference)
	if child.Kind == desired.KindService {
		return live
	}
	notes := map[string]string{}
	if live.GetAnnotations()[appsapi.AnnotationPrune] != "" {
		notes[appsapi.AnnotationPrune] = appsapi.PruneDisabled
	}
	depends, hash := strings.Join(p.needs, ","), config(child.ID, p.version).Hash()
	if holdPods || child.Kind == desired.KindJob && live.GetAnnotations() != nil {
		depends, hash = live.GetAnnotations()[appsapi.AnnotationDependsOn], live.GetAnnotations()[appsapi.AnnotationApplied]
	}
	notes[appsapi.AnnotationApplied] = hash
	if depends != "" {
		notes[appsapi.AnnotationDependsOn] = depends
	}
	if d, ok := live.(*appsv1.Deployment); ok {
		d.Spec.Replicas = &p.replicas
		if former := w.former(p, d); len(former) > 0 {
			notes[appsapi.AnnotationDependedOn] = strings.Join(former, ",")
		}
	}
	if child.Kind == desired.KindJob {
		notes[appsapi.AnnotationJobSpec] = child.Name[strings.LastIndex(child.Name, "-")+1:]
	}
	live.SetAnnotations(notes)
	return live
}

var ourReference = []metav1.OwnerReference{{UID: shop.UID, Controller: new(true)}}

func bare(id desired.ID) Object {
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

// former is what package desired does: see there.
func (w *world) former(p part, d *appsv1.Deployment) []string {
	oldPods := d.Status.ObservedGeneration < d.Generation || d.Status.Replicas != d.Status.UpdatedReplicas
	if d.Annotations == nil || d.Annotations[appsapi.AnnotationDependsOn] == strings.Join(p.needs, ",") && !oldPods {
		return nil
	}
	var out []string
	for _, e := range desired.Edges(d) {
		if !slices.Contains(p.needs, e) && !slices.Contains(out, e) {
			out = append(out, e)
		}
	}
	return out
}

// full makes children with package desired and nothing else.
type full struct{}

var _ maker = full{}

func (full) components(parts []part) []desired.Component {
	var spec []appsapi.Component
	for _, p := range parts {
		var c appsapi.Component
		switch p.kind {
		case aService:
			c = service("x", fmt.Sprint(p.version), replicas(p.replicas))
		case aJob:
			c = job("x", fmt.Sprint(p.version))
		case aCronJob:
			c = job("x", fmt.Sprint(p.version), nightly)
		}
		c.Name, c.ResourceName, c.RenamedFrom, c.Suspend = p.name, p.resource, p.from, p.held
		if p.ports && p.kind == aService {
			ports(&c)
		}
		for _, need := range p.needs {
			i := slices.IndexFunc(parts, func(o part) bool { return o.name == need })
			if parts[i].ports && parts[i].kind == aService {
				boundTo(need)(&c)
				continue
			}
			c.DependsOn = append(c.DependsOn, need)
		}
		spec = append(spec, c)
	}
	return desired.For(shop, spec, desired.Known{})
}

func (full) apply(_ *world, _ part, child desired.Child, live Object, holdPods bool) Object {
	config, err := child.Render(live)
	must(err)
	if holdPods && config.ReplacesPods(live) {
		config.HoldPods(live)
	}
	notes := maps.Clone(config.Annotations())
	if notes == nil {
		notes = map[string]string{}
	}
	notes[appsapi.AnnotationApplied] = config.Hash()
	if live == nil {
		live = applied(child, nil)
		unseen(live)
	} else if d, ok := live.(*appsv1.Deployment); ok && !config.HoldsPods() {
		now := applied(child, live).(*appsv1.Deployment)
		d.Spec = now.Spec
	}
	if live.GetAnnotations()[appsapi.AnnotationPrune] != "" {
		notes[appsapi.AnnotationPrune] = appsapi.PruneDisabled
	}
	live.SetLabels(config.Labels())
	live.SetAnnotations(notes)
	live.SetOwnerReferences(ourReference)
	return live
}

// unseen is an object of which its controller knows nothing yet.
func unseen(live Object) {
	switch o := live.(type) {
	case *appsv1.Deployment:
		o.Generation, o.Status = 0, appsv1.DeploymentStatus{}
	case *batchv1.Job:
		o.Status = batchv1.JobStatus{}
	}
}

package oracle

import (
	"cmp"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/watcher"
)

// Timeline is everything that happened in a namespace, in the order in which etcd took it:
// the watches of several kinds are brought together by their resourceVersions.
type Timeline []watcher.Event

// TimelineOf orders events.
func TimelineOf(events []watcher.Event) Timeline {
	t := slices.Clone(events)
	slices.SortStableFunc(t, func(a, b watcher.Event) int { return cmp.Compare(Version(a), Version(b)) })
	return t
}

// Version is the resourceVersion of an event as a number.
func Version(e watcher.Event) uint64 {
	v, err := strconv.ParseUint(e.ResourceVersion, 10, 64)
	if err != nil {
		panic(err) // an API server since 1.35 counts
	}
	return v
}

// truth is what there is at one moment.
type truth map[string]*unstructured.Unstructured

func keyOf(kind, name string) string { return kind + "/" + name }

// after plays one event.
func (t truth) after(e watcher.Event) {
	key := keyOf(e.Object.GetKind(), e.Object.GetName())
	if e.Type == watch.Deleted {
		delete(t, key)
		return
	}
	t[key] = e.Object
}

// before returns the state just before an event of the timeline.
func (t Timeline) before(i int) truth {
	state := truth{}
	for _, e := range t[:i] {
		state.after(e)
	}
	return state
}

// part is one component of an application, as its spec says.
type part struct {
	name     string // of its children
	service  *appsapi.ServiceComponent
	stateful *appsapi.StatefulComponent
	job      *appsapi.JobComponent
	selector string // the component
	// renamedFrom is what the component was called before.
	renamedFrom string
}

// is says whether something is this component's, also by the name that it had before. What
// is of data keeps its own name when a component is renamed.
func (p part) is(o *unstructured.Unstructured) bool {
	component := o.GetLabels()[appsapi.LabelComponent]
	return component != "" && (component == p.selector || component == p.renamedFrom)
}

// server is what runs all the time; nil for a job.
func (p part) server() *appsapi.ServerSpec {
	switch {
	case p.service != nil:
		return &p.service.ServerSpec
	case p.stateful != nil:
		return &p.stateful.ServerSpec
	}
	return nil
}

// application is an object of ours as it is at one moment.
type application struct {
	object *unstructured.Unstructured
	status appsapi.ApplicationStatus
	parts  []part
	// policy is what becomes of data that nobody wants any more.
	policy appsapi.DeletionPolicy
}

// ownedBy returns the application with a UID.
func (t truth) ownedBy(uid types.UID) (application, bool) {
	for _, o := range t {
		if o.GetUID() == uid {
			return applicationOf(o)
		}
	}
	return application{}, false
}

func applicationOf(o *unstructured.Unstructured) (application, bool) {
	app := application{object: o}
	switch o.GetKind() {
	case "AppService":
		s := read[appsapi.AppService](o)
		app.status = s.Status.ApplicationStatus
		app.parts = []part{{name: s.Name, selector: s.Name, service: &s.Spec.ServiceComponent}}
	case "AppStack":
		s := read[appsapi.AppStack](o)
		app.status, app.policy = s.Status.ApplicationStatus, s.Spec.DeletionPolicy
		for i := range s.Spec.Components {
			c := &s.Spec.Components[i]
			name := c.ResourceName
			if name == "" {
				name = s.Name + "-" + c.Name
			}
			app.parts = append(app.parts, part{name: name, selector: c.Name, renamedFrom: c.RenamedFrom, service: c.Service, stateful: dataOf(c), job: c.Job})
		}
	default:
		return app, false
	}
	return app, true
}

// dataOf is what has data of a component; a database is one server with one volume.
func dataOf(c *appsapi.Component) *appsapi.StatefulComponent {
	if c.Database == nil {
		return c.Stateful
	}
	s := &appsapi.StatefulComponent{Storage: []appsapi.StorageSpec{{Name: "data", Size: c.Database.Storage.Size}}}
	s.Image, s.Replicas, s.Ports = c.Database.Image, new(int32(1)), []appsapi.Port{{Port: 3306}}
	if s.Image == "" {
		s.Image = "mariadb:" + c.Database.Version
	}
	return s
}

func read[T any](o *unstructured.Unstructured) *T {
	out := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, out); err != nil {
		panic(err) // the API server knows its own kinds
	}
	return out
}

// ownerUID is whose a child is by its label.
func ownerUID(child *unstructured.Unstructured) types.UID {
	return types.UID(child.GetLabels()[appsapi.LabelOwnerUID])
}

// Field returns a field of an object, nil if there is none.
func Field(o *unstructured.Unstructured, path ...string) any {
	value, _, err := unstructured.NestedFieldNoCopy(o.Object, path...)
	if err != nil {
		return nil
	}
	return value
}

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

// NewTimeline orders events.
func NewTimeline(events []watcher.Event) Timeline {
	t := slices.Clone(events)
	slices.SortStableFunc(t, func(a, b watcher.Event) int { return cmp.Compare(ResourceVersion(a), ResourceVersion(b)) })
	return t
}

// ResourceVersion is the resourceVersion of an event as a number.
func ResourceVersion(e watcher.Event) uint64 {
	v, err := strconv.ParseUint(e.ResourceVersion, 10, 64)
	if err != nil {
		panic(err) // an API server since 1.35 counts
	}
	return v
}

// clusterState is what there is at one moment.
type clusterState map[string]*unstructured.Unstructured

func objectKey(kind, name string) string { return kind + "/" + name }

// applyEvent plays one event.
func (t clusterState) applyEvent(e watcher.Event) {
	key := objectKey(e.Object.GetKind(), e.Object.GetName())
	if e.Type == watch.Deleted {
		delete(t, key)
		return
	}
	t[key] = e.Object
}

// stateBefore returns the state just before an event of the timeline.
func (t Timeline) stateBefore(i int) clusterState {
	state := clusterState{}
	for _, e := range t[:i] {
		state.applyEvent(e)
	}
	return state
}

// componentSpec is one component of an application, as its spec says.
type componentSpec struct {
	resourceName string // of its children
	service      *appsapi.ServiceComponent
	stateful     *appsapi.StatefulComponent
	job          *appsapi.JobComponent
	component    string // the component
	// renamedFrom is what the component was called before.
	renamedFrom string
}

// owns says whether something is this component's, also by the name that it had before. What
// is of data keeps its own name when a component is renamed.
func (p componentSpec) owns(o *unstructured.Unstructured) bool {
	component := o.GetLabels()[appsapi.LabelComponent]
	return component != "" && (component == p.component || component == p.renamedFrom)
}

// server is what runs all the time; nil for a job.
func (p componentSpec) server() *appsapi.ServerSpec {
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
	object     *unstructured.Unstructured
	status     appsapi.ApplicationStatus
	components []componentSpec
	// deletionPolicy is what becomes of data that nobody wants any more.
	deletionPolicy appsapi.DeletionPolicy
}

// applicationByUID returns the application with a UID.
func (t clusterState) applicationByUID(uid types.UID) (application, bool) {
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
		s := fromUnstructured[appsapi.AppService](o)
		app.status = s.Status.ApplicationStatus
		app.components = []componentSpec{{resourceName: s.Name, component: s.Name, service: &s.Spec.ServiceComponent}}
	case "AppStack":
		s := fromUnstructured[appsapi.AppStack](o)
		app.status, app.deletionPolicy = s.Status.ApplicationStatus, s.Spec.DeletionPolicy
		for i := range s.Spec.Components {
			c := &s.Spec.Components[i]
			name := c.ResourceName
			if name == "" {
				name = s.Name + "-" + c.Name
			}
			app.components = append(app.components, componentSpec{resourceName: name, component: c.Name, renamedFrom: c.RenamedFrom, service: c.Service, stateful: statefulSpecOf(c), job: c.Job})
		}
	default:
		return app, false
	}
	return app, true
}

// statefulSpecOf is what has data of a component; a database is one server with one volume.
func statefulSpecOf(c *appsapi.Component) *appsapi.StatefulComponent {
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

func fromUnstructured[T any](o *unstructured.Unstructured) *T {
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

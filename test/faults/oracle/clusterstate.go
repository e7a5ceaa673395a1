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

// Timeline contains all events of a namespace in the order of etcd: the watches of several kinds are merged by
// resourceVersion.
type Timeline []watcher.Event

// NewTimeline sorts events by resourceVersion.
func NewTimeline(events []watcher.Event) Timeline {
	t := slices.Clone(events)
	slices.SortStableFunc(t, func(a, b watcher.Event) int { return cmp.Compare(ResourceVersion(a), ResourceVersion(b)) })
	return t
}

// ResourceVersion returns the resourceVersion of an event as a number.
func ResourceVersion(e watcher.Event) uint64 {
	v, err := strconv.ParseUint(e.ResourceVersion, 10, 64)
	if err != nil {
		panic(err) // resourceVersions are numbers since Kubernetes 1.35
	}
	return v
}

// clusterState is the objects of a namespace at one point in time.
type clusterState map[string]*unstructured.Unstructured

func objectKey(kind, name string) string { return kind + "/" + name }

func (t clusterState) applyEvent(e watcher.Event) {
	key := objectKey(e.Object.GetKind(), e.Object.GetName())
	if e.Type == watch.Deleted {
		delete(t, key)
		return
	}
	t[key] = e.Object
}

// stateBefore returns the state before an event of the timeline.
func (t Timeline) stateBefore(i int) clusterState {
	state := clusterState{}
	for _, e := range t[:i] {
		state.applyEvent(e)
	}
	return state
}

// componentSpec is the spec of a component of an application.
type componentSpec struct {
	resourceName string // of its children
	service      *appsapi.ServiceComponent
	stateful     *appsapi.StatefulComponent
	job          *appsapi.JobComponent
	component    string // component name
	// renamedFrom is the previous name of the component.
	renamedFrom string
}

// owns reports whether an object belongs to the component, also under its previous name. Data objects keep their own
// name when a component is renamed.
func (p componentSpec) owns(o *unstructured.Unstructured) bool {
	component := o.GetLabels()[appsapi.LabelComponent]
	return component != "" && (component == p.component || component == p.renamedFrom)
}

// server returns the long-running part of a component; nil for a job.
func (p componentSpec) server() *appsapi.ServerSpec {
	switch {
	case p.service != nil:
		return &p.service.ServerSpec
	case p.stateful != nil:
		return &p.stateful.ServerSpec
	}
	return nil
}

// application is an application at one point in time.
type application struct {
	object     *unstructured.Unstructured
	status     appsapi.ApplicationStatus
	components []componentSpec
	// deletionPolicy applies to data that is no longer in the spec.
	deletionPolicy appsapi.DeletionPolicy
}

// applicationByUID returns the application with this UID.
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

// statefulSpecOf returns the storage spec of a component; a database is a single server with one volume.
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
		panic(err) // the API server returns valid objects
	}
	return out
}

// ownerUID returns the owner of a child according to its label.
func ownerUID(child *unstructured.Unstructured) types.UID {
	return types.UID(child.GetLabels()[appsapi.DefaultKeys.OwnerUID])
}

// Field returns a field of an object, or nil.
func Field(o *unstructured.Unstructured, path ...string) any {
	value, _, err := unstructured.NestedFieldNoCopy(o.Object, path...)
	if err != nil {
		return nil
	}
	return value
}

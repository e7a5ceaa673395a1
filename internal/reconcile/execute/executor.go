package execute

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/apply"
	"github.com/holdfast-dev/holdfast/internal/childkind"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/reconcile/retained"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

// maxConcurrentWrites limits the children of one application that are written at the same time.
const maxConcurrentWrites = 8

// Executor reconciles applications of one kind.
type Executor struct {
	Kind Kind
	// ChildKinds are the kinds of children. No other kinds are read.
	ChildKinds childkind.Set
	// Cache must have the indexes of internal/childkind. It may be behind the API server.
	Cache     client.Reader
	APIReader client.Reader
	Writer    Writer
	Clock     clock.PassiveClock
	// OwnWrites are our writes that the cache does not show yet.
	OwnWrites     *OwnWrites
	ConfigRefs    ConfigRefs
	Databases     Databases
	OptionalKinds OptionalKinds
}

// Writer changes the objects of an application. *apply.Applier changes the cluster.
type Writer interface {
	// Observe returns a child from the cache, or our own write if the write is newer.
	Observe(context.Context, desired.Owner, desired.ID) (client.Object, error)
	NotYetCached(desired.Owner) []desired.ID
	InSync(desired.Owner, desired.Child, client.Object) bool

	Apply(ctx context.Context, owner desired.Owner, child desired.Child, current client.Object, holdPodTemplate bool) (apply.Result, error)
	Remove(ctx context.Context, owner desired.Owner, id desired.ID, current client.Object) (removed bool, err error)
	RestoreOwnership(context.Context, desired.Owner, client.Object) (client.Object, error)
	// SetFinalizers replaces the finalizers of app if they are as expected, and updates app with the
	// response.
	SetFinalizers(ctx context.Context, owner desired.Owner, expected, finalizers []string, app client.Object) error

	LabelRetained(context.Context, desired.Owner, desired.RetainedObject, map[string]string) error
	AnnotateRetained(context.Context, desired.Owner, desired.RetainedObject, map[string]string) error
	PurgeRetained(context.Context, desired.Owner, desired.RetainedObject) error
	CreateSecret(context.Context, desired.Owner, desired.Component) error
	CompleteSecret(context.Context, desired.Owner, desired.Component) error
	ResizeClaim(context.Context, desired.Owner, *corev1.PersistentVolumeClaim, resource.Quantity) error
	// OrphanPods deletes a StatefulSet with orphan propagation, so its pods keep running.
	OrphanPods(context.Context, desired.Owner, desired.ID, client.Object) error
	// DeleteOrphan deletes an object that an earlier OrphanPods left behind.
	DeleteOrphan(context.Context, client.Object) error

	CreateRevision(context.Context, desired.Owner, *appsv1.ControllerRevision) (*appsv1.ControllerRevision, error)
	RenumberRevision(context.Context, desired.Owner, *appsv1.ControllerRevision, int64) (*appsv1.ControllerRevision, error)
	SetRevisionJobs(context.Context, desired.Owner, *appsv1.ControllerRevision, []string) (*appsv1.ControllerRevision, error)
	MarkRevisionHealthy(context.Context, desired.Owner, *appsv1.ControllerRevision) (*appsv1.ControllerRevision, error)
}

var _ Writer = &apply.Applier{}

// ConfigRefs hashes the ConfigMaps and Secrets that pods refer to.
type ConfigRefs interface {
	HashesFor(ctx context.Context, app types.NamespacedName, components []desired.ExpandedComponent, children rollout.Observed, watchOnly []desired.Ref) (desired.RefStates, error)
}

// Databases probes the database servers of an application. Observe records their health and versions
// in the scope.
type Databases interface {
	Observe(context.Context, *Scope) error
}

// OptionalKinds reports which kinds of CRDs, such as Gateway API routes, the cluster serves.
type OptionalKinds interface {
	IsReadable(schema.GroupVersionKind) bool
	// EnsureWritable returns an ownership.UnknownKind if the cluster does not serve a kind.
	EnsureWritable(ctx context.Context, namespace string, id desired.ID) error
	// RefineError returns an ownership.UnknownKind if the cluster no longer serves the kind, and
	// otherwise the error.
	RefineError(ctx context.Context, namespace string, id desired.ID, err error) error
}

// dataReader reads the data that components retain.
func (e *Executor) dataReader() retained.Reader {
	return retained.Reader{Cache: e.Cache, APIReader: e.APIReader}
}

// OwnerOf returns the owner reference data of an application.
func (e *Executor) OwnerOf(app Application) desired.Owner {
	return desired.Owner{
		APIVersion: e.Kind.GVK.GroupVersion().String(), Kind: e.Kind.GVK.Kind,
		Namespace: app.GetNamespace(), Name: app.GetName(), UID: app.GetUID(), Keys: e.Kind.Keys, Generation: app.GetGeneration(),
	}
}

// verifyGeneration checks in the API server that the spec of an application has not changed since the
// plan: the cache may lack an edit that another leader has already applied.
func (e *Executor) verifyGeneration(ctx context.Context, app Application) error {
	current := e.Kind.New()
	if err := e.APIReader.Get(ctx, client.ObjectKeyFromObject(app), current); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("get %s: %w", e.kindAndName(app), err)
	}
	if current.GetUID() != app.GetUID() || current.GetGeneration() != app.GetGeneration() {
		return fmt.Errorf("%s: %w", e.kindAndName(app), apply.ErrStale)
	}
	return nil
}

func (e *Executor) kindAndName(app Application) string {
	return fmt.Sprintf("%s %s/%s", e.Kind.GVK.Kind, app.GetNamespace(), app.GetName())
}

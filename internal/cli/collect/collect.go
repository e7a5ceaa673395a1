// Package collect reads the objects of one application: first the application, its children and pods,
// then only objects that can explain why something is not ready.
//
// Safety rule: reads are bounded, because a namespace can have thousands of other objects. Lists use
// the labels of Holdfast, other objects are read by name, and the number of requests is limited.
package collect

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/appkind"
	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/explain"
	"github.com/holdfast-dev/holdfast/internal/inspect"
)

// MaxRequests is the maximum number of requests per application, including the requests that find it.
const MaxRequests = 19

// maxRounds is the maximum number of rounds in which evidence is read for the causes found so far.
const maxRounds = 3

// Result is the collected state of an application.
type Result struct {
	inspect.View
	// Unread lists the objects that could not be read, with the reason.
	Unread []string
	// Objects are the objects that were read.
	Objects []runtime.Object
}

// Application reads an application. If forTree is set, it also reads objects that only a tree shows.
func Application(ctx context.Context, c client.Client, app appkind.Application, forTree bool, now time.Time) (Result, error) {
	l := &collector{client: c, app: app, owner: appkind.Owner(app), requestsLeft: MaxRequests - len(appkind.Builtin), requested: map[string]bool{}, missingRefs: map[string][]explain.Ref{}}
	if l.discovered = appkind.Of(app).Discovered; l.discovered {
		l.requestsLeft -= 2 // the CRD list and the application itself
	}
	l.components = appkind.Observe(app, nil)
	if err := l.readChildren(ctx, forTree); err != nil {
		return Result{}, err
	}
	v := l.buildView(now)
	for range maxRounds {
		if !l.readEvidence(ctx, v) {
			break
		}
		v = l.buildView(now)
	}
	slices.Sort(l.unread)
	return Result{View: v, Unread: slices.Compact(l.unread), Objects: l.objects}, nil
}

// collector reads the objects of one application.
type collector struct {
	client     client.Client
	app        appkind.Application
	owner      desired.Owner
	components []desired.Component
	// discovered is set for kinds of other operators.
	discovered bool

	// requestsLeft is the remaining number of requests, requested the keys of those sent.
	requestsLeft int
	requested    map[string]bool

	mu          sync.Mutex // guards the fields below
	objects     []runtime.Object
	missingRefs map[string][]explain.Ref
	listedKinds []string
	unread      []string
}

func (l *collector) buildView(now time.Time) inspect.View {
	in := inspect.Input{
		App: l.app, Kind: l.owner.Kind, Owner: l.owner, Status: l.app.ApplicationStatus(), Components: l.components,
		Objects: l.objects, MissingRefs: l.missingRefs, CompleteKinds: l.listedKinds, Now: now,
	}
	if s, ok := l.app.(appkind.Stack); ok {
		in.Stack = s.StackStatus()
	}
	return inspect.Evaluate(in)
}

// childLists creates a list for each kind of child.
var childLists = map[schema.GroupVersionKind]func() client.ObjectList{
	desired.KindDeployment:  func() client.ObjectList { return &appsv1.DeploymentList{} },
	desired.KindStatefulSet: func() client.ObjectList { return &appsv1.StatefulSetList{} },
	desired.KindJob:         func() client.ObjectList { return &batchv1.JobList{} },
	desired.KindCronJob:     func() client.ObjectList { return &batchv1.CronJobList{} },
	desired.KindService:     func() client.ObjectList { return &corev1.ServiceList{} },
	desired.KindAutoscaler:  func() client.ObjectList { return &autoscalingv2.HorizontalPodAutoscalerList{} },
	desired.KindBudget:      func() client.ObjectList { return &policyv1.PodDisruptionBudgetList{} },
	desired.KindIngress:     func() client.ObjectList { return &networkingv1.IngressList{} },
	desired.KindRoute: func() client.ObjectList {
		u := &unstructured.UnstructuredList{}
		u.SetGroupVersionKind(desired.KindRoute.GroupVersion().WithKind("HTTPRouteList"))
		return u
	},
}

// readChildren reads the children and pods of the application. Kinds that the caller cannot read are
// recorded as unread; other errors are returned.
func (l *collector) readChildren(ctx context.Context, forTree bool) error {
	ownerLabels := client.MatchingLabels{l.owner.Keys.OwnerUID: string(l.owner.UID)}
	instanceLabels := client.MatchingLabels{appsapi.LabelManagedBy: appsapi.ManagedBy, appsapi.LabelInstance: l.owner.Name}
	group, ctx := errgroup.WithContext(ctx)
	read := func(list client.ObjectList, labels client.MatchingLabels) {
		l.requestsLeft--
		group.Go(func() error { return l.list(ctx, list, client.InNamespace(l.owner.Namespace), labels) })
	}
	for kind, list := range childLists {
		if l.mayHaveChildKind(kind) {
			read(list(), ownerLabels)
		}
	}
	read(&corev1.PodList{}, instanceLabels)
	if forTree {
		read(&appsv1.ReplicaSetList{}, instanceLabels)
	}
	if l.discovered || slices.ContainsFunc(l.components, func(c desired.Component) bool { return c.Data != nil }) {
		read(&corev1.PersistentVolumeClaimList{}, instanceLabels)
	}
	if err := group.Wait(); err != nil {
		return err
	}
	l.components = appkind.Observe(l.app, l.objects)
	l.objects = slices.DeleteFunc(l.objects, l.isForeign)
	return nil
}

// isForeign reports whether a pod or ReplicaSet belongs to an application of another kind with the same
// name.
func (l *collector) isForeign(obj runtime.Object) bool {
	switch o := obj.(type) {
	case *corev1.Pod, *appsv1.ReplicaSet:
		workload := o.(client.Object).GetLabels()[l.owner.Keys.Workload]
		return !slices.ContainsFunc(l.components, func(c desired.Component) bool { return c.WorkloadID == workload })
	}
	return false
}

// mayHaveChildKind reports whether the application can have children of a kind. The status of kinds of
// other operators names only the workloads.
func (l *collector) mayHaveChildKind(kind schema.GroupVersionKind) bool {
	if !l.discovered {
		return l.hasChildKind(kind)
	}
	if kind == desired.KindJob || kind == desired.KindCronJob {
		return len(l.components) == 0 || slices.ContainsFunc(l.components, func(c desired.Component) bool { return c.Type == appsapi.ComponentJob })
	}
	return true
}

// hasChildKind reports whether a component has a child of a kind.
func (l *collector) hasChildKind(kind schema.GroupVersionKind) bool {
	return slices.ContainsFunc(l.components, func(c desired.Component) bool {
		return slices.ContainsFunc(c.Children, func(child desired.Child) bool { return child.Kind == kind })
	})
}

// list reads a list and stores its objects.
func (l *collector) list(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	gvk, err := apiutil.GVKForObject(list, l.client.Scheme())
	if err != nil {
		return err
	}
	kind := strings.TrimSuffix(gvk.Kind, "List")
	err = l.client.List(ctx, list, opts...)
	if l.discovered && (apierrors.IsNotFound(err) || meta.IsNoMatchError(err)) {
		return nil // an optional kind that is not installed has no children
	}
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		l.recordUnread(kind, err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("list %ss: %w", kind, cli.WithHint(err))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listedKinds = append(l.listedKinds, kind)
	return meta.EachListItem(list, func(obj runtime.Object) error {
		obj.GetObjectKind().SetGroupVersionKind(gvk.GroupVersion().WithKind(kind))
		l.objects = append(l.objects, obj)
		return nil
	})
}

func (l *collector) recordUnread(kind string, err error) {
	reason := err.Error()
	if apierrors.IsForbidden(err) {
		reason = "no permission to read"
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unread = append(l.unread, fmt.Sprintf("%ss: %s", kind, reason))
}

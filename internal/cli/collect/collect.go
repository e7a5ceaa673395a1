// Package collect reads what belongs to one application: first the application, its children
// and pods, and then only what may tell why something is not ready.
//
// Safety rule: it never lists what is not needed. A namespace may have thousands of objects
// that are none of ours, so every list is by our labels, everything else by name, and the
// number of requests has a bound.
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
	"github.com/holdfast-dev/holdfast/internal/application"
	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/explain"
	"github.com/holdfast-dev/holdfast/internal/inspect"
)

// MaxRequests is how many requests it takes at most to look at an application, those that
// found it included.
const MaxRequests = 19

// maxRounds is how often what was found is asked what would tell more.
const maxRounds = 3

// Result is what was seen.
type Result struct {
	inspect.View
	// Unread says what could not be read, and why.
	Unread []string
	// Objects are those that were read.
	Objects []runtime.Object
}

// Application looks at an application. whole also reads what only a tree shows.
func Application(ctx context.Context, c client.Client, app application.Application, forTree bool, now time.Time) (Result, error) {
	l := &collector{client: c, app: app, owner: application.Owner(app), specs: application.Components(app), requestsLeft: MaxRequests - len(application.Kinds), requested: map[string]bool{}, missingRefs: map[string][]explain.Ref{}}
	l.components = desired.Build(l.owner, l.specs, desired.ClusterState{})
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

// collector collects.
type collector struct {
	client     client.Client
	app        application.Application
	owner      desired.Owner
	specs      []appsapi.Component
	components []desired.Component

	// requestsLeft is how many requests may follow, and asked are those that were made.
	requestsLeft int
	requested    map[string]bool

	mu          sync.Mutex // of what answers add to
	objects     []runtime.Object
	missingRefs map[string][]explain.Ref
	listedKinds []string
	unread      []string
}

func (l *collector) buildView(now time.Time) inspect.View {
	in := inspect.Input{
		App: l.app, Kind: l.owner.Kind, Status: l.app.ApplicationStatus(), Components: l.components,
		Objects: l.objects, MissingRefs: l.missingRefs, CompleteKinds: l.listedKinds, Now: now,
	}
	if s, ok := l.app.(interface{ StackStatus() *appsapi.StackStatus }); ok {
		in.Stack = s.StackStatus()
	}
	return inspect.Evaluate(in)
}

// childLists are the kinds of children.
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

// readChildren reads what the application consists of. Without it there is nothing to say, so
// its errors end the look; a kind that the caller may not read is only missed.
func (l *collector) readChildren(ctx context.Context, forTree bool) error {
	ownerLabels := client.MatchingLabels{appsapi.LabelOwnerUID: string(l.owner.UID)}
	instanceLabels := client.MatchingLabels{appsapi.LabelManagedBy: appsapi.ManagedBy, appsapi.LabelInstance: l.owner.Name}
	group, ctx := errgroup.WithContext(ctx)
	read := func(list client.ObjectList, labels client.MatchingLabels) {
		l.requestsLeft--
		group.Go(func() error { return l.list(ctx, list, client.InNamespace(l.owner.Namespace), labels) })
	}
	for kind, list := range childLists {
		if l.hasChildKind(kind) {
			read(list(), ownerLabels)
		}
	}
	read(&corev1.PodList{}, instanceLabels)
	if forTree {
		read(&appsv1.ReplicaSetList{}, instanceLabels)
	}
	if slices.ContainsFunc(l.components, func(c desired.Component) bool { return c.Data != nil }) {
		read(&corev1.PersistentVolumeClaimList{}, instanceLabels)
	}
	if err := group.Wait(); err != nil {
		return err
	}
	// Data that was found again keeps its names.
	var retained []desired.RetainedObject
	for _, obj := range l.objects {
		if claim, ok := obj.(*corev1.PersistentVolumeClaim); ok {
			retained = append(retained, desired.RetainedObject{ID: desired.ID{Kind: desired.KindClaim, Name: claim.Name}, Object: claim, Claim: claim})
		}
	}
	if len(retained) > 0 {
		l.components = desired.Build(l.owner, l.specs, desired.ClusterState{Retained: retained})
	}
	l.objects = slices.DeleteFunc(l.objects, l.isForeign)
	return nil
}

// isForeign says whether a pod, or what made it, is of another application: one of another
// kind may have the same name. Nothing is asked about it.
func (l *collector) isForeign(obj runtime.Object) bool {
	switch o := obj.(type) {
	case *corev1.Pod, *appsv1.ReplicaSet:
		workload := o.(client.Object).GetLabels()[appsapi.LabelWorkload]
		return !slices.ContainsFunc(l.components, func(c desired.Component) bool { return c.WorkloadID == workload })
	}
	return false
}

// hasChildKind says whether a component has a child of a kind.
func (l *collector) hasChildKind(kind schema.GroupVersionKind) bool {
	return slices.ContainsFunc(l.components, func(c desired.Component) bool {
		return slices.ContainsFunc(c.Children, func(child desired.Child) bool { return child.Kind == kind })
	})
}

// list reads a list and keeps what is in it.
func (l *collector) list(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	gvk, err := apiutil.GVKForObject(list, l.client.Scheme())
	if err != nil {
		return err
	}
	kind := strings.TrimSuffix(gvk.Kind, "List")
	err = l.client.List(ctx, list, opts...)
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
		reason = "you may not read them"
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unread = append(l.unread, fmt.Sprintf("%ss: %s", kind, reason))
}

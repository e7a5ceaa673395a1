package logs

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/application"
)

// reader finds the containers of an application, or of one pod.
type reader struct {
	client.Reader
	pods      kubernetes.Interface
	namespace string
	// app is nil when it is about one pod.
	app     application.Application
	pod     string
	options Options
	// workloads are the components of the pods that were seen so far.
	workloads map[application.WorkloadKey]application.Place
	// foreign are workloads of another application of the same name.
	foreign map[application.WorkloadKey]bool
}

// title names what is read in a sentence.
func (r *reader) title() string {
	if r.app == nil {
		return fmt.Sprintf("pod %s/%s", r.namespace, r.pod)
	}
	return application.Title(r.app)
}

func (r *reader) read(ctx context.Context, out Out) error {
	m := &mux{options: r.options, logs: r, out: out}
	if r.options.Follow {
		return r.followAll(ctx, m)
	}
	containers, err := r.now(ctx)
	if err != nil {
		return err
	}
	if len(containers) == 0 {
		m.say("%s", r.nothing())
		return nil
	}
	return m.once(ctx, containers)
}

// learn reads which workloads the application has, and refuses a component that it has not.
func (r *reader) learn(ctx context.Context) (err error) {
	r.workloads, err = application.Workloads(ctx, r, client.InNamespace(r.namespace), client.MatchingLabels{appsapi.LabelOwnerUID: string(r.app.GetUID())})
	if err != nil || r.options.Component == "" {
		return err
	}
	var names []string
	for _, c := range application.Components(r.app) {
		names = append(names, c.Name)
	}
	for _, place := range r.workloads { // one that is on its way out still has pods
		names = append(names, place.Component)
	}
	if slices.Contains(names, r.options.Component) {
		return nil
	}
	slices.Sort(names)
	return application.Refuse("%s has no component %s; it has %s", application.Title(r.app), r.options.Component, strings.Join(slices.Compact(names), ", "))
}

// selected finds the pods; which of them are of another application of the same name, their
// workload says.
func (r *reader) selected() metav1.ListOptions {
	if r.app == nil {
		return metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", r.pod).String()}
	}
	return metav1.ListOptions{LabelSelector: r.labels().String()}
}

func (r *reader) labels() labels.Set {
	return labels.Set{appsapi.LabelManagedBy: appsapi.ManagedBy, appsapi.LabelInstance: r.app.GetName()}
}

// now are the containers that there are.
func (r *reader) now(ctx context.Context) ([]container, error) {
	if r.app == nil {
		pod := &corev1.Pod{}
		if err := r.Get(ctx, client.ObjectKey{Namespace: r.namespace, Name: r.pod}, pod); err != nil {
			return nil, fmt.Errorf("get %s: %w", r.title(), err)
		}
		return containersOf(pod, "", r.options.Container), nil
	}
	objects, err := application.ListAll(ctx, r, func() client.ObjectList { return &corev1.PodList{} },
		client.InNamespace(r.namespace), client.MatchingLabels(r.labels()))
	if err != nil {
		return nil, fmt.Errorf("list the pods of %s: %w", r.title(), err)
	}
	var pods []*corev1.Pod
	for _, o := range objects {
		if pod, ok := o.(*corev1.Pod); ok {
			pods = append(pods, pod)
		}
	}
	return r.containers(pods), nil
}

// containers are those of pods of the application that were asked for, in the order of the
// components.
func (r *reader) containers(pods []*corev1.Pod) []container {
	order := map[string]int{}
	for i, c := range application.Components(r.app) {
		order[c.Name] = i + 1
	}
	var out []container
	for _, pod := range pods {
		place, ours := r.workloads[application.WorkloadOf(pod)]
		if ours && (r.options.Component == "" || place.Component == r.options.Component) {
			out = append(out, containersOf(pod, place.Component, r.options.Container)...)
		}
	}
	slices.SortStableFunc(out, func(a, b container) int {
		return cmp.Or(cmp.Compare(order[a.component], order[b.component]), strings.Compare(a.pod.Name, b.pod.Name))
	})
	return out
}

// nothing says that there are no containers.
func (r *reader) nothing() string {
	if r.app == nil {
		return fmt.Sprintf("%s has no container %s; kubectl describe pod %s -n %s lists them", r.title(), r.options.Container, r.pod, r.namespace)
	}
	what := "has no pods"
	if r.options.Container != "" {
		what = "has no pods with a container " + r.options.Container
	}
	if r.options.Component != "" {
		what += " of component " + r.options.Component
	}
	return fmt.Sprintf("%s %s; kubectl describe %s %s -n %s says why", application.Title(r.app), what, strings.ToLower(application.KindOf(r.app)), r.app.GetName(), r.app.GetNamespace())
}

// followAll follows the pods that there are and those that come. An informer is what is
// wanted here: it does not matter what happened to a pod, only what it is.
func (r *reader) followAll(ctx context.Context, m *mux) error {
	first, err := r.now(ctx) // an informer would try for ever what is not allowed
	if err != nil {
		return err
	}
	if len(first) == 0 {
		m.say("%s; those that come are followed", r.nothing())
	}
	ctx, stop := context.WithCancel(klog.NewContext(ctx, logr.Discard()))
	var watching sync.WaitGroup
	defer func() { stop(); watching.Wait() }()
	informer := cache.NewSharedInformer(cache.NewFilteredListWatchFromClient(r.pods.CoreV1().RESTClient(), "pods", r.namespace,
		func(o *metav1.ListOptions) {
			selected := r.selected()
			o.LabelSelector, o.FieldSelector = selected.LabelSelector, selected.FieldSelector
		}), &corev1.Pod{}, 0)
	changed := make(chan struct{}, 1)
	note := func() {
		select {
		case changed <- struct{}{}:
		default: // there is a note already
		}
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { note() }, UpdateFunc: func(any, any) { note() }, DeleteFunc: func(any) { note() },
	}); err != nil {
		return err
	}
	if err := informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		m.say("cannot watch the pods of %s: %v; trying again", r.title(), err)
	}); err != nil {
		return err
	}
	watching.Go(func() { informer.RunWithContext(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil
	}
	return newFollower(m).run(ctx, changed, func() ([]container, error) { return r.cached(ctx, informer.GetStore()) })
}

// cached are the containers of the pods in a store. A pod of a workload that is not known is
// of a component that is new.
func (r *reader) cached(ctx context.Context, store cache.Store) ([]container, error) {
	var pods []*corev1.Pod
	unknown := false
	for _, o := range store.List() {
		if pod, ok := o.(*corev1.Pod); ok {
			if r.app == nil {
				return containersOf(pod, "", r.options.Container), nil
			}
			_, known := r.workloads[application.WorkloadOf(pod)]
			unknown = unknown || !known && !r.foreign[application.WorkloadOf(pod)]
			pods = append(pods, pod)
		}
	}
	if unknown {
		if err := r.learn(ctx); err != nil {
			return nil, err
		}
		for _, pod := range pods { // not asked about again
			if _, known := r.workloads[application.WorkloadOf(pod)]; !known {
				r.foreign[application.WorkloadOf(pod)] = true
			}
		}
	}
	return r.containers(pods), nil
}

var _ opener = &reader{}

func (r *reader) open(ctx context.Context, pod *corev1.Pod, o *corev1.PodLogOptions) (io.ReadCloser, error) {
	return r.pods.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, o).Stream(ctx)
}

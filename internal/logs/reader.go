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
	"github.com/holdfast-dev/holdfast/internal/appkind"
	"github.com/holdfast-dev/holdfast/internal/kubeclient"
)

// reader finds the containers of an application, or of one pod.
type reader struct {
	client.Reader
	pods      kubernetes.Interface
	namespace string
	// app is nil for the log of a single pod.
	app     appkind.Application
	pod     string
	options Options
	// workloads are the components by workload.
	workloads map[kubeclient.WorkloadKey]kubeclient.ComponentRef
	// otherWorkloads are workloads of other applications of the same name.
	otherWorkloads map[kubeclient.WorkloadKey]bool
}

// title names the application or pod within a sentence.
func (r *reader) title() string {
	if r.app == nil {
		return fmt.Sprintf("Pod %s/%s", r.namespace, r.pod)
	}
	return appkind.Title(r.app)
}

func (r *reader) run(ctx context.Context, out Sink) error {
	m := &mux{options: r.options, opener: r, out: out}
	if r.options.Follow {
		return r.followAll(ctx, m)
	}
	containers, err := r.currentContainers(ctx)
	if err != nil {
		return err
	}
	containers, err = r.selectByName(containers)
	if err != nil {
		return err
	}
	if len(containers) == 0 {
		m.notify("%s", r.noContainersMessage())
		return nil
	}
	return m.printOnce(ctx, containers)
}

// selectByName returns the containers with the name of the options, and rejects an unknown name.
func (r *reader) selectByName(containers []container) ([]container, error) {
	if r.options.Container == "" || len(containers) == 0 {
		return containers, nil
	}
	var names []string
	var selected []container
	for _, c := range containers {
		names = append(names, c.name)
		if c.name == r.options.Container {
			selected = append(selected, c)
		}
	}
	if len(selected) > 0 {
		return selected, nil
	}
	slices.Sort(names)
	title := r.title()
	if r.options.Component != "" {
		title = fmt.Sprintf("Component %q of %s", r.options.Component, title)
	}
	return nil, appkind.UserErrorf("%s has no container %q; there is %s", title, r.options.Container, strings.Join(slices.Compact(names), ", "))
}

// loadWorkloads reads the workloads of the application, and rejects an unknown component.
func (r *reader) loadWorkloads(ctx context.Context) (err error) {
	r.workloads, err = kubeclient.ComponentsByWorkload(ctx, r, client.InNamespace(r.namespace), client.MatchingLabels{appkind.Of(r.app).Keys.OwnerUID: string(r.app.GetUID())})
	if err != nil || r.options.Component == "" {
		return err
	}
	var names []string
	for _, c := range appkind.Components(r.app) {
		names = append(names, c.Name)
	}
	for _, place := range r.workloads { // a removed component can still have pods
		names = append(names, place.Component)
	}
	if slices.Contains(names, r.options.Component) {
		return nil
	}
	slices.Sort(names)
	return appkind.UserErrorf("%s has no component %q; it has %s", appkind.Title(r.app), r.options.Component, strings.Join(slices.Compact(names), ", "))
}

// listOptions selects the pods. Pods of another application of the same name match too, and are filtered
// by their workload.
func (r *reader) listOptions() metav1.ListOptions {
	if r.app == nil {
		return metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", r.pod).String()}
	}
	return metav1.ListOptions{LabelSelector: r.podLabels().String()}
}

func (r *reader) podLabels() labels.Set {
	return labels.Set{appsapi.LabelManagedBy: appsapi.ManagedBy, appsapi.LabelInstance: r.app.GetName()}
}

// currentContainers returns the current containers.
func (r *reader) currentContainers(ctx context.Context) ([]container, error) {
	if r.app == nil {
		pod := &corev1.Pod{}
		if err := r.Get(ctx, client.ObjectKey{Namespace: r.namespace, Name: r.pod}, pod); err != nil {
			return nil, fmt.Errorf("get %s: %w", r.title(), err)
		}
		return containersOf(pod, "", ""), nil
	}
	objects, err := kubeclient.ListAll(ctx, r, func() client.ObjectList { return &corev1.PodList{} },
		client.InNamespace(r.namespace), client.MatchingLabels(r.podLabels()))
	if err != nil {
		return nil, fmt.Errorf("list the pods of %s: %w", r.title(), err)
	}
	var pods []*corev1.Pod
	for _, o := range objects {
		if pod, ok := o.(*corev1.Pod); ok {
			pods = append(pods, pod)
		}
	}
	return r.selectContainers(pods, ""), nil
}

// selectContainers returns the containers with a name, or all, of the selected components, sorted by component.
func (r *reader) selectContainers(pods []*corev1.Pod, name string) []container {
	order := map[string]int{}
	for i, c := range appkind.Components(r.app) {
		order[c.Name] = i + 1
	}
	var out []container
	for _, pod := range pods {
		place, isMember := r.workloads[kubeclient.WorkloadKeyOf(pod)]
		if isMember && (r.options.Component == "" || place.Component == r.options.Component) {
			out = append(out, containersOf(pod, place.Component, name)...)
		}
	}
	slices.SortStableFunc(out, func(a, b container) int {
		return cmp.Or(cmp.Compare(order[a.component], order[b.component]), strings.Compare(a.pod.Name, b.pod.Name))
	})
	return out
}

// noContainersMessage explains that no container matches.
func (r *reader) noContainersMessage() string {
	if r.app == nil {
		return r.title() + " has no containers"
	}
	problem := "has no pods"
	if r.options.Component != "" {
		problem += " of component " + r.options.Component
	}
	return fmt.Sprintf("%s %s; for details: kubectl describe %s %s -n %s", appkind.Title(r.app), problem,
		strings.ToLower(appkind.Of(r.app).Kind), r.app.GetName(), r.app.GetNamespace())
}

// followAll follows current and new pods. An informer is sufficient, because only the current state of
// a pod matters, not its history.
func (r *reader) followAll(ctx context.Context, m *mux) error {
	first, err := r.currentContainers(ctx) // an informer would retry forbidden requests forever
	if err != nil {
		return err
	}
	if len(first) == 0 {
		m.notify("%s; new pods are followed", r.noContainersMessage())
	}
	ctx, stop := context.WithCancel(klog.NewContext(ctx, logr.Discard()))
	var watching sync.WaitGroup
	defer func() { stop(); watching.Wait() }()
	informer := cache.NewSharedInformer(cache.NewFilteredListWatchFromClient(r.pods.CoreV1().RESTClient(), "pods", r.namespace,
		func(o *metav1.ListOptions) {
			options := r.listOptions()
			o.LabelSelector, o.FieldSelector = options.LabelSelector, options.FieldSelector
		}), &corev1.Pod{}, 0)
	changed := make(chan struct{}, 1)
	signal := func() {
		select {
		case changed <- struct{}{}:
		default: // a change is already pending
		}
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { signal() }, UpdateFunc: func(any, any) { signal() }, DeleteFunc: func(any) { signal() },
	}); err != nil {
		return err
	}
	if err := informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		m.notify("cannot watch the pods of %s: %v; retrying", r.title(), err)
	}); err != nil {
		return err
	}
	watching.Go(func() { informer.RunWithContext(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil
	}
	return newFollower(m).run(ctx, changed, func() ([]container, error) { return r.cachedContainers(ctx, informer.GetStore()) })
}

// cachedContainers returns the containers of the pods in a store. A pod with an unknown workload belongs
// to a new component, so the workloads are reloaded.
func (r *reader) cachedContainers(ctx context.Context, store cache.Store) ([]container, error) {
	var pods []*corev1.Pod
	unknown := false
	for _, o := range store.List() {
		if pod, ok := o.(*corev1.Pod); ok {
			if r.app == nil {
				return containersOf(pod, "", r.options.Container), nil
			}
			_, known := r.workloads[kubeclient.WorkloadKeyOf(pod)]
			unknown = unknown || !known && !r.otherWorkloads[kubeclient.WorkloadKeyOf(pod)]
			pods = append(pods, pod)
		}
	}
	if unknown {
		if err := r.loadWorkloads(ctx); err != nil {
			return nil, err
		}
		for _, pod := range pods { // do not reload for them again
			if _, known := r.workloads[kubeclient.WorkloadKeyOf(pod)]; !known {
				r.otherWorkloads[kubeclient.WorkloadKeyOf(pod)] = true
			}
		}
	}
	return r.selectContainers(pods, r.options.Container), nil
}

var _ logOpener = &reader{}

func (r *reader) open(ctx context.Context, pod *corev1.Pod, o *corev1.PodLogOptions) (io.ReadCloser, error) {
	return r.pods.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, o).Stream(ctx)
}

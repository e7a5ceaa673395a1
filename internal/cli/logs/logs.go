package logs

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/cli"
)

// reader finds the containers of an application.
type reader struct {
	client.Reader
	pods *kubernetes.Clientset
	app  cli.Application
	options
	// workloads are the components of the pods that were seen so far.
	workloads map[cli.WorkloadKey]cli.Place
	// foreign are workloads of another application of the same name.
	foreign map[cli.WorkloadKey]bool
}

func run(ctx context.Context, env *cli.Env, o options, args []string, out, errOut io.Writer) error {
	r, err := newReader(ctx, env, o, args)
	if err != nil {
		return err
	}
	m := &mux{options: o, logs: r, out: env.Terminal(out), errOut: errOut}
	if o.follow {
		return r.followAll(ctx, m)
	}
	done := cli.Progress(errOut, "Looking for the pods of "+cli.Title(r.app))
	containers, err := r.now(ctx)
	done()
	if err != nil {
		return err
	}
	if len(containers) == 0 {
		m.say("%s", r.nothing())
		return nil
	}
	return m.once(ctx, containers)
}

func newReader(ctx context.Context, env *cli.Env, o options, args []string) (*reader, error) {
	c, app, err := env.Application(ctx, args)
	if err != nil {
		return nil, err
	}
	config, err := env.Config()
	if err != nil {
		return nil, err
	}
	config.Timeout = 0 // --request-timeout is for answers; a log may go on
	pods, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	r := &reader{Reader: c, pods: pods, app: app, options: o, foreign: map[cli.WorkloadKey]bool{}}
	return r, r.learn(ctx)
}

// learn reads which workloads the application has, and refuses a component that it has not.
func (r *reader) learn(ctx context.Context) (err error) {
	r.workloads, err = cli.Workloads(ctx, r, client.InNamespace(r.app.GetNamespace()), client.MatchingLabels{appsapi.LabelOwnerUID: string(r.app.GetUID())})
	if err != nil || r.component == "" {
		return err
	}
	var names []string
	for _, c := range cli.Components(r.app) {
		names = append(names, c.Name)
	}
	for _, place := range r.workloads { // one that is on its way out still has pods
		names = append(names, place.Component)
	}
	if slices.Contains(names, r.component) {
		return nil
	}
	slices.Sort(names)
	return fmt.Errorf("%s has no component %s; it has %s", cli.Title(r.app), r.component, strings.Join(slices.Compact(names), ", "))
}

// selector finds the pods; which of them are of another application of the same name, their
// workload says.
func (r *reader) selector() labels.Set {
	return labels.Set{appsapi.LabelManagedBy: appsapi.ManagedBy, appsapi.LabelInstance: r.app.GetName()}
}

// now are the containers that there are.
func (r *reader) now(ctx context.Context) ([]container, error) {
	objects, err := cli.ListAll(ctx, r, func() client.ObjectList { return &corev1.PodList{} },
		client.InNamespace(r.app.GetNamespace()), client.MatchingLabels(r.selector()))
	if err != nil {
		return nil, fmt.Errorf("list the pods of %s: %w", cli.Title(r.app), cli.Explained(err))
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
	for i, c := range cli.Components(r.app) {
		order[c.Name] = i + 1
	}
	var out []container
	for _, pod := range pods {
		place, ours := r.workloads[cli.WorkloadOf(pod)]
		if ours && (r.component == "" || place.Component == r.component) {
			out = append(out, containersOf(pod, place.Component, r.container)...)
		}
	}
	slices.SortStableFunc(out, func(a, b container) int {
		return cmp.Or(cmp.Compare(order[a.component], order[b.component]), strings.Compare(a.pod.Name, b.pod.Name))
	})
	return out
}

// nothing says that there are no containers.
func (r *reader) nothing() string {
	what := "has no pods"
	if r.container != "" {
		what = "has no pods with a container " + r.container
	}
	if r.component != "" {
		what += " of component " + r.component
	}
	return fmt.Sprintf("%s %s; kubectl describe %s %s -n %s says why", cli.Title(r.app), what, strings.ToLower(cli.KindOf(r.app)), r.app.GetName(), r.app.GetNamespace())
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
	defer stop()
	informer := cache.NewSharedInformer(cache.NewFilteredListWatchFromClient(r.pods.CoreV1().RESTClient(), "pods", r.app.GetNamespace(),
		func(o *metav1.ListOptions) { o.LabelSelector = r.selector().String() }), &corev1.Pod{}, 0)
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
		m.say("cannot watch the pods of %s: %v; trying again", cli.Title(r.app), err)
	}); err != nil {
		return err
	}
	go informer.RunWithContext(ctx)
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
			_, known := r.workloads[cli.WorkloadOf(pod)]
			unknown = unknown || !known && !r.foreign[cli.WorkloadOf(pod)]
			pods = append(pods, pod)
		}
	}
	if unknown {
		if err := r.learn(ctx); err != nil {
			return nil, err
		}
		for _, pod := range pods { // not asked about again
			if _, known := r.workloads[cli.WorkloadOf(pod)]; !known {
				r.foreign[cli.WorkloadOf(pod)] = true
			}
		}
	}
	return r.containers(pods), nil
}

var _ opener = &reader{}

func (r *reader) open(ctx context.Context, pod *corev1.Pod, o *corev1.PodLogOptions) (io.ReadCloser, error) {
	return r.pods.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, o).Stream(ctx)
}

package bench

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// bareClient sends the writes directly, without cache, queue or comparison.
type bareClient struct {
	kube   kubernetes.Interface
	custom rest.Interface
	bodies *requestBodies
	// createOnly reduces the writes to the minimum: the children and the first status, without events.
	createOnly bool
}

// newBareClient returns a client with the operator's permissions.
func newBareClient(s *harness, bodies *requestBodies) *bareClient {
	return newBareClientFor(s, s.operatorConfig(), bodies)
}

// newBareClientFor uses one HTTP/2 connection and protobuf, like the operator.
func newBareClientFor(s *harness, cfg *rest.Config, bodies *requestBodies) *bareClient {
	httpClient, err := rest.HTTPClientFor(cfg)
	s.must(err)
	b := &bareClient{bodies: bodies, custom: customClient(s, cfg, httpClient)}
	protobufConfig := rest.CopyConfig(cfg)
	protobufConfig.ContentType = runtime.ContentTypeProtobuf
	protobufConfig.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	b.kube, err = kubernetes.NewForConfigAndClient(protobufConfig, httpClient)
	s.must(err)
	return b
}

func customClient(s *harness, cfg *rest.Config, httpClient *http.Client) rest.Interface {
	cfg = rest.CopyConfig(cfg)
	gv := appsapi.GroupVersion
	cfg.GroupVersion, cfg.APIPath = &gv, "/apis"
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(s.Scheme()).WithoutConversion()
	c, err := rest.RESTClientForConfigAndClient(cfg, httpClient)
	s.must(err)
	return c
}

// run makes all writes for the AppServices of the channel and returns when all are answered.
func (b *bareClient) run(s *harness, todo <-chan *appsapi.AppService) {
	var group sync.WaitGroup
	events := b.startEventWriters(s)
	for range workers {
		group.Go(func() {
			for app := range todo {
				var err error
				if body := b.bodies.forApp(app); b.createOnly {
					err = b.create(s.Context(), body)
				} else {
					err = b.applyAll(s.Context(), body, events)
				}
				if err != nil {
					s.Error(err)
				}
			}
		})
	}
	group.Wait()
	close(events)
}

// startEventWriters writes a few events at a time, like the operator. They are not part of the measured time; their
// number is verified at the end.
func (b *bareClient) startEventWriters(s *harness) chan<- *eventsv1.Event {
	events := make(chan *eventsv1.Event, 100_000)
	var group sync.WaitGroup
	for range eventWorkers {
		group.Go(func() {
			for e := range events {
				// Missing events are detected when they are counted.
				_, _ = b.kube.EventsV1().Events(e.Namespace).Create(s.Context(), e, metav1.CreateOptions{})
			}
		})
	}
	s.Cleanup(group.Wait)
	return events
}

// applyAll writes in the order of the operator: the children concurrently, then the status. Events are asynchronous.
func (b *bareClient) applyAll(ctx context.Context, body *requestBodies, events chan<- *eventsv1.Event) error {
	if err := b.applyChildren(ctx, body); err != nil {
		return err
	}
	for i := range body.status {
		if err := b.reportStatus(ctx, body, i, events); err != nil {
			return err
		}
	}
	return nil
}

// operatorApplyOptions are the apply options of the operator.
var operatorApplyOptions = metav1.PatchOptions{FieldManager: appsapi.DefaultKeys.FieldManager, Force: new(true)}

// applyChildren writes Deployment and Service concurrently.
func (b *bareClient) applyChildren(ctx context.Context, body *requestBodies) error {
	ns, name := body.app.Namespace, body.app.Name
	var errs [2]error
	var group sync.WaitGroup
	group.Go(func() {
		_, errs[0] = b.kube.AppsV1().Deployments(ns).Patch(ctx, name, types.ApplyPatchType, []byte(body.deployment), operatorApplyOptions)
	})
	group.Go(func() {
		_, errs[1] = b.kube.CoreV1().Services(ns).Patch(ctx, name, types.ApplyPatchType, []byte(body.service), operatorApplyOptions)
	})
	group.Wait()
	return errors.Join(errs[:]...)
}

// reportStatus writes the first or the last status, and its event.
func (b *bareClient) reportStatus(ctx context.Context, body *requestBodies, i int, events chan<- *eventsv1.Event) error {
	if err := b.patchStatus(ctx, body.app, body.status[i]); err != nil {
		return err
	}
	var event eventsv1.Event
	if err := json.Unmarshal([]byte(body.events[i]), &event); err != nil {
		return err
	}
	events <- &event
	return nil
}

// create creates the children and writes the status once.
func (b *bareClient) create(ctx context.Context, body *requestBodies) error {
	var deployment appsv1.Deployment
	var service corev1.Service
	if err := errors.Join(json.Unmarshal([]byte(body.deployment), &deployment), json.Unmarshal([]byte(body.service), &service)); err != nil {
		return err
	}
	deployment.ResourceVersion, service.ResourceVersion = "", "" // an apply uses them to require that the object does not exist
	deployment.UID, service.UID = "", ""
	ns := body.app.Namespace
	var errs [2]error
	var group sync.WaitGroup
	group.Go(func() {
		_, errs[0] = b.kube.AppsV1().Deployments(ns).Create(ctx, &deployment, metav1.CreateOptions{})
	})
	group.Go(func() { _, errs[1] = b.kube.CoreV1().Services(ns).Create(ctx, &service, metav1.CreateOptions{}) })
	group.Wait()
	return errors.Join(errs[0], errs[1], b.patchStatus(ctx, body.app, body.status[0]))
}

func (b *bareClient) patchStatus(ctx context.Context, app *appsapi.AppService, patch string) error {
	return b.custom.Patch(types.JSONPatchType).Namespace(app.Namespace).Resource("appservices").Name(app.Name).SubResource("status").
		Param("fieldManager", appsapi.DefaultKeys.FieldManagerStatus).Body([]byte(patch)).Do(ctx).Into(&appsapi.AppService{})
}

// verifyDeploymentsObserved checks that the controller-manager has observed n Deployments.
func (s *harness) verifyDeploymentsObserved(n int) {
	s.Helper()
	var list appsv1.DeploymentList
	s.must(s.List(s.Context(), &list))
	observed := 0
	for i := range list.Items {
		if list.Items[i].Status.ObservedGeneration >= list.Items[i].Generation {
			observed++
		}
	}
	if observed < n {
		s.Errorf("the controller-manager observed %d Deployments, want %d", observed, n)
	}
}

// runBare creates AppServices and writes their children and status.
func (s *harness) runBare(b *bareClient, from, to int) {
	todo := make(chan *appsapi.AppService, to-from)
	var group sync.WaitGroup
	group.Go(func() { b.run(s, todo) })
	s.createApps(from, to, func(app *appsapi.AppService) { todo <- app })
	close(todo)
	group.Wait()
}

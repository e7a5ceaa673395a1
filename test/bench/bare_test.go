package bench

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
)

// templates are the bodies of the writes that the operator made for one AppService.
type templates struct {
	app                 *appsapi.AppService
	deployment, service string
	status, events      [2]string // the first and the last
}

// bodiesFor are the same for another AppService.
func (t *templates) bodiesFor(app *appsapi.AppService) *templates {
	same := strings.NewReplacer(t.app.Namespace, app.Namespace, t.app.Name, app.Name, string(t.app.UID), string(app.UID))
	return &templates{
		app: app, deployment: same.Replace(t.deployment), service: same.Replace(t.service),
		status: [2]string{same.Replace(t.status[0]), same.Replace(t.status[1])},
		events: [2]string{same.Replace(t.events[0]), same.Replace(t.events[1])},
	}
}

// bare writes with nothing in between: no cache, no queue, no comparing.
type bare struct {
	kube   kubernetes.Interface
	custom rest.Interface
	bodies *templates
}

// newBare shares one HTTP/2 connection, like the operator, and asks for protobuf.
func newBare(s *stage, bodies *templates) *bare {
	cfg, err := s.plane.ConfigFor(operator.User)
	s.must(err)
	one, err := rest.HTTPClientFor(cfg)
	s.must(err)
	b := &bare{bodies: bodies, custom: customClient(s, cfg, one)}
	binary := rest.CopyConfig(cfg)
	binary.ContentType = runtime.ContentTypeProtobuf
	binary.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	b.kube, err = kubernetes.NewForConfigAndClient(binary, one)
	s.must(err)
	return b
}

func customClient(s *stage, cfg *rest.Config, one *http.Client) rest.Interface {
	cfg = rest.CopyConfig(cfg)
	gv := appsapi.GroupVersion
	cfg.GroupVersion, cfg.APIPath = &gv, "/apis"
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(s.Scheme()).WithoutConversion()
	c, err := rest.RESTClientForConfigAndClient(cfg, one)
	s.must(err)
	return c
}

// run makes all writes of the AppServices that come, and returns when all are answered.
func (b *bare) run(s *stage, todo <-chan *appsapi.AppService) {
	var group, events sync.WaitGroup
	for range workers {
		group.Go(func() {
			for app := range todo {
				if err := b.write(s.Context(), b.bodies.bodiesFor(app), &events); err != nil {
					s.Error(err)
				}
			}
		})
	}
	group.Wait()
	events.Wait()
}

// write does it in the order of the operator: children at once, then what is said about
// them; nobody waits for events.
func (b *bare) write(ctx context.Context, body *templates, events *sync.WaitGroup) error {
	ns, name := body.app.Namespace, body.app.Name
	apply := metav1.PatchOptions{FieldManager: appsapi.FieldManager, Force: new(true)}
	var errs [2]error
	var group sync.WaitGroup
	group.Go(func() {
		_, errs[0] = b.kube.AppsV1().Deployments(ns).Patch(ctx, name, types.ApplyPatchType, []byte(body.deployment), apply)
	})
	group.Go(func() {
		_, errs[1] = b.kube.CoreV1().Services(ns).Patch(ctx, name, types.ApplyPatchType, []byte(body.service), apply)
	})
	group.Wait()
	for i := range errs {
		if errs[i] != nil {
			return errs[i]
		}
	}
	for i := range body.status {
		err := b.custom.Patch(types.JSONPatchType).Namespace(ns).Resource("appservices").Name(name).SubResource("status").
			Param("fieldManager", appsapi.FieldManagerStatus).Body([]byte(body.status[i])).Do(ctx).Into(&appsapi.AppService{})
		if err != nil {
			return err
		}
		var event eventsv1.Event
		if err := json.Unmarshal([]byte(body.events[i]), &event); err != nil {
			return err
		}
		events.Go(func() {
			// A lost one shows when all are counted.
			_, _ = b.kube.EventsV1().Events(ns).Create(ctx, &event, metav1.CreateOptions{})
		})
	}
	return nil
}

// measureBare is the limit: the same writes, nothing else. The operator is done when the
// Deployments are, so the time until then is noted too.
func measureBare(t *testing.T, bodies *templates) sample {
	s := newStage(t, false)
	b := newBare(s, bodies)
	time.Sleep(calm)
	before := s.usage()
	start := time.Now()
	s.runBare(b, 0, *apps)
	out := sample{WallSeconds: time.Since(start).Seconds()}
	for !s.deploymentsSeen() {
		time.Sleep(calm / 10)
	}
	out.AllSeconds = time.Since(start).Seconds()
	out.CPUSeconds = s.usage().since(before)
	s.complete(*apps)
	return out
}

// deploymentsSeen says whether the controller-manager has done its part.
func (s *stage) deploymentsSeen() bool {
	s.Helper()
	var list appsv1.DeploymentList
	s.must(s.List(s.Context(), &list, client.HasLabels{"apps.holdfast.dev/owner-uid"}))
	for i := range list.Items {
		if list.Items[i].Status.ObservedGeneration < list.Items[i].Generation {
			return false
		}
	}
	return true
}

// runBare creates AppServices and writes what belongs to them.
func (s *stage) runBare(b *bare, from, to int) {
	todo := make(chan *appsapi.AppService, to-from)
	var group sync.WaitGroup
	group.Go(func() { b.run(s, todo) })
	s.createApps(from, to, func(app *appsapi.AppService) { todo <- app })
	close(todo)
	group.Wait()
}

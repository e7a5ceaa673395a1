package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/controlplane"
	"github.com/holdfast-dev/holdfast/test/bench/results"
)

type writeMethod struct {
	name  string
	write func(context.Context, *bareClient, *requestBodies) error
}

// writeMethods are pairs of methods for the same write: that of Holdfast and an alternative.
var writeMethods = [][]writeMethod{
	{
		{"Deployment, apply", func(ctx context.Context, b *bareClient, t *requestBodies) error {
			_, err := b.kube.AppsV1().Deployments(t.app.Namespace).Patch(ctx, t.app.Name, types.ApplyPatchType, []byte(t.deployment), operatorApplyOptions)
			return err
		}},
		{"Deployment, create", func(ctx context.Context, b *bareClient, t *requestBodies) error {
			var d appsv1.Deployment
			if err := json.Unmarshal([]byte(t.deployment), &d); err != nil {
				return err
			}
			d.ResourceVersion, d.UID = "", ""
			_, err := b.kube.AppsV1().Deployments(t.app.Namespace).Create(ctx, &d, metav1.CreateOptions{})
			return err
		}},
	},
	{
		{"Service, apply", func(ctx context.Context, b *bareClient, t *requestBodies) error {
			_, err := b.kube.CoreV1().Services(t.app.Namespace).Patch(ctx, t.app.Name, types.ApplyPatchType, []byte(t.service), operatorApplyOptions)
			return err
		}},
		{"Service, create", func(ctx context.Context, b *bareClient, t *requestBodies) error {
			var s corev1.Service
			if err := json.Unmarshal([]byte(t.service), &s); err != nil {
				return err
			}
			s.ResourceVersion, s.UID = "", ""
			_, err := b.kube.CoreV1().Services(t.app.Namespace).Create(ctx, &s, metav1.CreateOptions{})
			return err
		}},
	},
	{
		{"first status, JSON patch", func(ctx context.Context, b *bareClient, t *requestBodies) error {
			return b.patchStatus(ctx, t.app, t.status[0])
		}},
		{"first status, update", func(ctx context.Context, b *bareClient, t *requestBodies) error { return b.updateStatus(ctx, t, 0) }},
	},
	{
		{"second status, JSON patch", func(ctx context.Context, b *bareClient, t *requestBodies) error {
			return b.patchStatus(ctx, t.app, t.status[1])
		}},
		{"second status, update", func(ctx context.Context, b *bareClient, t *requestBodies) error { return b.updateStatus(ctx, t, 1) }},
	},
	{{"event", func(ctx context.Context, b *bareClient, t *requestBodies) error {
		var event eventsv1.Event
		if err := json.Unmarshal([]byte(t.events[0]), &event); err != nil {
			return err
		}
		_, err := b.kube.EventsV1().Events(event.Namespace).Create(ctx, &event, metav1.CreateOptions{})
		return err
	}}},
}

// updateStatus updates the status with a full update of the object.
func (b *bareClient) updateStatus(ctx context.Context, t *requestBodies, i int) error {
	var patch []struct {
		Path  string          `json:"path"`
		Value json.RawMessage `json:"value"`
	}
	if err := json.Unmarshal([]byte(t.status[i]), &patch); err != nil {
		return err
	}
	for _, p := range patch {
		if p.Path == "/status" {
			t.app.Status = appsapi.AppServiceStatus{}
			if err := json.Unmarshal(p.Value, &t.app.Status); err != nil {
				return err
			}
			return b.custom.Put().Namespace(t.app.Namespace).Resource("appservices").Name(t.app.Name).SubResource("status").
				Param("fieldManager", appsapi.DefaultKeys.FieldManagerStatus).Body(t.app).Do(ctx).Into(t.app)
		}
	}
	return errors.New("status patch has an unexpected format")
}

// measureWriteCost explains P14: the cost of each write for the API server without any watcher's reaction.
func measureWriteCost(t *testing.T, size scenarioSize) []results.Figure {
	n := size.burst
	bodies := recordOperatorBodies(t)
	s := newHarness(t, controlplane.Options{NoControllerManager: true})
	b := newBareClientFor(s, s.plane.Config, bodies) // the operator has no permission for the alternatives
	apps := make([]*appsapi.AppService, 2*n)
	createCPU := s.measureAPIServerCPU(0, len(apps), func(i int) error {
		apps[i] = newApp(i)
		return s.Create(s.Context(), apps[i])
	})
	out := []results.Figure{{Row: "P14", Name: "CPU of the API server, AppService, create", Value: 1000 * createCPU / float64(len(apps)-warmupWrites), Unit: "ms"}}
	for _, pair := range writeMethods {
		cpuByMethod := make([]float64, len(pair))
		for _, batch := range writeBatches(len(pair), n) {
			p := pair[batch.method]
			cpuByMethod[batch.method] += s.measureAPIServerCPU(batch.from, batch.to, func(i int) error {
				if err := p.write(s.Context(), b, bodies.forApp(apps[batch.method*n+i])); err != nil {
					return fmt.Errorf("%s: %w", p.name, err)
				}
				return nil
			})
		}
		for method, p := range pair {
			out = append(out, results.Figure{Row: "P14", Name: "CPU of the API server, " + p.name, Value: 1000 * cpuByMethod[method] / float64(n-warmupWrites), Unit: "ms"})
		}
	}
	return out
}

// writeBatch is a range of applications for one method of a pair.
type writeBatch struct{ method, from, to int }

// writeBatches runs both methods early and late: later writes find more objects, and Services cost more then.
func writeBatches(methods, n int) []writeBatch {
	half := warmupWrites + (n-warmupWrites)/2
	var out []writeBatch
	for method := range methods {
		out = append(out, writeBatch{method, 0, half})
	}
	for method := methods - 1; method >= 0; method-- {
		out = append(out, writeBatch{method, half, n})
	}
	return out
}

// measureAPIServerCPU returns the CPU time of the API server for writes. The first writes of a kind are excluded,
// because they build schemas.
func (s *harness) measureAPIServerCPU(from, to int, write func(i int) error) float64 {
	s.Helper()
	if from == 0 {
		s.forEachParallel(warmupWrites, write)
		time.Sleep(settleTime)
		from = warmupWrites
	}
	before := cpuSeconds(s, s.plane.APIServer.Pid())
	s.forEachParallel(to-from, func(i int) error { return write(from + i) })
	time.Sleep(settleTime) // until watch events are delivered
	return cpuSeconds(s, s.plane.APIServer.Pid()) - before
}

// warmupWrites is the number of excluded writes of a kind.
const warmupWrites = 20

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

// price is a way to write something.
type price struct {
	name string
	pay  func(context.Context, *bare, *templates) error
}

// prices are pairs: how Holdfast writes something, and how others do, to applications that have nothing else in common.
var prices = [][]price{
	{
		{"Deployment, apply", func(ctx context.Context, b *bare, t *templates) error {
			_, err := b.kube.AppsV1().Deployments(t.app.Namespace).Patch(ctx, t.app.Name, types.ApplyPatchType, []byte(t.deployment), asUs)
			return err
		}},
		{"Deployment, create", func(ctx context.Context, b *bare, t *templates) error {
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
		{"Service, apply", func(ctx context.Context, b *bare, t *templates) error {
			_, err := b.kube.CoreV1().Services(t.app.Namespace).Patch(ctx, t.app.Name, types.ApplyPatchType, []byte(t.service), asUs)
			return err
		}},
		{"Service, create", func(ctx context.Context, b *bare, t *templates) error {
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
		{"first status, JSON patch", func(ctx context.Context, b *bare, t *templates) error { return b.status(ctx, t.app, t.status[0]) }},
		{"first status, update", func(ctx context.Context, b *bare, t *templates) error { return b.putStatus(ctx, t, 0) }},
	},
	{
		{"second status, JSON patch", func(ctx context.Context, b *bare, t *templates) error { return b.status(ctx, t.app, t.status[1]) }},
		{"second status, update", func(ctx context.Context, b *bare, t *templates) error { return b.putStatus(ctx, t, 1) }},
	},
	{{"event", func(ctx context.Context, b *bare, t *templates) error {
		var event eventsv1.Event
		if err := json.Unmarshal([]byte(t.events[0]), &event); err != nil {
			return err
		}
		_, err := b.kube.EventsV1().Events(event.Namespace).Create(ctx, &event, metav1.CreateOptions{})
		return err
	}}},
}

// putStatus replaces the whole object for its status.
func (b *bare) putStatus(ctx context.Context, t *templates, i int) error {
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
				Param("fieldManager", appsapi.FieldManagerStatus).Body(t.app).Do(ctx).Into(t.app)
		}
	}
	return errors.New("a status that is written in parts")
}

// pricing is the part of P14 that explains the rest: what each write costs the API server when
// nobody reacts to it.
func pricing(t *testing.T, size liveSize) []results.Figure {
	n := size.burst
	bodies := operatorBodies(t)
	s := newStage(t, controlplane.Options{NoControllerManager: true})
	b := newBareAs(s, s.plane.Config, bodies) // the operator may not do what others do
	apps := make([]*appsapi.AppService, 2*n)
	created := s.charge(0, len(apps), func(i int) error {
		apps[i] = newApp(i)
		return s.Create(s.Context(), apps[i])
	})
	out := []results.Figure{{Row: "P14", Name: "CPU of the API server, AppService, create", Got: 1000 * created / float64(len(apps)-warm), Unit: "ms"}}
	for _, pair := range prices {
		used := make([]float64, len(pair))
		for _, part := range stretches(len(pair), n) {
			p := pair[part.who]
			used[part.who] += s.charge(part.from, part.to, func(i int) error {
				if err := p.pay(s.Context(), b, bodies.bodiesFor(apps[part.who*n+i])); err != nil {
					return fmt.Errorf("%s: %w", p.name, err)
				}
				return nil
			})
		}
		for who, p := range pair {
			out = append(out, results.Figure{Row: "P14", Name: "CPU of the API server, " + p.name, Got: 1000 * used[who] / float64(n-warm), Unit: "ms"})
		}
	}
	return out
}

// stretch is when one of a pair writes to some of its applications.
type stretch struct{ who, from, to int }

// stretches let both begin and both end: what is written later finds more objects, and a Service costs more then.
func stretches(of, n int) []stretch {
	half := warm + (n-warm)/2
	var out []stretch
	for who := range of {
		out = append(out, stretch{who, 0, half})
	}
	for who := of - 1; who >= 0; who-- {
		out = append(out, stretch{who, half, n})
	}
	return out
}

// charge is how long the API server computes for writes, without the first ones of a kind: who is the first has to build
// schemas.
func (s *stage) charge(from, to int, pay func(i int) error) float64 {
	s.Helper()
	if from == 0 {
		s.each(warm, pay)
		time.Sleep(calm)
		from = warm
	}
	before := cpu(s, s.plane.APIServer.Pid())
	s.each(to-from, func(i int) error { return pay(from + i) })
	time.Sleep(calm) // watches are served
	return cpu(s, s.plane.APIServer.Pid()) - before
}

// warm is how many writes of a kind are not counted.
const warm = 20

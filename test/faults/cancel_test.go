package faults

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
	"github.com/holdfast-dev/holdfast/test/faults/oracle"
	"github.com/holdfast-dev/holdfast/test/faults/proxy"
	"github.com/holdfast-dev/holdfast/test/faults/report"
)

// cancelling are pairs of changes that take each other back. Whoever sees none of them, or
// only the second, must end where he began.
var cancelling = map[string]struct {
	unseen []string // resources of which nothing is seen meanwhile
	do     func(*user, context.Context) error
	// other says that it does not end where it began, but so.
	other map[string]string
}{
	"scale there and back": {[]string{"appstacks.apps.holdfast.dev"}, func(u *user, ctx context.Context) error {
		return u.twice(ctx, "web", 1, 3)
	}, nil},
	"scale, and the Deployments are not seen": {[]string{"deployments.apps"}, func(u *user, ctx context.Context) error {
		return u.twice(ctx, "web", 1, 3)
	}, nil},
	"a setting there and back": {[]string{"configmaps"}, func(u *user, ctx context.Context) error {
		return u.flip(ctx, &corev1.ConfigMap{ObjectMeta: u.named("settings"), Data: map[string]string{"COLOR": "green"}},
			&corev1.ConfigMap{ObjectMeta: u.named("settings"), Data: map[string]string{"COLOR": "red"}})
	}, nil},
	"a password there and back": {[]string{"secrets"}, func(u *user, ctx context.Context) error {
		return u.flip(ctx, &corev1.Secret{ObjectMeta: u.named("password"), StringData: map[string]string{"PASSWORD": "shut"}},
			&corev1.Secret{ObjectMeta: u.named("password"), StringData: map[string]string{"PASSWORD": "open"}})
	}, nil},
	"a pod goes and comes": {[]string{"pods", "deployments.apps"}, func(u *user, ctx context.Context) error {
		return u.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(u.namespace), client.MatchingLabels{appsapi.LabelComponent: "api"})
	}, nil},
	"a Service goes": {[]string{"services"}, func(u *user, ctx context.Context) error {
		return u.Delete(ctx, &corev1.Service{ObjectMeta: u.named("shop-api")})
	}, nil},
	"a Service goes, and another has its name": {[]string{"services"}, func(u *user, ctx context.Context) error {
		if err := u.Delete(ctx, &corev1.Service{ObjectMeta: u.named("shop-api")}); err != nil {
			return err
		}
		return u.create(ctx, &corev1.Service{ObjectMeta: u.named("shop-api"), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 1}}}})
	}, map[string]string{"AppStack/shop": conflict, "Service/shop-api": "1"}},
	"an application goes, and another has its name": {[]string{"appservices.apps.holdfast.dev"}, func(u *user, ctx context.Context) error {
		before := &appsapi.AppService{ObjectMeta: u.named("solo")}
		if err := u.Get(ctx, client.ObjectKeyFromObject(before), before); err != nil {
			return err
		}
		again := &appsapi.AppService{ObjectMeta: u.named("solo"), Spec: before.Spec}
		if err := u.Delete(ctx, before); err != nil {
			return err
		}
		return u.create(ctx, again)
	}, nil},
}

// TestCancelling makes changes that take each other back while the operator sees nothing of
// one kind, and then has to find out from a list.
func TestCancelling(t *testing.T) {
	if !long() {
		t.Skip("plays a world per pair: make faults runs it; the sample of plans has unseen events")
	}
	t.Parallel()
	start, failed := time.Now(), 0
	g := newGround(t, operator.Build(t, true))
	for name, pair := range cancelling {
		if !t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			w := newWorld(t, g)
			for _, s := range scenario[:4] {
				if _, err := w.play(t.Context(), s, trouble{}); err != nil {
					t.Fatalf("%s: %v", s.name, err)
				}
			}
			want := w.facts()
			for what, is := range pair.other {
				want[what] = is
			}
			only := proxy.Only(pair.unseen...)
			settled := step{name: name, do: pair.do, want: map[string]string{"AppService/solo": ready, "AppStack/shop": want["AppStack/shop"]}}
			_, err := w.play(t.Context(), settled, trouble{
				begin: func() { w.proxy.Hold(only) },
				meanwhile: func(ctx context.Context) error {
					wait(ctx, blind)
					expired := w.proxy.Expire(only)
					w.proxy.Release()
					return w.sees(ctx, only, expired)
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, w.facts()); diff != "" {
				t.Errorf("it does not end where it began (-want +got):\n%s", diff)
			}
		}) {
			failed++
		}
	}
	report.Since(t, start, report.Row{Test: "6 cancelling pairs", Generated: len(cancelling), Run: len(cancelling), Failed: failed})
}

// facts are what a user cares for, without how it came about.
func (w *world) facts() map[string]string {
	facts := map[string]string{}
	state := w.seen.State()
	for _, resource := range watched {
		for _, o := range state.Live(resource) {
			name := o.GetKind() + "/" + o.GetName()
			switch o.GetKind() {
			case "AppService", "AppStack":
				facts[name] = conditionOf(state, w.namespace, o.GetKind(), o.GetName())
			case "Deployment":
				facts[name] = fmt.Sprint(oracle.Field(o, "spec", "replicas"), oracle.Field(o, "status", "readyReplicas"),
					oracle.Field(o, "spec", "template"))
			case "Service":
				ports, _ := oracle.Field(o, "spec", "ports").([]any)
				facts[name] = fmt.Sprint(ports[0].(map[string]any)["port"])
			}
		}
	}
	return facts
}

// twice sets the replicas of a component to one number and then to another.
func (u *user) twice(ctx context.Context, component string, replicas ...int32) error {
	for _, n := range replicas {
		err := u.edit(ctx, nil, func(components map[string]*appsapi.Component) { components[component].Service.Replicas = &n })
		if err != nil {
			return err
		}
		wait(ctx, time.Second) // whoever sees it acts on it
	}
	return nil
}

// flip updates one object after the other.
func (u *user) flip(ctx context.Context, objects ...client.Object) error {
	for _, o := range objects {
		if err := u.Update(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

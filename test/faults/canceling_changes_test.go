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

// cancelingChanges are pairs of changes that cancel each other. An operator that misses one or both must reach the
// original state.
var cancelingChanges = map[string]struct {
	unseen []string // resources whose events are missed
	do     func(*user, context.Context) error
	// other is the expected status if it differs from the original one.
	other map[string]string
}{
	"scale and revert, spec not observed": {[]string{"appstacks.apps.holdfast.dev"}, func(u *user, ctx context.Context) error {
		return u.scaleInTurn(ctx, "web", 1, 3)
	}, nil},
	"scale and revert, Deployments not observed": {[]string{"deployments.apps"}, func(u *user, ctx context.Context) error {
		return u.scaleInTurn(ctx, "web", 1, 3)
	}, nil},
	"change and revert a ConfigMap": {[]string{"configmaps"}, func(u *user, ctx context.Context) error {
		return u.updateInTurn(ctx, &corev1.ConfigMap{ObjectMeta: u.objectMeta("settings"), Data: map[string]string{"COLOR": "green"}},
			&corev1.ConfigMap{ObjectMeta: u.objectMeta("settings"), Data: map[string]string{"COLOR": "red"}})
	}, nil},
	"change and revert a Secret": {[]string{"secrets"}, func(u *user, ctx context.Context) error {
		return u.updateInTurn(ctx, &corev1.Secret{ObjectMeta: u.objectMeta("password"), StringData: map[string]string{"PASSWORD": "shut"}},
			&corev1.Secret{ObjectMeta: u.objectMeta("password"), StringData: map[string]string{"PASSWORD": "open"}})
	}, nil},
	"replace a pod": {[]string{"pods", "deployments.apps"}, func(u *user, ctx context.Context) error {
		return u.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(u.namespace), client.MatchingLabels{appsapi.LabelComponent: "api"})
	}, nil},
	"a Service goes": {[]string{"services"}, func(u *user, ctx context.Context) error {
		return u.Delete(ctx, &corev1.Service{ObjectMeta: u.objectMeta("shop-api")})
	}, nil},
	"replace a Service with another of the same name": {[]string{"services"}, func(u *user, ctx context.Context) error {
		if err := u.Delete(ctx, &corev1.Service{ObjectMeta: u.objectMeta("shop-api")}); err != nil {
			return err
		}
		return u.create(ctx, &corev1.Service{ObjectMeta: u.objectMeta("shop-api"), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 1}}}})
	}, map[string]string{"AppStack/shop": nameConflictStatus, "Service/shop-api": "1"}},
	"recreate an application": {[]string{"appservices.apps.holdfast.dev"}, func(u *user, ctx context.Context) error {
		before := &appsapi.AppService{ObjectMeta: u.objectMeta("solo")}
		if err := u.Get(ctx, client.ObjectKeyFromObject(before), before); err != nil {
			return err
		}
		again := &appsapi.AppService{ObjectMeta: u.objectMeta("solo"), Spec: before.Spec}
		if err := u.Delete(ctx, before); err != nil {
			return err
		}
		return u.create(ctx, again)
	}, nil},
}

// TestCancelingChangesEndWhereTheyBegan makes changes that cancel each other while the operator misses the events of one
// kind. It must detect the changes with a list.
func TestCancelingChangesEndWhereTheyBegan(t *testing.T) {
	if !isLongRun() {
		t.Skip("runs a scenario per pair: make faults runs it; the sample of plans has unseen events")
	}
	t.Parallel()
	start, failed := time.Now(), 0
	g := newTestCluster(t, operator.Build(t, true))
	for name, pair := range cancelingChanges {
		if !t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			w := newWorld(t, g)
			for _, s := range scenario[:4] {
				if _, err := w.runStep(t.Context(), s, faultHooks{}); err != nil {
					t.Fatalf("%s: %v", s.name, err)
				}
			}
			want := w.visibleState()
			for object, status := range pair.other {
				want[object] = status
			}
			filter := proxy.Only(pair.unseen...)
			cancelStep := step{name: name, run: pair.do, want: map[string]string{"AppService/solo": readyStatus, "AppStack/shop": want["AppStack/shop"]}}
			_, err := w.runStep(t.Context(), cancelStep, faultHooks{
				beforeStep: func() { w.proxy.HoldEvents(filter) },
				duringStep: func(ctx context.Context) error {
					sleep(ctx, blindPeriod)
					expired := w.proxy.ExpireWatches(filter)
					w.proxy.ReleaseEvents()
					return w.waitForWatches(ctx, filter, expired)
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, w.visibleState()); diff != "" {
				t.Errorf("state differs from the original one (-want +got):\n%s", diff)
			}
		}) {
			failed++
		}
	}
	report.WriteTimed(t, start, report.Row{Test: "6 canceling changes", Generated: len(cancelingChanges), Run: len(cancelingChanges), Failed: failed})
}

// visibleState returns the state that is relevant for users.
func (w *world) visibleState() map[string]string {
	visible := map[string]string{}
	state := w.watcher.State()
	for _, resource := range watched {
		for _, o := range state.Live(resource) {
			name := o.GetKind() + "/" + o.GetName()
			switch o.GetKind() {
			case "AppService", "AppStack":
				visible[name] = observedStatus(state, w.namespace, o.GetKind(), o.GetName())
			case "Deployment":
				visible[name] = fmt.Sprint(oracle.Field(o, "spec", "replicas"), oracle.Field(o, "status", "readyReplicas"),
					oracle.Field(o, "spec", "template"))
			case "Service":
				ports, _ := oracle.Field(o, "spec", "ports").([]any)
				visible[name] = fmt.Sprint(ports[0].(map[string]any)["port"])
			}
		}
	}
	return visible
}

func (u *user) scaleInTurn(ctx context.Context, component string, replicas ...int32) error {
	for _, n := range replicas {
		err := u.editSpecs(ctx, nil, func(components map[string]*appsapi.Component) { components[component].Service.Replicas = &n })
		if err != nil {
			return err
		}
		sleep(ctx, time.Second) // give the operator time to react
	}
	return nil
}

func (u *user) updateInTurn(ctx context.Context, objects ...client.Object) error {
	for _, o := range objects {
		if err := u.Update(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

package environment

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
)

// stormRate is the number of writes per second to each object by another client, half to the metadata and half to the
// status.
const stormRate = 50

// falseStatuses are written by the other client. The last one is the hardest to detect, because it does not change a
// condition.
var falseStatuses = []string{
	`{"status":null}`,
	`{"status":{"observedGeneration":999,"conditions":[{"type":"Ready","status":"True","reason":"Theirs","message":"a lie",` +
		`"lastTransitionTime":"2026-01-02T03:04:05Z","observedGeneration":999}]}}`,
	`{"status":{"componentsReady":"9/9","replicasReady":"9/9","selector":"app=theirs","replicas":9,"healthyRevision":"9"}}`,
}

// falseCounts changes only fields that do not affect conditions.
const falseCounts = `{"status":{"componentsReady":"9/9","replicasReady":"9/9","selector":"app=theirs","replicas":9}}`

// TestConflictStorm has a second client write an AppStack and an AppService continuously, from creation on. Every change
// of the spec must take effect, and the final status must be correct.
func TestConflictStorm(t *testing.T) {
	w, row := newWorld(t, "10 conflict storm")
	shop := w.createStack("shop", `
components:
- {name: web, bindings: [{component: api}], service: {image: "shop/web:1", ports: [{port: 80}]}}
- {name: api, service: {image: "shop/api:1", replicas: 2, ports: [{port: 8080}]}}
`)
	web := &appsapi.AppService{ObjectMeta: w.objectMeta("web")}
	web.Spec.Image = "shop/web:1"
	w.Expect(w.Create(w.Context(), web)).To(Succeed())
	from, err := w.AuditLog.Mark(w.Context(), w.Plane.Config)
	w.Expect(err).NotTo(HaveOccurred())

	start, duration := time.Now(), sampleOrFull(10*time.Second, 5*time.Minute)
	stop := w.startStorm(shop, web)
	var mu sync.Mutex
	var took []time.Duration
	recordDuration := func(since time.Time) {
		mu.Lock()
		defer mu.Unlock()
		took = append(took, time.Since(since))
	}
	var edits sync.WaitGroup
	edits.Go(func() {
		w.applyEdits(start, duration, recordDuration, func(version int) func() bool { return w.editShop(version) })
	})
	edits.Go(func() {
		w.applyEdits(start, duration, recordDuration, func(version int) func() bool { return w.editWeb(version) })
	})
	edits.Wait()
	writes := stop()
	stoppedAt := time.Now()
	w.waitStatusCorrect(shop, web)
	healed := time.Since(stoppedAt)
	// A single wrong status without concurrent writes, which does not change a condition.
	for _, app := range []client.Object{shop, web} {
		w.Expect(w.Status().Patch(w.Context(), app, client.RawPatch(types.MergePatchType, []byte(falseCounts)))).To(Succeed())
	}
	w.waitStatusCorrect(shop, web)
	w.ExpectSteadyState(shop)
	w.ExpectSteadyState(web)

	requests, err := w.AuditLog.Since(w.Context(), w.Plane.Config, from)
	w.Expect(err).NotTo(HaveOccurred())
	operatorWrites := requests.In(w.NS).By(operator.User).Writes()
	status := operatorWrites.Of("appstacks.apps.holdfast.dev/status", "appservices.apps.holdfast.dev/status")
	row.Run = len(took)
	row.Measured = fmt.Sprintf("%d foreign writes in %.0f s (%.0f/s to two objects); %d changes of the spec, the slowest took %.1f s; "+
		"%d status writes of the operator; the status was correct %.1f s after the storm",
		writes, duration.Seconds(), float64(writes)/duration.Seconds(), len(took), longestSeconds(took), len(status), healed.Seconds())
	w.Expect(longestSeconds(took)).To(BeNumerically("<", 60))
	w.Expect(len(took)).To(BeNumerically(">=", 2), "at least one edit of each object")
}

// startStorm writes objects until it is stopped; stop returns the number of writes. The last write sets a wrong status.
func (w *world) startStorm(objects ...client.Object) (stop func() int64) {
	ctx, cancel := context.WithCancel(w.Context())
	var running sync.WaitGroup
	var writes atomic.Int64
	for _, obj := range objects {
		repeat := func(write func(ctx context.Context, i int) error) {
			tick := time.NewTicker(2 * time.Second / stormRate)
			defer tick.Stop()
			for i := 0; ctx.Err() == nil; i++ {
				if err := write(ctx, i); err == nil {
					writes.Add(1)
				} else if ctx.Err() == nil {
					w.Errorf("storm: %v", err)
				}
				<-tick.C
			}
		}
		withoutVersion := func() client.Object {
			o := obj.DeepCopyObject().(client.Object)
			o.SetResourceVersion("")
			return o
		}
		running.Go(func() {
			repeat(func(ctx context.Context, i int) error {
				body := fmt.Appendf(nil, `{"metadata":{"labels":{"example.com/storm":"%d"},"annotations":{"example.com/storm":"%d"}}}`, i, i)
				return w.Patch(ctx, withoutVersion(), client.RawPatch(types.MergePatchType, body))
			})
		})
		running.Go(func() {
			repeat(func(ctx context.Context, i int) error {
				return w.Status().Patch(ctx, withoutVersion(), client.RawPatch(types.MergePatchType, []byte(falseStatuses[i%len(falseStatuses)])))
			})
			w.Expect(w.Status().Patch(w.Context(), withoutVersion(), client.RawPatch(types.MergePatchType, []byte(falseStatuses[2])))).To(Succeed())
		})
	}
	return func() int64 {
		cancel()
		running.Wait()
		return writes.Load()
	}
}

// applyEdits makes edits until the time is over; each must take effect.
func (w *world) applyEdits(start time.Time, duration time.Duration, recordDuration func(time.Time), edit func(version int) func() bool) {
	pause := max(duration/20, 500*time.Millisecond)
	for version := 1; time.Since(start) < duration; version++ {
		since := time.Now()
		w.Eventually(edit(version), "60s", "10ms").Should(BeTrue(), "edit %d", version)
		recordDuration(since)
		time.Sleep(pause)
	}
}

// editShop changes the images of both components and the size of one. Version 1 is the created one.
func (w *world) editShop(version int) (applied func() bool) {
	api, web := fmt.Sprintf("shop/api:%d", version), fmt.Sprintf("shop/web:%d", version)
	if version > 1 {
		w.setImages("shop", map[string]string{"api": api, "web": web})
	}
	app := &appsapi.AppStack{ObjectMeta: w.objectMeta("shop")}
	return func() bool {
		return w.Condition(app, "Ready") == "True/Reconciled: Everything runs as declared" &&
			w.runsImage("shop-api", api) && w.runsImage("shop-web", web)
	}
}

func (w *world) editWeb(version int) (applied func() bool) {
	image := fmt.Sprintf("shop/web:%d", version)
	if version > 1 {
		w.mergePatch(&appsapi.AppService{ObjectMeta: w.objectMeta("web")}, `{"spec":{"image":%q,"replicas":%d}}`, image, 1+version%2)
	}
	app := &appsapi.AppService{ObjectMeta: w.objectMeta("web")}
	return func() bool {
		return w.Condition(app, "Ready") == "True/Reconciled: Everything runs as declared" && w.runsImage("web", image)
	}
}

// runsImage reports whether a Deployment runs exactly this image.
func (w *world) runsImage(name, image string) bool {
	d := w.getDeployment(name)
	if d == nil || d.Spec.Template.Spec.Containers[0].Image != image {
		return false
	}
	s := d.Status
	return s.ObservedGeneration == d.Generation && s.UpdatedReplicas == *d.Spec.Replicas && s.AvailableReplicas == *d.Spec.Replicas && s.Replicas == *d.Spec.Replicas
}

// waitStatusCorrect waits until the wrong status is corrected.
func (w *world) waitStatusCorrect(shop *appsapi.AppStack, web *appsapi.AppService) {
	w.Helper()
	w.Eventually(func() string {
		ready := w.Condition(shop, "Ready")
		s := shop.Status
		return fmt.Sprintf("%s, %d conditions, %s, %s %s", ready, len(s.Conditions), s.ComponentsReady, s.CurrentRevision, s.HealthyRevision)
	}, "60s", "20ms").Should(Equal(fmt.Sprintf("True/Reconciled: Everything runs as declared, 2 conditions, 2/2, %[1]s %[1]s", w.latestRevision(shop))))
	w.Eventually(func() string {
		ready := w.Condition(web, "Ready")
		s, d := web.Status, w.getDeployment("web")
		return fmt.Sprintf("%s, %d conditions, %t %t %t", ready, len(s.Conditions), s.Replicas == d.Status.Replicas,
			s.ReplicasReady == fmt.Sprintf("%d/%d", d.Status.ReadyReplicas, *d.Spec.Replicas), s.Selector != "app=theirs")
	}, "60s", "20ms").Should(Equal("True/Reconciled: Everything runs as declared, 2 conditions, true true true"))
}

// latestRevision returns the highest revision number.
func (w *world) latestRevision(shop *appsapi.AppStack) string {
	var highest int64
	for _, r := range w.revisionsOfStack(shop.Name) {
		highest = max(highest, r.Revision)
	}
	return fmt.Sprint(highest)
}

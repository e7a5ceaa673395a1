package environment

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
	"github.com/holdfast-dev/holdfast/test/faults/report"
)

const (
	// repairTimeout is the maximum time until drift is corrected.
	repairTimeout = 5 * time.Second
	// driftInterval is the interval of changes of an object, slightly longer than that of repairs in a drift contention.
	driftInterval = 1100 * time.Millisecond
)

// driftSpec has every kind of child and of dependency. Only its job has pods, because nothing waits for a service with
// zero replicas.
const driftSpec = `
components:
- name: web
  bindings: [{component: api}]
  dependsOn: [migrate]
  service:
    image: shop/web:1
    replicas: 0
    ports: [{name: http, port: 80, targetPort: 8080}, {name: https, port: 443}]
    env: [{name: MODE, value: prod}, {name: COLOR, valueFrom: {configMapKeyRef: {name: web, key: color}}}]
    resources: {requests: {cpu: 10m}}
- {name: api, service: {image: "shop/api:1", replicas: 0, ports: [{port: 8080}], service: {annotations: {example.com/team: red}, sessionAffinity: ClientIP}}}
- {name: migrate, job: {image: "shop/migrate:1", args: [up]}}
- {name: seed, dependsOn: [migrate], job: {image: "shop/seed:1"}}
- {name: nightly, dependsOn: [api], job: {image: "shop/nightly:1", schedule: "0 3 1 1 *", env: [{name: MODE, value: night}]}}
`

// kindAndComponent identifies an object independently of the stack name.
func kindAndComponent(o *unstructured.Unstructured) string {
	return strings.TrimSpace(o.GetKind() + " " + o.GetLabels()[appsapi.LabelComponent])
}

// TestStackDriftIsRepaired changes and removes every field that the operator owns, in every object of a stack, and then
// deletes the objects. Each drift must be corrected with one write, and fields of other managers must stay. The fields
// are distributed over several stacks, because an object is corrected once per second.
func TestStackDriftIsRepaired(t *testing.T) {
	w, row := newWorld(t, "13 drift of a stack")
	latency, stacks := w.startLatencyProbe(), []string{"s0", "s1"}
	if longRun {
		stacks = append(stacks, "s2", "s3")
	}
	for _, name := range stacks {
		w.createStack(name, driftSpec)
	}
	for _, name := range stacks {
		w.waitReady(name)
		w.WaitIdle(name)
	}
	var targets []*driftTarget
	generated := 0
	for i, name := range stacks {
		for _, obj := range w.children(name) {
			d := &driftTarget{world: w, object: obj}
			for j, drift := range fieldDrifts(obj) {
				if generated++; j%len(stacks) == i {
					d.drifts = append(d.drifts, drift)
				}
			}
			targets = append(targets, d)
		}
	}
	if !longRun { // a sample for each object
		for i, d := range targets {
			d.drifts = takeSample(d.drifts, 8, i)
		}
	}
	from, err := w.AuditLog.Mark(w.Context(), w.Plane.Config)
	w.Expect(err).NotTo(HaveOccurred())
	var group sync.WaitGroup
	for _, d := range targets {
		group.Go(d.applyDrifts)
	}
	group.Wait()
	w.deleteObjects(stacks, targets)
	requests, err := w.AuditLog.Since(w.Context(), w.Plane.Config, from)
	w.Expect(err).NotTo(HaveOccurred())
	row.Generated = generated / len(stacks)
	checkDrifts(w, row, targets, requests.In(w.NS), latency.grace())
}

// deleteObjects deletes the objects one after the other: an object whose dependency is missing would not be recreated at
// once.
func (w *world) deleteObjects(stacks []string, targets []*driftTarget) {
	byRole := map[string][]*driftTarget{}
	for _, d := range targets {
		byRole[kindAndComponent(d.object)] = append(byRole[kindAndComponent(d.object)], d)
	}
	for _, name := range slices.Sorted(maps.Keys(byRole)) {
		for _, stack := range stacks {
			w.waitReady(stack)
		}
		var group sync.WaitGroup
		for _, d := range byRole[name] {
			group.Go(d.deleteObject)
		}
		group.Wait()
	}
	for _, stack := range stacks {
		w.waitReady(stack)
		w.WaitIdle(stack)
	}
}

// checkDrifts collects the results of all objects.
func checkDrifts(w *world, row *report.Row, targets []*driftTarget, requests audit.Events, grace time.Duration) {
	var waits []time.Duration
	writes, rejected := 0, map[string]bool{}
	for _, d := range targets {
		row.Run += d.changesMade
		for _, r := range d.rejected {
			rejected[r] = true
		}
		delays, operatorWrites := d.repairDelays(requests)
		waits, writes = append(waits, delays...), writes+operatorWrites
		if operatorWrites > d.changesMade+d.extraWrites {
			d.failures = append(d.failures, fmt.Sprintf("%s: %d changes caused %d writes", kindAndComponent(d.object), d.changesMade, operatorWrites))
		}
		d.checkForeignFields()
		row.Failures = append(row.Failures, d.failures...)
	}
	row.Failed = len(row.Failures)
	w.Logf("fields that cannot be changed:\n%s", strings.Join(slices.Sorted(maps.Keys(rejected)), "\n"))
	w.Expect(row.Failures).To(BeEmpty())
	w.Expect(longestSeconds(waits)).To(BeNumerically("<", (repairTimeout + grace).Seconds()))
	slices.Sort(waits)
	row.Measured = fmt.Sprintf("%d manual changes of fields and objects, all corrected: half of them within %.2f s, all within %.2f s, with %d writes; "+
		"%d more are rejected or reverted by the API server; fields of other managers stayed", row.Run, waits[len(waits)/2].Seconds(), longestSeconds(waits), writes, len(rejected))
}

// takeSample returns n elements from an offset on.
func takeSample[T any](all []T, n, offset int) []T {
	if len(all) <= n {
		return all
	}
	var out []T
	for i := range n {
		out = append(out, all[(i*len(all)/n+offset)%len(all)])
	}
	return out
}

// children returns the children of a stack with managedFields.
func (w *world) children(name string) []*unstructured.Unstructured {
	w.Helper()
	var out []*unstructured.Unstructured
	for _, kind := range []string{"apps/v1 Deployment", "v1 Service", "batch/v1 Job", "batch/v1 CronJob", "apps/v1 ControllerRevision"} {
		version, kind, _ := strings.Cut(kind, " ")
		l := &unstructured.UnstructuredList{}
		l.SetAPIVersion(version)
		l.SetKind(kind + "List")
		w.Expect(w.List(w.Context(), l, client.InNamespace(w.NS), client.MatchingLabels{appsapi.LabelInstance: name})).To(Succeed())
		for i := range l.Items {
			out = append(out, &l.Items[i])
		}
	}
	w.Expect(out).To(HaveLen(8), "2 Deployments, 2 Services, 2 Jobs, a CronJob, a revision")
	return out
}

// driftTarget is an object and the changes made to it.
type driftTarget struct {
	*world
	object       *unstructured.Unstructured
	drifts       []drift
	changesMade  int
	extraWrites  int // changes that need an additional write, such as that of a list key, which adds an element
	rejected     []string
	failures     []string
	beforeDelete *unstructured.Unstructured // the object before its deletion
}

// applyDrifts makes all changes one after the other.
func (d *driftTarget) applyDrifts() {
	d.addForeignFields()
	limit := rate.NewLimiter(rate.Every(driftInterval), 4)
	for _, drift := range d.drifts {
		if err := limit.Wait(d.Context()); err != nil {
			return
		}
		d.applyDrift(drift)
	}
}

func (d *driftTarget) current() (*unstructured.Unstructured, error) {
	now := d.object.DeepCopy()
	return now, d.Get(d.Context(), client.ObjectKeyFromObject(now), now)
}

// applyDrift makes one change and waits for its correction.
func (d *driftTarget) applyDrift(drift drift) {
	description := kindAndComponent(d.object) + ": " + drift.String()
	var before any
	var obj *unstructured.Unstructured
	for {
		var err error
		if obj, err = d.current(); err != nil {
			d.failures = append(d.failures, fmt.Sprintf("%s: %v", description, err))
			return
		}
		before = drift.valueIn(obj.DeepCopy().Object)
		drift.apply(obj.Object)
		drift.allowTakeover(obj)
		if err = d.Update(d.Context(), obj, client.FieldOwner("kubectl-edit")); apierrors.IsConflict(err) {
			continue
		}
		if err != nil || sameValue(drift.valueIn(obj.Object), before) {
			d.rejected = append(d.rejected, description)
			return
		}
		break
	}
	d.changesMade++
	if drift.isListKey {
		d.extraWrites++
	}
	ctx, cancel := context.WithTimeout(d.Context(), 2*repairTimeout)
	defer cancel()
	for {
		now, err := d.current()
		if err == nil && sameValue(drift.valueIn(now.Object), before) {
			return
		}
		select {
		case <-ctx.Done():
			d.failures = append(d.failures, fmt.Sprintf("%s: want %v, got %v (%v)", description, before, drift.valueIn(now.Object), err))
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// deleteObject deletes the object, without the finalizer that would block the deletion.
func (d *driftTarget) deleteObject() {
	stripped := false
	for !stripped {
		obj, err := d.current()
		if err != nil {
			d.failures = append(d.failures, err.Error())
			return
		}
		d.beforeDelete = obj.DeepCopy()
		obj.SetFinalizers(nil)
		err = d.Update(d.Context(), obj)
		stripped = err == nil
		if err != nil && !apierrors.IsConflict(err) {
			d.failures = append(d.failures, err.Error())
			return
		}
	}
	uid := d.object.GetUID()
	if err := d.Delete(d.Context(), d.object.DeepCopy(), client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		d.failures = append(d.failures, err.Error())
		return
	}
	d.changesMade++
	if d.object.GetKind() == "ControllerRevision" {
		d.extraWrites++ // creation and the healthy mark
	}
	var readErr error
	err := wait.PollUntilContextTimeout(d.Context(), 20*time.Millisecond, 2*repairTimeout, true, func(context.Context) (bool, error) {
		var now *unstructured.Unstructured
		now, readErr = d.current()
		return readErr == nil && now.GetUID() != uid, nil
	})
	if err != nil {
		d.failures = append(d.failures, fmt.Sprintf("%s: deleted but not recreated: %v", kindAndComponent(d.object), readErr))
	}
}

// repairDelays returns the delay of each correction after the last change by another client, in the order of the audit
// log, and the number of writes.
func (d *driftTarget) repairDelays(requests audit.Events) (delays []time.Duration, writes int) {
	var changed time.Time
	for _, e := range requests.Writes() {
		switch {
		case e.ObjectRef.Name != d.object.GetName() || e.ObjectRef.Subresource != "" || !e.Accepted(), !strings.HasPrefix(strings.ToLower(d.object.GetKind()), strings.TrimSuffix(e.ObjectRef.Resource, "s")):
		case e.User.Username == operator.User:
			writes++
			if !changed.IsZero() {
				delays = append(delays, e.Received.Sub(changed))
			}
			changed = time.Time{}
		case !strings.HasPrefix(e.User.Username, "system:"):
			changed = e.StageTime
		}
	}
	return delays, writes
}

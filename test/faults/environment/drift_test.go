package environment

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
	"github.com/holdfast-dev/holdfast/test/faults/report"
)

func init() { together["13 drift of a stack"] = driftOfStack }

const (
	// repairedWithin is how soon drift is repaired.
	repairedWithin = 5 * time.Second
	// driftPace is how often an object drifts: a little less often than it is repaired when
	// somebody keeps changing it.
	driftPace = 1100 * time.Millisecond
)

// drifting has every kind of child, and edges of every kind between them. It runs no pods
// but that of its job: nobody waits for a service of none.
const drifting = `
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

// role is what an object is in its stack, whatever the stack is called.
func role(o *unstructured.Unstructured) string {
	return strings.TrimSpace(o.GetKind() + " " + o.GetLabels()[appsapi.LabelComponent])
}

// driftOfStack changes and takes away every field that the books say is ours, in every object
// of a stack, and then the objects: each is repaired by one write, and what others added
// stays. The fields are shared out among stacks, because an object is repaired once a second.
func driftOfStack(w *world, row *report.Row) {
	heart, stacks := w.feelPulse(), []string{"s0", "s1"}
	if long {
		stacks = append(stacks, "s2", "s3")
	}
	for _, name := range stacks {
		w.create(name, drifting)
	}
	for _, name := range stacks {
		w.becomesReady(name)
		w.FallsSilent(name)
	}
	var all []*drifter
	generated := 0
	for i, name := range stacks {
		for _, obj := range w.children(name) {
			d := &drifter{world: w, object: obj}
			for j, drift := range drifts(obj) {
				if generated++; j%len(stacks) == i {
					d.drifts = append(d.drifts, drift)
				}
			}
			all = append(all, d)
		}
	}
	if !long { // a sample of each object
		for i, d := range all {
			d.drifts = sample(d.drifts, 8, i)
		}
	}
	from, err := w.Log.Mark(w.Context(), w.Plane.Config)
	w.Expect(err).NotTo(HaveOccurred())
	var group sync.WaitGroup
	for _, d := range all {
		group.Go(d.play)
	}
	group.Wait()
	w.deletes(stacks, all)
	requests, err := w.Log.Since(w.Context(), w.Plane.Config, from)
	w.Expect(err).NotTo(HaveOccurred())
	row.Generated = generated / len(stacks)
	judgeDrifts(w, row, all, requests.In(w.NS), heart.grace())
}

// deletes takes the objects away, one after the other: what waits for one that is not there
// would not be made again at once.
func (w *world) deletes(stacks []string, all []*drifter) {
	byRole := map[string][]*drifter{}
	for _, d := range all {
		byRole[role(d.object)] = append(byRole[role(d.object)], d)
	}
	for _, name := range slices.Sorted(maps.Keys(byRole)) {
		for _, stack := range stacks {
			w.becomesReady(stack)
		}
		var group sync.WaitGroup
		for _, d := range byRole[name] {
			group.Go(d.delete)
		}
		group.Wait()
	}
	for _, stack := range stacks {
		w.becomesReady(stack)
		w.FallsSilent(stack)
	}
}

// judgeDrifts adds up what every object went through.
func judgeDrifts(w *world, row *report.Row, all []*drifter, requests audit.Events, grace time.Duration) {
	var waits []time.Duration
	writes, refused := 0, map[string]bool{}
	for _, d := range all {
		row.Run += d.made
		for _, r := range d.refused {
			refused[r] = true
		}
		took, ours := d.repairs(requests)
		waits, writes = append(waits, took...), writes+ours
		if ours > d.made+d.renamed {
			d.wrong = append(d.wrong, fmt.Sprintf("%s: %d changes cost %d writes", role(d.object), d.made, ours))
		}
		d.keepsForeign()
		row.Failures = append(row.Failures, d.wrong...)
	}
	row.Failed = len(row.Failures)
	w.Logf("what nobody can change:\n%s", strings.Join(slices.Sorted(maps.Keys(refused)), "\n"))
	w.Expect(row.Failures).To(BeEmpty())
	w.Expect(longest(waits)).To(BeNumerically("<", (repairedWithin + grace).Seconds()))
	slices.Sort(waits)
	row.Seen = fmt.Sprintf("%d changes of fields and objects by hand, all repaired: half of them within %.2f s, all within %.2f s, by %d writes; "+
		"%d more the API server refuses or undoes; what others added stayed", row.Run, waits[len(waits)/2].Seconds(), longest(waits), writes, len(refused))
}

// sample takes some of all, not always the same.
func sample[T any](all []T, n, offset int) []T {
	if len(all) <= n {
		return all
	}
	var out []T
	for i := range n {
		out = append(out, all[(i*len(all)/n+offset)%len(all)])
	}
	return out
}

// children are the children of a stack, with their books.
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

// drifter is an object and what is done to it.
type drifter struct {
	*world
	object  *unstructured.Unstructured
	drifts  []drift
	made    int
	renamed int // changes that cost a write more, as one of a key does: it makes another element
	refused []string
	wrong   []string
	kept    *unstructured.Unstructured // as it was before it was deleted
}

// play makes all changes, one after the other.
func (d *drifter) play() {
	d.addForeign()
	limit := rate.NewLimiter(rate.Every(driftPace), 4)
	for _, drift := range d.drifts {
		if err := limit.Wait(d.Context()); err != nil {
			return
		}
		d.make(drift)
	}
}

func (d *drifter) get() (*unstructured.Unstructured, error) {
	now := d.object.DeepCopy()
	return now, d.Get(d.Context(), client.ObjectKeyFromObject(now), now)
}

// make makes one change and waits for its repair.
func (d *drifter) make(drift drift) {
	what := role(d.object) + ": " + drift.String()
	var before any
	var obj *unstructured.Unstructured
	for {
		var err error
		if obj, err = d.get(); err != nil {
			d.wrong = append(d.wrong, fmt.Sprintf("%s: %v", what, err))
			return
		}
		before = drift.at(obj.DeepCopy().Object)
		drift.do(obj.Object)
		if err = d.Update(d.Context(), obj, client.FieldOwner("kubectl-edit")); apierrors.IsConflict(err) {
			continue
		}
		if err != nil || same(drift.at(obj.Object), before) {
			d.refused = append(d.refused, what)
			return
		}
		break
	}
	d.made++
	if drift.key {
		d.renamed++
	}
	ctx, cancel := context.WithTimeout(d.Context(), 2*repairedWithin)
	defer cancel()
	for {
		now, err := d.get()
		if err == nil && same(drift.at(now.Object), before) {
			return
		}
		select {
		case <-ctx.Done():
			d.wrong = append(d.wrong, fmt.Sprintf("%s: was %v, is %v (%v)", what, before, drift.at(now.Object), err))
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// delete takes the whole object away. Our own foreign finalizer would keep it.
func (d *drifter) delete() {
	stripped := false
	for !stripped {
		obj, err := d.get()
		if err != nil {
			d.wrong = append(d.wrong, err.Error())
			return
		}
		d.kept = obj.DeepCopy()
		obj.SetFinalizers(nil)
		err = d.Update(d.Context(), obj)
		stripped = err == nil
		if err != nil && !apierrors.IsConflict(err) {
			d.wrong = append(d.wrong, err.Error())
			return
		}
	}
	uid := d.object.GetUID()
	if err := d.Delete(d.Context(), d.object.DeepCopy(), client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		d.wrong = append(d.wrong, err.Error())
		return
	}
	d.made++
	if d.object.GetKind() == "ControllerRevision" {
		d.renamed++ // it is made, and marked as healthy
	}
	for deadline := time.Now().Add(2 * repairedWithin); ; time.Sleep(20 * time.Millisecond) {
		now, err := d.get()
		if err == nil && now.GetUID() != uid {
			return
		}
		if time.Now().After(deadline) {
			d.wrong = append(d.wrong, fmt.Sprintf("%s: deleted and not made again: %v", role(d.object), err))
			return
		}
	}
}

// repairs are how long each of our writes came after the last change by somebody else, by
// the clock and in the order of the API server, and how many writes there were.
func (d *drifter) repairs(requests audit.Events) (waits []time.Duration, ours int) {
	var changed time.Time
	for _, e := range requests.Writes() {
		switch {
		case e.ObjectRef.Name != d.object.GetName() || e.ObjectRef.Subresource != "" || !e.Accepted(), !strings.HasPrefix(strings.ToLower(d.object.GetKind()), strings.TrimSuffix(e.ObjectRef.Resource, "s")):
		case e.User.Username == operator.User:
			ours++
			if !changed.IsZero() {
				waits = append(waits, e.Received.Sub(changed))
			}
			changed = time.Time{}
		case !strings.HasPrefix(e.User.Username, "system:"):
			changed = e.StageTime
		}
	}
	return waits, ours
}

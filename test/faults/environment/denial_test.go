package environment

import (
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
	"github.com/holdfast-dev/holdfast/test/faults/report"
)

func init() { together["25 denials"] = denials }

// governed is a stack that is rolled out from the api to the web; web comes in the middle.
const governed = `
components:
- {name: web, dependsOn: [api, migrate], service: {image: "shop/web:1", resources: {requests: {memory: 16Mi}}}}
- {name: api, service: {image: "shop/api:1", resources: {requests: {memory: 128Mi}}, replicas: 2, security: {level: Restricted, runAsUser: 1000}}}
- {name: migrate, job: {image: "shop/migrate:1", resources: {requests: {memory: 128Mi}}, security: {level: Restricted, runAsUser: 1000}}}
`

// mostTries is how often the operator may send what is refused within a time: it doubles the
// pause from 20 ms on. That is 11 times in ten seconds, 14 in a minute and 17 in ten.
func mostTries(within time.Duration) int {
	return 2 + bits.Len64(uint64(within/(20*time.Millisecond)))
}

// denials play every way in which a cluster says no in the middle of a rollout: the status
// names the object and the cause, nothing is hammered, people are told once, and when the
// denial is lifted the rollout goes on by itself.
func denials(w *world, row *report.Row) {
	names := slices.Sorted(maps.Keys(cluster))
	row.Generated = len(names)
	seen := make([]string, len(names))
	w.Run("each", func(t *testing.T) {
		for i, name := range names {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				d := &denied{world: w.elsewhere().on(t), says: cluster[name]}
				d.play()
				seen[i] = fmt.Sprintf("%s: refused %d times in %.0f s, %d warning, went on %.1f s after it was lifted",
					name, d.tries, lasts(10*time.Second, time.Minute).Seconds(), len(d.warnings), d.lifted.Seconds())
			})
		}
	})
	for _, s := range seen {
		if s != "" {
			row.Run++
		}
	}
	row.Seen = strings.Join(seen, "; ")
}

// denied is the story of one denial.
type denied struct {
	*world
	says     denial
	tries    int
	warnings map[string]int
	lifted   time.Duration
}

func (d *denied) play() {
	d.create("shop", governed)
	d.becomesReady("shop")
	d.FallsSilent("shop")
	pods := len(d.pods())
	lift := d.says.raise(d.world)

	from, err := d.Log.Mark(d.Context(), d.Plane.Config)
	d.Expect(err).NotTo(HaveOccurred())
	raised := time.Now()
	d.setImages("shop", map[string]string{"api": "shop/api:2", "web": "shop/web:2", "migrate": "shop/migrate:2"})
	app := &appsapi.AppStack{ObjectMeta: d.meta("shop")}
	d.Eventually(func() string { return d.Condition(app, "Ready") }, "60s", "50ms").Should(And(
		HavePrefix("False/"), ContainSubstring(d.says.object), ContainSubstring(d.says.cause)))
	d.lasts(app)
	d.Expect(len(d.pods())).To(BeNumerically(">=", pods-1), "what ran before runs on")

	requests, err := d.Log.Since(d.Context(), d.Plane.Config, from)
	d.Expect(err).NotTo(HaveOccurred())
	d.judge(requests.In(d.NS).By(operator.User), time.Since(raised))
	lift()
	start := time.Now()
	d.Eventually(func() string { return d.Condition(app, "Ready") }, "5m", "50ms").
		Should(Equal("True/Reconciled: Everything runs as declared"))
	d.lifted = time.Since(start)
	d.Expect(d.runs("shop-web", "shop/web:2")).To(BeTrue())
}

// lasts is the time of the denial. Somebody touches the stack five times a second: that is
// no reason to try again.
func (d *denied) lasts(app *appsapi.AppStack) {
	length := lasts(10*time.Second, time.Minute)
	for i := range int(length / (200 * time.Millisecond)) {
		if d.says.ours && i < int(10*time.Second/(200*time.Millisecond)) {
			d.Touch(app)
		}
		time.Sleep(200 * time.Millisecond)
	}
	d.Expect(d.Condition(app, "Ready")).To(And(HavePrefix("False/"), ContainSubstring(d.says.object), ContainSubstring(d.says.cause)), "after a while")
}

// judge looks at how often it was tried, and what people were told.
func (d *denied) judge(ours audit.Events, within time.Duration) {
	d.Helper()
	refused := ours.Writes().Where(func(e *audit.Event) bool { return !e.Accepted() && e.ResponseStatus.Code != 409 })
	d.tries = len(refused)
	d.Expect(d.tries).To(BeNumerically("<=", mostTries(within)), "%s", refused.Count())
	if d.says.ours {
		d.Expect(d.tries).To(BeNumerically(">=", 5), "it is tried again")
	} else {
		d.Expect(d.tries).To(BeZero(), "the API server took what we sent")
	}
	status := ours.Of("appstacks.apps.holdfast.dev/status").Writes()
	d.Expect(len(status)).To(BeNumerically("<=", 8), "the status flaps:\n%s", words(status))
	d.warnings = map[string]int{}
	var events eventsv1.EventList
	d.Expect(d.List(d.Context(), &events, client.InNamespace(d.NS))).To(Succeed())
	for i := range events.Items {
		e := &events.Items[i]
		if e.Regarding.Name != "shop" || e.Type != corev1.EventTypeWarning {
			continue
		}
		d.warnings[e.Reason+": "+e.Note]++
		if e.Series != nil {
			d.warnings[e.Reason+": "+e.Note] += int(e.Series.Count) - 1
		}
	}
	d.Expect(d.warnings).To(HaveLen(1), "%v", d.warnings)
	for note, count := range d.warnings {
		d.Expect(count).To(Equal(1), note)
		d.Expect(note).To(And(ContainSubstring(d.says.object), ContainSubstring(d.says.cause)))
	}
}

// words are what was written into the status.
func words(writes audit.Events) string {
	var out []string
	for _, e := range writes {
		_, after, _ := strings.Cut(string(e.RequestObject), `"message":`)
		out = append(out, after[:min(len(after), 200)])
	}
	return strings.Join(out, "\n")
}

// refusesNow waits until the API server has learned to refuse an object: it does so in its
// own time.
func (w *world) refusesNow(obj client.Object) {
	w.Helper()
	w.Eventually(func() error {
		return w.Create(w.Context(), obj.DeepCopyObject().(client.Object), client.DryRunAll)
	}, "60s", "20ms").ShouldNot(Succeed())
}

// probe is a pod like those of web.
func (w *world) probe() *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: w.meta("probe")}
	pod.Spec.Containers = w.deployment("shop-web").Spec.Template.Spec.Containers
	return pod
}

// labels sets a label of the namespace, or takes it away.
func (w *world) labels(key, value string) {
	w.Helper()
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, key, value)
	ns := &corev1.Namespace{}
	ns.Name = w.NS
	w.Expect(w.Patch(w.Context(), ns, client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
}

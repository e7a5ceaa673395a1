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

func init() { parallelTests["25 denials"] = clusterDenials }

// denialSpec is a stack that is rolled out from the api to the web; web comes in the middle.
const denialSpec = `
components:
- {name: web, dependsOn: [api, migrate], service: {image: "shop/web:1", resources: {requests: {memory: 16Mi}}}}
- {name: api, service: {image: "shop/api:1", resources: {requests: {memory: 128Mi}}, replicas: 2, security: {level: Restricted, runAsUser: 1000}}}
- {name: migrate, job: {image: "shop/migrate:1", resources: {requests: {memory: 128Mi}}, security: {level: Restricted, runAsUser: 1000}}}
`

// maxAttempts is how often the operator may send what is refused within a time: it doubles the
// pause from 20 ms on. That is 11 times in ten seconds, 14 in a minute and 17 in ten.
func maxAttempts(within time.Duration) int {
	return 2 + bits.Len64(uint64(within/(20*time.Millisecond)))
}

// clusterDenials play every way in which a cluster says no in the middle of a rollout: the status
// names the object and the cause, nothing is hammered, people are told once, and when the
// denial is lifted the rollout goes on by itself.
func clusterDenials(w *world, row *report.Row) {
	names := slices.Sorted(maps.Keys(denialCases))
	row.Generated = len(names)
	summaries := make([]string, len(names))
	w.Run("each", func(t *testing.T) {
		for i, name := range names {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				d := &denialRun{world: w.inNewNamespace().forSubtest(t), denial: denialCases[name]}
				d.run()
				summaries[i] = fmt.Sprintf("%s: refused %d times in %.0f s, %d warning, went on %.1f s after it was lifted",
					name, d.rejectedWrites, sampleOrFull(10*time.Second, time.Minute).Seconds(), len(d.warnings), d.recovery.Seconds())
			})
		}
	})
	for _, s := range summaries {
		if s != "" {
			row.Run++
		}
	}
	row.Measured = strings.Join(summaries, "; ")
}

// denialRun is the story of one denial.
type denialRun struct {
	*world
	denial         denial
	rejectedWrites int
	warnings       map[string]int
	recovery       time.Duration
}

func (d *denialRun) run() {
	d.createStack("shop", denialSpec)
	d.waitReady("shop")
	d.WaitIdle("shop")
	pods := len(d.runningPods())
	lift := d.denial.impose(d.world)

	from, err := d.AuditLog.Mark(d.Context(), d.Plane.Config)
	d.Expect(err).NotTo(HaveOccurred())
	imposedAt := time.Now()
	d.setImages("shop", map[string]string{"api": "shop/api:2", "web": "shop/web:2", "migrate": "shop/migrate:2"})
	app := &appsapi.AppStack{ObjectMeta: d.objectMeta("shop")}
	d.Eventually(func() string { return d.Condition(app, "Ready") }, "60s", "50ms").Should(And(
		HavePrefix("False/"), ContainSubstring(d.denial.object), ContainSubstring(d.denial.cause)))
	d.holdDenial(app)
	d.Expect(len(d.runningPods())).To(BeNumerically(">=", pods-1), "what ran before runs on")

	requests, err := d.AuditLog.Since(d.Context(), d.Plane.Config, from)
	d.Expect(err).NotTo(HaveOccurred())
	d.checkRetries(requests.In(d.NS).By(operator.User), time.Since(imposedAt))
	lift()
	start := time.Now()
	d.Eventually(func() string { return d.Condition(app, "Ready") }, "5m", "50ms").
		Should(Equal("True/Reconciled: Everything runs as declared"))
	d.recovery = time.Since(start)
	d.Expect(d.runsImage("shop-web", "shop/web:2")).To(BeTrue())
}

// holdDenial is the time of the denial. Somebody touches the stack five times a second: that is
// no reason to try again.
func (d *denialRun) holdDenial(app *appsapi.AppStack) {
	length := sampleOrFull(10*time.Second, time.Minute)
	for i := range int(length / (200 * time.Millisecond)) {
		if d.denial.rejectsOperatorWrites && i < int(10*time.Second/(200*time.Millisecond)) {
			d.Touch(app)
		}
		time.Sleep(200 * time.Millisecond)
	}
	d.Expect(d.Condition(app, "Ready")).To(And(HavePrefix("False/"), ContainSubstring(d.denial.object), ContainSubstring(d.denial.cause)), "after a while")
}

// checkRetries looks at how often it was tried, and what people were told.
func (d *denialRun) checkRetries(requests audit.Events, within time.Duration) {
	d.Helper()
	rejected := requests.Writes().Where(func(e *audit.Event) bool { return !e.Accepted() && e.ResponseStatus.Code != 409 })
	d.rejectedWrites = len(rejected)
	d.Expect(d.rejectedWrites).To(BeNumerically("<=", maxAttempts(within)), "%s", rejected.Count())
	if d.denial.rejectsOperatorWrites {
		d.Expect(d.rejectedWrites).To(BeNumerically(">=", 5), "it is tried again")
	} else {
		d.Expect(d.rejectedWrites).To(BeZero(), "the API server took what we sent")
	}
	status := requests.Of("appstacks.apps.holdfast.dev/status").Writes()
	d.Expect(len(status)).To(BeNumerically("<=", 8), "the status flaps:\n%s", statusMessages(status))
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
		d.Expect(note).To(And(ContainSubstring(d.denial.object), ContainSubstring(d.denial.cause)))
	}
}

// statusMessages are what was written into the status.
func statusMessages(writes audit.Events) string {
	var out []string
	for _, e := range writes {
		_, after, _ := strings.Cut(string(e.RequestObject), `"message":`)
		out = append(out, after[:min(len(after), 200)])
	}
	return strings.Join(out, "\n")
}

// waitUntilRejected waits until the API server has learned to refuse an object: it does so in its
// own time.
func (w *world) waitUntilRejected(obj client.Object) {
	w.Helper()
	w.Eventually(func() error {
		return w.Create(w.Context(), obj.DeepCopyObject().(client.Object), client.DryRunAll)
	}, "60s", "20ms").ShouldNot(Succeed())
}

// probePod is a pod like those of web.
func (w *world) probePod() *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: w.objectMeta("probe")}
	pod.Spec.Containers = w.getDeployment("shop-web").Spec.Template.Spec.Containers
	return pod
}

// labelNamespace sets a label of the namespace, or takes it away.
func (w *world) labelNamespace(key, value string) {
	w.Helper()
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, key, value)
	ns := &corev1.Namespace{}
	ns.Name = w.NS
	w.Expect(w.Patch(w.Context(), ns, client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
}

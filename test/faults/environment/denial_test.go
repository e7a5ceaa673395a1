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
)

// denialSpec is a stack that rolls out api, migrate and then web.
const denialSpec = `
components:
- {name: web, dependsOn: [api, migrate], service: {image: "shop/web:1", resources: {requests: {memory: 16Mi}}}}
- {name: api, service: {image: "shop/api:1", resources: {requests: {memory: 128Mi}}, replicas: 2, security: {level: Restricted, runAsUser: 1000}}}
- {name: migrate, job: {image: "shop/migrate:1", resources: {requests: {memory: 128Mi}}, security: {level: Restricted, runAsUser: 1000}}}
`

// maxAttempts is the maximum number of rejected attempts within a time. The backoff doubles from 20 ms: 11 attempts in
// 10 s, 14 in 1 min and 17 in 10 min.
func maxAttempts(within time.Duration) int {
	return 2 + bits.Len64(uint64(within/(20*time.Millisecond)))
}

// TestClusterDenials rejects changes in every way during a rollout. The status must name object and cause, the operator
// must back off and emit one warning, and the rollout must continue once the denial is lifted.
func TestClusterDenials(t *testing.T) {
	w, row := newWorld(t, "25 denials")
	names := slices.Sorted(maps.Keys(denialCases))
	row.Generated = len(names)
	summaries := make([]string, len(names))
	w.Run("each", func(t *testing.T) {
		for i, name := range names {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				d := &denialRun{world: w.inNewNamespace().forSubtest(t), denial: denialCases[name]}
				d.run()
				summaries[i] = fmt.Sprintf("%s: rejected %d times in %.0f s, %d warning, resumed %.1f s after it was lifted",
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

// denialRun is the run of one denial.
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
	d.Expect(len(d.runningPods())).To(BeNumerically(">=", pods-1), "old pods keep running")

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

// holdDenial keeps the denial for a while and updates the stack five times a second, which must not reset the backoff.
func (d *denialRun) holdDenial(app *appsapi.AppStack) {
	length := sampleOrFull(10*time.Second, time.Minute)
	for i := range int(length / (200 * time.Millisecond)) {
		if d.denial.rejectsOperatorWrites && i < int(10*time.Second/(200*time.Millisecond)) {
			d.Touch(app)
		}
		time.Sleep(200 * time.Millisecond)
	}
	d.Expect(d.Condition(app, "Ready")).To(And(HavePrefix("False/"), ContainSubstring(d.denial.object), ContainSubstring(d.denial.cause)), "status after repeated rejections")
}

// checkRetries checks the number of attempts, status writes and warnings.
func (d *denialRun) checkRetries(requests audit.Events, within time.Duration) {
	d.Helper()
	rejected := requests.Writes().Where(func(e *audit.Event) bool { return !e.Accepted() && e.ResponseStatus.Code != 409 })
	d.rejectedWrites = len(rejected)
	d.Expect(d.rejectedWrites).To(BeNumerically("<=", maxAttempts(within)), "%s", rejected.Count())
	if d.denial.rejectsOperatorWrites {
		d.Expect(d.rejectedWrites).To(BeNumerically(">=", 5), "rejected writes are retried")
	} else {
		d.Expect(d.rejectedWrites).To(BeZero(), "the API server must accept the writes of the operator")
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

// statusMessages returns the written Ready conditions.
func statusMessages(writes audit.Events) string {
	var out []string
	for _, e := range writes {
		_, after, _ := strings.Cut(string(e.RequestObject), `"message":`)
		out = append(out, after[:min(len(after), 200)])
	}
	return strings.Join(out, "\n")
}

// waitUntilRejected waits until the API server rejects an object; new policies take effect with a delay.
func (w *world) waitUntilRejected(obj client.Object) {
	w.Helper()
	w.Eventually(func() error {
		return w.Create(w.Context(), obj.DeepCopyObject().(client.Object), client.DryRunAll)
	}, "60s", "20ms").ShouldNot(Succeed())
}

// probePod returns a pod like those of web.
func (w *world) probePod() *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: w.objectMeta("probe")}
	pod.Spec.Containers = w.getDeployment("shop-web").Spec.Template.Spec.Containers
	return pod
}

// labelNamespace sets or removes a label of the namespace.
func (w *world) labelNamespace(key, value string) {
	w.Helper()
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, key, value)
	ns := &corev1.Namespace{}
	ns.Name = w.NS
	w.Expect(w.Patch(w.Context(), ns, client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
}

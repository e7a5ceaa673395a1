package verbs_test

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
	"github.com/holdfast-dev/holdfast/internal/testutil/harness"
)

func TestWait(t *testing.T) {
	w := newStory(t)
	w.create("components: [{name: db, stateful: {image: \"shop/db:slow\", storage: [{name: data, mountPath: /data, size: 1Gi}]}}, {name: web, dependsOn: [db], service: {image: \"shop/web:1\"}}]")
	title := fmt.Sprintf("AppStack %s/shop", w.NS)
	a := w.run("wait", "shop", "--timeout", "60s")
	w.Expect(a.err).NotTo(HaveOccurred())
	w.Expect(a.out).To(Equal(title + " is ready: Everything runs as declared\n"))
	w.Expect(a.errOut).To(ContainSubstring(title + `: Component "web" waits for "db": `))
	lines := strings.Split(a.errOut, "\n")
	for i := range lines[1:] {
		w.Expect(lines[i+1]).NotTo(Equal(lines[i]), "message is repeated")
	}
	// Right after a change, condition Ready is still that of the previous generation.
	harness.Edit(w.World, w.stackKey(), func(s *appsapi.AppStack) { s.Spec.Components[1].Service.Image = "shop/web:slow" })
	began := time.Now()
	w.mustRun("wait", "appstack/shop", "--timeout", "60s")
	w.Expect(time.Since(began)).To(BeNumerically(">", time.Second), "the pod needs two seconds")
	w.waitReady()
	w.Expect(w.mustRun("wait", "shop", "--for", "revision=2", "--timeout", "60s")).To(Equal(title + " is at revision 2\n"))
	w.Expect(w.run("wait", "shop", "--for", "revision=1").err).To(MatchError(HavePrefix(title + " is already at revision 2")))
	w.mustRun("suspend", "shop")
	w.Expect(w.mustRun("wait", "shop", "--for", "suspended", "--timeout", "60s")).To(Equal(title + " is suspended\n"))
	w.mustRun("resume", "shop")
	a = w.runWithStderr(w.deleteStackOnWrite(), "wait", "shop", "--for", "deleted", "--timeout", "60s")
	w.Expect(a.err).NotTo(HaveOccurred())
	w.Expect(a.out).To(Equal(title + " was deleted.\n"))
	w.Expect(w.mustRun("wait", "shop", "--for", "deleted")).To(Equal("shop not found in namespace " + w.NS + ".\n"))
	w.Expect(w.run("wait", "shop").code).To(Equal(1))
}

func TestWaitTimeout(t *testing.T) {
	w := newStory(t)
	w.create("components: [{name: web, service: {image: \"shop/web:missing\"}}]")
	title := fmt.Sprintf("AppStack %s/shop", w.NS)
	const reason = `Image "shop/web:missing" does not exist in its registry`
	w.Eventually(w.readyCondition, "60s", "50ms").Should(HavePrefix("False/ComponentDegraded: " + reason))
	a := w.run("wait", "shop", "--timeout", "1s")
	w.Expect(a.code).To(Equal(2))
	w.Expect(a.errOut).To(HavePrefix(title + ": " + reason))
	w.Expect(a.errOut).To(ContainSubstring("\n" + title + " is not ready after 1s: " + reason))
	a = w.run("wait", "shop", "--timeout", "1ns") // expires before the first list
	w.Expect(a.errOut).To(ContainSubstring("\n" + title + " is not ready after 1ns: " + reason))
	a = w.run("wait", "shop", "--timeout", "0")
	w.Expect(a.code).To(Equal(2))
	w.Expect(a.errOut).To(HavePrefix(title + " is not ready: " + reason))
	a = w.runWithStderr(w.deleteStackOnWrite(), "wait", "shop", "--timeout", "60s")
	w.Expect(a.err).To(MatchError(title + " was deleted during the wait; create it again from its manifest"))
	w.Expect(a.code).To(Equal(1))
}

// TestWaitRequestBudget limits the number of requests.
func TestWaitRequestBudget(t *testing.T) {
	w := newStory(t)
	w.create("components: [{name: web, service: {image: \"shop/web:missing\"}}]")
	w.Eventually(w.readyCondition, "60s", "50ms").Should(HavePrefix("False/ComponentDegraded"))
	w.WaitIdle("shop")
	calls := w.Requests(func() { w.run("wait", "appstack", "shop", "--timeout", "4s") }).Where(func(e *audit.Event) bool {
		return strings.HasPrefix(e.UserAgent, "kubectl-holdfast/") && (e.Verb == "watch") == (e.Stage == audit.StageStarted)
	})
	w.Expect(len(calls)).To(Equal(3), "get, list and watch:\n%s", calls.Count())
}

// deleteStackOnWrite returns a writer that deletes the stack on the first write.
func (w *world) deleteStackOnWrite() io.Writer { return &deleteOnWrite{w: w} }

type deleteOnWrite struct {
	w    *world
	done bool
}

func (d *deleteOnWrite) Write(p []byte) (int, error) {
	if !d.done {
		d.w.Expect(d.w.Delete(d.w.Context(), d.w.stackKey())).To(Succeed())
		d.done = true
	}
	return len(p), nil
}

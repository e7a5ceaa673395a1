package journeys_test

import (
	"fmt"
	"io"
	"strings"
	"time"

	. "github.com/onsi/gomega"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
	"github.com/holdfast-dev/holdfast/internal/testutil/stage"
)

func init() {
	stories["wait: from nothing to gone"] = waits
	stories["wait: for what does not come"] = waitsInVain
	stories["wait: with a watch"] = waitsQuietly
}

func waits(w *world) {
	w.create("components: [{name: db, stateful: {image: \"shop/db:slow\", storage: [{name: data, mountPath: /data, size: 1Gi}]}}, {name: web, dependsOn: [db], service: {image: \"shop/web:1\"}}]")
	title := fmt.Sprintf("AppStack %s/shop", w.NS)
	a := w.plugin("wait", "shop", "--timeout", "60s")
	w.Expect(a.err).NotTo(HaveOccurred())
	w.Expect(a.out).To(Equal(title + " is ready: Everything runs as declared\n"))
	w.Expect(a.errOut).To(ContainSubstring("Waiting for " + title + `: Component "web" waits for "db": `))
	lines := strings.Split(a.errOut, "\n")
	for i := range lines[1:] {
		w.Expect(lines[i+1]).NotTo(Equal(lines[i]), "said twice")
	}
	// Right after an edit, Ready is still about what was before.
	stage.Edit(w.World, w.named(), func(s *appsapi.AppStack) { s.Spec.Components[1].Service.Image = "shop/web:slow" })
	began := time.Now()
	w.does("wait", "appstack/shop", "--timeout", "60s")
	w.Expect(time.Since(began)).To(BeNumerically(">", time.Second), "the pod needs two")
	w.becomesReady()
	w.Expect(w.does("wait", "shop", "--for", "revision=2", "--timeout", "60s")).To(Equal(title + " is at revision 2\n"))
	w.Expect(w.plugin("wait", "shop", "--for", "revision=1").err).To(MatchError(HavePrefix(title + " is at revision 2 already")))
	w.does("suspend", "shop")
	w.Expect(w.does("wait", "shop", "--for", "suspended", "--timeout", "60s")).To(Equal(title + " is suspended\n"))
	w.does("resume", "shop")
	a = w.pluginWith(w.deletion(), "wait", "shop", "--for", "deleted", "--timeout", "60s")
	w.Expect(a.err).NotTo(HaveOccurred())
	w.Expect(a.out).To(Equal(title + " is gone.\n"))
	w.Expect(w.does("wait", "shop", "--for", "deleted")).To(Equal("shop is not there in namespace " + w.NS + ".\n"))
	w.Expect(w.plugin("wait", "shop").code).To(Equal(1))
}

func waitsInVain(w *world) {
	w.create("components: [{name: web, service: {image: \"shop/web:missing\"}}]")
	title := fmt.Sprintf("AppStack %s/shop", w.NS)
	const why = `Image "shop/web:missing" does not exist in its registry`
	w.Eventually(w.ready, "60s", "50ms").Should(HavePrefix("False/ComponentDegraded: " + why))
	a := w.plugin("wait", "shop", "--timeout", "1s")
	w.Expect(a.code).To(Equal(2))
	w.Expect(a.errOut).To(HavePrefix("Waiting for " + title + ": " + why))
	w.Expect(a.errOut).To(ContainSubstring("\n" + title + " is not ready after 1s: " + why))
	a = w.plugin("wait", "shop", "--timeout", "1ns") // over before it has asked again
	w.Expect(a.errOut).To(ContainSubstring("\n" + title + " is not ready after 1ns: " + why))
	a = w.plugin("wait", "shop", "--timeout", "0")
	w.Expect(a.code).To(Equal(2))
	w.Expect(a.errOut).To(HavePrefix(title + " is not ready: " + why))
	a = w.pluginWith(w.deletion(), "wait", "shop", "--timeout", "60s")
	w.Expect(a.err).To(MatchError(title + " was deleted while it was waited for; create it again from its manifest"))
	w.Expect(a.code).To(Equal(1))
}

// waitsQuietly counts what waiting costs.
func waitsQuietly(w *world) {
	w.create("components: [{name: web, service: {image: \"shop/web:missing\"}}]")
	w.Eventually(w.ready, "60s", "50ms").Should(HavePrefix("False/ComponentDegraded"))
	w.FallsSilent("shop")
	calls := w.Requests(func() { w.plugin("wait", "appstack", "shop", "--timeout", "4s") }).Where(func(e *audit.Event) bool {
		return strings.HasPrefix(e.UserAgent, "kubectl-holdfast/") && (e.Verb == "watch") == (e.Stage == audit.StageStarted)
	})
	w.Expect(len(calls)).To(Equal(3), "get, list and watch:\n%s", calls.Count())
}

// deletion deletes the stack as soon as somebody waits for it.
func (w *world) deletion() io.Writer { return &deletion{w: w} }

type deletion struct {
	w    *world
	done bool
}

func (d *deletion) Write(p []byte) (int, error) {
	if !d.done {
		d.w.Expect(d.w.Delete(d.w.Context(), d.w.named())).To(Succeed())
		d.done = true
	}
	return len(p), nil
}

package database

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/harness"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
)

// insecureClient skips verification of the operator's self-signed metrics certificate.
var insecureClient = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // the operator signs its own certificate

const (
	healthyApps      = 200
	hangingDatabases = 20
	// editsPerRound is large enough for a meaningful p99.
	editsPerRound = 400
	// maxSlowdown is the accepted p99 ratio of healthy applications with and without unresponsive databases.
	maxSlowdown = 1.5
)

// TestHangingDatabasesDoNotSlowOthers edits healthy applications, with and without applications whose databases accept
// connections but never answer. The order without, with, with, without cancels the effect of a growing cluster.
func TestHangingDatabasesDoNotSlowOthers(t *testing.T) {
	if os.Getenv("HOLDFAST_LONG") == "" {
		t.Skip("measurement: run it alone with make test-db")
	}
	s := harness.New(t, allPodsRun, operator.Options{NoRace: true})
	w := s.NewWorld(t)
	createHealthyApps(w, healthyApps)
	baseline := measureEdits(w, 1, healthyApps, editsPerRound)
	for i := range hangingDatabases {
		w.Expect(w.Create(w.Context(), newHangingStack(w, i))).To(Succeed())
	}
	waitAllHanging(w)
	withHanging := slices.Concat(measureEdits(w, 2, healthyApps, editsPerRound), measureEdits(w, 3, healthyApps, editsPerRound))
	waitAllHanging(w)
	for i := range hangingDatabases {
		w.Expect(w.Delete(w.Context(), newHangingStack(w, i))).To(Succeed())
	}
	for i := range hangingDatabases {
		w.Eventually(func() bool { return harness.Find(w, newHangingStack(w, i)) == nil }, "90s").Should(BeTrue())
	}
	baseline = append(baseline, measureEdits(w, 4, healthyApps, editsPerRound)...)
	a, b := p99(baseline), p99(withHanging)
	t.Logf("p99 of an edit: %s without and %s with %d unresponsive databases; %d edits each", a, b, hangingDatabases, len(baseline))
	if float64(b) > maxSlowdown*float64(a) {
		t.Errorf("edits of healthy applications are %.1f times as slow, want at most %.1f", float64(b)/float64(a), maxSlowdown)
	}
}

func createHealthyApps(w *harness.World, count int) {
	w.Helper()
	for i := range count {
		w.Expect(w.Create(w.Context(), newHealthyApp(w, i))).To(Succeed())
	}
	for i := range count {
		w.WaitReady(newHealthyApp(w, i))
	}
}

func newHealthyApp(w *harness.World, i int) *appsapi.AppService {
	app := &appsapi.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: w.NS, Name: fmt.Sprintf("well-%03d", i)}}
	app.Spec.Image = "shop/web:0"
	return app
}

func newHangingStack(w *harness.World, i int) *appsapi.AppStack {
	return newStack(w.NS, fmt.Sprintf("hangs-%02d", i), "shop/mariadb:hangs", noChange)
}

func waitAllHanging(w *harness.World) {
	w.Helper()
	for i := range hangingDatabases {
		w.Eventually(func() string { return w.Condition(newHangingStack(w, i), "Ready") }, "120s").Should(ContainSubstring("DatabaseUnresponsive"))
	}
}

// measureEdits edits one application after the other and returns how long each Deployment took to get the new image.
func measureEdits(w *harness.World, number, apps, edits int) []time.Duration {
	w.Helper()
	var out []time.Duration
	for i := range edits {
		app := newHealthyApp(w, i%apps)
		image := fmt.Sprintf("shop/web:%d-%d", number, i)
		harness.Edit(w, app, func(a *appsapi.AppService) { a.Spec.Image = image })
		start := time.Now()
		d := &appsv1.Deployment{}
		for deadline := start.Add(30 * time.Second); ; {
			w.Expect(w.Get(w.Context(), client.ObjectKeyFromObject(app), d)).To(Succeed())
			if d.Spec.Template.Spec.Containers[0].Image == image {
				break
			}
			if time.Now().After(deadline) {
				w.Fatalf("%s did not get its new image within 30s", app.Name)
			}
			time.Sleep(time.Millisecond) // poll interval: 1 ms resolution
		}
		out = append(out, time.Since(start))
	}
	return out
}

func p99(durations []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(durations))
	return sorted[len(sorted)*99/100]
}

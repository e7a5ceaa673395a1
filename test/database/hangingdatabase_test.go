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

// insecureClient believes who the operator says that it is.
var insecureClient = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // it made it itself

const (
	healthyApps      = 200
	hangingDatabases = 20
	// editsPerRound are made one after the other in a round; of the slowest of a hundred it takes a few.
	editsPerRound = 400
	// maxSlowdown is how much those who are well may be slower beside those who hang.
	maxSlowdown = 1.5
)

// TestHangingDatabasesDoNotSlowOthers edits applications that are well, without and with others beside them whose
// databases accept connections and say nothing. The world gets older meanwhile, so it is without, with, with,
// without.
func TestHangingDatabasesDoNotSlowOthers(t *testing.T) {
	if os.Getenv("HOLDFAST_LONG") == "" {
		t.Skip("measures: make test-db runs it, alone")
	}
	s := harness.New(t, allPodsRun, operator.Options{NoRace: true})
	w := s.NewWorld(t)
	for i := range healthyApps {
		w.Expect(w.Create(w.Context(), newHealthyApp(w, i))).To(Succeed())
	}
	for i := range healthyApps {
		w.WaitReady(newHealthyApp(w, i))
	}
	baseline := measureEdits(w, 1)
	for i := range hangingDatabases {
		w.Expect(w.Create(w.Context(), newHangingStack(w, i))).To(Succeed())
	}
	waitAllHanging(w)
	withHanging := slices.Concat(measureEdits(w, 2), measureEdits(w, 3))
	waitAllHanging(w)
	for i := range hangingDatabases {
		w.Expect(w.Delete(w.Context(), newHangingStack(w, i))).To(Succeed())
	}
	for i := range hangingDatabases {
		w.Eventually(func() bool { return harness.Find(w, newHangingStack(w, i)) == nil }, "90s").Should(BeTrue())
	}
	baseline = append(baseline, measureEdits(w, 4)...)
	a, b := p99(baseline), p99(withHanging)
	t.Logf("p99 of an edit: %s alone, %s beside %d databases that hang; %d edits each", a, b, hangingDatabases, len(baseline))
	if float64(b) > maxSlowdown*float64(a) {
		t.Errorf("those who are well are %.1f times as slow", float64(b)/float64(a))
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

// measureEdits edits one application after the other, and says how long each took until its Deployment had
// the new image.
func measureEdits(w *harness.World, number int) []time.Duration {
	w.Helper()
	var out []time.Duration
	for i := range editsPerRound {
		app := newHealthyApp(w, i%healthyApps)
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
				w.Fatalf("%s does not get its new image", app.Name)
			}
			time.Sleep(time.Millisecond)
		}
		out = append(out, time.Since(start))
	}
	return out
}

func p99(durations []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(durations))
	return sorted[len(sorted)*99/100]
}

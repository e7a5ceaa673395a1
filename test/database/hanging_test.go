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
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
	"github.com/holdfast-dev/holdfast/internal/testutil/stage"
)

// trusting believes who the operator says that it is.
var trusting = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // it made it itself

const (
	healthy = 200
	hanging = 20
	// edits are made one after the other in a round; of the slowest of a hundred it takes a few.
	edits = 400
	// slower is how much those who are well may be slower beside those who hang.
	slower = 1.5
)

// TestHangingDatabases edits applications that are well, without and with others beside them whose
// databases accept connections and say nothing. The world gets older meanwhile, so it is without, with, with,
// without.
func TestHangingDatabases(t *testing.T) {
	if os.Getenv("HOLDFAST_LONG") == "" {
		t.Skip("measures: make test-db runs it, alone")
	}
	s := stage.New(t, allRun, operator.Options{Fast: true})
	w := s.World(t)
	for i := range healthy {
		w.Expect(w.Create(w.Context(), wellOne(w, i))).To(Succeed())
	}
	for i := range healthy {
		w.BecomesReady(wellOne(w, i))
	}
	alone := round(w, 1)
	for i := range hanging {
		w.Expect(w.Create(w.Context(), hangingOne(w, i))).To(Succeed())
	}
	stillHang(w)
	beside := slices.Concat(round(w, 2), round(w, 3))
	stillHang(w)
	for i := range hanging {
		w.Expect(w.Delete(w.Context(), hangingOne(w, i))).To(Succeed())
	}
	for i := range hanging {
		w.Eventually(func() bool { return stage.Find(w, hangingOne(w, i)) == nil }, "90s").Should(BeTrue())
	}
	alone = append(alone, round(w, 4)...)
	a, b := p99(alone), p99(beside)
	t.Logf("p99 of an edit: %s alone, %s beside %d databases that hang; %d edits each", a, b, hanging, len(alone))
	if float64(b) > slower*float64(a) {
		t.Errorf("those who are well are %.1f times as slow", float64(b)/float64(a))
	}
}

func wellOne(w *stage.World, i int) *appsapi.AppService {
	app := &appsapi.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: w.NS, Name: fmt.Sprintf("well-%03d", i)}}
	app.Spec.Image = "shop/web:0"
	return app
}

func hangingOne(w *stage.World, i int) *appsapi.AppStack {
	return stackWith(w.NS, fmt.Sprintf("hangs-%02d", i), "shop/mariadb:hangs", asItIs)
}

func stillHang(w *stage.World) {
	w.Helper()
	for i := range hanging {
		w.Eventually(func() string { return w.Condition(hangingOne(w, i), "Ready") }, "120s").Should(ContainSubstring("DatabaseSilent"))
	}
}

// round edits one application after the other, and says how long each took until its Deployment had
// the new image.
func round(w *stage.World, number int) []time.Duration {
	w.Helper()
	var out []time.Duration
	for i := range edits {
		app := wellOne(w, i%healthy)
		image := fmt.Sprintf("shop/web:%d-%d", number, i)
		stage.Edit(w, app, func(a *appsapi.AppService) { a.Spec.Image = image })
		begun := time.Now()
		d := &appsv1.Deployment{}
		for deadline := begun.Add(30 * time.Second); ; {
			w.Expect(w.Get(w.Context(), client.ObjectKeyFromObject(app), d)).To(Succeed())
			if d.Spec.Template.Spec.Containers[0].Image == image {
				break
			}
			if time.Now().After(deadline) {
				w.Fatalf("%s does not get its new image", app.Name)
			}
			time.Sleep(time.Millisecond)
		}
		out = append(out, time.Since(begun))
	}
	return out
}

func p99(of []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(of))
	return sorted[len(sorted)*99/100]
}

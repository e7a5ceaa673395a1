package faults

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
	"github.com/holdfast-dev/holdfast/test/faults/report"
)

// TestRelistStorm repeatedly expires all watches during the whole scenario while etcd is compacted: the operator must
// detect missed events with lists, above all deletions.
func TestRelistStorm(t *testing.T) {
	if !isLongRun() {
		t.Skip("takes minutes: make faults runs it; the sample of plans has relists")
	}
	t.Parallel()
	start := time.Now()
	g := newTestCluster(t, operator.Build(t, true))
	r := &reference{}
	r.learn(t, g, 2, scenario)
	w := newWorld(t, g)
	expired, compacted, failed := 0, 0, 0
	for _, s := range scenario {
		m, err := w.runStep(t.Context(), s, faultHooks{duringStep: func(ctx context.Context) error {
			all := w.proxy.OpenWatches(nil)
			for range relistCount {
				if compactEtcd(ctx, g, w) == nil { // rejected if nothing changed since the last compaction
					compacted++
				}
				expired += w.proxy.ExpireWatches(nil)
				sleep(ctx, blindPeriod/relistCount)
			}
			return w.waitForWatches(ctx, nil, all)
		}})
		if err != nil {
			t.Errorf("%s: %v", s.name, err)
			failed++
			break
		}
		if diff := r.compare(s.name, m); len(diff) > 0 {
			t.Errorf("%s: divergent:\n  %s", s.name, strings.Join(diff, "\n  "))
			failed++
		}
	}
	if expired < 100 || compacted < len(scenario) {
		t.Errorf("only %d watches expired and %d etcd compactions", expired, compacted)
	}
	report.WriteTimed(t, start, report.Row{Test: "9 relist storm", Generated: len(scenario), Run: len(scenario), Failed: failed,
		Measured: fmt.Sprintf("%d watches expired and etcd was compacted %d times during one scenario", expired, compacted)})
}

// compactEtcd compacts all revisions before the current one.
func compactEtcd(ctx context.Context, g *testCluster, w *world) error {
	var list corev1.ConfigMapList
	if err := w.List(ctx, &list); err != nil {
		return err
	}
	body := fmt.Appendf(nil, `{"revision":%q}`, list.ResourceVersion)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, g.plane.EtcdURL+"/v3/kv/compaction", bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("compact etcd: %s", response.Status)
	}
	return nil
}

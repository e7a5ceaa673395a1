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

// TestRelistStorm makes all watches expire again and again during the whole scenario, while
// etcd forgets its past: the operator has to find out from lists what it has missed,
// deletions above all.
func TestRelistStorm(t *testing.T) {
	if !long() {
		t.Skip("takes minutes: make faults runs it; the sample of plans has relists")
	}
	t.Parallel()
	start := time.Now()
	g := newGround(t, operator.Build(t, true))
	r := &reference{}
	r.learn(t, g, 2, scenario)
	w := newWorld(t, g)
	expired, compacted, failed := 0, 0, 0
	for _, s := range scenario {
		m, err := w.play(t.Context(), s, trouble{meanwhile: func(ctx context.Context) error {
			all := w.proxy.Watches(nil)
			for range relists {
				if compact(ctx, g, w) == nil { // refused when nothing has happened since
					compacted++
				}
				expired += w.proxy.Expire(nil)
				wait(ctx, blind/relists)
			}
			return w.sees(ctx, nil, all)
		}})
		if err != nil {
			t.Errorf("%s: %v", s.name, err)
			failed++
			break
		}
		if diff := r.compare(s.name, m); len(diff) > 0 {
			t.Errorf("%s is divergent:\n  %s", s.name, strings.Join(diff, "\n  "))
			failed++
		}
	}
	if expired < 100 || compacted < len(scenario) {
		t.Errorf("only %d watches expired, and etcd was compacted %d times", expired, compacted)
	}
	report.Since(t, start, report.Row{Test: "9 relist storm", Generated: len(scenario), Run: len(scenario), Failed: failed,
		Seen: fmt.Sprintf("%d watches expired and etcd was compacted %d times during one scenario", expired, compacted)})
}

// compact lets etcd forget everything before now.
func compact(ctx context.Context, g *ground, w *world) error {
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

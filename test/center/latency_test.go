package center

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/internal/center/httpapi"
	"github.com/holdfast-dev/holdfast/internal/center/model"
	"github.com/holdfast-dev/holdfast/internal/inspect/wire"
	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
)

// TestListAndTreeLatency measures lists and trees of a large cluster, and counts the requests to the API server.
func TestListAndTreeLatency(t *testing.T) {
	applications, nodes, limitFactor := 300, 100, 5 // for a small, busy machine
	if os.Getenv("HOLDFAST_LONG") != "" {
		applications, nodes, limitFactor = 10_000, 1000, 1
	}
	h := newBenchCenter(t, applications)
	h.createDeploymentWithPods(t, nodes)
	tree := "/api/v1/applications/Group/" + h.ns + "/crowd/tree"
	eventually(t, 60*time.Second, func() error {
		var a wire.Application
		if code := h.get(h.token, tree, &a); code != 200 || countNodes(a) < nodes {
			return fmt.Errorf("%d: %d nodes", code, countNodes(a))
		}
		return nil
	})
	log, err := audit.Open(h.plane.AuditLog())
	if err != nil {
		t.Fatal(err)
	}
	from, err := log.Mark(t.Context(), h.plane.Config)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, path string
		limit      time.Duration
	}{
		{"page of 50", "/api/v1/applications", 20 * time.Millisecond},
		{"sorted by health", "/api/v1/applications?sort=health", 20 * time.Millisecond},
		{"a search", "/api/v1/applications?q=shop-29", 20 * time.Millisecond},
		{fmt.Sprintf("tree of %d nodes", nodes), tree, 50 * time.Millisecond},
	} {
		var latencies []time.Duration
		for range 200 {
			start := time.Now()
			if code := h.get(h.token, tc.path, nil); code != 200 {
				t.Fatal(code)
			}
			latencies = append(latencies, time.Since(start))
		}
		slices.Sort(latencies)
		t.Logf("%-22s of %d applications: p50 %s p99 %s", tc.name, applications, ms(latencies[len(latencies)/2]), ms(latencies[len(latencies)*99/100]))
		if p99, limit := latencies[len(latencies)*99/100], tc.limit*time.Duration(limitFactor); p99 > limit {
			t.Errorf("%s: p99 is %s, want at most %s", tc.name, ms(p99), ms(limit))
		}
	}
	requests, reviews := h.centerRequests(t, log, from)
	t.Logf("800 requests caused %d requests and %d access reviews to the API server", requests, reviews)
	if requests > 0 {
		t.Errorf("%d requests", requests)
	}
	h.testPagination(t, applications)
}

// testPagination checks that each application is on exactly one page.
func (h *benchCenter) testPagination(t *testing.T, applications int) {
	seen := map[string]int{}
	for next := ""; ; {
		var list httpapi.ApplicationList
		if code := h.get(h.token, "/api/v1/applications?kind=AppStack&limit=500&continue="+next, &list); code != 200 {
			t.Fatal(code)
		}
		for _, i := range list.Items {
			seen[i.App.Name]++
		}
		if next = list.Continue; next == "" {
			break
		}
	}
	if len(seen) != applications {
		t.Errorf("%d of %d applications are on the pages", len(seen), applications)
	}
	for name, n := range seen {
		if n != 1 {
			t.Errorf("%s is on %d pages", name, n)
		}
	}
}

// createDeploymentWithPods creates a Deployment with many pods that Holdfast does not manage.
func (h *benchCenter) createDeploymentWithPods(t *testing.T, pods int) {
	ctx := t.Context()
	labels := map[string]string{"app": "crowd"}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: h.ns, Name: "crowd", Labels: map[string]string{"app.kubernetes.io/part-of": "crowd"}},
		Spec: appsv1.DeploymentSpec{Paused: true, Replicas: new(int32(0)), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "crowd:1"}}}}}}
	if err := h.api.Create(ctx, d); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	slots := make(chan struct{}, 16)
	for i := range pods {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			// Owned by the Deployment, because a ReplicaSet controller would delete surplus pods.
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: h.ns, Name: fmt.Sprint("crowd-", i), Labels: labels,
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: d.Name, UID: d.UID, Controller: new(true)}}}, Spec: d.Spec.Template.Spec}
			if err := h.api.Create(ctx, p); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	eventually(t, 60*time.Second, func() error {
		if h.Model.Get(model.Ref{Kind: "Group", Namespace: h.ns, Name: "crowd"}) == nil {
			return fmt.Errorf("the group does not exist")
		}
		return nil
	})
}

func countNodes(a wire.Application) int {
	n := 0
	var walk func([]wire.Node)
	walk = func(all []wire.Node) {
		for _, x := range all {
			n++
			walk(x.Children)
		}
	}
	for _, c := range a.Components {
		walk(c.Tree)
	}
	walk(a.Unassigned)
	return n
}

package center

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/center/authz"
	"github.com/holdfast-dev/holdfast/internal/center/httpapi"
	"github.com/holdfast-dev/holdfast/internal/center/sse"
	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/testutil"
	"github.com/holdfast-dev/holdfast/internal/testutil/controlplane"
)

// TestTenantDoesNotSlowDownOthers lists all applications as 30 ServiceAccounts of one namespace that have no
// permissions, and compares the latency of other users before and during these requests. Each of the 30 needs an
// access review for every namespace and kind.
func TestTenantDoesNotSlowDownOthers(t *testing.T) {
	namespaces, duration, minLimit := 60, 6*time.Second, 250*time.Millisecond // for a small, busy machine
	if os.Getenv("HOLDFAST_LONG") != "" {
		namespaces, duration, minLimit = 400, 70*time.Second, 0
	}
	plane := testutil.ControlPlane(t, controlplane.Options{})
	if _, err := plane.InstallCRDs("../../config/crd"); err != nil {
		t.Fatal(err)
	}
	h := startLimitedCenter(t, plane.Config, authz.Options{}, sse.Options{})
	h.fillNamespaces(t, plane.Config, namespaces)
	others := map[string]otherUser{
		"a user with access to all namespaces": {h.createUser("auditor", "team-0", map[string][]rbacv1.PolicyRule{"": allRules}), "/api/v1/applications", 50},
		"a user with access to one namespace":  {h.createUser("member", "team-0", map[string][]rbacv1.PolicyRule{"team-0": allRules[:1]}), "/api/v1/applications?namespace=team-0", 2},
	}
	var callers []string
	for i := range 30 {
		callers = append(callers, h.createUser(fmt.Sprint("caller-", i), "team-1", nil))
	}
	ended := h.openPlainStream(t, others["a user with access to one namespace"].token)

	idle := h.measureOthers(t, others, duration)
	reviews := h.Reviewer.Stats().AccessReviews
	ctx, stop := context.WithCancel(t.Context())
	flood, requests := h.listAsCallers(ctx, callers)
	busy := h.measureOthers(t, others, duration)
	for try := 1; try < maxAttempts() && slower(busy, idle, minLimit) != ""; try++ {
		busy = h.measureOthers(t, others, duration)
	}
	stop()
	flood.Wait()
	t.Logf("%d namespaces; 30 callers sent %d requests and caused %d access reviews", namespaces, requests.Load(), h.Reviewer.Stats().AccessReviews-reviews)
	for name := range others {
		t.Logf("p99 of a list of %s: %s idle, %s during the requests", name, ms(idle[name]), ms(busy[name]))
	}
	if name := slower(busy, idle, minLimit); name != "" {
		t.Errorf("lists of %s are more than twice as slow", name)
	}
	if ended.Load() {
		t.Error("the stream of another user has ended")
	}
	h.testLogLimit(t, callers[0])
}

// otherUser lists applications and expects a number of them.
type otherUser struct {
	token, path string
	items       int
}

// slower returns a user whose latency has more than doubled and is above the minimum.
func slower(busy, idle map[string]time.Duration, minLimit time.Duration) string {
	for name := range busy {
		if busy[name] > max(2*idle[name], minLimit) {
			return name
		}
	}
	return ""
}

// fillNamespaces creates namespaces with an AppService and an AppStack each.
func (h *testCenter) fillNamespaces(t *testing.T, config *rest.Config, n int) {
	t.Helper()
	config = rest.CopyConfig(config)
	config.QPS = -1
	api, err := cli.NewWatchClient(config)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	next := make(chan int)
	for range 16 {
		wg.Go(func() {
			for i := range next {
				meta := metav1.ObjectMeta{Namespace: fmt.Sprint("team-", i), Name: "shop"}
				stack, service := &appsapi.AppStack{ObjectMeta: meta}, &appsapi.AppService{ObjectMeta: meta}
				service.Spec.Image = "shop/web:1"
				if err := yaml.UnmarshalStrict([]byte(stackSpec), &stack.Spec); err != nil {
					t.Error(err)
				}
				for _, obj := range []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: meta.Namespace}}, stack, service} {
					if err := api.Create(t.Context(), obj); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
	eventually(t, 60*time.Second, func() error {
		if got := len(h.Model.All()); got < 2*n {
			return fmt.Errorf("%d of %d applications are visible", got, 2*n)
		}
		return nil
	})
}

// measureOthers returns the p99 latency of the lists of other users.
func (h *testCenter) measureOthers(t *testing.T, others map[string]otherUser, duration time.Duration) map[string]time.Duration {
	t.Helper()
	latencies := map[string][]time.Duration{}
	for deadline := time.Now().Add(duration); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		for name, user := range others {
			var list httpapi.ApplicationList
			start := time.Now()
			if code := h.get(user.token, user.path, &list); code != http.StatusOK || len(list.Items) != user.items {
				t.Fatalf("%s: %d, %d applications, want %d", name, code, len(list.Items), user.items)
			}
			latencies[name] = append(latencies[name], time.Since(start))
		}
	}
	p99 := map[string]time.Duration{}
	for name, all := range latencies {
		slices.Sort(all)
		p99[name] = all[len(all)*99/100]
	}
	return p99
}

// listAsCallers lists all applications as each caller, one request after the other, until the context ends.
func (h *testCenter) listAsCallers(ctx context.Context, tokens []string) (*sync.WaitGroup, *atomic.Int64) {
	var wg sync.WaitGroup
	var requests atomic.Int64
	for _, token := range tokens {
		wg.Go(func() {
			for ctx.Err() == nil {
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.url+"/api/v1/applications", http.NoBody)
				if err != nil {
					h.Error(err)
					return
				}
				req.Header.Set("Authorization", "Bearer "+token)
				if response, err := http.DefaultClient.Do(req); err == nil {
					_ = response.Body.Close()
					requests.Add(1)
				}
			}
		})
	}
	return &wg, &requests
}

// openPlainStream opens a stream that does not reconnect, and reports whether it has ended.
func (h *testCenter) openPlainStream(t *testing.T, token string) *atomic.Bool {
	t.Helper()
	var ended atomic.Bool
	stream := dialStream(t, h, token, "")
	go func() {
		stream.readEvents(func(int, time.Time) {}, nil)
		ended.Store(true)
	}()
	return &ended
}

// testLogLimit checks that logs count as streams of the user.
func (h *testCenter) testLogLimit(t *testing.T, token string) {
	t.Helper()
	streams := make([]*rawStreamClient, 0, 32)
	for range 32 {
		streams = append(streams, dialStream(t, h, token, ""))
	}
	eventually(t, 20*time.Second, func() error {
		if got := h.Hub.Stats().Clients; got < 33 {
			return fmt.Errorf("%d streams are open", got)
		}
		return nil
	})
	eventually(t, 20*time.Second, func() error {
		code, body := h.do(http.MethodGet, token, "/api/v1/logs/AppStack/team-0/shop?follow=true", "")
		if code != http.StatusTooManyRequests || !strings.Contains(string(body), "reached the limit of 32 open streams and logs; close one") {
			return fmt.Errorf("%d %s", code, body)
		}
		return nil
	})
	for _, s := range streams {
		_ = s.conn.Close()
	}
	eventually(t, 20*time.Second, func() error {
		if code, body := h.do(http.MethodGet, token, "/api/v1/logs/AppStack/team-0/shop?follow=true", ""); code != http.StatusForbidden {
			return fmt.Errorf("%d %s", code, body)
		}
		return nil
	})
}

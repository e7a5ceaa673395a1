package bench

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
	"github.com/holdfast-dev/holdfast/test/bench/results"
)

// measureMemory measures the memory of the operator at each size of a growing population.
func (p *population) measureMemory(sizes []int) ([]results.Figure, []results.HeapSample) {
	p.Helper()
	token := p.createMetricsReader()
	var samples []results.HeapSample
	for _, size := range sizes {
		p.growTo(size)
		heap := p.liveHeap(token) / (1 << 20)
		p.logProgress("%d use %.2f MiB of live heap", size, heap)
		samples = append(samples, results.HeapSample{Apps: size, LiveMB: heap})
	}
	p.verifyComplete(p.size)
	peakWhileGrowing, _ := residentMemory(p, p.op.Pid())
	p.must(p.op.Stop(10 * time.Second))
	p.must(p.op.Start())
	p.must(p.op.WaitReady(p.Context()))
	p.waitIdle()
	peak, now := residentMemory(p, p.op.Pid())
	slope, fit := results.HeapSlope(samples)
	const (
		must, goal = 24, 8
		resident   = 150
	)
	sizeLabel := fmt.Sprintf("at %d", p.size)
	env, limit := operator.ManifestSettings(p)
	return []results.Figure{
		results.Figure{Row: "P8", Name: "live heap per AppService", Value: slope, Unit: "KiB", Note: fmt.Sprintf("least squares over %v, live heap of a newly started operator", sizes)}.WithBounds(must, goal),
		{Row: "P8", Name: "R² of it", Value: fit, Note: "1 is a perfect fit"},
		{Row: "P8", Name: "live heap " + sizeLabel, Value: samples[len(samples)-1].LiveMB, Unit: "MiB"},
		results.Figure{Row: "P8", Name: "RSS after a start " + sizeLabel, Value: now, Unit: "MiB", Note: "as installed: " + strings.Join(env, " ")}.WithGoal(resident),
		results.Figure{Row: "P8", Name: "peak RSS of a start " + sizeLabel, Value: peak, Unit: "MiB", Note: "VmHWM; the limit is that of the installed Deployment"}.WithBounds(float64(limit)/(1<<20), resident),
		{Row: "P8", Name: "peak RSS of who made them " + sizeLabel, Value: peakWhileGrowing, Unit: "MiB", Note: "VmHWM"},
	}, samples
}

// createMetricsReader creates an account with access to metrics and returns its token.
func (p *population) createMetricsReader() string {
	p.Helper()
	name, ns := metav1.ObjectMeta{Name: "bench-scraper"}, "default"
	p.must(p.Create(p.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name.Name, Namespace: ns}}))
	p.must(p.Create(p.Context(), &rbacv1.ClusterRole{ObjectMeta: name, Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics"}}}}))
	p.must(p.Create(p.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: name, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: name.Name}},
	}))
	kube, err := kubernetes.NewForConfig(p.plane.Config)
	p.must(err)
	hours := int64(6 * 60 * 60)
	token, err := kube.CoreV1().ServiceAccounts(ns).CreateToken(p.Context(), name.Name,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &hours}}, metav1.CreateOptions{})
	p.must(err)
	return token.Status.Token
}

// liveHeap starts a second operator with frequent garbage collection and returns its live heap after a collection that
// started when it was idle.
func (p *population) liveHeap(token string) float64 {
	p.Helper()
	address, err := net.Listen("tcp", "127.0.0.1:0")
	p.must(err)
	p.must(address.Close())
	op := operator.New(p, p.plane, operator.Options{NoRace: true, Args: []string{"--metrics-address=" + address.Addr().String()}})
	op.Env = append(op.Env, "GOGC=20") // a low GOGC, so that a few dozen requests trigger a collection, also with 10,000 applications
	p.must(op.Start())
	p.must(op.WaitReady(p.Context()))
	p.waitProcessIdle(op.Pid())
	scrape := func() (cycles, live float64) {
		text := p.scrape("https://"+address.Addr().String()+"/metrics", token)
		return p.metricValue(text, "go_gc_cycles_total_gc_cycles_total"), p.metricValue(text, "go_gc_heap_live_bytes")
	}
	// Requests allocate the garbage that triggers a collection.
	first, live := scrape()
	for cycles, deadline := first, time.Now().Add(time.Minute); cycles < first+2; cycles, live = scrape() {
		if time.Now().After(deadline) {
			p.Fatal("no garbage collection during repeated metrics requests")
		}
	}
	p.must(op.Stop(10 * time.Second))
	return live
}

// scrape reads metrics. The certificate is self-signed.
func (p *population) scrape(url, token string) string {
	p.Helper()
	request, err := http.NewRequestWithContext(p.Context(), http.MethodGet, url, nil)
	p.must(err)
	request.Header.Set("Authorization", "Bearer "+token)
	httpClient := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	response, err := httpClient.Do(request)
	p.must(err)
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	p.must(err)
	if response.StatusCode != http.StatusOK {
		p.Fatalf("GET %s: %s", url, response.Status)
	}
	return string(content)
}

// metricValue returns the value of a metric without labels.
func (p *population) metricValue(text, name string) float64 {
	p.Helper()
	_, rest, ok := strings.Cut(text, "\n"+name+" ")
	if !ok {
		p.Fatalf("the operator has no metric %s", name)
	}
	value, _, _ := strings.Cut(rest, "\n")
	return parseFloat(p, value)
}

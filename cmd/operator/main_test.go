package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/holdfast-dev/holdfast/internal/testutil"
	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
	"github.com/holdfast-dev/holdfast/internal/testutil/controlplane"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
)

const (
	namespace = operator.Namespace
	user      = operator.User
)

func TestParseFlags(t *testing.T) {
	cases := map[string]struct {
		args    []string
		wantErr string
	}{
		"defaults": {},
		"all": {args: []string{"--health-address=:1", "--metrics-address=0", "--leader-elect=false",
			"--namespaces=shop,blog", "--workers=2", "--max-backoff=1m", "--v"}},
		"empty namespace": {args: []string{"--namespaces=shop,,blog"}, wantErr: "an empty name"},
		"no workers":      {args: []string{"--workers=0"}, wantErr: "--workers"},
		"unknown flag":    {args: []string{"--nope"}, wantErr: "nope"},
		"argument":        {args: []string{"start"}, wantErr: `unexpected argument "start"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := parseFlags(tc.args)
			if tc.wantErr == "" && err != nil || tc.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tc.wantErr)) {
				t.Errorf("got %v, want %q", err, tc.wantErr)
			}
		})
	}
}

// TestOperatorNeedsOnlyGrantedPermissions runs the operator with exactly the permissions that an
// installation grants.
func TestOperatorNeedsOnlyGrantedPermissions(t *testing.T) {
	g := NewWithT(t)
	plane := testutil.ControlPlane(t, controlplane.Options{Audit: true})
	client := kubernetes.NewForConfigOrDie(plane.Config)
	operator.Install(t, plane)
	kubeconfig := writeKubeconfig(t, plane)
	health, metrics := testutil.FreeAddress(t), testutil.FreeAddress(t)

	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{
			"--kubeconfig=" + kubeconfig, "--health-address=" + health, "--metrics-address=" + metrics,
			"--leader-election-namespace=" + namespace,
		})
	}()
	g.Eventually(func() string { return httpGet("http://"+health+"/healthz", "") }, "10s").Should(Equal("200 ok"))
	g.Eventually(func() string { return httpGet("http://"+health+"/readyz", "") }, "10s").Should(Equal("200 ok"))
	holder := func() string {
		lease, err := client.CoordinationV1().Leases(namespace).Get(ctx, "holdfast-operator", metav1.GetOptions{})
		if err != nil || lease.Spec.HolderIdentity == nil {
			return ""
		}
		return *lease.Spec.HolderIdentity
	}
	g.Eventually(holder, "10s").ShouldNot(BeEmpty())
	g.Eventually(func() int {
		events, err := client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return 0
		}
		return len(events.Items)
	}, "10s").Should(BeNumerically(">", 0), "leader election event")
	scrape := func(token string) func() string {
		return func() string { return httpGet("https://"+metrics+"/metrics", token) }
	}
	g.Eventually(scrape(""), "10s").Should(Equal("401 Unauthorized"))
	defaultToken, err := client.CoreV1().ServiceAccounts("default").CreateToken(ctx, "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(scrape(defaultToken.Status.Token), "10s").Should(HavePrefix("403 "))

	stop()
	g.Eventually(ended, "10s").Should(Receive(BeNil()))
	lease, err := client.CoordinationV1().Leases(namespace).Get(t.Context(), "holdfast-operator", metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(*lease.Spec.HolderIdentity).To(BeEmpty(), "the Lease must be released, so that the next replica need not wait")

	log, err := audit.Open(plane.AuditLog())
	g.Expect(err).NotTo(HaveOccurred())
	requests, err := log.Since(t.Context(), plane.Config, 0)
	g.Expect(err).NotTo(HaveOccurred())
	requests = requests.By(user)
	g.Expect(requests).NotTo(BeEmpty())
	forbidden := requests.Where(func(e *audit.Event) bool { return e.ResponseStatus.Code == http.StatusForbidden })
	g.Expect(forbidden).To(BeEmpty(), "config/rbac lacks permissions of the operator:\n%s", forbidden.Count())
}

func writeKubeconfig(t *testing.T, plane *controlplane.Plane) string {
	t.Helper()
	config, err := plane.ConfigFor(user)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(controlplane.Kubeconfig(config), file); err != nil {
		t.Fatal(err)
	}
	return file
}

// httpGet returns status code and body of a response, in one line.
func httpGet(url, token string) string {
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // self-signed, on loopback
	}}
	request, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return err.Error()
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := client.Do(request)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	body, _ := io.ReadAll(response.Body)
	return fmt.Sprintf("%d %s", response.StatusCode, strings.TrimSpace(string(body)))
}

package main

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/holdfast-dev/holdfast/internal/testutil"
)

// TestConnectionsAreLimited opens more connections than allowed. Later connections wait until idle ones are closed.
func TestConnectionsAreLimited(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	const unreachable = `{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}],
contexts: [{name: c, context: {cluster: c}}]}`
	if err := os.WriteFile(kubeconfig, []byte(unreachable), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", kubeconfig)
	address := testutil.FreeAddress(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, logr.Discard(), options{address: address, healthAddress: testutil.FreeAddress(t), maxConnections: 2})
	}()
	client := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // its certificate is self-signed at start
	}}
	page := func() error {
		response, err := client.Get("https://" + address + "/")
		if err != nil {
			return err
		}
		defer func() { _ = response.Body.Close() }()
		_, err = io.Copy(io.Discard, response.Body)
		return err
	}
	for deadline := time.Now().Add(20 * time.Second); page() != nil; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no page after 20 s: %v", page())
		}
	}
	for range 2 {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
	}
	time.Sleep(100 * time.Millisecond) // until the center has accepted them
	start := time.Now()
	if err := page(); err != nil {
		t.Error(err)
	}
	if waited := time.Since(start); waited < time.Second || waited > 15*time.Second {
		t.Errorf("with two idle connections, a request took %s; want the 5 s after which idle connections are closed", waited)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

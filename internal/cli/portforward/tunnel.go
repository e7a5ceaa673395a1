// Package portforward connects the plugin to the application center: it forwards a port of a center pod
// through the API server, as kubectl port-forward does, and authenticates as the user of the kubeconfig.
//
// Safety rule: it opens no local port, sends the token of the user only to the center pod through the API
// server and never includes the token in messages.
package portforward

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/holdfast-dev/holdfast/internal/cli"
)

const (
	selector = "app.kubernetes.io/name=holdfast,app.kubernetes.io/component=center"
	// port is the port of the center's API.
	port = "8443"
	// URL is the base URL of requests through a tunnel. The tunnel ignores the host.
	URL = "https://" + cli.CenterName
)

// Tunnel connects to one pod of the center, and to another pod if that one terminates.
type Tunnel struct {
	config    *rest.Config
	kube      kubernetes.Interface
	namespace string
	// onlyPod is the pod to connect to. Empty: any ready pod.
	onlyPod string

	mu            sync.Mutex
	pod           string
	conn          httpstream.Connection
	lastRequestID int
}

// New returns a tunnel to the center in a namespace. If pod is set, it connects only to this pod.
func New(config *rest.Config, namespace, pod string) (*Tunnel, error) {
	config = rest.CopyConfig(config)
	config.Timeout = 0 // a tunnel is a long-running request
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w; use another one with --kubeconfig or --context", err)
	}
	return &Tunnel{config: config, kube: kube, namespace: namespace, onlyPod: pod}, nil
}

// Pod returns the name of the last connected pod.
func (t *Tunnel) Pod() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.pod
}

// Open connects to a pod if the tunnel is not open yet.
func (t *Tunnel) Open(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ensureOpen(ctx)
}

// Close closes the tunnel and all its connections.
func (t *Tunnel) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closeConn()
}

func (t *Tunnel) closeConn() {
	if t.conn != nil {
		_ = t.conn.Close() // the connection is discarded anyway
		t.conn = nil
	}
}

func (t *Tunnel) ensureOpen(ctx context.Context) error {
	if t.conn != nil {
		select {
		case <-t.conn.CloseChan():
			t.closeConn()
		default:
			return nil
		}
	}
	pod, err := t.findReadyPod(ctx)
	if err != nil {
		return err
	}
	dialer, err := t.dialer(pod)
	if err != nil {
		return err
	}
	conn, _, err := dialer.Dial(portforward.PortForwardProtocolV1Name)
	if err != nil {
		return fmt.Errorf("forward a port of Pod %s/%s: %w; this requires permission to create pods/portforward in namespace %s",
			t.namespace, pod, err, t.namespace)
	}
	t.conn, t.pod = conn, pod
	return nil
}

// dialer dials as kubectl does: with WebSocket, and with SPDY if a proxy does not support WebSocket.
func (t *Tunnel) dialer(pod string) (httpstream.Dialer, error) {
	url := t.kube.CoreV1().RESTClient().Post().Resource("pods").Namespace(t.namespace).Name(pod).SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(t.config)
	if err != nil {
		return nil, err
	}
	spdyDialer := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, url)
	websocketDialer, err := portforward.NewSPDYOverWebsocketDialerForStreaming(url, t.config)
	if err != nil {
		return nil, err
	}
	return portforward.NewFallbackDialerForStreaming(websocketDialer, spdyDialer, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	}), nil
}

// findReadyPod returns the name of a ready pod.
func (t *Tunnel) findReadyPod(ctx context.Context) (string, error) {
	pods, err := t.kube.CoreV1().Pods(t.namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if apierrors.IsForbidden(err) {
		return "", fmt.Errorf(
			"find the application center: %w; this requires permission to list pods and to create pods/portforward in namespace %s",
			err, t.namespace)
	}
	if err != nil {
		return "", fmt.Errorf("find the application center: %w", cli.WithHint(err))
	}
	if len(pods.Items) == 0 {
		return "", fmt.Errorf(
			"no application center found in namespace %s; specify its namespace with --center-namespace, or install it (docs/user/center.md)",
			t.namespace)
	}
	for i := range pods.Items {
		if p := &pods.Items[i]; isReady(p) && (t.onlyPod == "" || p.Name == t.onlyPod) {
			return p.Name, nil
		}
	}
	if t.onlyPod != "" {
		return "", fmt.Errorf("center Pod %s/%s does not exist or is not ready; "+
			"run kubectl -n %s get pods -l app.kubernetes.io/component=center", t.namespace, t.onlyPod, t.namespace)
	}
	return "", fmt.Errorf("no Pod of the application center is ready; run kubectl -n %s describe pods -l app.kubernetes.io/component=center",
		t.namespace)
}

func isReady(p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// handshakeTimeout limits the TLS handshake with the center.
const handshakeTimeout = 10 * time.Second

// dial opens a connection to the center. If the pod has terminated, which often shows only when data is
// sent, it retries once with another pod.
//
// dial does not verify the certificate of the center: by default it is self-signed at each start, and a
// configured certificate is for the host name that browsers use. The path authenticates the pod instead:
// the kubeconfig authenticates the API server, which authenticates the kubelet, which connects to the
// network namespace of the pod. TLS protects the token from other processes on the node.
func (t *Tunnel) dial(ctx context.Context) (net.Conn, error) {
	tlsConfig := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true} //nolint:gosec // see above
	for retry := true; ; retry = false {
		parent, c, err := t.openStream(ctx)
		if err == nil {
			tlsConn := tls.Client(c, tlsConfig)
			handshakeCtx, cancel := context.WithTimeout(ctx, handshakeTimeout)
			err = tlsConn.HandshakeContext(handshakeCtx)
			cancel()
			if err == nil {
				return tlsConn, nil
			}
			_ = c.Close()
			t.closeIfCurrent(parent)
			err = fmt.Errorf("connect to Pod %s/%s: %w", t.namespace, c.pod, c.preferRemoteErr(err))
		}
		if parent == nil || !retry || ctx.Err() != nil {
			return nil, err
		}
	}
}

// openStream opens a connection in the tunnel and opens the tunnel if necessary. If that fails, the first
// result is nil.
func (t *Tunnel) openStream(ctx context.Context) (httpstream.Connection, *conn, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.ensureOpen(ctx); err != nil {
		return nil, nil, err
	}
	t.lastRequestID++
	parent := t.conn
	c, err := newConn(parent, t.pod, t.lastRequestID)
	if err != nil {
		t.closeConn()
		return parent, nil, fmt.Errorf("forward a port of Pod %s/%s: %w", t.namespace, t.pod, err)
	}
	return parent, c, nil
}

// closeIfCurrent closes a broken tunnel unless it was already replaced.
func (t *Tunnel) closeIfCurrent(parent httpstream.Connection) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.conn == parent {
		t.closeConn()
	}
}

// Transport returns a transport that sends all requests through the tunnel, regardless of their host.
func (t *Tunnel) Transport() *http.Transport {
	return &http.Transport{
		DialTLSContext:  func(ctx context.Context, _, _ string) (net.Conn, error) { return t.dial(ctx) },
		IdleConnTimeout: time.Minute,
	}
}

// errClosed is returned when a connection is closed twice.
var errClosed = errors.New("the connection is closed")

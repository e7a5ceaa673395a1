// Package portforward reaches the application center from where the plugin runs: through the API
// server, to the port of one of its pods, as `kubectl port-forward` does, and as the user of the
// kubeconfig.
//
// Safety rule: nothing listens on this machine, and the token of the user goes to the pod through
// the connection that the API server has checked, and nowhere else. It is in no message.
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
	// port is where pods of the center serve its API.
	port = "8443"
	// URL is that of the center, for requests that go through a tunnel: whoever is asked, it is
	// the pod at its other end.
	URL = "https://" + cli.CenterName
)

// Tunnel reaches one pod of the center, and another one when that has gone.
type Tunnel struct {
	config    *rest.Config
	kube      kubernetes.Interface
	namespace string
	// onlyPod is the only pod to go to; empty means any.
	onlyPod string

	mu            sync.Mutex
	pod           string
	conn          httpstream.Connection
	lastRequestID int
}

// New makes a tunnel to the center of a namespace; pod may name one of its pods.
func New(config *rest.Config, namespace, pod string) (*Tunnel, error) {
	config = rest.CopyConfig(config)
	config.Timeout = 0 // of a request, and a tunnel is one that lasts
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w; choose another one with --kubeconfig or --context", err)
	}
	return &Tunnel{config: config, kube: kube, namespace: namespace, onlyPod: pod}, nil
}

// Pod is the pod that was reached last.
func (t *Tunnel) Pod() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.pod
}

// Open reaches a pod, if none is reached yet.
func (t *Tunnel) Open(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ensureOpen(ctx)
}

// Close ends the tunnel and every connection in it.
func (t *Tunnel) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closeConn()
}

func (t *Tunnel) closeConn() {
	if t.conn != nil {
		_ = t.conn.Close() // it is of no use any more
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
		return fmt.Errorf("forward a port of pod %s/%s: %w; that takes the right to create pods/portforward in namespace %s", t.namespace, pod, err, t.namespace)
	}
	t.conn, t.pod = conn, pod
	return nil
}

// dialer is that of kubectl: a WebSocket, and what was there before for what does not let these
// pass.
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

// findReadyPod chooses a pod that is ready.
func (t *Tunnel) findReadyPod(ctx context.Context) (string, error) {
	pods, err := t.kube.CoreV1().Pods(t.namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if apierrors.IsForbidden(err) {
		return "", fmt.Errorf("find the application center: %w; it takes the rights to list pods and to create pods/portforward in namespace %s", err, t.namespace)
	}
	if err != nil {
		return "", fmt.Errorf("find the application center: %w", cli.WithHint(err))
	}
	if len(pods.Items) == 0 {
		return "", fmt.Errorf("there is no application center in namespace %s; say where it is with --center-namespace, or install it (docs/user/center.md)", t.namespace)
	}
	for i := range pods.Items {
		if p := &pods.Items[i]; isReady(p) && (t.onlyPod == "" || p.Name == t.onlyPod) {
			return p.Name, nil
		}
	}
	if t.onlyPod != "" {
		return "", fmt.Errorf("pod %s/%s of the application center is not there, or not ready; look: kubectl -n %s get pods -l app.kubernetes.io/component=center", t.namespace, t.onlyPod, t.namespace)
	}
	return "", fmt.Errorf("no pod of the application center is ready; look why: kubectl -n %s describe pods -l app.kubernetes.io/component=center", t.namespace)
}

func isReady(p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// handshakeTimeout is how long a center that is there may take to say so.
const handshakeTimeout = 10 * time.Second

// dial opens one more connection to the center. If its pod has gone meanwhile, which often shows
// only when it is spoken to, another one is looked for, once.
//
// The certificate of the center is not checked. By default it makes one itself at every start,
// which nobody can know; one that somebody gave it is for the name that browsers use. What stands
// for it here is the way: the kubeconfig says how the API server is known, the API server knows
// the kubelet, and that one puts the bytes into the network of the very pod that was asked for.
// TLS inside of it keeps the token from whoever reads along on the node.
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
			err = fmt.Errorf("speak to pod %s/%s: %w", t.namespace, c.pod, c.preferRemoteErr(err))
		}
		if parent == nil || !retry || ctx.Err() != nil {
			return nil, err
		}
	}
}

// openStream opens a connection in the tunnel, which it opens first if need be. Without a tunnel the
// first result is nil.
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
		return parent, nil, fmt.Errorf("forward a port of pod %s/%s: %w", t.namespace, t.pod, err)
	}
	return parent, c, nil
}

// closeIfCurrent closes a tunnel that leads nowhere, unless there is another one already.
func (t *Tunnel) closeIfCurrent(parent httpstream.Connection) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.conn == parent {
		t.closeConn()
	}
}

// Transport sends requests through the tunnel, whatever their URL says. Each stream has a
// connection of its own, as it would have without a tunnel.
func (t *Tunnel) Transport() *http.Transport {
	return &http.Transport{
		DialTLSContext:  func(ctx context.Context, _, _ string) (net.Conn, error) { return t.dial(ctx) },
		IdleConnTimeout: time.Minute,
	}
}

// errClosed is what a connection says that this side has closed.
var errClosed = errors.New("the connection is closed")

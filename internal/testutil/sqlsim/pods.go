package sqlsim

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/netip"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/mariadb"
	"github.com/holdfast-dev/holdfast/internal/testutil/hostiledb"
)

// Pods are the simulated servers of a cluster: one in every running pod of a MariaDB image.
type Pods struct {
	client   client.Client
	podCache client.Reader

	mu      sync.Mutex
	volumes map[types.UID]*Volume // by claim
	servers map[types.UID]*Server // by pod
}

// Start runs a server for every MariaDB pod until the context ends. A program outside of the cluster reaches them with
// env in its environment.
func Start(ctx context.Context, config *rest.Config) (pods *Pods, env string, err error) {
	c, err := client.New(config, client.Options{})
	if err != nil {
		return nil, "", err
	}
	podCache, err := newPodCache(ctx, config)
	if err != nil {
		return nil, "", fmt.Errorf("watch pods: %w", err)
	}
	pods = &Pods{client: c, podCache: podCache, volumes: map[types.UID]*Volume{}, servers: map[types.UID]*Server{}}
	network, err := NewNetwork(ctx, pods.Find)
	if err != nil {
		return nil, "", err
	}
	return pods, "ALL_PROXY=" + network.URL(), nil
}

// podIPField is the field selector of the API server for pods by address.
const podIPField = "status.podIP"

// newPodCache caches pods: a live list takes a tenth of a second, in which a real server accepts a hundred connections.
func newPodCache(ctx context.Context, config *rest.Config) (client.Reader, error) {
	podCache, err := cache.New(config, cache.Options{})
	if err != nil {
		return nil, err
	}
	if err := podCache.IndexField(ctx, &corev1.Pod{}, podIPField, func(o client.Object) []string { return []string{o.(*corev1.Pod).Status.PodIP} }); err != nil {
		return nil, err
	}
	go func() { _ = podCache.Start(ctx) }()
	if !podCache.WaitForCacheSync(ctx) {
		return nil, context.Cause(ctx)
	}
	return podCache, nil
}

// Find returns the server of the pod with this address. The client may know the pod before the cache does.
func (p *Pods) Find(ctx context.Context, address netip.Addr) *Server {
	for _, reader := range []client.Reader{p.podCache, p.client} {
		var pods corev1.PodList
		if err := reader.List(ctx, &pods, client.MatchingFields{podIPField: address.String()}); err != nil {
			continue
		}
		for i := range pods.Items {
			pod := &pods.Items[i]
			if pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
				return p.serverFor(ctx, pod)
			}
		}
	}
	return nil
}

func (p *Pods) serverFor(ctx context.Context, pod *corev1.Pod) *Server {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.servers[pod.UID]; s != nil {
		return s
	}
	volume := p.volumeFor(ctx, pod)
	if volume == nil {
		return nil
	}
	p.resetCredentials(ctx, pod, volume)
	_, tag, _ := strings.Cut(pod.Spec.Containers[0].Image, ":")
	s := &Server{Volume: volume, Version: "11.8.6-MariaDB", Hangs: tag == "hangs", LoadCertificate: func() (*tls.Certificate, error) {
		files := p.credentials(context.WithoutCancel(ctx), pod)
		certificate, err := tls.X509KeyPair(files[mariadb.KeyCertificate], files[mariadb.KeyPrivateKey])
		return &certificate, err
	}}
	if v, err := mariadb.ParseVersion(tag); err == nil {
		s.Version = v.String() + "-MariaDB"
	}
	if mode, ok := strings.CutPrefix(tag, hostileTag); ok {
		hostile := hostiledb.New(strings.ReplaceAll(mode, "-", " "))
		hostile.Certificate, _ = s.LoadCertificate() // without one, it attacks clients that do not require TLS
		s.Attack = hostile.ServeConn
	}
	p.servers[pod.UID] = s
	return s
}

// hostileTag starts the tag of images that attack their clients; a mode of hostiledb follows.
const hostileTag = "hostile-"

// resetCredentials does the same as the init container that resets credentials.
func (p *Pods) resetCredentials(ctx context.Context, pod *corev1.Pod, volume *Volume) {
	for _, c := range pod.Spec.InitContainers {
		for _, e := range c.Env {
			if e.Name == "RESET" {
				volume.ResetRootPassword(e.Value, string(p.credentials(ctx, pod)["root-password-hash"]))
			}
		}
	}
}

// credentials returns the credentials of a pod, from files or from a variable.
func (p *Pods) credentials(ctx context.Context, pod *corev1.Pod) map[string][]byte {
	var secret corev1.Secret
	for _, v := range pod.Spec.Volumes {
		if v.Secret != nil {
			_ = p.client.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: v.Secret.SecretName}, &secret)
		}
	}
	for _, e := range pod.Spec.Containers[0].Env {
		if e.Name == "MARIADB_ROOT_PASSWORD" && e.ValueFrom != nil {
			_ = p.client.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: e.ValueFrom.SecretKeyRef.Name}, &secret)
		}
	}
	return secret.Data
}

// Volume returns the simulated volume of a pod.
func (p *Pods) Volume(ctx context.Context, pod *corev1.Pod) *Volume {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.volumeFor(ctx, pod)
}

// VolumeOfClaim returns the simulated volume of a claim; nil if it was never used.
func (p *Pods) VolumeOfClaim(claim types.UID) *Volume {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.volumes[claim]
}

// volumeFor returns the volume of a pod. It is initialized at its first use, with the credentials of the pod.
func (p *Pods) volumeFor(ctx context.Context, pod *corev1.Pod) *Volume {
	var claim corev1.PersistentVolumeClaim
	claim.UID = pod.UID // without a claim, the data is deleted with the pod
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			claim.UID = ""
			_ = p.client.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: v.PersistentVolumeClaim.ClaimName}, &claim)
		}
	}
	if v := p.volumes[claim.UID]; v != nil {
		return v
	}
	secret := p.credentials(ctx, pod)
	if claim.UID == "" || len(secret["root-password"]) == 0 {
		return nil
	}
	user := ""
	for _, e := range pod.Spec.Containers[0].Env {
		if e.Name == "MARIADB_USER" {
			user = e.Value
		}
	}
	v := NewVolume(mariadb.Hash(string(secret["root-password"])), user, mariadb.Hash(string(secret["password"])))
	p.volumes[claim.UID] = v
	return v
}

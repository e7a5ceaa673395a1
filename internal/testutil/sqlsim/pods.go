package sqlsim

import (
	"context"
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
)

// Pods are the servers of a cluster: one in every pod that runs and is told to be a MariaDB.
type Pods struct {
	client   client.Client
	podCache client.Reader

	mu      sync.Mutex
	volumes map[types.UID]*Volume // by claim
	servers map[types.UID]*Server // by pod
}

// Start puts a server into every pod that is a MariaDB, until the context ends. With env in its environment a
// program that is not in the cluster gets to them.
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

// podIPField is a field by which the API server finds pods, and so do we.
const podIPField = "status.podIP"

// newPodCache are the pods, without asking the API server for them each time: a network does not, and a list of what is
// newest takes it a tenth of a second, in which a real server lets people in a hundred times.
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

// Find is the server of the pod with an address. Who asks may have heard of the pod before us.
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
	image := pod.Spec.Containers[0].Image
	version := "11.8.6-MariaDB"
	if v, err := mariadb.ParseVersion(image[strings.LastIndex(image, ":")+1:]); err == nil {
		version = v.String() + "-MariaDB"
	}
	s := &Server{Volume: volume, Version: version, Hangs: strings.HasSuffix(image, ":hangs")}
	p.servers[pod.UID] = s
	return s
}

// resetCredentials does what the init container does that resets credentials.
func (p *Pods) resetCredentials(ctx context.Context, pod *corev1.Pod, volume *Volume) {
	for _, c := range pod.Spec.InitContainers {
		for _, e := range c.Env {
			if e.Name == "RESET" {
				volume.ResetRootPassword(e.Value, string(p.credentials(ctx, pod)["root-password-hash"]))
			}
		}
	}
}

// credentials are those that a pod finds in files, or in a variable.
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

// Volume is what is on the volume of a pod, for tests that look behind the curtain.
func (p *Pods) Volume(ctx context.Context, pod *corev1.Pod) *Volume {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.volumeFor(ctx, pod)
}

// VolumeOfClaim is what is on the volume of a claim; nil when nobody has used it.
func (p *Pods) VolumeOfClaim(claim types.UID) *Volume {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.volumes[claim]
}

// volumeFor is set up when it is first used, with what the pod is given then.
func (p *Pods) volumeFor(ctx context.Context, pod *corev1.Pod) *Volume {
	var claim corev1.PersistentVolumeClaim
	claim.UID = pod.UID // without one, what it writes goes with it
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

package podsim

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
)

const (
	// nodeIP is from a documentation range, so that it is never reachable.
	nodeIP = "192.0.2.10"
	// heartbeatInterval and leaseSeconds are those of the kubelet.
	heartbeatInterval = 10 * time.Second
	leaseSeconds      = 40
)

// register creates the node and its lease. The namespace of leases is created a moment after the API server is ready.
func (s *Simulator) register(ctx context.Context) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		last = s.ensureNodeAndLease(ctx)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("register node %s: %w", s.node, errors.Join(err, last))
	}
	return nil
}

// heartbeat renews the lease: the node lifecycle controller marks the node as unreachable after 50 s without a renewal.
func (s *Simulator) heartbeat(ctx context.Context) {
	tick := time.NewTicker(heartbeatInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := s.ensureNodeAndLease(ctx); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Could not renew the lease", "node", s.node)
		}
	}
}

// ensureNodeAndLease ensures that the node and its lease exist and are current.
func (s *Simulator) ensureNodeAndLease(ctx context.Context) error {
	node, err := s.ensureNode(ctx)
	if err != nil {
		return fmt.Errorf("node %s: %w", s.node, err)
	}
	if err := s.renewLease(ctx, node); err != nil {
		return fmt.Errorf("lease of node %s: %w", s.node, err)
	}
	return nil
}

func (s *Simulator) ensureNode(ctx context.Context) (*corev1.Node, error) {
	nodes := s.client.CoreV1().Nodes()
	want := newNode(s.node, s.now())
	node, err := nodes.Get(ctx, s.node, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nodes.Create(ctx, want, metav1.CreateOptions{})
	}
	if err != nil || isReady(node) {
		return node, err
	}
	// The node was marked unreachable during an outage of the API server, or was created by an earlier simulator.
	node.Status = want.Status
	return nodes.UpdateStatus(ctx, node, metav1.UpdateOptions{})
}

func (s *Simulator) renewLease(ctx context.Context, node *corev1.Node) error {
	leases := s.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	now := metav1.NewMicroTime(s.now())
	lease, err := leases.Get(ctx, s.node, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = leases.Create(ctx, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: corev1.NamespaceNodeLease, Name: s.node,
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}},
			},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: new(s.node), LeaseDurationSeconds: new(int32(leaseSeconds)), RenewTime: &now},
		}, metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	lease.Spec.RenewTime = &now
	_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	return err
}

func isReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// newNode returns a node with enough resources for all pods.
func newNode(name string, now time.Time) *corev1.Node {
	capacity := corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("1000"),
		corev1.ResourceMemory:           resource.MustParse("4Ti"),
		corev1.ResourceEphemeralStorage: resource.MustParse("16Ti"),
		corev1.ResourcePods:             resource.MustParse("10k"),
	}
	condition := func(t corev1.NodeConditionType, status corev1.ConditionStatus, reason, message string) corev1.NodeCondition {
		at := truncateToSecond(now)
		return corev1.NodeCondition{Type: t, Status: status, Reason: reason, Message: message, LastHeartbeatTime: at, LastTransitionTime: at}
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
		}},
		Status: corev1.NodeStatus{
			Capacity: capacity, Allocatable: capacity.DeepCopy(),
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: nodeIP}, {Type: corev1.NodeHostName, Address: name}},
			NodeInfo: corev1.NodeSystemInfo{
				OperatingSystem: "linux", Architecture: "amd64", OSImage: "holdfast podsim",
				KubeletVersion: "v1.36.3", ContainerRuntimeVersion: "containerd://2.4.2",
			},
			Conditions: []corev1.NodeCondition{
				condition(corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
				condition(corev1.NodeDiskPressure, corev1.ConditionFalse, "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
				condition(corev1.NodePIDPressure, corev1.ConditionFalse, "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
				condition(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady", "kubelet is posting ready status"),
			},
		},
	}
}

// podRange is the address range of pods, large enough to never reuse an address.
var podRange = netip.MustParsePrefix("10.128.0.0/9")

// ipAllocator allocates the addresses of podRange in order.
type ipAllocator struct {
	mu       sync.Mutex
	lastUsed uint32
}

func (a *ipAllocator) allocate() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lastUsed++
	base := podRange.Addr().As4()
	var ip [4]byte
	binary.BigEndian.PutUint32(ip[:], binary.BigEndian.Uint32(base[:])+a.lastUsed)
	return netip.AddrFrom4(ip).String()
}

// skipUsed skips the addresses that an earlier simulator allocated.
func (a *ipAllocator) skipUsed(pods []*corev1.Pod) {
	a.mu.Lock()
	defer a.mu.Unlock()
	base := podRange.Addr().As4()
	for _, pod := range pods {
		if ip, err := netip.ParseAddr(pod.Status.PodIP); err == nil && podRange.Contains(ip) {
			b := ip.As4()
			a.lastUsed = max(a.lastUsed, binary.BigEndian.Uint32(b[:])-binary.BigEndian.Uint32(base[:]))
		}
	}
}

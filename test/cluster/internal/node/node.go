package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/holdfast-dev/holdfast/internal/testutil/controlplane"
	"github.com/holdfast-dev/holdfast/test/cluster/internal/storage"
)

// bringUpNode starts the components in the order of their dependencies; the container runtime and the images are loaded
// while the control plane starts.
func (s *supervisor) bringUpNode(ctx context.Context) error {
	listener, err := net.FileListener(os.NewFile(listenerFD, "listener"))
	if err != nil {
		return fmt.Errorf("accept the listener of the host: %w", err)
	}
	if err := setUpNetwork(ctx); err != nil {
		return err
	}
	if err := makeCgroups(s.cgroup()); err != nil {
		return fmt.Errorf("create cgroups: %w", err)
	}
	imported := make(chan struct{})
	go func() {
		defer close(imported)
		if err := s.startRuntime(ctx); err != nil {
			s.recordFailure(err)
		}
	}()
	plane := controlplane.Options{PortBase: innerAPIPort, Address: nodeAddress, ServiceRange: serviceRange}
	if err := s.bringUpControlPlane(ctx, plane); err != nil {
		return err
	}
	go forward(listener, fmt.Sprintf("127.0.0.1:%d", innerAPIPort))
	client, err := kubernetes.NewForConfig(s.plane.Config)
	if err != nil {
		return err
	}
	if err := s.startKubelet(); err != nil {
		return err
	}
	if err := s.startStorage(ctx); err != nil {
		return err
	}
	if err := s.applyAddons(ctx); err != nil {
		return err
	}
	if err := s.waitFor(ctx, "the node to be Ready", func(ctx context.Context) bool { return nodeReady(ctx, client) }); err != nil {
		return err
	}
	s.reportStep("node Ready")
	<-imported
	err = s.waitFor(ctx, "DNS to answer", func(ctx context.Context) bool { return deploymentAvailable(ctx, client, "kube-system", "coredns") })
	if err != nil {
		return err
	}
	s.reportStep("DNS ready: the first pod is running")
	return nil
}

// setUpNetwork creates the bridge of the pods. There is no route out of the namespace: pods cannot reach the network of
// the machine.
func setUpNetwork(ctx context.Context) error {
	for _, args := range []string{
		"link set lo up",
		// Without a fixed address, a bridge uses the lowest MAC address of its ports. It changes when pods are created
		// or deleted, and other pods use the old one for up to half a minute.
		"link add " + bridge + " address " + bridgeMAC + " type bridge",
		"address add " + nodeAddress + "/16 dev " + bridge,
		"link set " + bridge + " up",
		// Without this route, packets to Service addresses do not reach the rules of kube-proxy.
		"route add " + serviceRange + " dev " + bridge,
	} {
		if out, err := exec.CommandContext(ctx, "ip", strings.Fields(args)...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", args, err, out)
		}
	}
	for name, required := range map[string]bool{"ipv4/ip_forward": true, "bridge/bridge-nf-call-iptables": false} {
		err := os.WriteFile("/proc/sys/net/"+name, []byte("1"), 0o644)
		if err != nil && (required || !errors.Is(err, os.ErrNotExist)) {
			return err
		}
	}
	return nil
}

func (s *supervisor) startStorage(ctx context.Context) error {
	if err := os.MkdirAll(s.Volumes(), 0o750); err != nil {
		return err
	}
	options := storage.Options{
		Node: nodeName, KubeletRoot: s.path("kubelet"), VolumeDir: s.Volumes(),
		Config: s.plane.Config, Log: s.log.With("part", "storage"),
	}
	go func() {
		if err := storage.Run(ctx, options); err != nil {
			s.log.Error("Storage stopped", "reason", err)
			s.recordFailure(err)
		}
	}()
	return nil
}

func (s *supervisor) startKubelet() error {
	server := fmt.Sprintf("https://127.0.0.1:%d", innerAPIPort)
	err := errors.Join(
		s.plane.WriteKubeconfig("kubelet.kubeconfig", server, "system:node:"+nodeName, "system:nodes"),
		s.plane.WriteKubeconfig("kube-proxy.kubeconfig", server, "system:kube-proxy"),
		// Pods with the DNS of the node get a server that does not respond.
		os.WriteFile(s.path("resolv.conf"), []byte("nameserver 127.0.0.1\n"), 0o644),
		s.render("kubelet.yaml", kubeletConfig),
	)
	if err != nil {
		return err
	}
	return errors.Join(
		s.run("kubelet", "--config="+s.path("kubelet.yaml"), "--kubeconfig="+s.path("kubelet.kubeconfig"),
			"--root-dir="+s.path("kubelet"), "--hostname-override="+nodeName, "--node-ip="+nodeAddress),
		s.run("kube-proxy", "--kubeconfig="+s.path("kube-proxy.kubeconfig"), "--hostname-override="+nodeName,
			"--proxy-mode=iptables", "--cluster-cidr="+podRange, "--bind-address=127.0.0.1",
			"--conntrack-max-per-core=0"),
	)
}

// startRuntime starts containerd and imports the images; those of the cluster are first.
func (s *supervisor) startRuntime(ctx context.Context) error {
	err := errors.Join(
		os.MkdirAll(s.path("cni/conf"), 0o755),
		s.render("cni/conf/10-bridge.conflist", cniConfig),
		s.render("containerd.toml", containerdConfig),
	)
	if err != nil {
		return err
	}
	if err := s.run("containerd", "--config="+s.path("containerd.toml")); err != nil {
		return err
	}
	socket := s.path("containerd.sock")
	err = s.waitFor(ctx, "containerd to answer", func(ctx context.Context) bool {
		return exec.CommandContext(ctx, filepath.Join(s.Assets, "ctr"), "--address", socket, "version").Run() == nil
	})
	if err != nil {
		return err
	}
	for _, image := range s.Images {
		if err := s.Import(ctx, image); err != nil {
			return err
		}
	}
	s.reportStep("%d images imported", len(s.Images))
	return nil
}

// applyAddons applies DNS and storage classes.
func (s *supervisor) applyAddons(ctx context.Context) error {
	if err := s.render("addons.yaml", addons); err != nil {
		return err
	}
	if err := os.WriteFile(s.path("storage.yaml"), storage.Manifests, 0o644); err != nil {
		return err
	}
	admin := s.path("admin.kubeconfig")
	if err := s.plane.WriteKubeconfig("admin.kubeconfig", s.plane.Config.Host, "admin", "system:masters"); err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, filepath.Join(s.Assets, "kubectl"), "--kubeconfig="+admin, "apply", "--server-side",
		"--filename="+s.path("addons.yaml"), "--filename="+s.path("storage.yaml")).CombinedOutput()
	if err != nil {
		return fmt.Errorf("apply DNS and storage: %w: %s", err, out)
	}
	return nil
}

func nodeReady(ctx context.Context, client kubernetes.Interface) bool {
	node, err := client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
	if err != nil {
		return false
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func deploymentAvailable(ctx context.Context, client kubernetes.Interface, namespace, deployment string) bool {
	d, err := client.AppsV1().Deployments(namespace).Get(ctx, deployment, metav1.GetOptions{})
	return err == nil && d.Status.AvailableReplicas > 0
}

// waitFor polls until ok, and fails when a required component has exited.
func (s *supervisor) waitFor(ctx context.Context, description string, ok func(context.Context) bool) error {
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 90*time.Second, true,
		func(ctx context.Context) (bool, error) { return ok(ctx), s.failure() })
	if err != nil {
		return fmt.Errorf("wait for %s: %w", description, err)
	}
	return nil
}

package controlplane

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
)

func (o *Options) etcdArgs(p ports) []string {
	client, peer := "http://"+loopbackAddress(p.etcd), "http://"+loopbackAddress(p.etcdPeer)
	args := []string{
		"--name=etcd",
		"--data-dir=" + o.path("etcd"),
		"--listen-client-urls=" + client,
		"--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer,
		"--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=etcd=" + peer,
		"--log-level=warn",
	}
	if !o.Fsync {
		args = append(args, "--unsafe-no-fsync")
	}
	return append(args, o.ExtraArgs["etcd"]...)
}

func (o *Options) apiServerArgs(p ports, pki string) []string {
	args := []string{
		"--etcd-servers=http://" + loopbackAddress(p.etcd),
		"--secure-port=" + strconv.Itoa(p.api),
		"--bind-address=" + o.bindAddress(),
		"--tls-cert-file=" + pki + "/apiserver.crt",
		"--tls-private-key-file=" + pki + "/apiserver.key",
		"--client-ca-file=" + pki + "/ca.crt",
		"--kubelet-client-certificate=" + pki + "/apiserver-kubelet.crt",
		"--kubelet-client-key=" + pki + "/apiserver-kubelet.key",
		"--kubelet-preferred-address-types=InternalIP",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + pki + "/sa.key",
		"--service-account-signing-key-file=" + pki + "/sa.key",
		"--service-cluster-ip-range=" + o.ServiceRange,
		"--authorization-mode=Node,RBAC",
		"--allow-privileged=true",
		// Off by default in Kubernetes, on in OpenShift: tests must detect a missing permission to set
		// blockOwnerDeletion.
		"--enable-admission-plugins=NodeRestriction,OwnerReferencesPermissionEnforcement",
	}
	if o.Address == "" {
		// The kubernetes Service is not reachable here, and the API server rejects a loopback address: advertise a
		// documentation address and publish no endpoint.
		args = append(args, "--advertise-address=192.0.2.1", "--endpoint-reconciler-type=none")
	} else {
		args = append(args, "--advertise-address="+o.Address)
	}
	if o.Audit {
		args = append(args,
			"--audit-policy-file="+o.path("audit-policy.yaml"),
			"--audit-log-path="+o.AuditLog(),
			"--audit-log-maxsize=1000000", // megabytes; rotation would lose the start of the log
		)
	}
	return append(args, o.ExtraArgs["kube-apiserver"]...)
}

func (o *Options) controllerManagerArgs(pki string) []string {
	return append([]string{
		"--kubeconfig=" + o.path("controller-manager.kubeconfig"),
		"--service-account-private-key-file=" + pki + "/sa.key",
		"--root-ca-file=" + pki + "/ca.crt",
		"--use-service-account-credentials=true",
		"--leader-elect=false",
		"--secure-port=0",
		// With the default of 20 per second the first ServiceAccount takes 5 s on a busy machine, and 100 Deployments
		// take a minute.
		"--kube-api-qps=300",
		"--kube-api-burst=500",
	}, o.ExtraArgs["kube-controller-manager"]...)
}

func (o *Options) schedulerArgs() []string {
	return append([]string{
		"--kubeconfig=" + o.path("scheduler.kubeconfig"),
		"--leader-elect=false",
		"--secure-port=0",
		"--kube-api-qps=300",
		"--kube-api-burst=500",
	}, o.ExtraArgs["kube-scheduler"]...)
}

// servingHosts returns the hosts in the API server's certificate: loopback for tests, the advertised address for the
// node, the first Service address for pods.
func (o *Options) servingHosts() ([]string, error) {
	prefix, err := netip.ParsePrefix(o.ServiceRange)
	if err != nil {
		return nil, fmt.Errorf("service range: %w", err)
	}
	hosts := []string{
		"127.0.0.1", "localhost", prefix.Masked().Addr().Next().String(),
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
	}
	if o.Address != "" {
		hosts = append(hosts, o.Address)
	}
	return hosts, nil
}

func (o *Options) bindAddress() string {
	if o.Address == "" {
		return "127.0.0.1"
	}
	return "0.0.0.0" // in the network namespace of the node
}

func loopbackAddress(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

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
		// Off by default upstream, on in OpenShift: an operator that may not set
		// blockOwnerDeletion must fail here, not at a user's.
		"--enable-admission-plugins=NodeRestriction,OwnerReferencesPermissionEnforcement",
	}
	if o.Address == "" {
		// Nobody can reach the kubernetes Service here, and the API server refuses
		// to advertise loopback: name a documentation address, publish none.
		args = append(args, "--advertise-address=192.0.2.1", "--endpoint-reconciler-type=none")
	} else {
		args = append(args, "--advertise-address="+o.Address)
	}
	if o.Audit {
		args = append(args,
			"--audit-policy-file="+o.path("audit-policy.yaml"),
			"--audit-log-path="+o.AuditLog(),
			"--audit-log-maxsize=1000000", // megabytes; a rotated log would lose its beginning
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
		// The default of 20 per second makes the first ServiceAccount wait 5 s on a
		// busy machine, and 100 Deployments a minute.
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

// servingHosts lists what the API server's certificate must name: loopback for us,
// the advertised address for the node, the first Service address for pods.
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
	return "0.0.0.0" // in the node's own network namespace
}

func loopbackAddress(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

package controlplane

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

//go:embed audit-policy.yaml
var auditPolicy []byte

// stopGrace is the time for each process to terminate.
const stopGrace = 10 * time.Second

// Options configure a control plane. The zero value runs etcd, API server and controller-manager on free loopback ports,
// in a temporary directory.
type Options struct {
	// Assets is the directory of the binaries; empty means [Assets].
	Assets string
	// Dir is the directory for data, certificates and logs, which is kept after Stop; empty means a temporary directory
	// that Stop removes.
	Dir string
	// PortBase is the port of the API server, followed by two ports of etcd; 0 means free ports that no other control
	// plane of this machine uses.
	PortBase int
	// Address, if set, is advertised to nodes and pods, and the API server listens on all addresses. For use in a
	// separate network namespace.
	Address string
	// ServiceRange is the address range of Services; empty means 10.96.0.0/12.
	ServiceRange string
	// NoControllerManager omits the controller-manager: no garbage collection, no Deployment status.
	NoControllerManager bool
	// Scheduler runs kube-scheduler, too.
	Scheduler bool
	// Audit writes every request to AuditLog, with the bodies of writes.
	Audit bool
	// Fsync makes etcd durable, and slow, as in production.
	Fsync bool
	// ExtraArgs are appended to the arguments of a process, by its name.
	ExtraArgs map[string][]string
}

func (o *Options) path(name string) string { return filepath.Join(o.Dir, name) }

// AuditLog returns the path of the audit log.
func (o *Options) AuditLog() string { return o.path("audit.log") }

// Plane is a running control plane.
type Plane struct {
	Options

	// Config has administrator access.
	Config *rest.Config

	Etcd, APIServer              *Process
	ControllerManager, Scheduler *Process // nil if not enabled

	EtcdURL string

	// KeepDir keeps a temporary directory and its logs.
	KeepDir bool

	ca             *authority
	dirIsTemporary bool
	releasePorts   func() // releases the port locks
}

// Start starts a control plane and returns when it is usable: the API server is ready and, with a controller-manager,
// the default ServiceAccount exists, so that pods can be created.
func Start(ctx context.Context, o Options) (_ *Plane, err error) {
	p := &Plane{Options: o, releasePorts: func() {}}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Stop())
		}
	}()
	if err := p.prepare(); err != nil {
		return nil, fmt.Errorf("prepare control plane: %w", err)
	}
	p.KeepDir = true // the error refers to the logs
	// The API server retries until etcd is reachable: no need to wait in between.
	if err := errors.Join(p.Etcd.Start(), p.APIServer.Start()); err != nil {
		return nil, err
	}
	if err := p.WaitReady(ctx); err != nil {
		return nil, err
	}
	for _, process := range []*Process{p.ControllerManager, p.Scheduler} {
		if process == nil {
			continue
		}
		if err := process.Start(); err != nil {
			return nil, err
		}
	}
	if p.ControllerManager != nil {
		if err := p.waitServiceAccount(ctx); err != nil {
			return nil, err
		}
	}
	p.KeepDir = false
	return p, nil
}

func (p *Plane) prepare() error {
	if err := p.setDefaults(); err != nil {
		return err
	}
	ports, release, err := choosePorts(p.PortBase)
	if err != nil {
		return err
	}
	p.releasePorts = release
	if p.ca, err = openAuthority(p.path("pki")); err != nil {
		return err
	}
	hosts, err := p.servingHosts()
	if err != nil {
		return err
	}
	if err := p.ca.issueServingCert("apiserver", hosts); err != nil {
		return err
	}
	cert, key, err := p.ca.issueClientCert("apiserver-kubelet", "system:masters")
	if err != nil {
		return err
	}
	if err := p.ca.write("apiserver-kubelet", cert, key); err != nil {
		return err
	}
	if p.Audit {
		if err := os.WriteFile(p.path("audit-policy.yaml"), auditPolicy, 0o644); err != nil {
			return err
		}
	}
	p.EtcdURL = "http://" + loopbackAddress(ports.etcd)
	host := "https://" + loopbackAddress(ports.api)
	if p.Config, err = p.configFor(host, "admin", "system:masters"); err != nil {
		return err
	}
	return p.createProcesses(ports, host)
}

func (p *Plane) setDefaults() (err error) {
	if p.Assets == "" {
		if p.Assets, err = Assets(); err != nil {
			return err
		}
	}
	if p.Dir == "" {
		if p.Dir, err = os.MkdirTemp("", "holdfast-plane-"); err != nil {
			return err
		}
		p.dirIsTemporary = true
	}
	if p.ServiceRange == "" {
		p.ServiceRange = "10.96.0.0/12"
	}
	return os.MkdirAll(p.path("log"), 0o755)
}

func (p *Plane) createProcesses(ports ports, host string) (err error) {
	pki := p.path("pki")
	if p.Etcd, err = p.newProcess("etcd", p.etcdArgs(ports)); err != nil {
		return err
	}
	if p.APIServer, err = p.newProcess("kube-apiserver", p.apiServerArgs(ports, pki)); err != nil {
		return err
	}
	if !p.NoControllerManager {
		if err := p.WriteKubeconfig("controller-manager.kubeconfig", host, "system:kube-controller-manager"); err != nil {
			return err
		}
		if p.ControllerManager, err = p.newProcess("kube-controller-manager", p.controllerManagerArgs(pki)); err != nil {
			return err
		}
	}
	if !p.Options.Scheduler {
		return nil
	}
	if err := p.WriteKubeconfig("scheduler.kubeconfig", host, "system:kube-scheduler"); err != nil {
		return err
	}
	p.Scheduler, err = p.newProcess("kube-scheduler", p.schedulerArgs())
	return err
}

func (p *Plane) newProcess(name string, args []string) (*Process, error) {
	path, err := binaryPath(p.Assets, name)
	if err != nil {
		return nil, err
	}
	return &Process{
		Name: name, Path: path, Args: args, Log: p.path("log/" + name + ".log"),
		Env: []string{"GOGC=400"}, // test clusters are short-lived: less garbage collection saves a tenth of their CPU time
	}, nil
}

// WaitReady waits until the API server is ready, or returns why it exited.
func (p *Plane) WaitReady(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(p.Config)
	if err != nil {
		return err
	}
	return p.poll(ctx, "kube-apiserver to be ready", func(ctx context.Context) bool {
		return client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error() == nil
	})
}

func (p *Plane) waitServiceAccount(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(p.Config)
	if err != nil {
		return err
	}
	return p.poll(ctx, "the first ServiceAccount", func(ctx context.Context) bool {
		_, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err == nil
	})
}

// poll polls until done, the context ends, or a required process has exited.
func (p *Plane) poll(ctx context.Context, what string, done func(context.Context) bool) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if done(ctx) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s (logs in %s): %w", what, p.path("log"), ctx.Err())
		case <-p.Etcd.Exited():
			return p.Etcd.Failure()
		case <-p.APIServer.Exited():
			return p.APIServer.Failure()
		case <-p.ControllerManager.Exited():
			return p.ControllerManager.Failure()
		case <-tick.C:
		}
	}
}

// ConfigFor returns the access of a user with these groups, by certificate.
func (p *Plane) ConfigFor(user string, groups ...string) (*rest.Config, error) {
	return p.configFor(p.Config.Host, user, groups...)
}

func (p *Plane) configFor(host, user string, groups ...string) (*rest.Config, error) {
	cert, key, err := p.ca.issueClientCert(user, groups...)
	if err != nil {
		return nil, err
	}
	return &rest.Config{
		Host: host,
		QPS:  -1, // no client-side rate limit
		TLSClientConfig: rest.TLSClientConfig{
			CAData: p.ca.pem(), CertData: cert, KeyData: key,
		},
	}, nil
}

// WriteKubeconfig writes a kubeconfig of a user to a file below Dir.
func (p *Plane) WriteKubeconfig(name, host, user string, groups ...string) error {
	c, err := p.configFor(host, user, groups...)
	if err != nil {
		return err
	}
	return clientcmd.WriteToFile(Kubeconfig(c), p.path(name))
}

// Kubeconfig converts c to a kubeconfig.
func Kubeconfig(c *rest.Config) clientcmdapi.Config {
	const name = "holdfast-test"
	k := clientcmdapi.NewConfig()
	k.Clusters[name] = &clientcmdapi.Cluster{Server: c.Host, CertificateAuthorityData: c.CAData}
	k.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: c.CertData, ClientKeyData: c.KeyData}
	k.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	k.CurrentContext = name
	return *k
}

// InstallCRDs applies the CRDs in paths and waits until they are served.
func (p *Plane) InstallCRDs(paths ...string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	return envtest.InstallCRDs(p.Config, envtest.CRDInstallOptions{Paths: paths, ErrorIfPathMissing: true})
}

// Stop stops all processes and removes a temporary directory.
func (p *Plane) Stop() error {
	// Clients first, etcd last, so that no client waits for a stopped server.
	err := stopAll(p.Scheduler, p.ControllerManager)
	err = errors.Join(err, stopAll(p.APIServer), stopAll(p.Etcd))
	p.releasePorts()
	if p.dirIsTemporary && !p.KeepDir {
		err = errors.Join(err, os.RemoveAll(p.Dir))
	}
	return err
}

func stopAll(processes ...*Process) error {
	errs := make([]error, len(processes))
	var wg sync.WaitGroup
	for i, p := range processes {
		if p != nil {
			wg.Go(func() { errs[i] = p.Stop(stopGrace) })
		}
	}
	wg.Wait()
	return errors.Join(errs...)
}

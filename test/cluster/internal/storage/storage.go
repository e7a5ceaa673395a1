package storage

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

const (
	// DriverName is the CSI driver and the provisioner that storage classes name.
	DriverName = "loop.storage.holdfast.dev"
	// Finalizer keeps a PersistentVolume until its backing file is gone.
	Finalizer = "storage.holdfast.dev/loop-file"
)

// Manifests are the CSIDriver and the storage classes of the cluster, ready to apply.
//
//go:embed manifests.yaml
var Manifests []byte

// Options says where the node keeps things.
type Options struct {
	Node        string       // node name, e.g. "node1"
	KubeletRoot string       // kubelet --root-dir
	VolumeDir   string       // folder of the backing files
	Config      *rest.Config // admin access to the API server
	Log         *slog.Logger // nil discards
}

func (o Options) validate() error {
	switch {
	case o.Node == "":
		return errors.New("storage options: no node name")
	case !filepath.IsAbs(o.KubeletRoot):
		return fmt.Errorf("storage options: kubelet root %q is not absolute", o.KubeletRoot)
	case !filepath.IsAbs(o.VolumeDir):
		return fmt.Errorf("storage options: volume folder %q is not absolute", o.VolumeDir)
	case o.Config == nil:
		return errors.New("storage options: no access to the API server")
	}
	return nil
}

// Run serves the CSI node driver and runs the provisioner and resizer until ctx ends.
func Run(ctx context.Context, o Options) error {
	if err := o.validate(); err != nil {
		return err
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(o.VolumeDir, 0o750); err != nil {
		return fmt.Errorf("make volume folder: %w", err)
	}
	client, err := newClient(o.Config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	disk := &disk{dir: o.VolumeDir}
	ctrl, err := newController(o, client, factory, disk)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer factory.Shutdown() // waits for the informers, which end with ctx
	defer cancel()
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	if ctx.Err() != nil {
		return nil
	}
	// The sockets come after the caches: a stage call answered without them would miss a fault.
	node := &driver{node: o.Node, disk: disk, faults: ctrl.volumeFaults}
	return serveAll(ctx, o, node, ctrl)
}

// newClient raises the client-side limits: at the defaults (5 requests a second) twenty claims made at once would
// wait for us and not for the storage.
func newClient(config *rest.Config) (kubernetes.Interface, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = 200, 400
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	return client, nil
}

// serveAll opens the driver's socket before the one kubelet watches, because kubelet dials the first as soon as it
// sees the second.
func serveAll(ctx context.Context, o Options, node *driver, ctrl *controller) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()

	endpoint := filepath.Join(o.KubeletRoot, "plugins", DriverName, "csi.sock")
	csiSocket, err := listen(ctx, endpoint)
	if err != nil {
		return err
	}
	registrySocket, err := listen(ctx, filepath.Join(o.KubeletRoot, "plugins_registry", DriverName+"-reg.sock"))
	if err != nil {
		return errors.Join(err, csiSocket.Close())
	}

	failed := make(chan error, 2)
	start := func(socket net.Listener, register func(*grpc.Server)) {
		running.Go(func() { failed <- serve(ctx, o.Log, socket, register) })
	}
	start(csiSocket, func(s *grpc.Server) {
		csi.RegisterIdentityServer(s, node)
		csi.RegisterNodeServer(s, node)
	})
	start(registrySocket, func(s *grpc.Server) {
		registration.RegisterRegistrationServer(s, &registrar{endpoint: endpoint, log: o.Log})
	})
	running.Go(func() { ctrl.run(ctx) })
	o.Log.Info("Storage started", "driver", DriverName, "volumeDir", o.VolumeDir)

	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		return nil
	}
}

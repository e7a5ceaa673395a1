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
	// DriverName is the name of the CSI driver and of the provisioner in storage classes.
	DriverName = "loop.storage.holdfast.dev"
	// Finalizer keeps a PersistentVolume until its backing file is deleted.
	Finalizer = "storage.holdfast.dev/loop-file"
)

// Manifests contains the CSIDriver and the storage classes of the cluster.
//
//go:embed manifests.yaml
var Manifests []byte

// Options are the paths and the configuration of the node.
type Options struct {
	Node        string       // node name, for example node1
	KubeletRoot string       // kubelet --root-dir
	VolumeDir   string       // directory of the backing files
	Config      *rest.Config // administrator access to the API server
	Log         *slog.Logger // nil disables logging
}

func (o Options) validate() error {
	switch {
	case o.Node == "":
		return errors.New("storage options: no node name")
	case !filepath.IsAbs(o.KubeletRoot):
		return fmt.Errorf("storage options: kubelet root %q is not absolute", o.KubeletRoot)
	case !filepath.IsAbs(o.VolumeDir):
		return fmt.Errorf("storage options: volume directory %q is not absolute", o.VolumeDir)
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
		return fmt.Errorf("create volume directory: %w", err)
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
	defer factory.Shutdown() // waits for the informers, which stop with ctx
	defer cancel()
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	if ctx.Err() != nil {
		return nil
	}
	// Open the sockets after the caches are synced: a stage call would otherwise miss a fault.
	node := &driver{node: o.Node, disk: disk, faults: ctrl.volumeFaults}
	return serveAll(ctx, o, node, ctrl)
}

// newClient raises the client-side rate limit: with the default of 5 requests per second, twenty concurrent claims would
// be throttled.
func newClient(config *rest.Config) (kubernetes.Interface, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = 200, 400
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("create client: %w", err)
	}
	return client, nil
}

// serveAll opens the driver's socket first, because the kubelet connects to it as soon as it discovers the registration
// socket.
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

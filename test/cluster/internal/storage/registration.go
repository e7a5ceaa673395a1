package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// maxSocketPath is the limit of the kernel's sockaddr_un; beyond it bind only returns "invalid argument".
const maxSocketPath = 107

// registrar implements the plugin registration of the kubelet, which discovers the socket in its plugins_registry
// directory.
type registrar struct {
	registration.UnimplementedRegistrationServer
	endpoint string
	log      *slog.Logger
}

var _ registration.RegistrationServer = (*registrar)(nil)

// GetInfo returns the address of the CSI driver.
func (r *registrar) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{
		Type:              registration.CSIPlugin,
		Name:              DriverName,
		Endpoint:          r.endpoint,
		SupportedVersions: []string{"1.0.0"}, // of the CSI protocol
	}, nil
}

// NotifyRegistrationStatus logs the result. The kubelet retries a failed registration.
func (r *registrar) NotifyRegistrationStatus(_ context.Context, s *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	if s.GetPluginRegistered() {
		r.log.Info("Kubelet registered the driver", "driver", DriverName)
	} else {
		r.log.Error("Kubelet rejected the driver", "driver", DriverName, "reason", s.GetError())
	}
	return &registration.RegistrationStatusResponse{}, nil
}

// listen opens a Unix socket and replaces a leftover one of a killed node.
func listen(ctx context.Context, path string) (net.Listener, error) {
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("listen on %s: path has %d bytes, the limit is %d: choose a shorter kubelet root", path, len(path), maxSocketPath)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return nil, fmt.Errorf("create socket directory: %w", err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove old socket: %w", err)
	}
	var config net.ListenConfig
	l, err := config.Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	return l, nil
}

// serve serves l until ctx ends. It does not wait for active calls, because a switch may delay them.
func serve(ctx context.Context, log *slog.Logger, l net.Listener, register func(*grpc.Server)) error {
	server := grpc.NewServer(grpc.UnaryInterceptor(logCalls(log)))
	register(server)
	stop := context.AfterFunc(ctx, server.Stop)
	defer stop()
	if err := server.Serve(l); err != nil && ctx.Err() == nil {
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	}
	return nil
}

func logCalls(log *slog.Logger) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		began := time.Now()
		resp, err := next(ctx, req)
		args := []any{"method", info.FullMethod, "took", time.Since(began)}
		if v, ok := req.(interface{ GetVolumeId() string }); ok {
			args = append(args, "volume", v.GetVolumeId())
		}
		if err != nil {
			log.WarnContext(ctx, "Call failed", append(args, "error", err)...)
		} else {
			log.DebugContext(ctx, "Call answered", args...)
		}
		return resp, err
	}
}

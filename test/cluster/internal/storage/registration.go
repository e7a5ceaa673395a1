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

// maxSocketPath is what fits into the kernel's sockaddr_un; beyond it bind says no more than "invalid argument".
const maxSocketPath = 107

// registrar answers kubelet, which finds the registration socket in its plugins_registry folder and asks what is
// behind it.
type registrar struct {
	registration.UnimplementedRegistrationServer
	endpoint string
	log      *slog.Logger
}

var _ registration.RegistrationServer = (*registrar)(nil)

// GetInfo tells kubelet where the CSI driver listens.
func (r *registrar) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{
		Type:              registration.CSIPlugin,
		Name:              DriverName,
		Endpoint:          r.endpoint,
		SupportedVersions: []string{"1.0.0"}, // of the CSI protocol, not of ours
	}, nil
}

// NotifyRegistrationStatus hears whether kubelet took the driver. Kubelet repeats a refused registration by itself.
func (r *registrar) NotifyRegistrationStatus(_ context.Context, s *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	if s.GetPluginRegistered() {
		r.log.Info("Kubelet registered the driver", "driver", DriverName)
	} else {
		r.log.Error("Kubelet refused the driver", "driver", DriverName, "reason", s.GetError())
	}
	return &registration.RegistrationStatusResponse{}, nil
}

// listen opens a unix socket, also where a node that was killed left one behind.
func listen(ctx context.Context, path string) (net.Listener, error) {
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("listen on %s: path has %d bytes, a socket allows %d: choose a shorter kubelet root", path, len(path), maxSocketPath)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return nil, fmt.Errorf("make socket folder: %w", err)
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

// serve answers on l until ctx ends. It does not wait for calls under way: one that a switch slows down would hold up
// the end of the node.
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

package storage

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/api/resource"
)

// driver is the CSI node service. The kubelet repeats calls whose response it lost, so every call is idempotent.
type driver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedNodeServer
	node string
	disk interface {
		stage(ctx context.Context, id, fsType, target string, options []string) error
		unstage(ctx context.Context, id, target string) error
		growFilesystem(ctx context.Context, id, path string, size int64) error
	}
	faults func(volume string) (faults, error)
}

var (
	_ csi.IdentityServer = (*driver)(nil)
	_ csi.NodeServer     = (*driver)(nil)
)

// GetPluginInfo returns the name of the driver.
func (d *driver) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: DriverName, VendorVersion: "test"}, nil
}

// GetPluginCapabilities returns none: there is no CSI controller service.
func (d *driver) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	return &csi.GetPluginCapabilitiesResponse{}, nil
}

// Probe reports that the driver is ready.
func (d *driver) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{}, nil
}

// NodeGetInfo returns the content of the CSINode.
func (d *driver) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: d.node}, nil
}

// NodeGetCapabilities returns the supported calls.
func (d *driver) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	resp := &csi.NodeGetCapabilitiesResponse{}
	for _, t := range []csi.NodeServiceCapability_RPC_Type{
		csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME,
		csi.NodeServiceCapability_RPC_EXPAND_VOLUME,
		csi.NodeServiceCapability_RPC_GET_VOLUME_STATS,
	} {
		resp.Capabilities = append(resp.Capabilities, &csi.NodeServiceCapability{
			Type: &csi.NodeServiceCapability_Rpc{Rpc: &csi.NodeServiceCapability_RPC{Type: t}},
		})
	}
	return resp, nil
}

// NodeStageVolume mounts the volume once on the node.
func (d *driver) NodeStageVolume(ctx context.Context, req *csi.NodeStageVolumeRequest) (*csi.NodeStageVolumeResponse, error) {
	if err := validateRequest(req.GetVolumeId(), req.GetStagingTargetPath()); err != nil {
		return nil, err
	}
	mount := req.GetVolumeCapability().GetMount()
	if mount == nil {
		return nil, status.Error(codes.InvalidArgument, "only volumes with a filesystem are supported")
	}
	f, err := d.knownFaults(req.GetVolumeId())
	if err != nil {
		return nil, err
	}
	if err := waitForSwitch(ctx, f, SlowStage); err != nil {
		return nil, err
	}
	if msg := f.value(FailStage); msg != "" {
		return nil, status.Error(codes.Internal, msg)
	}
	fsType := mount.GetFsType()
	if fsType == "" {
		fsType = fsXFS
	}
	err = d.disk.stage(ctx, req.GetVolumeId(), fsType, req.GetStagingTargetPath(), mount.GetMountFlags())
	return &csi.NodeStageVolumeResponse{}, internalError(err)
}

// NodeUnstageVolume unmounts the volume from the node.
func (d *driver) NodeUnstageVolume(ctx context.Context, req *csi.NodeUnstageVolumeRequest) (*csi.NodeUnstageVolumeResponse, error) {
	if err := validateRequest(req.GetVolumeId(), req.GetStagingTargetPath()); err != nil {
		return nil, err
	}
	if msg := d.faultsOrNone(req.GetVolumeId()).value(FailUnstage); msg != "" {
		return nil, status.Error(codes.Internal, msg)
	}
	err := d.disk.unstage(ctx, req.GetVolumeId(), req.GetStagingTargetPath())
	return &csi.NodeUnstageVolumeResponse{}, internalError(err)
}

// NodePublishVolume mounts the staged volume into a pod.
func (d *driver) NodePublishVolume(ctx context.Context, req *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	if err := validateRequest(req.GetVolumeId(), req.GetStagingTargetPath(), req.GetTargetPath()); err != nil {
		return nil, err
	}
	f, err := d.knownFaults(req.GetVolumeId())
	if err != nil {
		return nil, err
	}
	if msg := f.value(FailPublish); msg != "" {
		return nil, status.Error(codes.Internal, msg)
	}
	err = publish(ctx, req.GetStagingTargetPath(), req.GetTargetPath(), req.GetReadonly())
	return &csi.NodePublishVolumeResponse{}, internalError(err)
}

// NodeUnpublishVolume unmounts the volume from a pod.
func (d *driver) NodeUnpublishVolume(ctx context.Context, req *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	if err := validateRequest(req.GetVolumeId(), req.GetTargetPath()); err != nil {
		return nil, err
	}
	if msg := d.faultsOrNone(req.GetVolumeId()).value(FailUnpublish); msg != "" {
		return nil, status.Error(codes.Internal, msg)
	}
	return &csi.NodeUnpublishVolumeResponse{}, internalError(unpublish(ctx, req.GetTargetPath()))
}

// NodeExpandVolume expands the filesystem. The kubelet reacts to the error code: OutOfRange, NotFound and
// InvalidArgument make the expansion infeasible, FailedPrecondition silently ends the attempts on this node, and
// Internal is retried.
func (d *driver) NodeExpandVolume(ctx context.Context, req *csi.NodeExpandVolumeRequest) (*csi.NodeExpandVolumeResponse, error) {
	if err := validateRequest(req.GetVolumeId(), req.GetVolumePath()); err != nil {
		return nil, err
	}
	f, err := d.knownFaults(req.GetVolumeId())
	if err != nil {
		return nil, err
	}
	if msg := f.value(ErrorExpandNode); msg != "" {
		return nil, status.Error(codes.Internal, msg)
	}
	size := req.GetCapacityRange().GetRequiredBytes()
	msg, err := infeasibleReason(*resource.NewQuantity(size, resource.BinarySI), f, FailExpandNode, MaxSizeNode)
	if err != nil {
		return nil, internalError(err)
	}
	if msg != "" {
		return nil, status.Error(codes.OutOfRange, msg)
	}
	err = d.disk.growFilesystem(ctx, req.GetVolumeId(), req.GetVolumePath(), size)
	if errors.Is(err, errFileTooSmall) {
		return nil, status.Error(codes.OutOfRange, err.Error())
	}
	return &csi.NodeExpandVolumeResponse{CapacityBytes: size}, internalError(err)
}

// NodeGetVolumeStats returns the same figures as df.
func (d *driver) NodeGetVolumeStats(_ context.Context, req *csi.NodeGetVolumeStatsRequest) (*csi.NodeGetVolumeStatsResponse, error) {
	if err := validateRequest(req.GetVolumeId(), req.GetVolumePath()); err != nil {
		return nil, err
	}
	var s unix.Statfs_t
	if err := unix.Statfs(req.GetVolumePath(), &s); err != nil {
		return nil, status.Errorf(codes.NotFound, "read free space of %s: %v", req.GetVolumePath(), err)
	}
	blocks := func(n uint64) int64 { return int64(n) * s.Bsize }
	return &csi.NodeGetVolumeStatsResponse{Usage: []*csi.VolumeUsage{{
		Unit:      csi.VolumeUsage_BYTES,
		Total:     blocks(s.Blocks),
		Available: blocks(s.Bavail),
		Used:      blocks(s.Blocks - s.Bfree),
	}, {
		Unit:      csi.VolumeUsage_INODES,
		Total:     int64(s.Files),
		Available: int64(s.Ffree),
		Used:      int64(s.Files - s.Ffree),
	}}}, nil
}

// knownFaults fails for a volume that is not in the cache yet, because its fault would be missed. The kubelet retries.
func (d *driver) knownFaults(volume string) (faults, error) {
	f, err := d.faults(volume)
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	return f, nil
}

// faultsOrNone accepts a volume that was deleted in the API: it must still be unmounted.
func (d *driver) faultsOrNone(volume string) faults {
	f, err := d.faults(volume)
	if err != nil {
		return nil
	}
	return f
}

// validateRequest rejects invalid requests. The ID becomes a file name, so it must not contain a path.
func validateRequest(id string, paths ...string) error {
	if id == "" || id == "." || id == ".." || filepath.Base(id) != id {
		return status.Errorf(codes.InvalidArgument, "volume id %q is not a file name", id)
	}
	for _, p := range paths {
		if !filepath.IsAbs(p) {
			return status.Errorf(codes.InvalidArgument, "path %q is not absolute", p)
		}
	}
	return nil
}

// waitForSwitch sleeps for the duration of a switch, at most until the context ends.
func waitForSwitch(ctx context.Context, f faults, key string) error {
	delay, err := f.delay(key)
	if err != nil {
		return internalError(err)
	}
	if delay <= 0 {
		return nil
	}
	select {
	case <-time.After(delay):
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}

func internalError(err error) error {
	if err == nil {
		return nil
	}
	return status.Error(codes.Internal, err.Error())
}

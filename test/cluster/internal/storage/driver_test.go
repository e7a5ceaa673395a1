package storage

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

type stubDisk struct{ err error }

func (s stubDisk) stage(context.Context, string, string, string, []string) error { return s.err }
func (s stubDisk) unstage(context.Context, string, string) error                 { return s.err }
func (s stubDisk) growFilesystem(context.Context, string, string, int64) error   { return s.err }

func callStage(ctx context.Context, d *driver) error {
	_, err := d.NodeStageVolume(ctx, &csi.NodeStageVolumeRequest{VolumeId: "vol", StagingTargetPath: "/nowhere/staged",
		VolumeCapability: &csi.VolumeCapability{AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}}}})
	return err
}

func callUnstage(ctx context.Context, d *driver) error {
	_, err := d.NodeUnstageVolume(ctx, &csi.NodeUnstageVolumeRequest{VolumeId: "vol", StagingTargetPath: "/nowhere/staged"})
	return err
}

func callPublish(ctx context.Context, d *driver) error {
	_, err := d.NodePublishVolume(ctx, &csi.NodePublishVolumeRequest{VolumeId: "vol", StagingTargetPath: "/nowhere/staged", TargetPath: "/nowhere/pod"})
	return err
}

func callUnpublish(ctx context.Context, d *driver) error {
	_, err := d.NodeUnpublishVolume(ctx, &csi.NodeUnpublishVolumeRequest{VolumeId: "vol", TargetPath: "/nowhere/pod"})
	return err
}

func callExpand(ctx context.Context, d *driver) error {
	_, err := d.NodeExpandVolume(ctx, &csi.NodeExpandVolumeRequest{VolumeId: "vol", VolumePath: "/nowhere/staged",
		CapacityRange: &csi.CapacityRange{RequiredBytes: 2 << 30}})
	return err
}

func callBlock(ctx context.Context, d *driver) error {
	_, err := d.NodeStageVolume(ctx, &csi.NodeStageVolumeRequest{VolumeId: "vol", StagingTargetPath: "/nowhere/staged",
		VolumeCapability: &csi.VolumeCapability{AccessType: &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}}})
	return err
}

func callOutside(ctx context.Context, d *driver) error {
	_, err := d.NodeUnstageVolume(ctx, &csi.NodeUnstageVolumeRequest{VolumeId: "../vol", StagingTargetPath: "/nowhere/staged"})
	return err
}

// TestDriverCodes checks the error codes, on which the kubelet's reaction depends.
func TestDriverCodes(t *testing.T) {
	set := func(name, value string) faults { return faults{{"storage.holdfast.dev/" + name: value}} }
	for name, tc := range map[string]struct {
		call    func(context.Context, *driver) error
		faults  faults
		unknown bool
		disk    error
		want    codes.Code
		wantMsg string
	}{
		"stage":                         {call: callStage, want: codes.OK},
		"stage fails by switch":         {call: callStage, faults: set("fail-stage", "disk on fire"), want: codes.Internal, wantMsg: "disk on fire"},
		"stage fails on disk":           {call: callStage, disk: errors.New("mkfs: no"), want: codes.Internal, wantMsg: "mkfs: no"},
		"stage slower than the caller":  {call: callStage, faults: set("slow-stage", "1h"), want: codes.Canceled},
		"stage of an unknown volume":    {call: callStage, unknown: true, want: codes.Unavailable},
		"stage of a block volume":       {call: callBlock, want: codes.InvalidArgument},
		"unstage":                       {call: callUnstage, want: codes.OK},
		"unstage fails by switch":       {call: callUnstage, faults: set("fail-unstage", "busy"), want: codes.Internal, wantMsg: "busy"},
		"unstage of an unknown volume":  {call: callUnstage, unknown: true, want: codes.OK},
		"ID with a path":                {call: callOutside, want: codes.InvalidArgument},
		"publish of an unstaged volume": {call: callPublish, want: codes.Internal, wantMsg: "nothing is mounted at /nowhere/staged"},
		"publish fails by switch":       {call: callPublish, faults: set("fail-publish", "no"), want: codes.Internal, wantMsg: "no"},
		"unpublish":                     {call: callUnpublish, want: codes.OK},
		"unpublish fails by switch":     {call: callUnpublish, faults: set("fail-unpublish", "busy"), want: codes.Internal, wantMsg: "busy"},
		"expand":                        {call: callExpand, want: codes.OK},
		"expand infeasible by switch":   {call: callExpand, faults: set("fail-grow-node", "too big"), want: codes.OutOfRange, wantMsg: "too big"},
		"expand beyond the limit":       {call: callExpand, faults: set("max-size-node", "1Gi"), want: codes.OutOfRange, wantMsg: "requested size 2Gi exceeds the maximum of 1Gi"},
		"expand within the limit":       {call: callExpand, faults: set("max-size-node", "2Gi"), want: codes.OK},
		"expand fails by switch":        {call: callExpand, faults: set("error-grow-node", "try later"), want: codes.Internal, wantMsg: "try later"},
		"expand beyond the file":        {call: callExpand, disk: fmt.Errorf("%w: 1 < 2", errFileTooSmall), want: codes.OutOfRange},
		"expand fails on disk":          {call: callExpand, disk: errors.New("xfs_growfs: no"), want: codes.Internal, wantMsg: "xfs_growfs: no"},
	} {
		t.Run(name, func(t *testing.T) {
			d := &driver{disk: stubDisk{tc.disk}, faults: func(string) (faults, error) {
				if tc.unknown {
					return nil, errors.New("not in the cache")
				}
				return tc.faults, nil
			}}
			ctx, cancel := context.WithCancel(t.Context())
			if tc.want == codes.Canceled {
				cancel()
			}
			defer cancel()
			s := status.Convert(tc.call(ctx, d))
			if s.Code() != tc.want || tc.wantMsg != "" && s.Message() != tc.wantMsg {
				t.Errorf("got %v %q, want %v %q", s.Code(), s.Message(), tc.want, tc.wantMsg)
			}
		})
	}
}

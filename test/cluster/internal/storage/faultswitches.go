package storage

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// SwitchPrefix is the prefix of annotations that inject faults.
const SwitchPrefix = "storage.holdfast.dev/"

// A switch is an annotation on a claim or on its StorageClass; the claim takes precedence. It applies from the next call
// on, until it is removed. An empty value or "false" disables it, so that a claim can opt out of the fault of its class.
const (
	FailProvision        = SwitchPrefix + "fail-provision"
	HangProvision        = SwitchPrefix + "hang-provision"
	FailStage            = SwitchPrefix + "fail-stage"
	SlowStage            = SwitchPrefix + "slow-stage"
	FailUnstage          = SwitchPrefix + "fail-unstage"
	FailPublish          = SwitchPrefix + "fail-publish"
	FailUnpublish        = SwitchPrefix + "fail-unpublish"
	MaxSize              = SwitchPrefix + "max-size"
	MaxSizeNode          = SwitchPrefix + "max-size-node"
	HangExpand           = SwitchPrefix + "hang-grow"
	FailExpandController = SwitchPrefix + "fail-grow-controller"
	FailExpandNode       = SwitchPrefix + "fail-grow-node"
	ErrorExpandNode      = SwitchPrefix + "error-grow-node"
	FailDelete           = SwitchPrefix + "fail-delete"
)

// Switches maps every switch to its value and effect.
var Switches = map[string]string{
	FailProvision:        `"<message>": no volume is created, event ProvisioningFailed, the claim stays Pending and is retried`,
	HangProvision:        `"true": no volume is created, without an event`,
	FailStage:            `"<message>": mounting on the node fails (Internal), the pod shows FailedMount`,
	SlowStage:            `"<duration>": mounting on the node is delayed`,
	FailUnstage:          `"<message>": unmounting on the node fails, the volume stays staged after its last pod`,
	FailPublish:          `"<message>": mounting into the pod fails (Internal), the pod shows FailedMount`,
	FailUnpublish:        `"<message>": unmounting from the pod fails, the pod stays Terminating`,
	MaxSize:              `"<quantity>": larger volumes are not provisioned, a larger expansion is infeasible until the request is lowered`,
	MaxSizeNode:          `"<quantity>": a larger expansion is infeasible on the node until the request is lowered`,
	HangExpand:           `"true": the controller never reacts to the larger request`,
	FailExpandController: `"<message>": claim status ControllerResizeInfeasible, condition ControllerResizeError, event VolumeResizeFailed`,
	FailExpandNode:       `"<message>": expansion on the node is infeasible (OutOfRange), kubelet reports NodeResizeInfeasible`,
	ErrorExpandNode:      `"<message>": expansion on the node fails (Internal), kubelet retries`,
	FailDelete:           `"<message>": the PV stays Released, event VolumeFailedDelete; copied to the PV when the claim is deleted`,
}

// faults are the annotations for one volume, in order of precedence.
type faults []map[string]string

// value returns the value of a switch, "" if it is off.
func (f faults) value(key string) string {
	for _, annotations := range f {
		v, ok := annotations[key]
		if !ok {
			continue
		}
		if v == "false" {
			return ""
		}
		return v
	}
	return ""
}

// delay returns the value of a switch with a duration.
func (f faults) delay(key string) (time.Duration, error) {
	v := f.value(key)
	if v == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(v)
	if err != nil {
		return 0, fmt.Errorf("read switch %s: %w", key, err)
	}
	return d, nil
}

// exceeds returns why size exceeds the limit of a switch, or "".
func (f faults) exceeds(key string, size resource.Quantity) (string, error) {
	v := f.value(key)
	if v == "" {
		return "", nil
	}
	limit, err := resource.ParseQuantity(v)
	if err != nil {
		return "", fmt.Errorf("read switch %s: %w", key, err)
	}
	if size.Cmp(limit) <= 0 {
		return "", nil
	}
	return fmt.Sprintf("requested size %s exceeds the maximum of %s", size.String(), limit.String()), nil
}

// unknownSwitches returns unknown annotations with the prefix. A misspelled switch would otherwise let a test pass
// without the fault.
func unknownSwitches(annotations map[string]string) []string {
	var unknown []string
	for key := range annotations {
		if _, ok := Switches[key]; !ok && strings.HasPrefix(key, SwitchPrefix) {
			unknown = append(unknown, key)
		}
	}
	slices.Sort(unknown)
	return unknown
}

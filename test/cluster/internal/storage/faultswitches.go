package storage

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// SwitchPrefix begins every annotation that provokes a fault.
const SwitchPrefix = "storage.holdfast.dev/"

// A switch is an annotation on a claim or on its StorageClass; the claim wins. It works from the next call on, and
// removing it ends the fault. An empty value or "false" is off, which lets one claim opt out of its class's fault.
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

// Switches maps every switch to its value and meaning.
var Switches = map[string]string{
	FailProvision:        `"<message>": no volume is made, event ProvisioningFailed, the claim stays Pending and is retried`,
	HangProvision:        `"true": no volume is made and nothing is said`,
	FailStage:            `"<message>": mounting on the node fails (Internal), the pod shows FailedMount`,
	SlowStage:            `"<duration>": mounting on the node takes that much longer`,
	FailUnstage:          `"<message>": unmounting on the node fails, the volume stays staged after its last pod`,
	FailPublish:          `"<message>": mounting into the pod fails (Internal), the pod shows FailedMount`,
	FailUnpublish:        `"<message>": unmounting from the pod fails, the pod stays Terminating`,
	MaxSize:              `"<quantity>": larger volumes are not provisioned, larger growth is infeasible until the request is lowered`,
	MaxSizeNode:          `"<quantity>": larger growth turns out to be infeasible on the node, until the request is lowered`,
	HangExpand:           `"true": the controller never reacts to the larger request`,
	FailExpandController: `"<message>": claim status ControllerResizeInfeasible, condition ControllerResizeError, event VolumeResizeFailed`,
	FailExpandNode:       `"<message>": growing on the node is impossible (OutOfRange), kubelet reports NodeResizeInfeasible`,
	ErrorExpandNode:      `"<message>": growing on the node fails (Internal), kubelet retries`,
	FailDelete:           `"<message>": the PV stays Released, event VolumeFailedDelete; once the claim is gone the switch lives on the PV`,
}

// faults are the annotations that speak for one volume, the most specific object first.
type faults []map[string]string

// value returns the setting of a switch, "" when it is off.
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

// delay reads a switch that holds a duration.
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

// exceeds says why size is more than a switch allows, or "".
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
	return fmt.Sprintf("requested size %s is larger than the possible %s", size.String(), limit.String()), nil
}

// unknownSwitches finds annotations with our prefix that mean nothing. A misspelt switch would otherwise let a test
// pass without the fault it is about.
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

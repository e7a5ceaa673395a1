package main

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/test/cluster/internal/storage"
)

const faultMessage = "the disk is broken on request"

// testStorageFaults injects a fault, checks its effect, removes it and waits for the recovery. The unmount faults are
// tested in the package: a deleted pod shows nothing.
func testStorageFaults(t *testing.T, c *testCluster) {
	const (
		resizeStatus = "get pvc data --output=jsonpath={.status.allocatedResourceStatuses.storage}"
		events       = "get events --output=jsonpath={range.items[*]}{.reason}:{.message}{\"\\n\"}{end}"
	)
	cases := map[string]struct {
		phase       string // phase of the fault: start, grow or delete
		value       string // value of the switch, if not a message
		kubectlArgs string
		want        string
	}{
		storage.FailProvision:        {phase: "start", kubectlArgs: events, want: "ProvisioningFailed:"},
		storage.HangProvision:        {phase: "start", value: "true", kubectlArgs: events, want: "ExternalProvisioning:"},
		storage.FailStage:            {phase: "start", kubectlArgs: events, want: "FailedMount:MountVolume.MountDevice failed"},
		storage.FailPublish:          {phase: "start", kubectlArgs: events, want: "FailedMount:MountVolume.SetUp failed"},
		storage.HangExpand:           {phase: "grow", value: "true", kubectlArgs: events, want: "ExternalExpanding:"},
		storage.MaxSize:              {phase: "grow", value: "500Mi", kubectlArgs: resizeStatus, want: "ControllerResizeInfeasible"},
		storage.MaxSizeNode:          {phase: "grow", value: "500Mi", kubectlArgs: resizeStatus, want: "NodeResizeInfeasible"},
		storage.FailExpandController: {phase: "grow", kubectlArgs: resizeStatus, want: "ControllerResizeInfeasible"},
		storage.FailExpandNode:       {phase: "grow", kubectlArgs: resizeStatus, want: "NodeResizeInfeasible"},
		storage.ErrorExpandNode:      {phase: "grow", kubectlArgs: events, want: faultMessage},
		storage.FailDelete:           {phase: "delete", kubectlArgs: events, want: "VolumeFailedDelete:"},
	}
	for key, tc := range cases {
		name := strings.TrimPrefix(key, storage.SwitchPrefix)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := c.inNamespace(t, name)
			value := cmp.Or(tc.value, faultMessage)
			manifest := strings.Replace(readTestdata(t, "claim.yaml"), "metadata: {name: data}",
				fmt.Sprintf("metadata: {name: data, annotations: {%s: %q}}", key, value), 1)
			c.apply(t, manifest)
			args := strings.Fields(tc.kubectlArgs)
			removeFault := func() { c.kubectl(t, "annotate", "pvc", "data", key+"-") }
			switch tc.phase {
			case "start":
				c.waitForOutput(t, time.Minute, tc.want, args...)
				c.waitForOutput(t, time.Second, "Pending", "get", "pod", "writer", "--output=jsonpath={.status.phase}")
				removeFault()
				c.waitForOutput(t, time.Minute, "Running", "get", "pod", "writer")
			case "grow":
				c.waitForOutput(t, time.Minute, "Running", "get", "pod", "writer")
				c.kubectl(t, "patch", "pvc", "data", "--patch", `{"spec":{"resources":{"requests":{"storage":"600Mi"}}}}`)
				c.waitForOutput(t, 90*time.Second, tc.want, args...)
				c.waitForOutput(t, time.Second, "400Mi", "get", "pvc", "data", "--output=jsonpath={.status.capacity.storage}")
				removeFault()
				c.waitForOutput(t, 90*time.Second, "600Mi", "get", "pvc", "data", "--output=jsonpath={.status.capacity.storage}")
			case "delete":
				testFailDelete(t, c, key, tc.want)
			}
		})
	}
}

// testFailDelete checks that a volume without a claim stays until the fault is removed.
func testFailDelete(t *testing.T, c *testCluster, key, want string) {
	c.waitForOutput(t, time.Minute, "Running", "get", "pod", "writer")
	volume := c.kubectl(t, "get", "pvc", "data", "--output=jsonpath={.spec.volumeName}")
	c.waitForOutput(t, 10*time.Second, faultMessage, "get", "pv", volume, "--output=jsonpath={.metadata.annotations}")
	c.kubectl(t, "delete", "pod/writer", "pvc/data")
	c.waitForOutput(t, time.Minute, want, "get", "events", "--all-namespaces", "--field-selector=involvedObject.name="+volume,
		"--output=jsonpath={range.items[*]}{.reason}:{.message}{end}")
	c.waitForOutput(t, time.Second, "Released", "get", "pv", volume, "--output=jsonpath={.status.phase}")
	c.kubectl(t, "annotate", "pv", volume, key+"-")
	eventually(t, time.Minute, func() error {
		if out, err := c.tryKubectl("get", "pv", volume, "--ignore-not-found"); err != nil || out != "" {
			return fmt.Errorf("volume not deleted: %s, %w", out, err)
		}
		return nil
	})
}

package main

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/test/cluster/internal/storage"
)

const brokenDisk = "the disk is broken as told"

// testStorageFaults switches a fault on, sees it where a user would, switches it off
// and sees it heal. The two about unmounting have their test in the package itself: a
// pod that is gone shows nothing.
func testStorageFaults(t *testing.T, c *cluster) {
	const (
		onClaim = "get pvc data --output=jsonpath={.status.allocatedResourceStatuses.storage}"
		events  = "get events --output=jsonpath={range.items[*]}{.reason}:{.message}{\"\\n\"}{end}"
	)
	cases := map[string]struct {
		at    string // when the fault is met: start, grow or delete
		value string // of the switch, if not a text
		see   string
		want  string
	}{
		storage.FailProvision:      {at: "start", see: events, want: "ProvisioningFailed:"},
		storage.HangProvision:      {at: "start", value: "true", see: events, want: "ExternalProvisioning:"},
		storage.FailStage:          {at: "start", see: events, want: "FailedMount:MountVolume.MountDevice failed"},
		storage.FailPublish:        {at: "start", see: events, want: "FailedMount:MountVolume.SetUp failed"},
		storage.HangGrow:           {at: "grow", value: "true", see: events, want: "ExternalExpanding:"},
		storage.MaxSize:            {at: "grow", value: "500Mi", see: onClaim, want: "ControllerResizeInfeasible"},
		storage.MaxSizeNode:        {at: "grow", value: "500Mi", see: onClaim, want: "NodeResizeInfeasible"},
		storage.FailGrowController: {at: "grow", see: onClaim, want: "ControllerResizeInfeasible"},
		storage.FailGrowNode:       {at: "grow", see: onClaim, want: "NodeResizeInfeasible"},
		storage.ErrorGrowNode:      {at: "grow", see: events, want: brokenDisk},
		storage.FailDelete:         {at: "delete", see: events, want: "VolumeFailedDelete:"},
	}
	for key, tc := range cases {
		name := strings.TrimPrefix(key, storage.SwitchPrefix)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := c.in(t, name)
			value := cmp.Or(tc.value, brokenDisk)
			manifest := strings.Replace(testdata(t, "claim.yaml"), "metadata: {name: data}",
				fmt.Sprintf("metadata: {name: data, annotations: {%s: %q}}", key, value), 1)
			c.apply(t, manifest)
			see := strings.Fields(tc.see)
			heal := func() { c.kubectl(t, "annotate", "pvc", "data", key+"-") }
			switch tc.at {
			case "start":
				c.shows(t, time.Minute, tc.want, see...)
				c.shows(t, time.Second, "Pending", "get", "pod", "writer", "--output=jsonpath={.status.phase}")
				heal()
				c.shows(t, time.Minute, "Running", "get", "pod", "writer")
			case "grow":
				c.shows(t, time.Minute, "Running", "get", "pod", "writer")
				c.kubectl(t, "patch", "pvc", "data", "--patch", `{"spec":{"resources":{"requests":{"storage":"600Mi"}}}}`)
				c.shows(t, 90*time.Second, tc.want, see...)
				c.shows(t, time.Second, "400Mi", "get", "pvc", "data", "--output=jsonpath={.status.capacity.storage}")
				heal()
				c.shows(t, 90*time.Second, "600Mi", "get", "pvc", "data", "--output=jsonpath={.status.capacity.storage}")
			case "delete":
				testFailDelete(t, c, key, tc.want)
			}
		})
	}
}

// testFailDelete keeps a volume whose claim is gone until the fault ends.
func testFailDelete(t *testing.T, c *cluster, key, want string) {
	c.shows(t, time.Minute, "Running", "get", "pod", "writer")
	volume := c.kubectl(t, "get", "pvc", "data", "--output=jsonpath={.spec.volumeName}")
	c.shows(t, 10*time.Second, brokenDisk, "get", "pv", volume, "--output=jsonpath={.metadata.annotations}")
	c.kubectl(t, "delete", "pod/writer", "pvc/data")
	c.shows(t, time.Minute, want, "get", "events", "--all-namespaces", "--field-selector=involvedObject.name="+volume,
		"--output=jsonpath={range.items[*]}{.reason}:{.message}{end}")
	c.shows(t, time.Second, "Released", "get", "pv", volume, "--output=jsonpath={.status.phase}")
	c.kubectl(t, "annotate", "pv", volume, key+"-")
	eventually(t, time.Minute, func() error {
		if out, err := c.try("get", "pv", volume, "--ignore-not-found"); err != nil || out != "" {
			return fmt.Errorf("volume is still there: %s, %w", out, err)
		}
		return nil
	})
}

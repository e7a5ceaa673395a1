package storage

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestSwitchPrecedence(t *testing.T) {
	const key = "storage.holdfast.dev/fail-stage"
	set := func(value string) map[string]string { return map[string]string{key: value} }
	for name, tc := range map[string]struct {
		claim, volume, class map[string]string
		want                 string
	}{
		"nowhere":                            {want: ""},
		"on the class":                       {class: set("class"), want: "class"},
		"on the volume":                      {volume: set("volume"), class: set("class"), want: "volume"},
		"on the claim":                       {claim: set("claim"), volume: set("volume"), class: set("class"), want: "claim"},
		"claim opts out with an empty value": {claim: set(""), class: set("class"), want: ""},
		"claim opts out with false":          {claim: set("false"), class: set("class"), want: ""},
		"other annotation on the claim":      {claim: map[string]string{"a": "b"}, class: set("class"), want: "class"},
		"other switch is ignored":            {claim: map[string]string{"storage.holdfast.dev/fail-publish": "x"}, want: ""},
		"false on the class":                 {class: set("false"), want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			claim, volume, class := &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}, &storagev1.StorageClass{}
			claim.Annotations, volume.Annotations, class.Annotations = tc.claim, tc.volume, tc.class
			if got := collectFaults(claim, volume, class).value(key); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
	if got := collectFaults(nil, nil, nil).value(key); got != "" {
		t.Errorf("no objects: got %q, want an empty value", got)
	}
}

func TestDelay(t *testing.T) {
	for name, tc := range map[string]struct {
		value   string
		want    time.Duration
		wantErr bool
	}{
		"off":     {value: ""},
		"seconds": {value: "10s", want: 10 * time.Second},
		"no unit": {value: "10", wantErr: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := faults{{SlowStage: tc.value}}.delay(SlowStage)
			if got != tc.want || (err != nil) != tc.wantErr {
				t.Errorf("got %v, %v, want %v, error %v", got, err, tc.want, tc.wantErr)
			}
		})
	}
}

func TestExceeds(t *testing.T) {
	for name, tc := range map[string]struct {
		max, size, want string
		wantErr         bool
	}{
		"off":          {size: "1Ti"},
		"below":        {max: "2Gi", size: "1Gi"},
		"equal":        {max: "2Gi", size: "2048Mi"},
		"above":        {max: "2Gi", size: "3Gi", want: "requested size 3Gi exceeds the maximum of 2Gi"},
		"not a number": {max: "plenty", size: "1Gi", wantErr: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := faults{{"storage.holdfast.dev/max-size": tc.max}}.exceeds(MaxSize, resource.MustParse(tc.size))
			if got != tc.want || (err != nil) != tc.wantErr {
				t.Errorf("got %q, %v, want %q, error %v", got, err, tc.want, tc.wantErr)
			}
		})
	}
}

func TestUnknownSwitches(t *testing.T) {
	got := unknownSwitches(map[string]string{
		"storage.holdfast.dev/fail-stage": "x",
		"storage.holdfast.dev/fial-stage": "x",
		"storage.holdfast.dev/broken":     "x",
		"example.com/fail-stage":          "x",
	})
	want := []string{"storage.holdfast.dev/broken", "storage.holdfast.dev/fial-stage"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unknown switches (-want +got):\n%s", diff)
	}
}

// TestSwitchNames checks the annotation names that other tests use.
func TestSwitchNames(t *testing.T) {
	want := "error-grow-node fail-delete fail-grow-controller fail-grow-node fail-provision fail-publish fail-stage " +
		"fail-unpublish fail-unstage hang-grow hang-provision max-size max-size-node slow-stage"
	for _, name := range strings.Fields(want) {
		if Switches["storage.holdfast.dev/"+name] == "" {
			t.Errorf("switch %s is missing from the table", name)
		}
	}
	if got, want := len(Switches), len(strings.Fields(want)); got != want {
		t.Errorf("got %d switches, want %d", got, want)
	}
}

package storage

import (
	"bytes"
	"context"
	"strings"
	"testing"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// TestManifests checks what other tests depend on: class names, the default class, and which classes allow expansion.
func TestManifests(t *testing.T) {
	grows := map[string]bool{"standard": true, "local-path": true, "fixed": false, "ext4": true}
	for _, doc := range bytes.Split(Manifests, []byte("\n---\n")) {
		var meta metav1.TypeMeta
		must(t, yaml.Unmarshal(doc, &meta))
		if meta.Kind == "CSIDriver" {
			var driver storagev1.CSIDriver
			must(t, yaml.UnmarshalStrict(doc, &driver))
			if driver.Name != "loop.storage.holdfast.dev" || *driver.Spec.AttachRequired || *driver.Spec.FSGroupPolicy != storagev1.FileFSGroupPolicy {
				t.Errorf("driver %s: got %+v", driver.Name, driver.Spec)
			}
			continue
		}
		var class storagev1.StorageClass
		must(t, yaml.UnmarshalStrict(doc, &class))
		want, known := grows[class.Name]
		delete(grows, class.Name)
		if !known || *class.AllowVolumeExpansion != want || class.Provisioner != "loop.storage.holdfast.dev" ||
			*class.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer || *class.ReclaimPolicy != "Delete" {
			t.Errorf("class %s: got %+v", class.Name, class)
		}
		if isDefault := class.Annotations["storageclass.kubernetes.io/is-default-class"] == "true"; isDefault != (class.Name == "standard") {
			t.Errorf("class %s: default %v", class.Name, isDefault)
		}
	}
	for name := range grows {
		t.Errorf("class %s is missing", name)
	}
}

func TestRunRefusesBadOptions(t *testing.T) {
	good := Options{Node: "node1", KubeletRoot: "/kubelet", VolumeDir: "/volumes", Config: &rest.Config{}}
	for name, tc := range map[string]struct {
		edit func(*Options)
		want string
	}{
		"no node":                   {func(o *Options) { o.Node = "" }, "no node name"},
		"relative kubelet root":     {func(o *Options) { o.KubeletRoot = "kubelet" }, `kubelet root "kubelet" is not absolute`},
		"relative volume directory": {func(o *Options) { o.VolumeDir = "" }, `volume directory "" is not absolute`},
		"no access":                 {func(o *Options) { o.Config = nil }, "no access to the API server"},
	} {
		t.Run(name, func(t *testing.T) {
			o := good
			tc.edit(&o)
			if err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got error %v, want one with %q", err, tc.want)
			}
		})
	}
}

func TestListen(t *testing.T) {
	path := t.TempDir() + "/plugins/csi.sock"
	for range 2 { // the second call finds the leftover socket of a killed node
		l, err := listen(t.Context(), path)
		must(t, err)
		t.Cleanup(func() { _ = l.Close() })
	}
	_, err := listen(context.Background(), "/"+strings.Repeat("x", 200)+"/csi.sock")
	if err == nil || !strings.Contains(err.Error(), "choose a shorter kubelet root") {
		t.Errorf("long path: got error %v, want one with advice", err)
	}
}

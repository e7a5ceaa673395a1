package desired

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// KindConfigMap is the kind of the ConfigMap with the files of a component.
var KindConfigMap = corev1.SchemeGroupVersion.WithKind("ConfigMap")

const (
	// filesVolume is the name of the volume with the files of the spec.
	filesVolume     = "holdfast-files"
	maxConfigMapKey = 253
)

// configFilesName returns the name of the ConfigMap with the files of a component. The name contains a hash of
// the content: pods of the previous revision keep their ConfigMap, even if they restart while the rollout of the
// new revision fails. With rollOnChange false the name is constant: pods that start later get the new content.
func configFilesName(name string, config appsapi.ConfigSettings) string {
	if !rollsOnChange(config) {
		return name + "-files"
	}
	var content []byte
	for _, f := range config.Files {
		content = fmt.Appendf(content, "%d:%s%d:%s", len(f.Path), f.Path, len(f.Content), f.Content)
	}
	return name + "-files-" + digest(content)[:10]
}

func rollsOnChange(config appsapi.ConfigSettings) bool {
	return config.RollOnChange == nil || *config.RollOnChange
}

// configFilesMap returns the ConfigMap with the files of a component.
func configFilesMap(owner Owner, c ExpandedComponent, name string, config appsapi.ConfigSettings) Child {
	id := ID{Kind: KindConfigMap, Name: configFilesName(name, config)}
	return Child{ID: id, Render: func(runtime.Object) (*Config, error) {
		m := corev1ac.ConfigMap(id.Name, owner.Namespace).
			WithLabels(childLabels(owner, c)).
			WithOwnerReferences(ownerReferenceConfig(owner))
		keys := fileKeys(config.Files)
		for i, f := range config.Files {
			m.WithData(map[string]string{keys[i]: f.Content})
		}
		if rollsOnChange(config) {
			m.WithImmutable(true)
		}
		return newConfig(owner.Keys, m, m.ObjectMetaApplyConfiguration)
	}}
}

var invalidKeyChars = regexp.MustCompile(`[^-._a-zA-Z0-9]`)

// fileKeys returns a readable and unique ConfigMap key for each file.
func fileKeys(files []appsapi.ConfigFile) []string {
	keys, count := make([]string, len(files)), map[string]int{}
	for i, f := range files {
		keys[i] = shortenTo(invalidKeyChars.ReplaceAllString(strings.TrimPrefix(f.Path, "/"), "_"), maxConfigMapKey)
		count[keys[i]]++
	}
	for i, f := range files {
		if count[keys[i]] > 1 {
			keys[i] = shortenTo(keys[i], maxConfigMapKey-11) + "." + digest([]byte(f.Path))[:10]
		}
	}
	return keys
}

// mountFiles mounts each file separately with a subPath, so that other files of the image in the same directory
// stay visible.
func mountFiles(pod *corev1ac.PodSpecApplyConfiguration, main *corev1ac.ContainerApplyConfiguration, name string, config appsapi.ConfigSettings) {
	if len(config.Files) == 0 {
		return
	}
	pod.WithVolumes(corev1ac.Volume().WithName(filesVolume).
		WithConfigMap(corev1ac.ConfigMapVolumeSource().WithName(configFilesName(name, config))))
	keys := fileKeys(config.Files)
	for i, f := range config.Files {
		main.WithVolumeMounts(corev1ac.VolumeMount().WithName(filesVolume).WithMountPath(f.Path).WithSubPath(keys[i]).WithReadOnly(true))
	}
}

// validateMountPaths rejects paths that are used twice.
func validateMountPaths(p appsapi.PodSettings) error {
	paths := map[string]string{}
	for _, v := range p.Volumes {
		paths[v.MountPath] = fmt.Sprintf("volume %q", v.Name)
	}
	for _, f := range p.Config.Files {
		if other, used := paths[f.Path]; used {
			return fmt.Errorf("config.files contains %s, where %s is mounted; use another path for one of them", f.Path, other)
		}
		paths[f.Path] = "a file"
	}
	for _, f := range p.Config.Files {
		for dir := path.Dir(f.Path); dir != "/"; dir = path.Dir(dir) {
			if paths[dir] == "a file" {
				return fmt.Errorf("config.files contains %s and %s, but %s cannot be both a file and a directory; "+
					"use another path for one of them", dir, f.Path, dir)
			}
		}
	}
	for _, v := range p.Volumes {
		for dir := path.Dir(v.MountPath); dir != "/"; dir = path.Dir(dir) {
			if paths[dir] == "a file" {
				return fmt.Errorf("config.files contains %s, and volume %q is mounted at %s, but %s cannot be both a file and a directory; "+
					"use another path for one of them", dir, v.Name, v.MountPath, dir)
			}
		}
	}
	return nil
}

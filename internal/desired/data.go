package desired

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/mariadb"
)

// authSuffix is appended to the name of the StatefulSet to get the name of the Secret with the credentials.
const authSuffix = "-auth"

// StatefulData are the volumes and credentials of a component.
type StatefulData struct {
	// Retained are the existing claims and credentials.
	Retained []RetainedObject
	// Conflict describes why the component must not start; running pods are not stopped.
	Conflict string
	// StartsEmpty is set if Conflict matters only while the component has no StatefulSet.
	StartsEmpty bool
	Storage     []appsapi.StorageSpec
	// Credentials are the credentials of the component.
	Credentials []Credential
	// Secret is the name of the Secret with the credentials.
	Secret string
	// ServerName is the name in the certificate of a database server, which does not change when the component is
	// renamed; "" for other components.
	ServerName string
	// Replicas is the desired number of pods; nil leaves the number unchanged.
	Replicas *int32
	// OrphanedReplicas is the number of pods without a StatefulSet.
	OrphanedReplicas int32
}

// Claim returns the claim with the given name, or nil.
func (d *StatefulData) Claim(name string) *corev1.PersistentVolumeClaim {
	for _, k := range d.Retained {
		if k.ID == (ID{Kind: KindClaim, Name: name}) {
			return k.Claim
		}
	}
	return nil
}

// HasClaims reports whether a claim exists.
func (d *StatefulData) HasClaims() bool {
	for _, k := range d.Retained {
		if k.Claim != nil {
			return true
		}
	}
	return false
}

// HasSecret reports whether the Secret with the credentials exists.
func (d *StatefulData) HasSecret() bool {
	for _, k := range d.Retained {
		if k.ID == (ID{Kind: KindSecret, Name: d.Secret}) {
			return true
		}
	}
	return false
}

// RequiredKeys returns the required keys of the Secret, separated by commas.
func (d *StatefulData) RequiredKeys() string {
	var keys []string
	for _, c := range d.Credentials {
		keys = append(keys, c.Key)
		if c.File != "" {
			keys = append(keys, mariadb.HashKey(c.Key))
		}
	}
	if d.ServerName != "" {
		keys = append(keys, mariadb.KeyCertificate, mariadb.KeyPrivateKey, mariadb.KeyCA)
	}
	return strings.Join(keys, ",")
}

// SecretComplete reports whether the Secret is known to have all required keys.
func (d *StatefulData) SecretComplete() bool {
	for _, k := range d.Retained {
		if k.ID == (ID{Kind: KindSecret, Name: d.Secret}) {
			return k.GetAnnotations()[k.keys.CredentialKeys] == d.RequiredKeys()
		}
	}
	return false
}

// ClaimName returns the name that Kubernetes gives the claim of a pod.
func ClaimName(storage, set string, ordinal int32) string {
	return ClaimPrefix(storage, set) + strconv.Itoa(int(ordinal))
}

// ClaimPrefix returns the common prefix of the claims of all pods.
func ClaimPrefix(storage, set string) string { return storage + "-" + set + "-" }

// ReplicasFromPods returns the replicas of a StatefulSet from the ordinals of its remaining pods.
func ReplicasFromPods(pods []*corev1.Pod) int32 {
	var count int32
	for _, p := range pods {
		ordinal, err := strconv.ParseInt(p.Name[strings.LastIndex(p.Name, "-")+1:], 10, 32)
		if err == nil && p.DeletionTimestamp == nil {
			count = max(count, int32(ordinal)+1)
		}
	}
	return count
}

// AccessMode returns the access mode of a volume.
func AccessMode(s appsapi.StorageSpec) corev1.PersistentVolumeAccessMode {
	if s.AccessMode == "" {
		return corev1.ReadWriteOnce
	}
	return s.AccessMode
}

// claimTemplates returns the volume claim templates. They are immutable except for the size, so they have no
// labels: Kubernetes adds the labels of the selector, and the operator adds the owner labels to the claims.
func claimTemplates(storage []appsapi.StorageSpec) []*corev1ac.PersistentVolumeClaimApplyConfiguration {
	var out []*corev1ac.PersistentVolumeClaimApplyConfiguration
	for _, s := range storage {
		spec := corev1ac.PersistentVolumeClaimSpec().
			WithAccessModes(AccessMode(s)).
			WithResources(corev1ac.VolumeResourceRequirements().WithRequests(corev1.ResourceList{corev1.ResourceStorage: s.Size}))
		spec.StorageClassName = s.ClassName
		claim := corev1ac.PersistentVolumeClaim("", "").WithSpec(spec)
		claim.Namespace = nil
		out = append(out, claim.WithName(s.Name))
	}
	return out
}

// mountStorage mounts the storage volumes in the main container and returns the names of the volumes. The pod
// template does not contain these volumes, because the StatefulSet adds them to its pods.
func mountStorage(pod *corev1ac.PodSpecApplyConfiguration, main *corev1ac.ContainerApplyConfiguration, c *appsapi.StatefulComponent) []string {
	if c.Security.FSGroup != nil {
		// Changing the group of every file at every start would delay pods with large volumes by minutes.
		pod.SecurityContext.WithFSGroupChangePolicy(corev1.FSGroupChangeOnRootMismatch)
	}
	for i := range pod.TopologySpreadConstraints {
		pod.TopologySpreadConstraints[i].MatchLabelKeys = nil // only pods of Deployments have the label pod-template-hash
	}
	names := make([]string, 0, len(c.Storage))
	for _, s := range c.Storage {
		main.WithVolumeMounts(corev1ac.VolumeMount().WithName(s.Name).WithMountPath(s.MountPath))
		names = append(names, s.Name)
	}
	return names
}

// credentialEnv returns the environment variables with the credentials.
func credentialEnv(c *appsapi.StatefulComponent, set string) []corev1.EnvVar {
	var out []corev1.EnvVar
	for _, p := range c.Credentials {
		if p.Env == "" {
			continue
		}
		out = append(out, corev1.EnvVar{Name: p.Env, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: set + authSuffix}, Key: p.Key}}})
	}
	return out
}

// validateStorage validates the volumes of a component.
func validateStorage(c *appsapi.StatefulComponent) error {
	for _, s := range c.Storage {
		if s.Size.Cmp(resource.Quantity{}) <= 0 {
			return fmt.Errorf("storage %q has size %s; the size must be greater than 0, for example 20Gi", s.Name, s.Size.String())
		}
		if s.Name == filesVolume {
			return fmt.Errorf("storage %q has the reserved name of the volume for config.files; use another name", s.Name)
		}
		for _, v := range c.Volumes {
			if v.Name == s.Name {
				return fmt.Errorf("volumes and storage both contain %q; use another name for one of them", s.Name)
			}
			if v.MountPath == s.MountPath {
				return fmt.Errorf("volume %q and storage %q are both mounted at %s; use another path for one of them", v.Name, s.Name, s.MountPath)
			}
		}
		for _, f := range c.Config.Files {
			if strings.HasPrefix(s.MountPath, f.Path+"/") {
				return fmt.Errorf("config.files contains %s, and storage %q is mounted at %s, but %s cannot be both a file and a directory; "+
					"use another path for one of them", f.Path, s.Name, s.MountPath, f.Path)
			}
			if f.Path == s.MountPath {
				return fmt.Errorf("config.files contains %s, where storage %q is mounted; use another path for one of them", f.Path, s.Name)
			}
		}
	}
	return nil
}

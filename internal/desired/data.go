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

// authSuffix makes the name of the Secret with the credentials of that of the StatefulSet.
const authSuffix = "-auth"

// Data is what is kept of a component.
type Data struct {
	// Retained is what there is of it.
	Retained []RetainedObject
	// Conflict is why the component must not start, if it does not run.
	Conflict string
	Storage  []appsapi.StorageSpec
	// Credentials are in the Secret of that name; without any there is none.
	Credentials []appsapi.Credential
	Secret      string
	// Replicas is how many pods there are to be; nil leaves it as it is.
	Replicas *int32
	// OrphanedReplicas is how many pods there are without a StatefulSet.
	OrphanedReplicas int32
}

// Claim is what there is of a claim.
func (d *Data) Claim(name string) *corev1.PersistentVolumeClaim {
	for _, k := range d.Retained {
		if k.ID == (ID{Kind: KindClaim, Name: name}) {
			return k.Claim
		}
	}
	return nil
}

// HasClaims says whether there is data.
func (d *Data) HasClaims() bool {
	for _, k := range d.Retained {
		if k.Claim != nil {
			return true
		}
	}
	return false
}

// HasSecret says whether there are credentials.
func (d *Data) HasSecret() bool {
	for _, k := range d.Retained {
		if k.ID == (ID{Kind: KindSecret, Name: d.Secret}) {
			return true
		}
	}
	return false
}

// RequiredKeys are those that the Secret has to have, in one word.
func (d *Data) RequiredKeys() string {
	var keys []string
	for _, c := range d.Credentials {
		keys = append(keys, c.Key)
		if c.File != "" {
			keys = append(keys, mariadb.HashKey(c.Key))
		}
	}
	return strings.Join(keys, ",")
}

// SecretComplete says whether the Secret is known to have all of them.
func (d *Data) SecretComplete() bool {
	for _, k := range d.Retained {
		if k.ID == (ID{Kind: KindSecret, Name: d.Secret}) {
			return k.GetAnnotations()[appsapi.AnnotationCredentialKeys] == d.RequiredKeys()
		}
	}
	return false
}

// ClaimName is what Kubernetes calls the claim of a pod.
func ClaimName(storage, set string, ordinal int32) string {
	return ClaimPrefix(storage, set) + strconv.Itoa(int(ordinal))
}

// ClaimPrefix is what the claims of all pods begin with.
func ClaimPrefix(storage, set string) string { return storage + "-" + set + "-" }

// ReplicasFromPods is how many pods a set had, by the numbers of those that are left of it.
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

// AccessMode is who may use a volume at once.
func AccessMode(s appsapi.StorageSpec) corev1.PersistentVolumeAccessMode {
	if s.AccessMode == "" {
		return corev1.ReadWriteOnce
	}
	return s.AccessMode
}

// claimTemplates are what the claims of new pods are made of. Nothing in them may change,
// apart from the size, so they have no labels: Kubernetes gives claims those of the selector,
// and who owns them is written on them later.
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

// mountStorage shows the volumes of a StatefulSet, which adds them to its pods itself, and
// returns their names.
func mountStorage(pod *corev1ac.PodSpecApplyConfiguration, main *corev1ac.ContainerApplyConfiguration, c *appsapi.StatefulComponent) []string {
	if c.Security.FSGroup != nil {
		// Not every file at every start: a large volume would keep its pod for minutes.
		pod.SecurityContext.WithFSGroupChangePolicy(corev1.FSGroupChangeOnRootMismatch)
	}
	for i := range pod.TopologySpreadConstraints {
		pod.TopologySpreadConstraints[i].MatchLabelKeys = nil // only pods of Deployments have it
	}
	names := make([]string, 0, len(c.Storage))
	for _, s := range c.Storage {
		main.WithVolumeMounts(corev1ac.VolumeMount().WithName(s.Name).WithMountPath(s.MountPath))
		names = append(names, s.Name)
	}
	return names
}

// credentialEnv are the environment variables that a container finds passwords in.
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

// validateStorage is what is wrong with the volumes of a component.
func validateStorage(c *appsapi.StatefulComponent) error {
	for _, s := range c.Storage {
		if s.Size.Cmp(resource.Quantity{}) <= 0 {
			return fmt.Errorf("storage %q has a size of %s; a volume has a size of more than 0, for example 20Gi", s.Name, s.Size.String())
		}
		if s.Name == filesVolume {
			return fmt.Errorf("storage %q has the name of the volume with config.files; choose another name", s.Name)
		}
		for _, v := range c.Volumes {
			if v.Name == s.Name {
				return fmt.Errorf("volumes and storage both have %q; choose another name for one of them", s.Name)
			}
			if v.MountPath == s.MountPath {
				return fmt.Errorf("volume %q and storage %q are both mounted at %s; choose another path for one of them", v.Name, s.Name, s.MountPath)
			}
		}
		for _, f := range c.Config.Files {
			if f.Path == s.MountPath {
				return fmt.Errorf("config.files has %s, where storage %q is mounted; choose another path for one of them", f.Path, s.Name)
			}
		}
	}
	return nil
}

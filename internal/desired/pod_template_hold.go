package desired

import (
	"encoding/json"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	batchv1ac "k8s.io/client-go/applyconfigurations/batch/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// podTemplateHold is the part of a configuration that replaces pods. A component that waits for
// another one is applied without it: everything else passes.
//
// The hash of a configuration has two parts, "<everything else>.<what replaces pods>", so
// that the annotation on a child tells which of them it has got.
type podTemplateHold struct {
	hash string
	// remove takes the pods out of the configuration.
	remove func()
	// restore puts there what of the pods is ours in live, which has its managedFields.
	restore func(live metav1.Object) error
}

// What tells about the pods waits with them. A label that names the version to come would
// not be true, and cost each component that waits a write of its own.
var (
	heldAnnotations = []string{appsapi.AnnotationDependsOn, appsapi.AnnotationConfigRefs}
	heldLabels      = []string{appsapi.LabelVersion}
)

// extractKeys moves some entries of a map into one of their own.
func extractKeys(all map[string]string, keys []string) map[string]string {
	out := selectKeys(all, keys)
	for _, key := range keys {
		delete(all, key)
	}
	return out
}

// selectKeys are the entries of a map that have one of these keys.
func selectKeys(all map[string]string, keys []string) map[string]string {
	out := map[string]string{}
	for _, key := range keys {
		if v, ok := all[key]; ok {
			out[key] = v
		}
	}
	return out
}

// restoreMetadata sets what was taken out, if there was anything.
func restoreMetadata(meta *metav1ac.ObjectMetaApplyConfiguration, labels, annotations map[string]string) {
	if len(labels) > 0 {
		meta.WithLabels(labels)
	}
	if len(annotations) > 0 {
		meta.WithAnnotations(annotations)
	}
}

// newHoldableConfig is a configuration whose pods can be held back. undo puts back what remove
// took away.
func newHoldableConfig(body any, meta *metav1ac.ObjectMetaApplyConfiguration, pods any, hold podTemplateHold, undo func()) (*Config, error) {
	labels, annotations := extractKeys(meta.Labels, heldLabels), extractKeys(meta.Annotations, heldAnnotations)
	content, err := json.Marshal([]any{pods, labels, annotations})
	if err != nil {
		return nil, fmt.Errorf("encode the pods of %s: %w", *meta.Name, err)
	}
	hold.hash = digest(content)[:16]
	hold.remove()
	config, err := newConfig(body, meta)
	if err != nil {
		return nil, err
	}
	undo()
	restoreMetadata(meta, labels, annotations)
	config.podHold = &hold
	return config, nil
}

// ReplacesPods says whether applying the configuration would change what the pods of a
// child are made of.
func (c *Config) ReplacesPods(live metav1.Object) bool {
	return c.podHold != nil && c.podHold.hash != appliedPodHash(live)
}

// appliedPodHash is the part of the hash on a child that is about its pods.
func appliedPodHash(live metav1.Object) string {
	_, pods, _ := strings.Cut(live.GetAnnotations()[appsapi.AnnotationAppliedHash], ".")
	return pods
}

// HoldPodTemplate leaves the pods of a child out of the configuration, and with them what its
// labels and annotations say about them.
func (c *Config) HoldPodTemplate(live metav1.Object) {
	c.podsHeld = true
	c.podHold.remove()
	c.podHold.hash = appliedPodHash(live)
	extractKeys(c.meta.Labels, heldLabels)
	extractKeys(c.meta.Annotations, heldAnnotations)
	restoreMetadata(c.meta, selectKeys(live.GetLabels(), heldLabels), selectKeys(live.GetAnnotations(), heldAnnotations))
}

// HoldsPodTemplate says whether the pods are left out.
func (c *Config) HoldsPodTemplate() bool { return c.podsHeld }

// KeepPodTemplate sends along, without holding it, what of the pods is ours in live: a field that
// is ours and is not sent would be taken away. live must have its managedFields.
func (c *Config) KeepPodTemplate(live metav1.Object) error {
	previous := c.sendOnly
	if err := c.podHold.restore(live); err != nil {
		return fmt.Errorf("find out what is ours in %s: %w", live.GetName(), err)
	}
	restore := c.podHold.restore
	c.podHold.remove()
	c.sendOnly = func() {
		_ = restore(live) // it went well a moment ago
		if previous != nil {
			previous()
		}
	}
	return nil
}

// deploymentPodHold holds back the pod template.
func deploymentPodHold(spec *appsv1ac.DeploymentSpecApplyConfiguration) (g podTemplateHold, undo func()) {
	template := spec.Template
	return podTemplateHold{
		remove: func() { spec.Template = nil },
		restore: func(live metav1.Object) error {
			ours, err := appsv1ac.ExtractDeployment(live.(*appsv1.Deployment), appsapi.FieldManager)
			if err == nil && ours.Spec != nil {
				spec.Template = ours.Spec.Template
			}
			return err
		},
	}, func() { spec.Template = template }
}

// cronJobPodHold holds back what the next runs are made of.
func cronJobPodHold(spec *batchv1ac.CronJobSpecApplyConfiguration) (g podTemplateHold, undo func()) {
	template := spec.JobTemplate
	return podTemplateHold{
		remove: func() { spec.JobTemplate = nil },
		restore: func(live metav1.Object) error {
			ours, err := batchv1ac.ExtractCronJob(live.(*batchv1.CronJob), appsapi.FieldManager)
			if err == nil && ours.Spec != nil {
				spec.JobTemplate = ours.Spec.JobTemplate
			}
			return err
		},
	}, func() { spec.JobTemplate = template }
}

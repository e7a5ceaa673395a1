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

// podTemplateHold removes the pod template from a configuration and restores it. While a component waits for a
// dependency, its configuration is applied without the pod template, so that its pods are not replaced; all
// other fields are applied.
//
// The hash of a configuration has two parts, "<other fields>.<pod template>", so that the annotation on a child
// shows for each part whether it was applied.
type podTemplateHold struct {
	hash string
	// remove removes the pod template from the configuration.
	remove func()
	// restore adds the owned fields of the live pod template. live must have its managedFields.
	restore func(live metav1.Object) error
}

// Labels and annotations that describe the pods are held back as well: a label with the next version would be
// wrong, and would cause an additional write per waiting component.
var heldLabels = []string{appsapi.LabelVersion}

func heldAnnotations(keys *appsapi.Keys) []string { return []string{keys.DependsOn, keys.ConfigRefs} }

// extractKeys moves entries to a new map.
func extractKeys(all map[string]string, keys []string) map[string]string {
	out := selectKeys(all, keys)
	for _, key := range keys {
		delete(all, key)
	}
	return out
}

// selectKeys returns the entries with the given keys.
func selectKeys(all map[string]string, keys []string) map[string]string {
	out := map[string]string{}
	for _, key := range keys {
		if v, ok := all[key]; ok {
			out[key] = v
		}
	}
	return out
}

// restoreMetadata adds the removed labels and annotations.
func restoreMetadata(meta *metav1ac.ObjectMetaApplyConfiguration, labels, annotations map[string]string) {
	if len(labels) > 0 {
		meta.WithLabels(labels)
	}
	if len(annotations) > 0 {
		meta.WithAnnotations(annotations)
	}
}

// newHoldableConfig returns a configuration whose pod template can be held back. undo is the inverse of
// hold.remove.
func newHoldableConfig(keys *appsapi.Keys, body any, meta *metav1ac.ObjectMetaApplyConfiguration, pods any, hold podTemplateHold, undo func()) (*Config, error) {
	labels, annotations := extractKeys(meta.Labels, heldLabels), extractKeys(meta.Annotations, heldAnnotations(keys))
	content, err := json.Marshal([]any{pods, labels, annotations})
	if err != nil {
		return nil, fmt.Errorf("encode the pods of %s: %w", *meta.Name, err)
	}
	hold.hash = digest(content)[:16]
	hold.remove()
	config, err := newConfig(keys, body, meta)
	if err != nil {
		return nil, err
	}
	undo()
	restoreMetadata(meta, labels, annotations)
	config.podHold = &hold
	return config, nil
}

// ReplacesPods reports whether applying the configuration would change the pod template of a child.
func (c *Config) ReplacesPods(live metav1.Object) bool {
	return c.podHold != nil && c.podHold.hash != appliedPodHash(c.keys, live)
}

// appliedPodHash returns the pod template part of the hash on a child.
func appliedPodHash(keys *appsapi.Keys, live metav1.Object) string {
	_, pods, _ := strings.Cut(live.GetAnnotations()[keys.AppliedHash], ".")
	return pods
}

// HoldPodTemplate removes the pod template from the configuration, with the labels and annotations that describe
// the pods.
func (c *Config) HoldPodTemplate(live metav1.Object) {
	c.podsHeld = true
	c.podHold.remove()
	c.podHold.hash = appliedPodHash(c.keys, live)
	extractKeys(c.meta.Labels, heldLabels)
	extractKeys(c.meta.Annotations, heldAnnotations(c.keys))
	restoreMetadata(c.meta, selectKeys(live.GetLabels(), heldLabels), selectKeys(live.GetAnnotations(), heldAnnotations(c.keys)))
}

// HoldsPodTemplate reports whether the pod template is held back.
func (c *Config) HoldsPodTemplate() bool { return c.podsHeld }

// SendLivePodTemplate sends the owned fields of the live pod template without adding them to the configuration: an
// owned field that is not sent would be removed. live must have its managedFields.
func (c *Config) SendLivePodTemplate(live metav1.Object) error {
	previous := c.sendOnly
	if err := c.podHold.restore(live); err != nil {
		return fmt.Errorf("extract the managed fields of %s: %w", live.GetName(), err)
	}
	restore := c.podHold.restore
	c.podHold.remove()
	c.sendOnly = func() {
		_ = restore(live) // it succeeded above
		if previous != nil {
			previous()
		}
	}
	return nil
}

// deploymentPodHold holds back the pod template of a Deployment.
func deploymentPodHold(keys *appsapi.Keys, spec *appsv1ac.DeploymentSpecApplyConfiguration) (g podTemplateHold, undo func()) {
	template := spec.Template
	return podTemplateHold{
		remove: func() { spec.Template = nil },
		restore: func(live metav1.Object) error {
			ours, err := appsv1ac.ExtractDeployment(live.(*appsv1.Deployment), keys.FieldManager)
			if err == nil && ours.Spec != nil {
				spec.Template = ours.Spec.Template
			}
			return err
		},
	}, func() { spec.Template = template }
}

// cronJobPodHold holds back the job template of a CronJob.
func cronJobPodHold(keys *appsapi.Keys, spec *batchv1ac.CronJobSpecApplyConfiguration) (g podTemplateHold, undo func()) {
	template := spec.JobTemplate
	return podTemplateHold{
		remove: func() { spec.JobTemplate = nil },
		restore: func(live metav1.Object) error {
			ours, err := batchv1ac.ExtractCronJob(live.(*batchv1.CronJob), keys.FieldManager)
			if err == nil && ours.Spec != nil {
				spec.JobTemplate = ours.Spec.JobTemplate
			}
			return err
		},
	}, func() { spec.JobTemplate = template }
}

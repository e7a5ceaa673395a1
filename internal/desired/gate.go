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

// gate is the part of a configuration that replaces pods. A component that waits for
// another one is applied without it: everything else passes.
//
// The hash of a configuration has two parts, "<everything else>.<what replaces pods>", so
// that the annotation on a child tells which of them it has got.
type gate struct {
	hash string
	// remove takes the pods out of the configuration.
	remove func()
	// restore puts there what of the pods is ours in live, which has its managedFields.
	restore func(live metav1.Object) error
}

// What tells about the pods waits with them. A label that names the version to come would
// not be true, and cost each component that waits a write of its own.
var (
	gatedAnnotations = []string{appsapi.AnnotationDependsOn, appsapi.AnnotationRefs}
	gatedLabels      = []string{appsapi.LabelVersion}
)

// takeOut moves some entries of a map into one of their own.
func takeOut(all map[string]string, keys []string) map[string]string {
	out := shared(all, keys)
	for _, key := range keys {
		delete(all, key)
	}
	return out
}

// shared are the entries of a map that have one of these keys.
func shared(all map[string]string, keys []string) map[string]string {
	out := map[string]string{}
	for _, key := range keys {
		if v, ok := all[key]; ok {
			out[key] = v
		}
	}
	return out
}

// putBack sets what was taken out, if there was anything.
func putBack(meta *metav1ac.ObjectMetaApplyConfiguration, labels, annotations map[string]string) {
	if len(labels) > 0 {
		meta.WithLabels(labels)
	}
	if len(annotations) > 0 {
		meta.WithAnnotations(annotations)
	}
}

// gatedConfig is a configuration whose pods can be held back. undo puts back what remove
// took away.
func gatedConfig(body any, meta *metav1ac.ObjectMetaApplyConfiguration, pods any, g gate, undo func()) (*Config, error) {
	labels, annotations := takeOut(meta.Labels, gatedLabels), takeOut(meta.Annotations, gatedAnnotations)
	content, err := json.Marshal([]any{pods, labels, annotations})
	if err != nil {
		return nil, fmt.Errorf("encode the pods of %s: %w", *meta.Name, err)
	}
	g.hash = digest(content)[:16]
	g.remove()
	config, err := newConfig(body, meta)
	if err != nil {
		return nil, err
	}
	undo()
	putBack(meta, labels, annotations)
	config.gate = &g
	return config, nil
}

// ReplacesPods says whether applying the configuration would change what the pods of a
// child are made of.
func (c *Config) ReplacesPods(live metav1.Object) bool {
	return c.gate != nil && c.gate.hash != appliedPods(live)
}

// appliedPods is the part of the hash on a child that is about its pods.
func appliedPods(live metav1.Object) string {
	_, pods, _ := strings.Cut(live.GetAnnotations()[appsapi.AnnotationApplied], ".")
	return pods
}

// HoldPods leaves the pods of a child out of the configuration, and with them what its
// labels and annotations say about them.
func (c *Config) HoldPods(live metav1.Object) {
	c.held = true
	c.gate.remove()
	c.gate.hash = appliedPods(live)
	takeOut(c.meta.Labels, gatedLabels)
	takeOut(c.meta.Annotations, gatedAnnotations)
	putBack(c.meta, shared(live.GetLabels(), gatedLabels), shared(live.GetAnnotations(), gatedAnnotations))
}

// HoldsPods says whether the pods are left out.
func (c *Config) HoldsPods() bool { return c.held }

// CarryPods sends along, without holding it, what of the pods is ours in live: a field that
// is ours and is not sent would be taken away. live must have its managedFields.
func (c *Config) CarryPods(live metav1.Object) error {
	carry := c.carry
	if err := c.gate.restore(live); err != nil {
		return fmt.Errorf("find out what is ours in %s: %w", live.GetName(), err)
	}
	restore := c.gate.restore
	c.gate.remove()
	c.carry = func() {
		_ = restore(live) // it went well a moment ago
		if carry != nil {
			carry()
		}
	}
	return nil
}

// gateOfDeployment holds back the pod template.
func gateOfDeployment(spec *appsv1ac.DeploymentSpecApplyConfiguration) (g gate, undo func()) {
	template := spec.Template
	return gate{
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

// gateOfCronJob holds back what the next runs are made of.
func gateOfCronJob(spec *batchv1ac.CronJobSpecApplyConfiguration) (g gate, undo func()) {
	template := spec.JobTemplate
	return gate{
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

package inspect

import (
	"cmp"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Ref is a reference to an object by name, in the same namespace if its kind is namespaced.
type Ref struct {
	Kind, Name string
	// Optional is set if the object need not exist.
	Optional bool
}

// References returns the objects that an object refers to, sorted and unique: ConfigMaps,
// Secrets, claims, ServiceAccount and node of a pod or pod template; Services, Secrets and
// class of an Ingress; the target of an autoscaler; volume and class of a claim.
func References(obj runtime.Object) []Ref {
	var c refCollector
	if t := podTemplateOf(obj); t != nil {
		c.addPodSpec(t)
	}
	switch o := obj.(type) {
	case *networkingv1.Ingress:
		c.addIngress(o)
	case *autoscalingv2.HorizontalPodAutoscaler:
		c.add(o.Spec.ScaleTargetRef.Kind, o.Spec.ScaleTargetRef.Name, nil)
	case *corev1.PersistentVolumeClaim:
		c.add("PersistentVolume", o.Spec.VolumeName, nil)
		if o.Spec.StorageClassName != nil {
			c.add("StorageClass", *o.Spec.StorageClassName, nil)
		}
	case *unstructured.Unstructured:
		if o.GetKind() == "HTTPRoute" {
			c.addHTTPRoute(o)
		}
	}
	return c.uniqueRefs()
}

// Images returns the images that the pods of an object run or mount, sorted and unique.
func Images(obj runtime.Object) []string {
	t := podTemplateOf(obj)
	if t == nil {
		return nil
	}
	var all []string
	for _, c := range t.spec.InitContainers {
		all = append(all, c.Image)
	}
	for _, c := range t.spec.Containers {
		all = append(all, c.Image)
	}
	for _, c := range t.spec.EphemeralContainers {
		all = append(all, c.Image)
	}
	for _, v := range t.spec.Volumes {
		if v.Image != nil {
			all = append(all, v.Image.Reference)
		}
	}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(image string) bool { return image == "" })
}

// podTemplate is a pod, or the pod template of an object.
type podTemplate struct {
	name   string // of the pod; empty for a template
	labels map[string]string
	spec   *corev1.PodSpec
}

// podTemplateOf returns the pod template of an object, or nil.
func podTemplateOf(obj runtime.Object) *podTemplate {
	fromTemplate := func(t *corev1.PodTemplateSpec) *podTemplate { return &podTemplate{labels: t.Labels, spec: &t.Spec} }
	switch o := obj.(type) {
	case *corev1.Pod:
		return &podTemplate{name: o.Name, labels: o.Labels, spec: &o.Spec}
	case *appsv1.Deployment:
		return fromTemplate(&o.Spec.Template)
	case *appsv1.StatefulSet:
		return fromTemplate(&o.Spec.Template)
	case *appsv1.DaemonSet:
		return fromTemplate(&o.Spec.Template)
	case *appsv1.ReplicaSet:
		return fromTemplate(&o.Spec.Template)
	case *corev1.ReplicationController:
		if o.Spec.Template != nil {
			return fromTemplate(o.Spec.Template)
		}
	case *batchv1.Job:
		return fromTemplate(&o.Spec.Template)
	case *batchv1.CronJob:
		return fromTemplate(&o.Spec.JobTemplate.Spec.Template)
	case *unstructured.Unstructured:
		return customPodTemplate(o)
	}
	return nil
}

// customPodTemplate reads spec.template of a custom resource, or returns nil if it is not a pod template.
func customPodTemplate(o *unstructured.Unstructured) *podTemplate {
	content, ok, err := unstructured.NestedFieldNoCopy(o.Object, "spec", "template")
	template, isMap := content.(map[string]any)
	if err != nil || !ok || !isMap {
		return nil
	}
	var t corev1.PodTemplateSpec
	if runtime.DefaultUnstructuredConverter.FromUnstructured(template, &t) != nil || len(t.Spec.Containers) == 0 {
		return nil
	}
	return &podTemplate{labels: t.Labels, spec: &t.Spec}
}

// podReference is a reference and whether it comes from a volume.
type podReference struct {
	Ref
	inVolume bool
}

// refCollector collects references.
type refCollector struct{ references []podReference }

func (c *refCollector) add(kind, name string, optional *bool) {
	if name != "" {
		c.references = append(c.references, podReference{Ref: Ref{Kind: kind, Name: name, Optional: optional != nil && *optional}})
	}
}

func (c *refCollector) addVolume(kind, name string, optional *bool) {
	if name != "" {
		c.references = append(c.references, podReference{Ref{Kind: kind, Name: name, Optional: optional != nil && *optional}, true})
	}
}

// uniqueRefs returns the collected references. A reference is optional only if all its occurrences are.
func (c *refCollector) uniqueRefs() []Ref {
	slices.SortFunc(c.references, func(a, b podReference) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), optionalRank(a.Optional)-optionalRank(b.Optional))
	})
	var out []Ref
	for _, u := range c.references {
		if n := len(out); n == 0 || out[n-1].Kind != u.Kind || out[n-1].Name != u.Name {
			out = append(out, u.Ref)
		}
	}
	return out
}

func optionalRank(optional bool) int {
	if optional {
		return 1
	}
	return 0
}

func (c *refCollector) addPodSpec(p *podTemplate) {
	s := p.spec
	c.add("Node", s.NodeName, nil)
	c.add("ServiceAccount", s.ServiceAccountName, nil)
	for _, r := range s.ImagePullSecrets {
		c.add("Secret", r.Name, new(true)) // the kubelet ignores missing ones
	}
	for i := range s.InitContainers {
		c.addContainer(s.InitContainers[i].Env, s.InitContainers[i].EnvFrom)
	}
	for i := range s.Containers {
		c.addContainer(s.Containers[i].Env, s.Containers[i].EnvFrom)
	}
	for i := range s.EphemeralContainers {
		c.addContainer(s.EphemeralContainers[i].Env, s.EphemeralContainers[i].EnvFrom)
	}
	for i := range s.Volumes {
		c.addVolumeSource(p, &s.Volumes[i])
	}
}

func (c *refCollector) addContainer(env []corev1.EnvVar, from []corev1.EnvFromSource) {
	for i := range env {
		v := env[i].ValueFrom
		if v == nil {
			continue
		}
		if r := v.ConfigMapKeyRef; r != nil {
			c.add("ConfigMap", r.Name, r.Optional)
		}
		if r := v.SecretKeyRef; r != nil {
			c.add("Secret", r.Name, r.Optional)
		}
	}
	for i := range from {
		if r := from[i].ConfigMapRef; r != nil {
			c.add("ConfigMap", r.Name, r.Optional)
		}
		if r := from[i].SecretRef; r != nil {
			c.add("Secret", r.Name, r.Optional)
		}
	}
}

// addVolumeSource adds the references of a volume, including the Secrets of legacy storage drivers.
func (c *refCollector) addVolumeSource(p *podTemplate, v *corev1.Volume) {
	switch {
	case v.ConfigMap != nil:
		c.addVolume("ConfigMap", v.ConfigMap.Name, v.ConfigMap.Optional)
	case v.Secret != nil:
		c.addVolume("Secret", v.Secret.SecretName, v.Secret.Optional)
	case v.PersistentVolumeClaim != nil:
		c.add("PersistentVolumeClaim", v.PersistentVolumeClaim.ClaimName, nil)
	case v.Ephemeral != nil && p.name != "": // the name of its claim contains the pod name, which a template does not have
		c.add("PersistentVolumeClaim", p.name+"-"+v.Name, nil)
	case v.Projected != nil:
		for _, s := range v.Projected.Sources {
			if s.ConfigMap != nil {
				c.addVolume("ConfigMap", s.ConfigMap.Name, s.ConfigMap.Optional)
			}
			if s.Secret != nil {
				c.addVolume("Secret", s.Secret.Name, s.Secret.Optional)
			}
		}
	case v.AzureFile != nil:
		c.addVolume("Secret", v.AzureFile.SecretName, nil)
	default:
		if r := driverSecret(v); r != nil {
			c.addVolume("Secret", r.Name, nil)
		}
	}
}

func driverSecret(v *corev1.Volume) *corev1.LocalObjectReference {
	switch {
	case v.CSI != nil:
		return v.CSI.NodePublishSecretRef
	case v.FlexVolume != nil:
		return v.FlexVolume.SecretRef
	case v.RBD != nil:
		return v.RBD.SecretRef
	case v.CephFS != nil:
		return v.CephFS.SecretRef
	case v.ISCSI != nil:
		return v.ISCSI.SecretRef
	case v.ScaleIO != nil:
		return v.ScaleIO.SecretRef
	case v.StorageOS != nil:
		return v.StorageOS.SecretRef
	case v.Cinder != nil:
		return v.Cinder.SecretRef
	}
	return nil
}

func (c *refCollector) addIngress(i *networkingv1.Ingress) {
	backend := func(b *networkingv1.IngressBackend) {
		if b != nil && b.Service != nil {
			c.add("Service", b.Service.Name, nil)
		}
	}
	backend(i.Spec.DefaultBackend)
	for _, rule := range i.Spec.Rules {
		if rule.HTTP != nil {
			for n := range rule.HTTP.Paths {
				backend(&rule.HTTP.Paths[n].Backend)
			}
		}
	}
	for _, tls := range i.Spec.TLS {
		c.add("Secret", tls.SecretName, nil)
	}
	if i.Spec.IngressClassName != nil {
		c.add("IngressClass", *i.Spec.IngressClassName, nil)
	}
}

// addHTTPRoute adds the backend Services of an HTTPRoute. Services of other namespaces do not belong to
// the application.
func (c *refCollector) addHTTPRoute(o *unstructured.Unstructured) {
	rules, _, _ := unstructured.NestedSlice(o.Object, "spec", "rules")
	for _, rule := range rules {
		r, _ := rule.(map[string]any)
		backends, _, _ := unstructured.NestedSlice(r, "backendRefs")
		for _, backend := range backends {
			b, _ := backend.(map[string]any)
			text := func(field string) string { s, _ := b[field].(string); return s }
			if text("kind") != "" && text("kind") != "Service" || text("namespace") != "" && text("namespace") != o.GetNamespace() {
				continue
			}
			c.add("Service", text("name"), nil)
		}
	}
}

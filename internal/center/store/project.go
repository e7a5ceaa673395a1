package store

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Projector makes of objects what is worth keeping: who they are, what they are made of and how
// they are. Values that may be secret it keeps as marks, by which one sees that they change.
type Projector struct {
	key  []byte // nobody who sees marks can try values against them
	pool *pool
	// Foreign says that an object is of nobody's application: that it is there is enough.
	Foreign func(metav1.Object) bool
}

// NewProjector makes one with a key of its own.
func NewProjector(foreign func(metav1.Object) bool) *Projector {
	key := make([]byte, sha256.Size)
	_, _ = rand.Read(key) // never fails
	return &Projector{key: key, pool: newPool(), Foreign: foreign}
}

// Project may change the object that it is given, which nobody else has.
func (p *Projector) Project(obj runtime.Object) runtime.Object {
	kept := p.keep(obj)
	p.pool.share(kept)
	return kept
}

func (p *Projector) keep(obj runtime.Object) runtime.Object {
	m, err := meta.Accessor(obj)
	if err != nil {
		return obj
	}
	p.metadata(m)
	switch o := obj.(type) {
	case *corev1.Pod:
		return pod(o)
	case *appsv1.Deployment:
		p.template(&o.Spec.Template)
	case *appsv1.StatefulSet:
		p.template(&o.Spec.Template)
	case *appsv1.DaemonSet:
		p.template(&o.Spec.Template)
	case *appsv1.ReplicaSet:
		o.Spec = replicas(o)
	case *discoveryv1.EndpointSlice:
		o.Ports, o.Endpoints = nil, ready(o.Endpoints)
	case *batchv1.Job:
		p.template(&o.Spec.Template)
	case *batchv1.CronJob:
		p.template(&o.Spec.JobTemplate.Spec.Template)
	case *corev1.Node:
		o.Status.Images, o.Status.VolumesInUse, o.Status.VolumesAttached = nil, nil, nil
	case *appsapi.CloudManager:
		if o.Spec.DB.RootPass != "" {
			o.Spec.DB.RootPass = p.mark(o.Spec.DB.RootPass)
		}
	case *metav1.PartialObjectMetadata:
		if p.Foreign != nil && p.Foreign(m) {
			return &Bare{TypeMeta: o.TypeMeta, ObjectMeta: metav1.ObjectMeta{
				Namespace: o.Namespace, Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion}}
		}
	case *unstructured.Unstructured:
		return p.custom(o)
	}
	return obj
}

// keptAnnotations say whose an object is, or are what causes are found from. All others may contain
// anything, and the last applied configuration of kubectl contains everything.
var keptAnnotations = []string{"meta.helm.sh/", appsapi.GroupVersion.Group + "/", "deployment.kubernetes.io/revision",
	"storageclass.kubernetes.io/is-default-class", "volume.kubernetes.io/selected-node"}

// metadata keeps who wrote last what was declared, not which fields.
func (p *Projector) metadata(m metav1.Object) {
	var writers []metav1.ManagedFieldsEntry
	switch m.(type) {
	case *corev1.Pod, *appsv1.ReplicaSet, *discoveryv1.EndpointSlice, *corev1.Event, *corev1.Node: // nobody declares them
	default:
		for _, f := range m.GetManagedFields() {
			if f.Subresource != "status" {
				writers = append(writers, metav1.ManagedFieldsEntry{Manager: f.Manager, Operation: f.Operation, Subresource: f.Subresource, Time: f.Time})
			}
		}
	}
	m.SetManagedFields(writers)
	var kept map[string]string
	for name, value := range m.GetAnnotations() {
		for _, prefix := range keptAnnotations {
			// Every child and every pod has these two, which only the operator reads.
			if strings.HasPrefix(name, prefix) && name != appsapi.AnnotationApplied && name != appsapi.AnnotationConfig {
				if kept == nil {
					kept = map[string]string{}
				}
				kept[name] = value
			}
		}
	}
	m.SetAnnotations(kept)
}

// replicas keeps of a ReplicaSet how many pods it has, and what they use: it is a Deployment that
// says how they are made, and most are old and have none.
func replicas(o *appsv1.ReplicaSet) appsv1.ReplicaSetSpec {
	kept := appsv1.ReplicaSetSpec{Replicas: o.Spec.Replicas, MinReadySeconds: o.Spec.MinReadySeconds}
	if o.Spec.Replicas == nil || *o.Spec.Replicas > 0 || o.Status.Replicas > 0 {
		kept.Template.Labels, kept.Template.Spec = o.Spec.Template.Labels, podUses(&o.Spec.Template.Spec)
	}
	return kept
}

// ready keeps of endpoints whether they are ready.
func ready(all []discoveryv1.Endpoint) []discoveryv1.Endpoint {
	kept := make([]discoveryv1.Endpoint, len(all))
	for i := range all {
		kept[i].Conditions.Ready = all[i].Conditions.Ready
	}
	return kept
}

func (p *Projector) template(t *corev1.PodTemplateSpec) {
	t.Annotations = p.marks(t.Annotations)
	p.podSpec(&t.Spec)
}

// podSpec marks what may be secret: values of variables, arguments, commands, and what probes and
// hooks run or send along.
func (p *Projector) podSpec(s *corev1.PodSpec) {
	for _, list := range [][]corev1.Container{s.InitContainers, s.Containers} {
		for i := range list {
			c := &list[i]
			for n := range c.Env {
				if c.Env[n].Value != "" {
					c.Env[n].Value = p.mark(c.Env[n].Value)
				}
			}
			p.words(c.Command)
			p.words(c.Args)
			for _, probe := range []*corev1.Probe{c.ReadinessProbe, c.LivenessProbe, c.StartupProbe} {
				if probe != nil {
					p.action(probe.Exec, probe.HTTPGet)
				}
			}
			if c.Lifecycle != nil {
				for _, h := range []*corev1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
					if h != nil {
						p.action(h.Exec, h.HTTPGet)
					}
				}
			}
		}
	}
}

func (p *Projector) words(all []string) {
	for i := range all {
		all[i] = p.mark(all[i])
	}
}

// action marks what a probe or a hook runs, or sends along.
func (p *Projector) action(run *corev1.ExecAction, get *corev1.HTTPGetAction) {
	if run != nil {
		p.words(run.Command)
	}
	if get != nil {
		for i := range get.HTTPHeaders {
			get.HTTPHeaders[i].Value = p.mark(get.HTTPHeaders[i].Value)
		}
	}
}

func (p *Projector) marks(all map[string]string) map[string]string {
	for name, value := range all {
		all[name] = p.mark(value)
	}
	return all
}

// mark is another one for another value, and tells nothing about it.
func (p *Projector) mark(value string) string {
	h := hmac.New(sha256.New, p.key)
	_, _ = h.Write([]byte(value))
	return "(value " + hex.EncodeToString(h.Sum(nil)[:4]) + ")"
}

// custom keeps of kinds that are not known here what they say of themselves: conditions, phase
// and counts. What is declared is kept only of members of applications.
func (p *Projector) custom(o *unstructured.Unstructured) runtime.Object {
	if p.Foreign == nil || !p.Foreign(o) {
		return o
	}
	kept := &unstructured.Unstructured{Object: map[string]any{"apiVersion": o.GetAPIVersion(), "kind": o.GetKind(), "metadata": o.Object["metadata"]}}
	if status, ok := o.Object["status"]; ok {
		kept.Object["status"] = status
	}
	return kept
}

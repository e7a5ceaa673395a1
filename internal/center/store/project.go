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
	hmacKey  []byte // nobody who sees marks can try values against them
	interner *interner
	// IsUnrelated says that an object is of nobody's application: that it is there is enough.
	IsUnrelated func(metav1.Object) bool
}

// NewProjector makes one with a key of its own.
func NewProjector(isUnrelated func(metav1.Object) bool) *Projector {
	key := make([]byte, sha256.Size)
	_, _ = rand.Read(key) // never fails
	return &Projector{hmacKey: key, interner: newInterner(), IsUnrelated: isUnrelated}
}

// Project may change the object that it is given, which nobody else has.
func (p *Projector) Project(obj runtime.Object) runtime.Object {
	projected := p.strip(obj)
	p.interner.intern(projected)
	return projected
}

func (p *Projector) strip(obj runtime.Object) runtime.Object {
	m, err := meta.Accessor(obj)
	if err != nil {
		return obj
	}
	p.stripMetadata(m)
	switch o := obj.(type) {
	case *corev1.Pod:
		return projectPod(o)
	case *appsv1.Deployment:
		p.hashTemplate(&o.Spec.Template)
	case *appsv1.StatefulSet:
		p.hashTemplate(&o.Spec.Template)
	case *appsv1.DaemonSet:
		p.hashTemplate(&o.Spec.Template)
	case *appsv1.ReplicaSet:
		o.Spec = projectReplicaSetSpec(o)
	case *discoveryv1.EndpointSlice:
		o.Ports, o.Endpoints = nil, projectEndpoints(o.Endpoints)
	case *batchv1.Job:
		p.hashTemplate(&o.Spec.Template)
	case *batchv1.CronJob:
		p.hashTemplate(&o.Spec.JobTemplate.Spec.Template)
	case *corev1.Node:
		o.Status.Images, o.Status.VolumesInUse, o.Status.VolumesAttached = nil, nil, nil
	case *appsapi.CloudManager:
		if o.Spec.DB.RootPass != "" {
			o.Spec.DB.RootPass = p.hashValue(o.Spec.DB.RootPass)
		}
	case *metav1.PartialObjectMetadata:
		if p.IsUnrelated != nil && p.IsUnrelated(m) {
			return &Stub{TypeMeta: o.TypeMeta, ObjectMeta: metav1.ObjectMeta{
				Namespace: o.Namespace, Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion}}
		}
	case *unstructured.Unstructured:
		return p.projectCustom(o)
	}
	return obj
}

// retainedAnnotations say whose an object is, or are what causes are found from. All others may contain
// anything, and the last applied configuration of kubectl contains everything.
var retainedAnnotations = []string{"meta.helm.sh/", appsapi.GroupVersion.Group + "/", "deployment.kubernetes.io/revision",
	"storageclass.kubernetes.io/is-default-class", "volume.kubernetes.io/selected-node"}

// stripMetadata keeps who wrote last what was declared, not which fields.
func (p *Projector) stripMetadata(m metav1.Object) {
	var managers []metav1.ManagedFieldsEntry
	switch m.(type) {
	case *corev1.Pod, *appsv1.ReplicaSet, *discoveryv1.EndpointSlice, *corev1.Event, *corev1.Node: // nobody declares them
	default:
		for _, f := range m.GetManagedFields() {
			if f.Subresource != "status" {
				managers = append(managers, metav1.ManagedFieldsEntry{Manager: f.Manager, Operation: f.Operation, Subresource: f.Subresource, Time: f.Time})
			}
		}
	}
	m.SetManagedFields(managers)
	var retained map[string]string
	for name, value := range m.GetAnnotations() {
		for _, prefix := range retainedAnnotations {
			// Every child and every pod has these two, which only the operator reads.
			if strings.HasPrefix(name, prefix) && name != appsapi.AnnotationAppliedHash && name != appsapi.AnnotationConfigHash {
				if retained == nil {
					retained = map[string]string{}
				}
				retained[name] = value
			}
		}
	}
	m.SetAnnotations(retained)
}

// projectReplicaSetSpec keeps of a ReplicaSet how many pods it has, and what they use: it is a Deployment that
// says how they are made, and most are old and have none.
func projectReplicaSetSpec(o *appsv1.ReplicaSet) appsv1.ReplicaSetSpec {
	projected := appsv1.ReplicaSetSpec{Replicas: o.Spec.Replicas, MinReadySeconds: o.Spec.MinReadySeconds}
	if o.Spec.Replicas == nil || *o.Spec.Replicas > 0 || o.Status.Replicas > 0 {
		projected.Template.Labels, projected.Template.Spec = o.Spec.Template.Labels, projectPodSpec(&o.Spec.Template.Spec)
	}
	return projected
}

// projectEndpoints keeps of endpoints whether they are ready.
func projectEndpoints(all []discoveryv1.Endpoint) []discoveryv1.Endpoint {
	projected := make([]discoveryv1.Endpoint, len(all))
	for i := range all {
		projected[i].Conditions.Ready = all[i].Conditions.Ready
	}
	return projected
}

func (p *Projector) hashTemplate(t *corev1.PodTemplateSpec) {
	t.Annotations = p.hashValues(t.Annotations)
	p.hashPodSpec(&t.Spec)
}

// hashPodSpec marks what may be secret: values of variables, arguments, commands, and what probes and
// hooks run or send along.
func (p *Projector) hashPodSpec(s *corev1.PodSpec) {
	for _, list := range [][]corev1.Container{s.InitContainers, s.Containers} {
		for i := range list {
			c := &list[i]
			for n := range c.Env {
				if c.Env[n].Value != "" {
					c.Env[n].Value = p.hashValue(c.Env[n].Value)
				}
			}
			p.hashAll(c.Command)
			p.hashAll(c.Args)
			for _, probe := range []*corev1.Probe{c.ReadinessProbe, c.LivenessProbe, c.StartupProbe} {
				if probe != nil {
					p.hashHandler(probe.Exec, probe.HTTPGet)
				}
			}
			if c.Lifecycle != nil {
				for _, h := range []*corev1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
					if h != nil {
						p.hashHandler(h.Exec, h.HTTPGet)
					}
				}
			}
		}
	}
}

func (p *Projector) hashAll(all []string) {
	for i := range all {
		all[i] = p.hashValue(all[i])
	}
}

// hashHandler marks what a probe or a hook runs, or sends along.
func (p *Projector) hashHandler(exec *corev1.ExecAction, get *corev1.HTTPGetAction) {
	if exec != nil {
		p.hashAll(exec.Command)
	}
	if get != nil {
		for i := range get.HTTPHeaders {
			get.HTTPHeaders[i].Value = p.hashValue(get.HTTPHeaders[i].Value)
		}
	}
}

func (p *Projector) hashValues(all map[string]string) map[string]string {
	for name, value := range all {
		all[name] = p.hashValue(value)
	}
	return all
}

// hashValue is another one for another value, and tells nothing about it.
func (p *Projector) hashValue(value string) string {
	h := hmac.New(sha256.New, p.hmacKey)
	_, _ = h.Write([]byte(value))
	return "(value " + hex.EncodeToString(h.Sum(nil)[:4]) + ")"
}

// projectCustom keeps of kinds that are not known here what they say of themselves: conditions, phase
// and counts. What is declared is kept only of members of applications.
func (p *Projector) projectCustom(o *unstructured.Unstructured) runtime.Object {
	if p.IsUnrelated == nil || !p.IsUnrelated(o) {
		return o
	}
	projected := &unstructured.Unstructured{Object: map[string]any{"apiVersion": o.GetAPIVersion(), "kind": o.GetKind(), "metadata": o.Object["metadata"]}}
	if status, ok := o.Object["status"]; ok {
		projected.Object["status"] = status
	}
	return projected
}

package store

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/holdfast-dev/holdfast/internal/appkind"
)

// Projector reduces objects to the fields that the center needs: identity, references and state. It replaces
// values that may be secret by hashes, so that changes are still visible.
type Projector struct {
	hmacKey  []byte // prevents guessing values from their hashes
	interner *interner
	// IsUnrelated reports whether an object belongs to no application. Only its existence is stored.
	IsUnrelated func(metav1.Object) bool
}

// NewProjector returns a projector with a random HMAC key.
func NewProjector(isUnrelated func(metav1.Object) bool) *Projector {
	key := make([]byte, sha256.Size)
	_, _ = rand.Read(key) // never fails
	return &Projector{hmacKey: key, interner: newInterner(), IsUnrelated: isUnrelated}
}

// Project returns the reduced object. It may modify obj, which must not be shared.
func (p *Projector) Project(obj runtime.Object) runtime.Object {
	projected := p.strip(obj)
	p.interner.intern(projected)
	if k := discoveredKind(projected); k != nil {
		app, _ := k.Application(projected)
		return app
	}
	return projected
}

// discoveredKind returns the kind of an application of another operator, or nil.
func discoveredKind(obj runtime.Object) *appkind.Kind {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return appkind.Lookup(u.GroupVersionKind().GroupKind())
	}
	return nil
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
	case appkind.Application:
		p.hashSecrets(o)
	case *metav1.PartialObjectMetadata:
		if p.IsUnrelated != nil && p.IsUnrelated(m) {
			return &Stub{TypeMeta: o.TypeMeta, ObjectMeta: metav1.ObjectMeta{
				Namespace: o.Namespace, Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion}}
		}
	case *unstructured.Unstructured:
		if discoveredKind(o) == nil {
			return p.projectCustom(o)
		}
	}
	return obj
}

// hashSecrets replaces plain-text secrets in the spec of an application by hashes.
func (p *Projector) hashSecrets(app appkind.Application) {
	fields := appkind.Of(app).PlaintextSecrets
	if fields == nil {
		return
	}
	for _, secret := range fields(app) {
		if *secret != "" {
			*secret = p.hashValue(*secret)
		}
	}
}

// retainedAnnotations are the prefixes of annotations that identify the application of an object or are required
// to explain causes. Others may contain secret values: last-applied-configuration contains the whole object.
var retainedAnnotations = []string{"meta.helm.sh/", "deployment.kubernetes.io/revision",
	"storageclass.kubernetes.io/is-default-class", "volume.kubernetes.io/selected-node"}

func isRetainedAnnotation(name string) bool {
	for _, keys := range appkind.AllKeys() {
		if keys.Own(name) {
			// Every child and pod has these two annotations, and only the operator reads them.
			return name != keys.AppliedHash && name != keys.ConfigHash
		}
	}
	return slices.ContainsFunc(retainedAnnotations, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// stripMetadata removes the field sets of managedFields and all annotations that are not retained. It keeps
// the managers and times of writes other than status updates.
func (p *Projector) stripMetadata(m metav1.Object) {
	var managers []metav1.ManagedFieldsEntry
	switch m.(type) {
	case *corev1.Pod, *appsv1.ReplicaSet, *discoveryv1.EndpointSlice, *corev1.Event, *corev1.Node: // not written by users
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
		if !isRetainedAnnotation(name) {
			continue
		}
		if retained == nil {
			retained = map[string]string{}
		}
		retained[name] = value
	}
	m.SetAnnotations(retained)
}

// projectReplicaSetSpec keeps the replicas and, for a ReplicaSet with pods, the references of its template. The
// Deployment contains the full template, and most ReplicaSets are old and have no pods.
func projectReplicaSetSpec(o *appsv1.ReplicaSet) appsv1.ReplicaSetSpec {
	projected := appsv1.ReplicaSetSpec{Replicas: o.Spec.Replicas, MinReadySeconds: o.Spec.MinReadySeconds}
	if o.Spec.Replicas == nil || *o.Spec.Replicas > 0 || o.Status.Replicas > 0 {
		projected.Template.Labels, projected.Template.Spec = o.Spec.Template.Labels, projectPodSpec(&o.Spec.Template.Spec)
	}
	return projected
}

// projectEndpoints keeps only the ready condition of endpoints.
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

// hashPodSpec hashes values that may be secret: variables, arguments, commands, and the commands and headers of
// probes and lifecycle hooks.
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

// hashHandler hashes the command and the headers of a probe or lifecycle hook.
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

// hashValue returns a keyed hash of a value.
func (p *Projector) hashValue(value string) string {
	h := hmac.New(sha256.New, p.hmacKey)
	_, _ = h.Write([]byte(value))
	return "(value " + hex.EncodeToString(h.Sum(nil)[:4]) + ")"
}

// projectCustom keeps only the status of custom resources that belong to no application. It keeps members of
// applications completely.
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

package simulate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/apply"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/fieldmanager"
	"github.com/holdfast-dev/holdfast/internal/ownership"
	"github.com/holdfast-dev/holdfast/internal/reconcile/execute"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

var _ execute.Writer = &cluster{}

// Observe returns a child of the copy.
func (c *cluster) Observe(_ context.Context, _ desired.Owner, id desired.ID) (client.Object, error) {
	return c.get(id), nil
}

// NotYetCached returns nothing: the copy shows all writes immediately.
func (c *cluster) NotYetCached(desired.Owner) []desired.ID { return nil }

// InSync returns false: the simulation has no results of earlier reconciles.
func (c *cluster) InSync(desired.Owner, desired.Child, client.Object) bool { return false }

// Apply applies a child like apply.Applier. It rejects objects of other owners and skips objects without
// changes.
func (c *cluster) Apply(ctx context.Context, owner desired.Owner, child desired.Child, current client.Object, holdPodTemplate bool) (apply.Result, error) {
	live := current
	if live == nil && !c.deleted[child.ID] {
		var err error
		if live, err = c.findUnlabeled(ctx, owner.Namespace, child.ID); err != nil {
			return apply.Result{}, c.checkReachable(Unreachable(err))
		}
	}
	if live == nil {
		return c.applyConfig(child, nil, nil)
	}
	if _, err := ownership.CheckOwnership(owner, child.ID, live); err != nil {
		return apply.Result{Object: current}, err
	}
	config, err := child.Render(live)
	var incompatible *desired.IncompatibleError
	if errors.As(err, &incompatible) {
		return apply.Result{Object: current}, ownership.NewNameConflict(owner, child.ID, "cannot be adopted: "+incompatible.Message)
	}
	if err != nil {
		return apply.Result{Object: current}, err
	}
	if holdPodTemplate && config.ReplacesPods(live) {
		config.HoldPodTemplate(live)
	}
	if inSync(owner, config, live) {
		return apply.Result{Object: live}, nil
	}
	if current == nil {
		c.mu.Lock()
		c.adopted[child.ID] = live
		c.mu.Unlock()
	}
	return c.applyConfig(child, config, live)
}

// applyConfig stores the result of an apply in the copy. If the object does not exist, it renders the
// configuration.
func (c *cluster) applyConfig(child desired.Child, config *desired.Config, live client.Object) (apply.Result, error) {
	action := apply.Updated
	var before rollout.Object
	if live == nil {
		var err error
		if config, err = child.Render(nil); err != nil {
			return apply.Result{}, err
		}
		action = apply.Created
	} else {
		before = live
	}
	recreated := c.deleted[child.ID]
	applied, err := c.server.Apply(Apply{ID: child.ID, Config: config, Current: before, Stored: c.stored(child.ID), Recreated: recreated})
	if err != nil {
		return apply.Result{Object: live}, c.checkReachable(err)
	}
	if live != nil && equalSpec(live, applied) {
		return apply.Result{Object: live}, nil // a webhook or default reverts the change
	}
	c.put(child.ID, applied.(client.Object))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.recreated[child.ID] = recreated
	return apply.Result{Object: applied.(client.Object), Action: action}, nil
}

// stored returns the object of the cluster, or nil.
func (c *cluster) stored(id desired.ID) rollout.Object {
	c.mu.Lock()
	defer c.mu.Unlock()
	if obj := c.original[id]; obj != nil {
		return obj
	}
	if obj := c.adopted[id]; obj != nil {
		return obj
	}
	return nil
}

// checkReachable ends the simulation if the error is unrelated to the object.
func (c *cluster) checkReachable(err error) error {
	var unreachable unreachableError
	if errors.As(err, &unreachable) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.unreachable = err
	}
	return err
}

// findUnlabeled reads an object of the cluster with the name of a child but without the managed-by label.
func (c *cluster) findUnlabeled(ctx context.Context, namespace string, id desired.ID) (client.Object, error) {
	obj := client.Object(&unstructured.Unstructured{})
	if typed, err := clientgoscheme.Scheme.New(id.Kind); err == nil {
		obj = typed.(client.Object)
	}
	obj.GetObjectKind().SetGroupVersionKind(id.Kind)
	err := c.Reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: id.Name}, obj)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get %s %s/%s: %w", id.Kind.Kind, namespace, id.Name, err)
	}
	return obj, nil
}

// inSync reports whether an object matches a configuration.
func inSync(owner desired.Owner, config *desired.Config, live rollout.Object) bool {
	want, err := config.Fields()
	if err != nil || !fieldmanager.MetadataMatches(owner, config, live) {
		return false
	}
	divergence, err := fieldmanager.Compare(want, live)
	return err == nil && divergence == ""
}

// Remove deletes a controlled child and its pods.
func (c *cluster) Remove(_ context.Context, owner desired.Owner, id desired.ID, current client.Object) (bool, error) {
	if current == nil || !metav1.IsControlledBy(current, &metav1.ObjectMeta{UID: owner.UID}) {
		return false, nil
	}
	c.remove(id)
	if workload := current.GetLabels()[c.Kind.Keys.Workload]; workload != "" && id.HasPods() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.removedWorkloads[workload] = true
		maps.DeleteFunc(c.objects, func(id desired.ID, obj client.Object) bool {
			return id.Kind == kindPod && obj.GetLabels()[c.Kind.Keys.Workload] == workload
		})
	}
	return true, nil
}

// OrphanPods deletes a StatefulSet and orphans its pods.
func (c *cluster) OrphanPods(_ context.Context, _ desired.Owner, id desired.ID, _ client.Object) error {
	c.remove(id)
	return nil
}

// DeleteOrphan deletes a pod or binding Secret.
func (c *cluster) DeleteOrphan(_ context.Context, obj client.Object) error {
	kind := desired.KindSecret
	if _, ok := obj.(*corev1.Pod); ok {
		kind = kindPod
	}
	c.remove(desired.ID{Kind: kind, Name: obj.GetName()})
	return nil
}

// SetFinalizers sets the finalizers of the application in the copy.
func (c *cluster) SetFinalizers(_ context.Context, _ desired.Owner, _, after []string, patched client.Object) error {
	app := c.app.DeepCopyObject().(execute.Application)
	app.SetFinalizers(after)
	c.app = app
	return assign(patched, app)
}

// RestoreOwnership restores the labels and the owner reference of a revision or job.
func (c *cluster) RestoreOwnership(_ context.Context, owner desired.Owner, obj client.Object) (client.Object, error) {
	kind := desired.KindJob
	if _, ok := obj.(*appsv1.ControllerRevision); ok {
		kind = desired.KindRevision
	}
	return c.mutate(desired.ID{Kind: kind, Name: obj.GetName()}, func(o client.Object) {
		labels := maps.Clone(o.GetLabels())
		if labels == nil {
			labels = map[string]string{}
		}
		maps.Copy(labels, desired.OwnerLabels(owner))
		o.SetLabels(labels)
		others := slices.DeleteFunc(slices.Clone(o.GetOwnerReferences()), func(r metav1.OwnerReference) bool { return r.UID == owner.UID })
		o.SetOwnerReferences(append(others, desired.OwnerReference(owner)))
	}), nil
}

// mutate replaces an object with a modified copy.
func (c *cluster) mutate(id desired.ID, change func(client.Object)) client.Object {
	obj := c.get(id).DeepCopyObject().(client.Object)
	change(obj)
	c.put(id, obj)
	return obj
}

// LabelRetained sets the labels of a retained claim or Secret.
func (c *cluster) LabelRetained(ctx context.Context, owner desired.Owner, k desired.RetainedObject, want map[string]string) error {
	if c.get(k.ID) == nil { // adoption of an unlabeled claim
		claim := &corev1.PersistentVolumeClaim{}
		if err := c.Reader.Get(ctx, client.ObjectKey{Namespace: owner.Namespace, Name: k.Name}, claim); err != nil {
			return c.checkReachable(Unreachable(err))
		}
		c.mu.Lock()
		c.objects[k.ID], c.adopted[k.ID] = claim, claim
		c.mu.Unlock()
	}
	c.mutate(k.ID, func(o client.Object) {
		labels := maps.Clone(o.GetLabels())
		if labels == nil {
			labels = map[string]string{}
		}
		delete(labels, c.Kind.Keys.Retained)
		maps.Copy(labels, want)
		o.SetLabels(labels)
	})
	return nil
}

// AnnotateRetained records the version of a database server on its claim.
func (c *cluster) AnnotateRetained(_ context.Context, _ desired.Owner, k desired.RetainedObject, annotations map[string]string) error {
	c.mutate(k.ID, func(o client.Object) {
		all := maps.Clone(o.GetAnnotations())
		if all == nil {
			all = map[string]string{}
		}
		maps.Copy(all, annotations)
		o.SetAnnotations(all)
	})
	return nil
}

// PurgeRetained deletes a claim or Secret.
func (c *cluster) PurgeRetained(_ context.Context, _ desired.Owner, k desired.RetainedObject) error {
	c.remove(k.ID)
	return nil
}

// CreateSecret creates the credentials of a component, without values.
func (c *cluster) CreateSecret(ctx context.Context, owner desired.Owner, component desired.Component) error {
	for _, credential := range component.Data.Credentials {
		if credential.SecretRef == nil || c.SecretsHidden {
			continue
		}
		m := &metav1.PartialObjectMetadata{}
		m.SetGroupVersionKind(desired.KindSecret)
		switch err := c.Get(ctx, client.ObjectKey{Namespace: owner.Namespace, Name: credential.SecretRef.Name}, m); {
		case apierrors.IsNotFound(err):
			return ownership.NewMissingCredentialSecret(owner, credential)
		case err != nil && !apierrors.IsForbidden(err):
			return c.checkReachable(Unreachable(err))
		}
	}
	c.putSecret(owner.Namespace, component.Data.Secret, desired.RetainedLabels(owner, component))
	return nil
}

func (c *cluster) putSecret(namespace, name string, labels map[string]string) {
	secret := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}}
	secret.SetGroupVersionKind(desired.KindSecret)
	c.put(desired.ID{Kind: desired.KindSecret, Name: name}, secret)
}

// CompleteSecret does nothing: metadata does not contain keys.
func (c *cluster) CompleteSecret(context.Context, desired.Owner, desired.Component) error { return nil }

// ResizeClaim requests another size. If the claim was written in the same pass, it returns ErrStale, because
// the operator waits for its cache.
func (c *cluster) ResizeClaim(_ context.Context, _ desired.Owner, claim *corev1.PersistentVolumeClaim, size resource.Quantity) error {
	id := desired.ID{Kind: desired.KindClaim, Name: claim.Name}
	if c.writtenThisPass[id] {
		return apply.ErrStale
	}
	if err := c.server.Resize(claim, size); err != nil {
		return c.checkReachable(err)
	}
	c.mutate(id, func(o client.Object) {
		o.(*corev1.PersistentVolumeClaim).Spec.Resources.Requests[corev1.ResourceStorage] = size
	})
	return nil
}

// CreateRevision stores a revision.
func (c *cluster) CreateRevision(_ context.Context, _ desired.Owner, revision *appsv1.ControllerRevision) (*appsv1.ControllerRevision, error) {
	c.put(revisionID(revision), revision)
	return revision, nil
}

// RenumberRevision gives a revision the latest number.
func (c *cluster) RenumberRevision(_ context.Context, _ desired.Owner, revision *appsv1.ControllerRevision, number int64) (*appsv1.ControllerRevision, error) {
	return c.mutateRevision(revision, func(r *appsv1.ControllerRevision) { r.Revision = number }), nil
}

// SetRevisionJobs stores the jobs of a revision.
func (c *cluster) SetRevisionJobs(_ context.Context, _ desired.Owner, revision *appsv1.ControllerRevision, jobs []string) (*appsv1.ControllerRevision, error) {
	return c.mutateRevision(revision, func(r *appsv1.ControllerRevision) {
		delete(r.Annotations, c.Kind.Keys.JobSpec)
		if len(jobs) > 0 {
			metav1.SetMetaDataAnnotation(&r.ObjectMeta, c.Kind.Keys.JobSpec, strings.Join(jobs, ","))
		}
	}), nil
}

// MarkRevisionHealthy marks a revision as healthy.
func (c *cluster) MarkRevisionHealthy(_ context.Context, _ desired.Owner, revision *appsv1.ControllerRevision) (*appsv1.ControllerRevision, error) {
	return c.mutateRevision(revision, func(r *appsv1.ControllerRevision) {
		metav1.SetMetaDataAnnotation(&r.ObjectMeta, c.Kind.Keys.RevisionHealthy, "true")
	}), nil
}

func (c *cluster) mutateRevision(revision *appsv1.ControllerRevision, change func(*appsv1.ControllerRevision)) *appsv1.ControllerRevision {
	return c.mutate(revisionID(revision), func(o client.Object) { change(o.(*appsv1.ControllerRevision)) }).(*appsv1.ControllerRevision)
}

func revisionID(r *appsv1.ControllerRevision) desired.ID {
	return desired.ID{Kind: desired.KindRevision, Name: r.Name}
}

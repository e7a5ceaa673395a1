package simulate

import (
	"context"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/childkind"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/health"
	"github.com/holdfast-dev/holdfast/internal/mariadb"
	"github.com/holdfast-dev/holdfast/internal/ownership"
	"github.com/holdfast-dev/holdfast/internal/reconcile/execute"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

// databases simulates servers that accept logins as soon as their pods are ready. Then the operator writes
// their binding Secrets.
type databases struct{ *cluster }

// Observe implements execute.Databases.
func (d databases) Observe(_ context.Context, s *execute.Scope) error {
	for _, c := range s.Components {
		if c.Database == nil {
			continue
		}
		if s.DatabaseHealth == nil {
			s.DatabaseHealth = map[string]health.Result{}
		}
		s.DatabaseHealth[c.Name] = health.Result{Status: health.Healthy}
		set := s.Children[c.Workload]
		if set == nil || c.Suspended || c.InvalidMessage != "" || c.Data.Conflict != "" || health.Evaluate(set).Status != health.Healthy {
			continue
		}
		if runsImage(set, c.Database.Image) {
			recordVersion(s, c)
		}
		if d.writeBinding(s.Owner, c) { // clients wait until the cache shows it
			s.DatabaseHealth[c.Name] = health.Result{Status: health.Progressing, Reason: appsapi.ReasonProgressing}
		}
	}
	return nil
}

// UnknownVersion is the placeholder for a server version that the image does not show.
const UnknownVersion = "not-known"

func runsImage(workload rollout.Object, image string) bool {
	set, ok := workload.(*appsv1.StatefulSet)
	return ok && slices.ContainsFunc(set.Spec.Template.Spec.Containers, func(c corev1.Container) bool { return c.Image == image })
}

// recordVersion simulates the version that a server reports and the operator records on the volume. With an
// unchanged image the server reports the recorded version.
func recordVersion(s *execute.Scope, c desired.Component) {
	version := UnknownVersion
	if v := c.Database.ImageVersion(c.Database.Image); v != (mariadb.Version{}) {
		version = v.Series()
	}
	for _, k := range c.Data.Retained {
		if k.Claim != nil && k.GetAnnotations()[s.Owner.Keys.ServerImage] == c.Database.Image {
			version = k.GetAnnotations()[s.Owner.Keys.ServerVersion]
		}
	}
	if s.ServerVersions == nil {
		s.ServerVersions = map[string]string{}
	}
	s.ServerVersions[c.Name] = version
}

// bindingContent returns the content of a binding Secret that depends on the spec.
func bindingContent(c desired.Component) string { return c.Database.Host + "/" + c.Database.Database }

// writeBinding writes the binding Secret of a database if its content changes. The pods of its
// clients are then replaced.
func (c *cluster) writeBinding(owner desired.Owner, component desired.Component) (written bool) {
	name := component.Database.BindingSecret
	if c.bindings[name] == bindingContent(component) {
		return false
	}
	c.bindings[name], c.changedBindings[name] = bindingContent(component), true
	c.putSecret(owner.Namespace, name, desired.BindingLabels(owner, component))
	return true
}

// loadBindings derives the contents of the existing binding Secrets from the live application: the
// caller does not read Secrets.
func (sim *simulator) loadBindings(ctx context.Context) error {
	if sim.Live == nil {
		return nil
	}
	owner, specs := sim.executor.OwnerOf(sim.Live), sim.Kind.Components(sim.Live)
	retained, err := sim.retained().List(ctx, owner, specs)
	if err != nil {
		return err
	}
	for _, c := range desired.Build(owner, specs, desired.ClusterState{Retained: retained}) {
		if c.Database == nil {
			continue
		}
		binding := childkind.NewConfigRefMetadata(desired.RefSecret)
		err := sim.Get(ctx, types.NamespacedName{Namespace: owner.Namespace, Name: c.Database.BindingSecret}, binding)
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		if err == nil || sim.SecretsHidden {
			sim.bindings[c.Database.BindingSecret] = bindingContent(c)
		}
	}
	return nil
}

// configRefs returns an unknown hash for rewritten binding Secrets.
type configRefs struct {
	execute.ConfigRefs
	*cluster
}

// HashesFor implements execute.ConfigRefs.
func (r configRefs) HashesFor(ctx context.Context, app types.NamespacedName, components []desired.ExpandedComponent, children rollout.Observed, watchOnly []desired.Ref) (desired.RefStates, error) {
	states, err := r.ConfigRefs.HashesFor(ctx, app, components, children, watchOnly)
	if err != nil {
		return nil, err
	}
	for _, component := range components {
		for _, ref := range desired.Refs(component) {
			if ref.Kind == desired.RefSecret && r.changedBindings[ref.Name] {
				states[ref] = desired.RefState{UID: UnknownHash, Hash: UnknownHash}
			}
		}
	}
	return states, nil
}

// optionalKinds are the kinds that the cluster does not serve.
type optionalKinds map[schema.GroupVersionKind]bool

// IsReadable implements execute.OptionalKinds.
func (missing optionalKinds) IsReadable(kind schema.GroupVersionKind) bool { return !missing[kind] }

// EnsureWritable implements execute.OptionalKinds.
func (missing optionalKinds) EnsureWritable(_ context.Context, namespace string, id desired.ID) error {
	if missing[id.Kind] {
		return &ownership.UnknownKind{Child: id, Namespace: namespace}
	}
	return nil
}

// RefineError implements execute.OptionalKinds.
func (optionalKinds) RefineError(_ context.Context, _ string, _ desired.ID, err error) error {
	return err
}

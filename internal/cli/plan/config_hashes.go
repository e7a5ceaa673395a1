package plan

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/appkind"
	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/health"
	"github.com/holdfast-dev/holdfast/internal/rollout"
	"github.com/holdfast-dev/holdfast/internal/simulate"
)

// HashesFor returns the hashes of the ConfigMaps and Secrets that pods refer to. It reads only the metadata
// of Secrets: a hash that the operator recorded is valid as long as the Secret does not change.
func (l *observer) HashesFor(ctx context.Context, _ types.NamespacedName, components []desired.ExpandedComponent, _ rollout.Observed, _ []desired.Ref) (desired.RefStates, error) {
	out := desired.RefStates{}
	for _, component := range components {
		for _, ref := range desired.Refs(component) {
			state, known := l.hashes[ref]
			if !known {
				var err error
				if state, err = l.configHash(ctx, ref, l.recorded[ref], l.isApplied(components, ref)); err != nil {
					return nil, err
				}
				l.hashes[ref] = state
			}
			if state != nil {
				out[ref] = *state
			}
		}
	}
	return out, nil
}

// configHash returns the hash of a referenced object, or nil if the object does not exist.
func (l *observer) configHash(ctx context.Context, ref desired.Ref, recorded []desired.RefState, applied bool) (*desired.RefState, error) {
	if ref.Kind == desired.RefConfigMap {
		return l.configMapHash(ctx, ref)
	}
	current, err := l.getMetadata(ctx, ref.Kind, ref.Name)
	if apierrors.IsForbidden(err) {
		if len(recorded) > 0 {
			return &recorded[0], nil
		}
		l.addNote("No permission to read Secret %s: the plan assumes that it exists.", ref.Name)
		return &desired.RefState{UID: simulate.UnknownHash, Hash: simulate.UnknownHash}, nil
	}
	if err != nil || current == nil {
		return nil, err
	}
	// A write without a change of data keeps the recorded hash, so the hash is also valid if the operator
	// has applied the spec since.
	i := slices.IndexFunc(recorded, func(r desired.RefState) bool { return r.IsCurrent(current) || applied && r.UID == current.UID })
	if i >= 0 {
		return &recorded[i], nil
	}
	return &desired.RefState{UID: current.UID, ResourceVersion: current.ResourceVersion, Hash: simulate.UnknownHash}, nil
}

func (l *observer) configMapHash(ctx context.Context, ref desired.Ref) (*desired.RefState, error) {
	var config corev1.ConfigMap
	err := l.client.Get(ctx, client.ObjectKey{Namespace: l.owner.Namespace, Name: ref.Name}, &config)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get ConfigMap %s/%s: %w", l.owner.Namespace, ref.Name, cli.WithHint(err))
	}
	return &desired.RefState{UID: config.UID, ResourceVersion: config.ResourceVersion, Hash: desired.HashRefData(desired.ConfigMapData(&config), ref.Keys, nil)}, nil
}

// isApplied reports whether the operator has applied the current spec to a component that refers to a
// ConfigMap or Secret. Another component may be rejected.
func (l *observer) isApplied(components []desired.ExpandedComponent, ref desired.Ref) bool {
	if l.live == nil {
		return false
	}
	status := l.live.ApplicationStatus()
	applied := meta.FindStatusCondition(status.Conditions, appsapi.ConditionApplied)
	if applied == nil || applied.ObservedGeneration != l.live.GetGeneration() {
		return false
	}
	stack, ok := l.live.(appkind.Stack)
	if applied.Status == metav1.ConditionTrue || !ok {
		return applied.Status == metav1.ConditionTrue
	}
	for _, c := range components {
		for _, s := range stack.StackStatus().Components {
			if s.Name == c.Name && s.Health == string(health.Healthy) && slices.Contains(desired.Refs(c), ref) {
				return true
			}
		}
	}
	return false
}

package plan

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

// unknownHash stands for the hash of a content that only the operator can tell: it hashes
// Secrets with a key of its own.
const unknownHash = "not-known"

// configHashes are those of the ConfigMaps and Secrets that pods take configuration from. Of
// Secrets only metadata is read: what the operator has written down about one counts while
// that is the same object.
func (l *observer) configHashes(ctx context.Context, observed rollout.Observed) (desired.RefStates, error) {
	recorded := map[desired.Ref][]desired.RefState{}
	for _, live := range observed {
		for ref, content := range desired.RecordedRefs(live) {
			recorded[ref] = append(recorded[ref], content)
		}
	}
	out := desired.RefStates{}
	for _, component := range l.specs {
		for _, ref := range desired.Refs(component) {
			content, err := l.configHash(ctx, ref, recorded[ref])
			if err != nil {
				return nil, err
			}
			if content != nil {
				out[ref] = *content
			}
		}
	}
	return out, nil
}

// configHash returns what is known of the content of a reference, nil if there is no such object.
func (l *observer) configHash(ctx context.Context, ref desired.Ref, recorded []desired.RefState) (*desired.RefState, error) {
	if ref.Kind == desired.RefConfigMap {
		return l.configMapHash(ctx, ref)
	}
	current, err := l.getMetadata(ctx, ref.Kind, ref.Name)
	if apierrors.IsForbidden(err) {
		if len(recorded) > 0 {
			return &recorded[0], nil
		}
		l.addNote("You may not read Secret %s, so it is taken for granted that it exists.", ref.Name)
		return &desired.RefState{UID: unknownHash, Hash: unknownHash}, nil
	}
	if err != nil || current == nil {
		return nil, err
	}
	applied := l.isApplied()
	// One that was written without a change keeps its entry, and an operator at rest has
	// looked at what is there.
	i := slices.IndexFunc(recorded, func(r desired.RefState) bool { return r.IsCurrent(current) || applied && r.UID == current.UID })
	if i >= 0 {
		return &recorded[i], nil
	}
	return &desired.RefState{UID: current.UID, ResourceVersion: current.ResourceVersion, Hash: unknownHash}, nil
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

// isApplied says whether the operator has applied the application as it is.
func (l *observer) isApplied() bool {
	if l.live == nil {
		return false
	}
	c := meta.FindStatusCondition(l.live.ApplicationStatus().Conditions, appsapi.ConditionApplied)
	return c != nil && c.Status == "True" && c.ObservedGeneration == l.live.GetGeneration()
}

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

// notKnown stands for the hash of a content that only the operator can tell: it hashes
// Secrets with a key of its own.
const notKnown = "not-known"

// contents are those of the ConfigMaps and Secrets that pods take configuration from. Of
// Secrets only metadata is read: what the operator has written down about one counts while
// that is the same object.
func (l *looker) contents(ctx context.Context, seen rollout.Seen) (desired.Contents, error) {
	recorded := map[desired.Ref][]desired.Content{}
	for _, live := range seen {
		for ref, content := range desired.Recorded(live) {
			recorded[ref] = append(recorded[ref], content)
		}
	}
	out := desired.Contents{}
	for _, component := range l.specs {
		for _, ref := range desired.Refs(component) {
			content, err := l.content(ctx, ref, recorded[ref])
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

// content returns what is known of the content of a reference, nil if there is no such object.
func (l *looker) content(ctx context.Context, ref desired.Ref, recorded []desired.Content) (*desired.Content, error) {
	if ref.Kind == desired.RefConfigMap {
		return l.configMap(ctx, ref)
	}
	now, err := l.metadata(ctx, ref.Kind, ref.Name)
	if apierrors.IsForbidden(err) {
		if len(recorded) > 0 {
			return &recorded[0], nil
		}
		l.note("You may not read Secret %s, so it is taken for granted that it exists.", ref.Name)
		return &desired.Content{UID: notKnown, Hash: notKnown}, nil
	}
	if err != nil || now == nil {
		return nil, err
	}
	settled := l.settled()
	// One that was written without a change keeps its entry, and an operator at rest has
	// looked at what is there.
	i := slices.IndexFunc(recorded, func(r desired.Content) bool { return r.IsOf(now) || settled && r.UID == now.UID })
	if i >= 0 {
		return &recorded[i], nil
	}
	return &desired.Content{UID: now.UID, ResourceVersion: now.ResourceVersion, Hash: notKnown}, nil
}

func (l *looker) configMap(ctx context.Context, ref desired.Ref) (*desired.Content, error) {
	var config corev1.ConfigMap
	err := l.client.Get(ctx, client.ObjectKey{Namespace: l.owner.Namespace, Name: ref.Name}, &config)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get ConfigMap %s/%s: %w", l.owner.Namespace, ref.Name, cli.Explained(err))
	}
	return &desired.Content{UID: config.UID, ResourceVersion: config.ResourceVersion, Hash: desired.HashContent(desired.ContentOf(&config), ref.Keys, nil)}, nil
}

// settled says whether the operator has applied the application as it is.
func (l *looker) settled() bool {
	if l.live == nil {
		return false
	}
	c := meta.FindStatusCondition(l.live.ApplicationStatus().Conditions, appsapi.ConditionApplied)
	return c != nil && c.Status == "True" && c.ObservedGeneration == l.live.GetGeneration()
}

// Package reader reads the revisions of an application, for plugin and center.
package reader

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/appkind"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/revision"
)

// Revision is a stored spec of an application.
type Revision struct {
	Number int64
	// Name is the name of the ControllerRevision.
	Name string
	// Created is when the spec was applied first. A rollback to it gives it a new number.
	Created time.Time
	// Healthy reports whether all components were ready with it.
	Healthy bool
	// Current reports whether it is the current spec of the application.
	Current bool
	Spec    revision.Spec
}

// List returns the revisions of an application, the oldest first. For a kind without revisions it
// returns an error with the alternative.
func List(ctx context.Context, c client.Reader, app appkind.Application) ([]Revision, error) {
	current, err := currentRevisionName(app)
	if err != nil {
		return nil, err
	}
	var list appsv1.ControllerRevisionList
	err = c.List(ctx, &list, client.InNamespace(app.GetNamespace()), client.MatchingLabels{appkind.Of(app).Keys.OwnerUID: string(app.GetUID())})
	if err != nil {
		return nil, fmt.Errorf("list the ControllerRevisions of %s: %w", appkind.Title(app), err)
	}
	var out []Revision
	for i := range list.Items {
		r := &list.Items[i]
		if !metav1.IsControlledBy(r, app) {
			continue
		}
		content, err := revision.Read(r)
		if err != nil {
			return nil, err
		}
		item := Revision{Number: r.Revision, Name: r.Name, Created: r.CreationTimestamp.Time, Healthy: revision.IsHealthy(appkind.Of(app).Keys, r), Current: r.Name == current}
		if err := utiljson.Unmarshal(content, &item.Spec); err != nil {
			return nil, fmt.Errorf("read ControllerRevision %s/%s: %w", r.Namespace, r.Name, err)
		}
		out = append(out, item)
	}
	slices.SortFunc(out, func(a, b Revision) int {
		return cmp.Or(cmp.Compare(a.Number, b.Number), cmp.Compare(a.Name, b.Name))
	})
	return markCurrentFromStatus(app, out), nil
}

// currentRevisionName returns the name that the operator gives to the revision of the current spec.
func currentRevisionName(app appkind.Application) (string, error) {
	spec, err := revisionSpec(app)
	if err != nil {
		return "", err
	}
	encoded, err := revision.Encode(spec)
	if err != nil {
		return "", err
	}
	return desired.RevisionName(appkind.Owner(app), encoded.Hash), nil
}

// revisionSpec returns the part of the spec that revisions store.
func revisionSpec(app appkind.Application) (spec any, err error) {
	kind := appkind.Of(app)
	if kind.Discovered {
		return nil, appkind.UserErrorf("%s is managed by another operator, and only that operator can read its revisions; "+
			"apply the earlier manifest, for example from Git", appkind.Title(app))
	}
	history := kind.History
	if history == nil {
		return nil, appkind.UserErrorf("%s has no revisions: kind %s does not store earlier specs; "+
			"apply the earlier manifest, for example from Git", appkind.Title(app), kind.Kind)
	}
	spec, _ = history.Spec(app)
	return spec, nil
}

// markCurrentFromStatus uses the status if no revision has the expected name: an operator of
// another version may encode specs differently.
func markCurrentFromStatus(app appkind.Application, revisions []Revision) []Revision {
	status := app.ApplicationStatus()
	if status.ObservedGeneration != app.GetGeneration() || slices.ContainsFunc(revisions, func(r Revision) bool { return r.Current }) {
		return revisions
	}
	stack, ok := app.(appkind.Stack)
	if !ok {
		return revisions
	}
	for i := range revisions {
		revisions[i].Current = strconv.FormatInt(revisions[i].Number, 10) == stack.StackStatus().CurrentRevision
	}
	return revisions
}

// Find returns the revision with a number.
func Find(app appkind.Application, revisions []Revision, number int64) (Revision, error) {
	i := slices.IndexFunc(revisions, func(r Revision) bool { return r.Number == number })
	if i < 0 {
		return Revision{}, appkind.UserErrorf("%s has no revision %d; list its revisions: kubectl holdfast history %s -n %s",
			appkind.Title(app), number, app.GetName(), app.GetNamespace())
	}
	return revisions[i], nil
}

// CurrentSpec returns the stored part of the current spec of an application.
func CurrentSpec(app appkind.Application) (revision.Spec, error) {
	spec, err := revisionSpec(app)
	if err != nil {
		return nil, err
	}
	return toSpec(spec)
}

// Canonical normalizes a spec as the operator encodes it, for comparisons: 1024Mi equals 1Gi, and
// empty fields are omitted.
func Canonical(kind *appkind.Kind, spec revision.Spec) (revision.Spec, error) {
	content, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	typed := kind.History.NewSpec()
	if err := json.Unmarshal(content, typed); err != nil {
		return nil, fmt.Errorf("read a spec: %w; use the plugin version of the operator", err)
	}
	return toSpec(typed)
}

func toSpec(value any) (revision.Spec, error) {
	content, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	var out revision.Spec
	return out, utiljson.Unmarshal(content, &out)
}

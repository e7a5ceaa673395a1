// Package revisions reads the specs that the operator remembers of an application, and says
// how two of them differ. Plugin and center share it.
//
// Safety rule: it only reads. A password that somebody wrote into a spec is shown nowhere.
package revisions

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

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/appkind"
	"github.com/holdfast-dev/holdfast/internal/application"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/history"
)

// Spec is a spec, or the part of it that is remembered, as the API server has it: a field
// that this version does not know is still there.
type Spec = map[string]any

// Revision is a spec that was applied once.
type Revision struct {
	Number int64
	// Name is that of the ControllerRevision.
	Name string
	// Created is when the spec was applied first. Who goes back to it gives it a new number.
	Created time.Time
	// Healthy says whether everything was ready with it.
	Healthy bool
	// Current says whether it is the spec that the application has now.
	Current bool
	Spec    Spec
}

// List returns the revisions of an application, the oldest first. A kind without revisions
// is an error that says what to do instead.
func List(ctx context.Context, c client.Reader, app application.Application) ([]Revision, error) {
	current, err := currentRevisionName(app)
	if err != nil {
		return nil, err
	}
	var list appsv1.ControllerRevisionList
	err = c.List(ctx, &list, client.InNamespace(app.GetNamespace()), client.MatchingLabels{appsapi.LabelOwnerUID: string(app.GetUID())})
	if err != nil {
		return nil, fmt.Errorf("list the ControllerRevisions of %s: %w", application.Title(app), err)
	}
	var out []Revision
	for i := range list.Items {
		r := &list.Items[i]
		if !metav1.IsControlledBy(r, app) {
			continue
		}
		content, err := history.Read(r)
		if err != nil {
			return nil, err
		}
		revision := Revision{Number: r.Revision, Name: r.Name, Created: r.CreationTimestamp.Time, Healthy: history.IsHealthy(r), Current: r.Name == current}
		if err := utiljson.Unmarshal(content, &revision.Spec); err != nil {
			return nil, fmt.Errorf("read ControllerRevision %s/%s: %w", r.Namespace, r.Name, err)
		}
		out = append(out, revision)
	}
	slices.SortFunc(out, func(a, b Revision) int {
		return cmp.Or(cmp.Compare(a.Number, b.Number), cmp.Compare(a.Name, b.Name))
	})
	return markCurrentFromStatus(app, out), nil
}

// currentRevisionName is the name of the revision with the spec that the application has now, as the
// operator gives it.
func currentRevisionName(app application.Application) (string, error) {
	spec, err := revisionSpec(app)
	if err != nil {
		return "", err
	}
	encoded, err := history.Encode(spec)
	if err != nil {
		return "", err
	}
	return desired.RevisionName(application.Owner(app), encoded.Hash), nil
}

// revisionSpec is the part of the spec that revisions have.
func revisionSpec(app application.Application) (spec any, err error) {
	switch o := app.(type) {
	case *appsapi.AppStack:
		spec, _ = appkind.AppStackRevisionSpec(o)
	case *appsapi.CloudManager:
		spec, _ = appkind.CloudManagerRevisionSpec(o)
	default:
		return nil, application.UserErrorf("%s has no revisions: an %s remembers no earlier specs; take the earlier manifest from where you keep it, for example git, and kubectl apply it", application.Title(app), application.KindOf(app))
	}
	return spec, nil
}

// markCurrentFromStatus trusts the status when no revision has the name that we would give: the
// operator is of another version then, and writes specs down differently.
func markCurrentFromStatus(app application.Application, revisions []Revision) []Revision {
	status := app.ApplicationStatus()
	if status.ObservedGeneration != app.GetGeneration() || slices.ContainsFunc(revisions, func(r Revision) bool { return r.Current }) {
		return revisions
	}
	stack, ok := app.(interface{ StackStatus() *appsapi.StackStatus })
	if !ok {
		return revisions
	}
	for i := range revisions {
		revisions[i].Current = strconv.FormatInt(revisions[i].Number, 10) == stack.StackStatus().CurrentRevision
	}
	return revisions
}

// Find returns the revision of a number.
func Find(app application.Application, revisions []Revision, number int64) (Revision, error) {
	i := slices.IndexFunc(revisions, func(r Revision) bool { return r.Number == number })
	if i < 0 {
		return Revision{}, application.UserErrorf("%s has no revision %d; kubectl holdfast history %s -n %s lists those it has", application.Title(app), number, app.GetName(), app.GetNamespace())
	}
	return revisions[i], nil
}

// CurrentSpec is the remembered part of the spec that the application has now.
func CurrentSpec(app application.Application) (Spec, error) {
	spec, err := revisionSpec(app)
	if err != nil {
		return nil, err
	}
	return toSpec(spec)
}

// Canonical writes a spec of a kind as the operator writes it down, so that two of them can
// be compared: 1024Mi is 1Gi, and what is empty is not there.
func Canonical(kind string, spec Spec) (Spec, error) {
	content, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	var typed any
	switch kind {
	case "AppStack":
		typed = &appsapi.AppStackSpec{}
	case "CloudManager":
		typed = &appsapi.CloudManagerSpec{}
	default:
		return spec, nil
	}
	if err := json.Unmarshal(content, typed); err != nil {
		return nil, fmt.Errorf("read a spec: %w; use a plugin of the version of the operator", err)
	}
	return toSpec(typed)
}

func toSpec(value any) (Spec, error) {
	content, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	var out Spec
	return out, utiljson.Unmarshal(content, &out)
}

package execute

import (
	"context"
	"slices"

	"github.com/holdfast-dev/holdfast/internal/apply"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/mariadb"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

// prepareData labels claims and creates credentials before components are applied. If this fails
// for a component, the component is not applied.
func (e *Executor) prepareData(ctx context.Context, s *Scope) {
	for i := range s.Plan.Steps {
		step := &s.Plan.Steps[i]
		if step.Data == nil || !step.Data.PodsAllowed {
			continue
		}
		c := s.component(step.Component)
		if s.Children[c.Workload] == nil && !slices.ContainsFunc(step.Apply, func(a rollout.ChildApply) bool { return a.ID == c.Workload }) {
			continue // the component waits for a dependency
		}
		if err := e.prepareComponentData(ctx, s, c, step.Data); err != nil {
			s.ChildErrs[c.Workload] = err
			step.RemoveFirst, step.Apply, step.Remove, step.Data.ResizeClaims, step.Data.ReplaceClaims, step.Data.RecreateStatefulSet = nil, nil, nil, nil, nil, false
		}
	}
}

// prepareComponentData labels the data of a component, creates its credentials if they never
// existed, and ensures that no pod starts with wrong data.
func (e *Executor) prepareComponentData(ctx context.Context, s *Scope, c desired.Component, d *rollout.DataPlan) error {
	if (s.Children[c.Workload] == nil || d.CreateSecret) && !s.retainedVerified {
		if err := e.verifyGeneration(ctx, s.App); err != nil {
			return err
		}
		if err := e.dataReader().Verify(ctx, s.Owner, e.Kind.Components(s.App), s.Retained, c.Name); err != nil {
			return err
		}
		s.retainedVerified = true // later differences are caused by our own writes
	}
	if err := e.recordServerVersion(ctx, s, c, d); err != nil {
		return err
	}
	adoptable, err := e.dataReader().AdoptableClaims(ctx, s.Owner, c, d.NewClaims)
	if err != nil {
		return err
	}
	for _, l := range d.Relabel {
		if err := e.Writer.LabelRetained(ctx, s.Owner, l.RetainedObject, l.DesiredLabels); err != nil {
			return err
		}
		if l.MarkedRetained() {
			s.addChange(c.Name, l.ID, apply.Adopted)
		}
	}
	if err := e.ensureCredentials(ctx, s, c, d); err != nil {
		return err
	}
	// The credentials must exist before the data is labeled: labeled data without credentials is reported
	// as CredentialsLost.
	for _, k := range adoptable {
		if err := e.Writer.LabelRetained(ctx, s.Owner, k, desired.RetainedLabels(s.Owner, c)); err != nil {
			return err
		}
		s.addChange(c.Name, k.ID, apply.Adopted)
	}
	return nil
}

// ensureCredentials creates the Secret of a component, or adds missing keys.
func (e *Executor) ensureCredentials(ctx context.Context, s *Scope, c desired.Component, d *rollout.DataPlan) error {
	if d.CreateSecret {
		if err := e.Writer.CreateSecret(ctx, s.Owner, c); err != nil {
			return err
		}
		s.addChange(c.Name, desired.ID{Kind: desired.KindSecret, Name: c.Data.Secret}, apply.Created)
		for _, credential := range c.Data.Credentials {
			if credential.Value != "" {
				s.PlainPasswords = append(s.PlainPasswords, PlainPassword{c.Name, c.Data.Secret, credential.Key})
			}
		}
	}
	if d.CompleteSecret {
		return e.Writer.CompleteSecret(ctx, s.Owner, c)
	}
	return nil
}

// recordServerVersion annotates the claims of a database with the version of the server that wrote
// to them, and with the schema, so that an older server never starts with these claims. The
// annotations exist as long as the claim.
func (e *Executor) recordServerVersion(ctx context.Context, s *Scope, c desired.Component, d *rollout.DataPlan) error {
	version, image := s.ServerVersions[c.Name], s.StartedImages[c.Name]
	if version == "" && image == "" || len(d.Relabel) > 0 { // relabel first: both patches require the observed resourceVersion of the claim
		return nil
	}
	for _, k := range c.Data.Retained {
		annotations := map[string]string{
			s.Owner.Keys.ServerVersion: version, s.Owner.Keys.ServerImage: c.Database.Image, s.Owner.Keys.Schema: c.Database.Database,
		}
		if version == "" {
			// The server has not reported its version, and may never do so. Use the version of its image.
			newer, ok := newerSeries(c.Database.ImageVersion(image), k.GetAnnotations()[s.Owner.Keys.ServerVersion])
			if !ok {
				continue
			}
			annotations = map[string]string{s.Owner.Keys.ServerVersion: newer, s.Owner.Keys.ServerImage: image}
		}
		if k.Claim == nil || hasAnnotations(k.GetAnnotations(), annotations) {
			continue
		}
		if err := e.Writer.AnnotateRetained(ctx, s.Owner, k, annotations); err != nil {
			return err
		}
	}
	return nil
}

// newerSeries returns the series of a server if its version is newer than the recorded version of a
// volume.
func newerSeries(current mariadb.Version, recorded string) (string, bool) {
	recordedVersion, err := mariadb.ParseVersion(recorded)
	return current.Series(), current != mariadb.Version{} && (err != nil || recordedVersion.OlderThan(current))
}

func hasAnnotations(annotations, want map[string]string) bool {
	for k, v := range want {
		if annotations[k] != v {
			return false
		}
	}
	return true
}

// changeVolumes requests the declared size of each claim, replaces claims that were never bound, and
// recreates the StatefulSet after all claims were resized.
func (e *Executor) changeVolumes(ctx context.Context, s *Scope) {
	for _, step := range s.Plan.Steps {
		if step.Data == nil || len(step.Data.ResizeClaims)+len(step.Data.ReplaceClaims) == 0 && !step.Data.RecreateStatefulSet {
			continue
		}
		c := s.component(step.Component)
		if s.ChildErrs[c.Workload] != nil {
			continue
		}
		if err := e.verifyGeneration(ctx, s.App); err != nil {
			s.ChildErrs[c.Workload] = err
			continue
		}
		for _, resize := range step.Data.ResizeClaims {
			id := desired.ID{Kind: desired.KindClaim, Name: resize.Claim.Name}
			if err := e.Writer.ResizeClaim(ctx, s.Owner, resize.Claim, resize.Size); err != nil {
				s.ChildErrs[id] = asResizeRejected(err)
			}
		}
		for _, claim := range step.Data.ReplaceClaims {
			if err := e.Writer.PurgeRetained(ctx, s.Owner, claim); err != nil {
				s.ChildErrs[claim.ID] = err
				continue
			}
			s.addChange(c.Name, claim.ID, Replaced)
		}
		if step.Data.RecreateStatefulSet {
			if err := e.Writer.OrphanPods(ctx, s.Owner, c.Workload, s.Child(c.Workload)); err != nil {
				s.ChildErrs[c.Workload] = err
				continue
			}
			// The cache still shows the deleted StatefulSet as ready, which would make the application
			// ready before the recreated StatefulSet is.
			delete(s.Children, c.Workload)
		}
	}
}

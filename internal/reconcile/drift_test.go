package reconcile

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/apply"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/objdiff"
	"github.com/holdfast-dev/holdfast/internal/reconcile/execute"
)

func repaired(id desired.ID, path string, from, to any, managers ...string) execute.Change {
	return execute.Change{Component: "web", Child: id, Action: apply.Repaired, DriftManagers: managers,
		Fields: []objdiff.FieldChange{{Path: objdiff.ParsePath(path), Type: objdiff.Changed, Old: from, New: to}}}
}

func recreated(id desired.ID) execute.Change {
	return execute.Change{Component: "web", Child: id, Action: apply.Recreated}
}

// driftStory reports corrections like the reconciler does.
type driftStory struct {
	log     *driftLog
	start   time.Time
	history []appsapi.DriftCorrection
	reports int
}

func (s *driftStory) at(after time.Duration, changes ...execute.Change) (next time.Time) {
	now := s.start.Add(after)
	s.log.record("app", changes, now)
	corrections, next := s.log.due("app", s.history, now)
	s.history = addCorrections(s.history, corrections)
	s.log.reported("app", corrections, now)
	s.reports += len(corrections)
	return next
}

func (s *driftStory) texts() []string {
	var out []string
	for _, d := range s.history {
		text := fmt.Sprintf("%s x%d %s-%s", d.Object.Kind, d.Count, d.FirstTime.Sub(s.start), d.LastTime.Sub(s.start))
		if d.Deleted {
			text += " deleted"
		}
		for _, f := range d.Fields {
			text += fmt.Sprintf(" %s %s>%s", f.Path, f.From, f.To)
		}
		out = append(out, strings.Join(append([]string{text}, d.Managers...), " by "))
	}
	return out
}

func newDriftStory() *driftStory {
	return &driftStory{log: newDriftLog(), start: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
}

func TestDriftHistory(t *testing.T) {
	const second = time.Second
	cases := map[string]struct {
		run     func(s *driftStory)
		want    []string
		reports int
	}{
		"changed": {func(s *driftStory) {
			s.at(0, repaired(deploymentID, "spec.replicas", int64(5), int64(2), "kubectl-set"))
		}, []string{"Deployment x1 0s-0s spec.replicas 5>2 by kubectl-set"}, 1},
		"deleted": {func(s *driftStory) { s.at(0, recreated(serviceID)) }, []string{"Service x1 0s-0s deleted"}, 1},
		"not a correction": {func(s *driftStory) {
			s.at(0, execute.Change{Child: deploymentID, Action: apply.Repaired}, execute.Change{Child: serviceID, Action: apply.Created},
				execute.Change{Child: serviceID, Action: apply.Updated, Fields: fieldChanges("spec.ports")})
		}, nil, 0},
		"two objects": {func(s *driftStory) {
			s.at(0, recreated(serviceID))
			s.at(5*second, recreated(deploymentID))
		}, []string{"Deployment x1 5s-5s deleted", "Service x1 0s-0s deleted"}, 2},
		"two changes within a minute": {func(s *driftStory) {
			s.at(0, repaired(deploymentID, "spec.replicas", int64(5), int64(2), "helm"))
			if next := s.at(10*second, repaired(deploymentID, "spec.paused", true, nil, "kubectl-edit")); next != s.start.Add(time.Minute) {
				t.Errorf("next report at %s", next)
			}
			if next := s.at(time.Minute); !next.IsZero() {
				t.Errorf("next report at %s although all are reported", next)
			}
		}, []string{"Deployment x2 0s-10s spec.paused true> spec.replicas 5>2 by kubectl-edit by helm"}, 2},
		"a later change is another entry": {func(s *driftStory) {
			s.at(0, recreated(serviceID))
			s.at(2*time.Minute, recreated(serviceID))
		}, []string{"Service x1 2m0s-2m0s deleted", "Service x1 0s-0s deleted"}, 2},
		"contention": {func(s *driftStory) {
			s.at(0, recreated(serviceID))
			for i := range 300 {
				s.at(time.Duration(i)*second, repaired(deploymentID, "spec.replicas", int64(i), int64(2), "hpa"))
			}
		}, []string{"Deployment x241 0s-4m0s spec.replicas 240>2 by hpa", "Service x1 0s-0s deleted"}, 6},
		"restart of the operator": {func(s *driftStory) {
			s.at(0, recreated(serviceID))
			s.log = newDriftLog()
			s.at(10*second, recreated(serviceID))
		}, []string{"Service x1 0s-0s deleted"}, 1},
		"bounded": {func(s *driftStory) {
			for i := range 20 {
				s.at(time.Duration(i)*2*time.Minute, recreated(serviceID))
			}
			s.history = s.history[:1]
		}, []string{"Service x1 38m0s-38m0s deleted"}, 20},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newDriftStory()
			tc.run(s)
			if diff := cmp.Diff(tc.want, s.texts()); diff != "" {
				t.Error(diff)
			}
			if s.reports != tc.reports {
				t.Errorf("%d reports, want %d", s.reports, tc.reports)
			}
		})
	}
}

// TestDriftHistoryIsBounded checks the limits that the schema of the status has.
func TestDriftHistoryIsBounded(t *testing.T) {
	s := newDriftStory()
	c := repaired(deploymentID, strings.Repeat("p", 600), strings.Repeat("v", 600), "x", strings.Repeat("m", 300))
	for i := range 20 {
		c.Fields = append(c.Fields, objdiff.FieldChange{Path: objdiff.ParsePath(fmt.Sprintf("spec.f%d", i))})
		c.DriftManagers = append(c.DriftManagers, fmt.Sprint(i))
	}
	for i := range 20 {
		s.at(time.Duration(i)*2*time.Minute, c)
	}
	d := s.history[0]
	if len(s.history) != 10 || len(d.Fields) != 5 || len(d.Managers) != 5 || len(d.Fields[0].Path) > 512 || len(d.Fields[0].From) > 128 || len(d.Managers[0]) > 128 {
		t.Errorf("too large: %d entries, the first is %+v", len(s.history), d)
	}
	s.log.forget("app")
	if len(s.log.apps) != 0 {
		t.Error("a deleted application is not forgotten")
	}
}

// TestDriftHistoryHidesSecrets checks values that readers of the application may not be allowed to read.
func TestDriftHistoryHidesSecrets(t *testing.T) {
	const secret = "geheim"
	for _, c := range []execute.Change{
		repaired(deploymentID, "spec.template.spec.containers[app].env[PASSWORD].value", secret, secret+"2"),
		repaired(deploymentID, "spec.template.spec.containers[app].env[PASSWORD]", map[string]any{"name": "PASSWORD", "value": secret}, nil),
		repaired(deploymentID, "spec.template.spec.containers[app].args", []any{"--password", secret}, []any{"--password=" + secret}),
		repaired(deploymentID, "spec.template.spec.containers[app].command", []any{"mariadb", "-p" + secret}, []any{"mariadb"}),
		repaired(desired.ID{Kind: desired.KindSecret, Name: "s"}, "data.a", secret, secret),
		repaired(desired.ID{Kind: desired.KindSecret, Name: "s"}, "immutable", secret, secret),
		repaired(desired.ID{Kind: desired.KindConfigMap, Name: "c"}, "data.config", secret, secret),
	} {
		d := newCorrection(c, time.Time{})
		if text := fmt.Sprint(d, driftCorrectedEvent(d)); strings.Contains(text, secret) || len(d.Fields) != 1 {
			t.Errorf("%s: %s", c.Fields[0].Path, text)
		}
	}
}

// TestDriftHistoryIsWrittenOncePerReport checks that only a new report causes a write of the status.
func TestDriftHistoryIsWrittenOncePerReport(t *testing.T) {
	before := &appsapi.AppService{}
	after := before.DeepCopy()
	after.Status.Drift = []appsapi.DriftCorrection{{Object: appsapi.ObjectReference{Kind: "Service", Name: "web"}, LastTime: metav1.Unix(1, 0), Count: 1}}
	if !shouldWriteStatus(before, after) {
		t.Error("a correction is not written")
	}
	if shouldWriteStatus(after, after.DeepCopy()) {
		t.Error("the same history is written again")
	}
}

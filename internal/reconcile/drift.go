package reconcile

import (
	"cmp"
	"encoding/json"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/apply"
	"github.com/holdfast-dev/holdfast/internal/conditions"
	"github.com/holdfast-dev/holdfast/internal/objdiff"
	"github.com/holdfast-dev/holdfast/internal/reconcile/execute"
	"github.com/holdfast-dev/holdfast/internal/redact"
)

const (
	// driftReportInterval limits the reports about one object: a controller that keeps changing it
	// must not cause a write of the status for each correction.
	driftReportInterval = time.Minute

	// Limits of the history, see appsapi.DriftCorrection.
	maxDriftHistory    = 10
	maxCorrectedFields = 5
	maxDriftManagers   = 5
	maxDriftPath       = 512
	maxDriftValue      = 128
	maxDriftManager    = 128
)

// driftLog counts drift corrections until they are reported. Losing it in a restart loses the
// corrections of the last minute.
type driftLog struct {
	mu   sync.Mutex
	apps map[types.UID]map[appsapi.ObjectReference]*driftWindow
}

// driftWindow are the corrections of one object since the last report.
type driftWindow struct {
	pending  *appsapi.DriftCorrection // nil if all corrections are reported
	reported time.Time
}

func newDriftLog() *driftLog {
	return &driftLog{apps: map[types.UID]map[appsapi.ObjectReference]*driftWindow{}}
}

// record adds the corrections of a reconcile.
func (l *driftLog) record(app types.UID, changes []execute.Change, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range changes {
		if !isCorrection(c) {
			continue
		}
		correction := newCorrection(c, now)
		if l.apps[app] == nil {
			l.apps[app] = map[appsapi.ObjectReference]*driftWindow{}
		}
		w := l.apps[app][correction.Object]
		if w == nil {
			w = &driftWindow{}
			l.apps[app][correction.Object] = w
		}
		if w.pending != nil {
			correction = mergeCorrections(*w.pending, correction)
		}
		w.pending = &correction
	}
}

// due returns the corrections to report now, and when the next report is due; zero if none is. history
// are the reports in the status, also those from before a restart.
func (l *driftLog) due(app types.UID, history []appsapi.DriftCorrection, now time.Time) (corrections []appsapi.DriftCorrection, next time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for object, w := range l.apps[app] {
		last := w.reported
		if i := slices.IndexFunc(history, func(d appsapi.DriftCorrection) bool { return d.Object == object }); last.IsZero() && i >= 0 {
			last = history[i].LastTime.Time
		}
		switch at := last.Add(driftReportInterval); {
		case w.pending == nil && !at.After(now):
			delete(l.apps[app], object)
		case w.pending == nil:
		case !at.After(now):
			corrections = append(corrections, *w.pending)
		case next.IsZero() || at.Before(next):
			next = at
		}
	}
	slices.SortFunc(corrections, func(a, b appsapi.DriftCorrection) int {
		return cmp.Or(b.LastTime.Compare(a.LastTime.Time), cmp.Compare(a.Object.Kind, b.Object.Kind), cmp.Compare(a.Object.Name, b.Object.Name))
	})
	return corrections, next
}

// reported records that corrections are in the status.
func (l *driftLog) reported(app types.UID, corrections []appsapi.DriftCorrection, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range corrections {
		if w := l.apps[app][c.Object]; w != nil {
			w.pending, w.reported = nil, now
		}
	}
}

func (l *driftLog) forget(app types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.apps, app)
}

// addCorrections returns a history with corrections added, newest first. Continuous corrections of an
// object increase the count of its newest entry.
func addCorrections(history, corrections []appsapi.DriftCorrection) []appsapi.DriftCorrection {
	if len(corrections) == 0 {
		return history
	}
	out, rest := slices.Clone(corrections), slices.Clone(history)
	for i, c := range out {
		newest := slices.IndexFunc(rest, func(d appsapi.DriftCorrection) bool { return d.Object == c.Object })
		if newest >= 0 && c.FirstTime.Sub(rest[newest].LastTime.Time) < driftReportInterval {
			out[i] = mergeCorrections(rest[newest], c)
			rest = slices.Delete(rest, newest, newest+1)
		}
	}
	out = append(out, rest...)
	return out[:min(len(out), maxDriftHistory)]
}

// isCorrection reports whether a change reverts what another client has changed. A write that only
// takes over fields with equal values corrects nothing.
func isCorrection(c execute.Change) bool {
	return c.Action == apply.Recreated || c.Action == apply.Repaired && len(c.Fields) > 0
}

func newCorrection(c execute.Change, now time.Time) appsapi.DriftCorrection {
	out := appsapi.DriftCorrection{
		Object:  appsapi.ObjectReference{Kind: c.Child.Kind.Kind, Name: c.Child.Name},
		Deleted: c.Action == apply.Recreated, FirstTime: metav1.NewTime(now), LastTime: metav1.NewTime(now), Count: 1,
	}
	for _, f := range c.Fields {
		out.Fields = addField(out.Fields, correctedField(c.Child.Kind.Kind, f))
	}
	for _, m := range c.DriftManagers {
		out.Managers = addManager(out.Managers, conditions.Truncate(m, maxDriftManager))
	}
	return out
}

// mergeCorrections returns one entry for two corrections of an object. Later values replace earlier ones.
func mergeCorrections(earlier, later appsapi.DriftCorrection) appsapi.DriftCorrection {
	out := *later.DeepCopy()
	out.FirstTime, out.Count, out.Deleted = earlier.FirstTime, earlier.Count+later.Count, earlier.Deleted || later.Deleted
	for _, f := range earlier.Fields {
		out.Fields = addField(out.Fields, f)
	}
	for _, m := range earlier.Managers {
		out.Managers = addManager(out.Managers, m)
	}
	return out
}

func addField(fields []appsapi.CorrectedField, f appsapi.CorrectedField) []appsapi.CorrectedField {
	known := slices.ContainsFunc(fields, func(k appsapi.CorrectedField) bool { return k.Path == f.Path })
	if known || len(fields) == maxCorrectedFields {
		return fields
	}
	return append(fields, f)
}

func addManager(managers []string, name string) []string {
	if slices.Contains(managers, name) || len(managers) == maxDriftManagers {
		return managers
	}
	return append(managers, name)
}

func correctedField(kind string, f objdiff.FieldChange) appsapi.CorrectedField {
	return appsapi.CorrectedField{
		Path: conditions.Truncate(f.Path.String(), maxDriftPath), From: driftValue(kind, f.Path, f.Old), To: driftValue(kind, f.Path, f.New),
	}
}

// driftValue returns a value as text, without values that can be secret.
func driftValue(kind string, path objdiff.Path, v any) string {
	if v == nil {
		return ""
	}
	if kind == "Secret" || slices.ContainsFunc(path, isArgument) {
		return redact.Placeholder
	}
	v = redact.ValueAt(path, v)
	text, ok := v.(string)
	if !ok {
		encoded, err := json.Marshal(v)
		if err != nil {
			return redact.Placeholder
		}
		text = string(encoded)
	}
	return conditions.Truncate(text, maxDriftValue)
}

// isArgument reports whether a step of a path is a command or its arguments. They can contain passwords that no rule
// recognizes, for example -pPASSWORD, and readers of an application are not necessarily readers of its workloads.
func isArgument(s objdiff.Step) bool { return s.Name == "args" || s.Name == "command" }

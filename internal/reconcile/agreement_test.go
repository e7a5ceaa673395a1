package reconcile

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/appkind"
	"github.com/holdfast-dev/holdfast/internal/center/informers"
	"github.com/holdfast-dev/holdfast/internal/center/model"
	"github.com/holdfast-dev/holdfast/internal/center/store"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/explain"
	"github.com/holdfast-dev/holdfast/internal/health"
	"github.com/holdfast-dev/holdfast/internal/inspect"
	"github.com/holdfast-dev/holdfast/internal/ownership"
	"github.com/holdfast-dev/holdfast/internal/reconcile/execute"
	"github.com/holdfast-dev/holdfast/internal/rollout"
	"github.com/holdfast-dev/holdfast/internal/testutil/fixtures"
)

// assessment is what a program says about an application.
type assessment struct {
	Ready      bool
	Components []componentAssessment
	// Causes are the codes and messages of all errors except for waiting components. The operator reports an
	// invalid spec and a name conflict as the reason of a condition, and the readers show them as causes.
	Causes []string
}

type componentAssessment struct {
	Name, Health, Message string
	Ready, Desired        int32
}

// operatorFacts are facts that the operator does not find in the objects, by fixture: it connects to databases,
// sees the answers to its writes, and learns from events which StorageClasses are missing, because it does not
// read them.
var operatorFacts = map[string]func(*execute.Scope, *fixtures.Fixture){
	"broken-db": func(_ *execute.Scope, s *fixtures.Fixture) {
		claim := fixtures.Get[*corev1.PersistentVolumeClaim](s, "data-cm-db-0")
		s.AddEvent(claim, "ProvisioningFailed", `storageclass.storage.k8s.io "local-path" not found`, 3)
	},
	"rotating": func(scope *execute.Scope, s *fixtures.Fixture) {
		db := s.StackStatus().Components[0]
		scope.DatabaseHealth = map[string]health.Result{"db": {Status: health.Status(db.Health), Reason: db.Reason, Message: db.Message}}
	},
	"conflict": func(scope *execute.Scope, _ *fixtures.Fixture) {
		id := desired.ID{Kind: desired.KindDeployment, Name: "shop-api"}
		scope.ChildErrs[id] = ownership.NewNameConflict(scope.Owner, id, "exists and is not managed by Holdfast; delete it")
	},
}

// stories are fixtures in addition to those with golden files.
var stories = map[string]func() *fixtures.Fixture{
	"image": func() *fixtures.Fixture { return change((*fixtures.Fixture).SetImageNotFound, "web") },
	"start": func() *fixtures.Fixture { return change((*fixtures.Fixture).SetStarting, "web") },
	"suspended crash": func() *fixtures.Fixture {
		s := fixtures.ByName["suspended"]()
		s.SetCrashLoop("web", 3, "")
		return s
	},
	"suspended start": func() *fixtures.Fixture {
		s := fixtures.ByName["suspended"]()
		s.SetStarting("web")
		return s
	},
	"missing child": func() *fixtures.Fixture {
		s := fixtures.ByName["healthy"]()
		s.Remove("Service", "shop-web")
		return s
	},
}

func change(set func(*fixtures.Fixture, string), component string) *fixtures.Fixture {
	s := fixtures.ByName["healthy"]()
	set(s, component)
	return s
}

// skipped are the fixtures without an assessment of the operator.
var skipped = map[string]string{
	"deleting":  "the operator has removed its finalizer",
	"stopping":  "a deletion has no component status",
	"unseen":    "no operator is running",
	"forbidden": "the operator may read everything; the user sees what it reports",
}

// TestProgramsAgree assesses each fixture as the operator, then as the plugin and the center with the status
// that the operator writes. All three must name the same components, counts, messages and causes.
func TestProgramsAgree(t *testing.T) {
	all := maps.Clone(fixtures.ByName)
	maps.Copy(all, stories)
	for name, newFixture := range all {
		t.Run(name, func(t *testing.T) {
			if reason, ok := skipped[name]; ok {
				t.Skip(reason)
			}
			s := newFixture()
			operator := assessAsOperator(t, name, s)
			in := s.Input()
			in.IncludeEdges = true
			if diff := cmp.Diff(operator, assessView(inspect.Evaluate(in))); diff != "" {
				t.Errorf("the plugin differs (-operator +plugin):\n%s", diff)
			}
			if diff := cmp.Diff(operator, assessView(assessAsCenter(t, s))); diff != "" {
				t.Errorf("the center differs (-operator +center):\n%s", diff)
			}
		})
	}
}

// waitPattern matches the message of a waiting component. It contains the whole chain, which the readers show as
// a tree.
var waitPattern = regexp.MustCompile(`^Component ".*?" waits for "(.*?)": .*$`)

// assessAsOperator reconciles a fixture without writes and stores the resulting status in the fixture.
func assessAsOperator(t *testing.T, name string, s *fixtures.Fixture) assessment {
	t.Helper()
	scope := execute.NewScope(s.App.(execute.Application), appkind.Owner(s.App))
	scope.Components, scope.Children = s.Components, rollout.Observed{}
	for _, obj := range s.Objects {
		scope.Children[desired.ID{Kind: fixtures.KindOf(obj), Name: obj.GetName()}] = obj
		if claim, ok := obj.(*corev1.PersistentVolumeClaim); ok {
			scope.Retained = append(scope.Retained, desired.RetainedClaim(scope.Owner.Keys, claim))
		}
	}
	if prepare := operatorFacts[name]; prepare != nil {
		prepare(scope, s)
	}
	scope.Plan, scope.SpecErr = rollout.NewPlan(rollout.Input{Owner: scope.Owner, Components: s.Components, Observed: scope.Children,
		Retained: scope.Retained, DatabaseHealth: scope.DatabaseHealth})
	before := s.App.ApplicationStatus()
	var states []componentState
	for _, c := range s.Components {
		snapshot := newSnapshot(scope, c, s.Pods(c.Name))
		for _, obj := range s.Objects {
			if event, ok := obj.(*corev1.Event); ok {
				snapshot.Add(event)
			}
		}
		states = append(states, assessComponent(c, scope, explain.Explain(snapshot, fixtures.Now), before.Causes))
	}
	after := computeStatus(before, s.App.GetGeneration(), states, scope, fixtures.Now)
	next := (&Reconciler{}).nextStatus(scope, after, states)
	s.App = next.(appkind.Application)

	out := assessment{Ready: meta.IsStatusConditionTrue(after.Conditions, "Ready")}
	for _, v := range states {
		c := componentAssessment{Name: v.status.Name, Health: v.status.Health, Message: waitPattern.ReplaceAllString(v.status.Message, "waits for $1"),
			Ready: v.status.Ready, Desired: v.status.Desired}
		if v.status.Reason == "Suspended" && c.Health == "Healthy" { // componentsReady counts it, so the health stays
			c.Health = "Suspended"
		}
		out.Components = append(out.Components, c)
	}
	for _, c := range after.Causes {
		out.Causes = append(out.Causes, fmt.Sprintf("%s: %s", c.Code, c.Message))
	}
	if c := meta.FindStatusCondition(after.Conditions, "Ready"); c.Reason == "InvalidSpec" || c.Reason == "NameConflict" {
		out.Causes = append(out.Causes, fmt.Sprintf("%s: %s", c.Reason, c.Message))
	}
	slices.Sort(out.Causes)
	return out
}

func assessView(v inspect.View) assessment {
	out := assessment{Ready: v.Ready}
	for _, c := range v.Components {
		out.Components = append(out.Components, componentAssessment{Name: c.Name, Health: string(c.Health), Message: c.Message, Ready: c.Ready, Desired: c.Desired})
	}
	for _, c := range v.Causes {
		if c.Severity == explain.Error && c.Code != explain.DependencyWait {
			out.Causes = append(out.Causes, fmt.Sprintf("%s: %s", c.Code, c.Message))
		}
	}
	slices.Sort(out.Causes)
	return out
}

// assessAsCenter fills a store with the projected objects, as the informers of the center do.
func assessAsCenter(t *testing.T, s *fixtures.Fixture) inspect.View {
	t.Helper()
	objects, projector := store.New(model.IndexTerms, nil), store.NewProjector(nil)
	for _, obj := range append(slices.Clone(s.Objects), s.App.(client.Object)) {
		objects.Set(projector.Project(obj.DeepCopyObject()))
	}
	m := model.New(model.Options{Store: objects, Clock: clocktesting.NewFakeClock(fixtures.Now),
		InformerState: func(schema.GroupKind, string) informers.State { return informers.Live }})
	ref := model.Ref{Kind: appkind.Of(s.App).Name(), Namespace: s.App.GetNamespace(), Name: s.App.GetName()}
	m.MarkDirty(ref)
	m.Refresh()
	if m.Get(ref) == nil {
		t.Fatalf("the center does not know %s", ref)
	}
	return m.Get(ref).View
}

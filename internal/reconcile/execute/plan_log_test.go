package execute

import (
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"

	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/health"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

func TestDecisionsAreLoggedWithTheirReason(t *testing.T) {
	deployment := desired.ID{Kind: desired.KindDeployment, Name: "shop-api"}
	job := desired.ID{Kind: desired.KindJob, Name: "shop-migrate-1"}
	plan := rollout.Plan{
		Steps: []rollout.Step{
			{Component: "api", WaitsFor: []string{"db"}, Apply: []rollout.ChildApply{{Child: desired.Child{ID: deployment}, HoldPodTemplate: true}}},
			{Component: "migrate", PreviousRun: &job},
			{Component: "db", RemoveFirst: []desired.ID{{Kind: desired.KindAutoscaler, Name: "shop-db"}}, Remove: []desired.ID{{Kind: desired.KindBudget, Name: "shop-db"}},
				Data: &rollout.DataPlan{Health: &health.Result{Reason: "StorageChangeRejected", Message: "too small"}}},
			{Component: "web", Apply: []rollout.ChildApply{{Child: desired.Child{ID: deployment}}}},
		},
		Prune:           []rollout.Removal{{Component: "old", Child: desired.ID{Kind: desired.KindService, Name: "shop-old"}}},
		PendingRemovals: []rollout.PendingRemoval{{Component: "cache", Message: "web still uses it"}},
	}
	lines := func(verbosity int) string {
		var out []string
		log := funcr.New(func(_, args string) { out = append(out, args) }, funcr.Options{Verbosity: verbosity})
		logPlan(log, plan)
		return strings.Join(out, "\n")
	}
	if got := lines(0); got != "" {
		t.Errorf("decisions are logged without -v:\n%s", got)
	}
	got := lines(1)
	for _, want := range []string{
		`"component"="api" "reason"="dependencies are not ready" "waitsFor"=["db"]`,
		`"child"="Deployment/shop-api"`, `"job"="shop-migrate-1"`, `"child"="HorizontalPodAutoscaler/shop-db"`, `"child"="PodDisruptionBudget/shop-db"`,
		`"reason"="StorageChangeRejected" "message"="too small"`, `"component"="old" "child"="Service/shop-old"`,
		`"component"="cache" "reason"="web still uses it"`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the log lacks %s:\n%s", want, got)
		}
	}
	if strings.Contains(got, `"web"`) {
		t.Errorf("an unaffected component is logged:\n%s", got)
	}
}

package edit

import (
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// TestRestartOfJobsSaysHowToRunThem checks the commands for a job that ran, a scheduled job, and a job without a Job.
func TestRestartOfJobsSaysHowToRunThem(t *testing.T) {
	const prefix = "AppStack prod/shop has no component to restart: jobs are not restarted "
	stack := &appsapi.AppStack{}
	inProd(stack)
	stack.Status.Components = []appsapi.ComponentStatus{
		{Name: "migrate", Type: appsapi.ComponentJob, ResourceName: "shop-migrate-05e3be00ad"}, {Name: "report", Type: appsapi.ComponentJob, ResourceName: "shop-report"},
		{Name: "new", Type: appsapi.ComponentJob},
	}
	for component, want := range map[string]string{
		"migrate": "(migrate); to run them again: kubectl delete job shop-migrate-05e3be00ad -n prod",
		"report":  "(report); to run them again: kubectl create job shop-report-now --from=cronjob/shop-report -n prod",
		"new":     "(new); change the spec of a job to run it again",
		"": "(migrate, report, new); to run them again: kubectl delete job shop-migrate-05e3be00ad -n prod; " +
			"kubectl create job shop-report-now --from=cronjob/shop-report -n prod",
	} {
		var spec map[string]any
		if err := yaml.Unmarshal([]byte(componentsSpec(`{name: migrate, job: {image: x}}`, `{name: report, job: {image: x, schedule: "@daily"}}`, `{name: new, job: {image: x}}`)), &spec); err != nil {
			t.Fatal(err)
		}
		if _, err := Restart(stack, spec, component, time.Now()); err == nil || err.Error() != prefix+want {
			t.Errorf("got %v, want %s", err, prefix+want)
		}
	}
}

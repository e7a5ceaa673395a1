package rollback

import (
	"bytes"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/edit"
	"github.com/holdfast-dev/holdfast/internal/revision"
	"github.com/holdfast-dev/holdfast/internal/revision/reader"
	"github.com/holdfast-dev/holdfast/internal/testutil/golden"
)

func TestPrintRollback(t *testing.T) {
	const now = `{components: [
	  {name: db, stateful: {image: "db:2", storage: [{name: data, mountPath: /d, size: 2Gi, className: fast}]}},
	  {name: cache, stateful: {image: "kv:1", storage: [{name: data, mountPath: /d, size: 1Gi}]}},
	  {name: web, service: {image: "web:2"}}]}`
	const earlier = `{components: [
	  {name: db, stateful: {image: "db:1", storage: [{name: data, mountPath: /d, size: 1Gi}]}},
	  {name: web, service: {image: "web:1", replicas: 3}}]}`
	at := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	app := &appsapi.AppStack{}
	app.Namespace, app.Name = "prod", "shop"
	past := edit.RollbackPlanner{App: app, Revisions: []reader.Revision{{Number: 1, Healthy: true, Created: at.Add(-50 * time.Hour)}}}
	for text, spec := range map[string]*revision.Spec{now: &past.CurrentSpec, earlier: &past.Revisions[0].Spec} {
		if err := yaml.Unmarshal([]byte(text), spec); err != nil {
			t.Fatal(err)
		}
	}
	past.Revisions[0].Spec["components"].([]any)[1].(map[string]any)["service"].(map[string]any)["replicas"] = int64(3) // as the API server has it
	d, err := past.Plan(1)
	if err != nil {
		t.Fatal(err)
	}
	for file, width := range map[string]int{"plan.txt": 0, "plan-narrow.txt": 60} {
		var out bytes.Buffer
		printRollback(d, app, at, cli.Terminal{Writer: &out, Width: width})
		golden.Check(t, file, out.String())
	}
}

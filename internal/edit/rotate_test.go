package edit

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/appkind"
)

func TestRotate(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "prod", Name: "shop"}
	stack, manager, service := &appsapi.AppStack{ObjectMeta: meta}, &appsapi.CloudManager{ObjectMeta: meta}, &appsapi.AppService{ObjectMeta: meta}
	const ownSecrets = "{components: [{name: db, database: {rootPasswordSecretRef: {name: a}, passwordSecretRef: {name: a}}}]}"
	const two = "{components: [{name: db, database: {version: '11.8'}}, {name: log, database: {rotation: {everyDays: 3}}}, {name: web, service: {}}]}"
	for _, c := range []struct {
		app                   appkind.Application
		spec, component, want string
		message               string
	}{
		{stack, two, "", strings.Replace(two, "{components", "{operations: [{component: db, rotationRequestedAt: AT}, {component: log, rotationRequestedAt: AT}], components", 1),
			"AppStack prod/shop: password rotation requested for db, log."},
		{stack, two, "log", strings.Replace(two, "{components", "{operations: [{component: log, rotationRequestedAt: AT}], components", 1),
			"AppStack prod/shop: password rotation requested for log."},
		{stack, two, "web", two, `component "web" of AppStack prod/shop is not a database, so it has no passwords to rotate`},
		{stack, "{components: [{name: web, service: {}}]}", "", "{components: [{name: web, service: {}}]}",
			"AppStack prod/shop has no database, so there are no passwords to rotate"},
		{stack, ownSecrets, "", ownSecrets,
			`both passwords of component "db" of AppStack prod/shop come from user-provided Secrets; change them there`},
		{manager, "{db: {rootPass: x}}", "", "{db: {rootPass: x}, operations: [{component: db, rotationRequestedAt: AT}]}",
			"CloudManager prod/shop: password rotation requested for db."},
		{manager, "{db: {rootPass: x}}", "front", "{db: {rootPass: x}}",
			`component "front" of CloudManager prod/shop is not a database, so it has no passwords to rotate`},
		{service, "{image: x}", "", "{image: x}", "AppService prod/shop has no database, so there are no passwords to rotate"},
	} {
		spec, want := parseSpec(t, c.spec), parseSpec(t, strings.ReplaceAll(c.want, "AT", `"2026-11-16T12:00:00Z"`))
		message, err := Rotate(c.app, spec, c.component, time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC))
		if err != nil {
			message = err.Error()
		}
		if message != c.message {
			t.Errorf("%s %q: got %q, want %q", c.spec, c.component, message, c.message)
		}
		if diff := cmp.Diff(want, spec); diff != "" {
			t.Errorf("%s %q (-want +got):\n%s", c.spec, c.component, diff)
		}
	}
}

func parseSpec(t *testing.T, text string) map[string]any {
	t.Helper()
	var spec map[string]any
	if err := yaml.Unmarshal([]byte(text), &spec); err != nil {
		t.Fatal(err)
	}
	return spec
}

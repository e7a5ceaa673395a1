package rollout

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/health"
)

// mariaDB is a database component with a version of the official image.
func mariaDB(version string, changes ...componentOption) testSpec {
	c := testSpec{Component: appsapi.Component{Name: "db", Database: &appsapi.DatabaseComponent{Version: version}}}
	c.Database.Storage.Size = resource.MustParse("1Gi")
	return withOptions(c, changes)
}

func withServerImage(image string) componentOption {
	return func(c *testSpec) { c.Database.Image = image }
}

func withSchema(name string) componentOption {
	return func(c *testSpec) { c.Database.Database = name }
}

// databaseClaim is the claim of a database, with the annotations that the operator records on it.
func databaseClaim(annotations map[string]string) desired.RetainedObject {
	return boundClaim("1Gi", "1Gi", func(c *corev1.PersistentVolumeClaim) { c.Annotations = annotations })
}

// writtenBy returns the annotations of a claim that a server has written to.
func writtenBy(version, image string) map[string]string {
	return map[string]string{appsapi.DefaultKeys.ServerVersion: version, appsapi.DefaultKeys.ServerImage: image}
}

// databaseCase is a database, the annotations of its claim, and the plan for it.
type databaseCase struct {
	spec        testSpec
	annotations map[string]string
	started     string // image of a server that was started on the data
	running     bool
	secretOnly  bool // the claim does not exist
	wantData    *DataPlan
	wantPlan    []string
}

func (tc databaseCase) run(t *testing.T) {
	t.Helper()
	claim := databaseClaim(tc.annotations)
	retained := []desired.RetainedObject{authSecret(claim), claim}
	if tc.secretOnly {
		retained = retained[:1]
	}
	observed := Observed{}
	if tc.running {
		observed = liveObjects(mariaDB("11.8"))
	}
	plan, err := NewPlan(Input{
		Owner: shop, Components: desired.Build(shop, expand(stack(tc.spec)), desired.ClusterState{Retained: retained}),
		Observed: observed, Retained: retained, StartedImages: map[string]string{"db": tc.started},
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(tc.wantData, plan.Steps[0].Data); diff != "" {
		t.Errorf("data plan (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(tc.wantPlan, planLines(plan)); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
}

// conflictPlan is the data plan of a database that must not start.
func conflictPlan(message string) *DataPlan {
	return &DataPlan{Health: &health.Result{Status: health.Degraded, Reason: "DataConflict", Message: message}}
}

const (
	applyDatabase  = "db: apply StatefulSet shop-db, Service shop-db-headless, Service shop-db"
	holdDatabase   = "db: apply StatefulSet shop-db without its pod template, Service shop-db-headless, Service shop-db"
	doNotStart     = "db: "
	goBackToSeries = " or later; to downgrade, dump the data and load it into a new component"
)

func TestDatabaseDowngradeIsRejected(t *testing.T) {
	written118, written106 := writtenBy("11.8.2-MariaDB-log", "mariadb:11.8"), writtenBy("10.6.21", "mariadb:10.6")
	conflict := func(written string) *DataPlan {
		return conflictPlan("PersistentVolumeClaim data-shop-db-0 was written by MariaDB " + written +
			", but image mariadb:11.4 is from the older series 11.4. A downgrade can damage the data, so nothing is changed. " +
			"Use an image of series 11.8" + goBackToSeries)
	}
	for name, tc := range map[string]databaseCase{
		"older series": {
			spec: mariaDB("11.4"), annotations: written118,
			wantData: conflict("11.8.2"), wantPlan: []string{doNotStart},
		},
		"older series while the newer server runs": {
			spec: mariaDB("11.4"), annotations: written118, running: true,
			wantData: conflict("11.8.2"), wantPlan: []string{holdDatabase},
		},
		"newer server started before its version was recorded": {
			spec: mariaDB("11.4"), started: "mariadb:11.8.3",
			wantData: conflict("11.8.3"), wantPlan: []string{doNotStart},
		},
		"newer server started on data of an older one": {
			spec: mariaDB("11.4"), annotations: written106, started: "mariadb:11.8.3",
			wantData: conflict("11.8.3"), wantPlan: []string{doNotStart},
		},
		"older server started on data of a newer one": {
			spec: mariaDB("11.4"), annotations: written118, started: "mariadb:10.6",
			wantData: conflict("11.8.2"), wantPlan: []string{doNotStart},
		},
	} {
		t.Run(name, tc.run)
	}
}

func TestDatabaseStartsWithReadableData(t *testing.T) {
	written118 := writtenBy("11.8.2-MariaDB-log", "mariadb:11.8")
	for name, tc := range map[string]databaseCase{
		"no version recorded":        {spec: mariaDB("11.4")},
		"same series":                {spec: mariaDB("11.8"), annotations: written118},
		"older patch of the series":  {spec: mariaDB("11.8.1"), annotations: written118},
		"newer series":               {spec: mariaDB("12.0"), annotations: written118},
		"older server was started":   {spec: mariaDB("11.8"), annotations: written118, started: "mariadb:10.6"},
		"unknown version was tried":  {spec: mariaDB("11.8"), annotations: written118, started: "mariadb:latest"},
		"image of unknown version":   {spec: mariaDB("", withServerImage("mariadb:latest")), annotations: written118},
		"same image, misleading tag": {spec: mariaDB("", withServerImage("db:11.4")), annotations: writtenBy("11.8.2", "db:11.4")},
	} {
		tc.wantData, tc.wantPlan = &DataPlan{CompleteSecret: true, PodsAllowed: true}, []string{applyDatabase}
		t.Run(name, tc.run)
	}
}

// TestDatabaseVersionIsReadFromClaims checks that annotations of the Secret are ignored: without a
// claim there is no data to damage.
func TestDatabaseVersionIsReadFromClaims(t *testing.T) {
	databaseCase{
		spec: mariaDB("11.4"), annotations: writtenBy("11.8.2", "mariadb:11.8"), secretOnly: true,
		wantData: &DataPlan{CompleteSecret: true, PodsAllowed: true, NewClaims: []string{"data-shop-db-0"}},
		wantPlan: []string{applyDatabase},
	}.run(t)
}

func TestDatabaseSchemaChangeIsRejected(t *testing.T) {
	schemaOrders := map[string]string{appsapi.DefaultKeys.Schema: "orders"}
	conflict := conflictPlan(`PersistentVolumeClaim data-shop-db-0 contains schema "orders", but database is "invoices": ` +
		"bound components would not find their data. Set database to orders")
	allowed := &DataPlan{CompleteSecret: true, PodsAllowed: true}
	for name, tc := range map[string]databaseCase{
		"another schema": {
			spec: mariaDB("11.8", withSchema("invoices")), annotations: schemaOrders,
			wantData: conflict, wantPlan: []string{doNotStart},
		},
		"another schema while the server runs": {
			spec: mariaDB("11.8", withSchema("invoices")), annotations: schemaOrders, running: true,
			wantData: conflict, wantPlan: []string{holdDatabase},
		},
		"same schema": {
			spec: mariaDB("11.8", withSchema("orders")), annotations: schemaOrders,
			wantData: allowed, wantPlan: []string{applyDatabase},
		},
		"schema taken from the claim": {
			spec: mariaDB("11.8"), annotations: schemaOrders,
			wantData: allowed, wantPlan: []string{applyDatabase},
		},
	} {
		t.Run(name, tc.run)
	}
}

package oracle

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
)

// vault is a stack with a database; more is for its metadata.
func vault(component, policy, more string) string {
	return fmt.Sprintf(`{kind: AppStack, metadata: {name: vault, uid: a, generation: 1%s}, spec: {%s components: [{%s stateful: {
		image: "db:1", replicas: 1, storage: [{name: data, size: 1Gi}]}}]}}`, more, policy, component)
}

func labels(component, set string) string {
	return fmt.Sprintf(`{apps.holdfast.dev/owner-uid: a, apps.holdfast.dev/owner-kind: AppStack, app.kubernetes.io/instance: vault,
		app.kubernetes.io/component: %s, apps.holdfast.dev/workload: statefulset-%s}`, component, set)
}

// foreseen is a password that is about to be replaced.
func foreseen(is, becomes string) string {
	return strings.Replace(password(is, "s"), " data: {", " data: {pending-password: "+becomes+", ", 1)
}

func dataClaim(component, set, uid string) string {
	return fmt.Sprintf(`{kind: PersistentVolumeClaim, metadata: {name: data-%s-0, uid: %s, labels: %s}, status: {capacity: {storage: 1Gi}}}`, set, uid, labels(component, set))
}

func password(data, uid string) string {
	return fmt.Sprintf(`{kind: Secret, metadata: {name: vault-db-auth, uid: %s, labels: %s}, data: {password: %s}}`, uid, labels("db", "vault-db"), data)
}

func set(component, name string, ready int) string {
	return fmt.Sprintf(`{kind: StatefulSet, metadata: {name: %s, uid: set-%s, generation: 1, labels: %s, ownerReferences: [{uid: a, controller: true}]},
		spec: {replicas: 1, template: {spec: {containers: [{image: "db:1"}]}}},
		status: {observedGeneration: 1, replicas: 1, updatedReplicas: 1, readyReplicas: %d}}`, name, name, labels(component, name), ready)
}

const (
	db      = "name: db,"
	deletes = "deletionPolicy: Delete,"
	goes    = `, deletionTimestamp: "2026-01-01T00:00:00Z"`
)

func TestData(t *testing.T) {
	claim, secret := dataClaim("db", "vault-db", "c"), password("b25l", "s")
	tests := map[string]struct {
		film []string
		want string
	}{
		"all is well":                     {[]string{vault(db, "", ""), secret, "ADDED " + set("db", "vault-db", 1), claim, secret}, ""},
		"goes although it is kept":        {[]string{vault(db, "", goes), secret, claim, "DELETED " + claim}, "the application says that data is kept"},
		"goes when it was asked for":      {[]string{vault(db, deletes, goes), secret, claim, "DELETED " + claim, "DELETED " + secret}, ""},
		"goes with its component":         {[]string{vault("name: other,", deletes, ""), claim, "DELETED " + claim}, ""},
		"goes although it is wanted":      {[]string{vault(db, deletes, ""), claim, "DELETED " + claim}, `component "db" is in the spec`},
		"goes although it was renamed":    {[]string{vault("name: new, renamedFrom: db,", deletes, ""), claim, "DELETED " + claim}, `component "new" is in the spec`},
		"goes with nobody":                {[]string{claim, "DELETED " + claim}, "not of an application"},
		"was kept before":                 {[]string{vault("name: other,", deletes, ""), "DELETED " + strings.Replace(claim, "labels: {", "labels: {apps.holdfast.dev/retained: 'true', ", 1)}, "kept on purpose"},
		"another password":                {[]string{vault(db, "", ""), secret, claim, password("dHdv", "s")}, "has changed"},
		"a password that was foreseen":    {[]string{vault(db, "", ""), secret, claim, foreseen("b25l", "dHdv"), password("dHdv", "s")}, ""},
		"the old one goes too early":      {[]string{vault(db, "", ""), secret, claim, foreseen("b25l", "dHdv"), password("dGhyZWU=", "s")}, "has changed"},
		"another Secret":                  {[]string{vault(db, "", ""), secret, claim, "DELETED " + secret, password("dHdv", "s2")}, "has changed"},
		"a password too late":             {[]string{vault(db, "", ""), claim, secret}, "made up"},
		"the password goes first":         {[]string{vault(db, deletes, goes), secret, claim, "DELETED " + secret}, "before what it opens"},
		"a new one when nothing is there": {[]string{vault(db, "", ""), secret, "DELETED " + secret, password("dHdv", "s2")}, ""},
		"two of the same pod":             {[]string{vault(db, "", ""), claim, dataClaim("db", "vault-new", "c2")}, "has the data of the same pod"},
		"begins beside its data":          {[]string{vault(db, "", ""), claim, "ADDED " + set("db", "vault-new", 0)}, "begins beside data-vault-db-0"},
		"a rename begins beside its data": {[]string{vault("name: new, renamedFrom: db,", "", ""), claim, "ADDED " + set("new", "vault-new", 0)}, "begins beside data-vault-db-0"},
		"a rename that takes it over":     {[]string{vault("name: new, renamedFrom: db,", "", ""), claim, "ADDED " + set("new", "vault-db", 0)}, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := strings.Join(Data(film(t, tc.film...)), "\n")
			if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestSafetyOfData(t *testing.T) {
	claim, secret := dataClaim("db", "vault-db", "c"), password("b25l", "s")
	mounted := `{kind: Pod, metadata: {name: vault-db-0, uid: p}, spec: {volumes: [{name: data, persistentVolumeClaim: {claimName: data-vault-db-0}}]}}`
	named := func(uid string) string { return fmt.Sprintf(`{"preconditions":{"uid":%q}}`, uid) }
	tests := map[string]struct {
		film []string
		// The request is about the last event of the film.
		verb, body string
		want       string
	}{
		"labels a claim":              {[]string{claim}, "patch", `{"metadata":{"uid":"c","labels":{"a":"b"}}}`, ""},
		"lets a claim grow":           {[]string{claim}, "patch", `{"metadata":{"uid":"c"},"spec":{"resources":{}}}`, ""},
		"gives a claim an owner":      {[]string{claim}, "patch", `{"metadata":{"uid":"c","ownerReferences":[]}}`, "changes metadata.ownerReferences"},
		"moves a claim":               {[]string{claim}, "patch", `{"metadata":{"uid":"c"},"spec":{"volumeName":"x"}}`, "changes spec.volumeName"},
		"labels whatever is there":    {[]string{claim}, "patch", `{"metadata":{"labels":{}}}`, "whatever has this name"},
		"makes a claim":               {[]string{claim}, "create", `{}`, "only a StatefulSet"},
		"deletes a claim":             {[]string{vault(db, deletes, goes), claim, "DELETED " + claim}, "delete", named("c"), ""},
		"deletes one that is kept":    {[]string{vault(db, "", goes), claim, "DELETED " + claim}, "delete", named("c"), "data is kept"},
		"deletes one by name":         {[]string{vault(db, deletes, goes), claim, "DELETED " + claim}, "delete", `{}`, "whatever has this name"},
		"deletes one under its set":   {[]string{vault(db, deletes, goes), claim, set("db", "vault-db", 1), "DELETED " + claim}, "delete", named("c"), "whose set is there"},
		"deletes one under its pod":   {[]string{vault(db, deletes, goes), claim, mounted, "DELETED " + claim}, "delete", named("c"), "that pod vault-db-0 has"},
		"makes a password":            {[]string{secret}, "create", `{}`, ""},
		"changes a Secret":            {[]string{secret}, "patch", `{"metadata":{"uid":"s"},"data":{"other":"x"}}`, "changes data.other"},
		"deletes a password":          {[]string{vault(db, deletes, goes), secret, "DELETED " + secret}, "delete", named("s"), ""},
		"deletes one that opens data": {[]string{vault(db, deletes, goes), claim, secret, "DELETED " + secret}, "delete", named("s"), "the password to data that is there"},
		"makes a set anew":            {[]string{vault(db, "", ""), set("db", "vault-db", 1), "DELETED " + set("db", "vault-db", 1)}, "delete", `{"preconditions":{"uid":"set-vault-db"},"propagationPolicy":"Orphan"}`, ""},
		"makes a set anew, and pods":  {[]string{vault(db, "", ""), set("db", "vault-db", 1), "DELETED " + set("db", "vault-db", 1)}, "delete", named("set-vault-db"), "deletes what is wanted"},
		"deletes a set for good":      {[]string{vault(db, "", goes), set("db", "vault-db", 1), "DELETED " + set("db", "vault-db", 1)}, "delete", named("set-vault-db"), ""},
		"makes a set":                 {[]string{vault(db, "", ""), set("db", "vault-db", 0)}, "patch", "", ""},
		"makes a set of another name": {[]string{vault(db, "", ""), set("other", "vault-db", 0)}, "patch", "", "what nobody wants"},
		"makes a set of fewer":        {[]string{vault(db, "", ""), strings.Replace(set("db", "vault-db", 0), "replicas: 1", "replicas: 0", 1)}, "patch", "", "sets 0 replicas"},
	}
	resources := map[string]string{"PersistentVolumeClaim": "persistentvolumeclaims", "Secret": "secrets", "StatefulSet": "statefulsets"}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			timeline := film(t, tc.film...)
			last := timeline[len(timeline)-1].Object
			got := strings.Join(Safety("shop", timeline, audit.Events{
				request(tc.verb, resources[last.GetKind()], last.GetName(), "shop", tc.body, last)}), "\n")
			if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestHonestyOfData(t *testing.T) {
	says := strings.Replace(vault(db, "", ""), "spec:", `status: {observedGeneration: 1, conditions: [{type: Ready, status: "True", observedGeneration: 1, reason: Reconciled}]}, spec:`, 1)
	small := strings.Replace(dataClaim("db", "vault-db", "c"), "storage: 1Gi", "storage: 512Mi", 1)
	for name, tc := range map[string]struct {
		film []string
		want string
	}{
		"it is":                    {[]string{vault(db, "", ""), dataClaim("db", "vault-db", "c"), set("db", "vault-db", 1), says}, ""},
		"a pod is not":             {[]string{vault(db, "", ""), dataClaim("db", "vault-db", "c"), set("db", "vault-db", 0), says}, "never was"},
		"a volume is too small":    {[]string{vault(db, "", ""), small, set("db", "vault-db", 1), says}, "never was"},
		"there is no volume":       {[]string{vault(db, "", ""), set("db", "vault-db", 1), says}, "never was"},
		"a set of somebody else's": {[]string{vault(db, "", ""), dataClaim("db", "vault-db", "c"), strings.Replace(set("db", "vault-db", 1), "uid: a, c", "uid: b, c", 1), says}, "never was"},
	} {
		t.Run(name, func(t *testing.T) {
			got := strings.Join(Honesty(film(t, tc.film...)), "\n")
			if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

package oracle

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
)

// vaultManifest is a stack with a database; more is for its metadata.
func vaultManifest(component, policy, extraMetadata string) string {
	return fmt.Sprintf(`{kind: AppStack, metadata: {name: vault, uid: a, generation: 1%s}, spec: {%s components: [{%s stateful: {
		image: "db:1", replicas: 1, storage: [{name: data, size: 1Gi}]}}]}}`, extraMetadata, policy, component)
}

func dataLabels(component, set string) string {
	return fmt.Sprintf(`{apps.holdfast.dev/owner-uid: a, apps.holdfast.dev/owner-kind: AppStack, app.kubernetes.io/instance: vault,
		app.kubernetes.io/component: %s, apps.holdfast.dev/workload: statefulset-%s}`, component, set)
}

// rotatingPassword is a password that is about to be replaced.
func rotatingPassword(current, pendingValue string) string {
	return strings.Replace(secretManifest(current, "s"), " data: {", " data: {pending-password: "+pendingValue+", ", 1)
}

func claimManifest(component, set, uid string) string {
	return fmt.Sprintf(`{kind: PersistentVolumeClaim, metadata: {name: data-%s-0, uid: %s, labels: %s}, status: {capacity: {storage: 1Gi}}}`, set, uid, dataLabels(component, set))
}

func secretManifest(data, uid string) string {
	return fmt.Sprintf(`{kind: Secret, metadata: {name: vault-db-auth, uid: %s, labels: %s}, data: {password: %s}}`, uid, dataLabels("db", "vault-db"), data)
}

func statefulSetManifest(component, name string, ready int) string {
	return fmt.Sprintf(`{kind: StatefulSet, metadata: {name: %s, uid: set-%s, generation: 1, labels: %s, ownerReferences: [{uid: a, controller: true}]},
		spec: {replicas: 1, template: {spec: {containers: [{image: "db:1"}]}}},
		status: {observedGeneration: 1, replicas: 1, updatedReplicas: 1, readyReplicas: %d}}`, name, name, dataLabels(component, name), ready)
}

const (
	dbComponent  = "name: db,"
	deletePolicy = "deletionPolicy: Delete,"
	beingDeleted = `, deletionTimestamp: "2026-01-01T00:00:00Z"`
)

func TestDataViolations(t *testing.T) {
	claim, secret := claimManifest("db", "vault-db", "c"), secretManifest("b25l", "s")
	tests := map[string]struct {
		timeline []string
		want     string
	}{
		"all is well":                     {[]string{vaultManifest(dbComponent, "", ""), secret, "ADDED " + statefulSetManifest("db", "vault-db", 1), claim, secret}, ""},
		"goes although it is kept":        {[]string{vaultManifest(dbComponent, "", beingDeleted), secret, claim, "DELETED " + claim}, "the application says that data is kept"},
		"goes when it was asked for":      {[]string{vaultManifest(dbComponent, deletePolicy, beingDeleted), secret, claim, "DELETED " + claim, "DELETED " + secret}, ""},
		"goes with its component":         {[]string{vaultManifest("name: other,", deletePolicy, ""), claim, "DELETED " + claim}, ""},
		"goes although it is wanted":      {[]string{vaultManifest(dbComponent, deletePolicy, ""), claim, "DELETED " + claim}, `component "db" is in the spec`},
		"goes although it was renamed":    {[]string{vaultManifest("name: new, renamedFrom: db,", deletePolicy, ""), claim, "DELETED " + claim}, `component "new" is in the spec`},
		"goes with nobody":                {[]string{claim, "DELETED " + claim}, "not of an application"},
		"was kept before":                 {[]string{vaultManifest("name: other,", deletePolicy, ""), "DELETED " + strings.Replace(claim, "labels: {", "labels: {apps.holdfast.dev/retained: 'true', ", 1)}, "kept on purpose"},
		"another password":                {[]string{vaultManifest(dbComponent, "", ""), secret, claim, secretManifest("dHdv", "s")}, "has changed"},
		"a password that was foreseen":    {[]string{vaultManifest(dbComponent, "", ""), secret, claim, rotatingPassword("b25l", "dHdv"), secretManifest("dHdv", "s")}, ""},
		"the old one goes too early":      {[]string{vaultManifest(dbComponent, "", ""), secret, claim, rotatingPassword("b25l", "dHdv"), secretManifest("dGhyZWU=", "s")}, "has changed"},
		"another Secret":                  {[]string{vaultManifest(dbComponent, "", ""), secret, claim, "DELETED " + secret, secretManifest("dHdv", "s2")}, "has changed"},
		"a password too late":             {[]string{vaultManifest(dbComponent, "", ""), claim, secret}, "made up"},
		"the password goes first":         {[]string{vaultManifest(dbComponent, deletePolicy, beingDeleted), secret, claim, "DELETED " + secret}, "before what it opens"},
		"a new one when nothing is there": {[]string{vaultManifest(dbComponent, "", ""), secret, "DELETED " + secret, secretManifest("dHdv", "s2")}, ""},
		"two of the same pod":             {[]string{vaultManifest(dbComponent, "", ""), claim, claimManifest("db", "vault-new", "c2")}, "has the data of the same pod"},
		"begins beside its data":          {[]string{vaultManifest(dbComponent, "", ""), claim, "ADDED " + statefulSetManifest("db", "vault-new", 0)}, "begins beside data-vault-db-0"},
		"a rename begins beside its data": {[]string{vaultManifest("name: new, renamedFrom: db,", "", ""), claim, "ADDED " + statefulSetManifest("new", "vault-new", 0)}, "begins beside data-vault-db-0"},
		"a rename that takes it over":     {[]string{vaultManifest("name: new, renamedFrom: db,", "", ""), claim, "ADDED " + statefulSetManifest("new", "vault-db", 0)}, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := strings.Join(DataViolations(buildTimeline(t, tc.timeline...)), "\n")
			if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestSafetyViolationsOfData(t *testing.T) {
	claim, secret := claimManifest("db", "vault-db", "c"), secretManifest("b25l", "s")
	mounted := `{kind: Pod, metadata: {name: vault-db-0, uid: p}, spec: {volumes: [{name: data, persistentVolumeClaim: {claimName: data-vault-db-0}}]}}`
	deleteBody := func(uid string) string { return fmt.Sprintf(`{"preconditions":{"uid":%q}}`, uid) }
	tests := map[string]struct {
		timeline []string
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
		"deletes a claim":             {[]string{vaultManifest(dbComponent, deletePolicy, beingDeleted), claim, "DELETED " + claim}, "delete", deleteBody("c"), ""},
		"deletes one that is kept":    {[]string{vaultManifest(dbComponent, "", beingDeleted), claim, "DELETED " + claim}, "delete", deleteBody("c"), "data is kept"},
		"deletes one by name":         {[]string{vaultManifest(dbComponent, deletePolicy, beingDeleted), claim, "DELETED " + claim}, "delete", `{}`, "whatever has this name"},
		"deletes one under its set":   {[]string{vaultManifest(dbComponent, deletePolicy, beingDeleted), claim, statefulSetManifest("db", "vault-db", 1), "DELETED " + claim}, "delete", deleteBody("c"), "whose set is there"},
		"deletes one under its pod":   {[]string{vaultManifest(dbComponent, deletePolicy, beingDeleted), claim, mounted, "DELETED " + claim}, "delete", deleteBody("c"), "that pod vault-db-0 has"},
		"makes a password":            {[]string{secret}, "create", `{}`, ""},
		"changes a Secret":            {[]string{secret}, "patch", `{"metadata":{"uid":"s"},"data":{"other":"x"}}`, "changes data.other"},
		"deletes a password":          {[]string{vaultManifest(dbComponent, deletePolicy, beingDeleted), secret, "DELETED " + secret}, "delete", deleteBody("s"), ""},
		"deletes one that opens data": {[]string{vaultManifest(dbComponent, deletePolicy, beingDeleted), claim, secret, "DELETED " + secret}, "delete", deleteBody("s"), "the password to data that is there"},
		"makes a set anew":            {[]string{vaultManifest(dbComponent, "", ""), statefulSetManifest("db", "vault-db", 1), "DELETED " + statefulSetManifest("db", "vault-db", 1)}, "delete", `{"preconditions":{"uid":"set-vault-db"},"propagationPolicy":"Orphan"}`, ""},
		"makes a set anew, and pods":  {[]string{vaultManifest(dbComponent, "", ""), statefulSetManifest("db", "vault-db", 1), "DELETED " + statefulSetManifest("db", "vault-db", 1)}, "delete", deleteBody("set-vault-db"), "deletes what is wanted"},
		"deletes a set for good":      {[]string{vaultManifest(dbComponent, "", beingDeleted), statefulSetManifest("db", "vault-db", 1), "DELETED " + statefulSetManifest("db", "vault-db", 1)}, "delete", deleteBody("set-vault-db"), ""},
		"makes a set":                 {[]string{vaultManifest(dbComponent, "", ""), statefulSetManifest("db", "vault-db", 0)}, "patch", "", ""},
		"makes a set of another name": {[]string{vaultManifest(dbComponent, "", ""), statefulSetManifest("other", "vault-db", 0)}, "patch", "", "what nobody wants"},
		"makes a set of fewer":        {[]string{vaultManifest(dbComponent, "", ""), strings.Replace(statefulSetManifest("db", "vault-db", 0), "replicas: 1", "replicas: 0", 1)}, "patch", "", "sets 0 replicas"},
	}
	resources := map[string]string{"PersistentVolumeClaim": "persistentvolumeclaims", "Secret": "secrets", "StatefulSet": "statefulsets"}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			timeline := buildTimeline(t, tc.timeline...)
			last := timeline[len(timeline)-1].Object
			got := strings.Join(SafetyViolations("shop", timeline, audit.Events{
				request(tc.verb, resources[last.GetKind()], last.GetName(), "shop", tc.body, last)}), "\n")
			if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestReadinessViolationsOfData(t *testing.T) {
	ready := strings.Replace(vaultManifest(dbComponent, "", ""), "spec:", `status: {observedGeneration: 1, conditions: [{type: Ready, status: "True", observedGeneration: 1, reason: Reconciled}]}, spec:`, 1)
	small := strings.Replace(claimManifest("db", "vault-db", "c"), "storage: 1Gi", "storage: 512Mi", 1)
	for name, tc := range map[string]struct {
		timeline []string
		want     string
	}{
		"it is":                    {[]string{vaultManifest(dbComponent, "", ""), claimManifest("db", "vault-db", "c"), statefulSetManifest("db", "vault-db", 1), ready}, ""},
		"a pod is not":             {[]string{vaultManifest(dbComponent, "", ""), claimManifest("db", "vault-db", "c"), statefulSetManifest("db", "vault-db", 0), ready}, "never was"},
		"a volume is too small":    {[]string{vaultManifest(dbComponent, "", ""), small, statefulSetManifest("db", "vault-db", 1), ready}, "never was"},
		"there is no volume":       {[]string{vaultManifest(dbComponent, "", ""), statefulSetManifest("db", "vault-db", 1), ready}, "never was"},
		"a set of somebody else's": {[]string{vaultManifest(dbComponent, "", ""), claimManifest("db", "vault-db", "c"), strings.Replace(statefulSetManifest("db", "vault-db", 1), "uid: a, c", "uid: b, c", 1), ready}, "never was"},
	} {
		t.Run(name, func(t *testing.T) {
			got := strings.Join(ReadinessViolations(buildTimeline(t, tc.timeline...)), "\n")
			if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

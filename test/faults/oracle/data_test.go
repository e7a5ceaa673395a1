package oracle

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
)

// vaultManifest returns a stack with a database; extraMetadata is YAML of its metadata.
func vaultManifest(component, policy, extraMetadata string) string {
	return fmt.Sprintf(`{kind: AppStack, metadata: {name: vault, uid: a, generation: 1%s}, spec: {%s components: [{%s stateful: {
		image: "db:1", replicas: 1, storage: [{name: data, size: 1Gi}]}}]}}`, extraMetadata, policy, component)
}

func dataLabels(component, set string) string {
	return fmt.Sprintf(`{apps.holdfast.dev/owner-uid: a, apps.holdfast.dev/owner-kind: AppStack, app.kubernetes.io/instance: vault,
		app.kubernetes.io/component: %s, apps.holdfast.dev/workload: statefulset-%s}`, component, set)
}

// rotatingPassword returns a Secret with a pending password.
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
		"no violation":                              {[]string{vaultManifest(dbComponent, "", ""), secret, "ADDED " + statefulSetManifest("db", "vault-db", 1), claim, secret}, ""},
		"claim deleted despite Retain":              {[]string{vaultManifest(dbComponent, "", beingDeleted), secret, claim, "DELETED " + claim}, "the deletion policy is not Delete"},
		"claim deleted with policy Delete":          {[]string{vaultManifest(dbComponent, deletePolicy, beingDeleted), secret, claim, "DELETED " + claim, "DELETED " + secret}, ""},
		"claim deleted with its component":          {[]string{vaultManifest("name: other,", deletePolicy, ""), claim, "DELETED " + claim}, ""},
		"claim of an existing component deleted":    {[]string{vaultManifest(dbComponent, deletePolicy, ""), claim, "DELETED " + claim}, `component "db" is in the spec`},
		"claim of a renamed component deleted":      {[]string{vaultManifest("name: new, renamedFrom: db,", deletePolicy, ""), claim, "DELETED " + claim}, `component "new" is in the spec`},
		"claim without an application deleted":      {[]string{claim, "DELETED " + claim}, "no application requested it"},
		"retained claim deleted":                    {[]string{vaultManifest("name: other,", deletePolicy, ""), "DELETED " + strings.Replace(claim, "labels: {", "labels: {apps.holdfast.dev/retained: 'true', ", 1)}, "retained before"},
		"another password":                          {[]string{vaultManifest(dbComponent, "", ""), secret, claim, secretManifest("dHdv", "s")}, "password changed"},
		"rotated to the pending password":           {[]string{vaultManifest(dbComponent, "", ""), secret, claim, rotatingPassword("b25l", "dHdv"), secretManifest("dHdv", "s")}, ""},
		"rotated to another password":               {[]string{vaultManifest(dbComponent, "", ""), secret, claim, rotatingPassword("b25l", "dHdv"), secretManifest("dGhyZWU=", "s")}, "password changed"},
		"another Secret":                            {[]string{vaultManifest(dbComponent, "", ""), secret, claim, "DELETED " + secret, secretManifest("dHdv", "s2")}, "password changed"},
		"password created after the claim":          {[]string{vaultManifest(dbComponent, "", ""), claim, secret}, "existing data"},
		"password deleted first":                    {[]string{vaultManifest(dbComponent, deletePolicy, beingDeleted), secret, claim, "DELETED " + secret}, "before its volume"},
		"new password without data":                 {[]string{vaultManifest(dbComponent, "", ""), secret, "DELETED " + secret, secretManifest("dHdv", "s2")}, ""},
		"two claims of the same pod":                {[]string{vaultManifest(dbComponent, "", ""), claim, claimManifest("db", "vault-new", "c2")}, "duplicates data-vault-db-0"},
		"starts without its data":                   {[]string{vaultManifest(dbComponent, "", ""), claim, "ADDED " + statefulSetManifest("db", "vault-new", 0)}, "starts without data-vault-db-0"},
		"renamed component starts without its data": {[]string{vaultManifest("name: new, renamedFrom: db,", "", ""), claim, "ADDED " + statefulSetManifest("new", "vault-new", 0)}, "starts without data-vault-db-0"},
		"renamed component keeps its data":          {[]string{vaultManifest("name: new, renamedFrom: db,", "", ""), claim, "ADDED " + statefulSetManifest("new", "vault-db", 0)}, ""},
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
		// The request refers to the last event of the timeline.
		verb, body string
		want       string
	}{
		"label a claim":                             {[]string{claim}, "patch", `{"metadata":{"uid":"c","labels":{"a":"b"}}}`, ""},
		"expand a claim":                            {[]string{claim}, "patch", `{"metadata":{"uid":"c"},"spec":{"resources":{}}}`, ""},
		"set the owner of a claim":                  {[]string{claim}, "patch", `{"metadata":{"uid":"c","ownerReferences":[]}}`, "changes metadata.ownerReferences"},
		"change the volume of a claim":              {[]string{claim}, "patch", `{"metadata":{"uid":"c"},"spec":{"volumeName":"x"}}`, "changes spec.volumeName"},
		"label without a UID":                       {[]string{claim}, "patch", `{"metadata":{"labels":{}}}`, "without a UID precondition"},
		"create a claim":                            {[]string{claim}, "create", `{}`, "only a StatefulSet"},
		"delete a claim":                            {[]string{vaultManifest(dbComponent, deletePolicy, beingDeleted), claim, "DELETED " + claim}, "delete", deleteBody("c"), ""},
		"delete a retained claim":                   {[]string{vaultManifest(dbComponent, "", beingDeleted), claim, "DELETED " + claim}, "delete", deleteBody("c"), "the deletion policy is not Delete"},
		"delete a claim by name":                    {[]string{vaultManifest(dbComponent, deletePolicy, beingDeleted), claim, "DELETED " + claim}, "delete", `{}`, "without a UID precondition"},
		"delete a claim of an existing StatefulSet": {[]string{vaultManifest(dbComponent, deletePolicy, beingDeleted), claim, statefulSetManifest("db", "vault-db", 1), "DELETED " + claim}, "delete", deleteBody("c"), "its StatefulSet exists"},
		"delete a mounted claim":                    {[]string{vaultManifest(dbComponent, deletePolicy, beingDeleted), claim, mounted, "DELETED " + claim}, "delete", deleteBody("c"), "that pod vault-db-0 mounts"},
		"create a password":                         {[]string{secret}, "create", `{}`, ""},
		"change a Secret":                           {[]string{secret}, "patch", `{"metadata":{"uid":"s"},"data":{"other":"x"}}`, "changes data.other"},
		"delete a password":                         {[]string{vaultManifest(dbComponent, deletePolicy, beingDeleted), secret, "DELETED " + secret}, "delete", deleteBody("s"), ""},
		"delete the password of existing data":      {[]string{vaultManifest(dbComponent, deletePolicy, beingDeleted), claim, secret, "DELETED " + secret}, "delete", deleteBody("s"), "the password of existing data"},
		"recreate a StatefulSet and keep the pods":  {[]string{vaultManifest(dbComponent, "", ""), statefulSetManifest("db", "vault-db", 1), "DELETED " + statefulSetManifest("db", "vault-db", 1)}, "delete", `{"preconditions":{"uid":"set-vault-db"},"propagationPolicy":"Orphan"}`, ""},
		"recreate a StatefulSet with its pods":      {[]string{vaultManifest(dbComponent, "", ""), statefulSetManifest("db", "vault-db", 1), "DELETED " + statefulSetManifest("db", "vault-db", 1)}, "delete", deleteBody("set-vault-db"), "that is in the spec"},
		"delete a StatefulSet with its application": {[]string{vaultManifest(dbComponent, "", beingDeleted), statefulSetManifest("db", "vault-db", 1), "DELETED " + statefulSetManifest("db", "vault-db", 1)}, "delete", deleteBody("set-vault-db"), ""},
		"create a StatefulSet":                      {[]string{vaultManifest(dbComponent, "", ""), statefulSetManifest("db", "vault-db", 0)}, "patch", "", ""},
		"create a StatefulSet with another name":    {[]string{vaultManifest(dbComponent, "", ""), statefulSetManifest("other", "vault-db", 0)}, "patch", "", "not in the spec"},
		"create a StatefulSet with fewer replicas":  {[]string{vaultManifest(dbComponent, "", ""), strings.Replace(statefulSetManifest("db", "vault-db", 0), "replicas: 1", "replicas: 0", 1)}, "patch", "", "sets 0 replicas"},
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
		"ready":                        {[]string{vaultManifest(dbComponent, "", ""), claimManifest("db", "vault-db", "c"), statefulSetManifest("db", "vault-db", 1), ready}, ""},
		"pod not ready":                {[]string{vaultManifest(dbComponent, "", ""), claimManifest("db", "vault-db", "c"), statefulSetManifest("db", "vault-db", 0), ready}, "was never ready"},
		"volume too small":             {[]string{vaultManifest(dbComponent, "", ""), small, statefulSetManifest("db", "vault-db", 1), ready}, "was never ready"},
		"no volume":                    {[]string{vaultManifest(dbComponent, "", ""), statefulSetManifest("db", "vault-db", 1), ready}, "was never ready"},
		"StatefulSet of another owner": {[]string{vaultManifest(dbComponent, "", ""), claimManifest("db", "vault-db", "c"), strings.Replace(statefulSetManifest("db", "vault-db", 1), "uid: a, c", "uid: b, c", 1), ready}, "was never ready"},
	} {
		t.Run(name, func(t *testing.T) {
			got := strings.Join(ReadinessViolations(buildTimeline(t, tc.timeline...)), "\n")
			if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

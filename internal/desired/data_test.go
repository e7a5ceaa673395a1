package desired

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

func TestDataOfComponent(t *testing.T) {
	claim := ownedFixture("data-shop-db-0", "shop-db", "db").object()
	auth := secretFixture("shop-db-auth", "shop-db", "db")
	type summary struct {
		HasClaims, HasSecret, SecretComplete bool
		Claim                                *corev1.PersistentVolumeClaim
	}
	withKeys := func(keys string) RetainedObject {
		return annotatedFixture(auth, appsapi.DefaultKeys.CredentialKeys, keys)
	}
	const keys = "root-password,root-password-hash,password"
	for name, tc := range map[string]struct {
		retained []RetainedObject
		want     summary
	}{
		"nothing":                   {},
		"a claim":                   {[]RetainedObject{claim}, summary{HasClaims: true, Claim: claim.Claim}},
		"the claim of another pod":  {[]RetainedObject{ownedFixture("data-shop-db-1", "shop-db", "db").object()}, summary{HasClaims: true}},
		"another Secret":            {[]RetainedObject{secretFixture("other", "shop-db", "db").object()}, summary{}},
		"credentials without keys":  {[]RetainedObject{auth.object()}, summary{HasSecret: true}},
		"credentials lack a key":    {[]RetainedObject{withKeys("password")}, summary{HasSecret: true}},
		"credentials have all keys": {[]RetainedObject{withKeys(keys)}, summary{HasSecret: true, SecretComplete: true}},
	} {
		t.Run(name, func(t *testing.T) {
			d := &StatefulData{Retained: tc.retained, Secret: "shop-db-auth"}
			d.Credentials = []Credential{{Credential: appsapi.Credential{Key: "root-password"}, File: "root"}, {Credential: appsapi.Credential{Key: "password"}}}
			if got := d.RequiredKeys(); got != keys {
				t.Errorf("got keys %q, want %q", got, keys)
			}
			got := summary{d.HasClaims(), d.HasSecret(), d.SecretComplete(), d.Claim("data-shop-db-0")}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestReplicasFromPods(t *testing.T) {
	pod := func(name string) *corev1.Pod { return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}} }
	terminating := pod("db-7")
	terminating.DeletionTimestamp = &metav1.Time{}
	for name, tc := range map[string]struct {
		pods []*corev1.Pod
		want int32
	}{
		"none":                     {nil, 0},
		"a gap":                    {[]*corev1.Pod{pod("db-2"), pod("db-0")}, 3},
		"a terminating pod":        {[]*corev1.Pod{pod("db-0"), terminating}, 1},
		"pods without an ordinal":  {[]*corev1.Pod{pod("db-x"), pod("db")}, 0},
		"an ordinal out of range ": {[]*corev1.Pod{pod("db-99999999999")}, 0},
	} {
		if got := ReplicasFromPods(tc.pods); got != tc.want {
			t.Errorf("%s: got %d, want %d", name, got, tc.want)
		}
	}
}

func TestRetainedObjectUsedByPod(t *testing.T) {
	claim, secret := ownedFixture("data-shop-db-0", "shop-db", "db").object(), secretFixture("shop-db-auth", "shop-db", "db").object()
	pod := func(phase corev1.PodPhase, claimName, workload string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{appsapi.DefaultKeys.Workload: workload}}, Status: corev1.PodStatus{Phase: phase},
			Spec: corev1.PodSpec{Volumes: []corev1.Volume{{Name: "tmp"}, {Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claimName}}}}},
		}
	}
	for name, tc := range map[string]struct {
		pod           *corev1.Pod
		claim, secret bool
	}{
		"a pod of the StatefulSet":    {pod(corev1.PodRunning, "data-shop-db-0", "statefulset-shop-db"), true, true},
		"another pod of the set":      {pod(corev1.PodPending, "data-shop-db-1", "statefulset-shop-db"), false, true},
		"a pod that mounts the claim": {pod(corev1.PodRunning, "data-shop-db-0", "job-backup"), true, false},
		"a pod that succeeded":        {pod(corev1.PodSucceeded, "data-shop-db-0", "statefulset-shop-db"), false, false},
		"a pod that failed":           {pod(corev1.PodFailed, "data-shop-db-0", "statefulset-shop-db"), false, false},
	} {
		if got := claim.UsedBy(tc.pod); got != tc.claim {
			t.Errorf("%s: uses the claim: %t, want %t", name, got, tc.claim)
		}
		if got := secret.UsedBy(tc.pod); got != tc.secret {
			t.Errorf("%s: uses the Secret: %t, want %t", name, got, tc.secret)
		}
	}
}

func TestRetainedLabels(t *testing.T) {
	want := map[string]string{
		"app.kubernetes.io/name": "stateful", "app.kubernetes.io/instance": "shop", "app.kubernetes.io/part-of": "shop",
		"app.kubernetes.io/component": "db", "app.kubernetes.io/managed-by": "holdfast",
		"apps.holdfast.dev/owner-kind": "AppStack", "apps.holdfast.dev/owner-uid": string(stack.UID),
		"apps.holdfast.dev/workload": "statefulset-shop-db",
	}
	got := RetainedLabels(stack, Component{Name: "db", WorkloadID: "statefulset-shop-db"})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for value, want := range map[string]bool{"": false, "true": true} {
		got[appsapi.DefaultKeys.Retained] = value
		if k := RetainedSecret(appsapi.DefaultKeys, &metav1.ObjectMeta{Labels: got}); k.MarkedRetained() != want {
			t.Errorf("%q marks as retained: %t", value, !want)
		}
	}
}

// names returns the names of retained objects in order.
func names(retained []RetainedObject) []string {
	var out []string
	for _, k := range retained {
		out = append(out, k.String())
	}
	return out
}

// TestRetainedForFindsDataOfComponents: data is relevant if it is at the location of a component, or belongs to the
// application.
func TestRetainedForFindsDataOfComponents(t *testing.T) {
	spec := components(t, `[{name: db, stateful: {image: a}}, {name: web, service: {image: a}}]`)
	all := []RetainedObject{
		secretFixture("shop-db-auth", "shop-db", "db").object(),
		retainedFixture{name: "data-shop-db-0", statefulSet: "shop-db", kind: "AppStack", instance: "other", component: "db"}.object(),
		ownedFixture("data-old-0", "old", "left").object(),
		retainedFixture{name: "data-old-1", statefulSet: "old"}.object(),
		retainedFixture{name: "data-theirs-0", statefulSet: "theirs", kind: "AppStack", instance: "other", component: "db"}.object(),
		retainedFixture{name: "foreign-auth", secret: true}.object(),
	}
	want := []string{"statefulset-old", "statefulset-shop-db"}
	if diff := cmp.Diff(want, RetainedWorkloadIDs(stack, spec, []RetainedObject{all[2], all[3], all[5]})); diff != "" {
		t.Errorf("workloads (-want +got):\n%s", diff)
	}
	found := RetainedFor(stack, spec, all)
	want = []string{
		"Secret shop-db-auth", "PersistentVolumeClaim data-shop-db-0", "PersistentVolumeClaim data-old-0", "PersistentVolumeClaim data-old-1",
	}
	if diff := cmp.Diff(want, names(found)); diff != "" {
		t.Errorf("relevant (-want +got):\n%s", diff)
	}
	want = []string{
		"PersistentVolumeClaim data-old-0", "PersistentVolumeClaim data-old-1", "PersistentVolumeClaim data-shop-db-0", "Secret shop-db-auth",
	}
	if diff := cmp.Diff(want, names(SortRetained(found))); diff != "" {
		t.Errorf("sorted (-want +got):\n%s", diff)
	}
	if len(all) != 6 || all[0].Name != "shop-db-auth" {
		t.Errorf("the list of the caller was changed: %v", names(all))
	}
}

func TestUnusedRetainedBelongsToNoComponent(t *testing.T) {
	used, unused := ownedFixture("data-shop-db-0", "shop-db", "db").object(), ownedFixture("data-old-0", "old", "left").object()
	theirs := retainedFixture{name: "data-theirs-0", statefulSet: "theirs", kind: "AppStack", instance: "other"}.object()
	all := []RetainedObject{used, unused, theirs}
	got := UnusedRetained(stack, []Component{{Name: "web"}, {Name: "db", Data: &StatefulData{Retained: all[:1]}}}, all)
	if diff := cmp.Diff([]string{"PersistentVolumeClaim data-old-0"}, names(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCredentialSecrets(t *testing.T) {
	spec := components(t, `[{name: web, service: {image: a}}, {name: cache, stateful: {image: a}},
		{name: db, stateful: {image: a, credentials: [{key: a, secretRef: {name: given, key: k}}, {key: b}]}},
		{name: log, stateful: {image: a, credentials: [{key: a}]}}]`)
	credentials, sources := CredentialSecrets(stack, spec, []RetainedObject{ownedFixture("data-old-0", "old", "db").object()})
	if diff := cmp.Diff([]Ref{{Kind: "Secret", Name: "old-auth"}, {Kind: "Secret", Name: "shop-log-auth"}}, credentials); diff != "" {
		t.Errorf("credentials (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Ref{{Kind: "Secret", Name: "given"}}, sources); diff != "" {
		t.Errorf("sources (-want +got):\n%s", diff)
	}
}

// TestNewComponentStartsEmptyBesideDataOfAnother: data of a declared component does not count as unclaimed.
func TestNewComponentStartsEmptyBesideDataOfAnother(t *testing.T) {
	spec := components(t, `[{name: db, stateful: {image: a}},
		{name: queue, renamedFrom: jobs, stateful: {image: a}}, {name: new, stateful: {image: a}}]`)
	state := ClusterState{Retained: []RetainedObject{
		ownedFixture("data-shop-db-0", "shop-db", "db").object(), ownedFixture("data-shop-jobs-0", "shop-jobs", "jobs").object(),
	}}
	for i, want := range []string{"shop-db", "shop-jobs", "shop-new"} {
		c := Build(stack, spec, state)[i]
		if c.Workload.Name != want || c.Data.Conflict != "" {
			t.Errorf("%s: got StatefulSet %s, conflict %q, want %s", c.Name, c.Workload.Name, c.Data.Conflict, want)
		}
	}
}

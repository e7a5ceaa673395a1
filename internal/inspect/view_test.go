package inspect_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/explain"
	"github.com/holdfast-dev/holdfast/internal/inspect"
	"github.com/holdfast-dev/holdfast/internal/testutil/fixtures"
)

// shopSpec has a database, a component that depends on it, and a job.
const shopSpec = `
components:
- {name: migrate, job: {image: "shop/migrate:1"}}
- {name: db, stateful: {image: "mariadb:11", ports: [{port: 3306}], storage: [{name: data, mountPath: /data, size: 1Gi}]}}
- {name: web, dependsOn: [db], service: {image: "shop/web:1", replicas: 2, ports: [{port: 80}]}}
`

func newShop() *fixtures.Fixture {
	s := fixtures.New("appstack", "shop", shopSpec)
	s.RunAll()
	return s
}

// formatView formats a view: the application, each component, and all causes.
func formatView(v inspect.View) []string {
	ready := "not ready"
	if v.Ready {
		ready = "ready"
	}
	out := []string{fmt.Sprintf("%s, %s", ready, v.Health)}
	for _, c := range v.Components {
		line := fmt.Sprintf("%s %s %d/%d", c.Name, c.Health, c.Ready, c.Desired)
		if c.Message != "" {
			line += ": " + c.Message
		}
		out = append(out, line)
	}
	for _, c := range v.Causes {
		out = append(out, fmt.Sprintf("%s %s/%s: %s", c.Code, c.Object.Kind, c.Object.Name, c.Message))
	}
	return out
}

const (
	imageMissing   = `Image "shop/web:1" does not exist in its registry`
	imageNotFound  = imageMissing + " (container app of Pod shop-web-6d5f7c8b9-x0k4z)"
	webProgressing = "Deployment demo/shop-web waits for its pods to become ready"
	firstPod       = "Pod/shop-web-6d5f7c8b9-x0k4z"
	migrateHealthy = "migrate Healthy 1/1"
	dbHealthy      = "db Healthy 1/1"
	webHealthy     = "web Healthy 2/2"
)

var componentCases = map[string]struct {
	change func(*fixtures.Fixture)
	want   []string
}{
	"all healthy": {
		change: func(*fixtures.Fixture) {},
		want:   []string{"ready, Healthy", migrateHealthy, dbHealthy, webHealthy},
	},
	"leftovers of another component are ignored": {
		change: func(s *fixtures.Fixture) {
			left := fixtures.Get[*corev1.Service](s, "shop-web").DeepCopy()
			left.Name, left.Spec.Selector = "shop-old", map[string]string{appsapi.DefaultKeys.Workload: "deployment-shop-old"}
			delete(left.Labels, appsapi.DefaultKeys.Workload)
			s.Add(left)
			for _, p := range s.Pods("web") {
				p.Labels["pod-template-hash"] = "6d5f7c8b9" // full labels, not projected ones
			}
		},
		want: []string{"ready, Healthy", migrateHealthy, dbHealthy, webHealthy},
	},
	"child determines the health of its component": {
		change: func(s *fixtures.Fixture) {
			fixtures.Get[*appsv1.Deployment](s, "shop-web").Status.AvailableReplicas = 1
		},
		want: []string{"ready, Progressing", migrateHealthy, dbHealthy, "web Progressing 2/2: " + webProgressing},
	},
	"worst child determines the health": {
		change: func(s *fixtures.Fixture) {
			d := fixtures.Get[*appsv1.Deployment](s, "shop-web")
			d.Status.AvailableReplicas = 0
			s.Remove("Service", "shop-web")
			d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "Other"}}
		},
		want: []string{"ready, Degraded", migrateHealthy, dbHealthy,
			"web Degraded 2/2: Deployment demo/shop-web cannot make progress: see condition Progressing of the Deployment"},
	},
	"cause replaces the message of its child": {
		change: func(s *fixtures.Fixture) { s.SetImageNotFound("web") },
		want:   []string{"ready, Degraded", migrateHealthy, dbHealthy, "web Degraded 0/2: " + imageNotFound, "ImageNotFound " + firstPod + ": " + imageNotFound},
	},
	"missing child": {
		change: func(s *fixtures.Fixture) { s.Remove("Service", "shop-web") },
		want:   []string{"ready, Progressing", migrateHealthy, dbHealthy, "web Progressing 2/2: Service shop-web does not exist"},
	},
	"nothing exists": {
		change: func(s *fixtures.Fixture) { s.Objects = nil },
		want: []string{"ready, Progressing", "migrate Progressing 0/0: Job " + jobName() + " does not exist",
			"db Progressing 0/0: StatefulSet shop-db does not exist", "web Progressing 0/0: Deployment shop-web does not exist"},
	},
	"completed job has no causes despite failed attempts": {
		change: func(s *fixtures.Fixture) {
			p := s.Pods("migrate")[0].DeepCopy()
			p.Name, p.UID, p.Status = p.Name+"-before", "before", corev1.PodStatus{Phase: corev1.PodFailed}
			s.Add(p)
			s.Pods("migrate")[0].Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "PodCompleted"}}
		},
		want: []string{"ready, Healthy", migrateHealthy, dbHealthy, webHealthy},
	},
	"completed job without pods": {
		change: func(s *fixtures.Fixture) { s.Remove("Pod", s.Pods("migrate")[0].Name) },
		want:   []string{"ready, Healthy", migrateHealthy, dbHealthy, webHealthy},
	},
	"running job": {
		change: func(s *fixtures.Fixture) {
			fixtures.Get[*batchv1.Job](s, jobName()).Status = batchv1.JobStatus{Active: 1}
			s.Pods("migrate")[0].Status.Phase = corev1.PodRunning
		},
		want: []string{"ready, Progressing", "migrate Progressing 0/1: Job demo/" + jobName() + " has been running since 2026-03-01T01:00:00Z", dbHealthy,
			webHealthy},
	},
	"pods of an earlier Job of the same name": {
		change: func(s *fixtures.Fixture) {
			fixtures.Get[*batchv1.Job](s, jobName()).Status = batchv1.JobStatus{Active: 1}
			p := s.Pods("migrate")[0]
			p.OwnerReferences[0].UID = "earlier"
			p.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted"}
		},
		want: []string{"ready, Progressing", "migrate Progressing 0/1: Job demo/" + jobName() + " has been running since 2026-03-01T01:00:00Z", dbHealthy,
			webHealthy},
	},
	"suspended": {
		change: func(s *fixtures.Fixture) {
			s.Components[2].Suspended = true
			s.SetReadyCondition("True", "Reconciled", "Everything runs as declared; suspended: 1 of 3 components")
		},
		want: []string{"ready, Suspended", migrateHealthy, dbHealthy,
			"web Suspended 2/2: Suspended: drift is not corrected and updates are not applied"},
	},
	"suspended with a missing child": {
		change: func(s *fixtures.Fixture) {
			s.Components[2].Suspended = true
			s.Remove("Service", "shop-web")
		},
		want: []string{"ready, Progressing", migrateHealthy, dbHealthy,
			"web Progressing 2/2: Service shop-web does not exist; suspended, so drift is not corrected"},
	},
	"suspended with an error": {
		change: func(s *fixtures.Fixture) {
			s.Components[2].Suspended = true
			s.SetImageNotFound("web")
		},
		want: []string{"ready, Degraded", migrateHealthy, dbHealthy, "web Degraded 0/2: " + imageNotFound, "ImageNotFound " + firstPod + ": " + imageNotFound},
	},
	"forbidden kinds are unknown": {
		change: func(s *fixtures.Fixture) { s.ForbiddenKinds = []string{"Deployment", "Pod", "ReplicaSet"} },
		want:   []string{"ready, Unknown", migrateHealthy, dbHealthy, "web Unknown 0/0: Deployment shop-web was not checked"},
	},
	"forbidden passive kind": {
		change: func(s *fixtures.Fixture) { s.ForbiddenKinds = []string{"PodDisruptionBudget"} },
		want:   []string{"ready, Healthy", migrateHealthy, dbHealthy, webHealthy},
	},
	"forbidden pods do not hide their workload": {
		change: func(s *fixtures.Fixture) {
			s.SetImageNotFound("web")
			s.ForbiddenKinds = []string{"Pod"}
		},
		want: []string{"ready, Progressing", migrateHealthy, dbHealthy, "web Progressing 0/2: " + webProgressing},
	},
	"object of another owner": {
		change: func(s *fixtures.Fixture) {
			fixtures.Get[*corev1.Service](s, "shop-web").OwnerReferences = []metav1.OwnerReference{{Kind: "Other", Name: "shop", UID: "other", Controller: new(true)}}
		},
		want: []string{"ready, Progressing", migrateHealthy, dbHealthy, "web Progressing 2/2: Service shop-web does not exist"},
	},
	"child without an owner reference": {
		change: func(s *fixtures.Fixture) { fixtures.Get[*corev1.Service](s, "shop-web").OwnerReferences = nil },
		want:   []string{"ready, Healthy", migrateHealthy, dbHealthy, webHealthy},
	},
}

// jobName returns the name of the Job, which ends with a hash of its spec.
func jobName() string {
	return fixtures.New("appstack", "shop", shopSpec).Component("migrate").Workload.Name
}

func TestComponentHealth(t *testing.T) {
	for name, tc := range componentCases {
		t.Run(name, func(t *testing.T) {
			s := newShop()
			tc.change(s)
			if diff := cmp.Diff(tc.want, formatView(inspect.Evaluate(s.Input()))); diff != "" {
				t.Errorf("view (-want +got):\n%s", diff)
			}
		})
	}
}

// Two applications of the same name conflict: the AppStack cm desires objects that the CloudManager cm
// owns, with the same pod labels.
func TestNameConflictHidesPodsOfOtherApplication(t *testing.T) {
	other := fixtures.New("cloudmanager", "cm", `
front: {deployment: {image: "front:1"}}
identity: {deployment: {image: "identity:1"}}
db: {statefulSet: {image: "mariadb:11", storage: {size: 1Gi}}}`)
	other.RunAll()
	other.SetStorageClassMissing("db", "fast")
	other.SetImageNotFound("front")
	s := fixtures.New("appstack", "cm", `
components:
- {name: db, stateful: {image: "mariadb:11", ports: [{port: 3306}], storage: [{name: data, mountPath: /data, size: 1Gi}]}}
- {name: front, service: {image: "shop/web:1"}}
- {name: web, service: {image: "shop/web:1"}}`)
	s.SetReadyCondition("False", "NameConflict", "StatefulSet demo/cm-db belongs to CloudManager cm")
	s.SetComponentStatus("front", "Degraded", "NameConflict", "Deployment demo/cm-front belongs to CloudManager cm")
	s.Run("web")
	s.Objects = append(s.Objects, other.Objects...)
	if got, want := s.Component("db").WorkloadID, other.Component("db").WorkloadID; got != want {
		t.Fatalf("no conflict: workloads are %q and %q", got, want)
	}
	v := inspect.Evaluate(s.Input())
	want := []string{"not ready, Degraded",
		"db Degraded 0/0: StatefulSet demo/cm-db belongs to CloudManager cm", "front Degraded 0/0: Deployment demo/cm-front belongs to CloudManager cm",
		"web Healthy 1/1", "NameConflict StatefulSet/cm-db: StatefulSet demo/cm-db belongs to CloudManager cm",
		"NameConflict Deployment/cm-front: Deployment demo/cm-front belongs to CloudManager cm"}
	if diff := cmp.Diff(want, formatView(v)); diff != "" {
		t.Errorf("view (-want +got):\n%s", diff)
	}
	for _, c := range v.Components {
		for _, n := range c.Tree {
			if n.Object.Kind == "PersistentVolumeClaim" || len(n.Children) > 0 && c.Name != "web" {
				t.Errorf("component %s shows %s %s of the other application", c.Name, n.Object.Kind, n.Object.Name)
			}
		}
	}
	if got := formatView(inspect.Evaluate(other.Input())); !slices.Contains(got,
		`front Degraded 0/1: Image "front:1" does not exist in its registry (container app of Pod cm-front-6d5f7c8b9-x0k4z)`) {
		t.Errorf("other application lacks its own pods: %s", strings.Join(got, "\n"))
	}
}

// An AppService and an AppStack may have the same name, and then the same label instance.
func TestSameNameOfDifferentKinds(t *testing.T) {
	service := fixtures.New("appservice", "shop", `{image: "shop/web:1", replicas: 2}`)
	service.RunAll()
	service.SetImageNotFound("shop")
	stack := newShop()
	stack.Objects = append(stack.Objects, service.Objects...)
	if diff := cmp.Diff([]string{"ready, Healthy", migrateHealthy, dbHealthy, webHealthy}, formatView(inspect.Evaluate(stack.Input()))); diff != "" {
		t.Errorf("the stack (-want +got):\n%s", diff)
	}
	service.Objects = stack.Objects
	const imageMissingInShop = imageMissing + " (container app of Pod shop-6d5f7c8b9-x0k4z)"
	want := []string{"ready, Degraded", "shop Degraded 0/2: " + imageMissingInShop, "ImageNotFound Pod/shop-6d5f7c8b9-x0k4z: " + imageMissingInShop}
	if diff := cmp.Diff(want, formatView(inspect.Evaluate(service.Input()))); diff != "" {
		t.Errorf("the service (-want +got):\n%s", diff)
	}
}

func TestTree(t *testing.T) {
	s := newShop()
	s.SetImageNotFound("web")
	s.Remove("Service", "shop-db")
	var got []string
	for _, c := range inspect.Evaluate(s.Input()).Components {
		got = append(got, c.Name)
		got = append(got, formatTree(c.Tree, " ")...)
	}
	const progressing = " waits for its pods to become ready"
	want := []string{
		"migrate", " Job/" + jobName() + " Healthy", "  Pod/" + jobName() + "-w2x4z Healthy",
		"db", " StatefulSet/shop-db Healthy", "  Pod/shop-db-0 Healthy", " Service/shop-db-headless Healthy", " Service/shop-db Progressing does not exist", " PersistentVolumeClaim/data-shop-db-0 Healthy",
		"web", " Deployment/shop-web Progressing Deployment demo/shop-web" + progressing,
		"  ReplicaSet/shop-web-6d5f7c8b9 Progressing ReplicaSet demo/shop-web-6d5f7c8b9" + progressing,
		"   " + firstPod + " Degraded " + imageNotFound, "   Pod/shop-web-6d5f7c8b9-x1k4z Progressing Pod demo/shop-web-6d5f7c8b9-x1k4z is not ready yet",
		" Service/shop-web Healthy", " PodDisruptionBudget/shop-web Healthy",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tree (-want +got):\n%s", diff)
	}
}

func formatTree(nodes []inspect.Node, indent string) []string {
	var out []string
	for _, n := range nodes {
		out = append(out, strings.TrimRight(fmt.Sprintf("%s%s/%s %s %s", indent, n.Object.Kind, n.Object.Name, n.Health, n.Message), " "))
		out = append(out, formatTree(n.Children, indent+" ")...)
	}
	return out
}

// ReplicaSets of earlier revisions and EndpointSlices are not shown.
func TestTreeOmitsOldReplicaSetsAndEndpointSlices(t *testing.T) {
	s := newShop()
	service := fixtures.Get[*corev1.Service](s, "shop-web")
	s.Add(&discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: fixtures.Namespace, Name: "shop-web-old",
		OwnerReferences: []metav1.OwnerReference{{Kind: "Service", Name: service.Name, UID: service.UID, Controller: new(true)}}}})
	old := fixtures.Get[*appsv1.ReplicaSet](s, "shop-web-6d5f7c8b9").DeepCopy()
	old.Name, old.UID, old.Spec.Replicas, old.Status = "shop-web-old", "old", new(int32(0)), appsv1.ReplicaSetStatus{}
	s.Add(old)
	v := inspect.Evaluate(s.Input())
	for _, n := range v.Component("web").Tree {
		if slices.ContainsFunc(n.Children, func(x inspect.Node) bool { return x.Object.Name == old.Name }) {
			t.Errorf("%s of %s is in the tree", old.Name, n.Object.Kind)
		}
	}
}

// The view is evaluated again when a grace period ends.
func TestRecheckAfterGracePeriod(t *testing.T) {
	s := newShop()
	s.App.SetGeneration(2)
	s.App.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "kubectl", Time: new(fixtures.Ago(5 * time.Second))}})
	v := inspect.Evaluate(s.Input())
	if want := fixtures.Now.Add(10 * time.Second); !v.RecheckAt.Equal(want) {
		t.Errorf("recheck at %s, want %s", v.RecheckAt, want)
	}
	if len(v.Causes) > 0 {
		t.Errorf("causes %v within the grace period of 15 s", v.Causes)
	}
}

// The status has the first time; each restart of a crashing pod updates its conditions.
func TestSinceIsTakenFromStatus(t *testing.T) {
	s := newShop()
	s.SetImageNotFound("web")
	hourAgo := fixtures.Ago(time.Hour)
	s.App.ApplicationStatus().Causes = []appsapi.Cause{{Code: "ImageNotFound", Message: imageNotFound, Since: hourAgo,
		Object: appsapi.ObjectReference{Kind: "Pod", Name: s.Pods("web")[0].Name}}}
	v := inspect.Evaluate(s.Input())
	if len(v.Causes) != 1 || v.Causes[0].Code != explain.ImageNotFound || !v.Causes[0].Since.Equal(hourAgo.Time) {
		t.Errorf("got %+v, want one cause since %s", v.Causes, hourAgo)
	}
}

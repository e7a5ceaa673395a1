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
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/holdfast-dev/holdfast/internal/inspect"
	"github.com/holdfast-dev/holdfast/internal/testutil/fixtures"
	"github.com/holdfast-dev/holdfast/internal/testutil/golden"
)

// asHelmObject converts a managed object to one that Helm would create: without labels of Holdfast, except
// for those that selectors need, under another name.
func asHelmObject(obj runtime.Object) runtime.Object {
	obj = obj.DeepCopyObject()
	o := obj.(metav1.Object)
	o.SetLabels(withoutHoldfastLabels(o.GetLabels()))
	if ref := metav1.GetControllerOf(o); ref != nil && ref.Kind == "AppStack" {
		o.SetOwnerReferences(nil)
		o.SetAnnotations(helmAnnotations)
	}
	switch x := obj.(type) {
	case *appsv1.Deployment:
		x.Spec.Template.Labels = withoutHoldfastLabels(x.Spec.Template.Labels)
	case *appsv1.StatefulSet:
		x.Spec.Template.Labels = withoutHoldfastLabels(x.Spec.Template.Labels)
	case *corev1.Service:
		x.Spec.Selector = withoutHoldfastLabels(x.Spec.Selector)
	case *policyv1.PodDisruptionBudget:
		x.Spec.Selector.MatchLabels = withoutHoldfastLabels(x.Spec.Selector.MatchLabels)
	}
	return obj
}

func withoutHoldfastLabels(all map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range all {
		switch {
		case k == "apps.holdfast.dev/workload":
			out["app"] = v
		case !strings.Contains(k, "holdfast") && k != "app.kubernetes.io/managed-by" && k != "app.kubernetes.io/part-of":
			out[k] = v
		}
	}
	return out
}

var helmAnnotations = map[string]string{"meta.helm.sh/release-name": "shop", "meta.helm.sh/release-namespace": "demo"}

// helmMeta returns the metadata of a root of the release.
func helmMeta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "demo", Name: name, Annotations: helmAnnotations}
}

// shopRelease returns the shop as a Helm release after a change.
func shopRelease(change func(*fixtures.Fixture)) inspect.GroupInput {
	s := newShop()
	change(s)
	return asHelmRelease(s.Input())
}

func customResource(kind, name string, status map[string]any) *unstruct {
	u := &unstruct{Object: map[string]any{"apiVersion": "example.com/v1", "kind": kind, "status": status}}
	u.SetNamespace("demo")
	u.SetName(name)
	u.SetAnnotations(helmAnnotations)
	return u
}

func setController(by, o metav1.Object, apiVersion, kind string) {
	o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: by.GetName(), UID: by.GetUID(), Controller: new(true)}})
}

const (
	readyHealthy        = "ready, Healthy"
	shopDBHealthy       = "shop-db Healthy 1/1"
	shopWebHealthy      = "shop-web Healthy 2/2"
	notReadyProgressing = "not ready, Progressing"
)

var groupCases = map[string]struct {
	change func(*fixtures.Fixture)
	want   []string
	says   string
}{
	"all healthy": {
		change: func(*fixtures.Fixture) {},
		want:   []string{readyHealthy, shopDBHealthy, jobName() + " Healthy 1/1", shopWebHealthy}, says: "Everything runs as declared",
	},
	"cause replaces the message of its workload": {
		change: func(s *fixtures.Fixture) { s.SetImageNotFound("web") },
		want: []string{"not ready, Degraded", shopDBHealthy, jobName() + " Healthy 1/1", "shop-web Degraded 0/2: " + imageNotFound,
			"ImageNotFound " + firstPod + ": " + imageNotFound},
		says: `Component "shop-web": ` + imageNotFound,
	},
	"progressing workload": {
		change: func(s *fixtures.Fixture) {
			fixtures.Get[*appsv1.Deployment](s, "shop-web").Status.AvailableReplicas = 1
		},
		want: []string{notReadyProgressing, shopDBHealthy, jobName() + " Healthy 1/1", "shop-web Progressing 2/2: " + webProgressing}, says: `Component "shop-web": ` + webProgressing,
	},
	"Service of one component": {
		change: func(s *fixtures.Fixture) {
			fixtures.Get[*corev1.Service](s, "shop-web").DeletionTimestamp = new(fixtures.Ago(0))
		},
		want: []string{notReadyProgressing, shopDBHealthy, jobName() + " Healthy 1/1", "shop-web Progressing 2/2: Service demo/shop-web is being deleted"},
		says: `Component "shop-web": Service demo/shop-web is being deleted`,
	},
	"Service without a component": {
		change: func(s *fixtures.Fixture) {
			s.Add(&corev1.Service{ObjectMeta: helmMeta("edge"), Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}})
		},
		want: []string{"not ready, Degraded", shopDBHealthy, jobName() + " Healthy 1/1", shopWebHealthy,
			"LBPending Service/edge: Service edge has no load balancer address yet"},
		says: "Service edge has no load balancer address yet",
	},
	"Service outside of the release": {
		change: func(s *fixtures.Fixture) {
			s.Add(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "edge"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}})
		},
		want: []string{readyHealthy, shopDBHealthy, jobName() + " Healthy 1/1", shopWebHealthy},
	},
	"pending load balancer of a component": {
		change: func(s *fixtures.Fixture) {
			fixtures.Get[*corev1.Service](s, "shop-web").Spec.Type = corev1.ServiceTypeLoadBalancer
		},
		want: []string{"not ready, Degraded", shopDBHealthy, jobName() + " Healthy 1/1",
			"shop-web Degraded 2/2: Service shop-web has no load balancer address yet",
			"LBPending Service/shop-web: Service shop-web has no load balancer address yet"},
	},
	"unknown kind without a status": {
		change: func(s *fixtures.Fixture) { s.Add(customResource("Widget", "w", nil)) },
		want:   []string{readyHealthy, shopDBHealthy, jobName() + " Healthy 1/1", shopWebHealthy},
	},
	"unknown kind in a failed phase": {
		change: func(s *fixtures.Fixture) { s.Add(customResource("Widget", "w", map[string]any{"phase": "Failed"})) },
		want: []string{"not ready, Degraded", shopDBHealthy, jobName() + " Healthy 1/1", shopWebHealthy,
			"NotReady Widget/w: Widget demo/w reports that it is Failed"},
		says: "Widget demo/w reports that it is Failed",
	},
	"workloads of a custom controller are a component": {
		change: func(s *fixtures.Fixture) {
			w := customResource("Queue", "mail", nil)
			s.Add(w)
			for _, n := range []string{"mail-a", "mail-b"} {
				set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: n}, Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: 2, NumberReady: 1}}
				setController(w, set, "example.com/v1", "Queue")
				s.Add(set)
			}
		},
		want: []string{notReadyProgressing, "mail Progressing 2/4: DaemonSet demo/mail-a waits for its pods to become ready", shopDBHealthy, jobName() + " Healthy 1/1", shopWebHealthy},
	},
	"components of the same name": {
		change: func(s *fixtures.Fixture) {
			s.Add(&appsv1.StatefulSet{ObjectMeta: helmMeta("shop-web"), Spec: appsv1.StatefulSetSpec{Replicas: new(int32)}},
				&batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "shop-web", Annotations: helmAnnotations, UID: "other"}},
				&batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "shop-web", Annotations: helmAnnotations, UID: "foreign"}})
		},
		want: []string{readyHealthy, "cronjob/shop-web Healthy 0/0", "deployment/shop-web Healthy 2/2", shopDBHealthy, jobName() + " Healthy 1/1", "statefulset/shop-web Healthy 0/0",
			"ScaledToZero StatefulSet/shop-web: StatefulSet shop-web is scaled to zero replicas"},
	},
	"standalone ReplicaSet and pods": {
		change: func(s *fixtures.Fixture) {
			s.Add(&appsv1.ReplicaSet{ObjectMeta: helmMeta("old")}, &corev1.Pod{ObjectMeta: helmMeta("debug"), Status: corev1.PodStatus{Phase: corev1.PodSucceeded}},
				&corev1.Pod{ObjectMeta: helmMeta("new")})
		},
		want: []string{notReadyProgressing, "debug Healthy 1/1", "new Progressing 0/1: Pod demo/new is not ready yet", "old Progressing 0/1: ReplicaSet demo/old waits for its pods to become ready",
			shopDBHealthy, jobName() + " Healthy 1/1", shopWebHealthy},
	},
	"forbidden ReplicaSets": {
		change: func(s *fixtures.Fixture) {
			s.SetImageNotFound("web")
			s.ForbiddenKinds = []string{"ReplicaSet"}
		},
		want: []string{"not ready, Degraded", shopDBHealthy, jobName() + " Healthy 1/1", "shop-web Degraded 0/2: " + imageNotFound, "ImageNotFound " + firstPod + ": " + imageNotFound},
	},
	"Service selects a single pod of a workload": {
		change: func(s *fixtures.Fixture) {
			s.Pods("db")[0].Labels = map[string]string{"role": "leader"}
			s.Add(&corev1.Service{ObjectMeta: helmMeta("leader"), Spec: corev1.ServiceSpec{Selector: map[string]string{"role": "leader"}}})
			fixtures.Get[*corev1.Service](s, "leader").DeletionTimestamp = new(fixtures.Ago(0))
		},
		want: []string{notReadyProgressing, "shop-db Progressing 1/1: Service demo/leader is being deleted", jobName() + " Healthy 1/1", shopWebHealthy},
	},
	"no ready endpoints": {
		change: func(s *fixtures.Fixture) {
			s.Add(&discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "shop-web-1", Labels: map[string]string{discoveryv1.LabelServiceName: "shop-web"}},
				Endpoints: []discoveryv1.Endpoint{{Conditions: discoveryv1.EndpointConditions{Ready: new(false)}}}})
		},
		want: []string{"not ready, Degraded", shopDBHealthy, jobName() + " Healthy 1/1",
			"shop-web Degraded 2/2: Service shop-web has no ready endpoints: none of its pods is ready",
			"NoReadyEndpoints Service/shop-web: Service shop-web has no ready endpoints: none of its pods is ready"},
	},
	"missing StorageClass": {
		change: func(s *fixtures.Fixture) { s.SetStorageClassMissing("db", "none") },
		want: []string{"not ready, Degraded", "shop-db Degraded 0/1: PersistentVolumeClaim data-shop-db-0 asks for StorageClass \"none\", which does not exist", jobName() + " Healthy 1/1", shopWebHealthy,
			"StorageClassMissing PersistentVolumeClaim/data-shop-db-0: PersistentVolumeClaim data-shop-db-0 asks for StorageClass \"none\", which does not exist"},
	},
	"only configuration": {
		change: func(s *fixtures.Fixture) {
			s.Objects = nil
			s.Add(&corev1.ConfigMap{ObjectMeta: helmMeta("settings")})
		},
		want: []string{readyHealthy}, says: "Everything runs as declared",
	},
	"only kinds without health rules": {
		change: func(s *fixtures.Fixture) {
			s.Objects = nil
			s.Add(customResource("Widget", "w", nil))
		},
		want: []string{"not ready, Unknown"}, says: "All objects are of kinds without health rules",
	},
	"no objects": {
		change: func(s *fixtures.Fixture) { s.Objects = nil },
		want:   []string{"not ready, Unknown"}, says: "No objects found",
	},
}

func TestEvaluateGroup(t *testing.T) {
	for name, tc := range groupCases {
		t.Run(name, func(t *testing.T) {
			v := inspect.EvaluateGroup(shopRelease(tc.change))
			if diff := cmp.Diff(tc.want, formatView(v)); diff != "" {
				t.Errorf("view (-want +got):\n%s", diff)
			}
			if tc.says != "" && v.Message != tc.says {
				t.Errorf("message %q, want %q", v.Message, tc.says)
			}
			if v.Kind != "HelmRelease" || v.Namespace != "demo" || v.Name != "shop" || v.Reason == "" {
				t.Errorf("is %s %s/%s with reason %q", v.Kind, v.Namespace, v.Name, v.Reason)
			}
			checkUniqueNodes(t, v)
		})
	}
}

// checkUniqueNodes checks that each root and each pod occurs once.
func checkUniqueNodes(t *testing.T, v inspect.View) {
	t.Helper()
	seen := map[string]bool{}
	note := func(n inspect.Node) {
		o := fmt.Sprintf("%s %s/%s", n.Object.Kind, n.Object.Namespace, n.Object.Name)
		if seen[o] {
			t.Errorf("%s is shown twice", o)
		}
		seen[o] = true
	}
	var walk func(nodes []inspect.Node, roots bool)
	walk = func(nodes []inspect.Node, roots bool) {
		for _, n := range nodes {
			if roots || n.Object.Kind == "Pod" && n.Edge == inspect.EdgeOwner {
				note(n)
			}
			if roots != (n.Edge == "") {
				t.Errorf("%v: edge %q", n.Object, n.Edge)
			}
			walk(n.Children, false)
		}
	}
	for _, c := range v.Components {
		walk(c.Tree, true)
	}
	walk(v.Unassigned, true)
}

// TestGroupIgnoresDuplicates passes every object twice, and a list.
func TestGroupIgnoresDuplicates(t *testing.T) {
	in := shopRelease(func(s *fixtures.Fixture) { s.Add(&corev1.ConfigMap{ObjectMeta: helmMeta("settings")}) })
	want := inspect.EvaluateGroup(in)
	in.Objects = append(slices.Concat(in.Objects, in.Objects), &corev1.PodList{})
	if diff := cmp.Diff(want, inspect.EvaluateGroup(in)); diff != "" {
		t.Errorf("view (-once +twice):\n%s", diff)
	}
}

// TestGroupSince checks the start time, the changes, and the time of the next evaluation.
func TestGroupSince(t *testing.T) {
	v := inspect.EvaluateGroup(shopRelease(func(s *fixtures.Fixture) {
		s.AddManagedFields(fixtures.Get[*appsv1.Deployment](s, "shop-web"), "helm", 6*time.Minute)
		s.SetImageNotFound("web")
	}))
	if want := fixtures.Ago(10 * time.Minute).Time; !v.Since.Equal(want) {
		t.Errorf("since %s, want %s", v.Since, want)
	}
	if len(v.Changes) != 1 || v.Changes[0].Manager != "helm" || v.Changes[0].Object.Name != "shop-web" {
		t.Errorf("changes %v", v.Changes)
	}
	if want := "Correct image of Deployment shop-web, or push the image."; v.Causes[0].Fix != want {
		t.Errorf("fix %q, want %q", v.Causes[0].Fix, want)
	}
	v = inspect.EvaluateGroup(shopRelease(func(s *fixtures.Fixture) { s.SetStarting("web") }))
	if v.RecheckAt.IsZero() {
		t.Error("no recheck although a grace period ends")
	}
}

// TestGroupPartOf uses the label of a group instead of the annotations of Helm.
func TestGroupPartOf(t *testing.T) {
	in := shopRelease(func(*fixtures.Fixture) {})
	in.Kind, in.Name = "Group", "all"
	for _, obj := range in.Objects {
		// Templates have the label too, so their pods have it.
		o := obj.(metav1.Object)
		o.GetLabels()["app.kubernetes.io/part-of"] = "all"
		o.SetAnnotations(nil)
	}
	if diff := cmp.Diff([]string{readyHealthy, shopDBHealthy, jobName() + " Healthy 1/1", shopWebHealthy}, formatView(inspect.EvaluateGroup(in))); diff != "" {
		t.Errorf("view (-want +got):\n%s", diff)
	}
}

// formatNodes formats a tree.
func formatNodes(nodes []inspect.Node, indent string) string {
	var b strings.Builder
	for _, n := range nodes {
		edge := ""
		if n.Edge != "" {
			edge = string(n.Edge) + " "
		}
		fmt.Fprintf(&b, "%s%s%s/%s %s", indent, edge, n.Object.Kind, n.Object.Name, n.Health)
		if n.Message != "" {
			fmt.Fprintf(&b, ": %s", n.Message)
		}
		b.WriteString("\n" + formatNodes(n.Children, indent+"  "))
	}
	return b.String()
}

func formatGroupTree(v inspect.View) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s/%s %s: %s\n", v.Kind, v.Namespace, v.Name, v.Health, v.Message)
	for _, c := range v.Components {
		fmt.Fprintf(&b, "\n%s (%s) %s %d/%d\n%s", c.Name, c.Type, c.Health, c.Ready, c.Desired, formatNodes(c.Tree, "  "))
	}
	fmt.Fprintf(&b, "\nrest\n%s", formatNodes(v.Unassigned, "  "))
	return b.String()
}

// TestGroupTree compares the tree of a typical chart release with the golden file.
func TestGroupTree(t *testing.T) {
	v := inspect.EvaluateGroup(chartRelease(t))
	checkUniqueNodes(t, v)
	golden.Check(t, "release.txt", formatGroupTree(v))
}

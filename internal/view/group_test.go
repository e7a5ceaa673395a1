package view_test

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

	"github.com/holdfast-dev/holdfast/internal/testutil/golden"
	"github.com/holdfast-dev/holdfast/internal/testutil/scene"
	"github.com/holdfast-dev/holdfast/internal/view"
)

// foreign is an object of ours as Helm would have made it: nothing of ours is left but what
// selectors need, under another name.
func foreign(obj runtime.Object) runtime.Object {
	obj = obj.DeepCopyObject()
	o := obj.(metav1.Object)
	o.SetLabels(plainLabels(o.GetLabels()))
	if ref := metav1.GetControllerOf(o); ref != nil && ref.Kind == "AppStack" {
		o.SetOwnerReferences(nil)
		o.SetAnnotations(helm)
	}
	switch x := obj.(type) {
	case *appsv1.Deployment:
		x.Spec.Template.Labels = plainLabels(x.Spec.Template.Labels)
	case *appsv1.StatefulSet:
		x.Spec.Template.Labels = plainLabels(x.Spec.Template.Labels)
	case *corev1.Service:
		x.Spec.Selector = plainLabels(x.Spec.Selector)
	case *policyv1.PodDisruptionBudget:
		x.Spec.Selector.MatchLabels = plainLabels(x.Spec.Selector.MatchLabels)
	}
	return obj
}

func plainLabels(all map[string]string) map[string]string {
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

var helm = map[string]string{"meta.helm.sh/release-name": "shop", "meta.helm.sh/release-namespace": "demo"}

// meta is that of a root of the release.
func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "demo", Name: name, Annotations: helm}
}

// release is the shop, installed by Helm, and more.
func release(change func(*scene.Scene)) view.GroupInput {
	s := newShop()
	change(s)
	return released(s.Input())
}

func crd(kind, name string, status map[string]any) *unstruct {
	u := &unstruct{Object: map[string]any{"apiVersion": "example.com/v1", "kind": kind, "status": status}}
	u.SetNamespace("demo")
	u.SetName(name)
	u.SetAnnotations(helm)
	return u
}

func owned(by, o metav1.Object, apiVersion, kind string) {
	o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: by.GetName(), UID: by.GetUID(), Controller: new(true)}})
}

const (
	allIsWell = "ready, Healthy"
	shopDB    = "shop-db Healthy 1/1"
	shopWeb   = "shop-web Healthy 2/2"
	onItsWay  = "not ready, Progressing"
)

var groups = map[string]struct {
	change func(*scene.Scene)
	want   []string
	says   string
}{
	"all is well": {
		change: func(*scene.Scene) {},
		want:   []string{allIsWell, shopDB, jobName() + " Healthy 1/1", shopWeb}, says: "Everything runs as declared",
	},
	"a cause says more than its workload": {
		change: func(s *scene.Scene) { s.LacksImage("web") },
		want: []string{"not ready, Degraded", shopDB, jobName() + " Healthy 1/1", "shop-web Degraded 0/2: " + notFound,
			"ImageNotFound " + firstPod + ": " + notFound},
		says: `Component "shop-web": ` + notFound,
	},
	"a workload on its way": {
		change: func(s *scene.Scene) { scene.Get[*appsv1.Deployment](s, "shop-web").Status.AvailableReplicas = 1 },
		want:   []string{onItsWay, shopDB, jobName() + " Healthy 1/1", "shop-web Progressing 2/2: " + webOnWay}, says: `Component "shop-web": ` + webOnWay,
	},
	"a Service that leads to one component counts there": {
		change: func(s *scene.Scene) {
			scene.Get[*corev1.Service](s, "shop-web").DeletionTimestamp = new(scene.Before(0))
		},
		want: []string{onItsWay, shopDB, jobName() + " Healthy 1/1", "shop-web Progressing 2/2: Service demo/shop-web is being deleted"},
		says: `Component "shop-web": Service demo/shop-web is being deleted`,
	},
	"a Service that leads to nobody counts for the whole": {
		change: func(s *scene.Scene) {
			s.Add(&corev1.Service{ObjectMeta: meta("edge"), Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}})
		},
		want: []string{"not ready, Degraded", shopDB, jobName() + " Healthy 1/1", shopWeb, "LBPending Service/edge: Service edge has no address from a load balancer yet"},
		says: "Service edge has no address from a load balancer yet",
	},
	"a Service of others that waits": {
		change: func(s *scene.Scene) {
			s.Add(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "edge"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}})
		},
		want: []string{allIsWell, shopDB, jobName() + " Healthy 1/1", shopWeb},
	},
	"a Service that leads to a component waits there": {
		change: func(s *scene.Scene) {
			scene.Get[*corev1.Service](s, "shop-web").Spec.Type = corev1.ServiceTypeLoadBalancer
		},
		want: []string{"not ready, Degraded", shopDB, jobName() + " Healthy 1/1", "shop-web Degraded 2/2: Service shop-web has no address from a load balancer yet",
			"LBPending Service/shop-web: Service shop-web has no address from a load balancer yet"},
	},
	"a kind that nobody knows does not make it unwell": {
		change: func(s *scene.Scene) { s.Add(crd("Widget", "w", nil)) },
		want:   []string{allIsWell, shopDB, jobName() + " Healthy 1/1", shopWeb},
	},
	"a kind that says what is wrong does": {
		change: func(s *scene.Scene) { s.Add(crd("Widget", "w", map[string]any{"phase": "Failed"})) },
		want: []string{"not ready, Degraded", shopDB, jobName() + " Healthy 1/1", shopWeb,
			"NotReady Widget/w: Widget demo/w says that it is Failed"},
		says: "Widget demo/w says that it is Failed",
	},
	"what the controller of another kind made is a component": {
		change: func(s *scene.Scene) {
			w := crd("Queue", "mail", nil)
			s.Add(w)
			for _, n := range []string{"mail-a", "mail-b"} {
				set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: n}, Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: 2, NumberReady: 1}}
				owned(w, set, "example.com/v1", "Queue")
				s.Add(set)
			}
		},
		want: []string{onItsWay, "mail Progressing 2/4: DaemonSet demo/mail-a waits for its pods to become ready", shopDB, jobName() + " Healthy 1/1", shopWeb},
	},
	"two of the same name": {
		change: func(s *scene.Scene) {
			s.Add(&appsv1.StatefulSet{ObjectMeta: meta("shop-web"), Spec: appsv1.StatefulSetSpec{Replicas: new(int32)}},
				&batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "shop-web", Annotations: helm, UID: "other"}})
		},
		want: []string{allIsWell, "deployment/shop-web Healthy 2/2", "other/cronjob/shop-web Healthy 0/0", shopDB, jobName() + " Healthy 1/1", "statefulset/shop-web Healthy 0/0",
			"ScaledToZero StatefulSet/shop-web: StatefulSet shop-web is scaled to zero, as it is asked to be"},
	},
	"a ReplicaSet and pods that nobody made": {
		change: func(s *scene.Scene) {
			s.Add(&appsv1.ReplicaSet{ObjectMeta: meta("old")}, &corev1.Pod{ObjectMeta: meta("debug"), Status: corev1.PodStatus{Phase: corev1.PodSucceeded}},
				&corev1.Pod{ObjectMeta: meta("new")})
		},
		want: []string{onItsWay, "debug Healthy 1/1", "new Progressing 0/1: Pod demo/new is not ready yet", "old Progressing 0/1: ReplicaSet demo/old waits for its pods to become ready",
			shopDB, jobName() + " Healthy 1/1", shopWeb},
	},
	"ReplicaSets may not be read": {
		change: func(s *scene.Scene) {
			s.LacksImage("web")
			s.Unread = []string{"ReplicaSet"}
		},
		want: []string{"not ready, Degraded", shopDB, jobName() + " Healthy 1/1", "shop-web Degraded 0/2: " + notFound, "ImageNotFound " + firstPod + ": " + notFound},
	},
	"a pod that no workload has as a whole is led to": {
		change: func(s *scene.Scene) {
			s.Pods("db")[0].Labels = map[string]string{"role": "leader"}
			s.Add(&corev1.Service{ObjectMeta: meta("leader"), Spec: corev1.ServiceSpec{Selector: map[string]string{"role": "leader"}}})
			scene.Get[*corev1.Service](s, "leader").DeletionTimestamp = new(scene.Before(0))
		},
		want: []string{onItsWay, "shop-db Progressing 1/1: Service demo/leader is being deleted", jobName() + " Healthy 1/1", shopWeb},
	},
	"nobody answers": {
		change: func(s *scene.Scene) {
			s.Add(&discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "shop-web-1", Labels: map[string]string{discoveryv1.LabelServiceName: "shop-web"}},
				Endpoints: []discoveryv1.Endpoint{{Conditions: discoveryv1.EndpointConditions{Ready: new(false)}}}})
		},
		want: []string{"not ready, Degraded", shopDB, jobName() + " Healthy 1/1", "shop-web Degraded 2/2: Service shop-web has pods, but none of them is ready: nobody answers",
			"NoReadyEndpoints Service/shop-web: Service shop-web has pods, but none of them is ready: nobody answers"},
	},
	"a claim has no class": {
		change: func(s *scene.Scene) { s.LacksVolumes("db", "none") },
		want: []string{"not ready, Degraded", "shop-db Degraded 0/1: PersistentVolumeClaim data-shop-db-0 asks for StorageClass \"none\", which does not exist", jobName() + " Healthy 1/1", shopWeb,
			"StorageClassMissing PersistentVolumeClaim/data-shop-db-0: PersistentVolumeClaim data-shop-db-0 asks for StorageClass \"none\", which does not exist"},
	},
	"only settings": {
		change: func(s *scene.Scene) {
			s.Objects = nil
			s.Add(&corev1.ConfigMap{ObjectMeta: meta("settings")})
		},
		want: []string{allIsWell}, says: "Everything runs as declared",
	},
	"only what cannot be judged": {
		change: func(s *scene.Scene) {
			s.Objects = nil
			s.Add(crd("Widget", "w", nil))
		},
		want: []string{"not ready, Unknown"}, says: "It has only objects of kinds whose health cannot be judged",
	},
	"nothing": {
		change: func(s *scene.Scene) { s.Objects = nil },
		want:   []string{"not ready, Unknown"}, says: "Nothing of it was found",
	},
}

func TestGroup(t *testing.T) {
	for name, tc := range groups {
		t.Run(name, func(t *testing.T) {
			v := view.Group(release(tc.change))
			if diff := cmp.Diff(tc.want, told(v)); diff != "" {
				t.Errorf("view (-want +got):\n%s", diff)
			}
			if tc.says != "" && v.Message != tc.says {
				t.Errorf("says %q, want %q", v.Message, tc.says)
			}
			if v.Kind != "HelmRelease" || v.Namespace != "demo" || v.Name != "shop" || v.Reason == "" {
				t.Errorf("is %s %s/%s with reason %q", v.Kind, v.Namespace, v.Name, v.Reason)
			}
			once(t, v)
		})
	}
}

// once says that nothing is a root twice, and that each pod has one place.
func once(t *testing.T, v view.View) {
	t.Helper()
	seen := map[string]bool{}
	note := func(n view.Node) {
		o := fmt.Sprintf("%s %s/%s", n.Object.Kind, n.Object.Namespace, n.Object.Name)
		if seen[o] {
			t.Errorf("%s is there twice", o)
		}
		seen[o] = true
	}
	var walk func(nodes []view.Node, roots bool)
	walk = func(nodes []view.Node, roots bool) {
		for _, n := range nodes {
			if roots || n.Object.Kind == "Pod" && n.Edge == view.EdgeOwner {
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
	walk(v.Rest, true)
}

// TestGroupTwice gives every object twice, and one that is none.
func TestGroupTwice(t *testing.T) {
	in := release(func(s *scene.Scene) { s.Add(&corev1.ConfigMap{ObjectMeta: meta("settings")}) })
	want := view.Group(in)
	in.Objects = append(slices.Concat(in.Objects, in.Objects), &corev1.PodList{})
	if diff := cmp.Diff(want, view.Group(in)); diff != "" {
		t.Errorf("view (-once +twice):\n%s", diff)
	}
}

// TestGroupSince says since when, who changed what, and when to look again.
func TestGroupSince(t *testing.T) {
	v := view.Group(release(func(s *scene.Scene) {
		s.Changed(scene.Get[*appsv1.Deployment](s, "shop-web"), "helm", 6*time.Minute)
		s.LacksImage("web")
	}))
	if want := scene.Before(10 * time.Minute).Time; !v.Since.Equal(want) {
		t.Errorf("since %s, want %s", v.Since, want)
	}
	if len(v.Changes) != 1 || v.Changes[0].By != "helm" || v.Changes[0].Object.Name != "shop-web" {
		t.Errorf("changes %v", v.Changes)
	}
	if want := "Correct image of Deployment shop-web, or push the image."; v.Causes[0].Fix != want {
		t.Errorf("fix %q, want %q", v.Causes[0].Fix, want)
	}
	v = view.Group(release(func(s *scene.Scene) { s.Starts("web") }))
	if v.Again.IsZero() {
		t.Error("nobody looks again although a grace period ends")
	}
}

// TestGroupPartOf takes the labels of a group instead of Helm's.
func TestGroupPartOf(t *testing.T) {
	in := release(func(*scene.Scene) {})
	in.Kind, in.Name = "Group", "all"
	for _, obj := range in.Objects {
		// Templates have the label, too, so what is made of them does.
		o := obj.(metav1.Object)
		o.GetLabels()["app.kubernetes.io/part-of"] = "all"
		o.SetAnnotations(nil)
	}
	if diff := cmp.Diff([]string{allIsWell, shopDB, jobName() + " Healthy 1/1", shopWeb}, told(view.Group(in))); diff != "" {
		t.Errorf("view (-want +got):\n%s", diff)
	}
}

// drawn is a tree in words.
func drawn(nodes []view.Node, indent string) string {
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
		b.WriteString("\n" + drawn(n.Children, indent+"  "))
	}
	return b.String()
}

func picture(v view.View) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s/%s %s: %s\n", v.Kind, v.Namespace, v.Name, v.Health, v.Message)
	for _, c := range v.Components {
		fmt.Fprintf(&b, "\n%s (%s) %s %d/%d\n%s", c.Name, c.Type, c.Health, c.Ready, c.Wanted, drawn(c.Tree, "  "))
	}
	fmt.Fprintf(&b, "\nrest\n%s", drawn(v.Rest, "  "))
	return b.String()
}

// TestGroupTree keeps the picture of a release as charts make them.
func TestGroupTree(t *testing.T) {
	v := view.Group(chart(t))
	once(t, v)
	golden.Check(t, "release.txt", picture(v))
}

package inspect_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/internal/explain"
	"github.com/holdfast-dev/holdfast/internal/inspect"
	"github.com/holdfast-dev/holdfast/internal/testutil/fixtures"
)

// addReferences adds references to the web pods of the shop and to their template.
func addReferences(s *fixtures.Fixture, spec string) {
	extra := mustParse[corev1.PodSpec](spec)
	add := func(p *corev1.PodSpec) {
		p.Containers[0].EnvFrom = append(p.Containers[0].EnvFrom, extra.Containers[0].EnvFrom...)
		p.Volumes = append(p.Volumes, extra.Volumes...)
	}
	add(&fixtures.Get[*appsv1.Deployment](s, "shop-web").Spec.Template.Spec)
	for _, p := range s.Pods("web") {
		add(&p.Spec)
	}
}

func TestTreeWithEdges(t *testing.T) {
	const using = `{containers: [{name: app, envFrom: [{configMapRef: {name: settings}}, {secretRef: {name: token}}, {secretRef: {name: token}}, {configMapRef: {name: settings, optional: true}}]}],
volumes: [{name: a, configMap: {name: gone}}, {name: b, configMap: {name: extra, optional: true}}, {name: c, secret: {secretName: lost}}, {name: d, ephemeral: {}}]}`
	s := newShop()
	addReferences(s, using)
	s.Add(&metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "settings"}})
	s.Add(&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-1"}, Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeFailed}})
	claim := fixtures.Get[*corev1.PersistentVolumeClaim](s, "data-shop-db-0")
	claim.Spec.VolumeName = "pv-1"
	left := claim.DeepCopy()
	left.Name, left.UID = "data-shop-db-1", ""
	s.Add(left)
	in := s.Input()
	in.IncludeEdges = true
	in.CompleteKinds = append(in.CompleteKinds, "ConfigMap")
	in.MissingRefs = map[string][]explain.Ref{"web": {{Kind: "Secret", Name: "lost"}}}
	v := inspect.Evaluate(in)
	want := map[string]string{
		"db": `StatefulSet/shop-db Healthy
  owner Pod/shop-db-0 Healthy
    claim PersistentVolumeClaim/data-shop-db-0 Healthy
      reference PersistentVolume/pv-1 Degraded: PersistentVolume pv-1 has failed
Service/shop-db-headless Healthy
  selector StatefulSet/shop-db Healthy
Service/shop-db Healthy
  selector StatefulSet/shop-db Healthy
PersistentVolumeClaim/data-shop-db-1 Healthy
  reference PersistentVolume/pv-1 Degraded: PersistentVolume pv-1 has failed
`,
		"web": `Deployment/shop-web Healthy
  owner ReplicaSet/shop-web-6d5f7c8b9 Healthy
    owner Pod/shop-web-6d5f7c8b9-x0k4z Healthy
      claim PersistentVolumeClaim/shop-web-6d5f7c8b9-x0k4z-d Degraded: does not exist
    owner Pod/shop-web-6d5f7c8b9-x1k4z Healthy
      claim PersistentVolumeClaim/shop-web-6d5f7c8b9-x1k4z-d Degraded: does not exist
  reference ConfigMap/gone Degraded: does not exist
  reference ConfigMap/settings Healthy
  reference Secret/lost Degraded: does not exist
  reference Secret/token Unknown
Service/shop-web Healthy
  selector Deployment/shop-web Healthy
PodDisruptionBudget/shop-web Healthy
  selector Deployment/shop-web Healthy
`,
	}
	for name, tree := range want {
		if diff := cmp.Diff(tree, formatNodes(v.Component(name).Tree, "")); diff != "" {
			t.Errorf("tree of %s (-want +got):\n%s", name, diff)
		}
	}
	in.CompleteKinds = nil
	v = inspect.Evaluate(in)
	if got := formatNodes(v.Component("web").Tree, ""); !strings.Contains(got, "ConfigMap/gone Unknown\n") || !strings.Contains(got, "ConfigMap/extra Unknown\n") {
		t.Errorf("unread objects count as missing:\n%s", got)
	}
}

// TestTreeWithoutEdges checks the tree of the plugin, which only has controlled objects.
func TestTreeWithoutEdges(t *testing.T) {
	s := newShop()
	addReferences(s, `{containers: [{name: app, envFrom: [{configMapRef: {name: settings}}]}]}`)
	got := ""
	for _, c := range inspect.Evaluate(s.Input()).Components {
		got += formatNodes(c.Tree, "")
	}
	for _, word := range []string{"claim ", "reference ", "selector "} {
		if strings.Contains(got, word) {
			t.Errorf("the tree has %q:\n%s", word, got)
		}
	}
}

// TestUncommonReferences covers rare and dangling references.
func TestUncommonReferences(t *testing.T) {
	autoscaler := func(name, apiVersion string) *autoscalingv2.HorizontalPodAutoscaler {
		return &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: helmMeta(name), Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: apiVersion, Kind: "Deployment", Name: "shop-web"}}}
	}
	budget := func(name string, s *metav1.LabelSelector) *policyv1.PodDisruptionBudget {
		return &policyv1.PodDisruptionBudget{ObjectMeta: helmMeta(name), Spec: policyv1.PodDisruptionBudgetSpec{Selector: s}}
	}
	expression := func(op metav1.LabelSelectorOperator) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: op, Values: []string{"statefulset-shop-db"}}}}
	}
	cases := map[string]struct {
		objects []runtime.Object
		want    string
	}{
		"autoscaler": {[]runtime.Object{autoscaler("x", "apps/v1")},
			"HorizontalPodAutoscaler/x Healthy\n  reference Deployment/shop-web Healthy\n"},
		"autoscaler for another group":       {[]runtime.Object{autoscaler("x", "example.com/v1")}, "HorizontalPodAutoscaler/x Healthy\n"},
		"autoscaler with invalid apiVersion": {[]runtime.Object{autoscaler("x", "a/b/c")}, "HorizontalPodAutoscaler/x Healthy\n"},
		"budget without a selector":          {[]runtime.Object{budget("x", nil)}, "PodDisruptionBudget/x Healthy\n"},
		"budget with an empty selector":      {[]runtime.Object{budget("x", &metav1.LabelSelector{})}, "PodDisruptionBudget/x Healthy\n"},
		"budget with an invalid operator":    {[]runtime.Object{budget("x", expression("Near"))}, "PodDisruptionBudget/x Healthy\n"},
		"budget with matchExpressions": {[]runtime.Object{budget("x", expression("In"))},
			"PodDisruptionBudget/x Healthy\n  selector StatefulSet/shop-db Healthy\n"},
		"route to a component": {[]runtime.Object{httpRouteTo("shop-web")},
			"HTTPRoute/x Unknown: HTTPRoute demo/x cannot be evaluated: it is invalid or has no parentRefs\n  reference Service/shop-web Healthy\n"},
		"route to a missing Service": {[]runtime.Object{httpRouteTo("none")},
			"HTTPRoute/x Unknown: HTTPRoute demo/x cannot be evaluated: it is invalid or has no parentRefs\n  reference Service/none Degraded: " +
				"does not exist\n"},
		"Service kind of another group": {[]runtime.Object{httpRouteTo("mesh"), otherResource("Service", "mesh")},
			"HTTPRoute/x Unknown: HTTPRoute demo/x cannot be evaluated: it is invalid or has no parentRefs\n  reference Service/mesh Degraded: " +
				"does not exist\n"},
		"pod of an unread Job of a CronJob": {[]runtime.Object{&batchv1.CronJob{ObjectMeta: helmMeta("x")}, jobPod("x-1")},
			"CronJob/x Healthy\n  owner Pod/tick Progressing: Pod demo/tick is not ready yet\n"},
		"pod of an unread Job of another name": {[]runtime.Object{&batchv1.CronJob{ObjectMeta: helmMeta("x")}, jobPod("y-1")},
			"CronJob/x Healthy\n"},
		"pod of a Job without a dash": {[]runtime.Object{&batchv1.CronJob{ObjectMeta: helmMeta("x")}, jobPod("x")},
			"CronJob/x Healthy\n"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			in := shopRelease(func(s *fixtures.Fixture) { s.ForbiddenKinds = []string{"Job"} })
			for _, obj := range tc.objects {
				setKindAndUID(obj)
				in.Objects = append(in.Objects, obj)
			}
			v := inspect.EvaluateGroup(in)
			checkUniqueNodes(t, v)
			got := ""
			for _, nodes := range append(trees(v), v.Unassigned) {
				for _, n := range nodes {
					if n.Object.Name == "x" {
						got += formatNodes([]inspect.Node{n}, "")
					}
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("tree (-want +got):\n%s", diff)
			}
		})
	}
}

func trees(v inspect.View) (out [][]inspect.Node) {
	for _, c := range v.Components {
		out = append(out, c.Tree)
	}
	return out
}

func httpRouteTo(service string) *unstruct {
	route := customResourceWithSpec("HTTPRoute", fmt.Sprintf("{rules: [{backendRefs: [{name: %s, port: 80}]}]}", service))
	route.SetAPIVersion("gateway.networking.k8s.io/v1")
	return route
}

func otherResource(kind, name string) *unstruct { return customResource(kind, name, nil) }

// jobPod returns a pod of a Job that was not read.
func jobPod(job string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "tick"}}
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: job, UID: "unread", Controller: new(true)}}
	return p
}

// setKindAndUID sets the kind and a UID of a typed object.
func setKindAndUID(obj runtime.Object) {
	var s fixtures.Fixture
	s.Add(obj.(interface {
		metav1.Object
		runtime.Object
	}))
}

// TestRandomGroupsShowEachObjectOnce evaluates random objects that own, select and reference each other, also in
// cycles: each root and each pod occurs once, and the evaluation terminates.
func TestRandomGroupsShowEachObjectOnce(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		in := inspect.GroupInput{Kind: "HelmRelease", Namespace: "demo", Name: "shop", Now: fixtures.Now, CompleteKinds: []string{"ConfigMap", "Pod"}}
		labels := func() map[string]string {
			return map[string]string{"app": fmt.Sprint(rng.IntN(3)), "tier": fmt.Sprint(rng.IntN(2))}
		}
		for i := range 30 {
			obj := randomObject(rng, labels)
			obj.SetNamespace("demo")
			obj.SetName(fmt.Sprintf("o%d", i))
			obj.SetUID(types.UID(fmt.Sprint("u", i)))
			if rng.IntN(2) == 0 {
				obj.SetAnnotations(helmAnnotations)
			}
			if rng.IntN(2) == 0 {
				obj.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "o1-x", UID: types.UID(fmt.Sprint("u", rng.IntN(40))), Controller: new(true)}})
			}
			setKindAndUID(obj)
			in.Objects = append(in.Objects, obj)
		}
		v := inspect.EvaluateGroup(in)
		if checkUniqueNodes(t, v); t.Failed() {
			t.Fatalf("seed %d:\n%s", seed, formatGroupTree(v))
		}
	}
}

type object interface {
	metav1.Object
	runtime.Object
}

func randomObject(rng *rand.Rand, labels func() map[string]string) object {
	podSpec := corev1.PodSpec{Containers: []corev1.Container{{EnvFrom: []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: fmt.Sprintf("o%d", rng.IntN(30))}}}}}}}
	t := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels()}, Spec: podSpec}
	switch rng.IntN(7) {
	case 0:
		return &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Template: t}}
	case 1:
		return &appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Template: t}}
	case 2:
		return &corev1.Service{Spec: corev1.ServiceSpec{Selector: labels()}}
	case 3:
		return &corev1.ConfigMap{}
	case 4:
		return &policyv1.PodDisruptionBudget{Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels()}}}
	}
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: labels()}, Spec: podSpec}
}

// TestPodOfDeletedJobIsNotAdopted uses a pod of a deleted Job: all Jobs were read, so the pod does not belong to a
// CronJob with a matching name.
func TestPodOfDeletedJobIsNotAdopted(t *testing.T) {
	pod, cron := jobPod("x-1"), &batchv1.CronJob{ObjectMeta: helmMeta("x")}
	setKindAndUID(pod)
	setKindAndUID(cron)
	v := inspect.EvaluateGroup(inspect.GroupInput{Kind: "HelmRelease", Namespace: "demo", Name: "shop", Objects: []runtime.Object{cron, pod}, CompleteKinds: []string{"Job"}, Now: fixtures.Now})
	if diff := cmp.Diff("CronJob/x Healthy\n", formatNodes(v.Components[0].Tree, "")); diff != "" {
		t.Errorf("tree (-want +got):\n%s", diff)
	}
}

// TestTreeShowsMostImportantCause uses a pod with two causes; the tree shows the more important one.
func TestTreeShowsMostImportantCause(t *testing.T) {
	s := newShop()
	s.SetImageNotFound("web")
	for _, p := range s.Pods("web") {
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: "side", RestartCount: 9,
			State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error", FinishedAt: fixtures.Ago(0)}}})
	}
	v := inspect.Evaluate(s.Input())
	web := v.Component("web")
	if n := len(web.Causes); n != 2 {
		t.Fatalf("%d causes, want two: %v", n, web.Causes)
	}
	if got := formatNodes(web.Tree, ""); !strings.Contains(got, "x0k4z Degraded: "+web.Causes[0].Message) {
		t.Errorf("the first cause is %q, the tree:\n%s", web.Causes[0].Message, got)
	}
}

package health

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// counts are what a Deployment reports about its pods.
type counts struct{ replicas, updated, ready, available int32 }

// deployment asks for pods and has reported counts about the spec as it is.
func deployment(want *int32, c counts, change ...func(*appsv1.Deployment)) *appsv1.Deployment {
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Generation: 4},
		Spec:       appsv1.DeploymentSpec{Replicas: want},
		Status: appsv1.DeploymentStatus{
			ObservedGeneration: 4,
			Replicas:           c.replicas, UpdatedReplicas: c.updated, ReadyReplicas: c.ready, AvailableReplicas: c.available,
		},
	}
	for _, f := range change {
		f(d)
	}
	return d
}

func paused(d *appsv1.Deployment)   { d.Spec.Paused = true }
func unseen(d *appsv1.Deployment)   { d.Status.ObservedGeneration = 3 }
func deleting(d *appsv1.Deployment) { d.DeletionTimestamp = new(metav1.Now()) }

// saying gives the condition that was added last another message.
func saying(add func(*appsv1.Deployment), message string) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) {
		add(d)
		d.Status.Conditions[len(d.Status.Conditions)-1].Message = message
	}
}

func condition(kind appsv1.DeploymentConditionType, status corev1.ConditionStatus, reason string) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) {
		d.Status.Conditions = append(d.Status.Conditions, appsv1.DeploymentCondition{
			Type: kind, Status: status, Reason: reason, Message: `ReplicaSet "web-7d9" has 3 of 5 pods`})
	}
}

func TestOfDeployment(t *testing.T) {
	all := counts{3, 3, 3, 3}
	overdue := condition("Progressing", "False", "ProgressDeadlineExceeded")
	refused := condition("ReplicaFailure", "True", "FailedCreate")
	resume := "Deployment shop/web is paused, until kubectl rollout resume -n shop deployment/web lets it go on"
	timedOut := "Deployment shop/web made no progress within its deadline: see the conditions of the Deployment"
	cases := map[string]struct {
		obj  *appsv1.Deployment
		want Verdict
	}{
		"all pods updated and available": {
			obj:  deployment(new(int32(3)), all, condition("Progressing", "True", "NewReplicaSetAvailable")),
			want: Verdict{"Healthy", "Reconciled", "Deployment shop/web runs as declared"},
		},
		"terminating pods do not count": {
			obj:  deployment(new(int32(3)), all, func(d *appsv1.Deployment) { d.Status.TerminatingReplicas = new(int32(2)) }),
			want: Verdict{"Healthy", "Reconciled", "Deployment shop/web runs as declared"},
		},
		"no number asked for means one": {
			obj:  deployment(nil, counts{1, 1, 1, 1}),
			want: Verdict{"Healthy", "Reconciled", "Deployment shop/web runs as declared"},
		},
		"no number asked for and none there": {
			obj:  deployment(nil, counts{}),
			want: Verdict{"Progressing", "Progressing", "Deployment shop/web waits for its pods to become ready"},
		},
		"none asked for and none there": {
			obj:  deployment(new(int32(0)), counts{}),
			want: Verdict{"Healthy", "Reconciled", "Deployment shop/web has no pods, as declared"},
		},
		"none asked for and some there": {
			obj:  deployment(new(int32(0)), counts{2, 1, 2, 2}),
			want: Verdict{"Progressing", "Progressing", "Deployment shop/web waits for its pods to end"},
		},
		"scaled down, not there yet": {
			obj:  deployment(new(int32(2)), all),
			want: Verdict{"Progressing", "Progressing", "Deployment shop/web waits for its pods to become ready"},
		},
		"new pods missing": {
			obj:  deployment(new(int32(3)), counts{3, 1, 3, 3}),
			want: Verdict{"Progressing", "Progressing", "Deployment shop/web waits for its pods to become ready"},
		},
		"all new pods there and an old one left": {
			obj:  deployment(new(int32(3)), counts{4, 3, 4, 4}),
			want: Verdict{"Progressing", "Progressing", "Deployment shop/web waits for its pods to become ready"},
		},
		"new pods not available": {
			obj:  deployment(new(int32(3)), counts{3, 3, 3, 2}),
			want: Verdict{"Progressing", "Progressing", "Deployment shop/web waits for its pods to become ready"},
		},
		"a pod of a completed rollout became unavailable": {
			obj:  deployment(new(int32(3)), counts{3, 3, 2, 2}, condition("Progressing", "True", "NewReplicaSetAvailable")),
			want: Verdict{"Progressing", "Progressing", "Deployment shop/web waits for its pods to become ready"},
		},
		"counts that contradict each other are not green": {
			obj:  deployment(new(int32(3)), counts{2, 3, 3, 3}),
			want: Verdict{"Progressing", "Progressing", "Deployment shop/web waits for its pods to become ready"},
		},
		"change not seen by its controller": {
			obj:  deployment(new(int32(3)), all, unseen),
			want: Verdict{"Progressing", "Progressing", "Deployment shop/web waits for its pods to become ready"},
		},
		"an old failure says nothing about a change not seen": {
			obj:  deployment(new(int32(3)), all, unseen, overdue),
			want: Verdict{"Progressing", "Progressing", "Deployment shop/web waits for its pods to become ready"},
		},
		"being deleted": {
			obj:  deployment(new(int32(3)), all, deleting),
			want: Verdict{"Progressing", "Progressing", "Deployment shop/web is being deleted"},
		},
		"paused": {
			obj:  deployment(new(int32(3)), all, paused),
			want: Verdict{"Suspended", "Suspended", resume},
		},
		"paused and not seen": {
			obj:  deployment(new(int32(3)), counts{}, paused, unseen),
			want: Verdict{"Suspended", "Suspended", resume},
		},
		"deadline exceeded": {
			obj:  deployment(new(int32(3)), counts{4, 1, 3, 3}, overdue),
			want: Verdict{"Degraded", "RolloutTimedOut", timedOut},
		},
		"pods refused": {
			obj: deployment(new(int32(3)), counts{}, condition("Progressing", "True", "ReplicaSetUpdated"), saying(refused, "")),
			want: Verdict{"Degraded", "ComponentDegraded",
				"Deployment shop/web cannot create its pods: see the condition ReplicaFailure of the Deployment"},
		},
		"pods are refused": {
			obj: deployment(new(int32(3)), counts{}, saying(refused,
				`pods "web-6d5f8b7c9-x2x4z" is forbidden: exceeded quota: small, requested: pods=1, used: pods=3, limited: pods=3`)),
			want: Verdict{"Degraded", "ComponentDegraded", "Deployment shop/web cannot create its pods: see the condition ReplicaFailure of the Deployment"},
		},
		"pods were refused once": {
			obj:  deployment(new(int32(3)), all, condition("ReplicaFailure", "False", "")),
			want: Verdict{"Healthy", "Reconciled", "Deployment shop/web runs as declared"},
		},
		"pods refused and deadline exceeded": {
			obj:  deployment(new(int32(3)), counts{}, refused, overdue),
			want: Verdict{"Degraded", "RolloutTimedOut", timedOut},
		},
		"no ReplicaSet": {
			obj: deployment(new(int32(3)), counts{}, condition("Progressing", "False", "ReplicaSetCreateError")),
			want: Verdict{"Degraded", "ComponentDegraded",
				"Deployment shop/web cannot go on: see the condition Progressing of the Deployment"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := tc.obj.DeepCopy()
			if diff := cmp.Diff(tc.want, Of(tc.obj)); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, tc.obj); diff != "" {
				t.Errorf("the object was changed (-before +after):\n%s", diff)
			}
		})
	}
}

func TestOfService(t *testing.T) {
	service := func(change func(*corev1.Service)) *corev1.Service {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
		change(s)
		return s
	}
	cases := map[string]struct {
		change func(*corev1.Service)
		want   Verdict
	}{
		"inside the cluster": {
			change: func(s *corev1.Service) { s.Spec.Type = "ClusterIP" },
			want:   Verdict{"Healthy", "Reconciled", "Service shop/web is set up"},
		},
		"load balancer without an address": {
			change: func(s *corev1.Service) { s.Spec.Type = "LoadBalancer" },
			want:   Verdict{"Progressing", "Progressing", "Service shop/web waits for an address from the load balancer"},
		},
		"load balancer with an address": {
			change: func(s *corev1.Service) {
				s.Spec.Type = "LoadBalancer"
				s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{Hostname: "lb.example.com"}}
			},
			want: Verdict{"Healthy", "Reconciled", "Service shop/web is set up"},
		},
		"being deleted": {
			change: func(s *corev1.Service) { s.DeletionTimestamp = new(metav1.Now()) },
			want:   Verdict{"Progressing", "Progressing", "Service shop/web is being deleted"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Of(service(tc.change))); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOfPod(t *testing.T) {
	pod := func(phase corev1.PodPhase, ready corev1.ConditionStatus) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1"},
			Status: corev1.PodStatus{Phase: phase, Conditions: []corev1.PodCondition{
				{Type: "PodScheduled", Status: "True"}, {Type: "Ready", Status: ready},
			}},
		}
	}
	gone := pod("Running", "True")
	gone.DeletionTimestamp = new(metav1.Now())
	cases := map[string]struct {
		obj  *corev1.Pod
		want Verdict
	}{
		"ready":                       {pod("Running", "True"), Verdict{"Healthy", "Reconciled", "Pod shop/web-1 is ready"}},
		"not ready":                   {pod("Running", "False"), Verdict{"Progressing", "Progressing", "Pod shop/web-1 is not ready yet"}},
		"pending":                     {pod("Pending", "False"), Verdict{"Progressing", "Progressing", "Pod shop/web-1 is not ready yet"}},
		"being deleted while ready":   {gone, Verdict{"Progressing", "Progressing", "Pod shop/web-1 is being deleted"}},
		"failed":                      {pod("Failed", "False"), Verdict{"Degraded", "ComponentDegraded", "Pod shop/web-1 has failed"}},
		"succeeded":                   {pod("Succeeded", "False"), Verdict{"Healthy", "Reconciled", "Pod shop/web-1 has done its work"}},
		"node lost":                   {pod("Unknown", "Unknown"), Verdict{"Unknown", "InternalError", "Pod shop/web-1 is on a node that does not report"}},
		"node lost while it was fine": {pod("Unknown", "True"), Verdict{"Unknown", "InternalError", "Pod shop/web-1 is on a node that does not report"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Of(tc.obj)); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
		})
	}
}

// plain is an object that is neither a pointer nor has a name.
type plain struct{}

func (plain) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }
func (p plain) DeepCopyObject() runtime.Object { return p }

func TestOfAnythingElse(t *testing.T) {
	certificate := &unstructured.Unstructured{Object: map[string]any{
		"kind": "Certificate", "metadata": map[string]any{"namespace": "shop", "name": "web"},
	}}
	nothing := "There is no object, so nothing is known about its health"
	cases := map[string]struct {
		obj         runtime.Object
		wantMessage string
	}{
		"nothing":               {nil, nothing},
		"no Deployment":         {(*appsv1.Deployment)(nil), nothing},
		"no Job":                {(*batchv1.Job)(nil), nothing},
		"no CronJob":            {(*batchv1.CronJob)(nil), nothing},
		"no Service":            {(*corev1.Service)(nil), nothing},
		"no Pod":                {(*corev1.Pod)(nil), nothing},
		"no Secret":             {(*corev1.Secret)(nil), nothing},
		"a kind without rules":  {&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}, "Secret shop/web is of a kind whose health cannot be judged"},
		"outside of namespaces": {&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, "Node n1 is of a kind whose health cannot be judged"},
		"a kind of others":      {certificate, "Certificate shop/web is of a kind whose health cannot be judged"},
		"a list":                {&corev1.PodList{}, "PodList is of a kind whose health cannot be judged"},
		"not a pointer":         {plain{}, "plain is of a kind whose health cannot be judged"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(Verdict{"Unknown", "InternalError", tc.wantMessage}, Of(tc.obj)); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWorst(t *testing.T) {
	v := func(s Status, message string) Verdict { return Verdict{Status: s, Message: message} }
	ladder := []Verdict{v("Degraded", "a"), v("Unknown", "b"), v("Progressing", "c"), v("Suspended", "d"), v("Healthy", "e")}
	cases := map[string]struct {
		verdicts []Verdict
		want     Verdict
	}{
		"none":                        {nil, Verdict{"Unknown", "InternalError", "Nothing was found where something should be"}},
		"one":                         {ladder[4:], v("Healthy", "e")},
		"first of equals":             {[]Verdict{v("Healthy", "0"), v("Degraded", "1"), v("Degraded", "2")}, v("Degraded", "1")},
		"broken before not known":     {ladder, v("Degraded", "a")},
		"not known before on its way": {ladder[1:], v("Unknown", "b")},
		"on its way before held":      {ladder[2:], v("Progressing", "c")},
		"held before healthy":         {ladder[3:], v("Suspended", "d")},
		"never filled in":             {[]Verdict{v("Healthy", "e"), {}}, Verdict{Status: "Unknown", Reason: "InternalError"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Worst(tc.verdicts...)); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
			shuffled := append([]Verdict(nil), tc.verdicts...)
			rand.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
			if got := Worst(shuffled...).Status; got != tc.want.Status {
				t.Errorf("in another order: %s, want %s", got, tc.want.Status)
			}
		})
	}
}

// TestAsked tells a change of ours that was not seen yet from one that is no concern.
func TestAsked(t *testing.T) {
	fine := deployment(new(int32(3)), counts{3, 3, 3, 3}, unseen)
	fine.Generation, fine.Status.ObservedGeneration = 7, 6
	cases := map[string]struct {
		obj   runtime.Object
		asked int64
		want  Status
	}{
		"an annotation of somebody else": {fine, 6, Healthy},
		"a change of ours":               {fine, 7, Progressing},
		"not known":                      {fine, 0, Progressing},
		"no such thing":                  {(*appsv1.Deployment)(nil), 6, Unknown},
		"another kind":                   {&corev1.Service{}, 6, Healthy},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := Asked(tc.obj, tc.asked); got.Status != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
	if fine.Generation != 7 {
		t.Error("the object was changed")
	}
}

func TestMoves(t *testing.T) {
	base := func() *appsv1.Deployment { return deployment(new(int32(3)), counts{3, 3, 3, 3}) }
	cases := map[string]struct {
		change func(*appsv1.Deployment)
		want   bool
	}{
		"nothing":   {func(*appsv1.Deployment) {}, false},
		"metadata":  {func(d *appsv1.Deployment) { d.Annotations = map[string]string{"a": "b"}; d.Generation++ }, false},
		"strategy":  {func(d *appsv1.Deployment) { d.Spec.Strategy.Type = "Recreate" }, false},
		"replicas":  {func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(2)) }, true},
		"template":  {func(d *appsv1.Deployment) { d.Spec.Template.Labels = map[string]string{"a": "b"} }, true},
		"ready for": {func(d *appsv1.Deployment) { d.Spec.MinReadySeconds = 3 }, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			after := base()
			tc.change(after)
			if got := Moves(base(), after); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
	if !Moves(&corev1.Service{}, &corev1.Service{}) {
		t.Error("of other kinds nothing is known")
	}
}

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

// counts are the replica counts in a status.
type counts struct{ replicas, updated, ready, available int32 }

// deployment returns a Deployment with this status for its current generation.
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

func paused(d *appsv1.Deployment)     { d.Spec.Paused = true }
func unobserved(d *appsv1.Deployment) { d.Status.ObservedGeneration = 3 }
func deleting(d *appsv1.Deployment)   { d.DeletionTimestamp = new(metav1.Now()) }

// withMessage adds a condition with another message.
func withMessage(add func(*appsv1.Deployment), message string) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) {
		add(d)
		d.Status.Conditions[len(d.Status.Conditions)-1].Message = message
	}
}

func withCondition(kind appsv1.DeploymentConditionType, status corev1.ConditionStatus, reason string) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) {
		d.Status.Conditions = append(d.Status.Conditions, appsv1.DeploymentCondition{
			Type: kind, Status: status, Reason: reason, Message: `ReplicaSet "web-7d9" has 3 of 5 pods`})
	}
}

func TestDeploymentHealth(t *testing.T) {
	all := counts{3, 3, 3, 3}
	deadlineExceeded := withCondition("Progressing", "False", "ProgressDeadlineExceeded")
	replicaFailure := withCondition("ReplicaFailure", "True", "FailedCreate")
	resume := "Deployment shop/web is paused; to resume: kubectl rollout resume -n shop deployment/web"
	timedOut := "Deployment shop/web made no progress within its progress deadline: see the conditions of the Deployment"
	cases := map[string]struct {
		obj  *appsv1.Deployment
		want Result
	}{
		"all pods updated and available": {
			obj:  deployment(new(int32(3)), all, withCondition("Progressing", "True", "NewReplicaSetAvailable")),
			want: Result{"Healthy", "Reconciled", "Deployment shop/web runs as declared"},
		},
		"terminating pods do not count": {
			obj:  deployment(new(int32(3)), all, func(d *appsv1.Deployment) { d.Status.TerminatingReplicas = new(int32(2)) }),
			want: Result{"Healthy", "Reconciled", "Deployment shop/web runs as declared"},
		},
		"replicas unset, one pod": {
			obj:  deployment(nil, counts{1, 1, 1, 1}),
			want: Result{"Healthy", "Reconciled", "Deployment shop/web runs as declared"},
		},
		"replicas unset, no pod": {
			obj:  deployment(nil, counts{}),
			want: Result{"Progressing", "Progressing", "Deployment shop/web waits for its pods to become ready"},
		},
		"scaled to zero": {
			obj:  deployment(new(int32(0)), counts{}),
			want: Result{"Healthy", "Reconciled", "Deployment shop/web has no pods, as declared"},
		},
		"scaled to zero, pods left": {
			obj:  deployment(new(int32(0)), counts{2, 1, 2, 2}),
			want: Result{"Progressing", "Progressing", "Deployment shop/web waits for its pods to terminate"},
		},
		"scaled down, pods left": {
			obj:  deployment(new(int32(2)), all),
			want: Result{"Progressing", "Progressing", "Deployment shop/web waits for its pods to become ready"},
		},
		"new pods missing": {
			obj:  deployment(new(int32(3)), counts{3, 1, 3, 3}),
			want: Result{"Progressing", "Progressing", "Deployment shop/web waits for its pods to become ready"},
		},
		"all new pods and an old one": {
			obj:  deployment(new(int32(3)), counts{4, 3, 4, 4}),
			want: Result{"Progressing", "Progressing", "Deployment shop/web waits for its pods to become ready"},
		},
		"new pods not available": {
			obj:  deployment(new(int32(3)), counts{3, 3, 3, 2}),
			want: Result{"Progressing", "Progressing", "Deployment shop/web waits for its pods to become ready"},
		},
		"pod became unavailable after the rollout": {
			obj:  deployment(new(int32(3)), counts{3, 3, 2, 2}, withCondition("Progressing", "True", "NewReplicaSetAvailable")),
			want: Result{"Progressing", "Progressing", "Deployment shop/web waits for its pods to become ready"},
		},
		"inconsistent counts are not healthy": {
			obj:  deployment(new(int32(3)), counts{2, 3, 3, 3}),
			want: Result{"Progressing", "Progressing", "Deployment shop/web waits for its pods to become ready"},
		},
		"change not observed": {
			obj:  deployment(new(int32(3)), all, unobserved),
			want: Result{"Progressing", "Progressing", "Deployment shop/web waits for its pods to become ready"},
		},
		"old failure is ignored if the change is not observed": {
			obj:  deployment(new(int32(3)), all, unobserved, deadlineExceeded),
			want: Result{"Progressing", "Progressing", "Deployment shop/web waits for its pods to become ready"},
		},
		"being deleted": {
			obj:  deployment(new(int32(3)), all, deleting),
			want: Result{"Progressing", "Progressing", "Deployment shop/web is being deleted"},
		},
		"paused": {
			obj:  deployment(new(int32(3)), all, paused),
			want: Result{"Suspended", "Suspended", resume},
		},
		"paused, change not observed": {
			obj:  deployment(new(int32(3)), counts{}, paused, unobserved),
			want: Result{"Suspended", "Suspended", resume},
		},
		"deadline exceeded": {
			obj:  deployment(new(int32(3)), counts{4, 1, 3, 3}, deadlineExceeded),
			want: Result{"Degraded", "RolloutTimedOut", timedOut},
		},
		"pods rejected, no message": {
			obj: deployment(new(int32(3)), counts{}, withCondition("Progressing", "True", "ReplicaSetUpdated"), withMessage(replicaFailure, "")),
			want: Result{"Degraded", "ComponentDegraded",
				"Deployment shop/web cannot create its pods: see condition ReplicaFailure of the Deployment"},
		},
		"pods rejected": {
			obj: deployment(new(int32(3)), counts{}, withMessage(replicaFailure,
				`pods "web-6d5f8b7c9-x2x4z" is forbidden: exceeded quota: small, requested: pods=1, used: pods=3, limited: pods=3`)),
			want: Result{"Degraded", "ComponentDegraded",
				"Deployment shop/web cannot create its pods: see condition ReplicaFailure of the Deployment"},
		},
		"pods were rejected earlier": {
			obj:  deployment(new(int32(3)), all, withCondition("ReplicaFailure", "False", "")),
			want: Result{"Healthy", "Reconciled", "Deployment shop/web runs as declared"},
		},
		"pods rejected and deadline exceeded": {
			obj:  deployment(new(int32(3)), counts{}, replicaFailure, deadlineExceeded),
			want: Result{"Degraded", "RolloutTimedOut", timedOut},
		},
		"no ReplicaSet": {
			obj: deployment(new(int32(3)), counts{}, withCondition("Progressing", "False", "ReplicaSetCreateError")),
			want: Result{"Degraded", "ComponentDegraded",
				"Deployment shop/web cannot make progress: see condition Progressing of the Deployment"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := tc.obj.DeepCopy()
			if diff := cmp.Diff(tc.want, Evaluate(tc.obj)); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, tc.obj); diff != "" {
				t.Errorf("the object was changed (-before +after):\n%s", diff)
			}
		})
	}
}

func TestServiceHealth(t *testing.T) {
	service := func(change func(*corev1.Service)) *corev1.Service {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
		change(s)
		return s
	}
	cases := map[string]struct {
		change func(*corev1.Service)
		want   Result
	}{
		"ClusterIP": {
			change: func(s *corev1.Service) { s.Spec.Type = "ClusterIP" },
			want:   Result{"Healthy", "Reconciled", "Service shop/web is set up"},
		},
		"load balancer without an address": {
			change: func(s *corev1.Service) { s.Spec.Type = "LoadBalancer" },
			want:   Result{"Progressing", "Progressing", "Service shop/web waits for a load balancer address"},
		},
		"load balancer with an address": {
			change: func(s *corev1.Service) {
				s.Spec.Type = "LoadBalancer"
				s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{Hostname: "lb.example.com"}}
			},
			want: Result{"Healthy", "Reconciled", "Service shop/web is set up"},
		},
		"being deleted": {
			change: func(s *corev1.Service) { s.DeletionTimestamp = new(metav1.Now()) },
			want:   Result{"Progressing", "Progressing", "Service shop/web is being deleted"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Evaluate(service(tc.change))); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPodHealth(t *testing.T) {
	pod := func(phase corev1.PodPhase, ready corev1.ConditionStatus) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1"},
			Status: corev1.PodStatus{Phase: phase, Conditions: []corev1.PodCondition{
				{Type: "PodScheduled", Status: "True"}, {Type: "Ready", Status: ready},
			}},
		}
	}
	deletingPod := pod("Running", "True")
	deletingPod.DeletionTimestamp = new(metav1.Now())
	cases := map[string]struct {
		obj  *corev1.Pod
		want Result
	}{
		"ready":                     {pod("Running", "True"), Result{"Healthy", "Reconciled", "Pod shop/web-1 is ready"}},
		"not ready":                 {pod("Running", "False"), Result{"Progressing", "Progressing", "Pod shop/web-1 is not ready yet"}},
		"pending":                   {pod("Pending", "False"), Result{"Progressing", "Progressing", "Pod shop/web-1 is not ready yet"}},
		"being deleted while ready": {deletingPod, Result{"Progressing", "Progressing", "Pod shop/web-1 is being deleted"}},
		"failed":                    {pod("Failed", "False"), Result{"Degraded", "ComponentDegraded", "Pod shop/web-1 has failed"}},
		"succeeded":                 {pod("Succeeded", "False"), Result{"Healthy", "Reconciled", "Pod shop/web-1 has completed"}},
		"node lost":                 {pod("Unknown", "Unknown"), Result{"Unknown", "InternalError", "Pod shop/web-1 is on an unreachable node"}},
		"node lost while ready":     {pod("Unknown", "True"), Result{"Unknown", "InternalError", "Pod shop/web-1 is on an unreachable node"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Evaluate(tc.obj)); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
		})
	}
}

// plain is an object that is not a pointer and has no name.
type plain struct{}

func (plain) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }
func (p plain) DeepCopyObject() runtime.Object { return p }

func TestUnknownKinds(t *testing.T) {
	certificate := &unstructured.Unstructured{Object: map[string]any{
		"kind": "Certificate", "metadata": map[string]any{"namespace": "shop", "name": "web"},
	}}
	nothing := "The object does not exist, so its health is unknown"
	cases := map[string]struct {
		obj         runtime.Object
		wantMessage string
	}{
		"nil":            {nil, nothing},
		"nil Deployment": {(*appsv1.Deployment)(nil), nothing},
		"nil Job":        {(*batchv1.Job)(nil), nothing},
		"nil CronJob":    {(*batchv1.CronJob)(nil), nothing},
		"nil Service":    {(*corev1.Service)(nil), nothing},
		"nil Pod":        {(*corev1.Pod)(nil), nothing},
		"nil Secret":     {(*corev1.Secret)(nil), nothing},
		"kind without rules": {&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}},
			"Secret shop/web is of a kind without health rules"},
		"cluster-scoped":  {&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, "Node n1 is of a kind without health rules"},
		"custom resource": {certificate, "Certificate shop/web is of a kind without health rules"},
		"list":            {&corev1.PodList{}, "PodList is of a kind without health rules"},
		"not a pointer":   {plain{}, "plain is of a kind without health rules"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(Result{"Unknown", "InternalError", tc.wantMessage}, Evaluate(tc.obj)); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWorst(t *testing.T) {
	v := func(s Status, message string) Result { return Result{Status: s, Message: message} }
	ladder := []Result{v("Degraded", "a"), v("Unknown", "b"), v("Progressing", "c"), v("Suspended", "d"), v("Healthy", "e")}
	cases := map[string]struct {
		results []Result
		want    Result
	}{
		"none":                         {nil, Result{"Unknown", "InternalError", "No objects found, so the health is unknown"}},
		"one":                          {ladder[4:], v("Healthy", "e")},
		"first of equals":              {[]Result{v("Healthy", "0"), v("Degraded", "1"), v("Degraded", "2")}, v("Degraded", "1")},
		"degraded before unknown":      {ladder, v("Degraded", "a")},
		"unknown before progressing":   {ladder[1:], v("Unknown", "b")},
		"progressing before suspended": {ladder[2:], v("Progressing", "c")},
		"suspended before healthy":     {ladder[3:], v("Suspended", "d")},
		"empty result":                 {[]Result{v("Healthy", "e"), {}}, Result{Status: "Unknown", Reason: "InternalError"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Worst(tc.results...)); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
			shuffled := append([]Result(nil), tc.results...)
			rand.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
			if got := Worst(shuffled...).Status; got != tc.want.Status {
				t.Errorf("in another order: %s, want %s", got, tc.want.Status)
			}
		})
	}
}

// TestEvaluateAtGeneration covers unobserved generations that do and do not change the pods.
func TestEvaluateAtGeneration(t *testing.T) {
	fine := deployment(new(int32(3)), counts{3, 3, 3, 3}, unobserved)
	fine.Generation, fine.Status.ObservedGeneration = 7, 6
	cases := map[string]struct {
		obj        runtime.Object
		generation int64
		want       Status
	}{
		"annotation of another manager": {fine, 6, Healthy},
		"unobserved change":             {fine, 7, Progressing},
		"unknown generation":            {fine, 0, Progressing},
		"nil Deployment":                {(*appsv1.Deployment)(nil), 6, Unknown},
		"another kind":                  {&corev1.Service{}, 6, Healthy},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := EvaluateAtGeneration(tc.obj, tc.generation); got.Status != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
	if fine.Generation != 7 {
		t.Error("the object was changed")
	}
}

func TestAffectsPods(t *testing.T) {
	base := func() *appsv1.Deployment { return deployment(new(int32(3)), counts{3, 3, 3, 3}) }
	cases := map[string]struct {
		change func(*appsv1.Deployment)
		want   bool
	}{
		"nothing":         {func(*appsv1.Deployment) {}, false},
		"metadata":        {func(d *appsv1.Deployment) { d.Annotations = map[string]string{"a": "b"}; d.Generation++ }, false},
		"strategy":        {func(d *appsv1.Deployment) { d.Spec.Strategy.Type = "Recreate" }, false},
		"replicas":        {func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(2)) }, true},
		"template":        {func(d *appsv1.Deployment) { d.Spec.Template.Labels = map[string]string{"a": "b"} }, true},
		"minReadySeconds": {func(d *appsv1.Deployment) { d.Spec.MinReadySeconds = 3 }, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			after := base()
			tc.change(after)
			if got := AffectsPods(base(), after); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
	if !AffectsPods(&corev1.Service{}, &corev1.Service{}) {
		t.Error("got false for other kinds, want true")
	}
}

func TestChildrenThatDoNotExist(t *testing.T) {
	if got := Missing("Service", "web"); got != (Result{"Progressing", "Progressing", "Service web does not exist"}) {
		t.Errorf("a missing child: %v", got)
	}
	if got := NotCreated(); got != (Result{"Progressing", "InvalidSpec", "Not created: the spec is invalid"}) {
		t.Errorf("with an invalid spec: %v", got)
	}
}

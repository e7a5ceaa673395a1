package health

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// setOf returns a StatefulSet whose controller has observed its spec and reports counts.
func setOf(want *int32, c counts, changes ...func(*appsv1.StatefulSet)) *appsv1.StatefulSet {
	s := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db", Generation: 4},
		Spec:       appsv1.StatefulSetSpec{Replicas: want},
		Status: appsv1.StatefulSetStatus{
			ObservedGeneration: 4,
			Replicas:           c.replicas, UpdatedReplicas: c.updated, ReadyReplicas: c.ready, AvailableReplicas: c.available,
		},
	}
	for _, change := range changes {
		change(s)
	}
	return s
}

func unobservedSet(s *appsv1.StatefulSet) { s.Status.ObservedGeneration = 3 }
func deletingSet(s *appsv1.StatefulSet)   { s.DeletionTimestamp = new(metav1.Now()) }

func TestStatefulSetHealth(t *testing.T) {
	all := counts{3, 3, 3, 3}
	ready := Result{"Healthy", "Reconciled", "StatefulSet shop/db runs as declared"}
	waiting := Result{"Progressing", "Progressing", "StatefulSet shop/db waits for its pods to become ready"}
	scalingToZero := Result{"Progressing", "Progressing", "StatefulSet shop/db waits for its pods to terminate"}
	cases := map[string]struct {
		obj  *appsv1.StatefulSet
		want Result
	}{
		"all pods updated and available":        {setOf(new(int32(3)), all), ready},
		"a pod of the old revision":             {setOf(new(int32(3)), counts{3, 2, 3, 3}), waiting},
		"a pod that is ready but not available": {setOf(new(int32(3)), counts{3, 3, 3, 2}), waiting},
		"more pods than declared":               {setOf(new(int32(2)), counts{3, 2, 2, 2}), waiting},
		"replicas unset, one pod":               {setOf(nil, counts{1, 1, 1, 1}), ready},
		"replicas unset, no pod":                {setOf(nil, counts{}), waiting},
		"change not observed":                   {setOf(new(int32(3)), all, unobservedSet), waiting},
		"being deleted": {setOf(new(int32(3)), all, deletingSet),
			Result{"Progressing", "Progressing", "StatefulSet shop/db is being deleted"}},
		"scaled to zero": {setOf(new(int32(0)), counts{}),
			Result{"Healthy", "Reconciled", "StatefulSet shop/db has no pods, as declared"}},
		"scaled to zero, a pod left":          {setOf(new(int32(0)), counts{1, 1, 1, 1}), scalingToZero},
		"scaled to zero, change not observed": {setOf(new(int32(0)), counts{}, unobservedSet), scalingToZero},
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

// TestEvaluateStatefulSetAtGeneration uses a set at generation 4 whose controller has observed generation 3.
func TestEvaluateStatefulSetAtGeneration(t *testing.T) {
	ready := Result{"Healthy", "Reconciled", "StatefulSet shop/db runs as declared"}
	waiting := Result{"Progressing", "Progressing", "StatefulSet shop/db waits for its pods to become ready"}
	available := setOf(new(int32(3)), counts{3, 3, 3, 3}, unobservedSet)
	aheadOfCache := setOf(new(int32(3)), counts{3, 3, 3, 3}, func(s *appsv1.StatefulSet) { s.Status.ObservedGeneration = 5 })
	cases := map[string]struct {
		obj        *appsv1.StatefulSet
		generation int64
		want       Result
	}{
		"the desired generation is observed":     {available, 3, ready},
		"an older generation is desired":         {available, 2, ready},
		"the desired generation is not observed": {available, 4, waiting},
		"the desired generation is not known":    {available, 0, waiting},
		"a pod is missing":                       {setOf(new(int32(3)), counts{2, 2, 2, 2}, unobservedSet), 3, waiting},
		"observed a later generation":            {aheadOfCache, 4, ready},
		"no StatefulSet": {nil, 3,
			Result{"Unknown", "InternalError", "The object does not exist, so its health is unknown"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := tc.obj.DeepCopy()
			if diff := cmp.Diff(tc.want, EvaluateAtGeneration(tc.obj, tc.generation)); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, tc.obj); diff != "" {
				t.Errorf("the object was changed (-before +after):\n%s", diff)
			}
		})
	}
}

func TestStatefulSetChangeAffectsPods(t *testing.T) {
	base := func() *appsv1.StatefulSet { return setOf(new(int32(1)), counts{1, 1, 1, 1}) }
	cases := map[string]struct {
		change func(*appsv1.StatefulSet)
		want   bool
	}{
		"none":             {func(*appsv1.StatefulSet) {}, false},
		"annotation":       {func(s *appsv1.StatefulSet) { s.Annotations = map[string]string{"a": "b"}; s.Generation++ }, false},
		"update strategy":  {func(s *appsv1.StatefulSet) { s.Spec.UpdateStrategy = partitioned(1) }, false},
		"status":           {func(s *appsv1.StatefulSet) { s.Status.ReadyReplicas = 0 }, false},
		"default replicas": {func(s *appsv1.StatefulSet) { s.Spec.Replicas = nil }, false},
		"replicas":         {func(s *appsv1.StatefulSet) { s.Spec.Replicas = new(int32(2)) }, true},
		"minReadySeconds":  {func(s *appsv1.StatefulSet) { s.Spec.MinReadySeconds = 3 }, true},
		"pod template":     {func(s *appsv1.StatefulSet) { s.Spec.Template.Labels = map[string]string{"a": "b"} }, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			after := base()
			tc.change(after)
			if got := AffectsPods(base(), after); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}

func TestAffectsPodsComparesObjectsOfOneKind(t *testing.T) {
	service := &corev1.Service{}
	cases := map[string]struct {
		before, after runtime.Object
		want          bool
	}{
		"the same object":             {service, service, false},
		"StatefulSet to Deployment":   {setOf(nil, counts{}), deployment(nil, counts{}), true},
		"Deployment to StatefulSet":   {deployment(nil, counts{}), setOf(nil, counts{}), true},
		"a kind that is not compared": {service, &corev1.Service{}, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := AffectsPods(tc.before, tc.after); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}

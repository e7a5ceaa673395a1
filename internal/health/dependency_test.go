package health

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestSatisfied(t *testing.T) {
	cases := map[string]struct {
		obj  runtime.Object
		want bool
	}{
		"nil":                                    {nil, false},
		"nil Deployment":                         {(*appsv1.Deployment)(nil), false},
		"nil Job":                                {(*batchv1.Job)(nil), false},
		"nil CronJob":                            {(*batchv1.CronJob)(nil), false},
		"another kind":                           {&corev1.Service{}, false},
		"not a pointer":                          {plain{}, false},
		"the only pod is ready":                  {deployment(nil, counts{1, 1, 1, 1}), true},
		"the only pod is not ready":              {deployment(nil, counts{1, 1, 0, 0}), false},
		"two of three":                           {deployment(new(int32(3)), counts{3, 3, 2, 0}, probed), true},
		"two of three without a probe":           {deployment(new(int32(3)), counts{3, 3, 2, 1}), false},
		"two of three settled":                   {deployment(new(int32(3)), counts{3, 3, 3, 2}), true},
		"set without a probe":                    {setOf(new(int32(3)), counts{3, 3, 3, 1}), false},
		"one of three":                           {deployment(new(int32(3)), counts{3, 3, 1, 1}), false},
		"half is not a majority":                 {deployment(new(int32(4)), counts{4, 4, 2, 2}), false},
		"three of four":                          {deployment(new(int32(4)), counts{4, 4, 3, 3}), true},
		"all ready, all old":                     {deployment(new(int32(3)), counts{3, 0, 3, 3}), false},
		"the unready pod can be a new one":       {deployment(new(int32(3)), counts{4, 2, 3, 3}), false},
		"two new pods and an old one are ready":  {deployment(new(int32(3)), counts{3, 2, 3, 3}), true},
		"ready, change not observed":             {deployment(new(int32(3)), counts{3, 3, 3, 3}, unobserved), false},
		"ready, but being deleted":               {deployment(new(int32(3)), counts{3, 3, 3, 3}, deleting), false},
		"no replicas":                            {deployment(new(int32(0)), counts{}), true},
		"no replicas, one pod left":              {deployment(new(int32(0)), counts{1, 0, 0, 0}), true},
		"no replicas, change not observed":       {deployment(new(int32(0)), counts{}, unobserved), false},
		"no replicas, being deleted":             {deployment(new(int32(0)), counts{}, deleting), false},
		"nil StatefulSet":                        {(*appsv1.StatefulSet)(nil), false},
		"two of three pods of a set":             {setOf(new(int32(3)), counts{3, 3, 2, 2}), true},
		"one of three pods of a set":             {setOf(new(int32(3)), counts{3, 3, 1, 1}), false},
		"the only pod of a set without replicas": {setOf(nil, counts{1, 1, 1, 1}), true},
		"a ready set, change not observed":       {setOf(new(int32(3)), counts{3, 3, 3, 3}, unobservedSet), false},
		"a ready set, but being deleted":         {setOf(new(int32(3)), counts{3, 3, 3, 3}, deletingSet), false},
		"completed job":                          {job(withJobCondition("Complete", "True", "")), true},
		"completed job, being deleted":           {job(withJobCondition("Complete", "True", ""), jobDeleting), false},
		"job that has not completed":             {job(withJobCondition("Complete", "False", "")), false},
		"job with SuccessCriteriaMet":            {job(withJobCondition("SuccessCriteriaMet", "True", "CompletionsReached")), false},
		"failed job":                             {job(withJobCondition("Failed", "True", "BackoffLimitExceeded")), false},
		"new job":                                {job(), false},
		"CronJob":                                {cronJob(), true},
		"suspended CronJob":                      {cronJob(func(j *batchv1.CronJob) { j.Spec.Suspend = new(true) }), true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := Satisfied(tc.obj); got != tc.want {
				t.Errorf("satisfied: %t, want %t", got, tc.want)
			}
		})
	}
}

func TestRolledOut(t *testing.T) {
	terminating := func(d *appsv1.Deployment) { d.Status.TerminatingReplicas = new(int32(2)) }
	cases := map[string]struct {
		obj  runtime.Object
		want bool
	}{
		"nil":                                {nil, false},
		"nil Deployment":                     {(*appsv1.Deployment)(nil), false},
		"nil Job":                            {(*batchv1.Job)(nil), false},
		"nil CronJob":                        {(*batchv1.CronJob)(nil), false},
		"another kind":                       {&corev1.Service{}, false},
		"not a pointer":                      {plain{}, false},
		"all pods are new":                   {deployment(new(int32(3)), counts{3, 3, 3, 3}), true},
		"all pods are new, none ready":       {deployment(new(int32(3)), counts{3, 3, 0, 0}), true},
		"some new pods are missing":          {deployment(new(int32(3)), counts{1, 1, 1, 1}), true},
		"no pods":                            {deployment(new(int32(0)), counts{}), true},
		"an old pod is left":                 {deployment(new(int32(3)), counts{4, 3, 4, 4}), false},
		"only old pods":                      {deployment(new(int32(3)), counts{3, 0, 3, 3}), false},
		"old pods are terminating":           {deployment(new(int32(3)), counts{3, 3, 3, 3}, terminating), true},
		"all pods new, change not observed":  {deployment(new(int32(3)), counts{3, 3, 3, 3}, unobserved), false},
		"nil StatefulSet":                    {(*appsv1.StatefulSet)(nil), false},
		"a set, all pods updated":            {statefulSet(3, appsv1.StatefulSetUpdateStrategy{}), true},
		"a set, one pod of the old revision": {statefulSet(2, appsv1.StatefulSetUpdateStrategy{}), false},
		"a set with a partition":             {statefulSet(1, partitioned(2)), false},
		"a set, change not observed":         {setOf(new(int32(3)), counts{3, 3, 3, 3}, unobservedSet), false},
		"failed job":                         {job(withJobCondition("Failed", "True", "BackoffLimitExceeded")), true},
		"CronJob":                            {cronJob(), true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := RolledOut(tc.obj); got != tc.want {
				t.Errorf("rolled out: %t, want %t", got, tc.want)
			}
		})
	}
}

func probed(d *appsv1.Deployment) {
	d.Spec.Template.Spec.Containers = []corev1.Container{{ReadinessProbe: &corev1.Probe{}}}
}

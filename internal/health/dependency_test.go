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
		"nothing":                                {nil, false},
		"no Deployment":                          {(*appsv1.Deployment)(nil), false},
		"no Job":                                 {(*batchv1.Job)(nil), false},
		"no CronJob":                             {(*batchv1.CronJob)(nil), false},
		"another kind":                           {&corev1.Service{}, false},
		"not a pointer":                          {plain{}, false},
		"the only pod is ready":                  {deployment(nil, counts{1, 1, 1, 1}), true},
		"the only pod is not ready":              {deployment(nil, counts{1, 1, 0, 0}), false},
		"two of three":                           {deployment(new(int32(3)), counts{3, 3, 2, 0}), true},
		"one of three":                           {deployment(new(int32(3)), counts{3, 3, 1, 1}), false},
		"half is not a majority":                 {deployment(new(int32(4)), counts{4, 4, 2, 2}), false},
		"three of four":                          {deployment(new(int32(4)), counts{4, 4, 3, 3}), true},
		"all ready, all old":                     {deployment(new(int32(3)), counts{3, 0, 3, 3}), false},
		"one new pod might be the one not ready": {deployment(new(int32(3)), counts{4, 2, 3, 3}), false},
		"two new pods are ready beside an old one": {deployment(new(int32(3)), counts{3, 2, 3, 3}), true},
		"ready, but the change was not seen":       {deployment(new(int32(3)), counts{3, 3, 3, 3}, unobserved), false},
		"ready, but being deleted":                 {deployment(new(int32(3)), counts{3, 3, 3, 3}, deleting), false},
		"none asked for":                           {deployment(new(int32(0)), counts{}), true},
		"none asked for, one still there":          {deployment(new(int32(0)), counts{1, 0, 0, 0}), true},
		"none asked for, but not seen":             {deployment(new(int32(0)), counts{}, unobserved), false},
		"none asked for, but being deleted":        {deployment(new(int32(0)), counts{}, deleting), false},
		"no StatefulSet":                           {(*appsv1.StatefulSet)(nil), false},
		"two of three pods of a set":               {setOf(new(int32(3)), counts{3, 3, 2, 2}), true},
		"one of three pods of a set":               {setOf(new(int32(3)), counts{3, 3, 1, 1}), false},
		"the only pod of a set without replicas":   {setOf(nil, counts{1, 1, 1, 1}), true},
		"a ready set, but the change was not seen": {setOf(new(int32(3)), counts{3, 3, 3, 3}, unobservedSet), false},
		"a ready set, but being deleted":           {setOf(new(int32(3)), counts{3, 3, 3, 3}, deletingSet), false},
		"a job that has done its work":             {job(withJobCondition("Complete", "True", "")), true},
		"a job that was done and is deleted":       {job(withJobCondition("Complete", "True", ""), jobDeleting), false},
		"a job that is not done":                   {job(withJobCondition("Complete", "False", "")), false},
		"a job that is almost done":                {job(withJobCondition("SuccessCriteriaMet", "True", "CompletionsReached")), false},
		"a job that failed":                        {job(withJobCondition("Failed", "True", "BackoffLimitExceeded")), false},
		"a job that is new":                        {job(), false},
		"a job on a schedule":                      {cronJob(), true},
		"a job on a schedule that is held":         {cronJob(func(j *batchv1.CronJob) { j.Spec.Suspend = new(true) }), true},
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
		"nothing":                            {nil, false},
		"no Deployment":                      {(*appsv1.Deployment)(nil), false},
		"no Job":                             {(*batchv1.Job)(nil), false},
		"no CronJob":                         {(*batchv1.CronJob)(nil), false},
		"another kind":                       {&corev1.Service{}, false},
		"not a pointer":                      {plain{}, false},
		"all pods are new":                   {deployment(new(int32(3)), counts{3, 3, 3, 3}), true},
		"all pods are new, none ready":       {deployment(new(int32(3)), counts{3, 3, 0, 0}), true},
		"some new pods are still to come":    {deployment(new(int32(3)), counts{1, 1, 1, 1}), true},
		"no pods":                            {deployment(new(int32(0)), counts{}), true},
		"an old pod beside the new":          {deployment(new(int32(3)), counts{4, 3, 4, 4}), false},
		"only old pods":                      {deployment(new(int32(3)), counts{3, 0, 3, 3}), false},
		"old pods on their way out":          {deployment(new(int32(3)), counts{3, 3, 3, 3}, terminating), true},
		"all pods new, change not seen":      {deployment(new(int32(3)), counts{3, 3, 3, 3}, unobserved), false},
		"no StatefulSet":                     {(*appsv1.StatefulSet)(nil), false},
		"a set, all pods updated":            {statefulSet(3, appsv1.StatefulSetUpdateStrategy{}), true},
		"a set, one pod of the old revision": {statefulSet(2, appsv1.StatefulSetUpdateStrategy{}), false},
		"a set, pods kept back by partition": {statefulSet(1, partitioned(2)), false},
		"a set, change not observed":         {setOf(new(int32(3)), counts{3, 3, 3, 3}, unobservedSet), false},
		"a job, whatever it does":            {job(withJobCondition("Failed", "True", "BackoffLimitExceeded")), true},
		"a job on a schedule, at all times":  {cronJob(), true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := RolledOut(tc.obj); got != tc.want {
				t.Errorf("rolled out: %t, want %t", got, tc.want)
			}
		})
	}
}

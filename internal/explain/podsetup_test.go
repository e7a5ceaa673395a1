package explain

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestMissingVolumeSources(t *testing.T) {
	missing := []Ref{{"Secret", "cert"}}
	want := []string{`MissingSecret: Pod web-1 cannot start: a volume shows Secret "cert", which does not exist in namespace shop`}
	for name, tc := range map[string]struct {
		pod     *corev1.Pod
		missing []Ref
		want    []string
	}{
		"nothing is started":            {pod("web-1", waiting("ContainerCreating", "")), missing, want},
		"init containers neither":       {pod("web-1", waiting("PodInitializing", "")), missing, want},
		"nothing is missing":            {pod("web-1", waiting("ContainerCreating", "")), nil, nil},
		"something else is in the way":  {pod("web-1", waiting("ImagePullBackOff", "")), missing, []string{`ImagePull: Image "shop/web:2" cannot be pulled (container app of pod web-1)`}},
		"not on a node":                 {pod("web-1", unscheduled(time.Minute, "Unschedulable", "0/1 nodes are available")), missing, []string{"Unschedulable: No node takes pod web-1"}},
		"it mounted it when it started": {pod("web-1", running(time.Minute)), missing, nil},
	} {
		t.Run(name, func(t *testing.T) {
			for _, p := range []*corev1.Pod{tc.pod, ProjectPod(tc.pod)} {
				var got []string
				for _, c := range diagnoseMissingRefs([]*corev1.Pod{p}, tc.missing) {
					got = append(got, string(c.Code)+": "+c.Message)
				}
				if diff := cmp.Diff(tc.want, got, ignoreAffectedPods); diff != "" {
					t.Errorf("causes (-want +got):\n%s", diff)
				}
			}
		})
	}
}

package rollout

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
)

var (
	owner   = desired.Owner{APIVersion: "apps.holdfast.dev/v1alpha1", Kind: "AppService", Namespace: "shop", Name: "web", UID: "ours"}
	service = desired.ID{Kind: corev1.SchemeGroupVersion.WithKind("Service"), Name: "web"}
)

func component(ports ...appsapi.Port) desired.Component {
	return desired.For(owner, appsapi.Component{Name: "web", ResourceName: "web", Service: &appsapi.ServiceComponent{Ports: ports}})
}

func suspended(c desired.Component) desired.Component {
	c.Suspended = true
	return c
}

func live(controller types.UID, change func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web", OwnerReferences: []metav1.OwnerReference{{UID: controller, Controller: new(true)}}}}
	if change != nil {
		change(s)
	}
	return s
}

func TestFor(t *testing.T) {
	deployment := "Deployment web"
	cases := map[string]struct {
		component desired.Component
		seen      *corev1.Service
		want      [][]string // per step: applies, then removals
	}{
		"nothing there":           {component: component(), want: [][]string{{deployment}, nil}},
		"with ports":              {component: component(appsapi.Port{Port: 80}), want: [][]string{{deployment, "Service web"}, nil}},
		"ports went":              {component: component(), seen: live("ours", nil), want: [][]string{{deployment}, {"Service web"}}},
		"of somebody else":        {component: component(), seen: live("theirs", nil), want: [][]string{{deployment}, nil}},
		"nobody's":                {component: component(), seen: &corev1.Service{}, want: [][]string{{deployment}, nil}},
		"suspended":               {component: suspended(component()), seen: live("ours", nil)},
		"kept on purpose":         {component: component(), seen: live("ours", keep), want: [][]string{{deployment}, nil}},
		"on its way out already":  {component: component(), seen: live("ours", leave), want: [][]string{{deployment}, nil}},
		"wanted, and there today": {component: component(appsapi.Port{Port: 80}), seen: live("ours", nil), want: [][]string{{deployment, "Service web"}, nil}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			seen := Seen{}
			if tc.seen != nil {
				seen[service] = tc.seen
			}
			var got [][]string
			for _, step := range For(owner, []desired.Component{tc.component}, seen).Steps {
				var applies, removals []string
				for _, child := range step.Apply {
					applies = append(applies, child.Kind.Kind+" "+child.Name)
				}
				for _, id := range step.Remove {
					removals = append(removals, id.Kind.Kind+" "+id.Name)
				}
				got = append(got, applies, removals)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func keep(s *corev1.Service) {
	s.Annotations = map[string]string{"apps.holdfast.dev/prune": "disabled"}
}

func leave(s *corev1.Service) { s.DeletionTimestamp = &metav1.Time{} }

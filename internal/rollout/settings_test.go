package rollout

import (
	"testing"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
)

func scaled(c *appsapi.Component) {
	c.Service.Autoscaling = &appsapi.AutoscalingSettings{MinReplicas: 2, MaxReplicas: 5, TargetCPUUtilization: 70}
}

func behindIngress(c *appsapi.Component) {
	ports(c)
	c.Service.Expose = &appsapi.ExposeSettings{IngressClassName: "nginx"}
}

func behindGateway(c *appsapi.Component) {
	ports(c)
	c.Service.Expose = &appsapi.ExposeSettings{GatewayRef: &appsapi.GatewayReference{Name: "web"}}
}

// reading is a component with a file of this content.
func reading(content string) change {
	return func(c *appsapi.Component) {
		podsOf(c).Config.Files = []appsapi.ConfigFile{{Path: "/etc/app.yaml", Content: content}}
	}
}

func podsOf(c *appsapi.Component) *appsapi.PodSettings {
	if c.Service != nil {
		return &c.Service.PodSettings
	}
	return &c.Job.PodSettings
}

// filesOf is what the ConfigMap of a component is called.
func filesOf(c appsapi.Component) string {
	for _, child := range desired.For(shop, stack(c), desired.Known{})[0].Children {
		if child.Kind == desired.KindConfigMap {
			return child.Name
		}
	}
	panic("it has no files")
}

// TestSettings are children beside a workload that come and go with what the spec says.
func TestSettings(t *testing.T) {
	tell(t, map[string]story{
		"an autoscaler and a budget come": {
			before: stack(service("web", "1")),
			now:    stack(service("web", "1", scaled)),
			want:   []string{"web: apply Deployment shop-web, HorizontalPodAutoscaler shop-web, PodDisruptionBudget shop-web"},
		},
		"an autoscaler goes before the number of pods is set": {
			before: stack(service("web", "1", scaled)),
			now:    stack(service("web", "1", replicas(3))),
			want:   []string{"web: first remove HorizontalPodAutoscaler shop-web; apply Deployment shop-web; remove PodDisruptionBudget shop-web"},
		},
		"a Gateway instead of an Ingress": {
			before: stack(service("web", "1", behindIngress)),
			now:    stack(service("web", "1", behindGateway)),
			want:   []string{"web: apply Deployment shop-web, Service shop-web, HTTPRoute shop-web; remove Ingress shop-web"},
		},
	})
}

// TestFiles keeps the files of a revision for as long as one of its pods may start again.
func TestFiles(t *testing.T) {
	one, two := service("web", "1", reading("one")), service("web", "1", reading("two"))
	apply := "web: apply Deployment shop-web, ConfigMap " + filesOf(two)
	run := job("migrate", "1", reading("one"))
	tell(t, map[string]story{
		"new content, and the pods have the old one": {
			before: stack(one), now: stack(two), want: []string{apply},
		},
		"pods of the old content are left": {
			before: stack(one), now: stack(two),
			deeds: []deed{rollOut("web", two), to("shop-web", rolling)},
			want:  []string{apply},
		},
		"all pods have the new content": {
			before: stack(one), now: stack(two),
			deeds: []deed{rollOut("web", two)},
			want:  []string{apply + "; remove ConfigMap " + filesOf(one)},
		},
		"no files any more, and nobody has them": {
			before: stack(one), now: stack(service("web", "2")),
			deeds: []deed{rollOut("web", service("web", "2"))},
			want:  []string{"web: apply Deployment shop-web; remove ConfigMap " + filesOf(one)},
		},
		"the component left the spec": {
			before: stack(one, service("db", "1")), now: stack(service("db", "1")),
			want: []string{"db: apply Deployment shop-db", "prune Deployment shop-web of web"},
		},
		"and its workload has gone": {
			before: stack(one, service("db", "1")), now: stack(service("db", "1")),
			deeds: []deed{gone("Deployment", "shop-web")},
			want:  []string{"db: apply Deployment shop-db", "prune ConfigMap " + filesOf(one) + " of web"},
		},
		"another name, and the workload of the old one is there": {
			before: stack(one), now: stack(service("web", "1", reading("one"), called("front"))),
			want: []string{
				"web: apply Deployment front, ConfigMap " + filesOf(service("web", "1", reading("one"), called("front"))),
				"keep web: Deployment shop-web stays until Deployment front, which replaces it, is ready",
			},
		},
		"a job at work reads them": {
			before: stack(run), now: stack(job("migrate", "1")),
			deeds: []deed{to("shop-migrate", atWork)},
			want:  []string{"migrate: remove " + nameOf(workloadOf(run)) + "; wait for the end of " + nameOf(workloadOf(run))},
		},
	})
}

func workloadOf(c appsapi.Component) desired.ID {
	return desired.For(shop, stack(c), desired.Known{})[0].Workload
}

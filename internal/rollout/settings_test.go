package rollout

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
)

func autoscaled(c *testSpec) {
	c.Service.Autoscaling = &appsapi.AutoscalingSettings{MinReplicas: 2, MaxReplicas: 5, TargetCPUUtilization: 70}
}

func exposedByIngress(c *testSpec) {
	withPort(c)
	c.Service.Expose = &appsapi.ExposeSettings{IngressClassName: "nginx"}
}

func exposedByGateway(c *testSpec) {
	withPort(c)
	c.Service.Expose = &appsapi.ExposeSettings{GatewayRef: &appsapi.GatewayReference{Name: "web"}}
}

// withConfigFile adds a config file with this content.
func withConfigFile(content string) componentOption {
	return func(c *testSpec) {
		podSettings(c).Config.Files = []appsapi.ConfigFile{{Path: "/etc/app.yaml", Content: content}}
	}
}

func podSettings(c *testSpec) *appsapi.PodSettings {
	switch {
	case c.Service != nil:
		return &c.Service.PodSettings
	case c.Stateful != nil:
		return &c.Stateful.PodSettings
	}
	return &c.Job.PodSettings
}

// configMapName returns the name of the ConfigMap of a component.
func configMapName(c testSpec) string {
	for _, child := range desired.Build(shop, expand(stack(c)), desired.ClusterState{})[0].Children {
		if child.Kind == desired.KindConfigMap {
			return child.Name
		}
	}
	panic("the component has no config files")
}

// TestOptionalSettings checks children next to a workload that depend on optional settings.
func TestOptionalSettings(t *testing.T) {
	runPlanCases(t, map[string]planCase{
		"autoscaler and budget are created": {
			applied: stack(service("web", "1")),
			spec:    stack(service("web", "1", autoscaled)),
			want:    []string{"web: apply Deployment shop-web, HorizontalPodAutoscaler shop-web, PodDisruptionBudget shop-web"},
		},
		"autoscaler is deleted before replicas are set": {
			applied: stack(service("web", "1", autoscaled)),
			spec:    stack(service("web", "1", replicas(3))),
			want:    []string{"web: first remove HorizontalPodAutoscaler shop-web; apply Deployment shop-web; remove PodDisruptionBudget shop-web"},
		},
		"Gateway instead of an Ingress": {
			applied: stack(service("web", "1", exposedByIngress)),
			spec:    stack(service("web", "1", exposedByGateway)),
			want:    []string{"web: apply Deployment shop-web, Service shop-web, HTTPRoute shop-web; remove Ingress shop-web"},
		},
	})
}

// TestConfigFilesOutliveRollout checks that the files of a revision are kept as long as one of its
// pods may restart.
func TestConfigFilesOutliveRollout(t *testing.T) {
	one, two := service("web", "1", withConfigFile("one")), service("web", "1", withConfigFile("two"))
	apply := "web: apply Deployment shop-web, ConfigMap " + configMapName(two)
	run := job("migrate", "1", withConfigFile("one"))
	runPlanCases(t, map[string]planCase{
		"new content, pods mount the old one": {
			applied: stack(one), spec: stack(two), want: []string{apply},
		},
		"pods with the old content exist": {
			applied: stack(one), spec: stack(two),
			mutations: []mutation{rollOut("web", two), mutateChild("shop-web", rollingOut)},
			want:      []string{apply},
		},
		"all pods mount the new content": {
			applied: stack(one), spec: stack(two),
			mutations: []mutation{rollOut("web", two)},
			want:      []string{apply + "; remove ConfigMap " + configMapName(one)},
		},
		"no files, no pod mounts them": {
			applied: stack(one), spec: stack(service("web", "2")),
			mutations: []mutation{rollOut("web", service("web", "2"))},
			want:      []string{"web: apply Deployment shop-web; remove ConfigMap " + configMapName(one)},
		},
		"component is removed from the spec": {
			applied: stack(one, service("db", "1")), spec: stack(service("db", "1")),
			want: []string{"db: apply Deployment shop-db", "prune Deployment shop-web of web"},
		},
		"component is removed and its workload is gone": {
			applied: stack(one, service("db", "1")), spec: stack(service("db", "1")),
			mutations: []mutation{deleteChild("Deployment", "shop-web")},
			want:      []string{"db: apply Deployment shop-db", "prune ConfigMap " + configMapName(one) + " of web"},
		},
		"renamed, old workload exists": {
			applied: stack(one), spec: stack(service("web", "1", withConfigFile("one"), withResourceName("front"))),
			want: []string{
				"web: apply Deployment front, ConfigMap " + configMapName(service("web", "1", withConfigFile("one"), withResourceName("front"))),
				"keep web: Deployment shop-web is kept until its replacement Deployment front is ready",
			},
		},
		"active job mounts them": {
			applied: stack(run), spec: stack(job("migrate", "1")),
			mutations: []mutation{mutateChild("shop-migrate", jobRunning)},
			want:      []string{"migrate: remove " + describeID(workloadOf(run)) + "; wait for the end of " + describeID(workloadOf(run))},
		},
	})
}

func TestConfigFilesOutliveStatefulSetRollout(t *testing.T) {
	one, two := database("1Gi", withConfigFile("one")), database("1Gi", withConfigFile("two"))
	rollingOut := func(s *appsv1.StatefulSet) { s.Status.Replicas++ }
	apply := "db: apply StatefulSet shop-db, ConfigMap " + configMapName(two) + ", Service shop-db-headless"
	web, plain := service("web", "1", withConfigFile("one")), service("web", "1")
	runPlanCases(t, map[string]planCase{
		"the pod template mounts the old file": {
			applied: stack(one), spec: stack(two), want: []string{apply},
		},
		"pods of the old revision are left": {
			applied: stack(one), spec: stack(two),
			mutations: []mutation{rollOut("db", two), mutateChild("shop-db", rollingOut)},
			want:      []string{apply},
		},
		"every pod has the new file": {
			applied: stack(one), spec: stack(two),
			mutations: []mutation{rollOut("db", two)},
			want:      []string{apply + "; remove ConfigMap " + configMapName(one)},
		},
		"a rollout of another component does not keep the file": {
			applied: stack(two, web), spec: stack(two, plain),
			mutations: []mutation{mutateChild("shop-db", rollingOut), rollOut("web", plain)},
			want:      []string{apply, "web: apply Deployment shop-web; remove ConfigMap " + configMapName(web)},
		},
	})
}

func TestConfigFilesOutliveCronJobRuns(t *testing.T) {
	one, two := job("report", "1", nightly, withConfigFile("one")), job("report", "1", nightly, withConfigFile("two"))
	active := func(j *batchv1.CronJob) { j.Status.Active = []corev1.ObjectReference{{Name: "shop-report-1"}} }
	apply := "report: apply CronJob shop-report, ConfigMap " + configMapName(two)
	web, plain := service("web", "1", withConfigFile("one")), service("web", "1")
	runPlanCases(t, map[string]planCase{
		"the job template mounts the old file": {
			applied: stack(one), spec: stack(two), want: []string{apply},
		},
		"a run that may have the old file is active": {
			applied: stack(one), spec: stack(two),
			mutations: []mutation{rollOut("report", two), mutateChild("shop-report", active)},
			want:      []string{apply},
		},
		"no run is active": {
			applied: stack(one), spec: stack(two),
			mutations: []mutation{rollOut("report", two)},
			want:      []string{apply + "; remove ConfigMap " + configMapName(one)},
		},
		"a run of another component does not keep the file": {
			applied: stack(two, web), spec: stack(two, plain),
			mutations: []mutation{mutateChild("shop-report", active), rollOut("web", plain)},
			want:      []string{apply, "web: apply Deployment shop-web; remove ConfigMap " + configMapName(web)},
		},
	})
}

func workloadOf(c testSpec) desired.ID {
	return desired.Build(shop, expand(stack(c)), desired.ClusterState{})[0].Workload
}

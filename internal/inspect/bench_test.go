package inspect_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-dev/holdfast/internal/inspect"
	"github.com/holdfast-dev/holdfast/internal/testutil/fixtures"
)

// largeInput returns an application with many pods.
func largeInput(spec string, change func(*fixtures.Fixture)) inspect.Input {
	s := fixtures.New("appstack", "shop", spec)
	s.RunAll()
	change(s)
	in := s.Input()
	in.IncludeEdges = true
	return in
}

// manyComponentsSpec returns a spec of many components with few pods each.
func manyComponentsSpec(components, replicas int) string {
	spec := "components:\n"
	for i := range components {
		spec += fmt.Sprintf("- {name: web-%d, service: {image: \"shop/web:1\", replicas: %d, ports: [{port: 80}]}}\n", i, replicas)
	}
	return spec
}

const (
	manyPodsSpec   = `components: [{name: web, service: {image: "shop/web:1", replicas: 1000, ports: [{port: 80}]}}]`
	manyClaimsSpec = `components: [{name: db, stateful: {image: "mariadb:11", replicas: 500, ports: [{port: 3306}], storage: [{name: data, mountPath: /data, size: 1Gi}]}}]`
)

var largeInputs = map[string]func() inspect.Input{
	"herd": func() inspect.Input { return largeInput(manyPodsSpec, func(*fixtures.Fixture) {}) },
	"crash": func() inspect.Input {
		return largeInput(manyPodsSpec, func(s *fixtures.Fixture) { s.SetCrashLoop("web", 3, "panic") })
	},
	"crowd": func() inspect.Input { return largeInput(manyComponentsSpec(100, 10), func(*fixtures.Fixture) {}) },
	"claims": func() inspect.Input {
		return largeInput(manyClaimsSpec, func(s *fixtures.Fixture) { s.SetStorageClassMissing("db", "none") })
	},
	"events": func() inspect.Input {
		return largeInput(manyPodsSpec, func(s *fixtures.Fixture) {
			s.SetCrashLoop("web", 137, "")
			for _, p := range s.Pods("web") {
				s.AddEvent(p, "BackOff", "Back-off restarting failed container app", 42)
			}
		})
	},
	"undead": func() inspect.Input {
		return largeInput(manyPodsSpec, func(s *fixtures.Fixture) {
			for _, p := range s.Pods("web") {
				p.DeletionTimestamp, p.Finalizers = new(fixtures.Ago(time.Hour)), []string{"example.com/hold"}
				p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
			}
		})
	},
}

func BenchmarkEvaluate1000(b *testing.B) {
	for name, input := range largeInputs {
		b.Run(name, func(b *testing.B) {
			in := input()
			b.ReportAllocs()
			for b.Loop() {
				inspect.Evaluate(in)
			}
		})
	}
}

// asHelmRelease converts a managed application to a Helm release.
func asHelmRelease(in inspect.Input) inspect.GroupInput {
	out := inspect.GroupInput{Kind: "HelmRelease", Namespace: fixtures.Namespace, Name: "shop", CompleteKinds: in.CompleteKinds, Now: in.Now}
	for _, obj := range in.Objects {
		out.Objects = append(out.Objects, asHelmObject(obj))
	}
	return out
}

func BenchmarkEvaluateGroup1000(b *testing.B) {
	for name, input := range largeInputs {
		b.Run(name, func(b *testing.B) {
			in := asHelmRelease(input())
			b.ReportAllocs()
			for b.Loop() {
				inspect.EvaluateGroup(in)
			}
		})
	}
}

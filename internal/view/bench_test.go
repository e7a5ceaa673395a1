package view_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-dev/holdfast/internal/testutil/scene"
	"github.com/holdfast-dev/holdfast/internal/view"
)

// large is an application of a thousand pods and more.
func large(spec string, change func(*scene.Scene)) view.Input {
	s := scene.New("appstack", "shop", spec)
	s.RunAll()
	change(s)
	in := s.Input()
	in.Edges = true
	return in
}

// crowd are many components with few pods each.
func crowd(components, replicas int) string {
	spec := "components:\n"
	for i := range components {
		spec += fmt.Sprintf("- {name: web-%d, service: {image: \"shop/web:1\", replicas: %d, ports: [{port: 80}]}}\n", i, replicas)
	}
	return spec
}

const (
	herd  = `components: [{name: web, service: {image: "shop/web:1", replicas: 1000, ports: [{port: 80}]}}]`
	banks = `components: [{name: db, stateful: {image: "mariadb:11", replicas: 500, ports: [{port: 3306}], storage: [{name: data, mountPath: /data, size: 1Gi}]}}]`
)

var largest = map[string]func() view.Input{
	"herd":   func() view.Input { return large(herd, func(*scene.Scene) {}) },
	"crash":  func() view.Input { return large(herd, func(s *scene.Scene) { s.Crashes("web", 3, "panic") }) },
	"crowd":  func() view.Input { return large(crowd(100, 10), func(*scene.Scene) {}) },
	"claims": func() view.Input { return large(banks, func(s *scene.Scene) { s.LacksVolumes("db", "none") }) },
	"events": func() view.Input {
		return large(herd, func(s *scene.Scene) {
			s.Crashes("web", 137, "")
			for _, p := range s.Pods("web") {
				s.Happened(p, "BackOff", "Back-off restarting failed container app", 42)
			}
		})
	},
	"undead": func() view.Input {
		return large(herd, func(s *scene.Scene) {
			for _, p := range s.Pods("web") {
				p.DeletionTimestamp, p.Finalizers = new(scene.Before(time.Hour)), []string{"example.com/hold"}
				p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
			}
		})
	},
}

func BenchmarkOf1000(b *testing.B) {
	for name, input := range largest {
		b.Run(name, func(b *testing.B) {
			in := input()
			b.ReportAllocs()
			for b.Loop() {
				view.Of(in)
			}
		})
	}
}

// released makes a Helm release of what an application of ours would run.
func released(in view.Input) view.GroupInput {
	out := view.GroupInput{Kind: "HelmRelease", Namespace: scene.Namespace, Name: "shop", Whole: in.Whole, Now: in.Now}
	for _, obj := range in.Objects {
		out.Objects = append(out.Objects, foreign(obj))
	}
	return out
}

func BenchmarkGroup1000(b *testing.B) {
	for name, input := range largest {
		b.Run(name, func(b *testing.B) {
			in := released(input())
			b.ReportAllocs()
			for b.Loop() {
				view.Group(in)
			}
		})
	}
}

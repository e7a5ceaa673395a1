package objdiff

import (
	"fmt"
	"testing"
)

// BenchmarkDiff compares two states of a Deployment, as watch does for every event.
func BenchmarkDiff(b *testing.B) {
	deployment := func(image, version string) map[string]any {
		var containers, conditions []any
		for i := range 3 {
			var env []any
			for j := range 20 {
				env = append(env, map[string]any{"name": fmt.Sprintf("VARIABLE_%d", j), "value": "some value"})
			}
			containers = append(containers, map[string]any{"name": fmt.Sprintf("c%d", i), "image": image, "env": env,
				"ports": []any{map[string]any{"name": "http", "containerPort": int64(8080), "protocol": "TCP"}}})
			conditions = append(conditions, map[string]any{"type": fmt.Sprintf("Type%d", i), "status": "True", "lastUpdateTime": version})
		}
		return map[string]any{"apiVersion": "apps/v1", "kind": "Deployment",
			"metadata": map[string]any{"name": "web", "namespace": "shop", "resourceVersion": version, "labels": map[string]any{"app.kubernetes.io/name": "web", "a": "b"}},
			"spec":     map[string]any{"replicas": int64(3), "template": map[string]any{"spec": map[string]any{"containers": containers}}},
			"status":   map[string]any{"observedGeneration": int64(3), "replicas": int64(3), "conditions": conditions}}
	}
	before, after := deployment("shop/web:1", "1"), deployment("shop/web:2", "2")
	b.ReportAllocs()
	for b.Loop() {
		if len(DiffObjects("Deployment", before, after)) != 6 {
			b.Fatal("unexpected number of changes")
		}
	}
}

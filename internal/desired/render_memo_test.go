package desired

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestRenderReadOnlyIsReused checks that RenderReadOnly and the next Render share one configuration, and that later
// calls render again, because a used configuration has been changed.
func TestRenderReadOnlyIsReused(t *testing.T) {
	made := 0
	child := Child{Render: func(runtime.Object) (*Config, error) {
		made++
		return &Config{hash: fmt.Sprint(made)}, nil
	}}
	child.memoizeRender()
	live, other := &appsv1.Deployment{}, &appsv1.Deployment{}
	for i, step := range []struct {
		do   func(runtime.Object) (*Config, error)
		live runtime.Object
		want string
	}{
		{child.RenderReadOnly, live, "1"}, {child.RenderReadOnly, live, "1"}, {child.Render, live, "1"}, {child.Render, live, "2"},
		{child.RenderReadOnly, live, "3"}, {child.RenderReadOnly, other, "4"}, {child.Render, live, "5"}, {child.Render, other, "4"},
		{child.RenderReadOnly, nil, "6"}, {child.Render, nil, "6"}, {child.RenderReadOnly, nil, "7"},
	} {
		config, err := step.do(step.live)
		if err != nil || config.hash != step.want {
			t.Errorf("step %d: configuration %q (%v), want %s", i, config.hash, err, step.want)
		}
	}
}

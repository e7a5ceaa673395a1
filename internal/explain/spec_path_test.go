package explain

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestFixesNameFieldsByTheirPathInTheSpec(t *testing.T) {
	const fix = "Correct spec.env and spec.envFrom of the application."
	for path, want := range map[string]string{
		"":                             fix,
		"spec":                         fix,
		"spec.components[web].service": "Correct spec.components[web].service.env and spec.components[web].service.envFrom of the application.",
	} {
		if got := (Cause{Fix: fix}).WithSpecPath(path).Fix; got != want {
			t.Errorf("path %q: got %q, want %q", path, got, want)
		}
	}
}

func TestDiagnosisNamesTheImageField(t *testing.T) {
	broken := pod("web-1", func(p *corev1.Pod) {
		p.Status.ContainerStatuses[0].State.Waiting.Reason = "InvalidImageName"
	})
	got := Explain(Snapshot{Pods: []*corev1.Pod{broken}, SpecPath: "spec.components[web].service"}, testNow)
	if len(got.Causes) != 1 || !strings.Contains(got.Causes[0].Fix, "spec.components[web].service.image") {
		t.Errorf("got %+v, want a fix that names spec.components[web].service.image", got.Causes)
	}
}

package cli

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

func TestDeploymentVersion(t *testing.T) {
	cases := map[string]struct {
		image string
		label string
		want  string
	}{
		"tag":                    {image: "holdfast/operator:v1.2.3", want: "v1.2.3"},
		"registry with a port":   {image: "registry:5000/holdfast/operator:1", want: "1"},
		"registry without a tag": {image: "registry:5000/holdfast/operator"},
		"tag and digest":         {image: "holdfast/operator:v1@sha256:abc", want: "v1"},
		"digest only":            {image: "holdfast/operator@sha256:abc"},
		"label and digest":       {image: "holdfast/operator@sha256:abc", label: "26c11f2", want: "26c11f2"},
		"label of kustomize":     {image: "holdfast/operator:v3", label: "dev", want: "v3"},
		"label overrides tag":    {image: "holdfast/operator:latest", label: "v2", want: "v2"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := &appsv1.Deployment{}
			if tc.label != "" {
				d.Labels = map[string]string{"app.kubernetes.io/version": tc.label}
			}
			d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "sidecar", Image: "other:9"}, {Name: "operator", Image: tc.image}}
			if got := DeploymentVersion(d); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestVersionSkewWarning(t *testing.T) {
	for pair, warns := range map[[2]string]bool{
		{"v1.2.3", "1.2.3"}: false, {"dev", "dev"}: false, {"v1", ""}: false, {"", "v1"}: false, {"v1", "v2"}: true, {"dev", "v1"}: true,
	} {
		if got := VersionSkewWarning(pair[0], pair[1]); (got != "") != warns {
			t.Errorf("%v: got %q", pair, got)
		}
	}
}

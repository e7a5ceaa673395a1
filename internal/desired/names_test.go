package desired

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

func TestDeclaredName(t *testing.T) {
	long := strings.Repeat("a", 60)
	cases := map[string]struct {
		component appsapi.Component
		want      string
	}{
		"from object and component": {appsapi.Component{Name: "front"}, "web-front"},
		"resourceName":              {appsapi.Component{Name: "front", ResourceName: "www"}, "www"},
		"too long":                  {appsapi.Component{Name: long}, "web-" + strings.Repeat("a", 48) + "-692de56d87"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := DeclaredName(shop, ExpandedComponent{Component: tc.component})
			if got != tc.want || len(got) > 63 {
				t.Errorf("got %q (%d), want %q", got, len(got), tc.want)
			}
		})
	}
}

func TestWorkloadID(t *testing.T) {
	if got := WorkloadID("Deployment", "web"); got != "deployment-web" {
		t.Errorf("got %q", got)
	}
	a, b := WorkloadID("Deployment", strings.Repeat("x", 62)+"a"), WorkloadID("Deployment", strings.Repeat("x", 62)+"b")
	if a == b || len(a) != 63 || len(b) != 63 {
		t.Errorf("got %q and %q", a, b)
	}
}

func TestImageVersion(t *testing.T) {
	for image, want := range map[string]string{
		"nginx": "", "nginx:1.27": "1.27", "localhost:5000/nginx": "", "localhost:5000/a/b:v1.2-rc_3": "v1.2-rc_3",
		"nginx@sha256:abc": "", "nginx:2@sha256:abc": "2", "nginx:-bad": "", "nginx:" + strings.Repeat("1", 64): "",
	} {
		if got := imageVersion(image); got != want {
			t.Errorf("%s: got %q, want %q", image, got, want)
		}
	}
}

func TestBuild(t *testing.T) {
	c := singleComponent(component(t, `{image: nginx, ports: [
		{port: 80}, {name: https, port: 443}, {name: db, port: 5432}, {name: dns, port: 53, protocol: UDP}, {name: http-admin, port: 81}],
		update: {progressDeadlineSeconds: 60}}`))
	want := []appsapi.Endpoint{
		{Name: "80", URL: "http://web.shop.svc:80"}, {Name: "https", URL: "https://web.shop.svc:443"},
		{Name: "db", URL: "tcp://web.shop.svc:5432"}, {Name: "dns", URL: "udp://web.shop.svc:53"},
		{Name: "http-admin", URL: "http://web.shop.svc:81"},
	}
	if diff := cmp.Diff(want, c.Endpoints); diff != "" {
		t.Error(diff)
	}
	if c.ProgressDeadlineSeconds != 60 || len(c.Children) != 2 {
		t.Errorf("got %+v", c)
	}
	if want := "app.kubernetes.io/managed-by=holdfast,apps.holdfast.dev/workload=deployment-web"; c.Selector(appsapi.DefaultKeys) != want {
		t.Errorf("got %q, want %q", c.Selector(appsapi.DefaultKeys), want)
	}
	bare := singleComponent(component(t, `{image: nginx}`))
	if len(bare.Children) != 1 {
		t.Errorf("without ports it has %d children", len(bare.Children))
	}
	if diff := cmp.Diff(ID{Kind: appsv1.SchemeGroupVersion.WithKind("Deployment"), Name: "web"}, bare.Workload); diff != "" {
		t.Error(diff)
	}
	if https := clusterEndpoint("shop", "web", appsapi.Port{Port: 443}); https.URL != "https://web.shop.svc:443" {
		t.Errorf("got %v", https)
	}
}

func TestMainContainerName(t *testing.T) {
	cases := map[string]struct {
		live *appsv1.Deployment
		want string
	}{
		"no Deployment":               {nil, "app"},
		"default name":                {liveDeployment("1", "", "app", "sidecar"), "app"},
		"adopted":                     {liveDeployment("1", "", "nginx", "sidecar"), "nginx"},
		"being adopted":               {liveDeployment("1", "true", "nginx"), "nginx"},
		"renamed by another client":   {withoutContainerAnnotation(liveDeployment("1", "", "x")), "app"},
		"all containers removed":      {liveDeployment("1", "true"), "app"},
		"default name added":          {liveDeployment("1", "", "nginx", "app"), "nginx"},
		"annotation without adoption": {withSelector(liveDeployment("1", "", "nginx", "app"), podSelector(appsapi.DefaultKeys, "deployment-web")), "app"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := mainContainerName(appsapi.DefaultKeys, tc.live, "deployment-web")
			if err != nil || got != tc.want {
				t.Errorf("got %q, %v, want %q", got, err, tc.want)
			}
		})
	}
}

func withoutContainerAnnotation(d *appsv1.Deployment) *appsv1.Deployment {
	delete(d.Annotations, appsapi.DefaultKeys.Container)
	return d
}

package apply

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/fieldmanager"
)

var shop = desired.Owner{Keys: appsapi.DefaultKeys, APIVersion: "apps.holdfast.dev/v1alpha1", Kind: "AppService", Namespace: "shop", Name: "web", UID: ownerUID}

const comparedSpec = `
image: nginx:1
env: [{name: MODE, value: prod}, {name: EMPTY}, {name: TOKEN, valueFrom: {secretKeyRef: {name: web, key: token}}}]
resources: {requests: {cpu: 100m}, limits: {memory: 1Gi}}
ports: [{name: http, port: 80}]`

// renderApplied returns the object that the API server would store, as far as it matters here.
func renderApplied(t *testing.T, child desired.Child) (want map[string]any, live client.Object, config *desired.Config) {
	t.Helper()
	config, err := child.Render(nil)
	if err != nil {
		t.Fatal(err)
	}
	if want, err = config.Fields(); err != nil {
		t.Fatal(err)
	}
	again, err := child.Render(nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := again.Patch("", createOnly)
	if err != nil {
		t.Fatal(err)
	}
	return want, decodeObject(t, string(body)), config
}

func TestCompareDeployment(t *testing.T) {
	cases := map[string]struct {
		change func(*appsv1.Deployment, *corev1.Container)
		drift  bool
	}{
		"nothing": {change: func(*appsv1.Deployment, *corev1.Container) {}},
		"default": {change: func(_ *appsv1.Deployment, c *corev1.Container) { c.TerminationMessagePath = "/dev/termination-log" }},
		"foreign variable": {change: func(_ *appsv1.Deployment, c *corev1.Container) {
			c.Env = append([]corev1.EnvVar{{Name: "X", Value: "y"}}, c.Env...)
		}},
		"foreign port": {change: func(_ *appsv1.Deployment, c *corev1.Container) {
			c.Ports = append(c.Ports, corev1.ContainerPort{ContainerPort: 9})
		}},
		"foreign request": {change: func(_ *appsv1.Deployment, c *corev1.Container) {
			c.Resources.Requests["memory"] = resource.MustParse("1Mi")
		}},
		"foreign container": {change: func(d *appsv1.Deployment, _ *corev1.Container) { addContainer(d, "sidecar") }},
		"foreign restart annotation": {change: func(d *appsv1.Deployment, _ *corev1.Container) {
			d.Spec.Template.Annotations["kubectl.kubernetes.io/restartedAt"] = "now"
		}},
		"changed image":           {drift: true, change: func(_ *appsv1.Deployment, c *corev1.Container) { c.Image = "theirs" }},
		"renamed container":       {drift: true, change: func(_ *appsv1.Deployment, c *corev1.Container) { c.Name = "theirs" }},
		"changed variable":        {drift: true, change: func(_ *appsv1.Deployment, c *corev1.Container) { c.Env[0].Value = "theirs" }},
		"removed variable":        {drift: true, change: func(_ *appsv1.Deployment, c *corev1.Container) { c.Env = c.Env[1:] }},
		"changed empty variable":  {drift: true, change: func(_ *appsv1.Deployment, c *corev1.Container) { c.Env[1].Value = "theirs" }},
		"changed key in a source": {drift: true, change: func(_ *appsv1.Deployment, c *corev1.Container) { c.Env[2].ValueFrom.SecretKeyRef.Optional = new(true) }},
		"changed probe handler": {drift: true, change: func(_ *appsv1.Deployment, c *corev1.Container) {
			c.ReadinessProbe.ProbeHandler = corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(80)}}
		}},
		"changed label selector": {drift: true, change: func(d *appsv1.Deployment, _ *corev1.Container) {
			d.Spec.Template.Spec.TopologySpreadConstraints[0].LabelSelector.MatchLabels["theirs"] = "too"
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			want, live, _ := renderApplied(t, buildComponent(t, shop, comparedSpec).Children[0])
			d := live.(*appsv1.Deployment)
			tc.change(d, &d.Spec.Template.Spec.Containers[0])
			projected, err := fieldmanager.Compare(want, d)
			if err != nil || (projected != "") != tc.drift {
				t.Errorf("got %q, %v", projected, err)
			}
		})
	}
}

func TestCompareService(t *testing.T) {
	cases := map[string]struct {
		change func(*corev1.Service)
		drift  bool
	}{
		"nothing":    {change: func(*corev1.Service) {}},
		"cluster IP": {change: func(s *corev1.Service) { s.Spec.ClusterIP = "10.0.0.1" }},
		"foreign port": {change: func(s *corev1.Service) {
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Port: 9, Protocol: "TCP"})
		}},
		"node port":           {change: func(s *corev1.Service) { s.Spec.Ports[0].NodePort = 30000 }},
		"changed target port": {drift: true, change: func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromInt32(81) }},
		"changed selector":    {drift: true, change: func(s *corev1.Service) { s.Spec.Selector["apps.holdfast.dev/workload"] = "theirs" }},
		"added selector key":  {drift: true, change: func(s *corev1.Service) { s.Spec.Selector["theirs"] = "too" }},
		"source ranges":       {drift: true, change: func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = []string{"10.0.0.0/8"} }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			want, live, _ := renderApplied(t, buildComponent(t, shop, comparedSpec).Children[1])
			s := live.(*corev1.Service)
			tc.change(s)
			projected, err := fieldmanager.Compare(want, s)
			if err != nil || (projected != "") != tc.drift {
				t.Errorf("got %q, %v", projected, err)
			}
		})
	}
}

func TestMetadataMatches(t *testing.T) {
	cases := map[string]struct {
		change func(client.Object)
		want   bool
	}{
		"nothing":            {want: true, change: func(client.Object) {}},
		"foreign label":      {want: true, change: func(o client.Object) { o.GetLabels()["theirs"] = "too" }},
		"foreign annotation": {want: true, change: func(o client.Object) { o.GetAnnotations()["theirs"] = "too" }},
		"foreign owner reference": {want: true, change: func(o client.Object) {
			o.SetOwnerReferences(append(o.GetOwnerReferences(), metav1.OwnerReference{UID: "x"}))
		}},
		"changed label":                    {change: func(o client.Object) { o.GetLabels()["app.kubernetes.io/part-of"] = "theirs" }},
		"removed label":                    {change: func(o client.Object) { delete(o.GetLabels(), "app.kubernetes.io/part-of") }},
		"removed hash":                     {change: func(o client.Object) { delete(o.GetAnnotations(), "apps.holdfast.dev/applied-hash") }},
		"removed owner reference":          {change: func(o client.Object) { o.SetOwnerReferences(nil) }},
		"owner with another name":          {change: changeOwner(func(r *metav1.OwnerReference) { r.Name = "theirs" })},
		"owner of another kind":            {change: changeOwner(func(r *metav1.OwnerReference) { r.Kind = "Theirs" })},
		"owner of another group":           {change: changeOwner(func(r *metav1.OwnerReference) { r.APIVersion = "theirs/v1" })},
		"owner that is not the controller": {change: changeOwner(func(r *metav1.OwnerReference) { r.Controller = nil })},
		"owner without blockOwnerDeletion": {change: changeOwner(func(r *metav1.OwnerReference) { r.BlockOwnerDeletion = nil })},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, live, config := renderApplied(t, buildComponent(t, shop, comparedSpec).Children[0])
			tc.change(live)
			if got := fieldmanager.MetadataMatches(shop, config, live); got != tc.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

func changeOwner(change func(*metav1.OwnerReference)) func(client.Object) {
	return func(o client.Object) {
		refs := o.GetOwnerReferences()
		change(&refs[0])
		o.SetOwnerReferences(refs)
	}
}

func addContainer(d *appsv1.Deployment, name string) {
	d.Spec.Template.Spec.Containers = append(d.Spec.Template.Spec.Containers, corev1.Container{Name: name})
}

// TestCompareMetadata distinguishes values that an admission policy enforces from later changes,
// before and after the configuration was sent.
func TestCompareMetadata(t *testing.T) {
	_, live, config := renderApplied(t, buildComponent(t, shop, comparedSpec).Children[0])
	divergence := func() string {
		t.Helper()
		projected, err := fieldmanager.CompareMetadata(shop, config, live)
		if err != nil {
			t.Fatal(err)
		}
		return projected
	}
	if got := divergence(); got != "" {
		t.Errorf("unchanged: %q", got)
	}
	live.GetLabels()["app.kubernetes.io/part-of"] = "platform"
	mutated := divergence()
	live.GetLabels()["theirs"] = "too"
	if _, err := config.Patch("", createOnly); err != nil {
		t.Fatal(err)
	}
	if got := divergence(); got == "" || got != mutated {
		t.Errorf("same divergence: %q, then %q", mutated, got)
	}
	live.GetLabels()["app.kubernetes.io/name"] = "theirs"
	if got := divergence(); got == mutated {
		t.Error("a change was not detected")
	}
}

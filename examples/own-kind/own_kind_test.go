package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-dev/holdfast/internal/testutil"
	"github.com/holdfast-dev/holdfast/internal/testutil/controlplane"
	"github.com/holdfast-dev/holdfast/internal/testutil/podsim"
	"github.com/holdfast-dev/holdfast/internal/testutil/volsim"
)

func readSample(t *testing.T) *Guestbook {
	t.Helper()
	content, err := os.ReadFile("config/sample.yaml")
	if err != nil {
		t.Fatal(err)
	}
	g := &Guestbook{}
	if err := yaml.UnmarshalStrict(content, g); err != nil {
		t.Fatal(err)
	}
	return g
}

func TestComponents(t *testing.T) {
	const want = `
- name: store
  stateful:
    args: ["--appendonly", "yes"]
    image: redis:7.2
    ports: [{name: redis, port: 6379}]
    replicas: 1
    storage: [{mountPath: /data, name: data, size: 1Gi}]
- bindings: [{component: store, envPrefix: REDIS}]
  name: web
  service:
    image: example.com/guestbook:1
    ports: [{name: http, port: 80}]
    replicas: 2
`
	got, err := yaml.Marshal(components(readSample(t)))
	if err != nil {
		t.Fatal(err)
	}
	var w, g any
	if err := yaml.Unmarshal([]byte(want), &w); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(got, &g); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(w, g); diff != "" {
		t.Errorf("components (-want +got):\n%s", diff)
	}
}

// TestOperator runs the operator on a real control plane, with the rights of config alone.
func TestOperator(t *testing.T) {
	plane := testutil.ControlPlane(t, controlplane.Options{})
	ctrl.SetLogger(klog.Background())
	w := NewWithT(t)
	_, err := plane.InstallCRDs("config/crd")
	w.Expect(err).NotTo(HaveOccurred())
	_, err = podsim.Start(t.Context(), plane.Config)
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(volsim.Start(t.Context(), plane.Config)).To(Succeed())
	scheme := runtime.NewScheme()
	w.Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
	addToScheme(scheme)
	c, err := client.New(plane.Config, client.Options{Scheme: scheme})
	w.Expect(err).NotTo(HaveOccurred())
	applyConfig(t, c)

	cfg, err := plane.ConfigFor("system:serviceaccount:holdfast-system:guestbook-operator")
	w.Expect(err).NotTo(HaveOccurred())
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- run(ctx, cfg) }()
	defer func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("the operator ended: %v", err)
		}
	}()

	g := readSample(t)
	g.Namespace = testutil.Namespace(t, plane.Config)
	w.Expect(c.Create(ctx, g)).To(Succeed())
	w.Eventually(func() (string, error) {
		err := c.Get(ctx, client.ObjectKeyFromObject(g), g)
		return readyMessage(g), err
	}, "60s").Should(Equal("True: Everything runs as declared, 2/2 components"))

	objectMeta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: g.Namespace, Name: name} }
	web := &appsv1.Deployment{ObjectMeta: objectMeta("visitors-web")}
	for _, child := range []client.Object{
		&appsv1.StatefulSet{ObjectMeta: objectMeta("visitors-store")}, &corev1.Service{ObjectMeta: objectMeta("visitors-store")},
		&corev1.PersistentVolumeClaim{ObjectMeta: objectMeta("data-visitors-store-0")},
		web, &corev1.Service{ObjectMeta: objectMeta("visitors-web")},
	} {
		w.Expect(c.Get(ctx, client.ObjectKeyFromObject(child), child)).To(Succeed(), "%T %s", child, child.GetName())
	}
	w.Expect(web.Spec.Template.Spec.Containers[0].Env).To(ContainElement(
		corev1.EnvVar{Name: "REDIS_HOST", Value: "visitors-store." + g.Namespace + ".svc"}))

	w.Expect(c.Delete(ctx, g)).To(Succeed())
	w.Eventually(func() error { return c.Get(ctx, client.ObjectKeyFromObject(web), web) }, "60s").ShouldNot(Succeed())
	w.Eventually(func() error { return c.Get(ctx, client.ObjectKeyFromObject(g), g) }, "60s").ShouldNot(Succeed())
}

// readyMessage is what a person reads of a Guestbook.
func readyMessage(g *Guestbook) string {
	ready := meta.FindStatusCondition(g.Status.Conditions, "Ready")
	if ready == nil {
		return "nobody has looked at it"
	}
	return string(ready.Status) + ": " + ready.Message + ", " + g.Status.ComponentsReady + " components"
}

// applyConfig grants the operator what config says, and no more.
func applyConfig(t *testing.T, c client.Client) {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "holdfast-system"}}
	if err := c.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"role.yaml", "binding.yaml"} {
		content, err := os.ReadFile(filepath.Join("config", file))
		if err != nil {
			t.Fatal(err)
		}
		for doc := range strings.SplitSeq(strings.TrimPrefix(string(content), "---\n"), "\n---\n") {
			obj := &unstructured.Unstructured{}
			if err := yaml.UnmarshalStrict([]byte(doc), &obj.Object); err != nil {
				t.Fatal(err)
			}
			if err := c.Create(t.Context(), obj); err != nil {
				t.Fatal(err)
			}
		}
	}
}

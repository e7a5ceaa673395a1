package main

import (
	"context"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/enginetest"
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

// missingImage is an image that cannot be pulled.
const missingImage = "example.com/guestbook:missing"

// TestOperator runs the operator on a real control plane, with only the permissions of config.
func TestOperator(t *testing.T) {
	plane := enginetest.Start(t, enginetest.Options{
		CRDs: []string{"config/crd", "../../config/crd"},
		Manifests: []string{"config/policies.yaml", "config/role.yaml", "config/binding.yaml", "config/center.yaml", "../../config/policy/operator-account.yaml",
			"../../config/center/role.yaml", "../../config/center/binding.yaml", "../../config/rbac/role.yaml", "../../config/rbac/binding.yaml"},
		MissingImages: []string{missingImage},
	})
	ctrl.SetLogger(klog.Background())
	w := NewWithT(t)
	scheme := runtime.NewScheme()
	w.Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
	addToScheme(scheme)
	w.Expect(appsapi.AddToScheme(scheme)).To(Succeed())
	c, err := client.New(plane.Config, client.Options{Scheme: scheme})
	w.Expect(err).NotTo(HaveOccurred())
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		done <- run(ctx, plane.ConfigFor(t, "system:serviceaccount:holdfast-system:guestbook-operator"))
	}()
	defer func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("the operator ended: %v", err)
		}
	}()

	namespace := plane.Namespace(t)
	g := readSample(t)
	g.Namespace = namespace
	w.Expect(c.Create(ctx, g)).To(Succeed())
	broken := readSample(t)
	broken.Name, broken.Namespace, broken.Spec.Image = "broken", namespace, missingImage
	w.Expect(c.Create(ctx, broken)).To(Succeed())
	enginetest.WaitReady(t, c, g)
	w.Expect(g.Status.ComponentsReady).To(Equal("2/2"))

	t.Run("children", func(t *testing.T) { testChildren(t, c, namespace) })
	t.Run("policies", func(t *testing.T) { testPolicies(t, plane, c, g) })
	t.Run("plugin", func(t *testing.T) { testPlugin(t, plane, namespace) })
	t.Run("two operators", func(t *testing.T) { testTwoOperators(t, plane, c, g) })
	t.Run("center", func(t *testing.T) { testCenter(t, plane, namespace) })

	w.Expect(c.Delete(ctx, g)).To(Succeed())
	w.Eventually(func() error { return c.Get(ctx, client.ObjectKeyFromObject(g), g) }, "60s").ShouldNot(Succeed())
}

func testChildren(t *testing.T, c client.Client, namespace string) {
	w := NewWithT(t)
	objectMeta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: namespace, Name: name} }
	web := &appsv1.Deployment{ObjectMeta: objectMeta("visitors-web")}
	for _, child := range []client.Object{
		&appsv1.StatefulSet{ObjectMeta: objectMeta("visitors-store")}, &corev1.Service{ObjectMeta: objectMeta("visitors-store")},
		&corev1.PersistentVolumeClaim{ObjectMeta: objectMeta("data-visitors-store-0")},
		web, &corev1.Service{ObjectMeta: objectMeta("visitors-web")},
	} {
		w.Expect(c.Get(t.Context(), client.ObjectKeyFromObject(child), child)).To(Succeed(), "%T %s", child, child.GetName())
	}
	w.Expect(web.Spec.Template.Spec.Containers[0].Env).To(ContainElement(
		corev1.EnvVar{Name: "REDIS_HOST", Value: "visitors-store." + namespace + ".svc"}))
}

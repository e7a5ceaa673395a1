package client_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	apply "github.com/holdfast-dev/holdfast/client/applyconfiguration/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/client/clientset/versioned"
	"github.com/holdfast-dev/holdfast/client/informers/externalversions"
	"github.com/holdfast-dev/holdfast/internal/testutil"
)

// deploy is what docs/user/go-client.md shows.
func deploy(ctx context.Context, cfg *rest.Config, namespace string) error {
	client, err := versioned.NewForConfig(cfg)
	if err != nil {
		return err
	}
	apps := client.AppsV1alpha1().AppServices(namespace)

	// Apply sets only these fields; all other fields keep their value and field manager.
	want := apply.AppService("web", namespace).
		WithLabels(map[string]string{"team": "blue"}).
		WithSpec(apply.AppServiceSpec().WithImage("nginx:1.27").WithReplicas(2).
			WithPorts(apply.Port().WithPort(80)))
	app, err := apps.Apply(ctx, want, metav1.ApplyOptions{FieldManager: "my-program", Force: true})
	if err != nil {
		return err
	}

	// Ready reports whether the application runs as declared and, if not, the reason.
	ready := meta.FindStatusCondition(app.Status.Conditions, appsapi.ConditionReady)
	if ready == nil || ready.ObservedGeneration != app.Generation {
		fmt.Println("the operator has not reconciled this generation yet")
		return nil
	}
	fmt.Printf("ready: %s, %s: %s\n", ready.Status, ready.Reason, ready.Message)
	return nil
}

// TestPageShowsDeploy keeps the page and the code that is compiled and run the same.
func TestPageShowsDeploy(t *testing.T) {
	page, err := os.ReadFile("../docs/user/go-client.md")
	if err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile("client_test.go")
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile("(?s)```go\n(func deploy.*?\n})\n```").FindSubmatch(page)
	if shown == nil {
		t.Fatal("docs/user/go-client.md does not show deploy")
	}
	_, rest, _ := strings.Cut(string(code), "\nfunc deploy")
	body, _, _ := strings.Cut(rest, "\n}\n")
	if diff := cmp.Diff("func deploy"+body+"\n}", string(shown[1])); diff != "" {
		t.Errorf("what the page shows (-compiled +shown):\n%s", diff)
	}
}

func TestClientOnAnAPIServer(t *testing.T) {
	plane := testutil.SharedControlPlane(t)
	if _, err := plane.InstallCRDs("../config/crd"); err != nil {
		t.Fatal(err)
	}
	client, err := versioned.NewForConfig(plane.Config)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("apply", func(t *testing.T) { testApply(t, plane.Config, client) })
	t.Run("scale", func(t *testing.T) { testScale(t, plane.Config, client) })
	t.Run("informer", func(t *testing.T) { testInformer(t, plane.Config, client) })
}

// testApply shows that an apply owns what it states and leaves the rest alone.
func testApply(t *testing.T, cfg *rest.Config, client versioned.Interface) {
	ctx, namespace := t.Context(), testutil.Namespace(t, cfg)
	apps := client.AppsV1alpha1().AppServices(namespace)
	other := apply.AppService("web", namespace).WithSpec(apply.AppServiceSpec().WithImage("nginx:1.26").WithSuspend(true))
	if _, err := apps.Apply(ctx, other, metav1.ApplyOptions{FieldManager: "somebody-else"}); err != nil {
		t.Fatal(err)
	}
	if err := deploy(ctx, cfg, namespace); err != nil {
		t.Fatal(err)
	}
	app, err := apps.Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(app.Labels["team"], " ", app.Spec.Image, " ", *app.Spec.Replicas, " ", app.Spec.Suspend)
	if want := "blue nginx:1.27 2 true"; got != want {
		t.Errorf("team, image, replicas, suspend: got %s, want %s", got, want)
	}
}

// testScale shows what an autoscaler or a program like it uses.
func testScale(t *testing.T, cfg *rest.Config, client versioned.Interface) {
	ctx, namespace := t.Context(), testutil.Namespace(t, cfg)
	if err := deploy(ctx, cfg, namespace); err != nil {
		t.Fatal(err)
	}
	apps := client.AppsV1alpha1().AppServices(namespace)
	scale, err := apps.GetScale(ctx, "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if scale.Spec.Replicas != 2 {
		t.Errorf("scale says %d replicas, want 2", scale.Spec.Replicas)
	}
	scale.Spec.Replicas = 3
	if _, err := apps.UpdateScale(ctx, "web", scale, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	app, err := apps.Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if *app.Spec.Replicas != 3 {
		t.Errorf("after scaling to 3 the spec says %d replicas", *app.Spec.Replicas)
	}
}

// testInformer shows that a lister reads what an informer has seen, of both kinds.
func testInformer(t *testing.T, cfg *rest.Config, client versioned.Interface) {
	ctx, cancel := context.WithCancel(t.Context())
	namespace := testutil.Namespace(t, cfg)
	if err := deploy(ctx, cfg, namespace); err != nil {
		t.Fatal(err)
	}
	stack := apply.AppStack("shop", namespace).WithSpec(apply.AppStackSpec().WithComponents(
		apply.Component().WithName("api").WithService(apply.ServiceComponent().WithImage("nginx:1.27"))))
	if _, err := client.AppsV1alpha1().AppStacks(namespace).Apply(ctx, stack, metav1.ApplyOptions{FieldManager: "test"}); err != nil {
		t.Fatal(err)
	}
	factory := externalversions.NewSharedInformerFactoryWithOptions(client, 0, externalversions.WithNamespace(namespace))
	defer factory.Shutdown()
	defer cancel()
	apps, stacks := factory.Apps().V1alpha1().AppServices().Lister(), factory.Apps().V1alpha1().AppStacks().Lister()
	factory.StartWithContext(ctx)
	if err := factory.WaitForCacheSyncWithContext(ctx).AsError(); err != nil {
		t.Fatal(err)
	}
	blue, err := apps.List(labels.SelectorFromSet(labels.Set{"team": "blue"}))
	if err != nil || len(blue) != 1 {
		t.Errorf("got %d AppServices of the team and error %v, want 1", len(blue), err)
	}
	if _, err := stacks.AppStacks(namespace).Get("shop"); err != nil {
		t.Error(err)
	}
}

package engine

import (
	"context"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil"
	"github.com/holdfast-dev/holdfast/internal/testutil/controlplane"
	"github.com/holdfast-dev/holdfast/internal/testutil/podsim"
)

// TestOperatorOfServices runs an operator that declares only services, with the permissions of
// engine/rbac/service and its own keys. It must make no request for kinds that services do not
// need.
func TestOperatorOfServices(t *testing.T) {
	plane := testutil.ControlPlane(t, controlplane.Options{})
	w := NewWithT(t)
	_, err := plane.InstallCRDs("../config/crd")
	w.Expect(err).NotTo(HaveOccurred())
	_, err = podsim.Start(t.Context(), plane.Config)
	w.Expect(err).NotTo(HaveOccurred())
	scheme := runtime.NewScheme()
	w.Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
	w.Expect(appsapi.AddToScheme(scheme)).To(Succeed())
	admin, err := client.New(plane.Config, client.Options{Scheme: scheme})
	w.Expect(err).NotTo(HaveOccurred())
	const user = "operator-of-services"
	grant(t, admin, user, "setup.go", "rbac/service/rbac.go")
	cfg, err := plane.ConfigFor(user)
	w.Expect(err).NotTo(HaveOccurred())
	requests := &requestLog{resources: map[string]bool{}}
	cfg.Wrap(requests.wrap)
	runOperatorOfServices(t, cfg, scheme)

	ctx := t.Context()
	app := &appsapi.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: testutil.Namespace(t, plane.Config), Name: "web"}}
	app.Spec.Image, app.Spec.Replicas, app.Spec.Ports = "example.com/web:1", new(int32(2)), []appsapi.Port{{Port: 80}}
	w.Expect(admin.Create(ctx, app)).To(Succeed())
	ready := func() bool {
		_ = admin.Get(ctx, client.ObjectKeyFromObject(app), app)
		return meta.IsStatusConditionTrue(app.Status.Conditions, "Ready")
	}
	w.Eventually(ready, "60s").Should(BeTrue(), "%v", &app.Status)

	deployment := &appsv1.Deployment{}
	w.Expect(admin.Get(ctx, client.ObjectKeyFromObject(app), deployment)).To(Succeed())
	w.Expect(deployment.Labels).To(HaveKeyWithValue("shop.example.com/owner-uid", string(app.UID)))
	for _, names := range []map[string]string{deployment.Labels, deployment.Annotations, deployment.Spec.Template.Labels, deployment.Spec.Template.Annotations, deployment.Spec.Selector.MatchLabels} {
		for name := range names {
			w.Expect(name).NotTo(HavePrefix("apps.holdfast.dev/"))
		}
	}
	w.Expect(fieldManagers(deployment)).To(ContainElement("shop-operator"))
	w.Expect(fieldManagers(deployment)).NotTo(ContainElement("holdfast"))
	w.Expect(fieldManagers(app)).To(ContainElement("shop-operator-status"))

	w.Expect(admin.Get(ctx, client.ObjectKeyFromObject(app), app)).To(Succeed())
	app.Name, app.ResourceVersion, app.UID = "db", "", ""
	app.Spec.Image = statefulImage
	w.Expect(admin.Create(ctx, app)).To(Succeed())
	w.Eventually(func() string {
		_ = admin.Get(ctx, client.ObjectKeyFromObject(app), app)
		if c := meta.FindStatusCondition(app.Status.Conditions, "Ready"); c != nil {
			return c.Reason + ": " + c.Message
		}
		return ""
	}, "60s").Should(Equal(`InvalidSpec: component "db" has type Stateful, which kind AppService does not support; its developer must add the type to Types of the kind`))

	allowed := []string{"appservices", "deployments", "services", "configmaps", "horizontalpodautoscalers", "poddisruptionbudgets", "ingresses", "httproutes", "secrets", "pods", "events"}
	requests.mu.Lock()
	defer requests.mu.Unlock()
	w.Expect(requests.resources).To(HaveKey("deployments"))
	for resource := range requests.resources {
		w.Expect(allowed).To(ContainElement(resource))
	}
	w.Expect(requests.forbidden).To(BeEmpty())
}

// statefulImage makes components return an undeclared type.
const statefulImage = "example.com/db:1"

func serviceComponents(app *appsapi.AppService) []Component {
	if app.Spec.Image == statefulImage {
		return []Component{{Name: "db", Stateful: &appsapi.StatefulComponent{ServerSpec: app.Spec.ServerSpec}}}
	}
	return []Component{{Name: app.Name, ResourceName: app.Name, Service: &app.Spec.ServiceComponent}}
}

// runOperatorOfServices runs until the test ends.
func runOperatorOfServices(t *testing.T, cfg *rest.Config, scheme *runtime.Scheme) {
	t.Helper()
	mgr, err := NewManager(cfg, ManagerOptions{
		Kinds: []Object{&appsapi.AppService{}}, LabelPrefix: "shop.example.com", FieldManager: "shop-operator",
		Manager: ctrl.Options{Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	kind := Kind[*appsapi.AppService]{New: func() *appsapi.AppService { return &appsapi.AppService{} }, Components: serviceComponents, Types: []ComponentType{appsapi.ComponentService}}
	if err := Setup(mgr, kind, Options{}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("the operator exited: %v", err)
		}
	})
}

func fieldManagers(obj client.Object) []string {
	var out []string
	for _, f := range obj.GetManagedFields() {
		out = append(out, f.Manager)
	}
	return out
}

// requestLog has the requested resources and the denied requests.
type requestLog struct {
	mu        sync.Mutex
	resources map[string]bool
	forbidden []string
}

var resourcePath = regexp.MustCompile(`^/(?:api/v1|apis/[^/]+/[^/]+)/(?:namespaces/[^/]+/)?([^/]+)`)

func (l *requestLog) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(r)
		l.mu.Lock()
		defer l.mu.Unlock()
		if m := resourcePath.FindStringSubmatch(r.URL.Path); m != nil {
			l.resources[m[1]] = true
		}
		if err == nil && response.StatusCode == http.StatusForbidden {
			l.forbidden = append(l.forbidden, r.Method+" "+r.URL.Path)
		}
		return response, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

var rbacMarker = regexp.MustCompile(`(?m)^// \+kubebuilder:rbac:groups=([^,]*),resources=([^,]*),verbs=(.*)$`)

// grant gives a user the permissions of the markers of some files, and those on AppServices.
func grant(t *testing.T, admin client.Client, user string, files ...string) {
	t.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{appsapi.GroupName}, Resources: []string{"appservices"}, Verbs: []string{"get", "list", "watch", "patch"}},
		{APIGroups: []string{appsapi.GroupName}, Resources: []string{"appservices/status"}, Verbs: []string{"patch"}},
		{APIGroups: []string{appsapi.GroupName}, Resources: []string{"appservices/finalizers"}, Verbs: []string{"update"}},
	}}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range rbacMarker.FindAllStringSubmatch(string(content), -1) {
			role.Rules = append(role.Rules, rbacv1.PolicyRule{
				APIGroups: []string{strings.Trim(m[1], `"`)}, Resources: strings.Split(m[2], ";"), Verbs: strings.Split(m[3], ";")})
		}
	}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user}, Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}}}
	for _, obj := range []client.Object{role, binding} {
		if err := admin.Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.ContainsFunc(role.Rules, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, "deployments") }) {
		t.Fatal("found no markers")
	}
}

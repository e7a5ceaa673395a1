package apply

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/fieldmanager"
	"github.com/holdfast-dev/holdfast/internal/testutil"
	"github.com/holdfast-dev/holdfast/internal/testutil/gatewayapi"
)

// preexistingObjects are existing objects that may be adopted, by golden case.
var preexistingObjects = map[string][]string{
	"live-count":   {foreignDeployment("7", "app")},
	"adopted":      {foreignDeployment("3", "nginx"), foreignService},
	"adopted-pair": {foreignDeployment("3", "app", "sidecar")},
	"handed-over":  {foreignDeployment("3", "nginx"), foreignService},
}

func foreignDeployment(replicas string, containers ...string) string {
	text := `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, annotations: {apps.holdfast.dev/adopt: "true"}}
spec:
  replicas: ` + replicas + `
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
`
	for _, name := range containers {
		text += "      - {name: " + name + ", image: theirs}\n"
	}
	return text
}

const foreignService = `
apiVersion: v1
kind: Service
metadata: {name: web, annotations: {apps.holdfast.dev/adopt: "true"}}
spec: {selector: {app: web}, ports: [{port: 80}]}`

// apiServer is a real API server that counts requests.
type apiServer struct {
	client.Client
	config *rest.Config
	calls  atomic.Int64
}

func newAPIServer(t *testing.T) *apiServer {
	t.Helper()
	plane := testutil.SharedControlPlane(t)
	if _, err := plane.InstallCRDs(filepath.Join("..", "..", "config", "crd"), gatewayapi.HTTPRouteCRD(t)); err != nil {
		t.Fatal(err)
	}
	a := &apiServer{config: plane.Config}
	counted := rest.CopyConfig(plane.Config)
	counted.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			a.calls.Add(1)
			return next.RoundTrip(r)
		})
	})
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	var err error
	if a.Client, err = client.New(counted, client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	return a
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (a *apiServer) owner(t *testing.T) desired.Owner {
	t.Helper()
	return desired.Owner{Keys: appsapi.DefaultKeys, APIVersion: "apps.holdfast.dev/v1alpha1", Kind: "AppService", Namespace: testutil.Namespace(t, a.config),
		Name: "web", UID: "11111111-2222-3333-4444-555555555555"}
}

// applier returns a new applier.
func (a *apiServer) applier() *Applier {
	return New(a.Client, a.Client, a.Client, clocktesting.NewFakePassiveClock(time.Now()))
}

// createForeign creates an object of another owner.
func (a *apiServer) createForeign(t *testing.T, namespace, text string) {
	t.Helper()
	obj := decodeObject(t, text)
	obj.SetNamespace(namespace)
	if err := a.Create(t.Context(), obj, client.FieldOwner("theirs")); err != nil {
		t.Fatal(err)
	}
}

func decodeObject(t *testing.T, text string) client.Object {
	t.Helper()
	content, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	obj, _, err := clientgoscheme.Codecs.UniversalDeserializer().Decode(content, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return obj.(client.Object)
}

func buildComponent(t *testing.T, owner desired.Owner, spec string) desired.Component {
	t.Helper()
	c := appsapi.Component{Name: "web", ResourceName: "web", Service: &appsapi.ServiceComponent{}}
	if err := yaml.UnmarshalStrict([]byte(spec), c.Service); err != nil {
		t.Fatal(err)
	}
	return desired.Build(owner, desired.ExpandComponents([]appsapi.Component{c}), desired.ClusterState{})[0]
}

// observeAndApply observes a child and applies it once.
func observeAndApply(ctx context.Context, t *testing.T, a *Applier, owner desired.Owner, child desired.Child) (client.Object, Result, error) {
	t.Helper()
	current, err := a.Observe(ctx, owner, child.ID)
	if err != nil {
		t.Fatal(err)
	}
	result, err := a.Apply(ctx, owner, child, current, false)
	return current, result, err
}

func TestContract(t *testing.T) {
	a := newAPIServer(t)
	t.Run("response matches the request", a.testGoldenSpecs)
	t.Run("preconditions", a.testPreconditions)
	t.Run("union conflicts", a.testUnionConflicts)
}

// testGoldenSpecs applies every golden case: the response matches the request, and after a restart
// nothing is written.
func (a *apiServer) testGoldenSpecs(t *testing.T) {
	for _, name := range []string{"stack", "data"} {
		t.Run(name, func(t *testing.T) {
			owner := a.owner(t)
			spec, err := os.ReadFile(filepath.Join("..", "desired", "testdata", "specs", name+".yaml"))
			if err != nil {
				t.Fatal(err)
			}
			var components []appsapi.Component
			if err := yaml.UnmarshalStrict(spec, &components); err != nil {
				t.Fatal(err)
			}
			for _, c := range desired.Build(owner, desired.ExpandComponents(components), desired.ClusterState{}) {
				for _, child := range c.Children {
					a.testApplyIsIdempotent(t, owner, child)
				}
			}
		})
	}
	specs, err := filepath.Glob(filepath.Join("..", "desired", "testdata", "specs", "*.yaml"))
	if err != nil || len(specs) < 10 {
		t.Fatalf("%d golden cases: %v", len(specs), err)
	}
	for _, file := range specs {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		if name == "stack" || name == "data" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			owner := a.owner(t)
			for _, text := range preexistingObjects[name] {
				a.createForeign(t, owner.Namespace, text)
			}
			spec, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, child := range buildComponent(t, owner, string(spec)).Children {
				a.testApplyIsIdempotent(t, owner, child)
			}
		})
	}
}

func (a *apiServer) testApplyIsIdempotent(t *testing.T, owner desired.Owner, child desired.Child) {
	t.Helper()
	_, result, err := observeAndApply(t.Context(), t, a.applier(), owner, child)
	if err != nil || result.Action == Unchanged {
		t.Fatalf("%s: %q, %v", child.Kind.Kind, result.Action, err)
	}
	config, err := child.Render(result.Object)
	if err != nil {
		t.Fatal(err)
	}
	want, err := config.Fields()
	if err != nil {
		t.Fatal(err)
	}
	if projected, err := fieldmanager.Compare(want, result.Object); projected != "" || err != nil {
		t.Errorf("%s: the response does not match the request: %v", child.Kind.Kind, err)
	}
	restarted := a.applier()
	current, err := restarted.Observe(t.Context(), owner, child.ID)
	if err != nil {
		t.Fatal(err)
	}
	before := a.calls.Load()
	result, err = restarted.Apply(t.Context(), owner, child, current, false)
	if err != nil || result.Action != Unchanged || a.calls.Load() != before {
		t.Errorf("%s: after a restart: %q, %d calls, %v", child.Kind.Kind, result.Action, a.calls.Load()-before, err)
	}
}

// testPreconditions checks the preconditions that every write depends on.
func (a *apiServer) testPreconditions(t *testing.T) {
	owner, applier := a.owner(t), a.applier()
	for _, child := range buildComponent(t, owner, `{image: nginx, ports: [{port: 80}]}`).Children {
		send := func(uid types.UID, resourceVersion string) (client.Object, error) {
			config, err := child.Render(nil)
			if err != nil {
				t.Fatal(err)
			}
			return applier.patch(t.Context(), owner, child.ID, config, uid, resourceVersion)
		}
		if _, err := send("99999999-8888-7777-6666-555555555555", ""); !apierrors.IsConflict(err) {
			t.Errorf("%s: a uid on a free name: %v", child.Kind.Kind, err)
		}
		made, err := send("", createOnly)
		if err != nil {
			t.Fatalf("%s: create-only on a free name: %v", child.Kind.Kind, err)
		}
		if made.GetResourceVersion() == createOnly {
			t.Errorf("%s: the precondition was stored", child.Kind.Kind)
		}
		if _, err := send("", createOnly); !apierrors.IsConflict(err) || strings.Contains(err.Error(), "field managers") {
			t.Errorf("%s: create-only on a taken name: %v", child.Kind.Kind, err)
		}
		_, err = send("99999999-8888-7777-6666-555555555555", made.GetResourceVersion())
		if !uidMismatch(err) {
			t.Errorf("%s: another uid: %v", child.Kind.Kind, err)
		}
		if _, err := send(made.GetUID(), "2"); !apierrors.IsConflict(err) {
			t.Errorf("%s: an old resourceVersion: %v", child.Kind.Kind, err)
		}
		if _, err := send(made.GetUID(), made.GetResourceVersion()); err != nil {
			t.Errorf("%s: with the observed version: %v", child.Kind.Kind, err)
		}
	}
}

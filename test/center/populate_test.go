package center

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/appkind"
	"github.com/holdfast-dev/holdfast/internal/desired"
)

// typicalApp is a typical application: a database, an API and a background worker. With the objects that
// controllers create, it has 20 objects.
const typicalApp = `
components:
- name: db
  stateful:
    image: registry.example.com/platform/mariadb:11.4.2
    ports: [{name: mysql, port: 3306}]
    storage: [{name: data, mountPath: /var/lib/mysql, size: 20Gi}]
    probes: {readiness: {exec: {command: [healthcheck.sh, --connect]}, periodSeconds: 5}}
    resources: {requests: {cpu: 100m, memory: 256Mi}, limits: {memory: 1Gi}}
    env:
    - {name: MARIADB_ROOT_PASSWORD, valueFrom: {secretKeyRef: {name: db-root, key: password}}}
    - {name: MARIADB_DATABASE, value: shop}
    - {name: TZ, value: Europe/Berlin}
- name: api
  dependsOn: [db]
  service: &service
    image: registry.example.com/team/shop-api:2.17.4
    replicas: 2
    ports: [{name: http, port: 80, targetPort: 8080}, {name: metrics, port: 9090}]
    probes:
      readiness: {httpGet: {path: /healthz/ready, port: 8080}, periodSeconds: 5, failureThreshold: 3}
      liveness: {httpGet: {path: /healthz/live, port: 8080}, initialDelaySeconds: 30}
    resources: {requests: {cpu: 250m, memory: 128Mi}, limits: {cpu: "1", memory: 512Mi}}
    config: {files: [{path: /etc/shop/config.yaml, content: "log: {level: info}\nserver: {address: \":8080\"}\n"}]}
    env:
    - {name: LOG_LEVEL, value: info}
    - {name: LOG_FORMAT, value: json}
    - {name: HTTP_ADDRESS, value: ":8080"}
    - {name: METRICS_ADDRESS, value: ":9090"}
    - {name: DATABASE_URL, value: "mysql://shop@shop-db:3306/shop?parseTime=true"}
    - {name: DATABASE_PASSWORD, valueFrom: {secretKeyRef: {name: db-shop, key: password}}}
    - {name: OTEL_EXPORTER_OTLP_ENDPOINT, value: "http://collector.observability:4317"}
    - {name: OTEL_SERVICE_NAME, value: shop-api}
    - {name: FEATURE_FLAGS, value: "new-checkout,fast-search,recommendations-v2"}
    - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
    - {name: NODE_NAME, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
    - {name: GOMEMLIMIT, valueFrom: {resourceFieldRef: {resource: limits.memory}}}
- name: worker
  dependsOn: [api]
  service:
    <<: *service
    image: registry.example.com/team/shop-worker:2.17.4
    replicas: 1
    ports: []
    config: {}
`

const (
	// perNamespace is the number of applications per namespace, perNode the number of pods per node.
	perNamespace, perNode = 20, 60
	// concurrency is the number of concurrent writes.
	concurrency = 24
)

// populator fills a cluster without controllers: it writes the objects of the operator, the controllers and the
// kubelet with their field managers.
type populator struct {
	client.Client
	created   atomic.Int64
	podSerial atomic.Int64
}

func newPopulator(t *testing.T, config *rest.Config) *populator {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, appsapi.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return &populator{Client: c}
}

// parallel calls f for a range of numbers, several at a time.
func parallel(t *testing.T, from, to int, do func(ctx context.Context, i int) error) {
	t.Helper()
	var wg sync.WaitGroup
	var next atomic.Int64
	var failed atomic.Pointer[error]
	for range concurrency {
		wg.Go(func() {
			for failed.Load() == nil {
				i := from + int(next.Add(1)) - 1
				if i >= to {
					return
				}
				if err := do(t.Context(), i); err != nil {
					failed.Store(&err)
				}
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		t.Fatal(*err)
	}
}

func namespaceOf(i int) string { return fmt.Sprintf("team-%d", i/perNamespace) }

// createNamespace creates a namespace with a default ServiceAccount.
func (c *populator) createNamespace(ctx context.Context, name string) error {
	if err := c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		return err
	}
	return c.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "default"}})
}

// createWithStatus creates an object and its status as a field manager.
func (c *populator) createWithStatus(ctx context.Context, by string, obj client.Object, status func()) error {
	if err := c.Create(ctx, obj, client.FieldOwner(by)); err != nil {
		return fmt.Errorf("create %T %s: %w", obj, obj.GetName(), err)
	}
	c.created.Add(1)
	return c.updateStatus(ctx, by, obj, status)
}

func (c *populator) updateStatus(ctx context.Context, by string, obj client.Object, status func()) error {
	if status == nil {
		return nil
	}
	status()
	if err := c.Status().Update(ctx, obj, client.FieldOwner(by)); err != nil {
		return fmt.Errorf("update the status of %T %s: %w", obj, obj.GetName(), err)
	}
	return nil
}

// createNode creates a node as reported by the kubelet.
func (c *populator) createNode(ctx context.Context, i int) error {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName(i), Labels: map[string]string{
		corev1.LabelHostname: nodeName(i), corev1.LabelTopologyZone: "zone-a", corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux"}}}
	return c.createWithStatus(ctx, "kubelet", n, func() {
		n.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("16"), corev1.ResourceMemory: resource.MustParse("64Gi"), corev1.ResourcePods: resource.MustParse("110")}
		n.Status.Allocatable = n.Status.Capacity
		for _, kind := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure, corev1.NodeReady} {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: kind, Status: conditionStatus(kind == corev1.NodeReady),
				Reason: "KubeletHasSufficient" + string(kind), Message: "kubelet has sufficient " + string(kind), LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()})
		}
		for image := range 40 {
			n.Status.Images = append(n.Status.Images, corev1.ContainerImage{SizeBytes: 1e8, Names: []string{fmt.Sprintf("registry.example.com/team/image-%d@%s", image, digest(image)), fmt.Sprintf("registry.example.com/team/image-%d:1.0.0", image)}})
		}
	})
}

func nodeName(i int) string { return fmt.Sprintf("node-%d.cluster.example.com", i) }

func conditionStatus(b bool) corev1.ConditionStatus {
	if b {
		return corev1.ConditionTrue
	}
	return corev1.ConditionFalse
}

func digest(value any) string {
	return fmt.Sprintf("sha256:%x", sha256.Sum256(fmt.Append(nil, value)))
}

// createApplication creates a healthy application with all its objects.
func (c *populator) createApplication(ctx context.Context, i int) error {
	app := &appsapi.AppStack{ObjectMeta: metav1.ObjectMeta{Namespace: namespaceOf(i), Name: fmt.Sprintf("shop-%d", i)}}
	if err := yaml.Unmarshal([]byte(typicalApp), &app.Spec); err != nil {
		return err
	}
	if err := c.createWithStatus(ctx, "kubectl", app, nil); err != nil {
		return err
	}
	components := desired.Build(appkind.Owner(app), appkind.Components(app), desired.ClusterState{})
	for _, component := range components {
		for _, child := range component.Children {
			if err := c.applyChild(ctx, app, child); err != nil {
				return err
			}
		}
	}
	return c.updateStatus(ctx, appsapi.DefaultKeys.FieldManagerStatus, app, func() {
		st := app.ApplicationStatus()
		st.ObservedGeneration = app.Generation
		for _, kind := range []string{appsapi.ConditionApplied, appsapi.ConditionReady} {
			meta.SetStatusCondition(&st.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: appsapi.ReasonReconciled, Message: "Everything runs as declared", ObservedGeneration: app.Generation})
		}
		stack := app.StackStatus()
		stack.ComponentsReady = fmt.Sprintf("%d/%d", len(components), len(components))
		for _, component := range components {
			stack.Components = append(stack.Components, appsapi.ComponentStatus{Name: component.Name, Type: component.Type, ResourceName: component.Workload.Name, Health: "Healthy", Ready: 2, Desired: 2})
		}
	})
}

// applyChild applies a child as the operator does, and creates the objects that controllers create for it.
func (c *populator) applyChild(ctx context.Context, app *appsapi.AppStack, applyChild desired.Child) error {
	config, err := applyChild.Render(nil)
	if err != nil {
		return err
	}
	body, err := config.Patch("", "1")
	if err != nil {
		return err
	}
	newObj, err := c.Scheme().New(applyChild.Kind)
	if err != nil {
		return err
	}
	obj := newObj.(client.Object)
	obj.SetNamespace(app.Namespace)
	obj.SetName(applyChild.Name)
	if err := c.Patch(ctx, obj, client.RawPatch(types.ApplyPatchType, body), client.FieldOwner(appsapi.DefaultKeys.FieldManager), client.ForceOwnership); err != nil {
		return fmt.Errorf("apply %s %s: %w", applyChild.Kind.Kind, applyChild.Name, err)
	}
	c.created.Add(1)
	switch o := obj.(type) {
	case *appsv1.Deployment:
		return c.createDeploymentPods(ctx, o)
	case *appsv1.StatefulSet:
		return c.createStatefulSetPods(ctx, o)
	case *corev1.Service:
		return c.createEndpointSlice(ctx, o)
	}
	return nil
}

// nowSeconds returns the current time with the precision of the API.
func nowSeconds() metav1.Time { return metav1.Now().Rfc3339Copy() }

// hourAgo is the start time of all objects.
func hourAgo() metav1.Time { return metav1.NewTime(time.Now().Add(-time.Hour)).Rfc3339Copy() }

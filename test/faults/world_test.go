package faults

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil"
	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
	"github.com/holdfast-dev/holdfast/internal/testutil/controlplane"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
	"github.com/holdfast-dev/holdfast/internal/testutil/podsim"
	"github.com/holdfast-dev/holdfast/internal/testutil/sqlsim"
	"github.com/holdfast-dev/holdfast/internal/testutil/volsim"
	"github.com/holdfast-dev/holdfast/internal/testutil/watcher"
	"github.com/holdfast-dev/holdfast/test/faults/proxy"
)

// watched are the resources of the independent watch: all kinds that the operator or its children create.
var watched = []schema.GroupVersionResource{
	appsapi.GroupVersion.WithResource("appservices"), appsapi.GroupVersion.WithResource("appstacks"),
	{Group: "apps", Version: "v1", Resource: "deployments"}, {Group: "apps", Version: "v1", Resource: "replicasets"},
	{Group: "apps", Version: "v1", Resource: "statefulsets"}, {Group: "apps", Version: "v1", Resource: "controllerrevisions"},
	{Group: "batch", Version: "v1", Resource: "jobs"}, {Group: "batch", Version: "v1", Resource: "cronjobs"},
	{Version: "v1", Resource: "services"}, {Version: "v1", Resource: "pods"},
	{Version: "v1", Resource: "configmaps"}, {Version: "v1", Resource: "secrets"},
	{Version: "v1", Resource: "persistentvolumeclaims"},
	{Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"},
	{Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"},
	{Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"},
}

// testCluster is a control plane that is shared by many worlds.
type testCluster struct {
	plane *controlplane.Plane
	log   *audit.Log
	// databases are the simulated database servers, and databaseEnv configures the operator to reach them.
	databases      *sqlsim.Pods
	databaseEnv    string
	operatorBinary string
}

func newTestCluster(t *testing.T, binary string) *testCluster {
	t.Helper()
	plane := testutil.ControlPlane(t, controlplane.Options{Audit: true, ExtraArgs: map[string][]string{
		// Keep old revisions, so that stale state can be served.
		"kube-apiserver": {"--etcd-compaction-interval=0"},
	}})
	operator.Install(t, plane)
	waitForGarbageCollector(t, plane)
	if _, err := podsim.Start(t.Context(), plane.Config); err != nil {
		t.Fatal(err)
	}
	if err := volsim.Start(t.Context(), plane.Config); err != nil {
		t.Fatal(err)
	}
	log, err := audit.Open(plane.AuditLog())
	if err != nil {
		t.Fatal(err)
	}
	g := &testCluster{plane: plane, log: log, operatorBinary: binary}
	if g.databases, g.databaseEnv, err = sqlsim.Start(t.Context(), plane.Config); err != nil {
		t.Fatal(err)
	}
	return g
}

// waitForGarbageCollector waits until the garbage collector knows the Holdfast CRDs, which takes half a minute. Until
// then it does not delete the dependents of deleted applications.
func waitForGarbageCollector(t *testing.T, plane *controlplane.Plane) {
	t.Helper()
	scheme := runtime.NewScheme()
	c, err := client.New(plane.Config, client.Options{Scheme: scheme})
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, appsapi.AddToScheme} {
		err = errors.Join(err, add(scheme))
	}
	if err != nil {
		t.Fatal(err)
	}
	meta := metav1.ObjectMeta{Namespace: testutil.Namespace(t, plane.Config), Name: "probe"}
	owner := &appsapi.AppStack{ObjectMeta: meta}
	owner.Spec.Components = []appsapi.Component{{Name: "none", Service: &appsapi.ServiceComponent{ServerSpec: appsapi.ServerSpec{ContainerSpec: containerSpec("none")}}}}
	owned := &corev1.ConfigMap{ObjectMeta: meta}
	if err := c.Create(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: appsapi.GroupVersion.String(), Kind: "AppStack", Name: owner.Name, UID: owner.UID}}
	if err := errors.Join(c.Create(t.Context(), owned), c.Delete(t.Context(), owner)); err != nil {
		t.Fatal(err)
	}
	isCollected := func(ctx context.Context) (bool, error) {
		return apierrors.IsNotFound(c.Get(ctx, client.ObjectKeyFromObject(owned), owned)), nil
	}
	if err := wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, 2*time.Minute, true, isCollected); err != nil {
		t.Fatal("the garbage collector does not know the Holdfast kinds")
	}
}

// withBinary returns the same cluster with another operator binary.
func (g *testCluster) withBinary(binary string) *testCluster {
	other := *g
	other.operatorBinary = binary
	return &other
}

// world is a namespace with its own operator and proxy. Worlds do not affect each other.
type world struct {
	*user
	cluster      *testCluster
	proxy        *proxy.Proxy
	operator     *operator.Operator
	operatorUser string
	watcher      *watcher.Watcher

	lastWrite atomic.Int64 // time of the operator's last write, in Unix nanoseconds
	restarts  sync.WaitGroup
	stopped   atomic.Bool
}

func newWorld(t *testing.T, g *testCluster) *world {
	return newWorldWithOptions(t, g, operator.Options{})
}

func newWorldWithOptions(t *testing.T, g *testCluster, o operator.Options) *world {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	scheme := runtime.NewScheme()
	must(clientgoscheme.AddToScheme(scheme))
	must(appsapi.AddToScheme(scheme))
	c, err := client.New(g.plane.Config, client.Options{Scheme: scheme})
	must(err)
	w := &world{user: &user{Client: c, namespace: testutil.Namespace(t, g.plane.Config)}, cluster: g}
	w.operatorUser = fmt.Sprintf("system:serviceaccount:%s:holdfast-operator", w.namespace)
	must(w.grantRoles(t.Context()))
	cfg, err := g.plane.ConfigFor(w.operatorUser)
	must(err)
	w.proxy, err = proxy.Start(cfg)
	must(err)
	t.Cleanup(func() { _ = w.proxy.Stop() })
	w.watcher, err = watcher.StartInNamespace(t.Context(), g.plane.Config, w.namespace, watched...)
	must(err)
	t.Cleanup(w.watcher.Stop)
	t.Cleanup(func() { guard.writeReport(t) })
	w.operator = operator.New(t, g.plane, w.options(w.proxy, o))
	t.Cleanup(func() {
		w.stopped.Store(true)
		w.restarts.Wait()
	})
	w.injectFaults(nil)
	must(w.operator.Start())
	must(w.operator.WaitReady(t.Context()))
	return w
}

// options returns the options of an operator behind a proxy.
func (w *world) options(p *proxy.Proxy, o operator.Options) operator.Options {
	o.Config, o.Binary, o.Env = p.Config, w.cluster.operatorBinary, append(o.Env, w.cluster.databaseEnv)
	o.Args = append(o.Args, "--namespaces="+w.namespace, "--leader-election-namespace="+w.namespace)
	return o
}

// grantRoles grants the operator the permissions of an installation in its namespace only, so that other requests are
// rejected and detected.
func (w *world) grantRoles(ctx context.Context) error {
	clientset, err := kubernetes.NewForConfig(w.cluster.plane.Config)
	if err != nil {
		return err
	}
	role, err := clientset.RbacV1().Roles(operator.Namespace).Get(ctx, "holdfast-operator", metav1.GetOptions{})
	if err != nil {
		return err
	}
	namespaced := &rbacv1.Role{ObjectMeta: w.objectMeta("holdfast-operator"), Rules: role.Rules}
	if err := w.create(ctx, namespaced); err != nil {
		return err
	}
	for name, ref := range map[string]rbacv1.RoleRef{
		"holdfast-operator-all": {APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "holdfast-operator"},
		"holdfast-operator-own": {APIGroup: rbacv1.GroupName, Kind: "Role", Name: "holdfast-operator"},
	} {
		err := w.create(ctx, &rbacv1.RoleBinding{ObjectMeta: w.objectMeta(name), RoleRef: ref,
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: w.operatorUser}}})
		if err != nil {
			return err
		}
	}
	return nil
}

// injectFaults injects faults and records when the operator writes.
func (w *world) injectFaults(faultFor func(proxy.Write) *proxy.Fault) {
	w.proxy.InjectFaults(func(write proxy.Write) *proxy.Fault {
		w.recordWrite(write)
		if faultFor == nil {
			return nil
		}
		return faultFor(write)
	})
}

// recordWrite records writes of the operator, except lease updates.
func (w *world) recordWrite(write proxy.Write) *proxy.Fault {
	if !strings.HasPrefix(write.Resource, "leases") {
		w.lastWrite.Store(time.Now().UnixNano())
	}
	return nil
}

// crashAndRestart kills the operator and restarts it as the kubelet would.
func (w *world) crashAndRestart() {
	_ = w.operator.Kill() // it may have exited already
	w.restarts.Go(func() {
		if !w.stopped.Load() {
			_ = w.operator.Start() // later checks detect a failed start
		}
	})
}

// resourcesByKind are the resources of the kinds in step results.
var resourcesByKind = map[string]schema.GroupVersionResource{
	"AppService": watched[0], "AppStack": watched[1],
	"PersistentVolumeClaim": {Version: "v1", Resource: "persistentvolumeclaims"}, "Secret": {Version: "v1", Resource: "secrets"},
	"StatefulSet": {Group: "apps", Version: "v1", Resource: "statefulsets"},
}

// observedStatus returns the Ready condition of an application as "status/reason", and for other objects whether they
// exist.
func observedStatus(s watcher.State, namespace, kind, name string) string {
	o := s.Get(resourcesByKind[kind], namespace+"/"+name)
	switch {
	case o == nil:
		return absent
	case kind == "Secret" && hasPendingPassword(o):
		return "password rotation pending"
	case kind != "AppService" && kind != "AppStack":
		return present
	}
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, condition := range conditions {
		c := condition.(map[string]any)
		if c["type"] != "Ready" {
			continue
		}
		if c["observedGeneration"] != o.GetGeneration() {
			return "status of an old generation"
		}
		return fmt.Sprintf("%s/%s", c["status"], c["reason"])
	}
	return "none"
}

// hasPendingPassword reports whether a rotation is in progress. The application is Ready meanwhile, and a restarted
// operator may take seconds to continue.
func hasPendingPassword(secret *unstructured.Unstructured) bool {
	data, _, _ := unstructured.NestedMap(secret.Object, "data")
	for key := range data {
		if strings.HasPrefix(key, "pending-") {
			return true
		}
	}
	return false
}

// hasTerminatingPod reports whether a pod is still terminating.
func hasTerminatingPod(s watcher.State) bool {
	for _, pod := range s.Live(corev1.SchemeGroupVersion.WithResource("pods")) {
		if pod.GetDeletionTimestamp() != nil {
			return true
		}
	}
	return false
}

// findOrphan returns an object whose owner is deleted and which the garbage collector has not deleted yet, or "". The
// collector can be slow without any other change.
func findOrphan(s watcher.State) string {
	live := map[types.UID]bool{}
	var all []*unstructured.Unstructured
	for _, resource := range watched {
		for _, o := range s.Live(resource) {
			live[o.GetUID()] = true
			all = append(all, o)
		}
	}
	for _, o := range all {
		if owner := metav1.GetControllerOf(o); owner != nil && !live[owner.UID] {
			return o.GetKind() + "/" + o.GetName()
		}
	}
	return ""
}

// isManaged reports whether an object is a child of an application, directly or indirectly.
func isManaged(o *unstructured.Unstructured) bool {
	return o.GetLabels()[appsapi.DefaultKeys.OwnerUID] != ""
}

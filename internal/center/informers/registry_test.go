package informers

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/holdfast-dev/holdfast/internal/testutil"
	"github.com/holdfast-dev/holdfast/internal/testutil/controlplane"
)

// fakeSink stores objects.
type fakeSink struct {
	mu      sync.Mutex
	objects map[string]map[string]runtime.Object
}

func (s *fakeSink) withKind(kind string, f func(map[string]runtime.Object)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.objects == nil {
		s.objects = map[string]map[string]runtime.Object{}
	}
	if s.objects[kind] == nil {
		s.objects[kind] = map[string]runtime.Object{}
	}
	f(s.objects[kind])
}

func (s *fakeSink) Replace(kind schema.GroupVersionKind, _ string, all []runtime.Object) {
	s.withKind(kind.Kind, func(m map[string]runtime.Object) {
		clear(m)
		for _, o := range all {
			id := namespacedName(o)
			m[id] = o
		}
	})
}

func (s *fakeSink) Set(o runtime.Object) {
	id := namespacedName(o)
	s.withKind(o.GetObjectKind().GroupVersionKind().Kind, func(m map[string]runtime.Object) { m[id] = o })
}

func (s *fakeSink) Delete(o runtime.Object) {
	id := namespacedName(o)
	s.withKind(o.GetObjectKind().GroupVersionKind().Kind, func(m map[string]runtime.Object) { delete(m, id) })
}

func (s *fakeSink) Len(kind schema.GroupKind, _ string) (n int) {
	s.withKind(kind.Kind, func(m map[string]runtime.Object) { n = len(m) })
	return n
}

func namespacedName(o runtime.Object) string {
	m := o.(metav1.Object)
	return m.GetNamespace() + "/" + m.GetName()
}

func (s *fakeSink) get(k Kind, id string) (o runtime.Object) {
	s.withKind(k.Kind, func(m map[string]runtime.Object) { o = m[id] })
	return o
}

func (s *fakeSink) len(k Kind) (n int) {
	s.withKind(k.Kind, func(m map[string]runtime.Object) { n = len(m) })
	return n
}

// flakyDialer creates connections that the test can break.
type flakyDialer struct {
	mu    sync.Mutex
	conns map[net.Conn]bool
	down  bool
}

func (w *flakyDialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.down {
		return nil, fmt.Errorf("the network is down")
	}
	c, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err == nil {
		w.conns[c] = true
	}
	return c, err
}

// disconnect breaks all connections. If down is set, new connections fail.
func (w *flakyDialer) disconnect(down bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down = down
	for c := range w.conns {
		_ = c.Close()
	}
	clear(w.conns)
}

// fixture is a running registry.
type fixture struct {
	*testing.T
	*WithT
	*Registry
	plane  *controlplane.Plane
	kube   kubernetes.Interface
	sink   *fakeSink
	dialer *flakyDialer
	ns     string
}

func newFixture(t *testing.T, plane *controlplane.Plane, config *rest.Config) *fixture {
	t.Helper()
	h := &fixture{T: t, WithT: NewWithT(t), plane: plane, sink: &fakeSink{}, dialer: &flakyDialer{conns: map[net.Conn]bool{}}, ns: testutil.Namespace(t, plane.Config)}
	var err error
	h.kube, err = kubernetes.NewForConfig(plane.Config)
	h.Expect(err).NotTo(HaveOccurred())
	config = rest.CopyConfig(config)
	config.Dial = h.dialer.dial
	h.Registry, err = New(Options{Config: config, Sink: h.sink, RetryInterval: 2 * time.Second})
	h.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); h.Registry.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return h
}

func (h *fixture) informerState(kind Kind, ns string) func() State {
	return func() State { return h.State(kind.gvr(), ns) }
}

var (
	pods       = Kind{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Pod"), Resource: "pods", ReadMode: Typed}
	configMaps = Kind{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("ConfigMap"), Resource: "configmaps", ReadMode: MetadataOnly}
	widgets    = Kind{GroupVersionKind: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}, Resource: "widgets"}
)

func (h *fixture) configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: h.ns, Name: name}, Data: map[string]string{"secret": "of the map"}}
}

func TestRegistry(t *testing.T) {
	plane := testutil.ControlPlane(t, controlplane.Options{NoControllerManager: true})
	t.Run("acquire and release", func(t *testing.T) { testFollowAndRelease(newFixture(t, plane, plane.Config)) })
	t.Run("reconnects after a disconnect", func(t *testing.T) { testReconnectAfterDisconnect(newFixture(t, plane, plane.Config)) })
	t.Run("waits for permissions", func(t *testing.T) {
		config, err := plane.ConfigFor("watcher")
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		testForbiddenUntilGranted(newFixture(t, plane, config))
	})
	t.Run("CRDs are created and deleted", func(t *testing.T) { testCRDLifecycle(newFixture(t, plane, plane.Config)) })
}

func testFollowAndRelease(h *fixture) {
	ctx := h.Context()
	_, err := h.kube.CoreV1().ConfigMaps(h.ns).Create(ctx, h.configMap("before"), metav1.CreateOptions{})
	h.Expect(err).NotTo(HaveOccurred())
	h.Acquire("one", configMaps, h.ns)
	h.Acquire("two", configMaps, h.ns)
	h.Eventually(h.informerState(configMaps, h.ns), "10s", "10ms").Should(Equal(Live))
	h.Expect(h.sink.get(configMaps, h.ns+"/before")).To(BeAssignableToTypeOf(&metav1.PartialObjectMetadata{}), "only metadata is read")
	h.Expect(h.sink.get(configMaps, h.ns+"/before").GetObjectKind().GroupVersionKind().Kind).To(Equal("ConfigMap"))
	_, err = h.kube.CoreV1().ConfigMaps(h.ns).Create(ctx, h.configMap("after"), metav1.CreateOptions{})
	h.Expect(err).NotTo(HaveOccurred())
	h.Eventually(func() int { return h.sink.len(configMaps) }, "5s", "10ms").Should(Equal(2))
	h.Expect(h.kube.CoreV1().ConfigMaps(h.ns).Delete(ctx, "before", metav1.DeleteOptions{})).To(Succeed())
	h.Eventually(func() runtime.Object { return h.sink.get(configMaps, h.ns+"/before") }, "5s", "10ms").Should(BeNil())
	h.Eventually(func() Status { return h.Informers()[0] }, "5s", "10ms").Should(And(
		HaveField("Objects", 1), HaveField("Events", int64(2)), HaveField("Lists", int64(1)), HaveField("Disconnects", int64(0)), HaveField("ResourceVersion", Not(BeEmpty()))))
	h.Release("one", configMaps, h.ns)
	h.Expect(h.State(configMaps.gvr(), h.ns)).To(Equal(Live), "another holder remains")
	for range 20 { // release and acquire immediately: the end of one informer must not affect the next
		h.Release("two", configMaps, h.ns)
		h.Acquire("two", configMaps, h.ns)
	}
	h.Eventually(h.informerState(configMaps, h.ns), "10s", "10ms").Should(Equal(Live))
	h.Expect(h.sink.len(configMaps)).To(Equal(1))
	h.Release("two", configMaps, h.ns)
	h.Expect(h.Informers()).To(BeEmpty())
	h.Eventually(func() int { return h.sink.len(configMaps) }, "5s", "10ms").Should(BeZero())
}

// testReconnectAfterDisconnect breaks all connections. The state changes immediately, and objects that were deleted
// meanwhile are removed before the state is Live again.
func testReconnectAfterDisconnect(h *fixture) {
	ctx := h.Context()
	h.Acquire("test", configMaps, h.ns)
	h.Eventually(h.informerState(configMaps, h.ns), "10s", "10ms").Should(Equal(Live))
	for n := range 4 {
		name := fmt.Sprintf("there-%d", n)
		_, err := h.kube.CoreV1().ConfigMaps(h.ns).Create(ctx, h.configMap(name), metav1.CreateOptions{})
		h.Expect(err).NotTo(HaveOccurred())
		h.Eventually(func() runtime.Object { return h.sink.get(configMaps, h.ns+"/"+name) }, "5s", "5ms").ShouldNot(BeNil())
		h.dialer.disconnect(true)
		h.Eventually(h.informerState(configMaps, h.ns), "2s", "1ms").Should(Equal(Stale))
		h.Expect(h.kube.CoreV1().ConfigMaps(h.ns).Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
		h.Expect(h.sink.get(configMaps, h.ns+"/"+name)).NotTo(BeNil(), "known objects are kept while stale")
		h.dialer.disconnect(false)
		h.Eventually(h.informerState(configMaps, h.ns), "10s", "1ms").Should(Equal(Live))
		h.Expect(h.sink.get(configMaps, h.ns+"/"+name)).To(BeNil(), "a deleted object remains although the state is Live")
	}
	h.Expect(h.Informers()[0].Message).To(BeEmpty())
}

func testForbiddenUntilGranted(h *fixture) {
	ctx := h.Context()
	h.Acquire("test", pods, "")
	h.Eventually(h.informerState(pods, ""), "10s", "10ms").Should(Equal(Forbidden))
	h.Expect(h.Informers()[0].Message).To(ContainSubstring("the center is not allowed to list pods; add this permission to its ClusterRole"))
	role, err := h.kube.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "watcher"},
		Rules: []rbacv1.PolicyRule{{Verbs: []string{"list", "watch"}, APIGroups: []string{""}, Resources: []string{"pods"}}}}, metav1.CreateOptions{})
	h.Expect(err).NotTo(HaveOccurred())
	_, err = h.kube.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "watcher"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "watcher"}}}, metav1.CreateOptions{})
	h.Expect(err).NotTo(HaveOccurred())
	h.Eventually(h.informerState(pods, ""), "10s", "10ms").Should(Equal(Live))
	_, err = h.kube.CoreV1().ServiceAccounts(h.ns).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
	h.Expect(err).NotTo(HaveOccurred())
	_, err = h.kube.CoreV1().Pods(h.ns).Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "web:1"}}, AutomountServiceAccountToken: new(false)}}, metav1.CreateOptions{})
	h.Expect(err).NotTo(HaveOccurred())
	h.Eventually(func() runtime.Object { return h.sink.get(pods, h.ns+"/web") }, "5s", "10ms").Should(BeAssignableToTypeOf(&corev1.Pod{}))
	h.Expect(h.kube.RbacV1().ClusterRoleBindings().Delete(ctx, "watcher", metav1.DeleteOptions{})).To(Succeed())
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: "watcher", ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "list", Resource: "pods"}}}
	h.Eventually(func() (bool, error) {
		r, err := h.kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		return err == nil && r.Status.Allowed, err
	}, "10s", "10ms").Should(BeFalse())
	h.dialer.disconnect(false)
	h.Eventually(h.informerState(pods, ""), "10s", "10ms").Should(Equal(Forbidden))
	h.Expect(h.sink.len(pods)).To(BeZero(), "objects without read permission must be removed")
}

func testCRDLifecycle(h *fixture) {
	ctx := h.Context()
	ext, err := apiextensions.NewForConfig(h.plane.Config)
	h.Expect(err).NotTo(HaveOccurred())
	d, err := dynamic.NewForConfig(h.plane.Config)
	h.Expect(err).NotTo(HaveOccurred())
	h.FollowCustomKinds(allKinds{})
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "widgets.example.com"}, Spec: apiextensionsv1.CustomResourceDefinitionSpec{
		Group: "example.com", Scope: apiextensionsv1.NamespaceScoped, Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Kind: "Widget"},
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true,
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"}}}},
	}}
	for range 3 {
		_, err = ext.ApiextensionsV1().CustomResourceDefinitions().Create(ctx, crd.DeepCopy(), metav1.CreateOptions{})
		h.Expect(err).NotTo(HaveOccurred())
		one := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "one"}}}
		h.Eventually(func() error {
			_, err := d.Resource(widgets.gvr()).Namespace(h.ns).Create(ctx, one, metav1.CreateOptions{})
			return err
		}, "10s", "50ms").Should(Succeed())
		h.Eventually(func() runtime.Object { return h.sink.get(widgets, h.ns+"/one") }, "5s", "10ms").ShouldNot(BeNil(), "within 5 s")
		h.Expect(ext.ApiextensionsV1().CustomResourceDefinitions().Delete(ctx, crd.Name, metav1.DeleteOptions{})).To(Succeed())
		h.Eventually(h.informerState(widgets, ""), "10s", "10ms").Should(BeEmpty(), "the informer must stop")
		h.Eventually(func() int { return h.sink.len(widgets) }, "5s", "10ms").Should(BeZero())
		h.Eventually(func() error {
			_, err := ext.ApiextensionsV1().CustomResourceDefinitions().Get(ctx, crd.Name, metav1.GetOptions{})
			return err
		}, "10s", "50ms").ShouldNot(Succeed())
	}
}

// allKinds selects every kind.
type allKinds struct{}

func (allKinds) Defined(*apiextensionsv1.CustomResourceDefinition, Kind) bool { return true }
func (allKinds) Removed(Kind)                                                 {}

package registry

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
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

// shelf is a sink that remembers.
type shelf struct {
	mu      sync.Mutex
	objects map[string]map[string]runtime.Object
}

func (s *shelf) on(kind string, f func(map[string]runtime.Object)) {
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

func (s *shelf) Replace(kind schema.GroupVersionKind, _ string, all []runtime.Object) {
	s.on(kind.Kind, func(m map[string]runtime.Object) {
		clear(m)
		for _, o := range all {
			id := idOf(o)
			m[id] = o
		}
	})
}

func (s *shelf) Set(o runtime.Object) {
	id := idOf(o)
	s.on(o.GetObjectKind().GroupVersionKind().Kind, func(m map[string]runtime.Object) { m[id] = o })
}

func (s *shelf) Delete(o runtime.Object) {
	id := idOf(o)
	s.on(o.GetObjectKind().GroupVersionKind().Kind, func(m map[string]runtime.Object) { delete(m, id) })
}

func (s *shelf) Len(kind schema.GroupKind, _ string) (n int) {
	s.on(kind.Kind, func(m map[string]runtime.Object) { n = len(m) })
	return n
}

func idOf(o runtime.Object) string {
	m := o.(metav1.Object)
	return m.GetNamespace() + "/" + m.GetName()
}

func (s *shelf) get(k Kind, id string) (o runtime.Object) {
	s.on(k.Kind, func(m map[string]runtime.Object) { o = m[id] })
	return o
}

func (s *shelf) len(k Kind) (n int) {
	s.on(k.Kind, func(m map[string]runtime.Object) { n = len(m) })
	return n
}

// wires are the connections of a client, which can be cut.
type wires struct {
	mu    sync.Mutex
	conns map[net.Conn]bool
	down  bool
}

func (w *wires) dial(ctx context.Context, network, address string) (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.down {
		return nil, fmt.Errorf("the wire is cut")
	}
	c, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err == nil {
		w.conns[c] = true
	}
	return c, err
}

// cut breaks all connections; until they may come back if down.
func (w *wires) cut(down bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down = down
	for c := range w.conns {
		_ = c.Close()
	}
	clear(w.conns)
}

// hall is a registry at work.
type hall struct {
	*testing.T
	*WithT
	*Registry
	plane *controlplane.Plane
	kube  kubernetes.Interface
	shelf *shelf
	wires *wires
	ns    string
}

func newHall(t *testing.T, plane *controlplane.Plane, config *rest.Config) *hall {
	t.Helper()
	h := &hall{T: t, WithT: NewWithT(t), plane: plane, shelf: &shelf{}, wires: &wires{conns: map[net.Conn]bool{}}, ns: testutil.Namespace(t, plane.Config)}
	var err error
	h.kube, err = kubernetes.NewForConfig(plane.Config)
	h.Expect(err).NotTo(HaveOccurred())
	config = rest.CopyConfig(config)
	config.Dial = h.wires.dial
	h.Registry, err = New(Options{Config: config, Sink: h.shelf, Again: 2 * time.Second})
	h.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); h.Registry.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return h
}

func (h *hall) state(kind Kind, ns string) func() State {
	return func() State { return h.State(kind.resource(), ns) }
}

var (
	pods       = Kind{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Pod"), Resource: "pods", Form: Typed}
	configMaps = Kind{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("ConfigMap"), Resource: "configmaps", Form: Named}
	widgets    = Kind{GroupVersionKind: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}, Resource: "widgets"}
)

func (h *hall) configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: h.ns, Name: name}, Data: map[string]string{"secret": "of the map"}}
}

func TestRegistry(t *testing.T) {
	plane := testutil.ControlPlane(t, controlplane.Options{NoControllerManager: true})
	t.Run("follows and forgets", func(t *testing.T) { follows(newHall(t, plane, plane.Config)) })
	t.Run("says when it is cut off", func(t *testing.T) { cutOff(newHall(t, plane, plane.Config)) })
	t.Run("waits for rights", func(t *testing.T) {
		config, err := plane.ConfigFor("watcher")
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		rights(newHall(t, plane, config))
	})
	t.Run("kinds come and go", func(t *testing.T) { kinds(newHall(t, plane, plane.Config)) })
}

func follows(h *hall) {
	ctx := h.Context()
	_, err := h.kube.CoreV1().ConfigMaps(h.ns).Create(ctx, h.configMap("before"), metav1.CreateOptions{})
	h.Expect(err).NotTo(HaveOccurred())
	h.Want("one", configMaps, h.ns)
	h.Want("two", configMaps, h.ns)
	h.Eventually(h.state(configMaps, h.ns), "10s", "10ms").Should(Equal(Live))
	h.Expect(h.shelf.get(configMaps, h.ns+"/before")).To(BeAssignableToTypeOf(&metav1.PartialObjectMetadata{}), "without what is in it")
	h.Expect(h.shelf.get(configMaps, h.ns+"/before").GetObjectKind().GroupVersionKind().Kind).To(Equal("ConfigMap"))
	_, err = h.kube.CoreV1().ConfigMaps(h.ns).Create(ctx, h.configMap("after"), metav1.CreateOptions{})
	h.Expect(err).NotTo(HaveOccurred())
	h.Eventually(func() int { return h.shelf.len(configMaps) }, "5s", "10ms").Should(Equal(2))
	h.Expect(h.kube.CoreV1().ConfigMaps(h.ns).Delete(ctx, "before", metav1.DeleteOptions{})).To(Succeed())
	h.Eventually(func() runtime.Object { return h.shelf.get(configMaps, h.ns+"/before") }, "5s", "10ms").Should(BeNil())
	h.Eventually(func() Status { return h.Informers()[0] }, "5s", "10ms").Should(And(
		HaveField("Objects", 1), HaveField("Events", int64(2)), HaveField("Lists", int64(1)), HaveField("Cuts", int64(0)), HaveField("ResourceVersion", Not(BeEmpty()))))
	h.Release("one", configMaps, h.ns)
	h.Expect(h.State(configMaps.resource(), h.ns)).To(Equal(Live), "somebody still wants it")
	for range 20 { // let go and wanted again at once: the end of one is not the end of the next
		h.Release("two", configMaps, h.ns)
		h.Want("two", configMaps, h.ns)
	}
	h.Eventually(h.state(configMaps, h.ns), "10s", "10ms").Should(Equal(Live))
	h.Expect(h.shelf.len(configMaps)).To(Equal(1))
	h.Release("two", configMaps, h.ns)
	h.Expect(h.Informers()).To(BeEmpty())
	h.Eventually(func() int { return h.shelf.len(configMaps) }, "5s", "10ms").Should(BeZero())
}

// cutOff breaks the wire: it is said at once, and what went meanwhile is not there when the
// registry says Live.
func cutOff(h *hall) {
	ctx := h.Context()
	h.Want("test", configMaps, h.ns)
	h.Eventually(h.state(configMaps, h.ns), "10s", "10ms").Should(Equal(Live))
	for n := range 4 {
		name := fmt.Sprintf("there-%d", n)
		_, err := h.kube.CoreV1().ConfigMaps(h.ns).Create(ctx, h.configMap(name), metav1.CreateOptions{})
		h.Expect(err).NotTo(HaveOccurred())
		h.Eventually(func() runtime.Object { return h.shelf.get(configMaps, h.ns+"/"+name) }, "5s", "5ms").ShouldNot(BeNil())
		h.wires.cut(true)
		h.Eventually(h.state(configMaps, h.ns), "2s", "1ms").Should(Equal(Stale))
		h.Expect(h.kube.CoreV1().ConfigMaps(h.ns).Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
		h.Expect(h.shelf.get(configMaps, h.ns+"/"+name)).NotTo(BeNil(), "what was known is shown, as stale")
		h.wires.cut(false)
		h.Eventually(h.state(configMaps, h.ns), "10s", "1ms").Should(Equal(Live))
		h.Expect(h.shelf.get(configMaps, h.ns+"/"+name)).To(BeNil(), "it is gone, and the registry says Live")
	}
	h.Expect(h.Informers()[0].Message).To(BeEmpty())
}

func rights(h *hall) {
	ctx := h.Context()
	h.Want("test", pods, "")
	h.Eventually(h.state(pods, ""), "10s", "10ms").Should(Equal(Forbidden))
	h.Expect(h.Informers()[0].Message).To(ContainSubstring("the center may not list pods; give its ClusterRole this right"))
	role, err := h.kube.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "watcher"},
		Rules: []rbacv1.PolicyRule{{Verbs: []string{"list", "watch"}, APIGroups: []string{""}, Resources: []string{"pods"}}}}, metav1.CreateOptions{})
	h.Expect(err).NotTo(HaveOccurred())
	_, err = h.kube.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "watcher"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "watcher"}}}, metav1.CreateOptions{})
	h.Expect(err).NotTo(HaveOccurred())
	h.Eventually(h.state(pods, ""), "10s", "10ms").Should(Equal(Live))
	_, err = h.kube.CoreV1().ServiceAccounts(h.ns).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
	h.Expect(err).NotTo(HaveOccurred())
	_, err = h.kube.CoreV1().Pods(h.ns).Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "web:1"}}, AutomountServiceAccountToken: new(false)}}, metav1.CreateOptions{})
	h.Expect(err).NotTo(HaveOccurred())
	h.Eventually(func() runtime.Object { return h.shelf.get(pods, h.ns+"/web") }, "5s", "10ms").Should(BeAssignableToTypeOf(&corev1.Pod{}))
	h.Expect(h.kube.RbacV1().ClusterRoleBindings().Delete(ctx, "watcher", metav1.DeleteOptions{})).To(Succeed())
	time.Sleep(time.Second) // the API server notices
	h.wires.cut(false)
	h.Eventually(h.state(pods, ""), "10s", "10ms").Should(Equal(Forbidden))
	h.Expect(h.shelf.len(pods)).To(BeZero(), "what may not be read is not kept")
}

func kinds(h *hall) {
	ctx := h.Context()
	ext, err := apiextensions.NewForConfig(h.plane.Config)
	h.Expect(err).NotTo(HaveOccurred())
	d, err := dynamic.NewForConfig(h.plane.Config)
	h.Expect(err).NotTo(HaveOccurred())
	h.WantCustom(func(Kind) bool { return true })
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
			_, err := d.Resource(widgets.resource()).Namespace(h.ns).Create(ctx, one, metav1.CreateOptions{})
			return err
		}, "10s", "50ms").Should(Succeed())
		h.Eventually(func() runtime.Object { return h.shelf.get(widgets, h.ns+"/one") }, "5s", "10ms").ShouldNot(BeNil(), "within 5 s")
		h.Expect(ext.ApiextensionsV1().CustomResourceDefinitions().Delete(ctx, crd.Name, metav1.DeleteOptions{})).To(Succeed())
		h.Eventually(h.state(widgets, ""), "10s", "10ms").Should(BeEmpty(), "its informer is stopped")
		h.Eventually(func() int { return h.shelf.len(widgets) }, "5s", "10ms").Should(BeZero())
		h.Eventually(func() error {
			_, err := ext.ApiextensionsV1().CustomResourceDefinitions().Get(ctx, crd.Name, metav1.GetOptions{})
			return err
		}, "10s", "50ms").ShouldNot(Succeed())
	}
}

package actions_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/center/actions"
)

// serveFakeLogs writes the logs of a container, or endless lines if the tail is 7.
func serveFakeLogs(out http.ResponseWriter, r *http.Request, _, container string) {
	q := r.URL.Query()
	fmt.Fprintf(out, "2026-01-02T03:04:05.1Z begins\n2026-01-02T03:04:05.2Z %s, tail %s previous %s\n", container, q.Get("tailLines"), q.Get("previous"))
	for q.Get("tailLines") == "7" && r.Context().Err() == nil {
		fmt.Fprintf(out, "2026-01-02T03:04:05.3Z %s\n", strings.Repeat("x", 1000))
	}
}

// syncBuffer is a buffer that can be read during writes.
type syncBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (o *syncBuffer) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.Buffer.Write(b)
}

func (o *syncBuffer) text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.String()
}

func testLogs(w *world) {
	w.StartFakeKubelet(serveFakeLogs)
	w.createStack("logged", specV1)
	ref, ctx := w.ref("AppStack", "logged"), w.Context()
	var pods corev1.PodList
	w.Expect(w.List(ctx, &pods, client.InNamespace(w.NS), client.MatchingLabels{appsapi.LabelInstance: "logged"})).To(Succeed())
	w.Expect(pods.Items).To(HaveLen(2))

	var out syncBuffer
	w.Expect(w.reader.Logs(ctx, ref, actions.LogOptions{Tail: new(int64(3))}, actions.TextOutput(&out, false))).To(Succeed())
	w.Expect(out.text()).To(MatchRegexp(`^db/0 \S+  begins\ndb/0 \S+  \S+, tail 3 previous \nweb/\S+ \S+  begins\nweb/`))
	out.Reset()
	w.Expect(w.reader.Logs(ctx, w.ref("Pod", pods.Items[0].Name), actions.LogOptions{}, actions.JSONOutput(&out, true))).To(Succeed())
	w.Expect(out.text()).To(ContainSubstring(`{"pod":"` + pods.Items[0].Name + `","container":"`))
	w.Expect(out.text()).To(ContainSubstring(`"time":"2026-01-02T03:04:05.1Z","text":"begins"}`))
	out.Reset()
	w.Expect(w.reader.Logs(ctx, ref, actions.LogOptions{Component: "web"}, actions.TextOutput(&out, true))).To(Succeed())
	w.Expect(out.text()).NotTo(ContainSubstring("db/"))
	w.Expect(out.text()).To(ContainSubstring("  2026-01-02T03:04:05.1Z begins"))
	out.Reset()
	w.Expect(w.reader.Logs(ctx, ref, actions.LogOptions{Previous: true}, actions.TextOutput(&out, true))).To(Succeed())
	w.Expect(out.text()).To(Equal("# no container was restarted; omit previous to get the current logs\n"))
	out.Reset()
	w.Expect(w.reader.Logs(ctx, ref, actions.LogOptions{Limits: actions.LogLimits{Containers: 1}}, actions.TextOutput(&out, false))).To(Succeed())
	w.Expect(out.text()).To(HaveSuffix("# read 1 of 2 containers; select a component or a container\n"))

	expectError(w, w.unprivileged.Logs(ctx, ref, actions.LogOptions{}, actions.TextOutput(&out, false)), actions.Forbidden, 403, `cannot get resource "appstacks"`)
	expectError(w, w.unprivileged.Logs(ctx, w.ref("Pod", "x"), actions.LogOptions{}, actions.TextOutput(&out, false)), actions.Forbidden, 403, `cannot get resource "pods"`)
	expectError(w, w.reader.Logs(ctx, w.ref("Pod", "x"), actions.LogOptions{}, actions.TextOutput(&out, false)), actions.NotFound, 404)
	expectError(w, w.reader.Logs(ctx, ref, actions.LogOptions{Component: "webb"}, actions.TextOutput(&out, false)), actions.Invalid, 422, "it has db, web")
	w.testLogLimits(ref)
	w.testFollowLogs(ref, pods.Items[0].Name)
	w.testFollowEndsWhenAccessIsRevoked(ref)
}

// testFollowEndsWhenAccessIsRevoked revokes the permission of a caller that follows logs.
func (w *world) testFollowEndsWhenAccessIsRevoked(ref actions.Ref) {
	revoked := w.caller("former", readRules...)
	var out syncBuffer
	ended := make(chan error, 1)
	go func() {
		ended <- revoked.Logs(w.Context(), ref, actions.LogOptions{Follow: true, RecheckInterval: 100 * time.Millisecond}, actions.TextOutput(&out, false))
	}()
	w.Eventually(out.text, "20s", "20ms").Should(ContainSubstring(", tail "))
	w.Consistently(ended, "500ms").ShouldNot(Receive(), "the stream ended although the permission exists")
	w.Expect(w.Delete(w.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: w.NS, Name: "former"}})).To(Succeed())
	var err error
	w.Eventually(ended, "10s").Should(Receive(&err))
	expectError(w, err, actions.Forbidden, 403, "permission to get pods/log in namespace "+w.NS+" was revoked")
	w.Expect(out.text()).To(HaveSuffix("# " + err.Error() + "\n"))
}

// testLogLimits reads a container with endless logs.
func (w *world) testLogLimits(ref actions.Ref) {
	var out syncBuffer
	start := time.Now()
	limits := actions.LogLimits{BytesPerSecond: 100_000, Bytes: 200_000}
	w.Expect(w.reader.Logs(w.Context(), ref, actions.LogOptions{Tail: new(int64(7)), Component: "web", Limits: limits}, actions.TextOutput(&out, false))).To(Succeed())
	took := time.Since(start)
	w.Expect(out.text()).To(ContainSubstring("truncated after 200000 bytes; request fewer lines"))
	w.Expect(took).To(And(BeNumerically(">", 900*time.Millisecond), BeNumerically("<", 10*time.Second)))
	w.Logf("endless log: %d bytes in %s", len(out.text()), took.Round(time.Millisecond))
}

func (w *world) testFollowLogs(ref actions.Ref, pod string) {
	for _, target := range []actions.Ref{ref, w.ref("Pod", pod)} {
		before := runtime.NumGoroutine()
		var out syncBuffer
		ctx, stop := context.WithCancel(w.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- w.reader.Logs(ctx, target, actions.LogOptions{Follow: true}, actions.TextOutput(&out, false))
		}()
		w.Eventually(out.text, "20s", "20ms").Should(ContainSubstring(", tail "))
		stop()
		w.Eventually(ended, "5s").Should(Receive(BeNil()))
		w.Eventually(runtime.NumGoroutine, "10s", "50ms").Should(BeNumerically("<=", before+2), "leaked goroutines")
	}
}

// testObjectsAreRedacted reads all objects that contain canaries.
func testObjectsAreRedacted(w *world) {
	const applied = `{"stringData":{"p":"canary-applied"}}`
	in := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: w.NS, Name: name, Annotations: map[string]string{"kubectl.kubernetes.io/last-applied-configuration": applied}}
	}
	cm := &appsapi.CloudManager{ObjectMeta: in("product")}
	cm.Annotations[appsapi.DefaultKeys.Trial] = "true" // for rootPass
	cm.Spec.Front.Deployment.Image, cm.Spec.Identity.Deployment.Image = "front:1", "identity:1"
	cm.Spec.DB.StatefulSet.Image, cm.Spec.DB.RootPass = "mariadb:11", "canary-root"
	cm.Spec.DB.StatefulSet.Storage.Size.Set(1 << 30)
	service := &appsapi.AppService{ObjectMeta: in("web")}
	service.Spec.Image, service.Spec.Env = "web:1", []corev1.EnvVar{{Name: "API_TOKEN", Value: "canary-env"}, {Name: "DSN", Value: "mysql://root:canary-dsn@db/x"}}
	service.Spec.Args = []string{"--password", "canary-arg", "--token=canary-token"}
	for _, o := range []client.Object{
		&corev1.Secret{ObjectMeta: in("secret"), StringData: map[string]string{"password": "canary-secret"}},
		&corev1.ConfigMap{ObjectMeta: in("config"), Data: map[string]string{"app.ini": "password=canary-config"}}, cm, service,
	} {
		w.Expect(w.Create(w.Context(), o)).To(Succeed())
	}
	w.WaitReady(service)
	w.WaitReady(cm)
	resource := func(group, version, name string) schema.GroupVersionResource {
		return schema.GroupVersionResource{Group: group, Version: version, Resource: name}
	}
	var pods corev1.PodList
	w.Expect(w.List(w.Context(), &pods, client.InNamespace(w.NS), client.MatchingLabels{appsapi.LabelInstance: "web"})).To(Succeed())
	for _, o := range []struct {
		resource schema.GroupVersionResource
		name     string
		has      string // expected content
	}{
		{resource("", "v1", "secrets"), "secret", `"kind":"Secret"`},
		{resource("", "v1", "configmaps"), "config", `"app.ini":"(omitted: `},
		{resource("", "v1", "pods"), pods.Items[0].Name, `"name":"API_TOKEN","value":"(hidden)"`},
		{resource("apps", "v1", "deployments"), "web", `"name":"API_TOKEN","value":"(hidden)"`},
		{resource("apps", "v1", "statefulsets"), "product-db", `"kind":"StatefulSet"`},
		{resource("apps.holdfast.dev", "v1alpha1", "cloudmanagers"), "product", `"rootPass":"(hidden)"`},
		{resource("apps.holdfast.dev", "v1alpha1", "appservices"), "web", `"image":"web:1"`},
	} {
		for _, managers := range []bool{false, true} {
			got, err := w.editor.Object(w.Context(), o.resource, w.NS, o.name, actions.ObjectOptions{ManagedFields: managers})
			w.Expect(err).NotTo(HaveOccurred())
			expectNoCanary(w, o.resource, got)
			content, err := json.Marshal(got)
			w.Expect(err).NotTo(HaveOccurred())
			w.Expect(string(content)).To(ContainSubstring(o.has))
			w.Expect(strings.Contains(string(content), `"managedFields"`)).To(Equal(managers), "%s", content)
		}
	}
	get := func(c *actions.Caller, r schema.GroupVersionResource, name string) error {
		_, err := c.Object(w.Context(), r, w.NS, name, actions.ObjectOptions{})
		return err
	}
	expectError(w, get(w.reader, resource("", "v1", "secrets"), "secret"), actions.Forbidden, 403, `cannot get resource "secrets"`)
	expectError(w, get(w.unprivileged, resource("", "v1", "pods"), "x"), actions.Forbidden, 403)
	expectError(w, get(w.editor, resource("", "v1", "pods"), "x"), actions.NotFound, 404, "pods "+w.NS+"/x")
	expectError(w, get(w.editor, resource("", "v1", "pods/x/../../secrets"), "secret"), actions.Invalid, 422)
	expectError(w, get(w.editor, resource("", "v1", "pods"), ""), actions.Invalid, 422)
}

func testCheckSecrets(w *world) {
	names := []string{"nothing", "secret", "secret"}
	got, err := w.editor.CheckSecrets(w.Context(), w.NS, names)
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(got).To(Equal([]actions.SecretCheck{{Name: "nothing", Presence: actions.Absent}, {Name: "secret", Presence: actions.Present}}))
	got, err = w.reader.CheckSecrets(w.Context(), w.NS, names)
	w.Expect(err).NotTo(HaveOccurred())
	for _, f := range got {
		w.Expect(f.Presence).To(Equal(actions.Unknown))
		w.Expect(f.Message).To(ContainSubstring(`cannot get resource "secrets"`))
	}
	_, err = w.editor.CheckSecrets(w.Context(), w.NS, []string{"../pods/x"})
	expectError(w, err, actions.Invalid, 422)
}

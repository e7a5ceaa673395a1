package act_test

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
	"github.com/holdfast-dev/holdfast/internal/center/act"
)

// twoLines are what each container has written, or lines without an end if the tail is 7.
func twoLines(out http.ResponseWriter, r *http.Request, _, container string) {
	q := r.URL.Query()
	fmt.Fprintf(out, "2026-01-02T03:04:05.1Z begins\n2026-01-02T03:04:05.2Z %s, tail %s previous %s\n", container, q.Get("tailLines"), q.Get("previous"))
	for q.Get("tailLines") == "7" && r.Context().Err() == nil {
		fmt.Fprintf(out, "2026-01-02T03:04:05.3Z %s\n", strings.Repeat("x", 1000))
	}
}

// output is safe to look at while somebody writes.
type output struct {
	mu sync.Mutex
	bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.Buffer.Write(b)
}

func (o *output) text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.String()
}

func logsOfPods(w *world) {
	w.PlayKubelet(twoLines)
	w.stack("logged", first)
	ref, ctx := w.ref("AppStack", "logged"), w.Context()
	var pods corev1.PodList
	w.Expect(w.List(ctx, &pods, client.InNamespace(w.NS), client.MatchingLabels{appsapi.LabelInstance: "logged"})).To(Succeed())
	w.Expect(pods.Items).To(HaveLen(2))

	var out output
	w.Expect(w.reader.Logs(ctx, ref, act.LogOptions{Tail: new(int64(3))}, act.Text(&out, false))).To(Succeed())
	w.Expect(out.text()).To(MatchRegexp(`^db/0 \S+  begins\ndb/0 \S+  \S+, tail 3 previous \nweb/\S+ \S+  begins\nweb/`))
	out.Reset()
	w.Expect(w.reader.Logs(ctx, w.ref("Pod", pods.Items[0].Name), act.LogOptions{}, act.JSON(&out, true))).To(Succeed())
	w.Expect(out.text()).To(ContainSubstring(`{"pod":"` + pods.Items[0].Name + `","container":"`))
	w.Expect(out.text()).To(ContainSubstring(`"time":"2026-01-02T03:04:05.1Z","text":"begins"}`))
	out.Reset()
	w.Expect(w.reader.Logs(ctx, ref, act.LogOptions{Component: "web"}, act.Text(&out, true))).To(Succeed())
	w.Expect(out.text()).NotTo(ContainSubstring("db/"))
	w.Expect(out.text()).To(ContainSubstring("  2026-01-02T03:04:05.1Z begins"))
	out.Reset()
	w.Expect(w.reader.Logs(ctx, ref, act.LogOptions{Previous: true}, act.Text(&out, true))).To(Succeed())
	w.Expect(out.text()).To(Equal("# no container was restarted; ask for what it writes now\n"))
	out.Reset()
	w.Expect(w.reader.Logs(ctx, ref, act.LogOptions{Limits: act.LogLimits{Containers: 1}}, act.Text(&out, false))).To(Succeed())
	w.Expect(out.text()).To(HaveSuffix("# read 1 of 2 containers; choose a component or a container\n"))

	fails(w, w.nobody.Logs(ctx, ref, act.LogOptions{}, act.Text(&out, false)), act.Forbidden, 403, `cannot get resource "appstacks"`)
	fails(w, w.nobody.Logs(ctx, w.ref("Pod", "x"), act.LogOptions{}, act.Text(&out, false)), act.Forbidden, 403, `cannot get resource "pods"`)
	fails(w, w.reader.Logs(ctx, w.ref("Pod", "x"), act.LogOptions{}, act.Text(&out, false)), act.NotFound, 404)
	fails(w, w.reader.Logs(ctx, ref, act.LogOptions{Component: "webb"}, act.Text(&out, false)), act.Invalid, 422, "it has db, web")
	w.boundedLogs(ref)
	w.followedLogs(ref, pods.Items[0].Name)
	w.takenLogs(ref)
}

// takenLogs takes the right away from somebody who follows.
func (w *world) takenLogs(ref act.Ref) {
	former := w.caller("former", read...)
	var out output
	ended := make(chan error, 1)
	go func() {
		ended <- former.Logs(w.Context(), ref, act.LogOptions{Follow: true, RecheckEvery: 100 * time.Millisecond}, act.Text(&out, false))
	}()
	w.Eventually(out.text, "20s", "20ms").Should(ContainSubstring(", tail "))
	w.Consistently(ended, "500ms").ShouldNot(Receive(), "who may follow is cut off")
	w.Expect(w.Delete(w.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: w.NS, Name: "former"}})).To(Succeed())
	var err error
	w.Eventually(ended, "10s").Should(Receive(&err))
	fails(w, err, act.Forbidden, 403, "you may not get pods/log in namespace "+w.NS+" any more")
	w.Expect(out.text()).To(HaveSuffix("# " + err.Error() + "\n"))
}

// boundedLogs reads a container that never stops writing.
func (w *world) boundedLogs(ref act.Ref) {
	var out output
	began := time.Now()
	limits := act.LogLimits{BytesPerSecond: 100_000, Bytes: 200_000}
	w.Expect(w.reader.Logs(w.Context(), ref, act.LogOptions{Tail: new(int64(7)), Component: "web", Limits: limits}, act.Text(&out, false))).To(Succeed())
	took := time.Since(began)
	w.Expect(out.text()).To(ContainSubstring("end here after 200000 bytes; ask for fewer lines"))
	w.Expect(took).To(And(BeNumerically(">", 900*time.Millisecond), BeNumerically("<", 10*time.Second)))
	w.Logf("an endless log: %d bytes in %s", len(out.text()), took.Round(time.Millisecond))
}

func (w *world) followedLogs(ref act.Ref, pod string) {
	for _, of := range []act.Ref{ref, w.ref("Pod", pod)} {
		before := runtime.NumGoroutine()
		var out output
		ctx, stop := context.WithCancel(w.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.reader.Logs(ctx, of, act.LogOptions{Follow: true}, act.Text(&out, false)) }()
		w.Eventually(out.text, "20s", "20ms").Should(ContainSubstring(", tail "))
		stop()
		w.Eventually(ended, "5s").Should(Receive(BeNil()))
		w.Eventually(runtime.NumGoroutine, "10s", "50ms").Should(BeNumerically("<=", before+2), "goroutines are left behind")
	}
}

// objects reads everything that has canaries in it.
func objects(w *world) {
	const applied = `{"stringData":{"p":"canary-applied"}}`
	in := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: w.NS, Name: name, Annotations: map[string]string{"kubectl.kubernetes.io/last-applied-configuration": applied}}
	}
	cm := &appsapi.CloudManager{ObjectMeta: in("product")}
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
	w.BecomesReady(service)
	w.BecomesReady(cm)
	resource := func(group, version, name string) schema.GroupVersionResource {
		return schema.GroupVersionResource{Group: group, Version: version, Resource: name}
	}
	var pods corev1.PodList
	w.Expect(w.List(w.Context(), &pods, client.InNamespace(w.NS), client.MatchingLabels{appsapi.LabelInstance: "web"})).To(Succeed())
	for _, o := range []struct {
		resource schema.GroupVersionResource
		name     string
		has      string // what stays
	}{
		{resource("", "v1", "secrets"), "secret", `"kind":"Secret"`},
		{resource("", "v1", "configmaps"), "config", `"app.ini":"(left out: `},
		{resource("", "v1", "pods"), pods.Items[0].Name, `"name":"API_TOKEN","value":"(hidden)"`},
		{resource("apps", "v1", "deployments"), "web", `"name":"API_TOKEN","value":"(hidden)"`},
		{resource("apps", "v1", "statefulsets"), "product-db", `"kind":"StatefulSet"`},
		{resource("apps.holdfast.dev", "v1alpha1", "cloudmanagers"), "product", `"rootPass":"(hidden)"`},
		{resource("apps.holdfast.dev", "v1alpha1", "appservices"), "web", `"image":"web:1"`},
	} {
		for _, managers := range []bool{false, true} {
			got, err := w.editor.Object(w.Context(), o.resource, w.NS, o.name, act.ObjectOptions{Managers: managers})
			w.Expect(err).NotTo(HaveOccurred())
			hasNoCanary(w, o.resource, got)
			content, err := json.Marshal(got)
			w.Expect(err).NotTo(HaveOccurred())
			w.Expect(string(content)).To(ContainSubstring(o.has))
			w.Expect(strings.Contains(string(content), `"managedFields"`)).To(Equal(managers), "%s", content)
		}
	}
	get := func(c *act.Caller, r schema.GroupVersionResource, name string) error {
		_, err := c.Object(w.Context(), r, w.NS, name, act.ObjectOptions{})
		return err
	}
	fails(w, get(w.reader, resource("", "v1", "secrets"), "secret"), act.Forbidden, 403, `cannot get resource "secrets"`)
	fails(w, get(w.nobody, resource("", "v1", "pods"), "x"), act.Forbidden, 403)
	fails(w, get(w.editor, resource("", "v1", "pods"), "x"), act.NotFound, 404, "pods "+w.NS+"/x")
	fails(w, get(w.editor, resource("", "v1", "pods/x/../../secrets"), "secret"), act.Invalid, 422)
	fails(w, get(w.editor, resource("", "v1", "pods"), ""), act.Invalid, 422)
}

func exists(w *world) {
	names := []string{"nothing", "secret", "secret"}
	got, err := w.editor.Exists(w.Context(), w.NS, names)
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(got).To(Equal([]act.Found{{Name: "nothing", Presence: act.Absent}, {Name: "secret", Presence: act.Present}}))
	got, err = w.reader.Exists(w.Context(), w.NS, names)
	w.Expect(err).NotTo(HaveOccurred())
	for _, f := range got {
		w.Expect(f.Presence).To(Equal(act.Unknown))
		w.Expect(f.Why).To(ContainSubstring(`cannot get resource "secrets"`))
	}
	_, err = w.editor.Exists(w.Context(), w.NS, []string{"../pods/x"})
	fails(w, err, act.Invalid, 422)
}

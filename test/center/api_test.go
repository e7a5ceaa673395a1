package center

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/center"
	"github.com/holdfast-dev/holdfast/internal/center/authz"
	"github.com/holdfast-dev/holdfast/internal/center/httpapi"
	"github.com/holdfast-dev/holdfast/internal/center/sse"
	"github.com/holdfast-dev/holdfast/internal/center/sse/sseclient"
	"github.com/holdfast-dev/holdfast/internal/inspect/wire"
	"github.com/holdfast-dev/holdfast/internal/testutil/harness"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
	"github.com/holdfast-dev/holdfast/internal/testutil/podsim"
)

// testCenter is a center with its HTTP API.
type testCenter struct {
	*testing.T
	*center.Center
	url  string
	kube kubernetes.Interface
}

func startCenter(t *testing.T, config *rest.Config, authzOptions authz.Options) *testCenter {
	t.Helper()
	return startLimitedCenter(t, config, authzOptions, sse.Options{MaxClients: 6000, MaxClientsPerUser: 6000, MaxClientsPerTenant: 6000})
}

func startLimitedCenter(t *testing.T, config *rest.Config, authzOptions authz.Options, hubOptions sse.Options) *testCenter {
	t.Helper()
	c, err := center.NewCenter(center.Options{Config: config}, authzOptions, hubOptions, "test")
	if err != nil {
		t.Fatal(err)
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(c.Handler())
	server.Config.ReadHeaderTimeout = httpapi.NewHTTPServer(nil).ReadHeaderTimeout
	server.Start()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() { defer close(done); c.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done; server.Close() })
	eventually(t, 20*time.Second, func() error {
		if !c.Registry.Synced() || len(c.Registry.Informers()) < 20 {
			return fmt.Errorf("informers have not synced: %v", c.Registry.Informers())
		}
		return nil
	})
	return &testCenter{T: t, Center: c, url: server.URL, kube: kube}
}

// createUser creates a ServiceAccount with rules in namespaces ("" means all namespaces) and returns its token.
func (h *testCenter) createUser(name, namespace string, rules map[string][]rbacv1.PolicyRule) string {
	h.Helper()
	ctx := h.Context()
	must := func(err error) {
		if err != nil {
			h.Fatal(err)
		}
	}
	_, err := h.kube.CoreV1().ServiceAccounts(namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	must(err)
	subjects := []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: name}}
	for ns, r := range rules {
		meta := metav1.ObjectMeta{Name: namespace + "-" + name}
		if ns == "" {
			_, err = h.kube.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: r}, metav1.CreateOptions{})
			must(err)
			_, err = h.kube.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: meta, Subjects: subjects,
				RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name}}, metav1.CreateOptions{})
		} else {
			_, err = h.kube.RbacV1().Roles(ns).Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: r}, metav1.CreateOptions{})
			must(err)
			_, err = h.kube.RbacV1().RoleBindings(ns).Create(ctx, &rbacv1.RoleBinding{ObjectMeta: meta, Subjects: subjects,
				RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name}}, metav1.CreateOptions{})
		}
		must(err)
	}
	t, err := h.kube.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	must(err)
	return t.Status.Token
}

func rule(verbs string, group string, resources ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: strings.Split(verbs, ","), APIGroups: []string{group}, Resources: resources}
}

var allRules = []rbacv1.PolicyRule{
	{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}, {Verbs: []string{"*"}, NonResourceURLs: []string{"*"}},
}

// do sends a request and returns the response.
func (h *testCenter) do(method, token, path, body string) (int, []byte) {
	h.Helper()
	req, err := http.NewRequestWithContext(h.Context(), method, h.url+path, strings.NewReader(body))
	if err != nil {
		h.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	req.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(req)
	if err != nil {
		h.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		h.Fatal(err)
	}
	return response.StatusCode, text
}

// get sends a GET request and decodes the response into out.
func (h *testCenter) get(token, path string, out any) int {
	h.Helper()
	code, body := h.do(http.MethodGet, token, path, "")
	if out != nil && code == http.StatusOK {
		if err := json.Unmarshal(body, out); err != nil {
			h.Fatalf("%s: %v\n%s", path, err, body)
		}
	}
	if code != http.StatusOK {
		h.Logf("%s: %d %s", path, code, strings.TrimSpace(string(body)))
	}
	return code
}

// post sends a POST request.
func (h *testCenter) post(token, path, body string) int {
	h.Helper()
	code, text := h.do(http.MethodPost, token, path, body)
	h.Logf("%s %s: %d %s", path, body, code, strings.TrimSpace(string(text)))
	return code
}

// openStream keeps a stream open until the test ends.
func (h *testCenter) openStream(token, topics string) *sseclient.Client {
	c := &sseclient.Client{Connect: func(ctx context.Context, lastID string) (*http.Response, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.url+"/api/v1/stream?topics="+url.QueryEscape(topics), http.NoBody)
		if err != nil {
			return nil, err
		}
		req.Header.Set("Authorization", "Bearer "+token)
		if lastID != "" {
			req.Header.Set("Last-Event-ID", lastID)
		}
		return http.DefaultClient.Do(req)
	}}
	ctx, cancel := context.WithCancel(h.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = c.Run(ctx) }()
	h.Cleanup(func() { cancel(); <-done })
	return c
}

// TestAPI creates and breaks an application, and checks the responses for users with different permissions.
func TestAPI(t *testing.T) {
	t.Parallel() // measurements run first, one at a time
	s := harness.New(t, harness.BehaviorByTag(map[string]podsim.Behavior{"crash": podsim.CrashLoop(3)}), operator.Options{NoRace: true})
	w := s.NewWorld(t)
	h := startCenter(t, s.Plane.Config, authz.Options{})
	h.expectStaysReady()
	admin := h.createUser("admin", w.NS, map[string][]rbacv1.PolicyRule{"": allRules})
	tenant := h.createUser("tenant", w.NS, map[string][]rbacv1.PolicyRule{w.NS: {rule("get,list,watch", appsapi.GroupVersion.Group, "*"), rule("get,list,watch", "apps", "*")}})
	stranger := h.createUser("stranger", w.NS, nil)
	app := &appsapi.AppStack{ObjectMeta: metav1.ObjectMeta{Namespace: w.NS, Name: "shop"}}
	if err := yaml.UnmarshalStrict([]byte(stackSpec), &app.Spec); err != nil {
		t.Fatal(err)
	}
	path := "/api/v1/applications/AppStack/" + w.NS + "/shop"
	adminStream, tenantStream := h.openStream(admin, "applications,application/AppStack/"+w.NS+"/shop"), h.openStream(tenant, "applications,application/AppStack/"+w.NS+"/shop")
	if err := w.Create(t.Context(), app); err != nil {
		t.Fatal(err)
	}
	w.WaitReady(app)
	t.Run("list", func(t *testing.T) {
		for token, want := range map[string]int{admin: 1, tenant: 1, stranger: 0} {
			eventually(t, 5*time.Second, func() error {
				var list httpapi.ApplicationList
				if code := h.get(token, "/api/v1/applications?q=shop&health=Healthy", &list); code != 200 || len(list.Items) != want || list.Total != want {
					return fmt.Errorf("%d: %+v, want %d", code, list, want)
				}
				return nil
			})
		}
	})
	t.Run("tree", func(t *testing.T) {
		var all, some wire.Application
		h.get(admin, path+"/tree", &all)
		h.get(tenant, path+"/tree", &some)
		if got := kindsOf(all.Components); !slices.Contains(got, "Pod") || !slices.Contains(got, "PersistentVolumeClaim") || len(all.HiddenKinds) > 0 {
			t.Errorf("%v, hidden %v", got, all.HiddenKinds)
		}
		if got := kindsOf(some.Components); slices.Contains(got, "Pod") || !slices.Contains(got, "Deployment") || !slices.Contains(some.HiddenKinds, "Pod") {
			t.Errorf("%v, hidden %v", got, some.HiddenKinds)
		}
	})
	crash := []byte(`[{"op":"replace","path":"/spec/components/1/service/image","value":"shop/web:crash"}]`)
	if err := w.Patch(t.Context(), app, client.RawPatch(types.JSONPatchType, crash)); err != nil {
		t.Fatal(err)
	}
	t.Run("why", func(t *testing.T) {
		eventually(t, 20*time.Second, func() error {
			var all, some wire.Application
			h.get(admin, path+"/why", &all)
			h.get(tenant, path+"/why", &some)
			if len(all.Causes) == 0 || all.Causes[0].Code != "CrashLoop" || len(some.Causes) != 0 {
				return fmt.Errorf("%+v and %+v", all.Causes, some.Causes)
			}
			return nil
		})
	})
	t.Run("history", func(t *testing.T) {
		var all, some httpapi.History
		h.get(admin, path+"/history", &all)
		h.get(tenant, path+"/history", &some)
		text, _ := json.Marshal(all)
		for _, want := range []string{`"type":"CauseOpened"`, `"code":"CrashLoop"`, `"path":"spec.components[web].service.image"`, `"new":"shop/web:crash"`} {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s is missing in %s", want, text)
			}
		}
		if text, _ := json.Marshal(some); strings.Contains(string(text), "CrashLoop") || !slices.Contains(some.Hidden, "Pod") {
			t.Errorf("%s", text)
		}
	})
	t.Run("find", func(t *testing.T) {
		var all, some httpapi.FindResult
		h.get(admin, "/api/v1/find?image="+url.QueryEscape("shop/web:crash"), &all)
		h.get(tenant, "/api/v1/find?image="+url.QueryEscape("shop/web:crash"), &some)
		kinds := func(f httpapi.FindResult) (out []string) {
			for _, i := range f.Items {
				out = append(out, i.Kind)
			}
			return slices.Compact(out)
		}
		if got := kinds(all); !slices.Equal(got, []string{"Deployment", "Pod", "ReplicaSet"}) {
			t.Errorf("%v", got)
		}
		if got := kinds(some); !slices.Equal(got, []string{"Deployment", "ReplicaSet"}) {
			t.Errorf("%v", got)
		}
	})
	t.Run("stream", func(t *testing.T) {
		eventually(t, 10*time.Second, func() error {
			all, some := countEvents(adminStream), countEvents(tenantStream)
			if all["why"] != 1 || all["cause"] == 0 || all["node"] < 8 || some["why"] != 0 || some["cause"] != 0 || some["application"] != 2 || some["node"] == 0 || some["node"] >= all["node"] {
				return fmt.Errorf("%v and %v", all, some)
			}
			return nil
		})
	})
	t.Run("without permission", func(t *testing.T) {
		for _, p := range []string{"/api/v1/applications", path, path + "/why", path + "/tree", path + "/history", "/api/v1/find?node=n", "/api/v1/center", "/api/v1/stream", "/api/none"} {
			if code := h.get("", p, nil); code != http.StatusUnauthorized {
				t.Errorf("got %d for %s without a token", code, p)
			}
			if code := h.get("nonsense", p, nil); code != http.StatusUnauthorized {
				t.Errorf("got %d for %s with an invalid token", code, p)
			}
		}
		for p, want := range map[string]int{path: 404, path + "/history": 404, "/api/v1/center": 403, "/api/v1/find?x=y": 400, "/api/v1/applications?limit=0": 400, "/api/none": 404} {
			if code := h.get(stranger, p, nil); code != want {
				t.Errorf("got %d for %s without permissions, want %d", code, p, want)
			}
		}
	})
	t.Run("actions", func(t *testing.T) {
		for i, want := range []int{403, 403, 200} { // the permitted user is last, because the action has an effect only once
			if code := h.post([]string{tenant, stranger, admin}[i], path+"/scale", `{"component":"web","replicas":3}`); code != want {
				t.Errorf("scale: %d, want %d", code, want)
			}
		}
		if err := w.Get(t.Context(), client.ObjectKeyFromObject(app), app); err != nil || *app.Spec.Components[1].Service.Replicas != 3 {
			t.Errorf("%v, %v", app.Spec.Components[1].Service.Replicas, err)
		}
		for body, want := range map[string]int{`{"revision":77}`: 422, `{"nonsense":1}`: 400, ``: 400, `{"dryRun":true}`: 200} {
			if code := h.post(admin, path+"/rollback", body); code != want {
				t.Errorf("rollback %s: %d, want %d", body, code, want)
			}
		}
		if code := h.post(admin, path+"/explode", `{}`); code != 404 {
			t.Errorf("explode: %d", code)
		}
	})
	t.Run("object", func(t *testing.T) {
		object := "/api/v1/objects/deployments/shop-web?group=apps&namespace=" + w.NS
		for token, want := range map[string]int{admin: 200, tenant: 200, stranger: 403} {
			if code := h.get(token, object, nil); code != want {
				t.Errorf("%d, want %d", code, want)
			}
		}
		if code := h.get(tenant, "/api/v1/objects/pods/x?namespace="+w.NS, nil); code != 403 {
			t.Errorf("a pod: %d", code)
		}
		for token, want := range map[string]int{tenant: 403, stranger: 403} {
			if code := h.get(token, "/api/v1/logs/AppStack/"+w.NS+"/shop?tail=10", nil); code != want {
				t.Errorf("logs: %d, want %d", code, want)
			}
		}
	})
	t.Run("status", func(t *testing.T) {
		var e httpapi.CenterStatus
		if code := h.get(admin, "/api/v1/center", &e); code != 200 || e.Applications == 0 || len(e.Informers) < 20 || e.Hub.Clients != 2 {
			t.Errorf("%d: %+v", code, e)
		}
	})
	t.Run("metrics", func(t *testing.T) {
		for token, want := range map[string]int{"": 401, tenant: 403, admin: 200} {
			code, text := h.do(http.MethodGet, token, "/metrics", "")
			if code != want || want == 200 && !strings.Contains(string(text), "\nholdfast_center_stream_clients 2\n") {
				t.Errorf("%d, want %d: %s", code, want, text)
			}
		}
	})
	if err := w.Delete(t.Context(), app); err != nil {
		t.Fatal(err)
	}
	t.Run("deleted", func(t *testing.T) {
		eventually(t, 20*time.Second, func() error {
			if all := countEvents(adminStream); len(all) > 0 || h.get(admin, path, nil) != 404 {
				return fmt.Errorf("still there: %v", all)
			}
			return nil
		})
	})
}

// expectStaysReady checks until the test ends that informers that start later do not make the center unready.
func (h *testCenter) expectStaysReady() {
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(h.Context())
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if !h.Ready() {
				h.Error("the center became unready")
				return
			}
			time.Sleep(time.Millisecond) // poll interval
		}
	}()
	h.Cleanup(func() { cancel(); <-done })
}

func kindsOf(components []wire.Component) []string {
	var out []string
	var walk func([]wire.Node)
	walk = func(all []wire.Node) {
		for _, n := range all {
			out = append(out, n.Kind)
			walk(n.Children)
		}
	}
	for _, c := range components {
		walk(c.Tree)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func countEvents(c *sseclient.Client) map[string]int {
	out := map[string]int{}
	for _, e := range c.Entries() {
		out[e.Event]++
	}
	return out
}

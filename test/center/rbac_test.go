package center

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/center/authz"
	"github.com/holdfast-dev/holdfast/internal/center/httpapi"
	"github.com/holdfast-dev/holdfast/internal/center/publish"
	"github.com/holdfast-dev/holdfast/internal/inspect/wire"
	"github.com/holdfast-dev/holdfast/internal/testutil"
	"github.com/holdfast-dev/holdfast/internal/testutil/harness"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
	"github.com/holdfast-dev/holdfast/internal/testutil/podsim"
)

// resourceOf maps kinds to resources for kubectl auth can-i.
var resourceOf = map[string][2]string{
	"AppStack": {appsapi.GroupVersion.Group, "appstacks"}, "Deployment": {"apps", "deployments"}, "StatefulSet": {"apps", "statefulsets"},
	"ReplicaSet": {"apps", "replicasets"}, "Pod": {"", "pods"}, "Service": {"", "services"}, "PersistentVolumeClaim": {"", "persistentvolumeclaims"},
	"PersistentVolume": {"", "persistentvolumes"}, "ConfigMap": {"", "configmaps"}, "Secret": {"", "secrets"}, "PodDisruptionBudget": {"policy", "poddisruptionbudgets"},
	"ServiceAccount": {"", "serviceaccounts"}, "Node": {"", "nodes"}, "log of a Pod": {"", "pods/log"},
}

// shownObject is an object that a user received, with the endpoint and the namespace of its application.
type shownObject struct{ endpoint, appNamespace, kind, namespace, name string }

// testUser is a user with random permissions.
type testUser struct {
	name, token string
	kube        kubernetes.Interface
	decisions   map[string]bool
}

// canI returns the result of kubectl auth can-i.
func (v *testUser) canI(t *testing.T, verb, kind, namespace string) bool {
	t.Helper()
	r, ok := resourceOf[kind]
	if !ok {
		t.Fatalf("unknown resource of kind %s", kind)
	}
	key := strings.Join([]string{verb, r[0], r[1], namespace}, " ")
	if allowed, ok := v.decisions[key]; ok {
		return allowed
	}
	resource, subresource, _ := strings.Cut(r[1], "/")
	review, err := v.kube.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: verb, Group: r[0], Resource: resource, Subresource: subresource, Namespace: namespace,
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	v.decisions[key] = review.Status.Allowed
	return v.decisions[key]
}

// maySee reports whether a user should see an object, according to kubectl auth can-i.
func (v *testUser) maySee(t *testing.T, x shownObject) bool {
	t.Helper()
	switch x.endpoint {
	case "object":
		return v.canI(t, "get", x.kind, x.namespace)
	case "logs": // kubectl also gets the pod first
		return v.canI(t, "get", x.kind, x.namespace) && v.canI(t, "get", "log of a Pod", x.namespace)
	case "find":
		return v.canI(t, "list", x.kind, x.namespace)
	}
	// Objects are visible only through a visible application.
	return v.canI(t, "list", x.kind, x.namespace) && v.canI(t, "list", "AppStack", x.appNamespace)
}

// TestVisibilityMatchesRBAC requests all endpoints as users with random permissions, and compares each visible
// object with kubectl auth can-i.
func TestVisibilityMatchesRBAC(t *testing.T) {
	t.Parallel() // measurements run first, one at a time
	users := 4
	if os.Getenv("HOLDFAST_LONG") != "" {
		users = 20
	}
	s := harness.New(t, harness.BehaviorByTag(map[string]podsim.Behavior{"crash": podsim.CrashLoop(3)}), operator.Options{NoRace: true})
	w := s.NewWorld(t)
	h := startCenter(t, s.Plane.Config, authz.Options{})
	w.StartFakeKubelet(func(out http.ResponseWriter, _ *http.Request, pod, _ string) {
		_, _ = fmt.Fprintf(out, "2026-01-02T03:04:05.1Z %s works\n", pod)
	})
	namespaces := []string{w.NS}
	for range 3 {
		namespaces = append(namespaces, testutil.Namespace(t, s.Plane.Config))
	}
	for _, ns := range namespaces {
		app := &appsapi.AppStack{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "shop"}}
		if err := yaml.UnmarshalStrict([]byte(strings.ReplaceAll(stackSpec, "shop/web:1", "shop/web:crash")), &app.Spec); err != nil {
			t.Fatal(err)
		}
		if err := w.Create(t.Context(), app); err != nil {
			t.Fatal(err)
		}
	}
	admin := h.createUser("admin", w.NS, map[string][]rbacv1.PolicyRule{"": allRules})
	var all map[shownObject]bool
	eventually(t, 60*time.Second, func() error {
		before := all
		all = h.collectShown(t, admin, namespaces)
		if len(all) != len(before) {
			return fmt.Errorf("%d and then %d objects are visible: the cluster is still changing", len(before), len(all))
		}
		byEndpoint := map[string]int{}
		for x := range all {
			byEndpoint[x.endpoint]++
		}
		if byEndpoint["list"] < 2*len(namespaces) || byEndpoint["why"] < len(namespaces) || byEndpoint["history"] < len(namespaces) || byEndpoint["tree"] < 50 {
			return fmt.Errorf("the cluster has not reached its final state: %v", byEndpoint)
		}
		return nil
	})
	h.readObjects(t, all, admin, maps.Clone(all))
	rng := rand.New(rand.NewPCG(*seed, 0)) //nolint:gosec // reproducible
	checked, shown, wrong := 0, 0, 0
	for i := range users {
		v := h.randomUser(t, rng, s.Plane.Config, fmt.Sprint("user-", i), namespaces)
		got := h.collectShown(t, v.token, namespaces)
		h.readObjects(t, got, v.token, all)
		for x := range all {
			checked++
			want := v.maySee(t, x)
			if got[x] {
				shown++
			}
			if got[x] != want {
				wrong++
				t.Errorf("%s: %v shown: %t, may: %t", v.name, x, got[x], want)
			}
		}
		for x := range got {
			if !all[x] && x.endpoint != "history" { // the history may grow meanwhile
				t.Errorf("%s sees %v, which the administrator does not see", v.name, x)
			}
		}
	}
	t.Logf("%d users, %d objects, %d endpoints: %d checks, %d visible; mismatches with kubectl auth can-i: %d", users, len(all), 8, checked,
		shown, wrong)
	t.Run("canaries", func(t *testing.T) { h.testNoSecretsExposed(t, w.ForTest(t), admin) })
	if os.Getenv("HOLDFAST_LONG") != "" {
		h.testRevokedAccess(t, namespaces[1]) // has one application
	}
}

// testRevokedAccess revokes a permission while a stream is open.
func (h *testCenter) testRevokedAccess(t *testing.T, ns string) {
	t.Helper()
	token := h.createUser("former", ns, map[string][]rbacv1.PolicyRule{ns: {rule("list", appsapi.GroupVersion.Group, "*"), rule("list", "", "pods")}})
	c := h.openStream(token, "applications")
	eventually(t, 10*time.Second, func() error {
		if got := countEvents(c); got["application"] != 1 || got["why"] != 1 {
			return fmt.Errorf("seen: %v", got)
		}
		return nil
	})
	if err := h.kube.RbacV1().RoleBindings(ns).Delete(t.Context(), ns+"-former", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	eventually(t, 60*time.Second, func() error {
		if got := countEvents(c); len(got) > 0 {
			return fmt.Errorf("still seen: %v", got)
		}
		return nil
	})
	t.Logf("an open stream used a revoked permission for %.0f s", time.Since(start).Seconds())
}

// randomUser creates a user with random permissions.
func (h *testCenter) randomUser(t *testing.T, rng *rand.Rand, config *rest.Config, name string, namespaces []string) *testUser {
	t.Helper()
	rules := map[string][]rbacv1.PolicyRule{}
	for _, ns := range append([]string{""}, namespaces...) {
		percent := 60 // percent
		if ns == "" {
			percent = 10
		}
		for _, kind := range slices.Sorted(maps.Keys(resourceOf)) { // reproducible
			r := resourceOf[kind]
			if rng.IntN(100) < percent || kind == "AppStack" && ns != "" && rng.IntN(4) > 0 {
				verbs := []string{"get,list", "get,list", "get", "list"}
				rules[ns] = append(rules[ns], rule(verbs[rng.IntN(len(verbs))], r[0], r[1]))
			}
		}
	}
	v := &testUser{name: name, token: h.createUser(name, namespaces[0], rules), decisions: map[string]bool{}}
	userConfig := rest.AnonymousClientConfig(config)
	userConfig.BearerToken = v.token
	var err error
	if v.kube, err = kubernetes.NewForConfig(userConfig); err != nil {
		t.Fatal(err)
	}
	return v
}

// collectShown returns all objects that a user receives from all endpoints.
func (h *testCenter) collectShown(t *testing.T, token string, namespaces []string) map[shownObject]bool {
	t.Helper()
	out := map[shownObject]bool{}
	var list httpapi.ApplicationList
	h.getOrNotFound(t, token, "/api/v1/applications?kind=AppStack", &list)
	for _, i := range list.Items {
		out[shownObject{"list", i.App.Namespace, i.App.Kind, i.App.Namespace, i.App.Name}] = true
		if i.Cause != nil {
			out[shownObject{"list", i.App.Namespace, i.Cause.Object.Kind, i.Cause.Object.Namespace, i.Cause.Object.Name}] = true
		}
	}
	var topics []string
	for _, ns := range namespaces {
		path := "/api/v1/applications/AppStack/" + ns + "/shop"
		topics = append(topics, "application/AppStack/"+ns+"/shop")
		var tree, why wire.Application
		var history httpapi.History
		h.getOrNotFound(t, token, path+"/tree", &tree)
		h.getOrNotFound(t, token, path+"/why", &why)
		h.getOrNotFound(t, token, path+"/history", &history)
		for _, c := range tree.Components {
			addNodes(out, "tree", ns, c.Tree)
		}
		for _, c := range why.Causes {
			out[shownObject{"why", ns, c.Object.Kind, c.Object.Namespace, c.Object.Name}] = true
		}
		for _, e := range history.Entries {
			out[shownObject{"history", ns, e.Object.Kind, e.Object.Namespace, e.Object.Name}] = true
		}
	}
	var found httpapi.FindResult
	h.getOrNotFound(t, token, "/api/v1/find?image="+url.QueryEscape("shop/web:crash"), &found)
	for _, i := range found.Items {
		out[shownObject{"find", i.Namespace, i.Kind, i.Namespace, i.Name}] = true
	}
	h.collectStreamed(t, out, token, topics)
	return out
}

// readObjects requests each object of the trees and the logs of the pods.
func (h *testCenter) readObjects(t *testing.T, out map[shownObject]bool, token string, all map[shownObject]bool) {
	t.Helper()
	code := func(path string) int {
		c, body := h.do(http.MethodGet, token, path, "")
		if c != 200 && c != 403 {
			t.Fatalf("%s: %d %s", path, c, body)
		}
		return c
	}
	for x := range all {
		if x.endpoint != "tree" {
			continue
		}
		r := resourceOf[x.kind]
		q := url.Values{"group": {r[0]}, "namespace": {x.namespace}}
		if x.kind == "AppStack" {
			q.Set("version", appsapi.GroupVersion.Version)
		}
		if code("/api/v1/objects/"+r[1]+"/"+x.name+"?"+q.Encode()) == 200 {
			out[shownObject{"object", x.appNamespace, x.kind, x.namespace, x.name}] = true
		}
		if x.kind == "Pod" && code("/api/v1/logs/Pod/"+x.namespace+"/"+x.name) == 200 {
			out[shownObject{"logs", x.appNamespace, x.kind, x.namespace, x.name}] = true
		}
	}
}

func (h *testCenter) collectStreamed(t *testing.T, out map[shownObject]bool, token string, topics []string) {
	t.Helper()
	for _, topic := range topics { // one stream per topic, because a rejected topic rejects the whole stream
		c := h.openStream(token, topic)
		time.Sleep(300 * time.Millisecond) // no event marks the last object
		for _, e := range c.Entries() {
			if e.Event != "node" {
				continue
			}
			var n publish.NodeEntry
			if err := json.Unmarshal(e.Body, &n); err != nil {
				t.Fatal(err)
			}
			out[shownObject{"stream", strings.Split(topic, "/")[2], n.Kind, n.Namespace, n.Name}] = true
		}
	}
}

func addNodes(out map[shownObject]bool, endpoint, appNamespace string, all []wire.Node) {
	for _, n := range all {
		out[shownObject{endpoint, appNamespace, n.Kind, n.Namespace, n.Name}] = true
		addNodes(out, endpoint, appNamespace, n.Children)
	}
}

// getOrNotFound is get that accepts a NotFound response.
func (h *testCenter) getOrNotFound(t *testing.T, token, path string, into any) {
	t.Helper()
	if code := h.get(token, path, into); code != 200 && code != 404 {
		t.Fatalf("%s: %d", path, code)
	}
}

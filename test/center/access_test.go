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
	"github.com/holdfast-dev/holdfast/internal/answer"
	"github.com/holdfast-dev/holdfast/internal/center/access"
	"github.com/holdfast-dev/holdfast/internal/center/feed"
	"github.com/holdfast-dev/holdfast/internal/center/web"
	"github.com/holdfast-dev/holdfast/internal/testutil"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
	"github.com/holdfast-dev/holdfast/internal/testutil/podsim"
	"github.com/holdfast-dev/holdfast/internal/testutil/stage"
)

// resourceOf is what kubectl would be asked about a kind.
var resourceOf = map[string][2]string{
	"AppStack": {appsapi.GroupVersion.Group, "appstacks"}, "Deployment": {"apps", "deployments"}, "StatefulSet": {"apps", "statefulsets"},
	"ReplicaSet": {"apps", "replicasets"}, "Pod": {"", "pods"}, "Service": {"", "services"}, "PersistentVolumeClaim": {"", "persistentvolumeclaims"},
	"PersistentVolume": {"", "persistentvolumes"}, "ConfigMap": {"", "configmaps"}, "Secret": {"", "secrets"}, "PodDisruptionBudget": {"policy", "poddisruptionbudgets"},
	"ServiceAccount": {"", "serviceaccounts"}, "Node": {"", "nodes"}, "log of a Pod": {"", "pods/log"},
}

// thing is an object that somebody was shown, in which way and of the application of which
// namespace.
type thing struct{ way, of, kind, namespace, name string }

// visitor is a user of the matrix.
type visitor struct {
	name, token string
	kube        kubernetes.Interface
	may         map[string]bool
}

// can is what kubectl auth can-i says.
func (v *visitor) can(t *testing.T, verb, kind, namespace string) bool {
	t.Helper()
	r, ok := resourceOf[kind]
	if !ok {
		t.Fatalf("nobody knows what to ask about a %s", kind)
	}
	key := strings.Join([]string{verb, r[0], r[1], namespace}, " ")
	if yes, ok := v.may[key]; ok {
		return yes
	}
	resource, part, _ := strings.Cut(r[1], "/")
	review, err := v.kube.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: verb, Group: r[0], Resource: resource, Subresource: part, Namespace: namespace,
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	v.may[key] = review.Status.Allowed
	return v.may[key]
}

// sees is what a user should be shown, if kubectl auth can-i is right.
func (v *visitor) sees(t *testing.T, x thing) bool {
	t.Helper()
	switch x.way {
	case "object":
		return v.can(t, "get", x.kind, x.namespace)
	case "logs": // kubectl reads the pod first, too
		return v.can(t, "get", x.kind, x.namespace) && v.can(t, "get", "log of a Pod", x.namespace)
	case "find":
		return v.can(t, "list", x.kind, x.namespace)
	}
	// An application has to be seen before anything of it is.
	return v.can(t, "list", x.kind, x.namespace) && v.can(t, "list", "AppStack", x.of)
}

// TestAccess lets users with rights at random look in every way, and holds what they are shown
// against what kubectl auth can-i says of each object.
func TestAccess(t *testing.T) {
	t.Parallel() // those that measure come first, alone
	users := 4
	if os.Getenv("HOLDFAST_LONG") != "" {
		users = 20
	}
	s := stage.New(t, stage.ByTag(map[string]podsim.Behavior{"crash": podsim.CrashLoop(3)}), operator.Options{Fast: true})
	w := s.World(t)
	h := open(t, s.Plane.Config, access.Options{})
	w.PlayKubelet(func(out http.ResponseWriter, _ *http.Request, pod, _ string) {
		_, _ = fmt.Fprintf(out, "2026-01-02T03:04:05.1Z %s works\n", pod)
	})
	namespaces := []string{w.NS}
	for range 3 {
		namespaces = append(namespaces, testutil.Namespace(t, s.Plane.Config))
	}
	for _, ns := range namespaces {
		app := &appsapi.AppStack{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "shop"}}
		if err := yaml.UnmarshalStrict([]byte(strings.ReplaceAll(stack, "shop/web:1", "shop/web:crash")), &app.Spec); err != nil {
			t.Fatal(err)
		}
		if err := w.Create(t.Context(), app); err != nil {
			t.Fatal(err)
		}
	}
	admin := h.user("admin", w.NS, map[string][]rbacv1.PolicyRule{"": everything})
	var all map[thing]bool
	eventually(t, 60*time.Second, func() error {
		before := all
		all = h.shown(t, admin, namespaces)
		if len(all) != len(before) {
			return fmt.Errorf("%d and then %d are shown: things are still happening", len(before), len(all))
		}
		ways := map[string]int{}
		for x := range all {
			ways[x.way]++
		}
		if ways["list"] < 2*len(namespaces) || ways["why"] < len(namespaces) || ways["history"] < len(namespaces) || ways["tree"] < 50 {
			return fmt.Errorf("not everything has happened: %v", ways)
		}
		return nil
	})
	h.read(t, all, admin, maps.Clone(all))
	random := rand.New(rand.NewPCG(*seed, 0)) //nolint:gosec // the same every time
	checked, shown, wrong := 0, 0, 0
	for i := range users {
		v := h.visitor(t, random, s.Plane.Config, fmt.Sprint("user-", i), namespaces)
		got := h.shown(t, v.token, namespaces)
		h.read(t, got, v.token, all)
		for x := range all {
			checked++
			want := v.sees(t, x)
			if got[x] {
				shown++
			}
			if got[x] != want {
				wrong++
				t.Errorf("%s: %v shown: %t, may: %t", v.name, x, got[x], want)
			}
		}
		for x := range got {
			if !all[x] && x.way != "history" { // things happen meanwhile
				t.Errorf("%s sees %v, which nobody else does", v.name, x)
			}
		}
	}
	t.Logf("%d users, %d objects in %d ways: %d answers, %d of them yes; mismatches with kubectl auth can-i: %d", users, len(all), 8, checked, shown, wrong)
	t.Run("canaries", func(t *testing.T) { h.canaries(t, w.On(t), admin) })
	if os.Getenv("HOLDFAST_LONG") != "" {
		h.taken(t, namespaces[1]) // where there is one application
	}
}

// taken takes a right away from somebody who is looking.
func (h *house) taken(t *testing.T, ns string) {
	t.Helper()
	token := h.user("former", ns, map[string][]rbacv1.PolicyRule{ns: {may("list", appsapi.GroupVersion.Group, "*"), may("list", "", "pods")}})
	c := h.follow(token, "applications")
	eventually(t, 10*time.Second, func() error {
		if got := eventsOf(c); got["application"] != 1 || got["why"] != 1 {
			return fmt.Errorf("seen: %v", got)
		}
		return nil
	})
	if err := h.kube.RbacV1().RoleBindings(ns).Delete(t.Context(), ns+"-former", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	eventually(t, 60*time.Second, func() error {
		if got := eventsOf(c); len(got) > 0 {
			return fmt.Errorf("still seen: %v", got)
		}
		return nil
	})
	t.Logf("a right that was taken away worked for another %.0f s on an open stream", time.Since(begin).Seconds())
}

// visitor is a user with rights at random.
func (h *house) visitor(t *testing.T, random *rand.Rand, config *rest.Config, name string, namespaces []string) *visitor {
	t.Helper()
	rules := map[string][]rbacv1.PolicyRule{}
	for _, ns := range append([]string{""}, namespaces...) {
		share := 60 // percent
		if ns == "" {
			share = 10
		}
		for _, kind := range slices.Sorted(maps.Keys(resourceOf)) { // the same every time
			r := resourceOf[kind]
			if random.IntN(100) < share || kind == "AppStack" && ns != "" && random.IntN(4) > 0 {
				verbs := []string{"get,list", "get,list", "get", "list"}
				rules[ns] = append(rules[ns], may(verbs[random.IntN(len(verbs))], r[0], r[1]))
			}
		}
	}
	v := &visitor{name: name, token: h.user(name, namespaces[0], rules), may: map[string]bool{}}
	own := rest.AnonymousClientConfig(config)
	own.BearerToken = v.token
	var err error
	if v.kube, err = kubernetes.NewForConfig(own); err != nil {
		t.Fatal(err)
	}
	return v
}

// shown is everything that a user is shown, in every way.
func (h *house) shown(t *testing.T, token string, namespaces []string) map[thing]bool {
	t.Helper()
	out := map[thing]bool{}
	var list web.List
	h.ask(t, token, "/api/v1/applications?kind=AppStack", &list)
	for _, i := range list.Items {
		out[thing{"list", i.App.Namespace, i.App.Kind, i.App.Namespace, i.App.Name}] = true
		if i.Why != nil {
			out[thing{"list", i.App.Namespace, i.Why.Object.Kind, i.Why.Object.Namespace, i.Why.Object.Name}] = true
		}
	}
	var topics []string
	for _, ns := range namespaces {
		path := "/api/v1/applications/AppStack/" + ns + "/shop"
		topics = append(topics, "application/AppStack/"+ns+"/shop")
		var tree, why answer.Application
		var history web.History
		h.ask(t, token, path+"/tree", &tree)
		h.ask(t, token, path+"/why", &why)
		h.ask(t, token, path+"/history", &history)
		for _, c := range tree.Components {
			nodesOf(out, "tree", ns, c.Tree)
		}
		for _, c := range why.Causes {
			out[thing{"why", ns, c.Object.Kind, c.Object.Namespace, c.Object.Name}] = true
		}
		for _, e := range history.Entries {
			out[thing{"history", ns, e.Object.Kind, e.Object.Namespace, e.Object.Name}] = true
		}
	}
	var found web.Found
	h.ask(t, token, "/api/v1/find?image="+url.QueryEscape("shop/web:crash"), &found)
	for _, i := range found.Items {
		out[thing{"find", i.Namespace, i.Kind, i.Namespace, i.Name}] = true
	}
	h.streamed(t, out, token, topics)
	return out
}

// read asks for each object of trees by its name, and for what pods write.
func (h *house) read(t *testing.T, out map[thing]bool, token string, all map[thing]bool) {
	t.Helper()
	code := func(path string) int {
		c, body := h.do(http.MethodGet, token, path, "")
		if c != 200 && c != 403 {
			t.Fatalf("%s: %d %s", path, c, body)
		}
		return c
	}
	for x := range all {
		if x.way != "tree" {
			continue
		}
		r := resourceOf[x.kind]
		q := url.Values{"group": {r[0]}, "namespace": {x.namespace}}
		if x.kind == "AppStack" {
			q.Set("version", appsapi.GroupVersion.Version)
		}
		if code("/api/v1/objects/"+r[1]+"/"+x.name+"?"+q.Encode()) == 200 {
			out[thing{"object", x.of, x.kind, x.namespace, x.name}] = true
		}
		if x.kind == "Pod" && code("/api/v1/logs/Pod/"+x.namespace+"/"+x.name) == 200 {
			out[thing{"logs", x.of, x.kind, x.namespace, x.name}] = true
		}
	}
}

func (h *house) streamed(t *testing.T, out map[thing]bool, token string, topics []string) {
	t.Helper()
	for _, topic := range topics { // one that is refused is not to hide the others
		c := h.follow(token, topic)
		time.Sleep(300 * time.Millisecond)
		for _, e := range c.Entries() {
			if e.Event != "node" {
				continue
			}
			var n feed.Node
			if err := json.Unmarshal(e.Body, &n); err != nil {
				t.Fatal(err)
			}
			out[thing{"stream", strings.Split(topic, "/")[2], n.Kind, n.Namespace, n.Name}] = true
		}
	}
}

func nodesOf(out map[thing]bool, way, of string, all []answer.Node) {
	for _, n := range all {
		out[thing{way, of, n.Kind, n.Namespace, n.Name}] = true
		nodesOf(out, way, of, n.Children)
	}
}

// ask is get for those who may be told that there is nothing.
func (h *house) ask(t *testing.T, token, path string, into any) {
	t.Helper()
	if code := h.get(token, path, into); code != 200 && code != 404 {
		t.Fatalf("%s: %d", path, code)
	}
}

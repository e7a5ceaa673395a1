package verbs_test

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/cli/collect"
	"github.com/holdfast-dev/holdfast/internal/cli/root"
	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
	"github.com/holdfast-dev/holdfast/internal/testutil/controlplane"
	"github.com/holdfast-dev/holdfast/internal/testutil/golden"
	"github.com/holdfast-dev/holdfast/internal/testutil/harness"
)

const dependencyChain = `
components:
- {name: db, stateful: {image: "shop/db:1", storage: [{name: data, mountPath: /data, size: 1Gi}]}}
- {name: api, dependsOn: [db], service: {image: "shop/api:TAG", ports: [{port: 80}]}}
- {name: web, dependsOn: [api], service: {image: "shop/web:1"}}
`

func chainWithTag(tag string) string { return strings.Replace(dependencyChain, "TAG", tag, 1) }

func TestStatusWhyTree(t *testing.T) {
	w := newStory(t)
	w.create(chainWithTag("1"))
	w.waitReady()
	for _, verb := range []string{"status", "why", "tree"} {
		a := w.run(verb, "shop")
		w.Expect(a.code).To(Equal(0), a.out+a.errOut)
		w.Expect(a.out).To(MatchRegexp(`^AppStack %s/shop  READY for \S+  \(3 of 3 components ready\)\n`, w.NS))
	}
	w.Expect(w.mustRun("tree", "shop")).To(MatchRegexp(`(?m)^│  ├─ StatefulSet/shop-db +Healthy\n│  │  └─ Pod/shop-db-0 +Healthy$`))
	w.Expect(w.mustRun("list")).To(MatchRegexp(`^NAME  KIND      READY  COMPONENTS  AGE +MESSAGE\nshop  AppStack  True   3/3         \S+\n$`))

	w.apply(strings.Replace(chainWithTag("missing"), "shop/web:1", "shop/web:2", 1))
	w.Eventually(w.readyCondition, "60s", "50ms").Should(ContainSubstring(`Image "shop/api:missing" does not exist`))
	a := w.run("why", "shop")
	w.Expect(a.code).To(Equal(2))
	w.Expect(a.out).To(MatchRegexp(`NOT READY`))
	w.Expect(a.out).To(MatchRegexp(`(?m)^└─ web its latest change waits for api\n   └─ api Deployment/shop-api \d/1: Image "shop/api:missing" does not exist in its registry`))
	w.Expect(a.out).To(ContainSubstring("code:  ImageNotFound, since "))
	w.Expect(a.out).To(ContainSubstring("fix:   "))
	a = w.run("status", "shop", "-o", "jsonpath={.components[?(@.name==\"web\")].waitsFor[0]}")
	w.Expect(a.code).To(Equal(2))
	w.Expect(a.out).To(Equal("api\n"))
	w.Expect(w.run("tree", "shop").code).To(Equal(2))
	w.Expect(w.mustRun("list")).To(ContainSubstring(`False  1/3`))
	w.expectRequestBudget()
}

// expectRequestBudget limits the number of requests.
func (w *world) expectRequestBudget() {
	w.Helper()
	for _, verb := range []string{"status", "why", "tree"} {
		calls := w.Requests(func() { w.run(verb, "shop") }).Where(func(e *audit.Event) bool { return strings.HasPrefix(e.UserAgent, "kubectl-holdfast/") })
		w.Expect(len(calls)).To(BeNumerically("<=", collect.MaxRequests), "%s:\n%s", verb, calls.Count())
		writes := calls.Where(func(e *audit.Event) bool { return e.Verb != "get" && e.Verb != "list" })
		w.Expect(writes).To(BeEmpty(), verb)
	}
}

func TestAmbiguousAndUnknownNames(t *testing.T) {
	w := newStory(t)
	a := w.run("status", "shop")
	w.Expect(a.code).To(Equal(1))
	w.Expect(a.err).To(MatchError("application shop not found in namespace " + w.NS + "; kubectl holdfast list -A shows all applications"))
	w.create(chainWithTag("1"))
	app := &appsapi.AppService{ObjectMeta: w.meta("shop")}
	app.Labels = map[string]string{"team": "web"}
	w.Expect(yaml.UnmarshalStrict([]byte(`image: "shop/site:missing"`), &app.Spec)).To(Succeed())
	w.Expect(w.Create(w.Context(), app)).To(Succeed())
	w.waitReady()
	w.Eventually(func() string { return w.Condition(app, "Ready") }, "60s", "50ms").Should(HavePrefix("False/ComponentDegraded"))
	a = w.run("why", "shop")
	w.Expect(a.code).To(Equal(1))
	w.Expect(a.err).To(MatchError("several applications in namespace " + w.NS + " are named shop; specify the kind: appstack/shop or appservice/shop"))

	// The pods of both have the same instance label.
	w.Expect(w.mustRun("why", "appstack/shop")).To(HaveSuffix("(3 of 3 components ready)\n"))
	a = w.run("status", "appsvc", "shop")
	w.Expect(a.code).To(Equal(2))
	w.Expect(a.out).To(ContainSubstring(`NOT READY`))
	w.Expect(a.out).To(MatchRegexp(`(?m)^shop       Service  Degraded  0/1   Image "shop/site:missing" does not exist in its registry`))

	w.Expect(w.mustRun("list", "-l", "team=web", "-o", "name")).To(Equal("appservice.apps.holdfast.dev/shop\n"))
	w.Expect(w.mustRun("list", "-A")).To(MatchRegexp(`(?m)^%s +shop +AppStack +True +3/3`, w.NS))
	w.Expect(w.mustRun("list", "-A", "--no-headers", "-l", "team=none")).To(BeEmpty())
	w.Expect(w.run("list", "-l", "a b").err).To(MatchError(HaveSuffix("; use a selector such as -l team=shop")))
	w.Expect(w.run("status", "shop", "-o", "xml").err).To(MatchError(HavePrefix(`output format "xml" is not supported; use one of: table, `)))
}

func TestListByNameAndKind(t *testing.T) {
	w := newStory(t)
	w.create(chainWithTag("1"))
	other := &appsapi.AppService{ObjectMeta: w.meta("site")}
	w.Expect(yaml.UnmarshalStrict([]byte(`image: "shop/site:1"`), &other.Spec)).To(Succeed())
	w.Expect(w.Create(w.Context(), other)).To(Succeed())
	const stack, service = "appstack.apps.holdfast.dev/shop\n", "appservice.apps.holdfast.dev/site\n"
	for args, want := range map[string]string{
		"list": stack + service, "list shop": stack, "get site": service, "list appstacks": stack, "list appsvc": service,
		"list appstack shop": stack, "list appservice/site": service,
	} {
		w.Expect(w.mustRun(append(strings.Fields(args), "-o", "name")...)).To(Equal(want), args)
	}
	for _, args := range []string{"list nope", "list appservice/nope", "list appstack/site"} {
		w.Expect(w.run(strings.Fields(args)...).err).To(MatchError(HaveSuffix(" not found in namespace "+w.NS+"; kubectl holdfast list -A shows all applications")), args)
	}
}

// asUser returns the world of a user with the given permissions.
func (w *world) asUser(user string, rules ...rbacv1.PolicyRule) *world {
	w.Helper()
	role := &rbacv1.Role{ObjectMeta: w.meta(user), Rules: rules}
	binding := &rbacv1.RoleBinding{ObjectMeta: w.meta(user), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}}}
	w.Expect(w.Create(w.Context(), role)).To(Succeed())
	w.Expect(w.Create(w.Context(), binding)).To(Succeed())
	config, err := w.Plane.ConfigFor(user)
	w.Expect(err).NotTo(HaveOccurred())
	other := *w
	other.kubeconfig = filepath.Join(w.TempDir(), user)
	w.Expect(clientcmd.WriteToFile(controlplane.Kubeconfig(config), other.kubeconfig)).To(Succeed())
	return &other
}

func TestLimitedPermissions(t *testing.T) {
	w := newStory(t)
	w.create(chainWithTag("missing"))
	w.Eventually(w.readyCondition, "60s", "50ms").Should(ContainSubstring(`Image "shop/api:missing" does not exist`))
	read := []string{"get", "list"}
	applications := rbacv1.PolicyRule{APIGroups: []string{"apps.holdfast.dev"}, Resources: []string{"appstacks", "appservices", "cloudmanagers"}, Verbs: read}
	children := rbacv1.PolicyRule{APIGroups: []string{"", "apps", "policy"}, Resources: []string{"deployments", "statefulsets", "services", "poddisruptionbudgets"}, Verbs: read}
	limited := w.asUser("few", applications, children)
	limited.Eventually(func() int { return limited.run("list").code }, "60s", "100ms").Should(Equal(0)) // permissions take effect with a delay
	a := limited.run("why", "shop")
	w.Expect(a.code).To(Equal(2))
	w.Expect(a.out).To(ContainSubstring(`Image "shop/api:missing" does not exist in its registry`), "from the status")
	w.Expect(a.out).To(MatchRegexp(`(?m)^not checked: .*Pods.* \(no permission to read\)$`))
	a = limited.run("status", "shop")
	w.Expect(a.code).To(Equal(2))
	w.Expect(a.out).To(MatchRegexp(`(?m)^db         Stateful  Healthy `))
	w.Expect(a.out).To(MatchRegexp(`(?m)^not checked: EndpointSlices, Events, PersistentVolumeClaims, Pods \(no permission to read\)$`))

	minimal := w.asUser("none", applications)
	minimal.Eventually(func() int { return minimal.run("list").code }, "60s", "100ms").Should(Equal(0))
	a = minimal.run("status", "shop")
	w.Expect(a.code).To(Equal(2))
	w.Expect(a.out).To(ContainSubstring("(0 of 3 components ready, 2 not checked)"))
	w.Expect(a.out).NotTo(ContainSubstring("Healthy"))
	a = minimal.run("list", "-A")
	w.Expect(a.code).To(Equal(1))
	w.Expect(a.err).To(MatchError(HaveSuffix("; request the permission, or use another user with --as or --context")))
}

// TestPermissionForOneKind expects partial answers that name the hidden kinds.
func TestPermissionForOneKind(t *testing.T) {
	w := newStory(t)
	w.create(chainWithTag("1"))
	w.waitReady()
	stacks := w.asUser("stacks", rbacv1.PolicyRule{APIGroups: []string{"apps.holdfast.dev"}, Resources: []string{"appstacks"}, Verbs: []string{"get", "list", "watch"}})
	stacks.Eventually(func() int { return stacks.run("list").code }, "60s", "100ms").Should(Equal(0)) // permissions take effect with a delay
	a := stacks.run("list")
	w.Expect(a.out).To(ContainSubstring("shop  AppStack  True   3/3"))
	w.Expect(a.errOut).To(ContainSubstring("Not listed: AppServices: no permission to list\nNot listed: CloudManagers: no permission to list\n"))
	for _, verb := range []string{"status", "why", "tree"} {
		a := stacks.run(verb, "shop")
		w.Expect(a.code).To(Equal(0), verb+a.out+a.errOut)
		w.Expect(a.out).To(ContainSubstring("AppStack "+w.NS+"/shop  READY for "), verb)
		w.Expect(a.out).To(ContainSubstring("(no permission to read)"), verb)
	}
	stacks.mustRun("wait", "shop", "--timeout", "30s")
	w.Expect(stacks.run("status", "nope").err).To(MatchError(ContainSubstring("but you have no permission to read AppServices and CloudManagers; ")))
	for _, verb := range [][]string{{"history", "shop"}, {"logs", "shop"}, {"find", "--image", "shop"}} {
		w.Expect(stacks.run(verb...).err).To(MatchError(HaveSuffix("; request the permission, or use another user with --as or --context")), verb[0])
	}
}

// syncBuffer can be read while a command writes to it.
type syncBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func TestStatusWatch(t *testing.T) {
	w := newStory(t)
	w.create(chainWithTag("1"))
	w.waitReady()
	var out, errOut syncBuffer
	cmd := root.Command("v1.2.3")
	cmd.SetArgs([]string{"--kubeconfig", w.kubeconfig, "-n", w.NS, "status", "shop", "-w"})
	cmd.SetOut(&out)
	cmd.SetErr(&errOut)
	ctx, cancel := context.WithCancel(w.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- cmd.ExecuteContext(ctx) }()
	w.Eventually(out.String, "60s", "50ms").Should(ContainSubstring("READY"))
	w.Consistently(out.String, "1s", "100ms").ShouldNot(ContainSubstring("---"), "nothing changed")

	harness.Edit(w.World, w.stackKey(), func(s *appsapi.AppStack) { s.Spec.Components[1].Service.Image = "shop/api:missing" })
	w.Eventually(out.String, "60s", "50ms").Should(MatchRegexp(`\n--- \d\d:\d\d:\d\d\n`))
	w.Eventually(out.String, "60s", "50ms").Should(MatchRegexp(`api +Service +Degraded .*Image "shop/api:missing" does not exist`))

	w.Expect(w.Delete(w.Context(), w.stackKey())).To(Succeed())
	var err error
	w.Eventually(ended, "60s").Should(Receive(&err))
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(cli.ExitCode(err)).To(Equal(0))
	w.Expect(out.String()).To(HaveSuffix(fmt.Sprintf("AppStack %s/shop was deleted\n", w.NS)))
	w.Expect(golden.StripProgress(errOut.String())).To(BeEmpty())
	w.Expect(w.run("status", "shop", "-w").code).To(Equal(1), "the application does not exist")
}

func TestStatusWatchDuringRestart(t *testing.T) {
	w := newStory(t)
	w.create(strings.ReplaceAll(chainWithTag("1"), ":1", ":slow"))
	w.waitReady()
	var out syncBuffer
	cmd := root.Command("v1.2.3")
	cmd.SetArgs([]string{"--kubeconfig", w.kubeconfig, "-n", w.NS, "status", "shop", "-w"})
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	ctx, cancel := context.WithCancel(w.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- cmd.ExecuteContext(ctx) }()
	w.Eventually(out.String, "60s", "50ms").Should(ContainSubstring("READY"))
	w.mustRun("restart", "shop")
	w.mustRun("wait", "shop", "--timeout", "2m")
	w.Eventually(func() string { return out.String()[strings.LastIndex(out.String(), "AppStack"):] }, "60s", "50ms").Should(ContainSubstring("  READY "))
	cancel()
	w.Eventually(ended, "60s").Should(Receive())
	w.Expect(out.String()).To(ContainSubstring("NOT READY"))
	w.Expect(out.String()).NotTo(MatchRegexp(`NOT READY for \S+  \(3 of 3 components ready\)`))
}

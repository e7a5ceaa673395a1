package actions_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/yaml"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/center/actions"
	"github.com/holdfast-dev/holdfast/internal/cli/root"
	"github.com/holdfast-dev/holdfast/internal/testutil/controlplane"
	"github.com/holdfast-dev/holdfast/internal/testutil/harness"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
	"github.com/holdfast-dev/holdfast/internal/testutil/podsim"
)

// world is a real API server with the operator, and callers with real tokens.
type world struct {
	*harness.World
	kubeconfig string
	// updater can update applications, but cannot create pods.
	reader, updater, editor, unprivileged *actions.Caller
}

func TestOnAPIServer(t *testing.T) {
	if testing.Short() {
		t.Skip("needs an API server: make test-api runs it")
	}
	ctrl.SetLogger(logr.Discard()) // the client of the tests needs no log
	s := harness.New(t, func(*corev1.Pod) podsim.Behavior { return podsim.Behavior{} }, operator.Options{})
	w := &world{World: s.NewWorld(t), kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	w.Expect(clientcmd.WriteToFile(controlplane.Kubeconfig(s.Plane.Config), w.kubeconfig)).To(Succeed())
	w.reader = w.caller("reader", readRules...)
	w.updater = w.caller("updater", slices.Concat(readRules, updateRules)...)
	w.editor = w.caller("editor", append(slices.Concat(readRules, updateRules), createRules)...)
	w.unprivileged = w.caller("nobody")
	for _, test := range []struct {
		name string
		run  func(*world)
	}{
		{"MatchesPlugin", testMatchesPlugin}, {"RequiresPermission", testRequiresPermission}, {"InvalidRequests", testInvalidRequests},
		{"Rollback", testRollback}, {"Logs", testLogs}, {"Objects", testObjectsAreRedacted}, {"CheckSecrets", testCheckSecrets},
		{"APIServerDown", testAPIServerDown}, // must be last: it stops the API server
	} {
		t.Run(test.name, func(t *testing.T) {
			sub := *w
			sub.World = w.ForTest(t)
			test.run(&sub)
		})
	}
}

var (
	applicationResources = []string{"appstacks", "appservices", "cloudmanagers"}
	readRules            = []rbacv1.PolicyRule{
		{APIGroups: []string{"", "apps", "batch"}, Verbs: []string{"get", "list", "watch"}, Resources: []string{
			"pods", "pods/log", "configmaps", "deployments", "statefulsets", "jobs", "cronjobs", "controllerrevisions"}},
		{APIGroups: []string{"apps.holdfast.dev"}, Verbs: []string{"get", "list", "watch"}, Resources: applicationResources},
	}
	updateRules = []rbacv1.PolicyRule{
		{APIGroups: []string{"apps.holdfast.dev"}, Verbs: []string{"update"}, Resources: applicationResources},
		{APIGroups: []string{""}, Verbs: []string{"get"}, Resources: []string{"secrets"}},
	}
	// An admission policy requires the permissions for objects that the operator creates for the caller.
	createRules = rbacv1.PolicyRule{APIGroups: []string{"", "apps", "policy"}, Verbs: []string{"create"}, Resources: []string{
		"pods", "deployments", "statefulsets", "persistentvolumeclaims", "services", "secrets", "configmaps", "poddisruptionbudgets"}}
)

// serviceAccountConfig creates a ServiceAccount with permissions in the namespace and returns its configuration.
func (w *world) serviceAccountConfig(name string, rules ...rbacv1.PolicyRule) *rest.Config {
	w.Helper()
	objectMeta := metav1.ObjectMeta{Namespace: w.NS, Name: name}
	w.Expect(w.Create(w.Context(), &corev1.ServiceAccount{ObjectMeta: objectMeta})).To(Succeed())
	w.Expect(w.Create(w.Context(), &rbacv1.Role{ObjectMeta: objectMeta, Rules: rules})).To(Succeed())
	w.Expect(w.Create(w.Context(), &rbacv1.RoleBinding{ObjectMeta: objectMeta, Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: w.NS, Name: name}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name}})).To(Succeed())
	admin := kubernetes.NewForConfigOrDie(w.Plane.Config)
	tokenRequest, err := admin.CoreV1().ServiceAccounts(w.NS).CreateToken(w.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	w.Expect(err).NotTo(HaveOccurred())
	config := rest.AnonymousClientConfig(w.Plane.Config)
	config.BearerToken = tokenRequest.Status.Token
	for _, rule := range rules {
		resource, _, _ := strings.Cut(rule.Resources[0], "/")
		w.Eventually(func() bool { // wait for the RBAC cache of the API server
			got, err := kubernetes.NewForConfigOrDie(config).AuthorizationV1().SelfSubjectAccessReviews().Create(w.Context(), &authorizationv1.SelfSubjectAccessReview{
				Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
					Namespace: w.NS, Verb: rule.Verbs[0], Group: rule.APIGroups[0], Resource: resource}}}, metav1.CreateOptions{})
			return err == nil && got.Status.Allowed
		}, "30s", "50ms").Should(BeTrue(), "permissions of %s", name)
	}
	return config
}

func (w *world) caller(name string, rules ...rbacv1.PolicyRule) *actions.Caller {
	w.Helper()
	c, err := actions.NewCallerFactory(clock.RealClock{}).ForConfig(w.serviceAccountConfig(name, rules...))
	w.Expect(err).NotTo(HaveOccurred())
	return c
}

func (w *world) ref(kind, name string) actions.Ref {
	return actions.Ref{Kind: kind, Namespace: w.NS, Name: name}
}

// createStack creates an AppStack and waits until it is ready.
func (w *world) createStack(name, spec string) *appsapi.AppStack {
	w.Helper()
	app := &appsapi.AppStack{ObjectMeta: metav1.ObjectMeta{Namespace: w.NS, Name: name}}
	w.Expect(yaml.UnmarshalStrict([]byte(spec), &app.Spec)).To(Succeed())
	w.Expect(w.Create(w.Context(), app)).To(Succeed())
	w.WaitReady(app)
	return app
}

func (w *world) updateSpec(app *appsapi.AppStack, spec string) {
	w.Helper()
	harness.Edit(w.World, app, func(s *appsapi.AppStack) {
		s.Spec = appsapi.AppStackSpec{}
		w.Expect(yaml.UnmarshalStrict([]byte(spec), &s.Spec)).To(Succeed())
	})
	w.WaitReady(app)
}

func (w *world) spec(app *appsapi.AppStack) string {
	w.Helper()
	content, err := yaml.Marshal(harness.Find(w.World, app).Spec)
	w.Expect(err).NotTo(HaveOccurred())
	return string(content)
}

// runPlugin runs the plugin as an administrator.
func (w *world) runPlugin(args ...string) {
	w.Helper()
	var out bytes.Buffer
	cmd := root.Command("v1.2.3")
	cmd.SetArgs(append([]string{"--kubeconfig", w.kubeconfig, "-n", w.NS}, args...))
	cmd.SetOut(&out)
	cmd.SetErr(io.Discard)
	w.Expect(cmd.ExecuteContext(w.Context())).To(Succeed(), "kubectl holdfast %v\n%s", args, out.String())
}

const (
	specV1 = `components: [{name: db, stateful: {image: "shop/db:1", storage: [{name: data, mountPath: /data, size: 1Gi}]}}, {name: web, service: {image: "shop/web:1", replicas: 1, env: [{name: PASSWORD, value: canary-one}]}}]`
	specV2 = `components: [{name: db, stateful: {image: "shop/db:1", storage: [{name: data, mountPath: /data, size: 2Gi}]}}, {name: web, service: {image: "shop/web:2", replicas: 2, env: [{name: PASSWORD, value: canary-two}]}}]`
)

// testMatchesPlugin applies the same actions to two stacks, with the plugin and with the center.
func testMatchesPlugin(w *world) {
	byPlugin, byCaller := w.createStack("plugin", specV1), w.createStack("caller", specV1)
	w.updateSpec(byPlugin, specV2)
	w.updateSpec(byCaller, specV2)
	ref, ctx := w.ref("AppStack", "caller"), w.Context()
	steps := []struct {
		args []string
		do   func(dry bool) (actions.EditResult, error)
		want string
	}{
		{[]string{"restart", "plugin", "--component", "web"}, func(dry bool) (actions.EditResult, error) {
			return w.editor.Restart(ctx, ref, actions.EditOptions{Component: "web", DryRun: dry})
		}, "AppStack NS/caller restarts: web."},
		{[]string{"suspend", "plugin"}, func(dry bool) (actions.EditResult, error) {
			return w.editor.Suspend(ctx, ref, actions.EditOptions{DryRun: dry})
		},
			"AppStack NS/caller is suspended: it keeps running unchanged; drift is not corrected and updates are not applied. To resume: run action resume on AppStack NS/caller"},
		{[]string{"resume", "plugin"}, func(dry bool) (actions.EditResult, error) {
			return w.editor.Resume(ctx, ref, actions.EditOptions{DryRun: dry})
		},
			"AppStack NS/caller is no longer suspended: drift is corrected and pending changes are applied now."},
		{[]string{"scale", "plugin", "--component", "web", "--replicas", "3"}, func(dry bool) (actions.EditResult, error) {
			return w.editor.Scale(ctx, ref, 3, actions.EditOptions{Component: "web", DryRun: dry})
		}, `Component "web" of AppStack NS/caller is scaled from 2 to 3 pods. ` +
			"A manifest that sets replicas restores its own number when it is applied again; to keep this one, omit replicas there."},
		{[]string{"rollback", "plugin", "--to-revision", "1", "--yes"}, func(dry bool) (actions.EditResult, error) {
			r, err := w.editor.Rollback(ctx, ref, actions.RollbackOptions{Revision: 1, DryRun: dry})
			return r.EditResult, err
		}, "AppStack NS/caller was rolled back to revision 1."},
	}
	for _, s := range steps {
		before := w.spec(byCaller)
		dry, err := s.do(true)
		w.Expect(err).NotTo(HaveOccurred(), "%v", s.args)
		w.Expect(dry.Changed && dry.DryRun && len(dry.Changes) > 0).To(BeTrue(), "%v: %+v", s.args, dry)
		w.Expect(w.spec(byCaller)).To(Equal(before), "a dry run of %v changed the spec", s.args)
		w.runPlugin(s.args...)
		done, err := s.do(false)
		w.Expect(err).NotTo(HaveOccurred(), "%v", s.args)
		w.Expect(strings.ReplaceAll(done.Message, w.NS, "NS")).To(Equal(s.want))
		w.Expect(done.Changes).To(HaveLen(len(dry.Changes)))
		if diff := cmp.Diff(withoutRestartTimes(w.spec(byPlugin)), withoutRestartTimes(w.spec(byCaller))); diff != "" {
			w.Errorf("%v (-plugin +caller):\n%s", s.args, diff)
		}
		w.Expect(w.spec(byCaller)).NotTo(Equal(before), "%v", s.args)
		expectNoCanary(w, s.args, done)
	}
	again, err := w.editor.Resume(ctx, ref, actions.EditOptions{})
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(again.Changed).To(BeFalse())
	w.Expect(again.Changes).To(BeEmpty())
	managers := ""
	for _, m := range harness.Find(w.World, byCaller).ManagedFields {
		managers += m.Manager + " "
	}
	w.Expect(managers).To(ContainSubstring("holdfast-center"))
}

// withoutRestartTimes removes restart timestamps.
func withoutRestartTimes(spec string) string {
	var out []string
	for line := range strings.Lines(spec) {
		if strings.Contains(line, "restartRequestedAt: ") {
			line = "restartRequestedAt\n"
		}
		out = append(out, line)
	}
	return strings.Join(out, "")
}

func expectNoCanary(w *world, description any, value any) {
	w.Helper()
	content, err := json.Marshal(value)
	w.Expect(err).NotTo(HaveOccurred())
	if strings.Contains(string(content), "canary") || strings.Contains(fmt.Sprint(value), "canary") {
		w.Errorf("%v contains a canary: %s", description, content)
	}
}

// expectError checks the reason, status and message of an error.
func expectError(w *world, err error, reason actions.Reason, status int, substrings ...string) {
	w.Helper()
	var e *actions.Error
	if !errors.As(err, &e) || e.Reason != reason || e.HTTPStatus() != status {
		w.Errorf("got %v (%T), want %s", err, err, reason)
		return
	}
	for _, s := range substrings {
		w.Expect(e.Message).To(ContainSubstring(s))
	}
	w.Expect(e.Message).To(ContainSubstring("; "), "the message has no next step")
	w.Logf("%d %s", status, e.Message)
}

func testRequiresPermission(w *world) {
	app := w.createStack("guarded", specV1)
	w.updateSpec(app, specV2)
	ref, ctx := w.ref("AppStack", "guarded"), w.Context()
	w.ExpectSteadyState(app)
	before := harness.Find(w.World, app).DeepCopy()
	attempts := map[string]func(*actions.Caller) error{
		"restart": func(c *actions.Caller) error { _, err := c.Restart(ctx, ref, actions.EditOptions{}); return err },
		"suspend": func(c *actions.Caller) error { _, err := c.Suspend(ctx, ref, actions.EditOptions{}); return err },
		"scale": func(c *actions.Caller) error {
			_, err := c.Scale(ctx, ref, 5, actions.EditOptions{Component: "web"})
			return err
		},
		"rollback": func(c *actions.Caller) error {
			_, err := c.Rollback(ctx, ref, actions.RollbackOptions{Revision: 1})
			return err
		},
	}
	for name, attempt := range attempts {
		expectError(w, attempt(w.reader), actions.Forbidden, 403, "AppStack "+w.NS+"/guarded", `cannot update resource "appstacks"`, "administrator of namespace "+w.NS)
		expectError(w, attempt(w.unprivileged), actions.Forbidden, 403, `cannot get resource "appstacks"`)
		expectError(w, attempt(w.updater), actions.Forbidden, 403, "cannot create pods", "create pods, ", `. The ClusterRole "edit" contains them`)
		if diff := cmp.Diff(before.Spec, harness.Find(w.World, app).Spec); diff != "" {
			w.Errorf("%s changed something:\n%s", name, diff)
		}
	}
	w.Expect(app.ResourceVersion).To(Equal(before.ResourceVersion), "the object was written")
	dry, err := w.reader.Rollback(ctx, ref, actions.RollbackOptions{DryRun: true})
	w.Expect(err).NotTo(HaveOccurred(), "a preview requires no write permission")
	w.Expect(dry.UncheckedReason).To(ContainSubstring("cannot update"))
	expectNoCanary(w, "a preview of a rollback", dry)
	badToken, err := actions.NewCallerFactory(clock.RealClock{}).ForConfig(&rest.Config{Host: w.Plane.Config.Host, TLSClientConfig: rest.TLSClientConfig{CAData: w.Plane.Config.CAData}, BearerToken: "canary-token"})
	w.Expect(err).NotTo(HaveOccurred())
	_, err = badToken.Restart(ctx, ref, actions.EditOptions{})
	expectError(w, err, actions.Unauthenticated, 401)
	w.Expect(err.Error()).NotTo(ContainSubstring("canary"))
}

func testInvalidRequests(w *world) {
	ctx := w.Context()
	_, err := w.editor.Restart(ctx, w.ref("AppStack", "nowhere"), actions.EditOptions{})
	expectError(w, err, actions.NotFound, 404, "AppStack "+w.NS+"/nowhere")
	_, err = w.editor.Restart(ctx, w.ref("AppStack", "caller"), actions.EditOptions{Component: "webb"})
	expectError(w, err, actions.Invalid, 422, `has no component "webb"; it has db, web`)
	_, err = w.editor.Scale(ctx, w.ref("AppStack", "caller"), 2, actions.EditOptions{})
	expectError(w, err, actions.Invalid, 422, "choose one: db or web")
	_, err = w.editor.Suspend(ctx, w.ref("HelmRelease", "caller"), actions.EditOptions{})
	expectError(w, err, actions.Invalid, 422, "HelmRelease "+w.NS+"/caller is not managed by Holdfast")
	_, err = w.editor.Suspend(ctx, w.ref("AppStack", "../../secrets/x"), actions.EditOptions{})
	expectError(w, err, actions.Invalid, 422)
	_, err = w.editor.Rollback(ctx, w.ref("AppStack", "caller"), actions.RollbackOptions{Revision: 99})
	expectError(w, err, actions.Invalid, 422, "has no revision 99")
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, err = w.editor.Restart(ended, w.ref("AppStack", "caller"), actions.EditOptions{})
	w.Expect(err).To(MatchError(context.Canceled))
}

func testRollback(w *world) {
	app := w.createStack("back", specV1)
	w.updateSpec(app, specV2)
	ref, ctx := w.ref("AppStack", "back"), w.Context()
	preview, err := w.editor.Rollback(ctx, ref, actions.RollbackOptions{DryRun: true})
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(preview.Revision).To(BeEquivalentTo(1))
	w.Expect(preview.Healthy).To(BeTrue())
	w.Expect(preview.UncheckedReason).To(BeEmpty())
	var changes, retained []string
	for _, c := range preview.Changes {
		changes = append(changes, c.String())
	}
	for _, c := range preview.Retained {
		retained = append(retained, c.String())
	}
	w.Expect(changes).To(Equal([]string{"web: image shop/web:2 -> shop/web:1", "web: env[PASSWORD].value (hidden) -> (hidden)", "web: replicas 2 -> 1"}))
	w.Expect(retained).To(Equal([]string{"db: storage[data].size 1Gi -> 2Gi"}))
	harness.Edit(w.World, app, func(s *appsapi.AppStack) { s.Spec.Components[1].Service.Replicas = new(int32(1)) })
	_, err = w.editor.Rollback(ctx, ref, actions.RollbackOptions{ExpectedGeneration: preview.Generation})
	expectError(w, err, actions.Conflict, 409, "has changed since the preview")
	w.Expect(harness.Find(w.World, app).Spec.Components[1].Service.Image).To(Equal("shop/web:2"))
	done, err := w.editor.Rollback(ctx, ref, actions.RollbackOptions{Revision: 1, ExpectedGeneration: app.Generation})
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(done.Changed).To(BeTrue())
	w.Expect(harness.Find(w.World, app).Spec.Components[1].Service.Image).To(Equal("shop/web:1"))
	w.Expect(app.Spec.Components[0].Stateful.Storage[0].Size.String()).To(Equal("2Gi"))
	same, err := w.editor.Rollback(ctx, ref, actions.RollbackOptions{Revision: 1})
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(same.Changed).To(BeFalse())
}

func testAPIServerDown(w *world) {
	w.Expect(w.Plane.APIServer.Kill()).To(Succeed())
	ref, ctx := w.ref("AppStack", "caller"), w.Context()
	start := time.Now()
	_, err := w.editor.Restart(ctx, ref, actions.EditOptions{})
	expectError(w, err, actions.Unavailable, 503, "AppStack "+w.NS+"/caller")
	_, err = w.editor.CheckSecrets(ctx, w.NS, []string{"a"})
	expectError(w, err, actions.Unavailable, 503, "Secret "+w.NS+"/a")
	expectError(w, w.editor.Logs(ctx, ref, actions.LogOptions{}, actions.TextOutput(io.Discard, false)), actions.Unavailable, 503)
	w.Logf("three requests without an API server took %s", time.Since(start).Round(time.Millisecond))
}

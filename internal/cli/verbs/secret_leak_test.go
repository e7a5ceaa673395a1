package verbs_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/cli/root"
	"github.com/holdfast-dev/holdfast/internal/testutil/harness"
)

// Canaries are secret values that are searched for in all outputs.
const (
	secretCanary = "canary-secret-7f3a"
	rootCanary   = "canary-root-91c2"
	envCanary    = "canary-env-55d0"
	fileCanary   = "canary-file-c8e4"
	argCanary    = "canary-arg-20b6"
	crashCanary  = "canary-crash-6d1f"
)

// output is the output of a command.
type output struct {
	args []string
	text string
}

// canaryTest is a namespace with canaries in all objects.
type canaryTest struct {
	*world
	mu      sync.Mutex
	outputs []output
}

func TestNoVerbLeaksSecrets(t *testing.T) {
	w := newStory(t)
	a := &canaryTest{world: w}
	a.createApplications()
	a.whileWatching(func() {
		a.changeSecrets(2)
		a.runAllVerbs()
		a.changeSecrets(3)
	})
	a.checkOutputs(a.secretValues())
}

// createApplications creates a stack and a CloudManager with secrets in all fields that users put them in.
// Annotations repeat them, as with kubectl apply.
func (a *canaryTest) createApplications() {
	a.Helper()
	a.Expect(a.Create(a.Context(), a.newSecret(1))).To(Succeed())
	a.create(strings.ReplaceAll(strings.ReplaceAll(`
components:
- name: web
  service:
    image: shop/web:1
    ports: [{port: 80}]
    args: ["--api-token=ARG"]
    env: [{name: DB_PASSWORD, value: ENV-1}, {name: PASSWORD, valueFrom: {secretKeyRef: {name: app, key: password}}}]
    envFrom: [{secretRef: {name: app}}]
    volumes: [{name: keys, mountPath: /keys, secret: {name: app}}]
    config: {files: [{path: /etc/app/app.yaml, content: "password: FILE"}]}
- {name: db, stateful: {image: "shop/db:1", storage: [{name: data, mountPath: /data, size: 1Gi}]}}
- {name: broken, dependsOn: [db], service: {image: "shop/broken:crash", env: [{name: TOKEN, value: ENV-1}]}}
`, "ENV", envCanary), "ARG", argCanary))
	harness.Edit(a.World, a.stackKey(), func(s *appsapi.AppStack) {
		s.Spec.Components[0].Service.Config.Files[0].Content = "password: " + fileCanary
	})
	a.Expect(a.Create(a.Context(), a.newCloudManager(1))).To(Succeed())
	a.Eventually(a.readyCondition, "60s", "50ms").Should(HavePrefix("False/ComponentDegraded"))
	a.WaitReady(&appsapi.CloudManager{ObjectMeta: a.meta("cm")})
}

func (a *canaryTest) newSecret(n int) *corev1.Secret {
	value := fmt.Sprintf("%s-%d", secretCanary, n)
	s := &corev1.Secret{ObjectMeta: a.meta("app"), StringData: map[string]string{"password": value, "connection": "user:" + value + "@db"}}
	s.Annotations = map[string]string{"kubectl.kubernetes.io/last-applied-configuration": fmt.Sprintf(`{"stringData":{"password":%q}}`, value)}
	return s
}

func (a *canaryTest) newCloudManager(n int) *appsapi.CloudManager {
	pass := fmt.Sprintf("%s-%d", rootCanary, n)
	cm := &appsapi.CloudManager{ObjectMeta: a.meta("cm")}
	a.Expect(yaml.UnmarshalStrict(fmt.Appendf(nil, `
front: {deployment: {image: "nginx:1.20", name: front-of-cm, ports: [{port: 80}], env: [{name: API_KEY, value: %[1]s-%[3]d}]}}
identity: {deployment: {image: "busybox:1", name: identity-of-cm, command: [run, --secret, %[4]s]}}
db: {rootPass: %[2]s, statefulSet: {image: "mariadb:1", name: db-of-cm, storage: {accessModes: ReadWriteOnce, size: 1Gi}}}
`, envCanary, pass, n, argCanary), &cm.Spec)).To(Succeed())
	cm.Annotations = map[string]string{appsapi.DefaultKeys.Trial: "true", "kubectl.kubernetes.io/last-applied-configuration": fmt.Sprintf(`{"spec":{"db":{"rootPass":%q}}}`, pass)}
	return cm
}

// changeSecrets changes the values of all secrets.
func (a *canaryTest) changeSecrets(n int) {
	a.Helper()
	next := a.newSecret(n)
	harness.Edit(a.World, &corev1.Secret{ObjectMeta: a.meta("app")}, func(s *corev1.Secret) {
		s.Annotations, s.StringData = next.Annotations, next.StringData
	})
	manager := a.newCloudManager(n)
	harness.Edit(a.World, &appsapi.CloudManager{ObjectMeta: a.meta("cm")}, func(cm *appsapi.CloudManager) {
		cm.Annotations, cm.Spec = manager.Annotations, manager.Spec
	})
	harness.Edit(a.World, a.stackKey(), func(s *appsapi.AppStack) {
		s.Spec.Components[0].Service.Env[0].Value = fmt.Sprintf("%s-%d", envCanary, n)
	})
	a.Eventually(a.readyCondition, "60s", "50ms").ShouldNot(Equal("status of an old generation"))
}

// runAndRecord runs a command and records its output.
func (a *canaryTest) runAndRecord(ctx context.Context, args ...string) string {
	var out, errOut bytes.Buffer
	cmd := root.Command("v1.2.3")
	cmd.SetArgs(append([]string{"--kubeconfig", a.kubeconfig, "-n", a.NS}, args...))
	cmd.SetIn(strings.NewReader(""))
	cmd.SetOut(&out)
	cmd.SetErr(&errOut)
	text := ""
	if err := cmd.ExecuteContext(ctx); err != nil {
		text = err.Error()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.outputs = append(a.outputs, output{args, out.String() + errOut.String() + text})
	return out.String()
}

// formats are all output formats. Commands reject formats that they do not support.
var formats = []string{"table", "wide", "json", "yaml", "name", "jsonpath={}"}

// runAllVerbs runs all commands.
func (a *canaryTest) runAllVerbs() {
	a.Helper()
	// doctor sends hundreds of requests, so it runs in few formats.
	commands := [][]string{{"doctor"}, {"doctor", "-o", "json"}}
	verbs := [][]string{{"list"}, {"list", "-A"}, {"drift"}, {"version"}, {"find", "--secret", "app"}, {"find", "--image", "shop/web"}, {"find", "--configmap", "shop-web"}}
	for _, app := range []string{"appstack/shop", "cloudmanager/cm"} {
		verbs = append(verbs, []string{"status", app}, []string{"why", app}, []string{"why", app, "--all"}, []string{"tree", app}, []string{"plan", "-f", a.writeManifest(app)},
			[]string{"history", app}, []string{"history", app, "--revision", "1"}, []string{"history", app, "--diff", "1"}, []string{"history", app, "--diff", "1,2"},
			[]string{"rollback", app, "--to-revision", "1", "--dry-run"})
		commands = append(commands, []string{"wait", app, "--timeout", "0"}, []string{"logs", app}, []string{"restart", app, "--component", "none"},
			[]string{"rotate", app, "--component", "none"},
			[]string{"suspend", app, "--component", "none"}, []string{"resume", app}, []string{"__complete", "wait", ""})
		a.recordReport(app)
	}
	a.recordReport("appstack/shop", "--logs")
	for _, args := range verbs {
		for _, format := range formats {
			commands = append(commands, append(slices.Clone(args), "-o", format))
		}
	}
	var group errgroup.Group
	group.SetLimit(4)
	for _, args := range commands {
		group.Go(func() error { a.runAndRecord(a.Context(), args...); return nil })
	}
	_ = group.Wait() // errors are part of the output
}

// writeManifest writes an application to a file for plan.
func (a *canaryTest) writeManifest(app string) string {
	a.Helper()
	var object client.Object = a.stack()
	kind := "AppStack"
	if app == "cloudmanager/cm" {
		object, kind = harness.Find(a.World, &appsapi.CloudManager{ObjectMeta: a.meta("cm")}), "CloudManager"
	}
	object.GetObjectKind().SetGroupVersionKind(appsapi.GroupVersion.WithKind(kind))
	object.SetManagedFields(nil)
	content, err := yaml.Marshal(object)
	a.Expect(err).NotTo(HaveOccurred())
	file := filepath.Join(a.TempDir(), "app.yaml")
	a.Expect(os.WriteFile(file, content, 0o600)).To(Succeed())
	return file
}

// recordReport records all files of a report as outputs.
func (a *canaryTest) recordReport(app string, flags ...string) {
	a.Helper()
	args := append([]string{"report", app, "-o", "-"}, flags...)
	out := a.runAndRecord(a.Context(), args...)
	for name, text := range a.unzipReport([]byte(out)) {
		a.outputs = append(a.outputs, output{append(slices.Clone(args), name), text})
	}
}

// whileWatching watches all kinds with secrets during a function.
func (a *canaryTest) whileWatching(action func()) {
	a.Helper()
	ctx, stop := context.WithCancel(a.Context())
	var group sync.WaitGroup
	for _, kind := range []string{"secrets", "cloudmanagers", "appstacks", "pods", "deployments", "statefulsets", "configmaps", "controllerrevisions", "events"} {
		for _, format := range []string{"table", "json"} {
			group.Go(func() { a.runAndRecord(ctx, "watch", kind, "--existing", "-o", format) })
		}
	}
	group.Go(func() { a.runAndRecord(ctx, "status", "appstack/shop", "-w") })
	time.Sleep(2 * time.Second) // the start is not observable
	action()
	time.Sleep(time.Second) // waits for the last output
	stop()
	group.Wait()
}

// secretValues returns all secret values: those of the test and the generated passwords.
func (a *canaryTest) secretValues() []string {
	a.Helper()
	values := []string{secretCanary, rootCanary}
	var list corev1.SecretList
	a.Expect(a.List(a.Context(), &list, client.InNamespace(a.NS))).To(Succeed())
	for i := range list.Items {
		for key, value := range list.Items[i].Data {
			if regexp.MustCompile(`(?i)pass|uri`).MatchString(key) && len(value) >= 8 {
				values = append(values, string(value))
			}
		}
	}
	a.Expect(len(values)).To(BeNumerically(">", 3), "no generated passwords")
	for _, v := range slices.Clone(values) { // base64, as in Secrets
		values = append(values, base64.StdEncoding.EncodeToString([]byte(v))[:len(v)/3*4])
	}
	return values
}

// specVerbs are the commands that print specs or their differences.
var specVerbs = []string{"plan", "history", "rollback", "watch"}

// mayShowProgramOutput reports whether an output can contain program output: why, machine-readable causes
// and watches of pods.
func (s output) mayShowProgramOutput() bool {
	switch s.args[0] {
	case "why", "watch":
		return true
	case "status", "tree":
		return slices.ContainsFunc(s.args, func(arg string) bool { return arg == "json" || arg == "yaml" || strings.HasPrefix(arg, "jsonpath") })
	}
	return slices.Contains(s.args, "--logs")
}

// checkOutputs checks that no output contains a value that it must not contain.
func (a *canaryTest) checkOutputs(secrets []string) {
	a.Helper()
	verbsByCanary := map[string]map[string]bool{}
	for _, s := range a.outputs {
		for canary, allowed := range map[string]bool{
			envCanary:   slices.Contains(specVerbs, s.args[0]),
			fileCanary:  slices.Contains(specVerbs, s.args[0]),
			argCanary:   slices.Contains(specVerbs, s.args[0]),
			crashCanary: s.mayShowProgramOutput(),
		} {
			if strings.Contains(s.text, canary) {
				if verbsByCanary[canary] == nil {
					verbsByCanary[canary] = map[string]bool{}
				}
				verbsByCanary[canary][s.args[0]] = true
				if !allowed {
					a.Errorf("kubectl holdfast %q prints %s:\n%s", s.args, canary, excerpt(s.text, canary))
				}
			}
		}
		for _, secret := range secrets {
			if strings.Contains(s.text, secret) {
				a.Errorf("kubectl holdfast %q leaks %s:\n%s", s.args, secret, excerpt(s.text, secret))
			}
		}
	}
	a.Logf("%d outputs and files, %d secrets", len(a.outputs), len(secrets))
	// Each canary must appear in an allowed output, otherwise the check proves nothing.
	a.Expect(verbsByCanary[crashCanary]).To(And(HaveKey("why"), HaveKey("report")))
	a.Expect(verbsByCanary[envCanary]).To(And(HaveKey("history"), HaveKey("watch")))
	a.Expect(a.outputSize("watch", "secrets", "json")).To(BeNumerically(">", 1000))
	status, err := json.Marshal([]any{a.stack().Status, harness.Find(a.World, &appsapi.CloudManager{ObjectMeta: a.meta("cm")}).Status})
	a.Expect(err).NotTo(HaveOccurred())
	a.Expect(string(status)).NotTo(ContainSubstring("canary-"))
}

// outputSize returns the size of all outputs of a command.
func (a *canaryTest) outputSize(args ...string) int {
	n := 0
	for _, s := range a.outputs {
		if !slices.ContainsFunc(args, func(w string) bool { return !slices.Contains(s.args, w) }) {
			n += len(s.text)
		}
	}
	return n
}

// excerpt returns the part of a text around a word.
func excerpt(text, match string) string {
	i := strings.Index(text, match)
	return text[max(i-300, 0):min(i+len(match)+50, len(text))]
}

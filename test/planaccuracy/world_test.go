package planaccuracy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/cli/plan"
	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
	"github.com/holdfast-dev/holdfast/internal/testutil/controlplane"
	"github.com/holdfast-dev/holdfast/internal/testutil/harness"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
)

// The accounts that plan: planner is allowed to dry-run every write, guesser only writes of applications.
const (
	plannerUser    = "planner"
	restrictedUser = "guesser"
)

// testCluster is shared by all applications.
type testCluster struct {
	harness *harness.Harness
	kubectl string
	// Kubeconfig files of each account.
	plannerKubeconfig, restrictedKubeconfig, adminKubeconfig string
	slots                                                    chan struct{}
}

func newTestCluster(t *testing.T, s *harness.Harness) *testCluster {
	t.Helper()
	root, err := operator.RepoRoot()
	if err != nil {
		t.Fatal(err)
	}
	g := &testCluster{harness: s, kubectl: filepath.Join(root, "bin", "k8s", "kubectl"), slots: make(chan struct{}, 6)}
	write := func(user string, groups ...string) string {
		cfg, err := s.Plane.ConfigFor(user, groups...)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), user)
		if err := clientcmd.WriteToFile(controlplane.Kubeconfig(cfg), file); err != nil {
			t.Fatal(err)
		}
		return file
	}
	g.plannerKubeconfig, g.restrictedKubeconfig, g.adminKubeconfig = write(plannerUser, "system:masters"), write(restrictedUser), write("admin", "system:masters")
	g.grantRestrictedUser(t)
	return g
}

// grantRestrictedUser allows guesser to read and create, but not to patch, the child objects: without the create
// permission the admission policies reject its applications.
func (g *testCluster) grantRestrictedUser(t *testing.T) {
	t.Helper()
	all, read := []string{"*"}, []string{"get", "list", "create"}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: restrictedUser}, Rules: []rbacv1.PolicyRule{
		{APIGroups: all, Resources: all, Verbs: read},
		{APIGroups: []string{appsapi.GroupName}, Resources: all, Verbs: []string{"patch"}},
		{APIGroups: []string{""}, Resources: []string{"persistentvolumeclaims"}, Verbs: []string{"patch"}},             // volume expansion cannot be predicted without a dry run
		{APIGroups: []string{""}, Resources: []string{"persistentvolumeclaims", "secrets"}, Verbs: []string{"delete"}}, // deletionPolicy Delete requires it
	}}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: restrictedUser},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: restrictedUser},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: restrictedUser}}}
	c, err := client.New(g.harness.Plane.Config, client.Options{})
	if err == nil {
		err = errors.Join(c.Create(t.Context(), role), c.Create(t.Context(), binding))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// acquireSlot limits concurrency: an overloaded operator settles too late.
func (g *testCluster) acquireSlot() (release func()) {
	g.slots <- struct{}{}
	return func() { <-g.slots }
}

// world is the namespace of one application.
type world struct {
	*harness.World
	cluster *testCluster
}

func (g *testCluster) newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{g.harness.NewWorld(t), g}
	namespaced := *w.Harness
	namespaced.AuditLog = namespaced.AuditLog.WithSubstring(w.NS)
	w.Harness = &namespaced
	for _, obj := range []client.Object{
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.NS, Name: "settings"}, Data: map[string]string{"mode": "one", "level": "two"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.NS, Name: "creds"}, Data: map[string][]byte{"token": []byte("very-secret-value"), "user": []byte("me")}},
		// Blocks component "taken", and is handed over to component "given".
		foreignDeployment(w.NS, "shop-taken", nil),
		foreignDeployment(w.NS, "shop-given", map[string]string{appsapi.DefaultKeys.Adopt: "true"}),
	} {
		w.Expect(w.Create(t.Context(), obj)).To(gomega.Succeed())
	}
	return w
}

// foreignDeployment returns a Deployment that Holdfast does not control.
func foreignDeployment(namespace, name string, annotations map[string]string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: annotations},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "theirs", Image: "theirs:1", Env: []corev1.EnvVar{{Name: "THEIRS", Value: "1"}}}}},
		}},
	}
}

// planOutput is the result of the plan command.
type planOutput struct {
	plan.Plan
	text      string // human-readable output
	rejection string
}

// planManifest runs the plan command with JSON and with human-readable output.
func (w *world) planManifest(s *editedApp, kubeconfig string) planOutput {
	w.Helper()
	file := filepath.Join(w.TempDir(), "manifest.yaml")
	w.Expect(os.WriteFile(file, []byte(s.yaml()), 0o600)).To(gomega.Succeed())
	flags := genericclioptions.NewConfigFlags(false)
	*flags.KubeConfig, *flags.Namespace = kubeconfig, w.NS
	run := func(args ...string) (string, error) {
		var out, errOut bytes.Buffer
		cmd := plan.Command(&cli.Env{Getter: flags, Version: "dev", Color: "never", Now: time.Now})
		cmd.SetOut(&out)
		cmd.SetErr(&errOut)
		cmd.SetArgs(append([]string{"-f", file}, args...))
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		err := cmd.ExecuteContext(w.Context())
		return out.String(), err
	}
	var out planOutput
	text, err := run("-o", "json")
	if text == "" && err != nil {
		out := planOutput{rejection: err.Error(), text: err.Error()}
		if strings.Contains(out.rejection, "the operator would reject it") { // the API server stores it, and nothing else happens
			out.rejection = ""
		}
		return out
	}
	var list plan.List
	w.Expect(json.Unmarshal([]byte(text), &list)).To(gomega.Succeed(), text)
	w.Expect(list.Items).To(gomega.HaveLen(1))
	out.Plan = list.Items[0]
	out.text, _ = run("-o", "wide")
	return out
}

// apply runs kubectl apply.
func (w *world) apply(s *editedApp) error {
	w.Helper()
	cmd := exec.CommandContext(w.Context(), w.cluster.kubectl, "--kubeconfig", w.cluster.adminKubeconfig, "-n", w.NS, "apply", "-f", "-")
	cmd.Stdin = strings.NewReader(s.yaml())
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// createApp creates an application and checks its plan.
func (w *world) createApp(s *editedApp) {
	w.Helper()
	mismatches, output := w.planAndApply(s)
	if len(mismatches) > 0 || output.rejection != "" {
		w.Fatalf("creation:\n%s\n\nplan:\n%s\nmanifest:\n%s", strings.Join(mismatches, "\n"), output.text, s.yaml())
	}
}

// planAndApply plans and applies a manifest and returns the differences.
func (w *world) planAndApply(s *editedApp) ([]string, planOutput) {
	w.Helper()
	before := w.snapshot()
	var output, restricted planOutput
	requests := w.Requests(func() {
		output, restricted = w.planManifest(s, w.cluster.plannerKubeconfig), w.planManifest(s, w.cluster.restrictedKubeconfig)
	}).By(plannerUser, restrictedUser)
	mismatches := compareRestricted(output, restricted)
	if writes := requests.Writes(); len(writes) > 0 {
		mismatches = append(mismatches, "plan wrote:\n"+writes.Count().String())
	}
	if strings.Contains(output.text, "very-secret-value") || strings.Contains(output.text, rootPass) {
		mismatches = append(mismatches, "plan printed a password")
	}
	var rejected error
	events := w.Requests(func() {
		if rejected = w.apply(s); rejected == nil {
			w.waitSettled(s)
		}
	}).By(operator.User).Writes()
	if (rejected != nil) != (output.rejection != "") {
		return append(mismatches, fmt.Sprintf("plan rejection: %q, kubectl apply error: %v", output.rejection, rejected)), output
	}
	if rejected != nil {
		return mismatches, output
	}
	return append(mismatches, comparePlan(before, w.snapshot(), events, output)...), output
}

// quietPeriod without writes means that the operator has finished.
const quietPeriod = 600 * time.Millisecond

// waitSettled waits until the operator has finished.
func (w *world) waitSettled(s *editedApp) {
	w.Helper()
	app := s.emptyObject()
	app.SetNamespace(w.NS)
	w.Eventually(func() string {
		if err := w.Get(w.Context(), client.ObjectKeyFromObject(app), app); err != nil {
			return err.Error()
		}
		status := app.ApplicationStatus()
		if status.ObservedGeneration != app.GetGeneration() {
			return "generation not observed"
		}
		c := meta.FindStatusCondition(status.Conditions, appsapi.ConditionReady)
		if c == nil {
			return "condition not set"
		}
		if deleting := w.deletingObject(); deleting != "" {
			return deleting
		}
		idlePeriod := quietPeriod
		if c.Status != metav1.ConditionTrue { // may remain, for example when a suspended component is required
			// Dependents of a component without a probe start when it has run for five seconds.
			idlePeriod = max(4*quietPeriod, 7*time.Second)
		}
		// No event shows that nothing is written.
		writes := w.Requests(func() { time.Sleep(idlePeriod) }).Writes().Where(func(e *audit.Event) bool {
			return e.ObjectRef.Resource != "events" && e.ObjectRef.Resource != "endpointslices" && e.ObjectRef.Resource != "endpoints" &&
				(e.ObjectRef.Resource != "horizontalpodautoscalers" || e.ObjectRef.Subresource != "status")
		})
		if len(writes) > 0 {
			return fmt.Sprintf("%v, and writes:\n%s", c, writes.Count())
		}
		return ""
	}, "60s", "50ms").Should(gomega.BeEmpty())
}

// deletingObject returns an object that is being deleted.
func (w *world) deletingObject() string {
	for _, kind := range append(slices.Clone(childKinds), podKind) {
		for _, obj := range w.list(kind) {
			if obj.GetDeletionTimestamp() != nil {
				return obj.GetKind() + " " + obj.GetName() + " is being deleted"
			}
		}
	}
	return ""
}

var podKind = schema.GroupVersionKind{Version: "v1", Kind: "Pod"}

// childKinds are the kinds that an application can consist of.
var childKinds = []schema.GroupVersionKind{
	{Group: "apps", Version: "v1", Kind: "Deployment"}, {Group: "apps", Version: "v1", Kind: "StatefulSet"},
	{Group: "apps", Version: "v1", Kind: "ControllerRevision"}, {Group: "batch", Version: "v1", Kind: "Job"},
	{Group: "batch", Version: "v1", Kind: "CronJob"}, {Version: "v1", Kind: "Service"}, {Version: "v1", Kind: "ConfigMap"},
	{Version: "v1", Kind: "Secret"}, {Version: "v1", Kind: "PersistentVolumeClaim"},
	{Group: "autoscaling", Version: "v2", Kind: "HorizontalPodAutoscaler"}, {Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"},
	{Group: "networking.k8s.io", Version: "v1", Kind: "Ingress"},
}

func (w *world) list(kind schema.GroupVersionKind) []unstructured.Unstructured {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	err := w.List(context.WithoutCancel(w.Context()), list, client.InNamespace(w.NS))
	w.Expect(err).NotTo(gomega.HaveOccurred())
	return list.Items
}

// isBinding reports whether a Secret holds connection details of a database. It is created once the database runs, so
// plans do not include it.
func isBinding(name string) bool { return strings.HasSuffix(name, "-binding") }

// snapshot holds all objects by kind and name, and the pods of workloads.
type snapshot struct {
	objects map[string]map[string]any
	uids    map[string]string
	pods    map[string][]string // UIDs by workload
}

func (w *world) snapshot() snapshot {
	s := snapshot{objects: map[string]map[string]any{}, uids: map[string]string{}, pods: map[string][]string{}}
	for _, kind := range childKinds {
		for _, obj := range w.list(kind) {
			// ControllerRevisions of a StatefulSet have its labels, too.
			if ref := metav1.GetControllerOfNoCopy(&obj); kind.Kind == "ControllerRevision" && (ref == nil || ref.Kind == "StatefulSet") {
				continue
			}
			if ref := metav1.GetControllerOfNoCopy(&obj); kind.Kind == "Job" && ref != nil && ref.Kind == "CronJob" || obj.GetName() == "kube-root-ca.crt" {
				continue
			}
			if kind.Kind == "Secret" && isBinding(obj.GetName()) {
				continue
			}
			key := kind.Kind + " " + obj.GetName()
			s.objects[key], s.uids[key] = obj.Object, string(obj.GetUID())
		}
	}
	for _, pod := range w.list(podKind) {
		id := workloadOf(pod)
		s.pods[id] = append(s.pods[id], string(pod.GetUID()))
	}
	return s
}

// workloadOf returns the workload of a pod: the pods of a Deployment belong to a ReplicaSet with a derived name.
func workloadOf(pod unstructured.Unstructured) string {
	ref := metav1.GetControllerOfNoCopy(&pod)
	if ref == nil {
		return ""
	}
	if ref.Kind == "ReplicaSet" {
		return "Deployment " + ref.Name[:strings.LastIndex(ref.Name, "-")]
	}
	return ref.Kind + " " + ref.Name
}

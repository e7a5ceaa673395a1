package plantruth

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
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
	"github.com/holdfast-dev/holdfast/internal/testutil/stage"
)

// Who plans, and nothing else: planner may ask for dry runs of everything, guesser of nothing
// but applications.
const (
	planner = "planner"
	guesser = "guesser"
)

// ground is what all applications stand on.
type ground struct {
	stage   *stage.Stage
	kubectl string
	// Files with the access of each.
	planner, guesser, admin string
	turns                   chan struct{}
}

func newGround(t *testing.T, s *stage.Stage) *ground {
	t.Helper()
	root, err := operator.Root()
	if err != nil {
		t.Fatal(err)
	}
	g := &ground{stage: s, kubectl: filepath.Join(root, "bin", "k8s", "kubectl"), turns: make(chan struct{}, 6)}
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
	g.planner, g.guesser, g.admin = write(planner, "system:masters"), write(guesser), write("admin", "system:masters")
	g.allow(t)
	return g
}

// allow lets guesser read everything and create, but not patch, what applications consist of:
// whoever may create nothing may not even declare an application.
func (g *ground) allow(t *testing.T) {
	t.Helper()
	all, read := []string{"*"}, []string{"get", "list", "create"}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: guesser}, Rules: []rbacv1.PolicyRule{
		{APIGroups: all, Resources: all, Verbs: read},
		{APIGroups: []string{appsapi.GroupName}, Resources: all, Verbs: []string{"patch"}},
		{APIGroups: []string{""}, Resources: []string{"persistentvolumeclaims"}, Verbs: []string{"patch"}}, // whether storage can grow cannot be guessed
	}}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: guesser},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: guesser},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: guesser}}}
	c, err := client.New(g.stage.Plane.Config, client.Options{})
	if err == nil {
		err = errors.Join(c.Create(t.Context(), role), c.Create(t.Context(), binding))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// turn lets only a few play at the same time: an operator that waits for the machine settles
// late.
func (g *ground) turn() (done func()) {
	g.turns <- struct{}{}
	return func() { <-g.turns }
}

// world is the namespace of one application.
type world struct {
	*stage.World
	ground *ground
}

func (g *ground) world(t *testing.T) *world {
	t.Helper()
	w := &world{g.stage.World(t), g}
	about := *w.Stage
	about.Log = about.Log.About(w.NS)
	w.Stage = &about
	for _, obj := range []client.Object{
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.NS, Name: "settings"}, Data: map[string]string{"mode": "one", "level": "two"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.NS, Name: "creds"}, Data: map[string][]byte{"token": []byte("very-secret-value"), "user": []byte("me")}},
		// In the way of a component "taken", and handed over to a component "given".
		deployment(w.NS, "shop-taken", nil),
		deployment(w.NS, "shop-given", map[string]string{appsapi.AnnotationAdopt: "true"}),
	} {
		w.Expect(w.Create(t.Context(), obj)).To(gomega.Succeed())
	}
	return w
}

// deployment is one of somebody else.
func deployment(namespace, name string, annotations map[string]string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: annotations},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "theirs", Image: "theirs:1", Env: []corev1.EnvVar{{Name: "THEIRS", Value: "1"}}}}},
		}},
	}
}

// told is what plan answered.
type told struct {
	plan.Plan
	text    string // for people
	refused string
}

// plan runs the verb, as JSON and for people.
func (w *world) plan(s *subject, access string) told {
	w.Helper()
	file := filepath.Join(w.TempDir(), "manifest.yaml")
	w.Expect(os.WriteFile(file, []byte(s.yaml()), 0o600)).To(gomega.Succeed())
	flags := genericclioptions.NewConfigFlags(false)
	*flags.KubeConfig, *flags.Namespace = access, w.NS
	run := func(args ...string) (string, error) {
		var out, errOut bytes.Buffer
		cmd := plan.Command(&cli.Env{Getter: flags, Version: "dev", Colour: "never", Now: time.Now})
		cmd.SetOut(&out)
		cmd.SetErr(&errOut)
		cmd.SetArgs(append([]string{"-f", file}, args...))
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		err := cmd.ExecuteContext(w.Context())
		return out.String(), err
	}
	var out told
	text, err := run("-o", "json")
	if text == "" && err != nil {
		out := told{refused: err.Error(), text: err.Error()}
		if strings.Contains(out.refused, "can never work") { // it is stored, and nothing else
			out.refused = ""
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

// apply does it with kubectl.
func (w *world) apply(s *subject) error {
	w.Helper()
	cmd := exec.CommandContext(w.Context(), w.ground.kubectl, "--kubeconfig", w.ground.admin, "-n", w.NS, "apply", "-f", "-")
	cmd.Stdin = strings.NewReader(s.yaml())
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// create makes an application, which has to be planned as what it becomes, too.
func (w *world) create(s *subject) {
	w.Helper()
	mismatches, told := w.holds(s)
	if len(mismatches) > 0 || told.refused != "" {
		w.Fatalf("creation:\n%s\n\nwas told:\n%s\nmanifest:\n%s", strings.Join(mismatches, "\n"), told.text, s.yaml())
	}
}

// holds plans a manifest, applies it, and returns what was not as it was told.
func (w *world) holds(s *subject) ([]string, told) {
	w.Helper()
	before := w.snapshot()
	var told, guessed told
	asked := w.Requests(func() { told, guessed = w.plan(s, w.ground.planner), w.plan(s, w.ground.guesser) }).By(planner, guesser)
	mismatches := guesses(told, guessed)
	if writes := asked.Writes(); len(writes) > 0 {
		mismatches = append(mismatches, "plan wrote:\n"+writes.Count().String())
	}
	if strings.Contains(told.text, "very-secret-value") || strings.Contains(told.text, rootPass) {
		mismatches = append(mismatches, "plan told a secret")
	}
	var refused error
	events := w.Requests(func() {
		if refused = w.apply(s); refused == nil {
			w.settle(s)
		}
	}).By(operator.User).Writes()
	if (refused != nil) != (told.refused != "") {
		return append(mismatches, fmt.Sprintf("plan refuses: %q, kubectl apply: %v", told.refused, refused)), told
	}
	if refused != nil {
		return mismatches, told
	}
	return append(mismatches, judge(before, w.snapshot(), events, told)...), told
}

// quiet is how long nothing may happen until all is said to be over.
const quiet = 600 * time.Millisecond

// settle waits until the operator has come to an end.
func (w *world) settle(s *subject) {
	w.Helper()
	app := s.object()
	app.SetNamespace(w.NS)
	w.Eventually(func() string {
		if err := w.Get(w.Context(), client.ObjectKeyFromObject(app), app); err != nil {
			return err.Error()
		}
		status := app.ApplicationStatus()
		if status.ObservedGeneration != app.GetGeneration() {
			return "not looked at"
		}
		c := meta.FindStatusCondition(status.Conditions, appsapi.ConditionReady)
		if c == nil {
			return "no word about it"
		}
		if busy := w.leaving(); busy != "" {
			return busy
		}
		silence := quiet
		if c.Status != metav1.ConditionTrue { // it may stay so, for example if what is suspended is needed
			silence = 4 * quiet
		}
		writes := w.Requests(func() { time.Sleep(silence) }).Writes().Where(func(e *audit.Event) bool {
			return e.ObjectRef.Resource != "events" && e.ObjectRef.Resource != "endpointslices" && e.ObjectRef.Resource != "endpoints" &&
				(e.ObjectRef.Resource != "horizontalpodautoscalers" || e.ObjectRef.Subresource != "status")
		})
		if len(writes) > 0 {
			return fmt.Sprintf("%v, and writes:\n%s", c, writes.Count())
		}
		return ""
	}, "60s", "50ms").Should(gomega.BeEmpty())
}

// leaving names something that is on its way out.
func (w *world) leaving() string {
	for _, kind := range append(slices.Clone(kinds), podKind) {
		for _, obj := range w.list(kind) {
			if obj.GetDeletionTimestamp() != nil {
				return obj.GetKind() + " " + obj.GetName() + " is being deleted"
			}
		}
	}
	return ""
}

var podKind = schema.GroupVersionKind{Version: "v1", Kind: "Pod"}

// kinds are those that an application may consist of.
var kinds = []schema.GroupVersionKind{
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

// isBinding says whether a Secret tells how to get into a database. That is what becomes of a database
// once it runs, as pods are what becomes of a Deployment: no plan tells it.
func isBinding(name string) bool { return strings.HasSuffix(name, "-binding") }

// snapshot is all that there is: objects by kind and name, and the pods of workloads.
type snapshot struct {
	objects map[string]map[string]any
	uids    map[string]string
	pods    map[string][]string // UIDs by the id of the workload
}

func (w *world) snapshot() snapshot {
	s := snapshot{objects: map[string]map[string]any{}, uids: map[string]string{}, pods: map[string][]string{}}
	for _, kind := range kinds {
		for _, obj := range w.list(kind) {
			// A StatefulSet has revisions of its own, which have its labels.
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
		id := ownerOf(pod)
		s.pods[id] = append(s.pods[id], string(pod.GetUID()))
	}
	return s
}

// ownerOf is the workload that a pod belongs to: a Deployment has them through ReplicaSets,
// which are named after it.
func ownerOf(pod unstructured.Unstructured) string {
	ref := metav1.GetControllerOfNoCopy(&pod)
	if ref == nil {
		return ""
	}
	if ref.Kind == "ReplicaSet" {
		return "Deployment " + ref.Name[:strings.LastIndex(ref.Name, "-")]
	}
	return ref.Kind + " " + ref.Name
}

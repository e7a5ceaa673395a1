package planaccuracy

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/cli/plan"
	"github.com/holdfast-dev/holdfast/internal/testutil/harness"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
)

const (
	stackHead        = "apiVersion: apps.holdfast.dev/v1alpha1\nkind: AppStack\nmetadata: {name: shop}\nspec:\n  components:\n"
	dbComponent      = "  - {name: db, stateful: {image: 'db:1', storage: [{name: data, mountPath: /data, size: 1Gi}]}}\n"
	stackManifest    = stackHead + dbComponent + "  - {name: api, dependsOn: [db], service: {image: 'api:1', envFrom: [{secretRef: {name: creds}}]}}\n"
	cloudManagerHead = "apiVersion: apps.holdfast.dev/v1alpha1\nkind: CloudManager\nmetadata: {name: cm, annotations: {apps.holdfast.dev/trial: \"true\"}}\nspec: {front: {deployment: {image: f}}, identity: {deployment: {image: i}}, db: {statefulSet: {image: d, storage: {size: 1Gi}}, "
)

// runPlan runs the plan command with a manifest on standard input.
func (w *world) runPlan(kubeconfig, manifest string, args ...string) (out, errOut string, err error) {
	flags := genericclioptions.NewConfigFlags(false)
	*flags.KubeConfig, *flags.Namespace = kubeconfig, w.NS
	var o, e bytes.Buffer
	cmd := plan.Command(&cli.Env{Getter: flags, Version: "v1.0.0", Color: "never", Now: time.Now})
	cmd.SetIn(strings.NewReader(manifest))
	cmd.SetOut(&o)
	cmd.SetErr(&e)
	cmd.SetArgs(append([]string{"-f", "-"}, args...))
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err = cmd.ExecuteContext(w.Context())
	return o.String(), e.String(), err
}

// testPlanMessages covers messages that random edits do not trigger.
func testPlanMessages(t *testing.T, g *testCluster) {
	w := g.newWorld(t)
	for name, tc := range map[string]struct {
		manifest  string
		args      []string
		prepare   []client.Object
		want      []string // in stdout or in the error
		wantError bool
	}{
		"the API server's rejection is shown without the password": {
			manifest: cloudManagerHead + "rootPass: " + rootPass + ", rootPasswordSecretRef: {name: a, key: b}}}\n", wantError: true,
			want: []string{"rejected by the API server", "spec.db.rootPass", "rootPass and rootPasswordSecretRef are mutually exclusive; remove one of them"},
		},
		"a rejection by an admission policy is shown": {
			manifest: strings.Replace(cloudManagerHead, "trial", "other", 1) + "rootPass: " + rootPass + "}}\n", wantError: true,
			want: []string{"rejected by the API server", `CloudManager "cm" contains a password in spec.db.rootPass`},
		},
		"a dependency cycle is rejected": {
			manifest: stackHead + "  - {name: a, dependsOn: [b], service: {image: x}}\n  - {name: b, dependsOn: [a], service: {image: x}}\n", wantError: true,
			want: []string{"the API server would accept the spec, but the operator would reject it: Components have a dependency cycle: a -> b -> a"},
		},
		"a PersistentVolumeClaim of another owner is rejected": {
			manifest: strings.ReplaceAll(stackHead, "shop", "claimed") + dbComponent, wantError: true,
			prepare: []client.Object{&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data-claimed-db-0"}, Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}}}},
			want: []string{"refused   db  StatefulSet claimed-db  PersistentVolumeClaim ", "data-claimed-db-0 exists and is not managed by Holdfast"},
		},
		"a missing password Secret is rejected": {
			manifest: cloudManagerHead + "rootPasswordSecretRef: {name: nowhere, key: b}}}\n", wantError: true,
			want: []string{"refused   db  StatefulSet cm-db  Secret ", "nowhere, the source of credential \"root-password\", does not exist; create it"},
		},
		"a new CloudManager with --exit-code": {
			manifest: cloudManagerHead + "rootPass: " + rootPass + "}}\n", args: []string{"--exit-code"}, wantError: true,
			want: []string{"CloudManager " + w.NS + "/cm: ", "created   db        Secret cm-db-auth\n", "created   front     Deployment cm-front  after identity is ready\n"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := w.forSubtest(t)
			for _, obj := range tc.prepare {
				obj.SetNamespace(w.NS)
				w.Expect(w.Create(w.Context(), obj)).To(gomega.Succeed())
			}
			out, _, err := w.runPlan(g.plannerKubeconfig, tc.manifest, tc.args...)
			if (err != nil) != tc.wantError {
				t.Errorf("error %v", err)
			}
			if err != nil {
				out += err.Error()
			}
			for _, want := range tc.want {
				if !strings.Contains(out, want) {
					t.Errorf("output does not contain %q:\n%s", want, out)
				}
			}
			if strings.Contains(out, rootPass) {
				t.Errorf("output contains the password:\n%s", out)
			}
		})
	}
	t.Run("lifecycle", func(t *testing.T) { testLifecycle(w.forSubtest(t)) })
	t.Run("without kubectl apply", func(t *testing.T) {
		w := w.forSubtest(t)
		app := &appsapi.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: w.NS, Name: "plain"}}
		app.Spec.Image, app.Spec.Replicas = "web:1", new(int32(2))
		w.Expect(w.Create(w.Context(), app)).To(gomega.Succeed())
		w.WaitReady(app)
		out, _, err := w.runPlan(g.plannerKubeconfig, "{apiVersion: apps.holdfast.dev/v1alpha1, kind: AppService, metadata: {name: plain}, spec: {image: 'web:1'}}")
		const want = "plain: no changes\n\nThe application was not created by kubectl apply, so fields that the manifest does not contain are not removed.\n"
		if err != nil || !strings.HasSuffix(out, want) {
			t.Errorf("got %q, %v", out, err)
		}
	})
	t.Run("a field of another field manager", func(t *testing.T) { testFieldConflict(w.forSubtest(t)) })
	t.Run("versions", func(t *testing.T) {
		w := w.forSubtest(t)
		w.Expect(w.Create(w.Context(), foreignDeployment(operator.Namespace, "holdfast-operator", nil))).To(gomega.Succeed())
		const want = "warning: The plugin has version v1.0.0 and the operator has version 1; install the same version of both.\n"
		if _, errOut, _ := w.runPlan(g.plannerKubeconfig, stackManifest); errOut != want {
			t.Errorf("got %q, want %q", errOut, want)
		}
	})
}

// testFieldConflict checks that plan predicts the field conflict that the operator reports, and its resolution.
func testFieldConflict(w *world) {
	const manifest = "{apiVersion: apps.holdfast.dev/v1alpha1, kind: AppService, metadata: {name: edited}, spec: {image: 'web:2', ports: [{port: 80}]}}"
	app := &appsapi.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: w.NS, Name: "edited"}}
	app.Spec.Image, app.Spec.Ports = "web:1", []appsapi.Port{{Port: 80}}
	w.Expect(w.Create(w.Context(), app)).To(gomega.Succeed())
	w.WaitReady(app)
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.NS, Name: "edited"}}
	w.Expect(w.Get(w.Context(), client.ObjectKeyFromObject(d), d)).To(gomega.Succeed())
	d.Spec.Template.Spec.Containers[0].ReadinessProbe.ProbeHandler = corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(80)}}
	w.Expect(w.Update(w.Context(), d, client.FieldOwner("kubectl-edit"))).To(gomega.Succeed())
	w.Eventually(func() string { return w.Condition(app, "Ready") }, "60s", "100ms").Should(gomega.HavePrefix("False/FieldConflict: "))

	out, _, err := w.runPlan(w.cluster.plannerKubeconfig, manifest, "-o", "json")
	w.Expect(err).To(gomega.HaveOccurred())
	w.Expect(out).To(gomega.ContainSubstring(`readinessProbe.httpGet is set by field manager \"kubectl-edit\" and conflicts with`))
	harness.Edit(w.World, d, func(d *appsv1.Deployment) { d.Annotations[appsapi.DefaultKeys.TakeOwnership] = "true" })
	w.WaitReady(app)
	out, _, err = w.runPlan(w.cluster.plannerKubeconfig, manifest)
	w.Expect(err).NotTo(gomega.HaveOccurred())
	w.Expect(out).NotTo(gomega.ContainSubstring("without the API server"), "the operator owns the field")
	w.Expect(out).To(gomega.ContainSubstring("web:1 -> web:2"))
}

func (w *world) forSubtest(t *testing.T) *world { return &world{w.ForTest(t), w.cluster} }

// testLifecycle checks three states of an application: unchanged objects are not planned, a Secret update without new
// content restarts no pods, and new content does. The content is never printed.
func testLifecycle(w *world) {
	g := w.cluster
	exitCode := func(access, manifest string) int {
		out, _, err := w.runPlan(access, manifest, "--exit-code")
		w.Log(out)
		return cli.ExitCode(err)
	}
	w.Expect(exitCode(g.plannerKubeconfig, stackManifest)).To(gomega.Equal(2), "before creation")
	s := &editedApp{manifest: stackManifest}
	w.Expect(w.apply(s)).To(gomega.Succeed())
	w.waitSettled(s)
	w.Expect(exitCode(g.plannerKubeconfig, stackManifest)).To(gomega.Equal(0), "after creation")

	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.NS, Name: "creds"}}
	harness.Edit(w.World, secret, func(s *corev1.Secret) { s.Labels = map[string]string{"touched": "true"} })
	w.waitSettled(s)
	w.Expect(exitCode(g.plannerKubeconfig, stackManifest)).To(gomega.Equal(0), "after the Secret was touched")

	out, _, err := w.runPlan(g.plannerKubeconfig, strings.ReplaceAll(stackManifest, "api:1', envFrom", "api:1', env: [{name: T, valueFrom: {secretKeyRef: {name: creds, key: token}}}], envFrom"))
	w.Expect(err).NotTo(gomega.HaveOccurred())
	w.Expect(out).To(gomega.ContainSubstring("RESTARTS 1 pod"))

	// A removed component keeps its data unless deletion is confirmed.
	withoutDB := strings.ReplaceAll(strings.Replace(stackManifest, dbComponent, "", 1), "dependsOn: [db], ", "")
	out, _, err = w.runPlan(g.plannerKubeconfig, withoutDB)
	w.Expect(err).NotTo(gomega.HaveOccurred())
	w.Expect(out).To(gomega.ContainSubstring("changed   db   PersistentVolumeClaim data-shop-db-0  RETAINED: the data is kept"))
	out, _, err = w.runPlan(g.plannerKubeconfig, strings.Replace(withoutDB, "spec:\n", "spec:\n  deletionPolicy: Delete\n", 1))
	w.Expect(err).NotTo(gomega.HaveOccurred())
	w.Expect(out).To(gomega.ContainSubstring("deleted   db   PersistentVolumeClaim data-shop-db-0  DELETES DATA PERMANENTLY"))
}

package planaccuracy

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	cloudManagerHead = "apiVersion: apps.holdfast.dev/v1alpha1\nkind: CloudManager\nmetadata: {name: cm}\nspec: {front: {deployment: {image: f}}, identity: {deployment: {image: i}}, db: {statefulSet: {image: d, storage: {size: 1Gi}}, "
)

// runPlan runs the verb with a manifest on standard input.
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

// testPlanMessages are what a plan says where the random edits do not look.
func testPlanMessages(t *testing.T, g *testCluster) {
	w := g.newWorld(t)
	for name, tc := range map[string]struct {
		manifest  string
		args      []string
		prepare   []client.Object
		want      []string // in what is printed, or in the error
		wantError bool
	}{
		"the API server refuses, in its words, without the password": {
			manifest: cloudManagerHead + "rootPass: " + rootPass + ", rootPasswordSecretRef: {name: a, key: b}}}\n", wantError: true,
			want: []string{"the API server refuses it", "spec.db.rootPass", "there is one root password: remove rootPass, or rootPasswordSecretRef"},
		},
		"it can never work": {
			manifest: stackHead + "  - {name: a, dependsOn: [b], service: {image: x}}\n  - {name: b, dependsOn: [a], service: {image: x}}\n", wantError: true,
			want: []string{"it would be stored, but can never work: Components depend on each other in a circle: a -> b -> a"},
		},
		"a claim of somebody else": {
			manifest: strings.ReplaceAll(stackHead, "shop", "claimed") + dbComponent, wantError: true,
			prepare: []client.Object{&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data-claimed-db-0"}, Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}}}},
			want: []string{"refused   db  StatefulSet claimed-db  PersistentVolumeClaim ", "data-claimed-db-0 exists and is not Holdfast's"},
		},
		"a password that is nowhere": {
			manifest: cloudManagerHead + "rootPasswordSecretRef: {name: nowhere, key: b}}}\n", wantError: true,
			want: []string{"refused   db  StatefulSet cm-db  Secret ", "nowhere, from which the credential \"root-password\" is copied, does not exist; create it"},
		},
		"a new one, for a pipeline": {
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
					t.Errorf("there is no %q in\n%s", want, out)
				}
			}
			if strings.Contains(out, rootPass) {
				t.Errorf("there is the password in\n%s", out)
			}
		})
	}
	t.Run("a life", func(t *testing.T) { testLifecycle(w.forSubtest(t)) })
	t.Run("not by kubectl apply", func(t *testing.T) {
		w := w.forSubtest(t)
		app := &appsapi.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: w.NS, Name: "plain"}}
		app.Spec.Image, app.Spec.Replicas = "web:1", new(int32(2))
		w.Expect(w.Create(w.Context(), app)).To(gomega.Succeed())
		w.WaitReady(app)
		out, _, err := w.runPlan(g.plannerKubeconfig, "{apiVersion: apps.holdfast.dev/v1alpha1, kind: AppService, metadata: {name: plain}, spec: {image: 'web:1'}}")
		const want = "plain: nothing changes\n\nIt was not written by kubectl apply, which would therefore leave alone what the manifest does not mention.\n"
		if err != nil || !strings.HasSuffix(out, want) {
			t.Errorf("got %q, %v", out, err)
		}
	})
	t.Run("versions", func(t *testing.T) {
		w := w.forSubtest(t)
		w.Expect(w.Create(w.Context(), foreignDeployment(operator.Namespace, "holdfast-operator", nil))).To(gomega.Succeed())
		const want = "warning: The plugin is of version v1.0.0 and the operator of version 1; use the same, so that the plugin knows what the operator does.\n"
		if _, errOut, _ := w.runPlan(g.plannerKubeconfig, stackManifest); errOut != want {
			t.Errorf("got %q, want %q", errOut, want)
		}
	})
}

func (w *world) forSubtest(t *testing.T) *world { return &world{w.ForTest(t), w.cluster} }

// testLifecycle follows an application: what is there is not told again, a Secret that was written
// without a change replaces no pods, and one that is new does, without a word about what it
// is.
func testLifecycle(w *world) {
	g := w.cluster
	exitCode := func(access, manifest string) int {
		_, _, err := w.runPlan(access, manifest, "--exit-code")
		return cli.ExitCode(err)
	}
	w.Expect(exitCode(g.plannerKubeconfig, stackManifest)).To(gomega.Equal(2), "before it exists")
	s := &editedApp{manifest: stackManifest}
	w.Expect(w.apply(s)).To(gomega.Succeed())
	w.waitSettled(s)
	w.Expect(exitCode(g.plannerKubeconfig, stackManifest)).To(gomega.Equal(0), "when it is there")

	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.NS, Name: "creds"}}
	harness.Edit(w.World, secret, func(s *corev1.Secret) { s.Labels = map[string]string{"touched": "true"} })
	w.waitSettled(s)
	w.Expect(exitCode(g.plannerKubeconfig, stackManifest)).To(gomega.Equal(0), "after the Secret was touched")

	out, _, err := w.runPlan(g.plannerKubeconfig, strings.ReplaceAll(stackManifest, "api:1', envFrom", "api:1', env: [{name: T, valueFrom: {secretKeyRef: {name: creds, key: token}}}], envFrom"))
	w.Expect(err).NotTo(gomega.HaveOccurred())
	w.Expect(out).To(gomega.ContainSubstring("RESTARTS 1 pod"))

	// Without the component that has data, which goes for good only if that is said.
	withoutDB := strings.ReplaceAll(strings.Replace(stackManifest, dbComponent, "", 1), "dependsOn: [db], ", "")
	out, _, err = w.runPlan(g.plannerKubeconfig, withoutDB)
	w.Expect(err).NotTo(gomega.HaveOccurred())
	w.Expect(out).To(gomega.ContainSubstring("changed   db   PersistentVolumeClaim data-shop-db-0  RETAINED: the data stays"))
	out, _, err = w.runPlan(g.plannerKubeconfig, strings.Replace(withoutDB, "spec:\n", "spec:\n  deletionPolicy: Delete\n", 1))
	w.Expect(err).NotTo(gomega.HaveOccurred())
	w.Expect(out).To(gomega.ContainSubstring("deleted   db   PersistentVolumeClaim data-shop-db-0  DELETES DATA FOR GOOD"))
}

package watchgaps

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/cli/root"
	"github.com/holdfast-dev/holdfast/internal/testutil"
	"github.com/holdfast-dev/holdfast/internal/testutil/controlplane"
)

// TestWatchKindsAndSecrets checks resource names and the redaction of secrets.
func TestWatchKindsAndSecrets(t *testing.T) {
	plane := testutil.ControlPlane(t, controlplane.Options{NoControllerManager: true})
	if _, err := plane.InstallCRDs("../../config/crd"); err != nil {
		t.Fatal(err)
	}
	c, err := cli.NewClient(plane.Config, nil)
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(controlplane.Kubeconfig(plane.Config), kubeconfig); err != nil {
		t.Fatal(err)
	}
	p := &cliUser{Client: c, kubeconfig: kubeconfig, cache: t.TempDir(), ns: testutil.Namespace(t, plane.Config)}
	t.Run("resource names", p.testResourceNames)
	t.Run("secrets", p.testSecrets)
	t.Run("root passwords", p.testRootPasswords)
	t.Run("too few changes", p.testTooFewChanges)
}

// cliUser is a user with a kubeconfig.
type cliUser struct {
	client.Client
	kubeconfig, cache, ns string
}

// runWatch runs kubectl holdfast watch and calls onStart when the watch has started.
func (p *cliUser) runWatch(ctx context.Context, onStart func(), args ...string) (out, errOut string, err error) {
	var o, e bytes.Buffer
	cmd := root.Command("test")
	cmd.SetOut(&startTrigger{&o, onStart})
	cmd.SetErr(&startTrigger{&e, onStart})
	cmd.SetArgs(append([]string{"--kubeconfig", p.kubeconfig, "--cache-dir", p.cache, "-n", p.ns, "watch"}, args...))
	err = cmd.ExecuteContext(ctx)
	return o.String(), e.String(), err
}

// startTrigger calls onStart when the output reports the start of the watch.
type startTrigger struct {
	*bytes.Buffer
	onStart func()
}

func (s *startTrigger) Write(text []byte) (int, error) {
	if onStart := s.onStart; onStart != nil && strings.Contains(string(text), "watching for changes") {
		s.onStart = nil
		onStart()
	}
	return s.Buffer.Write(text)
}

func (p *cliUser) testResourceNames(t *testing.T) {
	cases := map[string]string{
		"cm": "ConfigMap objects of namespace", "ConfigMap": "ConfigMap objects of namespace", "deploy": "Deployment objects of namespace",
		"deployments.apps": "Deployment objects of namespace", "Deployment.apps": "Deployment objects of namespace",
		"deployments.v1.apps": "Deployment objects of namespace", "ns": "Namespace objects: ", "node/a": "Node a: 0 now", "appsvc": "AppService objects of namespace",
		"appstacks.apps.holdfast.dev": "AppStack objects of namespace",
	}
	for name, want := range cases {
		if _, got, err := p.runWatch(t.Context(), nil, name, "--timeout", "100ms"); err != nil || !strings.HasPrefix(got, want) {
			t.Errorf("watch %s: got %q and %v, want %q", name, got, err, want)
		}
	}
	_, _, err := p.runWatch(t.Context(), nil, "spoons")
	if err == nil || !strings.HasPrefix(err.Error(), `kind "spoons" not found (`) || !strings.HasSuffix(err.Error(), "; kubectl api-resources lists the available kinds") {
		t.Errorf("got %v", err)
	}
}

const secretValue = "opensesame"

func (p *cliUser) testSecrets(t *testing.T) {
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: p.ns, Annotations: map[string]string{"copy": secretValue}},
		Data:       map[string][]byte{"password": []byte(secretValue)},
	}
	want := "  MODIFIED  Secret " + p.ns + "/s  by editor (Update)\n          data.password: changed\n          metadata.annotations.copy: changed\n"
	p.expectSecretHidden(t, s, func() {
		s.Data["password"], s.Annotations["copy"] = append(s.Data["password"], '!'), s.Annotations["copy"]+"!"
	}, want, "secrets")
}

func (p *cliUser) testRootPasswords(t *testing.T) {
	m := &appsapi.CloudManager{ObjectMeta: metav1.ObjectMeta{Name: "m", Namespace: p.ns, Annotations: map[string]string{appsapi.DefaultKeys.Trial: "true"}}}
	m.Spec.Front.Deployment.Image, m.Spec.Identity.Deployment.Image = "web:1", "web:1"
	m.Spec.Front.Deployment.Name, m.Spec.Identity.Deployment.Name = "front", "identity"
	m.Spec.DB.StatefulSet.Image, m.Spec.DB.StatefulSet.Name = "mariadb:11", "db"
	m.Spec.DB.RootPass = secretValue
	want := "  MODIFIED  CloudManager " + p.ns + "/m  by editor (Update)\n          spec.db.rootPass: changed\n"
	p.expectSecretHidden(t, m, func() { m.Spec.DB.RootPass += "!" }, want, "cloudmanagers", "m")
}

// expectSecretHidden changes an object during a watch and checks that the output has the change but not the secret.
func (p *cliUser) expectSecretHidden(t *testing.T, o client.Object, change func(), want string, args ...string) {
	for _, format := range []string{"table", "json"} {
		out, errOut, err := p.runWatch(t.Context(), func() {
			err := p.Create(t.Context(), o, client.FieldOwner("maker"))
			if err == nil {
				change()
				err = p.Update(t.Context(), o, client.FieldOwner("editor"))
			}
			if err != nil {
				t.Error(err)
			}
		}, append(args, "--count", "2", "--timeout", "20s", "-o", format)...)
		if err != nil {
			t.Fatal(err)
		}
		if format == "table" && !strings.Contains(out, want) {
			t.Errorf("got\n%s\nwant\n%s", out, want)
		}
		if combined := out + errOut; strings.Contains(combined, secretValue) || strings.Contains(combined, "b3BlbnNlc2FtZ") {
			t.Errorf("-o %s contains the secret:\n%s", format, combined)
		}
		if err := p.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		o.SetResourceVersion("")
	}
}

func (p *cliUser) testTooFewChanges(t *testing.T) {
	_, got, err := p.runWatch(t.Context(), nil, "configmaps", "--count", "5", "--timeout", "100ms")
	if !errors.Is(err, cli.ErrNotReady) || !strings.HasSuffix(got, ": 0 changes, 0 reconnects, 0 re-lists\n") {
		t.Errorf("got %q and %v, want not ready", got, err)
	}
}

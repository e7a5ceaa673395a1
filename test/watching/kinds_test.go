package watching

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

// TestKinds has the verb watch what a person can name.
func TestKinds(t *testing.T) {
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
	p := &person{Client: c, kubeconfig: kubeconfig, cache: t.TempDir(), ns: testutil.Namespace(t, plane.Config)}
	t.Run("words", p.words)
	t.Run("secrets", p.secrets)
	t.Run("root passwords", p.rootPasswords)
	t.Run("too few changes", p.tooFew)
}

// person has a kubeconfig.
type person struct {
	client.Client
	kubeconfig, cache, ns string
}

// watch runs the verb, and does something once it watches.
func (p *person) watch(ctx context.Context, do func(), args ...string) (out, errOut string, err error) {
	var o, e bytes.Buffer
	cmd := root.Command("test")
	cmd.SetOut(&started{&o, do})
	cmd.SetErr(&started{&e, do})
	cmd.SetArgs(append([]string{"--kubeconfig", p.kubeconfig, "--cache-dir", p.cache, "-n", p.ns, "watch"}, args...))
	err = cmd.ExecuteContext(ctx)
	return o.String(), e.String(), err
}

// started does something when it hears that the watch has begun.
type started struct {
	*bytes.Buffer
	do func()
}

func (s *started) Write(text []byte) (int, error) {
	if do := s.do; do != nil && strings.Contains(string(text), "watching for changes") {
		s.do = nil
		do()
	}
	return s.Buffer.Write(text)
}

func (p *person) words(t *testing.T) {
	cases := map[string]string{
		"cm": "ConfigMap objects of namespace", "ConfigMap": "ConfigMap objects of namespace", "deploy": "Deployment objects of namespace",
		"deployments.apps": "Deployment objects of namespace", "Deployment.apps": "Deployment objects of namespace",
		"deployments.v1.apps": "Deployment objects of namespace", "ns": "Namespace objects: ", "node/a": "Node a: 0 now", "appsvc": "AppService objects of namespace",
		"appstacks.apps.holdfast.dev": "AppStack objects of namespace",
	}
	for word, want := range cases {
		if _, got, err := p.watch(t.Context(), nil, word, "--for", "100ms"); err != nil || !strings.HasPrefix(got, want) {
			t.Errorf("watch %s: got %q and %v, want %q", word, got, err, want)
		}
	}
	_, _, err := p.watch(t.Context(), nil, "spoons")
	if err == nil || !strings.HasPrefix(err.Error(), `the API server has no kind "spoons"`) || !strings.HasSuffix(err.Error(), "; kubectl api-resources lists those it has") {
		t.Errorf("got %v", err)
	}
}

const secret = "opensesame"

func (p *person) secrets(t *testing.T) {
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: p.ns, Annotations: map[string]string{"copy": secret}},
		Data:       map[string][]byte{"password": []byte(secret)},
	}
	want := "  MODIFIED  Secret " + p.ns + "/s  by editor (Update)\n          data.password: changed\n          metadata.annotations.copy: changed\n"
	p.keeps(t, s, func() {
		s.Data["password"], s.Annotations["copy"] = append(s.Data["password"], '!'), s.Annotations["copy"]+"!"
	}, want, "secrets")
}

func (p *person) rootPasswords(t *testing.T) {
	m := &appsapi.CloudManager{ObjectMeta: metav1.ObjectMeta{Name: "m", Namespace: p.ns}}
	m.Spec.Front.Deployment.Image, m.Spec.Identity.Deployment.Image = "web:1", "web:1"
	m.Spec.Front.Deployment.Name, m.Spec.Identity.Deployment.Name = "front", "identity"
	m.Spec.DB.StatefulSet.Image, m.Spec.DB.StatefulSet.Name = "mariadb:11", "db"
	m.Spec.DB.RootPass = secret
	want := "  MODIFIED  CloudManager " + p.ns + "/m  by editor (Update)\n          spec.db.rootPass: changed\n"
	p.keeps(t, m, func() { m.Spec.DB.RootPass += "!" }, want, "cloudmanagers", "m")
}

// keeps creates and changes an object in front of the watch, which says so and keeps the secret.
func (p *person) keeps(t *testing.T, o client.Object, change func(), want string, args ...string) {
	for _, format := range []string{"table", "json"} {
		out, errOut, err := p.watch(t.Context(), func() {
			err := p.Create(t.Context(), o, client.FieldOwner("maker"))
			if err == nil {
				change()
				err = p.Update(t.Context(), o, client.FieldOwner("editor"))
			}
			if err != nil {
				t.Error(err)
			}
		}, append(args, "--until", "2", "--for", "20s", "-o", format)...)
		if err != nil {
			t.Fatal(err)
		}
		if format == "table" && !strings.Contains(out, want) {
			t.Errorf("got\n%s\nwant\n%s", out, want)
		}
		if both := out + errOut; strings.Contains(both, secret) || strings.Contains(both, "b3BlbnNlc2FtZ") {
			t.Errorf("-o %s tells the secret:\n%s", format, both)
		}
		if err := p.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		o.SetResourceVersion("")
	}
}

func (p *person) tooFew(t *testing.T) {
	_, got, err := p.watch(t.Context(), nil, "configmaps", "--until", "5", "--for", "100ms")
	if !errors.Is(err, cli.ErrNotReady) || !strings.HasSuffix(got, ": 0 changes, 0 reconnects, 0 re-lists\n") {
		t.Errorf("got %q and %v, want not ready", got, err)
	}
}

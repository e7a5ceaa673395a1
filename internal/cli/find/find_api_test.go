package find_test

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/cli/root"
	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
	"github.com/holdfast-dev/holdfast/internal/testutil/controlplane"
	"github.com/holdfast-dev/holdfast/internal/testutil/golden"
	"github.com/holdfast-dev/holdfast/internal/testutil/harness"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
	"github.com/holdfast-dev/holdfast/internal/testutil/podsim"
)

const (
	testUser = "finder"
	stack    = `
components:
- name: db
  stateful: {image: "mariadb:11", ports: [{port: 3306}], storage: [{name: data, mountPath: /data, size: 1Gi}]}
- name: web
  service:
    image: registry.example.com/shop/web:1
    replicas: 2
    env: [{name: TOKEN, valueFrom: {secretKeyRef: {name: token, key: t}}}]
    volumes: [{name: extra, mountPath: /extra, configMap: {name: extra}}]
- name: nightly
  job: {image: "registry.example.com/shop/web:1", schedule: "0 3 * * *", envFrom: [{secretRef: {name: token}}]}
`
	service = `
image: nginx:1.20
ports: [{port: 80}]
expose: {hostnames: [shop.example.com], ingressClassName: nginx, tls: {secretName: token}}
`
)

func TestFind(t *testing.T) {
	if testing.Short() {
		t.Skip("requires an API server; run make test-api")
	}
	s := harness.New(t, func(*corev1.Pod) podsim.Behavior { return podsim.Behavior{} }, operator.Options{})
	w := s.NewWorld(t)
	config, err := s.Plane.ConfigFor(testUser, "system:masters")
	w.Expect(err).NotTo(HaveOccurred())
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	w.Expect(clientcmd.WriteToFile(controlplane.Kubeconfig(config), kubeconfig)).To(Succeed())
	shop := &appsapi.AppStack{ObjectMeta: metav1.ObjectMeta{Namespace: w.NS, Name: "shop"}}
	front := &appsapi.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: w.NS, Name: "front"}}
	w.Expect(yaml.UnmarshalStrict([]byte(stack), &shop.Spec)).To(Succeed())
	w.Expect(yaml.UnmarshalStrict([]byte(service), &front.Spec)).To(Succeed())
	for _, o := range []client.Object{
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.NS, Name: "token"}, StringData: map[string]string{"t": "1"}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.NS, Name: "extra"}}, shop, front,
	} {
		w.Expect(w.Create(t.Context(), o)).To(Succeed())
	}
	w.WaitReady(shop)
	w.WaitReady(front)
	f := &fixture{w, kubeconfig}
	t.Run("answers", f.testOutput)
	t.Run("nodes", f.testNodes)
	t.Run("reads", f.testRequests)
}

// fixture runs the command as a user.
type fixture struct {
	*harness.World
	kubeconfig string
}

func (f *fixture) run(t *testing.T, args ...string) (out, errOut string) {
	t.Helper()
	var o, e bytes.Buffer
	cmd := root.Command("test")
	cmd.SetOut(&o)
	cmd.SetErr(&e)
	cmd.SetArgs(append([]string{"--kubeconfig", f.kubeconfig, "-n", f.NS, "find"}, args...))
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(o.String(), f.NS, "NAMESPACE"), strings.ReplaceAll(golden.StripProgress(e.String()), f.NS, "NAMESPACE")
}

func (f *fixture) testOutput(t *testing.T) {
	cases := map[string]struct {
		args  []string
		width string
	}{
		"image.txt":        {args: []string{"--image", "shop/web"}},
		"image-narrow.txt": {args: []string{"--image", "shop/web"}, width: "60"},
		"image.yaml":       {args: []string{"--image", "mariadb", "-o", "yaml"}},
		"secret.txt":       {args: []string{"--secret", "token"}},
		"secret-all.txt":   {args: []string{"--secret", "token", "-A", "--no-headers"}},
		"secret-name.txt":  {args: []string{"--secret", "token", "-o", "name"}},
		"both.txt":         {args: []string{"--secret", "token", "--configmap", "extra"}},
		"labels.txt":       {args: []string{"-l", "app.kubernetes.io/component in (db,front)"}},
		"labelled.txt":     {args: []string{"--secret", "token", "-l", "app.kubernetes.io/instance=front"}},
		"none.txt":         {args: []string{"--configmap", "nobody"}},
		"none.json":        {args: []string{"--configmap", "nobody", "-o", "json"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Setenv("COLUMNS", tc.width)
			out, errOut := f.run(t, tc.args...)
			golden.Check(t, name, out+errOut)
		})
	}
}

// Pod names are random.
func (f *fixture) testNodes(t *testing.T) {
	var pods corev1.PodList
	f.Expect(f.List(t.Context(), &pods, client.InNamespace(f.NS))).To(Succeed())
	node := pods.Items[0].Spec.NodeName
	out, _ := f.run(t, "--node", node, "--no-headers")
	var got []string
	for line := range strings.Lines(out) {
		words := strings.Fields(line)
		got = append(got, strings.Join(words[:4], " ")+" "+strings.Join(words[5:], " "))
	}
	slices.Sort(got)
	rest := " Pod Node " + node + " spec.nodeName"
	want := []string{"AppService front front" + rest, "AppStack shop db" + rest, "AppStack shop web" + rest, "AppStack shop web" + rest}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if out, _ := f.run(t, "--node", node, "--image", "mariadb", "-o", "name"); out != "appstack.apps.holdfast.dev/shop\n" {
		t.Errorf("the node and the image: got %q", out)
	}
}

func (f *fixture) testRequests(t *testing.T) {
	cases := map[string]struct{ args, want []string }{
		"image":  {[]string{"--image", "x"}, []string{"cronjobs", "deployments", "jobs", "statefulsets"}},
		"secret": {[]string{"--secret", "token"}, []string{"cronjobs", "deployments", "ingresses", "jobs", "statefulsets"}},
		"node":   {[]string{"--node", "unused"}, []string{"pods"}},
	}
	for name, tc := range cases {
		var got []string
		requests := f.ForTest(t).Requests(func() { f.run(t, tc.args...) }).By(testUser)
		requests.Where(func(e *audit.Event) bool {
			got = append(got, e.ObjectRef.Resource)
			if e.Verb != "list" || !strings.Contains(e.RequestURI, "limit=500") {
				t.Errorf("%s: %s %s", name, e.Verb, e.RequestURI)
			}
			return true
		})
		slices.Sort(got)
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

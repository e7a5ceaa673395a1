package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/holdfast-dev/holdfast/enginetest"
)

// testPlugin runs the kubectl plugin of Holdfast, which has no built-in support for Guestbooks.
func testPlugin(t *testing.T, plane *enginetest.ControlPlane, namespace string) {
	program, kubeconfig := enginetest.Program(t, "kubectl-holdfast"), plane.Kubeconfig(t, plane.Config)
	plugin := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), program, append([]string{args[0], "--kubeconfig", kubeconfig, "-n", namespace}, args[1:]...)...)
		output, _ := cmd.CombinedOutput() // it exits with 2 if an application is not ready
		return string(output)
	}
	cases := map[string]struct {
		args []string
		want []string
	}{
		"list":                {[]string{"list"}, []string{"Guestbook", "visitors", "2/2", "broken", "1/2"}},
		"status by name":      {[]string{"status", "visitors"}, []string{"Guestbook " + namespace + "/visitors", "READY", "store", "web"}},
		"status by kind":      {[]string{"status", "guestbook/visitors"}, []string{"2 of 2 components ready"}},
		"tree":                {[]string{"tree", "guestbooks.example.com/visitors"}, []string{"StatefulSet", "visitors-store-0", "PersistentVolumeClaim", "Deployment", "Service"}},
		"why":                 {[]string{"why", "broken"}, []string{"web", missingImage, "ImageNotFound", "fix:"}},
		"why as JSON":         {[]string{"why", "broken", "-o", "json"}, []string{`"code": "ImageNotFound"`}},
		"wait":                {[]string{"wait", "visitors"}, []string{"is ready"}},
		"find":                {[]string{"find", "--image", "redis"}, []string{"visitors", "store"}},
		"restart":             {[]string{"restart", "broken"}, []string{"Guestbook " + namespace + "/broken restarts: store, web."}},
		"rotate is rejected":  {[]string{"rotate", "visitors"}, []string{"Guestbook", "has no database"}},
		"scale is rejected":   {[]string{"scale", "visitors", "--component", "web", "--replicas", "2"}, []string{"Guestbook", "managed by another operator; edit its spec: kubectl edit guestbooks.example.com visitors"}},
		"history is rejected": {[]string{"history", "visitors"}, []string{"Guestbook", "only that operator can read its revisions"}},
		"doctor":              {[]string{"doctor"}, []string{"kind Guestbook.example.com", "of another operator, read as v1"}},
		"completion":          {[]string{"__complete", "status", "guestbook/v"}, []string{"guestbook/visitors"}},
		"plan is rejected":    {[]string{"plan", "-f", "config/sample.yaml"}, []string{"Guestbook"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := NewWithT(t)
			w.Eventually(func() string { return plugin(tc.args...) }, "30s", "1s").Should(And(containAll(tc.want)...))
		})
	}
	w := NewWithT(t)
	for _, step := range []struct{ verb, want string }{
		{"suspend", "Suspended: running unchanged; drift is not corrected and updates are not applied"}, {"resume", "Everything runs as declared"},
	} {
		w.Expect(plugin(step.verb, "visitors")).To(ContainSubstring("Guestbook " + namespace + "/visitors is "))
		w.Eventually(func() string { return plugin("status", "visitors", "-o", "json") }, "30s", "200ms").Should(ContainSubstring(step.want))
	}
}

func containAll(texts []string) (all []OmegaMatcher) {
	for _, text := range texts {
		all = append(all, ContainSubstring(text))
	}
	return all
}

// testCenter runs the center of Holdfast, which has no built-in support for Guestbooks.
func testCenter(t *testing.T, plane *enginetest.ControlPlane, namespace string) {
	w := NewWithT(t)
	address := freeAddress(t)
	kubeconfig := plane.Kubeconfig(t, plane.ConfigFor(t, "system:serviceaccount:holdfast-system:holdfast-center"))
	cmd := exec.Command(enginetest.Program(t, "center"), "--kubeconfig", kubeconfig, "--listen", address, "--health-listen", freeAddress(t))
	cmd.Stderr = os.Stderr
	w.Expect(cmd.Start()).To(Succeed())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })

	reader, stranger := userToken(t, plane, namespace, true), userToken(t, plane, namespace, false)
	httpClient := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // its certificate is self-signed at start
	get := func(token, path string, into any) error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address+path, nil)
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := httpClient.Do(req)
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s", path, resp.Status)
		}
		return json.NewDecoder(resp.Body).Decode(into)
	}
	var list struct {
		Items []struct {
			App        struct{ Kind, Name string }
			Ready      bool
			Components int
			Cause      struct{ Code string }
		}
	}
	const listPath = "/api/v1/applications?kind=Guestbook"
	enginetest.WaitFor(t, func(context.Context) error {
		if err := get(reader, listPath, &list); err != nil {
			return err
		}
		if got := fmt.Sprintf("%+v", list.Items); got != "[{App:{Kind:Guestbook.example.com Name:broken} Ready:false Components:2 Cause:{Code:ImageNotFound}} "+
			"{App:{Kind:Guestbook.example.com Name:visitors} Ready:true Components:2 Cause:{Code:}}]" {
			return fmt.Errorf("the list is %s", got)
		}
		return nil
	})
	var app struct {
		Health     string
		Components []struct{ Name, Health string }
	}
	path := "/api/v1/applications/Guestbook.example.com/" + namespace + "/visitors"
	w.Expect(get(reader, path, &app)).To(Succeed())
	w.Expect(fmt.Sprint(app)).To(Equal("{Healthy [{store Healthy} {web Healthy}]}"))
	w.Expect(get(stranger, path, &app)).NotTo(Succeed())
	w.Expect(get(stranger, listPath, &list)).To(Succeed())
	w.Expect(list.Items).To(BeEmpty())
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

// userToken creates a user with all permissions in the namespace, or with none.
func userToken(t *testing.T, plane *enginetest.ControlPlane, namespace string, reader bool) string {
	t.Helper()
	w := NewWithT(t)
	kube, err := kubernetes.NewForConfig(plane.Config)
	w.Expect(err).NotTo(HaveOccurred())
	account, err := kube.CoreV1().ServiceAccounts(namespace).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{GenerateName: "user-"}}, metav1.CreateOptions{})
	w.Expect(err).NotTo(HaveOccurred())
	if reader {
		_, err := kube.RbacV1().RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: account.Name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: account.Name}},
		}, metav1.CreateOptions{})
		w.Expect(err).NotTo(HaveOccurred())
	}
	token, err := kube.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), account.Name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	w.Expect(err).NotTo(HaveOccurred())
	return strings.TrimSpace(token.Status.Token)
}

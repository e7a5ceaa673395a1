package database

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/mariadb"
	"github.com/holdfast-dev/holdfast/internal/testutil"
	"github.com/holdfast-dev/holdfast/internal/testutil/harness"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
)

// TestPasswordsAreNotLeaked rotates, replaces and invalidates passwords with the most verbose log level, and searches
// logs, metrics, processes and objects other than Secrets for them.
func TestPasswordsAreNotLeaked(t *testing.T) {
	metrics := testutil.FreeAddress(t)
	s := harness.New(t, allPodsRun, operator.Options{NoRace: true, Args: []string{"-v", "--metrics-address=" + metrics}})
	w := s.NewWorld(t)
	canaries := plantCanaries(w)
	var locations []string
	search := func(where, text string) {
		locations = append(locations, where)
		for _, canary := range canaries {
			for _, encoded := range []string{canary, base64.StdEncoding.EncodeToString([]byte(canary)), mariadb.Hash(canary)} {
				if strings.Contains(text, encoded) {
					t.Errorf("%s contains the password %s", where, canary)
				}
			}
		}
	}
	var log []byte
	w.Eventually(func() (logged bool, err error) { // the log line is written after the status
		log, err = os.ReadFile(s.Operator.Log)
		return strings.Contains(string(log), "CredentialsMismatch"), err
	}, "20s").Should(BeTrue(), "the operator did not log CredentialsMismatch")
	search("the log", string(log))
	for _, file := range []string{"cmdline", "environ"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", s.Operator.Pid(), file))
		w.Expect(err).NotTo(HaveOccurred())
		search(file+" of the operator", string(text))
	}
	cmdlines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	w.Expect(err).NotTo(HaveOccurred())
	for _, file := range cmdlines {
		if text, err := os.ReadFile(file); err == nil {
			search(file, string(text))
		}
	}
	search("/metrics", scrapeMetrics(w, "https://"+metrics+"/metrics"))
	for _, o := range readableObjects(w) {
		text, err := o.MarshalJSON()
		w.Expect(err).NotTo(HaveOccurred())
		search(o.GetKind()+" "+o.GetName(), string(text))
	}
	t.Logf("looked for %d passwords in %d places", len(canaries), len(locations))
}

// plantCanaries returns passwords after they were generated, copied, replaced, rotated and invalidated.
func plantCanaries(w *harness.World) []string {
	canaries := []string{"canaryBirdOne", "canaryBirdTwo", "canaryBirdThree", "canaryBirdFour"}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.NS, Name: "mine"},
		StringData: map[string]string{"root": canaries[0], "user": canaries[1]}}
	w.Expect(w.Create(w.Context(), secret)).To(Succeed())
	shop := newStack(w.NS, "shop", "mariadb:11.8", func(db *appsapi.DatabaseComponent) {
		db.RootPasswordSecretRef = &appsapi.SecretKeyReference{Name: "mine", Key: "root"}
		db.PasswordSecretRef = &appsapi.SecretKeyReference{Name: "mine", Key: "user"}
	})
	generated := newStack(w.NS, "other", "mariadb:10.11", noChange)
	w.Expect(w.Create(w.Context(), shop)).To(Succeed())
	w.Expect(w.Create(w.Context(), generated)).To(Succeed())
	w.WaitReady(shop)
	w.WaitReady(generated)
	canaries = append(canaries, storedPasswords(w, "other-db-auth")...)
	w.Expect(canaries).To(HaveLen(6))

	secret.StringData = map[string]string{"root": canaries[2], "user": canaries[3]}
	w.Expect(w.Update(w.Context(), secret)).To(Succeed())
	harness.Edit(w, generated, func(a *appsapi.AppStack) { requestRotation(a, "now") })
	w.Eventually(func() []string { return storedPasswords(w, "shop-db-auth") }, "60s").Should(ConsistOf(canaries[2], canaries[3]))
	w.Eventually(func() []string { return storedPasswords(w, "other-db-auth") }, "60s").ShouldNot(ContainElements(canaries[4], canaries[5]))
	w.WaitReady(shop)
	w.WaitReady(generated)
	canaries = append(canaries, storedPasswords(w, "other-db-auth")...)
	canaries = append(canaries, privateKeyLine(w, "other-db-auth"))

	// A password changed outside Holdfast locks the operator out.
	pod := harness.Find(w, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.NS, Name: "shop-db-0"}})
	w.Databases.Volume(w.Context(), pod).SetHashes("root", mariadb.Hash("by hand"))
	harness.Edit(w, shop, func(a *appsapi.AppStack) { requestRotation(a, "now") })
	w.Eventually(func() string { return w.Condition(shop, "Ready") }, "60s").Should(ContainSubstring("CredentialsMismatch"))
	return canaries
}

func requestRotation(a *appsapi.AppStack, at string) {
	a.Spec.EditOperations(a.Spec.Components[0].Name, func(o *appsapi.ComponentOperations) { o.RotationRequestedAt = at })
}

// storedPasswords returns the passwords in a Secret.
func storedPasswords(w *harness.World, name string) []string {
	secret := harness.Find(w, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.NS, Name: name}})
	var out []string
	for key, value := range secret.Data {
		if strings.HasSuffix(key, "password") {
			out = append(out, string(value))
		}
	}
	return out
}

// privateKeyLine returns a line of the private key of a database. It has no line breaks, which every encoding changes.
func privateKeyLine(w *harness.World, name string) string {
	secret := harness.Find(w, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.NS, Name: name}})
	lines := strings.Split(string(secret.Data[corev1.TLSPrivateKeyKey]), "\n")
	w.Expect(len(lines)).To(BeNumerically(">", 2), "Secret %s has no private key", name)
	return lines[1]
}

// readableObjects returns all objects of the namespace except Secrets.
func readableObjects(w *harness.World) []unstructured.Unstructured {
	w.Helper()
	var out []unstructured.Unstructured
	for _, gvk := range []schema.GroupVersionKind{
		appsapi.GroupVersion.WithKind("AppStackList"), {Group: "apps", Version: "v1", Kind: "StatefulSetList"}, {Group: "apps", Version: "v1", Kind: "DeploymentList"},
		{Group: "apps", Version: "v1", Kind: "ControllerRevisionList"}, {Version: "v1", Kind: "PodList"}, {Version: "v1", Kind: "ConfigMapList"},
		{Version: "v1", Kind: "ServiceList"}, {Version: "v1", Kind: "PersistentVolumeClaimList"}, {Group: "events.k8s.io", Version: "v1", Kind: "EventList"},
	} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk)
		w.Expect(w.List(w.Context(), list, client.InNamespace(w.NS))).To(Succeed())
		w.Expect(list.Items).NotTo(BeEmpty(), "%s", gvk.Kind)
		out = append(out, list.Items...)
	}
	return out
}

// scrapeMetrics reads the metrics with an authorized account.
func scrapeMetrics(w *harness.World, url string) string {
	w.Helper()
	kube, err := kubernetes.NewForConfig(w.Plane.Config)
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(w.Create(w.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "reads-metrics"},
		Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics"}}}})).To(Succeed())
	w.Expect(w.Create(w.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "reads-metrics"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "reads-metrics"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: w.NS, Name: "reader"}}})).To(Succeed())
	w.Expect(w.Create(w.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: w.NS, Name: "reader"}})).To(Succeed())
	token, err := kube.CoreV1().ServiceAccounts(w.NS).CreateToken(w.Context(), "reader", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	w.Expect(err).NotTo(HaveOccurred())
	request, err := http.NewRequestWithContext(w.Context(), http.MethodGet, url, nil)
	w.Expect(err).NotTo(HaveOccurred())
	request.Header.Set("Authorization", "Bearer "+token.Status.Token)
	response, err := insecureClient.Do(request)
	w.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(string(text)).To(ContainSubstring("workqueue_depth"), "status %s", response.Status)
	return string(text)
}

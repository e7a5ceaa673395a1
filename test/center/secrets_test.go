package center

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/harness"
)

const canary = "canaryBird"

// plantCanaries adds canaries to all places where users store secrets.
func plantCanaries(t *testing.T, w *harness.World) {
	t.Helper()
	objectMeta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: w.NS, Name: name, Annotations: map[string]string{
			corev1.LastAppliedConfigAnnotation: `{"stringData":{"password":"` + canary + `"}}`,
		}}
	}
	service := &appsapi.AppService{ObjectMeta: objectMeta("bird")}
	service.Spec.Image = "shop/web:crash" // causes an error cause
	service.Spec.Env = []corev1.EnvVar{
		{Name: "API_TOKEN", Value: canary}, {Name: "DSN", Value: "mysql://root:" + canary + "@db/x"},
		{Name: "PASSWORD", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "bird"}, Key: "password"}}},
	}
	service.Spec.Args = []string{"--password", canary, "--token=" + canary}
	manager := &appsapi.CloudManager{ObjectMeta: objectMeta("bird")}
	manager.Annotations = map[string]string{appsapi.DefaultKeys.Trial: "true"} // for rootPass
	manager.Spec.Front.Deployment.Image, manager.Spec.Identity.Deployment.Image = "front:1", "identity:1"
	manager.Spec.DB.StatefulSet.Image, manager.Spec.DB.RootPass = "mariadb:11", canary
	manager.Spec.DB.StatefulSet.Storage.Size.Set(1 << 30)
	for _, o := range []client.Object{
		&corev1.Secret{ObjectMeta: objectMeta("bird"), StringData: map[string]string{"password": canary}},
		&corev1.ConfigMap{ObjectMeta: objectMeta("bird"), Data: map[string]string{"app.ini": "password=" + canary}}, service, manager,
	} {
		if err := w.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	w.WaitReady(manager)
	// Adds an entry to the history.
	harness.Edit(w, manager, func(m *appsapi.CloudManager) { m.Spec.DB.RootPass += "-again" })
	harness.Edit(w, service, func(a *appsapi.AppService) { a.Spec.Env[0].Value += "-again" })
}

// testNoSecretsExposed requests all documented paths as an administrator and searches the responses for canaries.
func (h *testCenter) testNoSecretsExposed(t *testing.T, w *harness.World, admin string) {
	plantCanaries(t, w)
	eventually(t, 30*time.Second, func() error {
		for _, path := range []string{"/applications/AppService/" + w.NS + "/bird/history", "/applications/CloudManager/" + w.NS + "/bird/history"} {
			if text := h.responseText(t, http.MethodGet, admin, "/api/v1"+path); !strings.Contains(text, "spec.") {
				return fmt.Errorf("the history is empty: %s", text)
			}
		}
		return nil
	})
	checked, bytesRead := 0, 0
	for path, methods := range documentedPaths(t) {
		for _, method := range methods {
			for _, url := range h.expandPath(path, w.NS) {
				checked++
				text := h.responseText(t, method, admin, url)
				bytesRead += len(text)
				expectNoCanary(t, method+" "+url, text)
			}
		}
	}
	expectNoCanary(t, "/metrics", h.responseText(t, http.MethodGet, admin, "/metrics"))
	for _, topic := range []string{"applications", "application/AppService/" + w.NS + "/bird", "application/CloudManager/" + w.NS + "/bird"} {
		c := h.openStream(admin, topic)
		eventually(t, 10*time.Second, func() error {
			if len(c.Entries()) == 0 {
				return fmt.Errorf("no events from %s", topic)
			}
			return nil
		})
		for id, e := range c.Entries() {
			checked++
			bytesRead += len(e.Body)
			expectNoCanary(t, topic+" "+id.Key, string(e.Body))
		}
	}
	t.Logf("%d responses and stream events, %d kB: no canary", checked, bytesRead>>10)
}

func expectNoCanary(t *testing.T, location, text string) {
	t.Helper()
	forms := []string{canary, hex.EncodeToString([]byte(canary))}
	for offset := range 3 { // base64 encodes three bytes as four characters, so there are three alignments
		text := base64.RawStdEncoding.EncodeToString(append(make([]byte, offset), canary...))
		forms = append(forms, text[4:12])
	}
	for _, form := range forms {
		if i := strings.Index(text, form); i >= 0 {
			t.Errorf("%s contains a canary: %s", location, text[max(0, i-200):min(len(text), i+50)])
		}
	}
}

// documentedPaths returns the paths and methods of the API, except the stream, which does not end.
func documentedPaths(t *testing.T) map[string][]string {
	t.Helper()
	content, err := os.ReadFile("../../internal/center/httpapi/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var api struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	if err := json.Unmarshal(content, &api); err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	for path, methods := range api.Paths {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			if _, ok := methods[strings.ToLower(method)]; ok && path != "/api/v1/stream" {
				out[path] = append(out[path], method)
			}
		}
	}
	if len(out) < 14 {
		t.Fatalf("the API has only %v", out)
	}
	return out
}

// expandPath returns the URLs of a path for all objects with a canary.
func (h *testCenter) expandPath(path, ns string) []string {
	resources := map[string]string{
		"secrets": "", "configmaps": "", "appservices": "&group=apps.holdfast.dev&version=v1alpha1", "cloudmanagers": "&group=apps.holdfast.dev&version=v1alpha1", "deployments": "&group=apps",
	}
	var out []string
	switch {
	case strings.Contains(path, "{resource}"):
		for r, q := range resources {
			for _, managers := range []string{"", "&managers=true"} {
				out = append(out, strings.NewReplacer("{resource}", r, "{name}", "bird").Replace(path)+"?namespace="+ns+q+managers)
			}
		}
	case strings.Contains(path, "{kind}"):
		for _, kind := range []string{"AppService", "CloudManager"} {
			out = append(out, strings.NewReplacer("{kind}", kind, "{namespace}", ns, "{name}", "bird").Replace(path))
		}
	case path == "/api/v1/find":
		for _, q := range []string{"secret=bird&namespace=" + ns, "configmap=bird&namespace=" + ns, "image=shop/web:crash", "label=app.kubernetes.io/instance=bird"} {
			out = append(out, path+"?"+q)
		}
	default:
		out = append(out, path)
	}
	slices.Sort(out)
	return out
}

// responseText returns a response body. It fails for unknown paths.
func (h *testCenter) responseText(t *testing.T, method, token, path string) string {
	t.Helper()
	code, body := h.do(method, token, path, `{"dryRun":true,"replicas":2}`)
	if method == http.MethodGet && code != http.StatusOK || code == http.StatusNotFound || code >= http.StatusInternalServerError {
		t.Errorf("%s %s: %d %s", method, path, code, body)
	}
	return string(body)
}

package report

import (
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/holdfast-dev/holdfast/internal/testutil/golden"
)

// unzip returns the contents of a zip file by name.
func unzip(t *testing.T, content []byte) map[string]string {
	t.Helper()
	r, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, f := range r.File {
		in, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		out[f.Name] = string(text)
	}
	return out
}

func TestBundleIsRedacted(t *testing.T) {
	b := &bundle{title: "Report for AppStack shop/shop, created by kubectl holdfast v1.2.3 at 2026-01-02T03:04:05Z", omitted: omittedContent(options{})}
	b.addText("why.txt", "output of kubectl holdfast why --all", "output: PASSWORD=kanarienvogel\n")
	if err := b.addValue("objects/pod/web.yaml", "Pod", &corev1.Pod{
		TypeMeta: metav1.TypeMeta{Kind: "Pod"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Env: []corev1.EnvVar{{Name: "A", Value: "kanarienvogel"}}}}},
	}); err != nil {
		t.Fatal(err)
	}
	if err := b.addValue("why.json", "the same as JSON", []string{"--token=kanarienvogel"}); err != nil {
		t.Fatal(err)
	}
	b.addUnread("Nodes", errors.New("no permission to read at https://me:kanarienvogel@host"))
	b.addUnread("logs", errors.Join(errors.New("one"), errors.New("two")))
	content, err := b.zip("folder", time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	files := unzip(t, content)
	for name, text := range files {
		if strings.Contains(text, "kanarienvogel") {
			t.Errorf("%s: %s", name, text)
		}
	}
	if got, want := files["folder/why.json"], "[\n  \"--token=(hidden)\"\n]\n"; got != want {
		t.Errorf("why.json: got %q, want %q", got, want)
	}
	if got := files["folder/objects/pod/web.yaml"]; !strings.Contains(got, "- name: A\n      value: (hidden)\n") {
		t.Errorf("the pod is\n%s", got)
	}
	golden.Check(t, "manifest.txt", files["folder/MANIFEST"])
}

func TestRedactEvent(t *testing.T) {
	const omitted = "(omitted: 13 bytes of program output; use --logs to include them)"
	cases := map[string]struct{ reason, message, want string }{
		"probe output":           {"Unhealthy", "Readiness probe failed: kanarienvogel", "Readiness probe failed: " + omitted},
		"message of the kubelet": {"Unhealthy", "Liveness probe failed: HTTP probe failed with statuscode: 500", "Liveness probe failed: HTTP probe failed with statuscode: 500"},
		"probe URL":              {"Unhealthy", `Readiness probe failed: Get "http://10.0.0.1:80/": EOF`, `Readiness probe failed: Get "http://10.0.0.1:80/": EOF`},
		"hook output":            {"FailedPostStartHook", "kanarienvogel", omitted},
		"no program output":      {"FailedMount", "kanarienvogel", "kanarienvogel"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			e := &corev1.Event{Reason: tc.reason, Message: tc.message}
			if redactEvent(e); e.Message != tc.want {
				t.Errorf("got %q, want %q", e.Message, tc.want)
			}
		})
	}
}

func TestRedactPod(t *testing.T) {
	const omitted = "(omitted: 13 bytes of program output; use --logs to include them)"
	terminated := func(reason, message string) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: reason, Message: message}}
	}
	pod := &corev1.Pod{Status: corev1.PodStatus{
		InitContainerStatuses: []corev1.ContainerStatus{{State: terminated("Error", "kanarienvogel")}},
		ContainerStatuses: []corev1.ContainerStatus{
			{State: terminated("Error", ""), LastTerminationState: terminated("OOMKilled", "kanarienvogel")},
			{State: terminated("StartError", "no such file")}, {},
		},
	}}
	redactPod(pod)
	for what, pair := range map[string][2]string{
		"init container":    {pod.Status.InitContainerStatuses[0].State.Terminated.Message, omitted},
		"empty message":     {pod.Status.ContainerStatuses[0].State.Terminated.Message, ""},
		"previous instance": {pod.Status.ContainerStatuses[0].LastTerminationState.Terminated.Message, omitted},
		"container runtime": {pod.Status.ContainerStatuses[1].State.Terminated.Message, "no such file"},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: got %q, want %q", what, pair[0], pair[1])
		}
	}
}

func TestPodLogs(t *testing.T) {
	var requests []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		requests = append(requests, q.Get("container")+" previous="+q.Get("previous")+" since="+q.Get("sinceSeconds")+" tail="+q.Get("tailLines"))
		if q.Get("container") == "broken" {
			http.Error(w, "no node", http.StatusBadGateway)
			return
		}
		_, _ = io.WriteString(w, "connected with TOKEN=kanarienvogel\n")
	}))
	defer server.Close()
	kube, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	c := &collector{kube: kube, options: options{since: time.Hour}}
	running, terminated := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1"}, Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{
		{Name: "web", State: running, LastTerminationState: terminated}, {Name: "waits"}, {Name: "broken", State: terminated}}}}
	err = c.addPodLogs(t.Context(), pod, "logs")
	if err == nil || !strings.HasPrefix(err.Error(), "get log of Pod shop/web-1, container broken: ") {
		t.Errorf("got %v", err)
	}
	got := map[string]string{}
	for _, f := range c.bundle.files {
		got[f.name] = string(f.content)
	}
	if diff := cmp.Diff(map[string]string{"logs/web-1.web.log": "connected with TOKEN=(hidden)\n", "logs/web-1.web.previous.log": "connected with TOKEN=(hidden)\n"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	want := []string{"web previous= since=3600 tail=1000", "web previous=true since=3600 tail=1000", "broken previous= since=3600 tail=1000"}
	if diff := cmp.Diff(want, requests); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSaveDoesNotOverwrite(t *testing.T) {
	dir := t.TempDir()
	cases := []struct{ where, want, wantErr string }{
		{filepath.Join(dir, "a.zip"), filepath.Join(dir, "a.zip"), ""},
		{filepath.Join(dir, "a.zip"), "", "a.zip already exists; specify another file with -o"},
		{dir, filepath.Join(dir, "new.zip"), ""},
		{filepath.Join(dir, "none", "a.zip"), "", "no such file or directory; specify another file with -o"},
	}
	for _, tc := range cases {
		got, err := save(tc.where, "new.zip", []byte("x"))
		if got != tc.want || (err != nil) != (tc.wantErr != "") || err != nil && !strings.HasSuffix(err.Error(), tc.wantErr) {
			t.Errorf("%s: got %q %v, want %q %s", tc.where, got, err, tc.want, tc.wantErr)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "a.zip")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("other users can read it: %v %v", info, err)
	}
}

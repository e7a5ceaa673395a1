package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/client/clientset/versioned"
	typed "github.com/holdfast-dev/holdfast/client/clientset/versioned/typed/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil"
	"github.com/holdfast-dev/holdfast/test/faults/proxy"
)

// flakyWriter fails at the first attempt to print certain lines.
type flakyWriter struct {
	*gbytes.Buffer
	failOn string
}

func (p *flakyWriter) Write(line []byte) (int, error) {
	if p.failOn != "" && strings.Contains(string(line), p.failOn) {
		p.failOn = ""
		return 0, errors.New("write failed")
	}
	return p.Buffer.Write(line)
}

type fixture struct {
	*testing.T
	*WithT
	apps typed.AppServiceInterface
	ns   string
}

func (s *fixture) create(name, team string) *appsapi.AppService {
	app := &appsapi.AppService{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if team != "" {
		app.Labels = map[string]string{"team": team}
	}
	app.Spec.Image = "nginx:1.27"
	app, err := s.apps.Create(s.Context(), app, metav1.CreateOptions{})
	s.Expect(err).NotTo(HaveOccurred())
	return app
}

// setReadyCondition writes the Ready condition as the operator does.
func (s *fixture) setReadyCondition(app *appsapi.AppService, status metav1.ConditionStatus, reason, message string) {
	app.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: status, Reason: reason, Message: message,
		ObservedGeneration: app.Generation, LastTransitionTime: metav1.Now()}}
	app.Status.ReplicasReady = "1/1"
	_, err := s.apps.UpdateStatus(s.Context(), app, metav1.UpdateOptions{})
	s.Expect(err).NotTo(HaveOccurred())
}

func TestWatchAppServices(t *testing.T) {
	plane := testutil.SharedControlPlane(t)
	if _, err := plane.InstallCRDs("../../config/crd"); err != nil {
		t.Fatal(err)
	}
	p, err := proxy.Start(plane.Config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Stop() })
	ns := testutil.Namespace(t, plane.Config)
	s := &fixture{T: t, WithT: NewWithT(t), ns: ns, apps: versioned.NewForConfigOrDie(plane.Config).AppsV1alpha1().AppServices(ns)}
	s.SetDefaultEventuallyTimeout(20 * time.Second)

	web := s.create("web", "blue") // created before the start, so the first list contains it
	out := &flakyWriter{Buffer: gbytes.NewBuffer(), failOn: "ready, 1/1"}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- run(ctx, p.Config, out, options{namespace: ns, label: "team", workers: 2}) }()
	expectLine := func(line string) {
		t.Helper()
		s.Eventually(func() string { return string(out.Contents()) }).Should(ContainSubstring(ns + "/" + line + "\n"))
	}

	expectLine("web: not observed by the operator yet (team=blue: 0 of 1 ready)")
	s.setReadyCondition(web, metav1.ConditionTrue, "Reconciled", "Everything runs as declared")
	expectLine("web: ready, 1/1 (team=blue: 1 of 1 ready)") // at the second attempt

	api := s.create("api", "blue")
	expectLine("api: not observed by the operator yet (team=blue: 1 of 2 ready)")
	s.setReadyCondition(api, metav1.ConditionFalse, "ComponentDegraded", `Image "nginx:1.27" does not exist in its registry`)
	expectLine(`api: not ready, ComponentDegraded: Image "nginx:1.27" does not exist in its registry (team=blue: 1 of 2 ready)`)

	// A change that does not affect the output, followed by one that does.
	_, err = s.apps.Patch(t.Context(), "web", types.MergePatchType, []byte(`{"metadata":{"annotations":{"example.com/a":"b"}}}`), metav1.PatchOptions{})
	s.Expect(err).NotTo(HaveOccurred())
	_, err = s.apps.Patch(t.Context(), "api", types.MergePatchType, []byte(`{"spec":{"image":"nginx:1.28"}}`), metav1.PatchOptions{})
	s.Expect(err).NotTo(HaveOccurred())
	expectLine("api: edited, not observed by the operator yet (team=blue: 1 of 2 ready)")

	// The deletion happens while the watch is interrupted.
	p.HoldEvents(nil)
	s.Expect(s.apps.Delete(t.Context(), "web", metav1.DeleteOptions{})).To(Succeed())
	s.Expect(p.ExpireWatches(nil)).To(BeNumerically(">", 0))
	p.ReleaseEvents()
	expectLine("web: deleted")
	s.create("alone", "") // without the label; the watch continues
	expectLine("alone: not observed by the operator yet")

	stop()
	s.Eventually(done).Should(Receive(Not(HaveOccurred())))
	// One line per change, no duplicates.
	got := strings.Split(strings.TrimSpace(string(out.Contents())), "\n")
	sorted := slices.Compact(slices.Sorted(slices.Values(got)))
	if len(got) != 7 || len(sorted) != 7 {
		t.Errorf("got %d lines, want 7:\n%s", len(got), strings.Join(got, "\n"))
	}
}

func TestDescribe(t *testing.T) {
	ready := metav1.Condition{Type: "Ready", Status: "True", Reason: "Reconciled", ObservedGeneration: 2}
	failing := metav1.Condition{Type: "Ready", Status: "False", Reason: "Progressing", Message: "1 of 2 pods are ready", ObservedGeneration: 2}
	now := metav1.Now()
	for name, tc := range map[string]struct {
		conditions []metav1.Condition
		generation int64
		deleted    *metav1.Time
		want       string
	}{
		"no condition":      {generation: 1, want: "not observed by the operator yet"},
		"ready":             {conditions: []metav1.Condition{ready}, generation: 2, want: "ready, 2/2"},
		"not ready":         {conditions: []metav1.Condition{failing}, generation: 2, want: "not ready, Progressing: 1 of 2 pods are ready"},
		"about an old spec": {conditions: []metav1.Condition{ready}, generation: 3, want: "edited, not observed by the operator yet"},
		"being deleted":     {conditions: []metav1.Condition{ready}, generation: 2, deleted: &now, want: "being deleted"},
	} {
		t.Run(name, func(t *testing.T) {
			app := &appsapi.AppService{ObjectMeta: metav1.ObjectMeta{Generation: tc.generation, DeletionTimestamp: tc.deleted}}
			app.Status.Conditions, app.Status.ReplicasReady = tc.conditions, "2/2"
			if diff := cmp.Diff(tc.want, describe(app)); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
		})
	}
}

// TestMissingCRDIsReported checks that a missing CRD is an error. An informer would only retry.
func TestMissingCRDIsReported(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler()) // no such CRD
	defer server.Close()
	err := run(t.Context(), &rest.Config{Host: server.URL}, io.Discard, options{label: "team", workers: 1})
	if !apierrors.IsNotFound(err) {
		t.Errorf("got error %v, want not found", err)
	}
}

// TestFailedPrintIsRetried checks retries of the queue without a server.
func TestFailedPrintIsRetried(t *testing.T) {
	out := &flakyWriter{Buffer: gbytes.NewBuffer(), failOn: "deleted"}
	w := newWatcher(out, "team")
	defer w.queue.ShutDown()
	name := cache.ObjectName{Namespace: "shop", Name: "web"}
	w.printed[name] = "ready, 1/1"
	if err := w.printDeleted(name); err == nil || w.printed[name] == "" {
		t.Errorf("got error %v and last line %q, want an error and the unchanged last line", err, w.printed[name])
	}
	if err := w.printDeleted(name); err != nil || len(w.printed) != 0 {
		t.Errorf("second attempt: %v, printed %v", err, w.printed)
	}
}

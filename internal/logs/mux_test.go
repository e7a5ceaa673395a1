package logs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// fakeLogs are logs of a fake kubelet by pod and container. The tests of the CLI verb use a simulated
// kubelet behind a real API server; test/e2e uses a real one.
type fakeLogs struct {
	mu sync.Mutex
	// logs are returned in order; the last one is repeated.
	logs     map[string][]fakeLog
	requests []string
}

// fakeLog is one response.
type fakeLog struct {
	text string
	// open keeps the stream open until it is closed.
	open chan struct{}
	err  error
}

func (f *fakeLogs) open(ctx context.Context, pod *corev1.Pod, o *corev1.PodLogOptions) (io.ReadCloser, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	name := pod.Name + "/" + o.Container
	request := fmt.Sprintf("%s follow=%t previous=%t", name, o.Follow, o.Previous)
	if o.TailLines != nil {
		request += fmt.Sprintf(" tail=%d", *o.TailLines)
	}
	if o.SinceSeconds != nil {
		request += fmt.Sprintf(" since=%ds", *o.SinceSeconds)
	}
	if o.SinceTime != nil {
		request += " since=" + o.SinceTime.UTC().Format(time.TimeOnly)
	}
	f.requests = append(f.requests, request)
	logs := f.logs[name]
	if len(logs) == 0 {
		return nil, fmt.Errorf("no log for %s", name)
	}
	l := logs[0]
	if len(logs) > 1 {
		f.logs[name] = logs[1:]
	}
	return &fakeStream{strings.NewReader(l.text), ctx, l.open}, l.err
}

// fakeStream is an open log stream.
type fakeStream struct {
	*strings.Reader
	ctx  context.Context
	open chan struct{}
}

func (r *fakeStream) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if errors.Is(err, io.EOF) && r.open != nil {
		select {
		case <-r.open:
		case <-r.ctx.Done():
			return 0, r.ctx.Err()
		}
	}
	return n, err
}

func (*fakeStream) Close() error { return nil }

func logLine(seconds int, text string) string {
	return fmt.Sprintf("2026-01-02T03:04:%02d.5Z %s\n", seconds, text)
}

// pod returns a pod of a Job.
func pod(name string, states ...corev1.ContainerStatus) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "shop-job-" + name, UID: types.UID(name),
		OwnerReferences: []metav1.OwnerReference{{Kind: "Job", Name: "shop-job", Controller: new(true)}},
	}}
	for _, s := range states {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: s.Name})
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, s)
	}
	return p
}

func runningStatus(name, id string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, ContainerID: id, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
}

func terminatedStatus(name, id string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, ContainerID: id, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}
}

func waitingStatus(name string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}}
}

func allContainers(pods ...*corev1.Pod) []container {
	var out []container
	for _, p := range pods {
		out = append(out, containersOf(p, "web", "")...)
	}
	return out
}

// syncBuffer is a buffer that is safe for concurrent use.
type syncBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *syncBuffer) drain() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.Reset()
	return b.String()
}

// printer is a sink that formats lines.
type printer struct {
	out, errOut io.Writer
	times       bool
}

func (p printer) WriteLine(l Line) error {
	if p.times && l.Time != "" {
		l.Text = l.Time + " " + l.Text
	}
	_, err := fmt.Fprintf(p.out, "%s  %s\n", l.Prefix, l.Text)
	return err
}

func (p printer) Notify(sentence string) { fmt.Fprintln(p.errOut, sentence) }

var hints = Hints{SelectFewer: "choose with --component or -c, or follow more with --max-streams", OmitPrevious: "leave out --previous"}

func TestPrintOnce(t *testing.T) {
	restarted := runningStatus("app", "2")
	restarted.RestartCount = 1
	denied := apierrors.NewForbidden(schema.GroupResource{Resource: "pods/log"}, "shop-job-a", errors.New("no"))
	cases := map[string]struct {
		options              Options
		pods                 []*corev1.Pod
		logs                 map[string][]fakeLog
		times                bool
		out, errOut, wantErr string
		requests             []string
	}{
		"two containers": {
			options: Options{Tail: 10, Since: time.Minute}, pods: []*corev1.Pod{pod("a", runningStatus("app", "1"), runningStatus("proxy", "2"))},
			logs:     map[string][]fakeLog{"shop-job-a/app": {{text: logLine(1, "one") + logLine(2, "two")}}, "shop-job-a/proxy": {{text: logLine(1, "p")}}},
			out:      "web/a app  one\nweb/a app  two\nweb/a proxy  p\n",
			requests: []string{"shop-job-a/app follow=false previous=false tail=10 since=60s", "shop-job-a/proxy follow=false previous=false tail=10 since=60s"},
		},
		"with times": {
			options: Options{Tail: -1}, times: true, pods: []*corev1.Pod{pod("a", runningStatus("app", "1"))},
			logs: map[string][]fakeLog{"shop-job-a/app": {{text: logLine(1, "one") + "no time\n" + logLine(2, "the end is missing")[:30]}}},
			out:  "web/a app  2026-01-02T03:04:01.5Z one\nweb/a app  no time\nweb/a app  2026-01-02T03:04:02.5Z the end\n",
		},
		"one container has not started, another cannot be read": {
			options: Options{Tail: -1}, pods: []*corev1.Pod{pod("a", waitingStatus("app")), pod("b", runningStatus("app", "1")), pod("c", runningStatus("app", "1"))},
			logs: map[string][]fakeLog{"shop-job-b/app": {{err: errors.New("no route to host")}}, "shop-job-c/app": {{text: logLine(1, "one")}}},
			out:  "web/c app  one\n",
			errOut: "web/a app has no logs yet: ContainerCreating; for details: kubectl describe pod shop-job-a -n shop\nweb/b app cannot be " +
				"read: no route to host; try again\n",
		},
		"previous container": {
			options: Options{Tail: -1, Previous: true}, pods: []*corev1.Pod{pod("a", runningStatus("app", "1")), pod("b", restarted)},
			logs:     map[string][]fakeLog{"shop-job-b/app": {{text: logLine(1, "one")}}},
			out:      "web/b app  one\n",
			requests: []string{"shop-job-b/app follow=false previous=true"},
		},
		"more containers than the limit": {
			options: Options{Tail: -1, MaxContainers: 1, Hints: hints}, pods: []*corev1.Pod{pod("a", runningStatus("app", "1")), pod("b", runningStatus("app", "1"))},
			logs:   map[string][]fakeLog{"shop-job-a/app": {{text: logLine(1, "one")}}},
			out:    "web/a app  one\n",
			errOut: "read 1 of 2 containers; " + hints.SelectFewer + "\n",
		},
		"previous without restarts": {
			options: Options{Previous: true, Hints: hints}, pods: []*corev1.Pod{pod("a", runningStatus("app", "1"))},
			errOut: "no container was restarted; leave out --previous\n",
		},
		"forbidden": {
			pods: []*corev1.Pod{pod("a", runningStatus("app", "1")), pod("b", runningStatus("app", "1"))},
			logs: map[string][]fakeLog{"shop-job-a/app": {{err: denied}}}, requests: []string{"shop-job-a/app follow=false previous=false tail=0"},
			wantErr: `read the log of web/a app: pods/log "shop-job-a" is forbidden: no`,
		},
		"line longer than the buffer": {
			options: Options{Tail: -1}, pods: []*corev1.Pod{pod("a", runningStatus("app", "1"))},
			logs: map[string][]fakeLog{"shop-job-a/app": {{text: logLine(1, strings.Repeat("x", maxLine)) + logLine(2, "two")}}},
			out:  "web/a app  " + strings.Repeat("x", maxLine-len(logLine(1, ""))+1) + "\nweb/a app  " + strings.Repeat("x", len(logLine(1, ""))-1) + "\nweb/a app  two\n",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var out, errOut bytes.Buffer
			w := &fakeLogs{logs: tc.logs}
			m := &mux{options: tc.options, opener: w, out: printer{&out, &errOut, tc.times}}
			err := m.printOnce(t.Context(), allContainers(tc.pods...))
			if fmt.Sprint(err) != tc.wantErr && (err != nil || tc.wantErr != "") {
				t.Errorf("got  %v\nwant %s", err, tc.wantErr)
			}
			if out.String() != tc.out || errOut.String() != tc.errOut {
				t.Errorf("got\n%.300q\n%q\nwant\n%.300q\n%q", out.String(), errOut.String(), tc.out, tc.errOut)
			}
			if diff := cmp.Diff(tc.requests, w.requests); tc.requests != nil && diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

// followTest is a running follower in a synctest bubble.
type followTest struct {
	t           *testing.T
	pods        []*corev1.Pod
	changed     chan struct{}
	out, errOut syncBuffer
	done        chan error
	stop        context.CancelFunc
}

func startFollow(t *testing.T, w *fakeLogs, streams int, pods ...*corev1.Pod) *followTest {
	ctx, stop := context.WithCancel(t.Context())
	f := &followTest{t: t, pods: pods, changed: make(chan struct{}), done: make(chan error, 1), stop: stop}
	m := &mux{options: Options{Follow: true, Tail: 10, MaxStreams: streams, Hints: hints}, opener: w, out: printer{&f.out, &f.errOut, false}}
	go func() {
		f.done <- newFollower(m).run(ctx, f.changed, func() ([]container, error) { return allContainers(f.pods...), nil })
	}()
	return f
}

// setPods changes the pods.
func (f *followTest) setPods(pods ...*corev1.Pod) {
	synctest.Wait()
	f.pods = pods
	f.changed <- struct{}{}
}

// expectOutput waits for some seconds and compares the output.
func (f *followTest) expectOutput(out, errOut string) {
	f.t.Helper()
	time.Sleep(3*retryInterval + retryInterval/2)
	synctest.Wait()
	if gotOut, gotErr := f.out.drain(), f.errOut.drain(); gotOut != out || gotErr != errOut {
		f.t.Errorf("got\n%q\n%q\nwant\n%q\n%q", gotOut, gotErr, out, errOut)
	}
}

func (f *followTest) stopAndCheck() {
	f.t.Helper()
	f.stop()
	if err := <-f.done; err != nil {
		f.t.Error(err)
	}
}

func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		w := &fakeLogs{logs: map[string][]fakeLog{
			"shop-job-a/app": {{text: logLine(1, "one") + logLine(2, "two"), open: hold}, {text: logLine(2, "two") + logLine(3, "three"), open: make(chan struct{})}},
			"shop-job-b/app": {{text: logLine(1, "b1")}, {}, {text: logLine(5, "b again"), open: make(chan struct{})}},
		}}
		f := startFollow(t, w, 20, pod("a", runningStatus("app", "1")), pod("b", waitingStatus("app")))
		f.expectOutput("web/a app  one\nweb/a app  two\n", "web/b app has no logs yet: ContainerCreating; it is followed when it starts\n")
		// The connection is lost within the same second: no line is repeated or lost.
		close(hold)
		f.expectOutput("web/a app  three\n", "")
		// A new pod and a restarted container are read from the beginning.
		f.setPods(pod("a", runningStatus("app", "1")), pod("b", terminatedStatus("app", "1")))
		f.expectOutput("web/b app  b1\n", "")
		f.setPods(pod("a", runningStatus("app", "1")), pod("b", runningStatus("app", "2")))
		f.expectOutput("web/b app  b again\n", "")
		f.stopAndCheck()
		want := []string{
			"shop-job-a/app follow=true previous=false tail=10", "shop-job-a/app follow=true previous=false since=03:04:02",
			"shop-job-b/app follow=true previous=false", "shop-job-b/app follow=true previous=false", "shop-job-b/app follow=true previous=false",
		}
		if diff := cmp.Diff(want, w.requests); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
	})
}

func TestFollowMaxStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold, open := make(chan struct{}), make(chan struct{})
		w := &fakeLogs{logs: map[string][]fakeLog{
			"shop-job-a/app": {{text: logLine(1, "a"), open: hold}, {}}, "shop-job-b/app": {{text: logLine(1, "b"), open: open}},
			"shop-job-c/app": {{text: logLine(1, "c"), open: open}}, "shop-job-d/app": {{text: logLine(1, "d"), open: open}},
		}}
		a, b, c, d := pod("a", runningStatus("app", "1")), pod("b", runningStatus("app", "1")), pod("c", runningStatus("app", "1")), pod("d", runningStatus("app", "1"))
		f := startFollow(t, w, 1, a, b, c, d)
		f.expectOutput("web/a app  a\n", "following 1 of 4 containers; choose with --component or -c, or follow more with --max-streams\n")
		f.pods = []*corev1.Pod{b, c}
		close(hold)
		f.expectOutput("web/b app  b\n", "following 1 of 2 containers; choose with --component or -c, or follow more with --max-streams\n")
		f.setPods(b)
		f.expectOutput("", "all containers are followed now\n")
		f.stopAndCheck()
	})
}

func TestFollowStopsWhenForbidden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		denied := apierrors.NewForbidden(schema.GroupResource{Resource: "pods/log"}, "shop-job-a", errors.New("no"))
		f := startFollow(t, &fakeLogs{logs: map[string][]fakeLog{"shop-job-a/app": {{err: denied}}, "shop-job-b/app": {{open: make(chan struct{})}}}}, 20,
			pod("a", runningStatus("app", "1")), pod("b", runningStatus("app", "1")))
		if err := <-f.done; !apierrors.IsForbidden(err) {
			t.Errorf("got %v, want Forbidden", err)
		}
		f.stop()
	})
}

func TestFollowRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errUnreachable := errors.New("no route to host")
		f := startFollow(t, &fakeLogs{logs: map[string][]fakeLog{"shop-job-a/app": {{err: errUnreachable}, {err: errUnreachable}, {text: logLine(1, "one"), open: make(chan struct{})}}}}, 20, pod("a", runningStatus("app", "1")))
		f.expectOutput("web/a app  one\n", "web/a app cannot be read: no route to host; retrying\n")
		f.stopAndCheck()
	})
}

func TestPodSuffix(t *testing.T) {
	owned := func(pod, kind, owner, hash string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: pod, OwnerReferences: []metav1.OwnerReference{{Kind: kind, Name: owner, Controller: new(true)}}}}
		if hash != "" {
			p.Labels = map[string]string{"pod-template-hash": hash}
		}
		return p
	}
	cases := map[string]*corev1.Pod{
		"7d9f8b-x2x4z": owned("shop-web-7d9f8b-x2x4z", "ReplicaSet", "shop-web-7d9f8b", "7d9f8b"),
		"0":            owned("shop-db-0", "StatefulSet", "shop-db", ""),
		"abcde":        owned("shop-migrate-abcde", "Job", "shop-migrate", ""),
		"a-cut-name":   owned("a-cut-name", "ReplicaSet", "a-cut-name-that-was-longer-7d9f8b", "7d9f8b"),
		"alone":        {ObjectMeta: metav1.ObjectMeta{Name: "alone"}},
	}
	for want, p := range cases {
		if got := podSuffix(p); got != want {
			t.Errorf("%s: got %q, want %q", p.Name, got, want)
		}
	}
}

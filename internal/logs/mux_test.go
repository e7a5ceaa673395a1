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

// written are logs as a kubelet would give them, by pod and container. TestStories has a
// played kubelet behind a real API server; a real one is in the journeys.
type written struct {
	mu sync.Mutex
	// logs are what is answered, one after the other; the last one again and again.
	logs  map[string][]log
	asked []string
}

// log is one answer.
type log struct {
	text string
	// open logs go on until they are closed.
	open chan struct{}
	err  error
}

func (w *written) open(ctx context.Context, pod *corev1.Pod, o *corev1.PodLogOptions) (io.ReadCloser, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	name := pod.Name + "/" + o.Container
	asked := fmt.Sprintf("%s follow=%t previous=%t", name, o.Follow, o.Previous)
	if o.TailLines != nil {
		asked += fmt.Sprintf(" tail=%d", *o.TailLines)
	}
	if o.SinceSeconds != nil {
		asked += fmt.Sprintf(" since=%ds", *o.SinceSeconds)
	}
	if o.SinceTime != nil {
		asked += " since=" + o.SinceTime.UTC().Format(time.TimeOnly)
	}
	w.asked = append(w.asked, asked)
	logs := w.logs[name]
	if len(logs) == 0 {
		return nil, fmt.Errorf("nobody wrote %s", name)
	}
	l := logs[0]
	if len(logs) > 1 {
		w.logs[name] = logs[1:]
	}
	return &reading{strings.NewReader(l.text), ctx, l.open}, l.err
}

// reading is a log that is being read.
type reading struct {
	*strings.Reader
	ctx  context.Context
	open chan struct{}
}

func (r *reading) Read(p []byte) (int, error) {
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

func (*reading) Close() error { return nil }

func at(seconds int, text string) string {
	return fmt.Sprintf("2026-01-02T03:04:%02d.5Z %s\n", seconds, text)
}

// pod is one of a Job.
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

func runs(name, id string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, ContainerID: id, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
}

func ended(name, id string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, ContainerID: id, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}
}

func starts(name string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}}
}

func all(pods ...*corev1.Pod) []container {
	var out []container
	for _, p := range pods {
		out = append(out, containersOf(p, "web", "")...)
	}
	return out
}

// terminal is safe to look at while somebody writes.
type terminal struct {
	mu sync.Mutex
	bytes.Buffer
}

func (t *terminal) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.Buffer.Write(p)
}

func (t *terminal) take() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.Reset()
	return t.String()
}

// printer is who reads the lines.
type printer struct {
	out, errOut io.Writer
	times       bool
}

func (p printer) Line(l Line) error {
	if p.times && l.Time != "" {
		l.Text = l.Time + " " + l.Text
	}
	_, err := fmt.Fprintf(p.out, "%s  %s\n", l.From, l.Text)
	return err
}

func (p printer) Say(sentence string) { fmt.Fprintln(p.errOut, sentence) }

var hints = Hints{Fewer: "choose with --component or -c, or follow more with --max-streams", NotPrevious: "leave out --previous"}

func TestOnce(t *testing.T) {
	restarted := runs("app", "2")
	restarted.RestartCount = 1
	denied := apierrors.NewForbidden(schema.GroupResource{Resource: "pods/log"}, "shop-job-a", errors.New("no"))
	cases := map[string]struct {
		options             Options
		pods                []*corev1.Pod
		logs                map[string][]log
		times               bool
		out, errOut, wanted string
		asked               []string
	}{
		"two containers": {
			options: Options{Tail: 10, Since: time.Minute}, pods: []*corev1.Pod{pod("a", runs("app", "1"), runs("proxy", "2"))},
			logs:  map[string][]log{"shop-job-a/app": {{text: at(1, "one") + at(2, "two")}}, "shop-job-a/proxy": {{text: at(1, "p")}}},
			out:   "web/a app  one\nweb/a app  two\nweb/a proxy  p\n",
			asked: []string{"shop-job-a/app follow=false previous=false tail=10 since=60s", "shop-job-a/proxy follow=false previous=false tail=10 since=60s"},
		},
		"with times": {
			options: Options{Tail: -1}, times: true, pods: []*corev1.Pod{pod("a", runs("app", "1"))},
			logs: map[string][]log{"shop-job-a/app": {{text: at(1, "one") + "no time\n" + at(2, "the end is missing")[:30]}}},
			out:  "web/a app  2026-01-02T03:04:01.5Z one\nweb/a app  no time\nweb/a app  2026-01-02T03:04:02.5Z the end\n",
		},
		"one that cannot be read yet, and one that cannot": {
			options: Options{Tail: -1}, pods: []*corev1.Pod{pod("a", starts("app")), pod("b", runs("app", "1")), pod("c", runs("app", "1"))},
			logs:   map[string][]log{"shop-job-b/app": {{err: errors.New("no route to host")}}, "shop-job-c/app": {{text: at(1, "one")}}},
			out:    "web/c app  one\n",
			errOut: "web/a app cannot be read yet: ContainerCreating; kubectl describe pod shop-job-a -n shop says more\nweb/b app cannot be read: no route to host; try again\n",
		},
		"before a restart": {
			options: Options{Tail: -1, Previous: true}, pods: []*corev1.Pod{pod("a", runs("app", "1")), pod("b", restarted)},
			logs:  map[string][]log{"shop-job-b/app": {{text: at(1, "one")}}},
			out:   "web/b app  one\n",
			asked: []string{"shop-job-b/app follow=false previous=true"},
		},
		"more than are read": {
			options: Options{Tail: -1, AtMost: 1, Hints: hints}, pods: []*corev1.Pod{pod("a", runs("app", "1")), pod("b", runs("app", "1"))},
			logs:   map[string][]log{"shop-job-a/app": {{text: at(1, "one")}}},
			out:    "web/a app  one\n",
			errOut: "read 1 of 2 containers; " + hints.Fewer + "\n",
		},
		"nothing was restarted": {
			options: Options{Previous: true, Hints: hints}, pods: []*corev1.Pod{pod("a", runs("app", "1"))},
			errOut: "no container was restarted; leave out --previous\n",
		},
		"no right to read": {
			pods: []*corev1.Pod{pod("a", runs("app", "1")), pod("b", runs("app", "1"))},
			logs: map[string][]log{"shop-job-a/app": {{err: denied}}}, asked: []string{"shop-job-a/app follow=false previous=false tail=0"},
			wanted: `read the log of web/a app: pods/log "shop-job-a" is forbidden: no`,
		},
		"a line longer than the memory for it": {
			options: Options{Tail: -1}, pods: []*corev1.Pod{pod("a", runs("app", "1"))},
			logs: map[string][]log{"shop-job-a/app": {{text: at(1, strings.Repeat("x", maxLine)) + at(2, "two")}}},
			out:  "web/a app  " + strings.Repeat("x", maxLine-len(at(1, ""))+1) + "\nweb/a app  " + strings.Repeat("x", len(at(1, ""))-1) + "\nweb/a app  two\n",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var out, errOut bytes.Buffer
			w := &written{logs: tc.logs}
			m := &mux{options: tc.options, logs: w, out: printer{&out, &errOut, tc.times}}
			err := m.once(t.Context(), all(tc.pods...))
			if fmt.Sprint(err) != tc.wanted && (err != nil || tc.wanted != "") {
				t.Errorf("got  %v\nwant %s", err, tc.wanted)
			}
			if out.String() != tc.out || errOut.String() != tc.errOut {
				t.Errorf("got\n%.300q\n%q\nwant\n%.300q\n%q", out.String(), errOut.String(), tc.out, tc.errOut)
			}
			if diff := cmp.Diff(tc.asked, w.asked); tc.asked != nil && diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
		})
	}
}

// following is a person who follows, in time that passes by itself.
type following struct {
	t           *testing.T
	pods        []*corev1.Pod
	changed     chan struct{}
	out, errOut terminal
	done        chan error
	stop        context.CancelFunc
}

func follow(t *testing.T, w *written, streams int, pods ...*corev1.Pod) *following {
	ctx, stop := context.WithCancel(t.Context())
	f := &following{t: t, pods: pods, changed: make(chan struct{}), done: make(chan error, 1), stop: stop}
	m := &mux{options: Options{Follow: true, Tail: 10, Streams: streams, Hints: hints}, logs: w, out: printer{&f.out, &f.errOut, false}}
	go func() {
		f.done <- newFollower(m).run(ctx, f.changed, func() ([]container, error) { return all(f.pods...), nil })
	}()
	return f
}

// becomes changes the pods.
func (f *following) becomes(pods ...*corev1.Pod) {
	synctest.Wait()
	f.pods = pods
	f.changed <- struct{}{}
}

// sees waits for some seconds and compares what was printed in them.
func (f *following) sees(out, errOut string) {
	f.t.Helper()
	time.Sleep(3*again + again/2)
	synctest.Wait()
	if gotOut, gotErr := f.out.take(), f.errOut.take(); gotOut != out || gotErr != errOut {
		f.t.Errorf("got\n%q\n%q\nwant\n%q\n%q", gotOut, gotErr, out, errOut)
	}
}

func (f *following) ends() {
	f.t.Helper()
	f.stop()
	if err := <-f.done; err != nil {
		f.t.Error(err)
	}
}

func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		w := &written{logs: map[string][]log{
			"shop-job-a/app": {{text: at(1, "one") + at(2, "two"), open: hold}, {text: at(2, "two") + at(3, "three"), open: make(chan struct{})}},
			"shop-job-b/app": {{text: at(1, "b1")}, {}, {text: at(5, "b again"), open: make(chan struct{})}},
		}}
		f := follow(t, w, 20, pod("a", runs("app", "1")), pod("b", starts("app")))
		f.sees("web/a app  one\nweb/a app  two\n", "web/b app cannot be read yet: ContainerCreating; it follows when it runs\n")
		// The connection is lost in the same second: nothing twice, nothing lost.
		close(hold)
		f.sees("web/a app  three\n", "")
		// A pod that comes is read from its beginning, and so is a container that is restarted.
		f.becomes(pod("a", runs("app", "1")), pod("b", ended("app", "1")))
		f.sees("web/b app  b1\n", "")
		f.becomes(pod("a", runs("app", "1")), pod("b", runs("app", "2")))
		f.sees("web/b app  b again\n", "")
		f.ends()
		want := []string{
			"shop-job-a/app follow=true previous=false tail=10", "shop-job-a/app follow=true previous=false since=03:04:02",
			"shop-job-b/app follow=true previous=false", "shop-job-b/app follow=true previous=false", "shop-job-b/app follow=true previous=false",
		}
		if diff := cmp.Diff(want, w.asked); diff != "" {
			t.Errorf("asked (-want +got):\n%s", diff)
		}
	})
}

func TestFollowAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold, open := make(chan struct{}), make(chan struct{})
		w := &written{logs: map[string][]log{
			"shop-job-a/app": {{text: at(1, "a"), open: hold}, {}}, "shop-job-b/app": {{text: at(1, "b"), open: open}},
			"shop-job-c/app": {{text: at(1, "c"), open: open}}, "shop-job-d/app": {{text: at(1, "d"), open: open}},
		}}
		a, b, c, d := pod("a", runs("app", "1")), pod("b", runs("app", "1")), pod("c", runs("app", "1")), pod("d", runs("app", "1"))
		f := follow(t, w, 1, a, b, c, d)
		f.sees("web/a app  a\n", "following 1 of 4 containers; choose with --component or -c, or follow more with --max-streams\n")
		f.pods = []*corev1.Pod{b, c}
		close(hold)
		f.sees("web/b app  b\n", "following 1 of 2 containers; choose with --component or -c, or follow more with --max-streams\n")
		f.becomes(b)
		f.sees("", "all containers are followed now\n")
		f.ends()
	})
}

func TestFollowRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		denied := apierrors.NewForbidden(schema.GroupResource{Resource: "pods/log"}, "shop-job-a", errors.New("no"))
		f := follow(t, &written{logs: map[string][]log{"shop-job-a/app": {{err: denied}}, "shop-job-b/app": {{open: make(chan struct{})}}}}, 20,
			pod("a", runs("app", "1")), pod("b", runs("app", "1")))
		if err := <-f.done; !apierrors.IsForbidden(err) {
			t.Errorf("got %v, want that it is forbidden", err)
		}
		f.stop()
	})
}

func TestFollowTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := errors.New("no route to host")
		f := follow(t, &written{logs: map[string][]log{"shop-job-a/app": {{err: away}, {err: away}, {text: at(1, "one"), open: make(chan struct{})}}}}, 20, pod("a", runs("app", "1")))
		f.sees("web/a app  one\n", "web/a app cannot be read: no route to host; trying again\n")
		f.ends()
	})
}

func TestSuffix(t *testing.T) {
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
		if got := suffix(p); got != want {
			t.Errorf("%s: got %q, want %q", p.Name, got, want)
		}
	}
}

// Package explain says why something is not ready: which of the known causes it is,
// where it is seen, since when, and what helps. It works on values alone, so that the
// operator, the plugin and the center come to the same answer.
//
// Safety rule: what goes into a status is stable and says nothing secret. Counts,
// durations, raw texts and the output of crashed programs are evidence and nothing else;
// sentences and fixes are made of our own words and of names from the spec.
package explain

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Object is where a cause is seen.
type Object struct {
	// Group is that of kinds that are not Kubernetes' own, and empty for those that are.
	Group                 string
	Kind, Namespace, Name string
	UID                   types.UID
}

// Severity says what a cause means for whom it is about.
type Severity int

const (
	// Error explains why something is not ready.
	Error Severity = iota
	// Notice is worth knowing and does not keep anything from being ready.
	Notice
)

func (s Severity) String() string {
	if s == Error {
		return "error"
	}
	return "notice"
}

// Cause is why something is not ready.
type Cause struct {
	Code     Code
	Severity Severity
	Object   Object
	// Path is the field of the object that tells, and Value what matters there.
	Path, Value string
	// Since is when it began.
	Since time.Time
	// Sentence names what is wrong, in at most 512 bytes that stay the same for as long
	// as the cause does.
	Sentence string
	// Fix is one sentence that says what to do.
	Fix string
	// Affects is how many pods have this cause; 0 if it is not about pods.
	Affects int
	// Evidence is everything that changes or was said by others. It is for people who
	// may read the pods, and never goes into a status.
	Evidence []string
}

// maxSentence holds for whatever names and images the input has.
const maxSentence = 512

// Answer is what there is to say about a component.
type Answer struct {
	// Causes has the most important one first. The same cause in several pods is one
	// cause, seen in the oldest of them.
	Causes []Cause
	// Again is when to ask again although nothing happens: a grace period that keeps quiet
	// now is over then, or a crash is so long ago that it no longer explains anything. It is
	// zero if time alone changes nothing.
	Again time.Time
	// Ask are the objects whose events would tell more, the most promising first.
	Ask []Object
}

// Explain says why a component is not ready. It follows the component down to the pods,
// their containers and what these refer to, and names the deepest thing that blocks: what
// only follows from something else is not said.
func Explain(s Scene, now time.Time) Answer {
	e := examine(&s, now)
	switch w := s.Workload.(type) {
	case *batchv1.Job:
		if e.job(w) {
			return e.answer()
		}
	case *batchv1.CronJob: // a run that fails is followed by the next
		return e.answer()
	}
	e.workload()
	e.pods()
	if !e.blocked() {
		e.network()
		e.others()
		e.slow()
	}
	return e.answer()
}

// finding is a cause in one object.
type finding struct {
	Cause
	pod *corev1.Pod // nil for what is not about a pod
	// key is the same for findings that have one cause.
	key string
}

// examiner collects what is found.
type examiner struct {
	scene    *Scene
	now      time.Time
	again    time.Time
	live     int // pods that are expected to run
	findings []finding
	asks     []Object
	asked    map[Object]bool
	// What is looked for once for each pod: an application may have thousands.
	events map[subject][]Event
	claim  func(name string) *corev1.PersistentVolumeClaim
	volume func(name string) *corev1.PersistentVolume
	node   func(name string) *corev1.Node
}

// subject is what an event is about.
type subject struct{ kind, name string }

func examine(s *Scene, now time.Time) *examiner {
	e := &examiner{
		scene: s, now: now, asked: map[Object]bool{}, events: map[subject][]Event{},
		claim: byName(s.Claims), volume: byName(s.Volumes), node: byName(s.Nodes),
	}
	for _, ev := range s.Events {
		about := subject{ev.Object.Kind, ev.Object.Name}
		e.events[about] = append(e.events[about], ev)
	}
	return e
}

func (e *examiner) answer() Answer {
	causes := merge(e.findings, e.live)
	for i := range causes {
		if e.scene.Foreign {
			causes[i].Fix = plain(e.scene.foreign(causes[i].Fix), maxSentence)
		}
	}
	return Answer{Causes: causes, Again: e.again, Ask: e.asks}
}

// blocked says whether something was found that explains why the component is not ready.
func (e *examiner) blocked() bool {
	return slices.ContainsFunc(e.findings, func(f finding) bool { return f.Severity == Error })
}

// look makes sure that somebody asks again at this time.
func (e *examiner) look(at time.Time) {
	if e.again.IsZero() || at.Before(e.again) {
		e.again = at
	}
}

// ask wants the events of an object, if they were not given.
func (e *examiner) ask(o Object) {
	if !e.asked[o] {
		e.asked[o] = true
		e.asks = append(e.asks, o)
	}
}

// add notes a cause that is seen in a pod.
func (e *examiner) add(pod *corev1.Pod, key string, c Cause) {
	c.Object = podObject(pod)
	e.note(pod, key, c)
}

// addTo notes a cause that is seen in another object.
func (e *examiner) addTo(o Object, key string, c Cause) {
	c.Object = o
	e.note(nil, key, c)
}

func (e *examiner) note(pod *corev1.Pod, key string, c Cause) {
	c.Sentence, c.Fix = plain(c.Sentence, maxSentence), plain(c.Fix, maxSentence)
	c.Severity = c.Code.entry().Severity
	e.findings = append(e.findings, finding{Cause: c, pod: pod, key: fmt.Sprintf("%s %s %s", c.Code, c.Object.Namespace, key)})
}

func podObject(pod *corev1.Pod) Object {
	return Object{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
}

// pods examines those that are expected to run, and then what became of others if that is
// why some are missing.
func (e *examiner) pods() {
	ready := 0
	for _, pod := range e.scene.Pods {
		if pod == nil || isOver(pod) {
			continue
		}
		e.live++
		if isReady(pod) {
			ready++
		}
		if !isReady(pod) || hasCrashed(pod) {
			e.pod(pod)
		}
	}
	if ready < e.scene.wanted() && !e.blocked() {
		e.gone()
	}
}

func (e *examiner) pod(pod *corev1.Pod) {
	if e.silentNode(pod) {
		return
	}
	switch c := condition(pod, corev1.PodScheduled); {
	case c != nil && c.Status == corev1.ConditionFalse:
		e.unscheduled(pod, c)
		return
	case c == nil && pod.Spec.NodeName == "" && len(pod.Status.ContainerStatuses) == 0:
		// The scheduler has chosen a node and says nothing until the volumes are made for it.
		e.claims(pod)
		return
	}
	before := len(e.findings)
	for i := range pod.Status.InitContainerStatuses {
		e.container(containerOf(pod, true, i))
	}
	for i := range pod.Status.ContainerStatuses {
		e.container(containerOf(pod, false, i))
	}
	if len(e.findings) == before {
		e.beingCreated(pod)
		e.gated(pod)
	}
}

// merge makes one cause of findings that have the same one. Which finding stands for the
// others does not depend on the order of the pods.
func merge(findings []finding, live int) []Cause {
	slices.SortStableFunc(findings, func(a, b finding) int {
		return cmp.Or(
			a.created().Compare(b.created()),
			cmp.Compare(a.Object.Name, b.Object.Name),
			cmp.Compare(a.Object.Namespace, b.Object.Namespace),
		)
	})
	var causes []Cause
	index := map[string]int{}
	seen := map[string]map[*corev1.Pod]bool{}
	for _, f := range findings {
		if _, ok := index[f.key]; !ok {
			index[f.key] = len(causes)
			causes = append(causes, f.Cause)
			seen[f.key] = map[*corev1.Pod]bool{}
		}
		if f.pod != nil {
			seen[f.key][f.pod] = true
		}
	}
	for key, i := range index {
		if n := len(seen[key]); n > 0 {
			causes[i].Affects = n
			causes[i].Evidence = append([]string{fmt.Sprintf("%d of %d pods", n, max(live, n))}, causes[i].Evidence...)
		}
	}
	rank(causes)
	return causes
}

func (f finding) created() time.Time {
	if f.pod == nil {
		return time.Time{}
	}
	return f.pod.CreationTimestamp.Time
}

// rank puts the causes in order: what explains goes before what is only worth knowing, what
// has to be there before anything else can work comes first, and among equals what began
// first.
func rank(causes []Cause) {
	slices.SortStableFunc(causes, func(a, b Cause) int {
		return cmp.Or(
			cmp.Compare(a.Severity, b.Severity),
			cmp.Compare(a.Code.entry().Rank, b.Code.entry().Rank),
			a.Since.Compare(b.Since),
			cmp.Compare(a.Object.Name, b.Object.Name),
			cmp.Compare(a.Code, b.Code),
			cmp.Compare(a.Value, b.Value),
			cmp.Compare(a.Path, b.Path),
			cmp.Compare(a.Object.Namespace, b.Object.Namespace),
		)
	})
}

// isOver says whether a pod is not expected to run any more: it is being deleted, has
// done its work, or was turned away or evicted by its node, which the status says in its
// reason. How the containers of such a pod ended explains nothing.
func isOver(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil ||
		pod.Status.Phase == corev1.PodSucceeded ||
		pod.Status.Phase == corev1.PodFailed && pod.Status.Reason != ""
}

func isReady(pod *corev1.Pod) bool {
	c := condition(pod, corev1.PodReady)
	return c != nil && c.Status == corev1.ConditionTrue
}

func condition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == kind {
			return c
		}
	}
	return nil
}

// since is when the first of these conditions that is False became so.
func since(pod *corev1.Pod, kinds ...corev1.PodConditionType) time.Time {
	for _, kind := range kinds {
		if c := condition(pod, kind); c != nil && c.Status == corev1.ConditionFalse && !c.LastTransitionTime.IsZero() {
			return c.LastTransitionTime.Time
		}
	}
	return pod.CreationTimestamp.Time
}

// workload keeps pods of different workloads apart, where the same symptom does not mean
// the same cause.
func workload(pod *corev1.Pod) string { return pod.Labels[appsapi.LabelWorkload] }

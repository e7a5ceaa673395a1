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

// ObjectRef is where a cause is seen.
type ObjectRef struct {
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
	Object   ObjectRef
	// Path is the field of the object that tells, and Value what matters there.
	Path, Value string
	// Since is when it began.
	Since time.Time
	// Message names what is wrong, in at most 512 bytes that stay the same for as long
	// as the cause does.
	Message string
	// Fix is one sentence that says what to do.
	Fix string
	// AffectedPods is how many pods have this cause; 0 if it is not about pods.
	AffectedPods int
	// Evidence is everything that changes or was said by others. It is for people who
	// may read the pods, and never goes into a status.
	Evidence []string
}

// maxMessage holds for whatever names and images the input has.
const maxMessage = 512

// Diagnosis is what there is to say about a component.
type Diagnosis struct {
	// Causes has the most important one first. The same cause in several pods is one
	// cause, seen in the oldest of them.
	Causes []Cause
	// RecheckAt is when to ask again although nothing happens: a grace period that keeps quiet
	// now is over then, or a crash is so long ago that it no longer explains anything. It is
	// zero if time alone changes nothing.
	RecheckAt time.Time
	// EventsNeeded are the objects whose events would tell more, the most promising first.
	EventsNeeded []ObjectRef
}

// Explain says why a component is not ready. It follows the component down to the pods,
// their containers and what these refer to, and names the deepest thing that blocks: what
// only follows from something else is not said.
func Explain(s Snapshot, now time.Time) Diagnosis {
	e := newExplainer(&s, now)
	switch w := s.Workload.(type) {
	case *batchv1.Job:
		if e.checkJob(w) {
			return e.diagnosis()
		}
	case *batchv1.CronJob: // a run that fails is followed by the next
		return e.diagnosis()
	}
	e.checkWorkload()
	e.checkPods()
	if !e.hasError() {
		e.checkNetwork()
		e.checkCustomResources()
		e.checkProgress()
	}
	return e.diagnosis()
}

// finding is a cause in one object.
type finding struct {
	Cause
	pod *corev1.Pod // nil for what is not about a pod
	// key is the same for findings that have one cause.
	key string
}

// explainer collects what is found.
type explainer struct {
	snapshot        *Snapshot
	now             time.Time
	recheckAt       time.Time
	activePods      int // pods that are expected to run
	findings        []finding
	eventsNeeded    []ObjectRef
	eventsNeededSet map[ObjectRef]bool
	// What is looked for once for each pod: an application may have thousands.
	eventsBySubject map[eventSubject][]Event
	claimByName     func(name string) *corev1.PersistentVolumeClaim
	volumeByName    func(name string) *corev1.PersistentVolume
	nodeByName      func(name string) *corev1.Node
}

// eventSubject is what an event is about.
type eventSubject struct{ kind, name string }

func newExplainer(s *Snapshot, now time.Time) *explainer {
	e := &explainer{
		snapshot: s, now: now, eventsNeededSet: map[ObjectRef]bool{}, eventsBySubject: map[eventSubject][]Event{},
		claimByName: lazyIndexByName(s.Claims), volumeByName: lazyIndexByName(s.Volumes), nodeByName: lazyIndexByName(s.Nodes),
	}
	for _, ev := range s.Events {
		about := eventSubject{ev.Object.Kind, ev.Object.Name}
		e.eventsBySubject[about] = append(e.eventsBySubject[about], ev)
	}
	return e
}

func (e *explainer) diagnosis() Diagnosis {
	causes := mergeFindings(e.findings, e.activePods)
	for i := range causes {
		if e.snapshot.Unmanaged {
			causes[i].Fix = sanitize(e.snapshot.unmanagedFix(causes[i].Fix), maxMessage)
		}
	}
	return Diagnosis{Causes: causes, RecheckAt: e.recheckAt, EventsNeeded: e.eventsNeeded}
}

// hasError says whether something was found that explains why the component is not ready.
func (e *explainer) hasError() bool {
	return slices.ContainsFunc(e.findings, func(f finding) bool { return f.Severity == Error })
}

// scheduleRecheck makes sure that somebody asks again at this time.
func (e *explainer) scheduleRecheck(at time.Time) {
	if e.recheckAt.IsZero() || at.Before(e.recheckAt) {
		e.recheckAt = at
	}
}

// needEvents wants the events of an object, if they were not given.
func (e *explainer) needEvents(o ObjectRef) {
	if !e.eventsNeededSet[o] {
		e.eventsNeededSet[o] = true
		e.eventsNeeded = append(e.eventsNeeded, o)
	}
}

// addPodCause notes a cause that is seen in a pod.
func (e *explainer) addPodCause(pod *corev1.Pod, key string, c Cause) {
	c.Object = podRef(pod)
	e.addFinding(pod, key, c)
}

// addCause notes a cause that is seen in another object.
func (e *explainer) addCause(o ObjectRef, key string, c Cause) {
	c.Object = o
	e.addFinding(nil, key, c)
}

func (e *explainer) addFinding(pod *corev1.Pod, key string, c Cause) {
	c.Message, c.Fix = sanitize(c.Message, maxMessage), sanitize(c.Fix, maxMessage)
	c.Severity = c.Code.info().Severity
	e.findings = append(e.findings, finding{Cause: c, pod: pod, key: fmt.Sprintf("%s %s %s", c.Code, c.Object.Namespace, key)})
}

func podRef(pod *corev1.Pod) ObjectRef {
	return ObjectRef{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
}

// checkPods examines those that are expected to run, and then what became of others if that is
// why some are missing.
func (e *explainer) checkPods() {
	ready := 0
	for _, pod := range e.snapshot.Pods {
		if pod == nil || isInactive(pod) {
			continue
		}
		e.activePods++
		if isReady(pod) {
			ready++
		}
		if !isReady(pod) || hasRestarted(pod) {
			e.checkPod(pod)
		}
	}
	if ready < e.snapshot.desiredPods() && !e.hasError() {
		e.checkInactivePods()
	}
}

func (e *explainer) checkPod(checkPod *corev1.Pod) {
	if e.checkNode(checkPod) {
		return
	}
	switch c := podCondition(checkPod, corev1.PodScheduled); {
	case c != nil && c.Status == corev1.ConditionFalse:
		e.checkUnscheduled(checkPod, c)
		return
	case c == nil && checkPod.Spec.NodeName == "" && len(checkPod.Status.ContainerStatuses) == 0:
		// The scheduler has chosen a node and says nothing until the volumes are made for it.
		e.checkClaims(checkPod)
		return
	}
	before := len(e.findings)
	for i := range checkPod.Status.InitContainerStatuses {
		e.checkContainer(containerOf(checkPod, true, i))
	}
	for i := range checkPod.Status.ContainerStatuses {
		e.checkContainer(containerOf(checkPod, false, i))
	}
	if len(e.findings) == before {
		e.checkCreating(checkPod)
		e.addReadinessGates(checkPod)
	}
}

// mergeFindings makes one cause of findings that have the same one. Which finding stands for the
// others does not depend on the order of the pods.
func mergeFindings(findings []finding, activePods int) []Cause {
	slices.SortStableFunc(findings, func(a, b finding) int {
		return cmp.Or(
			a.podCreated().Compare(b.podCreated()),
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
			causes[i].AffectedPods = n
			causes[i].Evidence = append([]string{fmt.Sprintf("%d of %d pods", n, max(activePods, n))}, causes[i].Evidence...)
		}
	}
	sortCauses(causes)
	return causes
}

func (f finding) podCreated() time.Time {
	if f.pod == nil {
		return time.Time{}
	}
	return f.pod.CreationTimestamp.Time
}

// sortCauses puts the causes in order: what explains goes before what is only worth knowing, what
// has to be there before anything else can work comes first, and among equals what began
// first.
func sortCauses(causes []Cause) {
	slices.SortStableFunc(causes, func(a, b Cause) int {
		return cmp.Or(
			cmp.Compare(a.Severity, b.Severity),
			cmp.Compare(a.Code.info().Rank, b.Code.info().Rank),
			a.Since.Compare(b.Since),
			cmp.Compare(a.Object.Name, b.Object.Name),
			cmp.Compare(a.Code, b.Code),
			cmp.Compare(a.Value, b.Value),
			cmp.Compare(a.Path, b.Path),
			cmp.Compare(a.Object.Namespace, b.Object.Namespace),
		)
	})
}

// isInactive says whether a pod is not expected to run any more: it is being deleted, has
// done its work, or was turned away or evicted by its node, which the status says in its
// reason. How the containers of such a pod ended explains nothing.
func isInactive(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil ||
		pod.Status.Phase == corev1.PodSucceeded ||
		pod.Status.Phase == corev1.PodFailed && pod.Status.Reason != ""
}

func isReady(pod *corev1.Pod) bool {
	c := podCondition(pod, corev1.PodReady)
	return c != nil && c.Status == corev1.ConditionTrue
}

func podCondition(pod *corev1.Pod, conditionType corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == conditionType {
			return c
		}
	}
	return nil
}

// falseSince is when the first of these conditions that is False became so.
func falseSince(pod *corev1.Pod, kinds ...corev1.PodConditionType) time.Time {
	for _, kind := range kinds {
		if c := podCondition(pod, kind); c != nil && c.Status == corev1.ConditionFalse && !c.LastTransitionTime.IsZero() {
			return c.LastTransitionTime.Time
		}
	}
	return pod.CreationTimestamp.Time
}

// workloadLabel keeps pods of different workloads apart, where the same symptom does not mean
// the same cause.
func workloadLabel(pod *corev1.Pod) string { return pod.Labels[appsapi.LabelWorkload] }

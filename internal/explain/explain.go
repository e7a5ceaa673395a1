// Package explain diagnoses why a component is not ready: the cause, the object and field
// that show it, since when, and the fix. It only works on values and makes no API calls, so
// the operator, the plugin and the application center come to the same result.
//
// Safety rule: messages and fixes go into a status, so they are stable and contain no secrets.
// They consist of fixed text and of names from the spec. Counts, durations, raw texts and the
// output of crashed programs are evidence only.
package explain

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/internal/plaintext"
)

// ObjectRef is the object that shows a cause.
type ObjectRef struct {
	// Group is the API group of a custom resource, and empty for built-in kinds.
	Group                 string
	Kind, Namespace, Name string
	UID                   types.UID
}

// Severity tells whether a cause keeps an object from being ready.
type Severity int

const (
	// Error explains why something is not ready.
	Error Severity = iota
	// Notice is additional information that does not affect readiness.
	Notice
)

func (s Severity) String() string {
	if s == Error {
		return "error"
	}
	return "notice"
}

// Cause is a reason why an object is not ready.
type Cause struct {
	Code     Code
	Severity Severity
	Object   ObjectRef
	// Path is the field of the object that shows the cause, and Value its relevant value.
	Path, Value string
	// Since is when the cause began.
	Since time.Time
	// Message states the problem in at most 512 bytes. It does not change while the cause lasts.
	Message string
	// Fix is one sentence with the next step.
	Fix string
	// AffectedPods is the number of pods with this cause; 0 if the cause is not in a pod.
	AffectedPods int
	// Evidence contains counts and texts of other programs. It is only shown to users who can
	// read the pods, and never goes into a status.
	Evidence []string
}

// maxMessage limits messages and fixes, whatever the length of names and images in the input.
const maxMessage = 512

// Diagnosis is the result of [Explain].
type Diagnosis struct {
	// Causes starts with the most important cause. The same cause in several pods is reported
	// once, for the oldest of them.
	Causes []Cause
	// RecheckAt is when to call [Explain] again even if no object changes, because a grace period
	// ends or a crash becomes too old to count. It is zero if the result does not depend on time.
	RecheckAt time.Time
	// EventsNeeded are the objects whose events are needed for a better diagnosis, the most useful first.
	EventsNeeded []ObjectRef
}

// Explain diagnoses why a component is not ready. It follows the component down to its pods,
// their containers and the objects that they refer to, and reports the root cause only, not its
// consequences.
func Explain(s Snapshot, now time.Time) Diagnosis {
	e := newExplainer(&s, now)
	switch w := s.Workload.(type) {
	case *batchv1.Job:
		if e.checkJob(w) {
			return e.diagnosis()
		}
	case *batchv1.CronJob: // the next run follows a failed one, so a failed run is no cause
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

// finding is a cause in one object, before findings with the same cause are merged.
type finding struct {
	Cause
	pod *corev1.Pod // nil if the cause is not in a pod
	// key is equal for findings with the same cause.
	key string
}

// explainer collects findings.
type explainer struct {
	snapshot        *Snapshot
	now             time.Time
	recheckAt       time.Time
	activePods      int // pods that are expected to run
	findings        []finding
	eventsNeeded    []ObjectRef
	eventsNeededSet map[ObjectRef]bool
	// Indexes for lookups per pod: an application can have thousands of pods.
	eventsBySubject map[eventSubject][]Event
	claimByName     func(name string) *corev1.PersistentVolumeClaim
	volumeByName    func(name string) *corev1.PersistentVolume
	nodeByName      func(name string) *corev1.Node
}

// eventSubject identifies the involved object of an event.
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
		if !e.snapshot.Unmanaged {
			causes[i] = causes[i].WithSpecPath(e.snapshot.SpecPath)
		} else {
			causes[i].Fix = plaintext.Line(e.snapshot.unmanagedFix(causes[i].Fix), maxMessage)
		}
	}
	return Diagnosis{Causes: causes, RecheckAt: e.recheckAt, EventsNeeded: e.eventsNeeded}
}

// hasError reports whether a finding explains why the component is not ready.
func (e *explainer) hasError() bool {
	return slices.ContainsFunc(e.findings, func(f finding) bool { return f.Severity == Error })
}

// scheduleRecheck requests another diagnosis at this time at the latest.
func (e *explainer) scheduleRecheck(at time.Time) {
	if e.recheckAt.IsZero() || at.Before(e.recheckAt) {
		e.recheckAt = at
	}
}

// needEvents requests the events of an object.
func (e *explainer) needEvents(o ObjectRef) {
	if !e.eventsNeededSet[o] {
		e.eventsNeededSet[o] = true
		e.eventsNeeded = append(e.eventsNeeded, o)
	}
}

// addPodCause adds a cause in a pod.
func (e *explainer) addPodCause(pod *corev1.Pod, key string, c Cause) {
	c.Object = podRef(pod)
	e.addFinding(pod, key, c)
}

// addCause adds a cause in another object.
func (e *explainer) addCause(o ObjectRef, key string, c Cause) {
	c.Object = o
	e.addFinding(nil, key, c)
}

func (e *explainer) addFinding(pod *corev1.Pod, key string, c Cause) {
	c.Message, c.Fix = plaintext.Line(c.Message, maxMessage), plaintext.Line(c.Fix, maxMessage)
	c.Severity = c.Code.info().Severity
	e.findings = append(e.findings, finding{Cause: c, pod: pod, key: fmt.Sprintf("%s %s %s", c.Code, c.Object.Namespace, key)})
}

func podRef(pod *corev1.Pod) ObjectRef {
	return ObjectRef{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
}

// checkPods checks the active pods. If some are missing, it also checks why inactive pods terminated.
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
		// The scheduler selected a node but sets no condition until the volumes are provisioned.
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

// mergeFindings merges findings with the same key into one cause. The finding that represents the
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

// sortCauses orders causes by severity, then by rank, then by age.
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

// isInactive reports whether a pod is not expected to run any more: it is terminating, has
// succeeded, or was rejected or evicted by its node (status.reason is set). The exit codes of its
// containers do not explain anything then.
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

// falseSince returns the transition time of the first of these conditions that is False.
func falseSince(pod *corev1.Pod, kinds ...corev1.PodConditionType) time.Time {
	for _, kind := range kinds {
		if c := podCondition(pod, kind); c != nil && c.Status == corev1.ConditionFalse && !c.LastTransitionTime.IsZero() {
			return c.LastTransitionTime.Time
		}
	}
	return pod.CreationTimestamp.Time
}

// workloadLabel separates pods of different workloads where the same symptom can have different causes.
func (e *explainer) workloadLabel(pod *corev1.Pod) string {
	if e.snapshot.Keys == nil {
		return "" // not managed by an operator
	}
	return pod.Labels[e.snapshot.Keys.Workload]
}

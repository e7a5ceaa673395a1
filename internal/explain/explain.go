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

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Code says which of the known causes it is.
type Code string

// The causes that pods and jobs tell about.
const (
	// MissingConfigMap and MissingSecret: the environment or a volume refers to what does
	// not exist.
	MissingConfigMap Code = "MissingConfigMap"
	MissingSecret    Code = "MissingSecret"

	// MissingClaim: a volume is a PersistentVolumeClaim that does not exist.
	MissingClaim Code = "MissingClaim"

	// InvalidImage: no registry can have an image of that name.
	InvalidImage Code = "InvalidImage"
	// ImageNotFound: the registry does not have the image.
	ImageNotFound Code = "ImageNotFound"
	// ImageAuth: the registry does not give the image away.
	ImageAuth Code = "ImageAuth"
	// RegistryUnreachable: the registry does not answer, or not now.
	RegistryUnreachable Code = "RegistryUnreachable"
	// ImagePull: the image is not pulled, and what was said about it is not known here.
	ImagePull Code = "ImagePull"

	// CrashLoop: the container ends again and again.
	CrashLoop Code = "CrashLoop"
	// OOMKilled: the container is killed for its use of memory.
	OOMKilled Code = "OOMKilled"
	// JobFailed: a job has failed, every try of it.
	JobFailed Code = "JobFailed"

	// ReadinessFailing: the container runs and its readiness probe fails.
	ReadinessFailing Code = "ReadinessFailing"

	// InsufficientCPU, InsufficientMemory and InsufficientPods: no node has room.
	InsufficientCPU    Code = "InsufficientCPU"
	InsufficientMemory Code = "InsufficientMemory"
	InsufficientPods   Code = "InsufficientPods"
	// Insufficient: no node has enough of another resource.
	Insufficient Code = "Insufficient"
	// Unschedulable: no node takes the pod, for another reason or for several.
	Unschedulable Code = "Unschedulable"
)

// Object is where a cause is seen.
type Object struct {
	Kind, Namespace, Name string
	UID                   types.UID
}

// Cause is why something is not ready.
type Cause struct {
	Code   Code
	Object Object
	// Path is the field of the object that tells, and Value what matters there.
	Path, Value string
	// Since is when it began.
	Since time.Time
	// Sentence names what is wrong, in at most 512 bytes that stay the same for as long
	// as the cause does.
	Sentence string
	// Fix is one sentence that says what to do.
	Fix string
	// Evidence is everything that changes or was said by others. It is for people who
	// may read the pods, and never goes into a status.
	Evidence []string
}

// maxSentence holds for whatever names and images the input has.
const maxSentence = 512

// Pods explains why pods are not ready, the most important cause first. The same cause
// in several pods is one cause, seen in the oldest of them.
//
// again is when to ask again although nothing happens: a grace period that keeps quiet
// now is over then, or a crash is so long ago that it no longer explains anything. It is
// zero if time alone changes nothing.
func Pods(pods []*corev1.Pod, now time.Time) (causes []Cause, again time.Time) {
	e := examiner{now: now}
	live := 0
	for _, pod := range pods {
		if pod == nil || isOver(pod) {
			continue
		}
		live++
		if !isReady(pod) || hasCrashed(pod) {
			e.pod(pod)
		}
	}
	return merge(e.findings, live), e.again
}

// finding is a cause in one pod.
type finding struct {
	Cause
	pod *corev1.Pod
	// key is the same for findings that have one cause.
	key string
}

// examiner collects what is found.
type examiner struct {
	now      time.Time
	again    time.Time
	findings []finding
}

// look makes sure that somebody asks again at this time.
func (e *examiner) look(at time.Time) {
	if e.again.IsZero() || at.Before(e.again) {
		e.again = at
	}
}

func (e *examiner) add(pod *corev1.Pod, key string, c Cause) {
	c.Object = Object{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
	c.Sentence, c.Fix = plain(c.Sentence, maxSentence), plain(c.Fix, maxSentence)
	e.findings = append(e.findings, finding{Cause: c, pod: pod, key: fmt.Sprintf("%s %s %s", c.Code, pod.Namespace, key)})
}

func (e *examiner) pod(pod *corev1.Pod) {
	if c := condition(pod, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionFalse {
		e.unscheduled(pod, c)
		return
	}
	for i := range pod.Status.InitContainerStatuses {
		e.container(containerOf(pod, true, i))
	}
	for i := range pod.Status.ContainerStatuses {
		e.container(containerOf(pod, false, i))
	}
}

// merge makes one cause of findings that have the same one. Which finding stands for the
// others does not depend on the order of the pods.
func merge(findings []finding, live int) []Cause {
	slices.SortStableFunc(findings, func(a, b finding) int {
		return cmp.Or(
			a.pod.CreationTimestamp.Compare(b.pod.CreationTimestamp.Time),
			cmp.Compare(a.pod.Name, b.pod.Name),
			cmp.Compare(a.pod.Namespace, b.pod.Namespace),
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
		seen[f.key][f.pod] = true
	}
	for key, i := range index {
		count := fmt.Sprintf("%d of %d pods", len(seen[key]), live)
		causes[i].Evidence = append([]string{count}, causes[i].Evidence...)
	}
	rank(causes)
	return causes
}

// rank puts the causes in order: what has to be there before anything else can work
// comes first, and among equals what began first.
func rank(causes []Cause) {
	slices.SortStableFunc(causes, func(a, b Cause) int {
		return cmp.Or(
			cmp.Compare(depth(a.Code), depth(b.Code)),
			a.Since.Compare(b.Since),
			cmp.Compare(a.Object.Name, b.Object.Name),
			cmp.Compare(a.Code, b.Code),
			cmp.Compare(a.Value, b.Value),
			cmp.Compare(a.Path, b.Path),
			cmp.Compare(a.Object.Namespace, b.Object.Namespace),
		)
	})
}

func depth(c Code) int {
	switch c {
	case MissingConfigMap, MissingSecret, MissingClaim:
		return 0
	case InvalidImage, ImageNotFound, ImageAuth, RegistryUnreachable, ImagePull:
		return 1
	case CrashLoop, OOMKilled, JobFailed:
		return 2
	case ReadinessFailing:
		return 3
	}
	return 4
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

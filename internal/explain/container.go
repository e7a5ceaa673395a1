package explain

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Reasons that kubelet writes and that have no constant in the API.
const (
	reasonErrImagePull        = "ErrImagePull"
	reasonImagePullBackOff    = "ImagePullBackOff"
	reasonRegistryUnavailable = "RegistryUnavailable"
	reasonConfigError         = "CreateContainerConfigError"
	reasonCrashLoopBackOff    = "CrashLoopBackOff"
	reasonInvalidImageName    = "InvalidImageName"
	reasonNeverPull           = "ErrImageNeverPull"
	reasonSignature           = "SignatureValidationFailed"
	reasonInspect             = "ImageInspectError"
	reasonCreateError         = "CreateContainerError"
	reasonRunError            = "RunContainerError"
	reasonPostStartHook       = "PostStartHookError"
)

// container is one container of a pod, with its status and what its spec says.
type container struct {
	pod    *corev1.Pod
	status *corev1.ContainerStatus
	spec   corev1.Container
	// statusPath and specPath lead to them from the pod.
	statusPath, specPath string
	// first is set for an init container that ends before the others start.
	first bool
}

// containerOf pairs the i-th status of a list with its container. Lists are matched by
// name: while a pod starts, statuses may be missing.
func containerOf(pod *corev1.Pod, isInit bool, i int) container {
	statuses, specs := pod.Status.ContainerStatuses, pod.Spec.Containers
	statusPath, specPath := "status.containerStatuses", "spec.containers"
	if isInit {
		statuses, specs = pod.Status.InitContainerStatuses, pod.Spec.InitContainers
		statusPath, specPath = "status.initContainerStatuses", "spec.initContainers"
	}
	c := container{pod: pod, status: &statuses[i], statusPath: fmt.Sprintf("%s[%d]", statusPath, i), first: isInit}
	j := slices.IndexFunc(specs, func(s corev1.Container) bool { return s.Name == c.status.Name })
	if j < 0 {
		c.spec.Image = c.status.Image
		return c
	}
	c.spec, c.specPath = specs[j], fmt.Sprintf("%s[%d]", specPath, j)
	c.first = isInit && !isSidecar(&c.spec)
	return c
}

// isSidecar is an init container that goes on running beside the others.
func isSidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// String names the container and its pod inside of a sentence, title at its beginning.
func (c container) String() string { return c.called("container", "init container") }
func (c container) title() string  { return c.called("Container", "Init container") }

func (c container) called(usual, first string) string {
	if c.first {
		usual = first
	}
	return fmt.Sprintf("%s %s of pod %s", usual, short(c.status.Name), c.pod.Name)
}

// lookUp is the command that shows the events of a pod.
func lookUp(pod *corev1.Pod) string {
	return fmt.Sprintf("kubectl describe pod -n %s %s", pod.Namespace, pod.Name)
}

// own is the key of causes that lie in the container itself, whatever their value.
func (c container) own() string { return workload(c.pod) + " " + c.status.Name }

// since is when the container stopped being ready; one that is ready again tells of its
// last end.
func (c container) since() time.Time {
	if d, _ := c.death(); d != nil && isReady(c.pod) {
		return d.FinishedAt.Time
	}
	return since(c.pod, corev1.ContainersReady, corev1.PodReady)
}

// isFine says whether the container keeps nobody waiting.
func (c container) isFine() bool {
	t := c.status.State.Terminated
	return c.status.Ready || c.first && t != nil && t.ExitCode == 0
}

// container looks for the one cause that keeps a container from being ready:
//
//	waits for a known reason --> ended a short time ago --> runs and does not answer
//
// A container that waits for its image may have crashed before; then the image is what
// has to be mended first.
func (e *examiner) container(c container) {
	if c.isFine() && !e.isBrief(c) {
		return
	}
	if w := c.status.State.Waiting; w != nil {
		switch w.Reason {
		case reasonErrImagePull, reasonImagePullBackOff, reasonRegistryUnavailable:
			e.pull(c, w)
			return
		case reasonInvalidImageName:
			e.misnamed(c, w)
			return
		case reasonNeverPull:
			e.neverPulled(c, w)
			return
		case reasonSignature, reasonInspect:
			e.unsigned(c, w)
			return
		case reasonCreateError, reasonRunError, reasonStartError:
			e.unstarted(c, w.Reason, w.Message, c.statusPath+".state.waiting")
			return
		case reasonPostStartHook:
			e.hook(c, w)
			return
		case reasonConfigError:
			e.missing(c, w)
			return
		case reasonCrashLoopBackOff:
			e.crashed(c)
			return
		}
	}
	if e.crashedLately(c) {
		e.crashed(c)
		return
	}
	if c.first {
		e.initializing(c)
		return
	}
	if !e.startup(c) {
		e.readiness(c)
	}
}

// missingRef accepts only what can be the name of an object, so that no other text of
// the message gets into a sentence.
var missingRef = regexp.MustCompile(`\b(secret|configmap)s? "([a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?)" not found`)

// missingKey accepts only what can be a key and the name of an object.
var missingKey = regexp.MustCompile(`^couldn't find key ([-._a-zA-Z0-9]{1,253}) in (Secret|ConfigMap) [-a-z0-9]{1,63}/([a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?)$`)

// kindCalled is a kind as kubelet calls it.
func kindCalled(word string) string {
	if strings.HasPrefix(word, "config") {
		return "ConfigMap"
	}
	return "Secret"
}

// codeOf is the cause that something of a kind is missing.
func codeOf(kind string) Code {
	if kind == "ConfigMap" {
		return MissingConfigMap
	}
	return MissingSecret
}

// missing is a container whose environment refers to what does not exist: an object, or a
// key of one.
func (e *examiner) missing(c container, w *corev1.ContainerStateWaiting) {
	text := plain(w.Message, maxText)
	if found := missingKey.FindStringSubmatch(text); found != nil {
		key, kind, name := found[1], found[2], found[3]
		e.add(c.pod, name+" "+key, Cause{
			Code: MissingKey, Path: c.statusPath + ".state.waiting", Value: name + "/" + key, Since: c.since(),
			Sentence: fmt.Sprintf("%s needs key %q of %s %q in namespace %s, which has no such key", c.title(), short(key), kind, short(name), c.pod.Namespace),
			Fix:      fmt.Sprintf("Add key %q to %s %q in namespace %s, or correct spec.env of the application.", key, kind, name, c.pod.Namespace),
			Evidence: evidence(text),
		})
		return
	}
	found := missingRef.FindStringSubmatch(text)
	if found == nil {
		return
	}
	kind, name := kindCalled(found[1]), found[2]
	e.add(c.pod, name, Cause{
		Code: codeOf(kind), Path: c.statusPath + ".state.waiting", Value: name, Since: c.since(),
		Sentence: fmt.Sprintf("%s needs %s %q, which does not exist in namespace %s", c.title(), kind, short(name), c.pod.Namespace),
		Fix:      fmt.Sprintf("Create %s %q in namespace %s, or correct spec.env and spec.envFrom of the application.", kind, name, c.pod.Namespace),
		Evidence: evidence(text),
	})
}

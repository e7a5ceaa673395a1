package explain

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-dev/holdfast/internal/plaintext"
)

// Waiting reasons of the kubelet that have no constant in the API.
const (
	reasonErrImagePull        = "ErrImagePull"
	reasonImagePullBackOff    = "ImagePullBackOff"
	reasonRegistryUnavailable = "RegistryUnavailable"
	reasonConfigError         = "CreateContainerConfigError"
	reasonCrashLoopBackOff    = "CrashLoopBackOff"
	reasonInvalidImageName    = "InvalidImageName"
	reasonImageNeverPull      = "ErrImageNeverPull"
	reasonSignatureValidation = "SignatureValidationFailed"
	reasonImageInspect        = "ImageInspectError"
	reasonCreateError         = "CreateContainerError"
	reasonRunError            = "RunContainerError"
	reasonPostStartHook       = "PostStartHookError"
)

// container is one container of a pod with its status and spec.
type container struct {
	pod    *corev1.Pod
	status *corev1.ContainerStatus
	spec   corev1.Container
	// statusPath and specPath are the field paths in the pod.
	statusPath, specPath string
	// isInit is set for an init container that completes before the others start, not for a sidecar.
	isInit bool
}

// containerOf returns the i-th status of a list with its container. They are matched by name, because
// statuses can be missing while a pod starts.
func containerOf(pod *corev1.Pod, isInit bool, i int) container {
	statuses, specs := pod.Status.ContainerStatuses, pod.Spec.Containers
	statusPath, specPath := "status.containerStatuses", "spec.containers"
	if isInit {
		statuses, specs = pod.Status.InitContainerStatuses, pod.Spec.InitContainers
		statusPath, specPath = "status.initContainerStatuses", "spec.initContainers"
	}
	c := container{pod: pod, status: &statuses[i], statusPath: fmt.Sprintf("%s[%d]", statusPath, i), isInit: isInit}
	j := slices.IndexFunc(specs, func(s corev1.Container) bool { return s.Name == c.status.Name })
	if j < 0 {
		c.spec.Image = c.status.Image
		return c
	}
	c.spec, c.specPath = specs[j], fmt.Sprintf("%s[%d]", specPath, j)
	c.isInit = isInit && !isSidecar(&c.spec)
	return c
}

// isSidecar reports whether an init container is a sidecar (restartPolicy Always).
func isSidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// String names the container and its pod within a sentence, and title at its beginning.
func (c container) String() string { return c.label("container", "init container") }
func (c container) title() string  { return c.label("Container", "Init container") }

func (c container) label(kind, initKind string) string {
	if c.isInit {
		kind = initKind
	}
	return fmt.Sprintf("%s %s of Pod %s", kind, abbreviate(c.status.Name), c.pod.Name)
}

// describePodCommand returns the kubectl command that shows the events of a pod.
func describePodCommand(pod *corev1.Pod) string {
	return fmt.Sprintf("kubectl describe pod -n %s %s", pod.Namespace, pod.Name)
}

// causeKey is the key of causes in the container itself, whatever their value.
func (e *explainer) causeKey(c container) string {
	return e.workloadLabel(c.pod) + " " + c.status.Name
}

// unreadySince returns when the container stopped being ready; if its pod is ready again, the time of
// its last termination.
func (c container) unreadySince() time.Time {
	if d, _ := c.lastTermination(); d != nil && isReady(c.pod) {
		return d.FinishedAt.Time
	}
	return falseSince(c.pod, corev1.ContainersReady, corev1.PodReady)
}

// isReadyOrDone reports whether the container is ready, or is an init container that has completed.
func (c container) isReadyOrDone() bool {
	t := c.status.State.Terminated
	return c.status.Ready || c.isInit && t != nil && t.ExitCode == 0
}

// checkContainer finds the cause that keeps a container from being ready:
//
//	waiting with a known reason --> crashed recently --> running and failing a probe
//
// A container that waits for its image may have crashed before; the image must be fixed first.
func (e *explainer) checkContainer(c container) {
	if c.isReadyOrDone() && !e.restartedRecently(c) {
		return
	}
	if w := c.status.State.Waiting; w != nil {
		switch w.Reason {
		case reasonErrImagePull, reasonImagePullBackOff, reasonRegistryUnavailable:
			e.addPullFailure(c, w)
			return
		case reasonInvalidImageName:
			e.addInvalidImageName(c, w)
			return
		case reasonImageNeverPull:
			e.addImageNeverPull(c, w)
			return
		case reasonSignatureValidation, reasonImageInspect:
			e.addImageRejected(c, w)
			return
		case reasonCreateError, reasonRunError, reasonStartError:
			e.addStartError(c, w.Reason, w.Message, c.statusPath+".state.waiting")
			return
		case reasonPostStartHook:
			e.addPostStartHookFailure(c, w)
			return
		case reasonConfigError:
			e.addMissingReference(c, w)
			return
		case reasonCrashLoopBackOff:
			e.addCrash(c)
			return
		}
	}
	if e.crashedRecently(c) {
		e.addCrash(c)
		return
	}
	if c.isInit {
		e.addInitBlocked(c)
		return
	}
	if !e.checkStartup(c) {
		e.checkReadiness(c)
	}
}

// missingRefPattern accepts only valid object names, so that no other text of the message gets into a
// status.
var missingRefPattern = regexp.MustCompile(`\b(secret|configmap)s? "([a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?)" not found`)

// missingKeyPattern accepts only valid keys and object names.
var missingKeyPattern = regexp.MustCompile(`^couldn't find key ([-._a-zA-Z0-9]{1,253}) in (Secret|ConfigMap) [-a-z0-9]{1,63}/([a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?)$`)

// kindFromKubelet returns the kind for the word in a message of the kubelet.
func kindFromKubelet(word string) string {
	if strings.HasPrefix(word, "config") {
		return "ConfigMap"
	}
	return "Secret"
}

// missingRefCode returns the code for a missing object of a kind.
func missingRefCode(kind string) Code {
	if kind == "ConfigMap" {
		return MissingConfigMap
	}
	return MissingSecret
}

// addMissingReference reports a container whose environment refers to a missing object or key.
func (e *explainer) addMissingReference(c container, w *corev1.ContainerStateWaiting) {
	text := plaintext.Line(w.Message, maxText)
	if found := missingKeyPattern.FindStringSubmatch(text); found != nil {
		key, kind, name := found[1], found[2], found[3]
		e.addPodCause(c.pod, name+" "+key, Cause{
			Code: MissingKey, Path: c.statusPath + ".state.waiting", Value: name + "/" + key, Since: c.unreadySince(),
			Message:  fmt.Sprintf("%s needs key %q of %s %q in namespace %s, which has no such key", c.title(), abbreviate(key), kind, abbreviate(name), c.pod.Namespace),
			Fix:      fmt.Sprintf("Add key %q to %s %q in namespace %s, or correct spec.env of the application.", key, kind, name, c.pod.Namespace),
			Evidence: evidence(text),
		})
		return
	}
	found := missingRefPattern.FindStringSubmatch(text)
	if found == nil {
		return
	}
	kind, name := kindFromKubelet(found[1]), found[2]
	e.addPodCause(c.pod, name, Cause{
		Code: missingRefCode(kind), Path: c.statusPath + ".state.waiting", Value: name, Since: c.unreadySince(),
		Message:  fmt.Sprintf("%s needs %s %q, which does not exist in namespace %s", c.title(), kind, abbreviate(name), c.pod.Namespace),
		Fix:      fmt.Sprintf("Create %s %q in namespace %s, or correct spec.env and spec.envFrom of the application.", kind, name, c.pod.Namespace),
		Evidence: evidence(text),
	})
}

package podsim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// BehaviorAnnotation on a pod names its behavior, for example in the template of a Deployment.
// It wins over the function given to [Simulator.Play].
const BehaviorAnnotation = "podsim.holdfast.dev/behavior"

// Reasons that kubelet writes and that have no constant in the API.
const (
	reasonContainerCreating = "ContainerCreating"
	reasonPodInitializing   = "PodInitializing"
	reasonErrImagePull      = "ErrImagePull"
	reasonImagePullBackOff  = "ImagePullBackOff"
	reasonConfigError       = "CreateContainerConfigError"
	reasonCrashLoopBackOff  = "CrashLoopBackOff"
	reasonCompleted         = "Completed"
	reasonError             = "Error"
	reasonOOMKilled         = "OOMKilled"
	reasonStatusUnknown     = "ContainerStatusUnknown"
)

type behaviorKind int

const (
	kindDefault        behaviorKind = iota // see defaultBehavior
	kindRuns                               // the container runs and becomes ready, or not
	kindCannotStart                        // the container cannot be started
	kindImagePullFails                     // like waits, because of its image
	kindExits                              // the container ends; the pod's restart policy says what follows
	kindHangs                              // nothing is ever started
	kindUnschedulable                      // never placed
)

// Pace of what happens in steps: slow enough to be seen by a watch, quick enough for a
// test.
const (
	stepInterval    = 300 * time.Millisecond
	slowDelay       = 2 * time.Second
	defaultRestarts = 3
)

// Behavior says what happens to a pod. Behaviors are values: compare them with ==, and
// adapt them with their methods. The zero value is what pods usually do: one that is
// always restarted becomes ready, one that runs to completion succeeds.
type Behavior struct {
	name       string
	kind       behaviorKind
	container  string
	reason     string
	message    string
	exitCode   int32
	restarts   int32
	after      time.Duration
	backoff    time.Duration
	neverReady bool
}

// Ready pods run and are ready at once.
func Ready() Behavior { return Behavior{name: "Ready", kind: kindRuns} }

// Slow pods run at once and are ready after d.
func Slow(d time.Duration) Behavior { return Behavior{name: "Slow", kind: kindRuns, after: d} }

// NeverReady pods run, and their readiness probe fails.
func NeverReady() Behavior { return Behavior{name: "NeverReady", kind: kindRuns, neverReady: true} }

// Hang leaves a pod on its node with nothing started, as if a volume did not come.
func Hang() Behavior { return Behavior{name: "Hang", kind: kindHangs} }

// ImageNotFound is an image that its registry does not have.
func ImageNotFound() Behavior {
	return imagePullFailure("ImageNotFound", "NotFound", "{ref}: not found")
}

// ImageDenied is an image that its registry does not give away without credentials.
func ImageDenied() Behavior {
	return imagePullFailure("ImageDenied", "Unknown", "pull access denied, repository does not exist or may require authorization: "+
		"server message: insufficient_scope: authorization failed")
}

// RegistryUnreachable is an image whose registry has no address.
func RegistryUnreachable() Behavior {
	return imagePullFailure("RegistryUnreachable", "Unknown", `failed to do request: Head "https://{host}/v2/{path}/manifests/{tag}": `+
		"dial tcp: lookup {host} on 10.96.0.10:53: no such host")
}

// imagePullFailure takes containerd's reason and wraps it as containerd and the CRI client do.
func imagePullFailure(name, code, detail string) Behavior {
	return Behavior{name: name, kind: kindImagePullFails, backoff: stepInterval,
		message: "rpc error: code = " + code + ` desc = failed to pull and unpack image "{ref}": failed to resolve image: ` + detail}
}

// ConfigMissing is a container whose environment needs a Secret that does not exist.
// Use Saying for another object: `configmap "settings" not found`.
func ConfigMissing(secret string) Behavior {
	return Behavior{name: "ConfigMissing", kind: kindCannotStart, reason: reasonConfigError, message: fmt.Sprintf("secret %q not found", secret)}
}

// CrashLoop is a container that exits with a code and is restarted a few times; then it
// stays in back-off.
func CrashLoop(code int32) Behavior {
	return Behavior{name: "CrashLoop", kind: kindExits, exitCode: code, restarts: defaultRestarts, backoff: stepInterval}
}

// OOMKilled is a container that is killed for its use of memory, again and again.
func OOMKilled() Behavior {
	return Behavior{name: "OOMKilled", kind: kindExits, exitCode: 137, reason: reasonOOMKilled, restarts: defaultRestarts, backoff: stepInterval}
}

// Succeeded is a pod that runs for a moment and ends well.
func Succeeded() Behavior {
	return Behavior{name: "Succeeded", kind: kindExits, after: stepInterval, restarts: defaultRestarts, backoff: stepInterval}
}

// Failed is a pod that runs for a moment and exits with a code. If its restart policy
// is not Never, that is the beginning of a crash loop.
func Failed(code int32) Behavior {
	return Behavior{name: "Failed", kind: kindExits, exitCode: code, after: stepInterval, restarts: defaultRestarts, backoff: stepInterval}
}

// Unschedulable is a pod that fits on no node. A pod that is on a node already stays
// there and does what pods usually do.
func Unschedulable() Behavior {
	return Behavior{name: "Unschedulable", kind: kindUnschedulable, message: "0/1 nodes are available: 1 Insufficient cpu. " +
		"no new claims to deallocate, preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."}
}

// InContainer chooses the container that it happens to, which may be an init container. Without
// it, it is the first one that is not. The other containers do well, and so does a pod
// that has no such container.
func (b Behavior) InContainer(container string) Behavior { b.container = container; return b }

// After is how long a container runs before it is ready, or before it exits.
func (b Behavior) After(d time.Duration) Behavior { b.after = d; return b }

// WithMessage replaces the text that comes with the reason: what the registry said, what the
// program wrote before it died, why no node fits.
func (b Behavior) WithMessage(message string) Behavior { b.message = message; return b }

// WithRestarts is how often a container that exits is restarted before it stays down, and
// how long it is down each time.
func (b Behavior) WithRestarts(times int32, backoff time.Duration) Behavior {
	b.restarts, b.backoff = times, backoff
	return b
}

// String returns the name of the behavior.
func (b Behavior) String() string { return b.name }

// allBehaviors lists what the annotation may say.
func allBehaviors() []Behavior {
	return []Behavior{
		Ready(), Slow(slowDelay), NeverReady(), Hang(), ImageNotFound(), ImageDenied(), RegistryUnreachable(), ConfigMissing("missing"),
		CrashLoop(1), OOMKilled(), Succeeded(), Failed(1), Unschedulable(),
	}
}

// ByName returns the behavior with a name, as the annotation uses it.
func ByName(name string) (Behavior, error) {
	all := allBehaviors()
	if i := slices.IndexFunc(all, func(b Behavior) bool { return b.name == name }); i >= 0 {
		return all[i], nil
	}
	names := make([]string, len(all))
	for i, b := range all {
		names[i] = b.name
	}
	return Behavior{}, fmt.Errorf("unknown behavior %q, want one of %s", name, strings.Join(names, ", "))
}

// chooseBehavior says what a pod does: what its annotation says, else what play says, else the
// usual.
func chooseBehavior(pod *corev1.Pod, behaviorOf func(*corev1.Pod) Behavior) Behavior {
	if name, ok := pod.Annotations[BehaviorAnnotation]; ok {
		b, err := ByName(name)
		if err != nil {
			// Nobody reads our log: the pod itself has to say it.
			return Behavior{name: "Invalid", kind: kindCannotStart, reason: reasonConfigError, message: BehaviorAnnotation + ": " + err.Error()}
		}
		return b
	}
	var b Behavior
	if behaviorOf != nil {
		b = behaviorOf(pod)
	}
	if b.kind == kindDefault {
		return defaultBehavior(pod)
	}
	return b
}

func defaultBehavior(pod *corev1.Pod) Behavior {
	if runsToCompletion(pod) {
		return Succeeded()
	}
	return Ready()
}

// runsToCompletion says whether a pod is meant to end, as those of Jobs are.
func runsToCompletion(pod *corev1.Pod) bool {
	return pod.Spec.RestartPolicy == corev1.RestartPolicyNever || pod.Spec.RestartPolicy == corev1.RestartPolicyOnFailure
}

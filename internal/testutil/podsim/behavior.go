package podsim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// BehaviorAnnotation on a pod selects its behavior, for example in a Deployment template. It overrides the function
// given to [Simulator.SetBehavior].
const BehaviorAnnotation = "podsim.holdfast.dev/behavior"

// Reasons of the kubelet without a constant in the API.
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
	kindImagePullFails                     // like kindCannotStart, because of its image
	kindExits                              // the container exits; the restart policy applies
	kindHangs                              // no container is ever started
	kindUnschedulable                      // never scheduled
)

// Durations of steps: slow enough for a watch, fast enough for a test.
const (
	stepInterval    = 300 * time.Millisecond
	slowDelay       = 2 * time.Second
	defaultRestarts = 3
)

// Behavior is the simulated behavior of a pod. Behaviors are comparable values that are modified with their methods. The
// zero value is the default: a pod that always restarts becomes ready, a pod that runs to completion succeeds.
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

// Ready pods are running and ready at once.
func Ready() Behavior { return Behavior{name: "Ready", kind: kindRuns} }

// Slow pods are running at once and ready after d.
func Slow(d time.Duration) Behavior { return Behavior{name: "Slow", kind: kindRuns, after: d} }

// NeverReady pods are running, but their readiness probe fails.
func NeverReady() Behavior { return Behavior{name: "NeverReady", kind: kindRuns, neverReady: true} }

// Hang keeps a pod on its node with no container started, as if a volume were missing.
func Hang() Behavior { return Behavior{name: "Hang", kind: kindHangs} }

// ImageNotFound is an image that does not exist in the registry.
func ImageNotFound() Behavior {
	return imagePullFailure("ImageNotFound", "NotFound", "{ref}: not found")
}

// ImageDenied is an image that requires credentials.
func ImageDenied() Behavior {
	return imagePullFailure("ImageDenied", "Unknown", "pull access denied, repository does not exist or may require authorization: "+
		"server message: insufficient_scope: authorization failed")
}

// RegistryUnreachable is an image whose registry host cannot be resolved.
func RegistryUnreachable() Behavior {
	return imagePullFailure("RegistryUnreachable", "Unknown", `failed to do request: Head "https://{host}/v2/{path}/manifests/{tag}": `+
		"dial tcp: lookup {host} on 10.96.0.10:53: no such host")
}

// imagePullFailure wraps containerd's reason as containerd and the CRI client do.
func imagePullFailure(name, code, detail string) Behavior {
	return Behavior{name: name, kind: kindImagePullFails, backoff: stepInterval,
		message: "rpc error: code = " + code + ` desc = failed to pull and unpack image "{ref}": failed to resolve image: ` + detail}
}

// ConfigMissing is a container whose environment needs a Secret that does not exist. Use WithMessage for another object:
// `configmap "settings" not found`.
func ConfigMissing(secret string) Behavior {
	return Behavior{name: "ConfigMissing", kind: kindCannotStart, reason: reasonConfigError, message: fmt.Sprintf("secret %q not found", secret)}
}

// CrashLoop is a container that exits with a code and is restarted a few times; then it stays in CrashLoopBackOff.
func CrashLoop(code int32) Behavior {
	return Behavior{name: "CrashLoop", kind: kindExits, exitCode: code, restarts: defaultRestarts, backoff: stepInterval}
}

// OOMKilled is a container that is repeatedly OOM-killed.
func OOMKilled() Behavior {
	return Behavior{name: "OOMKilled", kind: kindExits, exitCode: 137, reason: reasonOOMKilled, restarts: defaultRestarts, backoff: stepInterval}
}

// Succeeded is a pod that runs for a moment and succeeds.
func Succeeded() Behavior {
	return Behavior{name: "Succeeded", kind: kindExits, after: stepInterval, restarts: defaultRestarts, backoff: stepInterval}
}

// Failed is a pod that runs for a moment and exits with a code. If its restart policy is not Never, it goes into a crash
// loop.
func Failed(code int32) Behavior {
	return Behavior{name: "Failed", kind: kindExits, exitCode: code, after: stepInterval, restarts: defaultRestarts, backoff: stepInterval}
}

// Unschedulable is a pod that fits on no node. A pod that is already scheduled gets the default behavior.
func Unschedulable() Behavior {
	return Behavior{name: "Unschedulable", kind: kindUnschedulable, message: "0/1 nodes are available: 1 Insufficient cpu. " +
		"no new claims to deallocate, preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."}
}

// InContainer selects the container with the behavior, which may be an init container. The default is the first regular
// container. All other containers get the default behavior, and so do all containers of a pod without this one.
func (b Behavior) InContainer(container string) Behavior { b.container = container; return b }

// After is the time until a container is ready or exits.
func (b Behavior) After(d time.Duration) Behavior { b.after = d; return b }

// WithMessage replaces the message of the reason: the registry error, the termination message, the scheduling failure.
func (b Behavior) WithMessage(message string) Behavior { b.message = message; return b }

// WithRestarts is the number of restarts before an exiting container stays in CrashLoopBackOff, and the backoff.
func (b Behavior) WithRestarts(times int32, backoff time.Duration) Behavior {
	b.restarts, b.backoff = times, backoff
	return b
}

func (b Behavior) String() string { return b.name }

// allBehaviors are the behaviors that the annotation can select.
func allBehaviors() []Behavior {
	return []Behavior{
		Ready(), Slow(slowDelay), NeverReady(), Hang(), ImageNotFound(), ImageDenied(), RegistryUnreachable(), ConfigMissing("missing"),
		CrashLoop(1), OOMKilled(), Succeeded(), Failed(1), Unschedulable(),
	}
}

// ByName returns the behavior with this name.
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

// chooseBehavior returns the behavior of a pod: that of its annotation, else that of behaviorOf, else the default.
func chooseBehavior(pod *corev1.Pod, behaviorOf func(*corev1.Pod) Behavior) Behavior {
	if name, ok := pod.Annotations[BehaviorAnnotation]; ok {
		b, err := ByName(name)
		if err != nil {
			// The status shows the mistake, because test logs are not visible.
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

// runsToCompletion reports whether a pod is meant to terminate, as those of Jobs are.
func runsToCompletion(pod *corev1.Pod) bool {
	return pod.Spec.RestartPolicy == corev1.RestartPolicyNever || pod.Spec.RestartPolicy == corev1.RestartPolicyOnFailure
}

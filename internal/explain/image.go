package explain

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-dev/holdfast/internal/plaintext"
)

// pullError classifies the error of an image pull.
type pullError int

const (
	pullUnknown pullError = iota
	pullDenied
	pullPlatformMismatch
	pullNotFound
	pullRateLimited
	pullUntrusted
	pullUnreachable
)

// pullErrorPatterns are lower-case patterns in the order in which they are searched. A registry that
// hides whether an image exists reports both "denied" and "not found", so denied comes first.
var pullErrorPatterns = []struct {
	answer pullError
	words  []string
}{
	{pullDenied, []string{"pull access denied", "insufficient_scope", "authorization failed", "unauthorized", "authentication required",
		"status: 401", "status code 401", "403 forbidden", "status: 403", "status code 403",
		"denied: permission", "access to the resource is denied", "no basic auth"}},
	{pullPlatformMismatch, []string{"no match for platform", "no matching manifest for"}},
	{pullNotFound, []string{"not found", "manifest unknown", "name unknown"}},
	{pullRateLimited, []string{"toomanyrequests", "too many requests", "status: 429", "status code 429"}},
	{pullUntrusted, []string{"x509", "server gave http response to https client"}},
	{pullUnreachable, []string{"no such host", "dial tcp", "i/o timeout", "timeout exceeded", "deadline exceeded", "connection refused",
		"connection reset", "registryunavailable", "service unavailable", "bad gateway", "gateway timeout"}},
}

// reasonPullSecretMissing is the event of the kubelet about image pull Secrets that do not exist. It pulls without them.
const reasonPullSecretMissing = "FailedToRetrieveImagePullSecret"

// classifyPullError classifies an error message. Image names and addresses are not searched: the
// image "shop/x509:401" is unrelated to certificates or credentials.
func classifyPullError(text string) pullError {
	var words []string
	for word := range strings.FieldsSeq(strings.ToLower(text)) {
		if word == "i/o" || !strings.HasPrefix(word, `"`) && !strings.Contains(word, "/") {
			words = append(words, word)
		}
	}
	filtered := strings.Join(words, " ")
	for _, a := range pullErrorPatterns {
		for _, w := range a.words {
			if strings.Contains(filtered, w) {
				return a.answer
			}
		}
	}
	return pullUnknown
}

// addPullFailure reports a container whose image cannot be pulled. ErrImagePull and ImagePullBackOff
// alternate, so the result must not depend on which of them is set.
func (e *explainer) addPullFailure(c container, w *corev1.ContainerStateWaiting) {
	text := plaintext.Line(w.Message, maxText)
	a := classifyPullError(text)
	if a == pullUnknown && w.Reason == reasonRegistryUnavailable {
		a = pullUnreachable
	}
	cause := c.pullCause(a)
	cause.Path, cause.Since, cause.Evidence = c.statusPath+".state.waiting", c.unreadySince(), evidence(text)
	if ev, ok := e.latestEvent(podRef(c.pod), []string{reasonPullSecretMissing}); ok {
		cause.Evidence = append(cause.Evidence, ev.String())
	}
	e.addPodCause(c.pod, cause.Value, cause)
}

func (c container) pullCause(a pullError) Cause {
	image := fmt.Sprintf("%q", abbreviate(c.spec.Image))
	cause := Cause{Value: c.spec.Image}
	switch a {
	case pullDenied:
		cause.Code = ImageAuth
		cause.Message, cause.Fix = c.deniedMessage(image)
	case pullNotFound:
		cause.Code = ImageNotFound
		cause.Message = fmt.Sprintf("Image %s does not exist in its registry (%s)", image, c)
		cause.Fix = "Correct spec.image of the application, or push the image."
	case pullPlatformMismatch:
		cause.Code = ImageNotFound
		cause.Message = fmt.Sprintf("Image %s is not available for the platform of the node (%s)", image, c)
		cause.Fix = "Push the image for the platform of the nodes, or correct spec.image of the application."
	case pullRateLimited, pullUntrusted, pullUnreachable:
		cause.Code, cause.Value = RegistryUnreachable, registryHost(c.spec.Image)
		cause.Message, cause.Fix = registryMessage(a, abbreviate(cause.Value))
		cause.Message += fmt.Sprintf(" (image %s of %s)", image, c)
	case pullUnknown:
		cause.Code = ImagePull
		cause.Message = fmt.Sprintf("Image %s cannot be pulled (%s)", image, c)
		cause.Fix = "Check the error of the registry in the events of the pod: " + describePodCommand(c.pod)
	}
	return cause
}

// registryMessage describes a problem with the registry that affects all its images.
func registryMessage(a pullError, host string) (message, fix string) {
	switch a {
	case pullRateLimited:
		return fmt.Sprintf("Registry %s rejects the pull: its rate limit is reached", host),
			"Wait until the rate limit resets, or set spec.imagePullSecrets of the application to an account with a higher limit."
	case pullUntrusted:
		return fmt.Sprintf("The node does not trust the certificate of registry %s", host),
			"Install the CA certificate of the registry on the nodes, or correct the registry in spec.image of the application."
	}
	return fmt.Sprintf("The node cannot reach registry %s", host),
		"Correct the registry in spec.image of the application, or give the nodes network access to it."
}

// deniedMessage does not claim that credentials are the reason: registries send the same response for a
// name that does not exist.
func (c container) deniedMessage(image string) (message, fix string) {
	var names []string
	for _, s := range c.pod.Spec.ImagePullSecrets {
		names = append(names, s.Name)
	}
	message = fmt.Sprintf("The registry denies access to image %s (%s): ", image, c)
	if len(names) == 0 {
		return message + "no image pull Secret is set",
			"Check the name in spec.image of the application, and set spec.imagePullSecrets if the image is private."
	}
	secretsText := "the image pull Secret is "
	if len(names) > 1 {
		secretsText = "the image pull Secrets are "
	}
	return message + secretsText + strings.Join(names, ", "),
		"Check the name in spec.image of the application, and check that its image pull Secrets exist and grant access to the image."
}

// registryHost returns the registry host of an image.
func registryHost(image string) string {
	host, _, ok := strings.Cut(image, "/")
	if !ok || !strings.ContainsAny(host, ".:") && host != "localhost" && strings.ToLower(host) == host {
		return "docker.io"
	}
	return host
}

// addInvalidImageName reports an invalid image name. The schema rejects it for the main container of
// a component, but does not check a podTemplateOverlay.
func (e *explainer) addInvalidImageName(c container, w *corev1.ContainerStateWaiting) {
	e.addPodCause(c.pod, c.spec.Image, Cause{
		Code: InvalidImageName, Path: c.statusPath + ".state.waiting", Value: c.spec.Image, Since: c.unreadySince(),
		Message:  fmt.Sprintf("Image %q is not a valid image name (%s)", abbreviate(c.spec.Image), c),
		Fix:      "Correct spec.image of the application: use a lower-case name with a tag, for example registry.example.com/shop/web:1.",
		Evidence: evidence(plaintext.Line(w.Message, maxText)),
	})
}

// addImageNeverPull reports an image that is not on the node while imagePullPolicy is Never.
func (e *explainer) addImageNeverPull(c container, w *corev1.ContainerStateWaiting) {
	e.addPodCause(c.pod, c.spec.Image, Cause{
		Code: ImageNeverPull, Path: c.statusPath + ".state.waiting", Value: c.spec.Image, Since: c.unreadySince(),
		Message: fmt.Sprintf("Image %q is not present on Node %s, and imagePullPolicy is Never (%s)", abbreviate(c.spec.Image),
			abbreviate(c.pod.Spec.NodeName), c),
		Fix:      "Load the image onto the node, or set spec.imagePullPolicy of the application to IfNotPresent.",
		Evidence: evidence(plaintext.Line(w.Message, maxText)),
	})
}

// addImageRejected reports an image that the node rejects.
func (e *explainer) addImageRejected(c container, w *corev1.ContainerStateWaiting) {
	detail := "its signature is not valid"
	if w.Reason == reasonImageInspect {
		detail = "it cannot be inspected"
	}
	e.addPodCause(c.pod, c.spec.Image, Cause{
		Code: ImageSignature, Path: c.statusPath + ".state.waiting", Value: c.spec.Image, Since: c.unreadySince(),
		Message:  fmt.Sprintf("Node %s rejects image %q: %s (%s)", abbreviate(c.pod.Spec.NodeName), abbreviate(c.spec.Image), detail, c),
		Fix:      "Sign the image as the policy of the nodes requires, or push it again; for details: " + describePodCommand(c.pod),
		Evidence: evidence(plaintext.Line(w.Message, maxText)),
	})
}

package explain

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// pullError is what a registry, or the way to it, said to a pull.
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

// pullErrorPatterns are the words that tell, in lower case, in the order in which they are looked
// for. A registry that does not want to say whether an image exists says both that it is
// denied and that it is not found, so denied goes first.
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

// classifyPullError finds out what was answered. Names of images and addresses are left out of the
// search: "shop/x509:401" says nothing about certificates or credentials.
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

// addPullFailure is a container whose image does not come. ErrImagePull and ImagePullBackOff take
// turns; nothing said here depends on which of them it is.
func (e *explainer) addPullFailure(c container, w *corev1.ContainerStateWaiting) {
	text := sanitize(w.Message, maxText)
	a := classifyPullError(text)
	if a == pullUnknown && w.Reason == reasonRegistryUnavailable {
		a = pullUnreachable
	}
	cause := c.pullCause(a)
	cause.Path, cause.Since, cause.Evidence = c.statusPath+".state.waiting", c.unreadySince(), evidence(text)
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
		cause.Message = fmt.Sprintf("Image %s does not exist for the platform of its node (%s)", image, c)
		cause.Fix = "Push the image for the platform of the nodes too, or correct spec.image of the application."
	case pullRateLimited, pullUntrusted, pullUnreachable:
		cause.Code, cause.Value = RegistryUnreachable, registryHost(c.spec.Image)
		cause.Message, cause.Fix = registryMessage(a, abbreviate(cause.Value))
		cause.Message += fmt.Sprintf(" (image %s of %s)", image, c)
	case pullUnknown:
		cause.Code = ImagePull
		cause.Message = fmt.Sprintf("Image %s cannot be pulled (%s)", image, c)
		cause.Fix = "Look for the answer of the registry in the events of the pod: " + describePodCommand(c.pod)
	}
	return cause
}

// registryMessage is about a registry from which nothing comes, whatever the image.
func registryMessage(a pullError, host string) (message, fix string) {
	switch a {
	case pullRateLimited:
		return fmt.Sprintf("Registry %s limits how often images are pulled, and the limit is reached", host),
			"Wait until the limit is lifted, or set spec.imagePullSecrets of the application to an account with a higher one."
	case pullUntrusted:
		return fmt.Sprintf("The node does not trust the certificate of registry %s", host),
			"Let the nodes trust the authority of that certificate, or correct the registry in spec.image of the application."
	}
	return fmt.Sprintf("The node cannot reach registry %s", host),
		"Correct the registry in spec.image of the application, or let the nodes reach it."
}

// deniedMessage does not claim that credentials are the reason: registries answer the same to
// a name that does not exist.
func (c container) deniedMessage(image string) (message, fix string) {
	var names []string
	for _, s := range c.pod.Spec.ImagePullSecrets {
		names = append(names, s.Name)
	}
	message = fmt.Sprintf("The registry refuses to give out image %s (%s): ", image, c)
	if len(names) == 0 {
		return message + "no pull Secret is set",
			"Check the name in spec.image of the application, and set spec.imagePullSecrets if the image is private."
	}
	secretsText := "the pull Secret set is "
	if len(names) > 1 {
		secretsText = "the pull Secrets set are "
	}
	return message + secretsText + strings.Join(names, ", "),
		"Check the name in spec.image of the application, and that its pull Secrets exist and may read the image."
}

// registryHost is the host that an image comes from.
func registryHost(image string) string {
	host, _, ok := strings.Cut(image, "/")
	if !ok || !strings.ContainsAny(host, ".:") && host != "localhost" && strings.ToLower(host) == host {
		return "docker.io"
	}
	return host
}

// addInvalidImageName is a container whose image no registry can have. The schema refuses it for the
// component's own container; it cannot look into an overlay.
func (e *explainer) addInvalidImageName(c container, w *corev1.ContainerStateWaiting) {
	e.addPodCause(c.pod, c.spec.Image, Cause{
		Code: InvalidImageName, Path: c.statusPath + ".state.waiting", Value: c.spec.Image, Since: c.unreadySince(),
		Message:  fmt.Sprintf("Image %q is not the name of an image (%s)", abbreviate(c.spec.Image), c),
		Fix:      "Correct the image: it is a name in lower case with a tag, for example registry.example.com/shop/web:1.",
		Evidence: evidence(sanitize(w.Message, maxText)),
	})
}

// addImageNeverPull is an image that the node does not have and may not pull.
func (e *explainer) addImageNeverPull(c container, w *corev1.ContainerStateWaiting) {
	e.addPodCause(c.pod, c.spec.Image, Cause{
		Code: ImageNeverPull, Path: c.statusPath + ".state.waiting", Value: c.spec.Image, Since: c.unreadySince(),
		Message:  fmt.Sprintf("Image %q is not on node %s, and the pull policy is Never (%s)", abbreviate(c.spec.Image), abbreviate(c.pod.Spec.NodeName), c),
		Fix:      "Put the image on the node, or set spec.imagePullPolicy of the application to IfNotPresent.",
		Evidence: evidence(sanitize(w.Message, maxText)),
	})
}

// addImageRejected is an image that the node does not accept.
func (e *explainer) addImageRejected(c container, w *corev1.ContainerStateWaiting) {
	detail := "its signature is not valid there"
	if w.Reason == reasonImageInspect {
		detail = "it cannot be inspected there"
	}
	e.addPodCause(c.pod, c.spec.Image, Cause{
		Code: ImageSignature, Path: c.statusPath + ".state.waiting", Value: c.spec.Image, Since: c.unreadySince(),
		Message:  fmt.Sprintf("Node %s refuses image %q: %s (%s)", abbreviate(c.pod.Spec.NodeName), abbreviate(c.spec.Image), detail, c),
		Fix:      "Sign the image as the nodes want it, or push it again: " + describePodCommand(c.pod),
		Evidence: evidence(sanitize(w.Message, maxText)),
	})
}

package explain

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// answer is what a registry, or the way to it, said to a pull.
type answer int

const (
	unclear answer = iota
	denied
	otherPlatform
	notFound
	limited
	distrusted
	unreachable
)

// answers are the words that tell, in lower case, in the order in which they are looked
// for. A registry that does not want to say whether an image exists says both that it is
// denied and that it is not found, so denied goes first.
var answers = []struct {
	answer answer
	words  []string
}{
	{denied, []string{"pull access denied", "insufficient_scope", "authorization failed", "unauthorized", "authentication required",
		"status: 401", "status code 401", "403 forbidden", "status: 403", "status code 403",
		"denied: permission", "access to the resource is denied", "no basic auth"}},
	{otherPlatform, []string{"no match for platform", "no matching manifest for"}},
	{notFound, []string{"not found", "manifest unknown", "name unknown"}},
	{limited, []string{"toomanyrequests", "too many requests", "status: 429", "status code 429"}},
	{distrusted, []string{"x509", "server gave http response to https client"}},
	{unreachable, []string{"no such host", "dial tcp", "i/o timeout", "timeout exceeded", "deadline exceeded", "connection refused",
		"connection reset", "registryunavailable", "service unavailable", "bad gateway", "gateway timeout"}},
}

// classify finds out what was answered. Names of images and addresses are left out of the
// search: "shop/x509:401" says nothing about certificates or credentials.
func classify(text string) answer {
	var words []string
	for word := range strings.FieldsSeq(strings.ToLower(text)) {
		if word == "i/o" || !strings.HasPrefix(word, `"`) && !strings.Contains(word, "/") {
			words = append(words, word)
		}
	}
	said := strings.Join(words, " ")
	for _, a := range answers {
		for _, w := range a.words {
			if strings.Contains(said, w) {
				return a.answer
			}
		}
	}
	return unclear
}

// pull is a container whose image does not come. ErrImagePull and ImagePullBackOff take
// turns; nothing said here depends on which of them it is.
func (e *examiner) pull(c container, w *corev1.ContainerStateWaiting) {
	text := plain(w.Message, maxText)
	a := classify(text)
	if a == unclear && w.Reason == reasonRegistryUnavailable {
		a = unreachable
	}
	cause := c.unpulled(a)
	cause.Path, cause.Since, cause.Evidence = c.statusPath+".state.waiting", c.since(), evidence(text)
	e.add(c.pod, cause.Value, cause)
}

func (c container) unpulled(a answer) Cause {
	image := fmt.Sprintf("%q", short(c.spec.Image))
	cause := Cause{Value: c.spec.Image}
	switch a {
	case denied:
		cause.Code = ImageAuth
		cause.Sentence, cause.Fix = c.refused(image)
	case notFound:
		cause.Code = ImageNotFound
		cause.Sentence = fmt.Sprintf("Image %s does not exist in its registry (%s)", image, c)
		cause.Fix = "Correct spec.image of the application, or push the image."
	case otherPlatform:
		cause.Code = ImageNotFound
		cause.Sentence = fmt.Sprintf("Image %s does not exist for the platform of its node (%s)", image, c)
		cause.Fix = "Push the image for the platform of the nodes too, or correct spec.image of the application."
	case limited, distrusted, unreachable:
		cause.Code, cause.Value = RegistryUnreachable, registry(c.spec.Image)
		cause.Sentence, cause.Fix = unanswered(a, short(cause.Value))
		cause.Sentence += fmt.Sprintf(" (image %s of %s)", image, c)
	case unclear:
		cause.Code = ImagePull
		cause.Sentence = fmt.Sprintf("Image %s cannot be pulled (%s)", image, c)
		cause.Fix = "Look for the answer of the registry in the events of the pod: " + lookUp(c.pod)
	}
	return cause
}

// unanswered is about a registry from which nothing comes, whatever the image.
func unanswered(a answer, host string) (sentence, fix string) {
	switch a {
	case limited:
		return fmt.Sprintf("Registry %s limits how often images are pulled, and the limit is reached", host),
			"Wait until the limit is lifted, or set spec.imagePullSecrets of the application to an account with a higher one."
	case distrusted:
		return fmt.Sprintf("The node does not trust the certificate of registry %s", host),
			"Let the nodes trust the authority of that certificate, or correct the registry in spec.image of the application."
	}
	return fmt.Sprintf("The node cannot reach registry %s", host),
		"Correct the registry in spec.image of the application, or let the nodes reach it."
}

// refused does not claim that credentials are the reason: registries answer the same to
// a name that does not exist.
func (c container) refused(image string) (sentence, fix string) {
	var names []string
	for _, s := range c.pod.Spec.ImagePullSecrets {
		names = append(names, s.Name)
	}
	sentence = fmt.Sprintf("The registry refuses to give out image %s (%s): ", image, c)
	if len(names) == 0 {
		return sentence + "no pull Secret is set",
			"Check the name in spec.image of the application, and set spec.imagePullSecrets if the image is private."
	}
	set := "the pull Secret set is "
	if len(names) > 1 {
		set = "the pull Secrets set are "
	}
	return sentence + set + strings.Join(names, ", "),
		"Check the name in spec.image of the application, and that its pull Secrets exist and may read the image."
}

// registry is the host that an image comes from.
func registry(image string) string {
	host, _, ok := strings.Cut(image, "/")
	if !ok || !strings.ContainsAny(host, ".:") && host != "localhost" && strings.ToLower(host) == host {
		return "docker.io"
	}
	return host
}

// misnamed is a container whose image no registry can have. The schema refuses it for the
// component's own container; it cannot look into an overlay.
func (e *examiner) misnamed(c container, w *corev1.ContainerStateWaiting) {
	e.add(c.pod, c.spec.Image, Cause{
		Code: InvalidImageName, Path: c.statusPath + ".state.waiting", Value: c.spec.Image, Since: c.since(),
		Sentence: fmt.Sprintf("Image %q is not the name of an image (%s)", short(c.spec.Image), c),
		Fix:      "Correct the image: it is a name in lower case with a tag, for example registry.example.com/shop/web:1.",
		Evidence: evidence(plain(w.Message, maxText)),
	})
}

// neverPulled is an image that the node does not have and may not pull.
func (e *examiner) neverPulled(c container, w *corev1.ContainerStateWaiting) {
	e.add(c.pod, c.spec.Image, Cause{
		Code: ImageNeverPull, Path: c.statusPath + ".state.waiting", Value: c.spec.Image, Since: c.since(),
		Sentence: fmt.Sprintf("Image %q is not on node %s, and the pull policy is Never (%s)", short(c.spec.Image), short(c.pod.Spec.NodeName), c),
		Fix:      "Put the image on the node, or set spec.imagePullPolicy of the application to IfNotPresent.",
		Evidence: evidence(plain(w.Message, maxText)),
	})
}

// unsigned is an image that the node does not accept.
func (e *examiner) unsigned(c container, w *corev1.ContainerStateWaiting) {
	why := "its signature is not valid there"
	if w.Reason == reasonInspect {
		why = "it cannot be inspected there"
	}
	e.add(c.pod, c.spec.Image, Cause{
		Code: ImageSignature, Path: c.statusPath + ".state.waiting", Value: c.spec.Image, Since: c.since(),
		Sentence: fmt.Sprintf("Node %s refuses image %q: %s (%s)", short(c.pod.Spec.NodeName), short(c.spec.Image), why, c),
		Fix:      "Sign the image as the nodes want it, or push it again: " + lookUp(c.pod),
		Evidence: evidence(plain(w.Message, maxText)),
	})
}

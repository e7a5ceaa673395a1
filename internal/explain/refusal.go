package explain

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Refused explains why the API server does not take an object, from its answer to whoever
// sent it. ok is false for answers of no known kind.
func Refused(o Object, answer string) (c Cause, ok bool) { return refused(o, o.String(), answer) }

// refusedPods explains why it does not take the pods of a workload.
func refusedPods(o Object, answer string) Cause {
	c, ok := refused(o, "the pods of "+o.String(), answer)
	if !ok {
		c = Cause{
			Code: CreateFailed, Object: o, Evidence: evidence(answer),
			Sentence: fmt.Sprintf("The pods of %s cannot be created: %s", o, lasting(o, answer)),
			Fix:      fmt.Sprintf("Look at what the API server answered: kubectl describe %s -n %s %s", strings.ToLower(o.Kind), o.Namespace, o.Name),
		}
	}
	return c
}

func refused(o Object, what, answer string) (c Cause, ok bool) {
	text := plain(answer, maxText)
	for _, known := range refusals {
		found := known.said.FindStringSubmatch(text)
		if found == nil {
			continue
		}
		for i := range found {
			found[i] = lasting(o, found[i])
		}
		c = known.cause(refusal{o.Namespace, what, found[1:]})
		c.Severity, c.Object = c.Code.entry().Severity, o
		c.Sentence, c.Fix = plain(c.Sentence, maxSentence), plain(c.Fix, maxSentence)
		c.Evidence = evidence(text)
		return c, true
	}
	return Cause{}, false
}

// generated is the end of a name that Kubernetes made up for a pod.
const generated = `(-[a-z0-9]{5,10})?-[a-z0-9]{5}\b`

// lasting is an answer in words that are the same at every try: each pod has another name.
//
//	pods "web-6d5f7c8b9-x2x4z" is forbidden: no ──► no
func lasting(o Object, answer string) string {
	if strings.HasPrefix(answer, "pods ") {
		if _, why, ok := strings.Cut(answer, " is forbidden: "); ok {
			answer = why
		}
	}
	return regexp.MustCompile(regexp.QuoteMeta(o.Name)+generated).ReplaceAllString(answer, o.Name)
}

// refusal is an answer and what was found in it.
type refusal struct {
	namespace, what string
	found           []string
}

// name is what may be the name of an object. Nothing else of an answer gets into a sentence.
const name = `[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?`

var refusals = []struct {
	said  *regexp.Regexp
	cause func(refusal) Cause
}{
	{regexp.MustCompile(`exceeded quota: (` + name + `), requested: .*limited: ([-a-zA-Z0-9./=,]+)`), refusal.quota},
	{regexp.MustCompile(`failed quota: (` + name + `): must specify ([-a-zA-Z0-9./]+)`), refusal.unspecified},
	{regexp.MustCompile(`\b(maximum|minimum) ([a-z-]+) usage per (Container|Pod|PersistentVolumeClaim) is ([0-9a-zA-Z.]+)`), refusal.bound},
	{regexp.MustCompile(`\b([a-z-]+) max limit to request ratio per (Container|Pod) is ([0-9a-zA-Z.]+)`), refusal.ratio},
	{regexp.MustCompile(`violates PodSecurity "([a-z]+)(?::[a-z0-9.]+)?": (.*)`), refusal.security},
	{regexp.MustCompile(`admission webhook "(` + name + `)" denied the request:? ?(.*)`), refusal.webhook},
	{regexp.MustCompile(`failed calling webhook "(` + name + `)"`), refusal.silentWebhook},
	{regexp.MustCompile(`ValidatingAdmissionPolicy '(` + name + `)' with binding '(` + name + `)' denied request:? ?(.*)`), refusal.policy},
	{regexp.MustCompile(`error looking up service account ` + name + `/(` + name + `): .*not found`), refusal.account},
	{regexp.MustCompile(`because it is being terminated`), refusal.terminating},
}

func (r refusal) quota() Cause {
	quota := r.found[0]
	var of []string
	for part := range strings.SplitSeq(r.found[1], ",") {
		resource, _, _ := strings.Cut(part, "=")
		of = append(of, resource)
	}
	slices.Sort(of)
	return Cause{
		Code: QuotaExceeded, Value: quota,
		Sentence: fmt.Sprintf("ResourceQuota %s of namespace %s is used up (%s), so %s cannot be created", quota, r.namespace, strings.Join(of, ", "), r.what),
		Fix:      fmt.Sprintf("Raise the quota or free some of it: kubectl describe quota -n %s %s", r.namespace, quota),
	}
}

func (r refusal) unspecified() Cause {
	quota, resource := r.found[0], r.found[1]
	return Cause{
		Code: QuotaNeedsRequests, Value: resource,
		Sentence: fmt.Sprintf("ResourceQuota %s of namespace %s wants %s to be set, which is not the case in %s", quota, r.namespace, resource, r.what),
		Fix:      "Set spec.resources of the application, sidecars included, or give the namespace a LimitRange with defaults.",
	}
}

func (r refusal) bound() Cause {
	bound, resource, of, value := r.found[0], r.found[1], r.found[2], r.found[3]
	return Cause{
		Code: LimitRange, Value: resource,
		Sentence: fmt.Sprintf("A LimitRange of namespace %s sets a %s of %s %s per %s, which is not kept by %s", r.namespace, bound, value, resource, of, r.what),
		Fix:      fmt.Sprintf("Bring spec.resources of the application within it: kubectl describe limitrange -n %s", r.namespace),
	}
}

func (r refusal) ratio() Cause {
	resource, of, value := r.found[0], r.found[1], r.found[2]
	return Cause{
		Code: LimitRange, Value: resource,
		Sentence: fmt.Sprintf("A LimitRange of namespace %s lets the %s limit per %s be at most %s times its request, which is not kept by %s", r.namespace, resource, of, value, r.what),
		Fix:      fmt.Sprintf("Bring spec.resources of the application within it: kubectl describe limitrange -n %s", r.namespace),
	}
}

// security keeps the words before each parenthesis: what is inside says the same again for
// each container.
func (r refusal) security() Cause {
	level := r.found[0]
	var all []string
	depth, from := 0, 0
	text := r.found[1] + ","
	for i, c := range text {
		switch {
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == ',' && depth <= 0:
			head, _, _ := strings.Cut(text[from:i], "(")
			if head = strings.TrimSpace(head); head != "" && !slices.Contains(all, head) {
				all = append(all, head)
			}
			from = i + 1
		}
	}
	slices.Sort(all)
	return Cause{
		Code: PodSecurity, Value: level,
		Sentence: fmt.Sprintf("Namespace %s enforces PodSecurity level %s, which is violated by %s: %s", r.namespace, level, r.what, strings.Join(all, ", ")),
		Fix:      "Set spec.security.level of the application to Restricted and correct what else is named, or let the namespace allow it.",
	}
}

// said is what a webhook or policy gives as its reason. It is written for the one who is
// refused, and nothing else tells what to change.
func said(text string) string {
	if text == "" {
		return "it does not say why"
	}
	return short(strings.TrimSuffix(text, "."))
}

func (r refusal) webhook() Cause {
	return Cause{
		Code: WebhookDenied, Value: r.found[0],
		Sentence: fmt.Sprintf("Admission webhook %s refuses %s: %s", r.found[0], r.what, said(r.found[1])),
		Fix:      "Change the application as the webhook wants it, or ask whoever runs the webhook.",
	}
}

func (r refusal) silentWebhook() Cause {
	return Cause{
		Code: WebhookDown, Value: r.found[0],
		Sentence: fmt.Sprintf("Admission webhook %s does not answer, so %s cannot be created", r.found[0], r.what),
		Fix:      "Bring the webhook back, or remove its configuration: kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations",
	}
}

func (r refusal) policy() Cause {
	return Cause{
		Code: PolicyDenied, Value: r.found[0],
		Sentence: fmt.Sprintf("ValidatingAdmissionPolicy %s refuses %s: %s", r.found[0], r.what, said(r.found[2])),
		Fix:      fmt.Sprintf("Change the application as the policy wants it: kubectl get validatingadmissionpolicy %s -o yaml", r.found[0]),
	}
}

func (r refusal) account() Cause {
	return Cause{
		Code: ServiceAccountMissing, Value: r.found[0],
		Sentence: fmt.Sprintf("ServiceAccount %q does not exist in namespace %s, so %s cannot be created", short(r.found[0]), r.namespace, r.what),
		Fix:      fmt.Sprintf("Create it, or correct spec.serviceAccountName of the application: kubectl create serviceaccount -n %s %s", r.namespace, r.found[0]),
	}
}

func (r refusal) terminating() Cause {
	return Cause{
		Code: NamespaceTerminating, Value: r.namespace,
		Sentence: fmt.Sprintf("Namespace %s is being deleted, so %s cannot be created", r.namespace, r.what),
		Fix:      fmt.Sprintf("Use another namespace; what keeps this one is shown by kubectl describe namespace %s", r.namespace),
	}
}

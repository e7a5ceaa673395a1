package explain

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/plaintext"
)

// RejectedCause returns the cause for an object that the API server rejected with this message; ok is
// false for unknown messages.
func RejectedCause(o ObjectRef, message string) (c Cause, ok bool) {
	return rejectedCause(o, o.String(), message)
}

// podsRejectedCause returns the cause for a workload whose pods the API server rejected.
func podsRejectedCause(o ObjectRef, message string) Cause {
	c, ok := rejectedCause(o, "the pods of "+o.String(), message)
	if !ok {
		c = Cause{
			Code: CreateFailed, Object: o, Evidence: evidence(message),
			Message: fmt.Sprintf("The pods of %s cannot be created: %s", o, withoutGeneratedNames(o, message)),
			Fix:     fmt.Sprintf("Check the error of the API server: kubectl describe %s -n %s %s", strings.ToLower(o.Kind), o.Namespace, o.Name),
		}
	}
	return c
}

func rejectedCause(o ObjectRef, target, message string) (c Cause, ok bool) {
	text := plaintext.Line(message, maxText)
	for _, known := range rejectionPatterns {
		matches := known.said.FindStringSubmatch(text)
		if matches == nil {
			continue
		}
		for i := range matches {
			matches[i] = withoutGeneratedNames(o, matches[i])
		}
		c = known.cause(rejection{o.Namespace, target, matches[1:]})
		c.Severity, c.Object = c.Code.info().Severity, o
		c.Message, c.Fix = plaintext.Line(c.Message, maxMessage), plaintext.Line(c.Fix, maxMessage)
		c.Evidence = evidence(text)
		return c, true
	}
	return Cause{}, false
}

// generatedSuffixPattern matches the generated suffix of a pod name.
const generatedSuffixPattern = `(-[a-z0-9]{5,10})?-[a-z0-9]{5}\b`

// withoutGeneratedNames removes generated pod names, so the message is the same at every attempt.
//
//	pods "web-6d5f7c8b9-x2x4z" is forbidden: no ──► no
func withoutGeneratedNames(o ObjectRef, text string) string {
	if strings.HasPrefix(text, "pods ") {
		if _, rest, ok := strings.Cut(text, " is forbidden: "); ok {
			text = rest
		}
	}
	return regexp.MustCompile(regexp.QuoteMeta(o.Name)+generatedSuffixPattern).ReplaceAllString(text, o.Name)
}

// rejection is a rejected object and the submatches of the message.
type rejection struct {
	namespace, target string
	matches           []string
}

// namePattern matches valid object names, so that no other text of a message gets into a status.
const namePattern = `[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?`

var rejectionPatterns = []struct {
	said  *regexp.Regexp
	cause func(rejection) Cause
}{
	{regexp.MustCompile(`exceeded quota: (` + namePattern + `), requested: .*limited: ([-a-zA-Z0-9./=,]+)`), rejection.quotaExceeded},
	{regexp.MustCompile(`failed quota: (` + namePattern + `): must specify ([-a-zA-Z0-9./]+)`), rejection.quotaNeedsRequests},
	{regexp.MustCompile(`\b(maximum|minimum) ([a-z-]+) usage per (Container|Pod|PersistentVolumeClaim) is ([0-9a-zA-Z.]+)`), rejection.limitRangeBound},
	{regexp.MustCompile(`\b([a-z-]+) max limit to request ratio per (Container|Pod) is ([0-9a-zA-Z.]+)`), rejection.limitRangeRatio},
	{regexp.MustCompile(`violates PodSecurity "([a-z]+)(?::[a-z0-9.]+)?": (.*)`), rejection.podSecurity},
	{regexp.MustCompile(`admission webhook "(` + namePattern + `)" denied the request:? ?(.*)`), rejection.webhookDenied},
	{regexp.MustCompile(`failed calling webhook "(` + namePattern + `)"`), rejection.webhookDown},
	{regexp.MustCompile(`ValidatingAdmissionPolicy '(` + namePattern + `)' with binding '(` + namePattern + `)' denied request:? ?(.*)`), rejection.policyDenied},
	{regexp.MustCompile(`error looking up service account ` + namePattern + `/(` + namePattern + `): .*not found`), rejection.serviceAccountMissing},
	{regexp.MustCompile(`because it is being terminated`), rejection.namespaceTerminating},
}

func (r rejection) quotaExceeded() Cause {
	quota := r.matches[0]
	var resources []string
	for part := range strings.SplitSeq(r.matches[1], ",") {
		resource, _, _ := strings.Cut(part, "=")
		resources = append(resources, resource)
	}
	slices.Sort(resources)
	return Cause{
		Code: QuotaExceeded, Value: quota,
		Message: fmt.Sprintf("ResourceQuota %s in namespace %s is exceeded (%s), so %s cannot be created", quota, r.namespace,
			strings.Join(resources, ", "), r.target),
		Fix: fmt.Sprintf("Raise the quota or reduce its usage; for details: kubectl describe quota -n %s %s", r.namespace, quota),
	}
}

func (r rejection) quotaNeedsRequests() Cause {
	quota, resource := r.matches[0], r.matches[1]
	return Cause{
		Code: QuotaNeedsRequests, Value: resource,
		Message: fmt.Sprintf("ResourceQuota %s in namespace %s requires %s to be set, which is missing in %s", quota, r.namespace, resource,
			r.target),
		Fix: "Set spec.resources of the application, sidecars included, or give the namespace a LimitRange with defaults.",
	}
}

func (r rejection) limitRangeBound() Cause {
	bound, resource, per, value := r.matches[0], r.matches[1], r.matches[2], r.matches[3]
	return Cause{
		Code: LimitRange, Value: resource,
		Message: fmt.Sprintf("A LimitRange in namespace %s sets a %s of %s %s per %s, which is violated by %s", r.namespace, bound, value,
			resource, per, r.target),
		Fix: fmt.Sprintf("Set spec.resources of the application within this range; for details: kubectl describe limitrange -n %s", r.namespace),
	}
}

func (r rejection) limitRangeRatio() Cause {
	resource, per, value := r.matches[0], r.matches[1], r.matches[2]
	return Cause{
		Code: LimitRange, Value: resource,
		Message: fmt.Sprintf("A LimitRange in namespace %s allows a %s limit per %s of at most %s times the request, which is violated by %s",
			r.namespace, resource, per, value, r.target),
		Fix: fmt.Sprintf("Correct spec.resources of the application to match this ratio; for details: kubectl describe limitrange -n %s", r.namespace),
	}
}

// podSecurity keeps the text before each parenthesis: the parentheses repeat it for each container.
func (r rejection) podSecurity() Cause {
	level := r.matches[0]
	var violations []string
	depth, start := 0, 0
	text := r.matches[1] + ","
	for i, c := range text {
		switch {
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == ',' && depth <= 0:
			head, _, _ := strings.Cut(text[start:i], "(")
			if head = strings.TrimSpace(head); head != "" && !slices.Contains(violations, head) {
				violations = append(violations, head)
			}
			start = i + 1
		}
	}
	slices.Sort(violations)
	return Cause{
		Code: PodSecurity, Value: level,
		Message: fmt.Sprintf("Namespace %s enforces PodSecurity level %s, which is violated by %s: %s", r.namespace, level, r.target, strings.Join(violations, ", ")),
		Fix: "Set spec.security.level of the application to Restricted and fix the listed violations, or lower the PodSecurity level of " +
			"the namespace.",
	}
}

// reasonOrDefault returns the reason that a webhook or policy gives. It is written for users, and only
// the reason tells what to change.
func reasonOrDefault(text string) string {
	if text == "" {
		return "no reason given"
	}
	return abbreviate(strings.TrimSuffix(text, "."))
}

func (r rejection) webhookDenied() Cause {
	return Cause{
		Code: WebhookDenied, Value: r.matches[0],
		Message: fmt.Sprintf("Admission webhook %s denies %s: %s", r.matches[0], r.target, reasonOrDefault(r.matches[1])),
		Fix:     "Change the application as the webhook requires, or ask the owner of the webhook.",
	}
}

func (r rejection) webhookDown() Cause {
	return Cause{
		Code: WebhookDown, Value: r.matches[0],
		Message: fmt.Sprintf("The API server cannot call admission webhook %s, so %s cannot be created", r.matches[0], r.target),
		Fix:     "Repair the webhook, or delete its configuration; for details: kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations",
	}
}

func (r rejection) policyDenied() Cause {
	return Cause{
		Code: PolicyDenied, Value: r.matches[0],
		Message: fmt.Sprintf("ValidatingAdmissionPolicy %s denies %s: %s", r.matches[0], r.target, reasonOrDefault(r.matches[2])),
		Fix:     fmt.Sprintf("Change the application as the policy requires; for details: kubectl get validatingadmissionpolicy %s -o yaml", r.matches[0]),
	}
}

func (r rejection) serviceAccountMissing() Cause {
	return Cause{
		Code: ServiceAccountMissing, Value: r.matches[0],
		Message: fmt.Sprintf("ServiceAccount %q does not exist in namespace %s, so %s cannot be created", abbreviate(r.matches[0]), r.namespace, r.target),
		Fix: fmt.Sprintf("Correct spec.serviceAccountName of the application, or create the ServiceAccount: "+
			"kubectl create serviceaccount -n %s %s", r.namespace, r.matches[0]),
	}
}

func (r rejection) namespaceTerminating() Cause {
	return Cause{
		Code: NamespaceTerminating, Value: r.namespace,
		Message: fmt.Sprintf("Namespace %s is being deleted, so %s cannot be created", r.namespace, r.target),
		Fix:     fmt.Sprintf("Use another namespace, or check what blocks the deletion: kubectl describe namespace %s", r.namespace),
	}
}

package explain

import "testing"

// TestRefused holds the answers of a real API server against what is made of them. What
// changes with every try, numbers and names of pods, must not be in a sentence.
func TestRefused(t *testing.T) {
	web := ObjectRef{Kind: "Deployment", Namespace: "shop", Name: "web"}
	cases := map[string]struct {
		answer, sentence string
		code             Code
	}{
		"quota": {
			`pods "web-6d5f8b7c9-x2x4z" is forbidden: exceeded quota: small, requested: pods=1,requests.cpu=2, used: pods=3,requests.cpu=4, limited: pods=3,requests.cpu=4`,
			"ResourceQuota small of namespace shop is used up (pods, requests.cpu), so the pods of Deployment web cannot be created", QuotaExceeded},
		"quota wants requests": {
			`pods "web-6d5f8b7c9-x2x4z" is forbidden: failed quota: small: must specify requests.cpu for: app`,
			"ResourceQuota small of namespace shop wants requests.cpu to be set, which is not the case in the pods of Deployment web", QuotaNeedsRequests},
		"too much": {
			`pods "web-6d5f8b7c9-x2x4z" is forbidden: maximum memory usage per Container is 1Gi, but limit is 2Gi`,
			"A LimitRange of namespace shop sets a maximum of 1Gi memory per Container, which is not kept by the pods of Deployment web", LimitRange},
		"too far apart": {
			`pods "web-6d5f8b7c9-x2x4z" is forbidden: cpu max limit to request ratio per Container is 2, but provided ratio is 4.000000`,
			"A LimitRange of namespace shop lets the cpu limit per Container be at most 2 times its request, which is not kept by the pods of Deployment web", LimitRange},
		"PodSecurity": {
			`pods "web-6d5f8b7c9-x2x4z" is forbidden: violates PodSecurity "restricted:latest": unrestricted capabilities (container "app" must set securityContext.capabilities.drop=["ALL"]), runAsNonRoot != true (pod or container "app" must set securityContext.runAsNonRoot=true)`,
			"Namespace shop enforces PodSecurity level restricted, which is violated by the pods of Deployment web: runAsNonRoot != true, unrestricted capabilities", PodSecurity},
		"webhook": {
			`admission webhook "fridays.example.com" denied the request: web-6d5f8b7c9-x2x4z has to wait`,
			"Admission webhook fridays.example.com refuses the pods of Deployment web: web has to wait", WebhookDenied},
		"webhook without a word": {
			`admission webhook "fridays.example.com" denied the request without explanation`,
			"Admission webhook fridays.example.com refuses the pods of Deployment web: without explanation", WebhookDenied},
		"webhook with an empty reason": {
			`admission webhook "fridays.example.com" denied the request: `,
			"Admission webhook fridays.example.com refuses the pods of Deployment web: it does not say why", WebhookDenied},
		"silent webhook": {
			`Internal error occurred: failed calling webhook "pods.example.com": failed to call webhook: Post "https://nobody.shop.svc:443/?timeout=2s": service "nobody" not found`,
			"Admission webhook pods.example.com does not answer, so the pods of Deployment web cannot be created", WebhookDown},
		"policy": {
			`pods "web-6d5f8b7c9-x2x4z" is forbidden: ValidatingAdmissionPolicy 'no-red' with binding 'no-red-everywhere' denied request: no pods of team red here`,
			"ValidatingAdmissionPolicy no-red refuses the pods of Deployment web: no pods of team red here", PolicyDenied},
		"account": {
			`pods "web-6d5f8b7c9-" is forbidden: error looking up service account shop/robot: serviceaccount "robot" not found`,
			`ServiceAccount "robot" does not exist in namespace shop, so the pods of Deployment web cannot be created`, ServiceAccountMissing},
		"namespace": {
			`pods "web-6d5f8b7c9-x2x4z" is forbidden: unable to create new content in namespace shop because it is being terminated`,
			"Namespace shop is being deleted, so the pods of Deployment web cannot be created", NamespaceTerminating},
		"something else": {
			`pods "web-6d5f8b7c9-x2x4z" is forbidden: no PriorityClass with name vip was found`,
			"The pods of Deployment web cannot be created: no PriorityClass with name vip was found", CreateFailed},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := podsRejectedCause(web, tc.answer)
			if got.Code != tc.code || got.Message != tc.sentence {
				t.Errorf("got  %s: %s\nwant %s: %s", got.Code, got.Message, tc.code, tc.sentence)
			}
			checkCauseText(t, []Cause{got}, "S3CR3T")
			direct, known := RejectedCause(web, tc.answer)
			if known != (tc.code != CreateFailed) || known && direct.Code != tc.code {
				t.Errorf("of our own write: %v %s", known, direct.Code)
			}
		})
	}
}

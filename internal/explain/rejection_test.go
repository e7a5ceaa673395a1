package explain

import "testing"

// TestRefused checks the messages for rejections of a real API server. They must not contain parts
// that change with every attempt, such as counts and generated pod names.
func TestRefused(t *testing.T) {
	web := ObjectRef{Kind: "Deployment", Namespace: "shop", Name: "web"}
	cases := map[string]struct {
		answer, sentence string
		code             Code
	}{
		"quota": {
			`pods "web-6d5f8b7c9-x2x4z" is forbidden: exceeded quota: small, requested: pods=1,requests.cpu=2, used: pods=3,requests.cpu=4, limited: pods=3,requests.cpu=4`,
			"ResourceQuota small in namespace shop is exceeded (pods, requests.cpu), so the pods of Deployment web cannot be created",
			QuotaExceeded},
		"quota requires requests": {
			`pods "web-6d5f8b7c9-x2x4z" is forbidden: failed quota: small: must specify requests.cpu for: app`,
			"ResourceQuota small in namespace shop requires requests.cpu to be set, which is missing in the pods of Deployment web",
			QuotaNeedsRequests},
		"LimitRange maximum": {
			`pods "web-6d5f8b7c9-x2x4z" is forbidden: maximum memory usage per Container is 1Gi, but limit is 2Gi`,
			"A LimitRange in namespace shop sets a maximum of 1Gi memory per Container, which is violated by the pods of Deployment web",
			LimitRange},
		"LimitRange ratio": {
			`pods "web-6d5f8b7c9-x2x4z" is forbidden: cpu max limit to request ratio per Container is 2, but provided ratio is 4.000000`,
			"A LimitRange in namespace shop allows a cpu limit per Container of at most 2 times the request, which is violated by the pods of " +
				"Deployment web", LimitRange},
		"PodSecurity": {
			`pods "web-6d5f8b7c9-x2x4z" is forbidden: violates PodSecurity "restricted:latest": unrestricted capabilities (container "app" must set securityContext.capabilities.drop=["ALL"]), runAsNonRoot != true (pod or container "app" must set securityContext.runAsNonRoot=true)`,
			"Namespace shop enforces PodSecurity level restricted, which is violated by the pods of Deployment web: runAsNonRoot != true, unrestricted capabilities", PodSecurity},
		"webhook": {
			`admission webhook "fridays.example.com" denied the request: web-6d5f8b7c9-x2x4z has to wait`,
			"Admission webhook fridays.example.com denies the pods of Deployment web: web has to wait", WebhookDenied},
		"webhook without explanation": {
			`admission webhook "fridays.example.com" denied the request without explanation`,
			"Admission webhook fridays.example.com denies the pods of Deployment web: without explanation", WebhookDenied},
		"webhook with an empty reason": {
			`admission webhook "fridays.example.com" denied the request: `,
			"Admission webhook fridays.example.com denies the pods of Deployment web: no reason given", WebhookDenied},
		"unreachable webhook": {
			`Internal error occurred: failed calling webhook "pods.example.com": failed to call webhook: Post "https://nobody.shop.svc:443/?timeout=2s": service "nobody" not found`,
			"The API server cannot call admission webhook pods.example.com, so the pods of Deployment web cannot be created", WebhookDown},
		"policy": {
			`pods "web-6d5f8b7c9-x2x4z" is forbidden: ValidatingAdmissionPolicy 'no-red' with binding 'no-red-everywhere' denied request: no pods of team red here`,
			"ValidatingAdmissionPolicy no-red denies the pods of Deployment web: no pods of team red here", PolicyDenied},
		"service account": {
			`pods "web-6d5f8b7c9-" is forbidden: error looking up service account shop/robot: serviceaccount "robot" not found`,
			`ServiceAccount "robot" does not exist in namespace shop, so the pods of Deployment web cannot be created`, ServiceAccountMissing},
		"namespace": {
			`pods "web-6d5f8b7c9-x2x4z" is forbidden: unable to create new content in namespace shop because it is being terminated`,
			"Namespace shop is being deleted, so the pods of Deployment web cannot be created", NamespaceTerminating},
		"unknown rejection": {
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
				t.Errorf("rejected write of the operator: known %t, code %s", known, direct.Code)
			}
		})
	}
}

package explain

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const pullErrorPrefix = `rpc error: code = NotFound desc = failed to pull and unpack image "docker.io/shop/web:2": failed to resolve image: `

func imageCases() map[string]podCase {
	const path = "status.containerStatuses[0].state.waiting"
	cause := func(code Code, value, sentence, fix string, evidenceLines ...string) []Cause {
		return []Cause{{
			Code: code, Object: testPodRef("web-1"), Path: path, Value: value, Since: testNow.Add(-unreadyFor),
			Message: sentence, Fix: fix, Evidence: append([]string{"1 of 1 pods"}, evidenceLines...),
		}}
	}
	pull := func(reason, message string, changes ...podOption) []*corev1.Pod {
		return []*corev1.Pod{pod("web-1", append(changes, waiting(reason, message))...)}
	}
	secrets := func(names ...string) podOption {
		return func(p *corev1.Pod) {
			for _, name := range names {
				p.Spec.ImagePullSecrets = append(p.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
			}
		}
	}
	const (
		absent     = `Image "shop/web:2" does not exist in its registry (container app of Pod web-1)`
		push       = "Correct spec.image of the application, or push the image."
		backOff    = `Back-off pulling image "shop/web:2": ErrImagePull: `
		hub        = "pull access denied, repository does not exist or may require authorization: server message: insufficient_scope: authorization failed"
		noHost     = `failed to do request: Head "https://reg.example.com:5000/v2/web/manifests/2": dial tcp: lookup reg.example.com on 10.96.0.10:53: no such host`
		checkName  = "Check the name in spec.image of the application, and "
		unpulled   = `Image "shop/web:2" cannot be pulled (container app of Pod web-1)`
		lookEvents = "Check the error of the registry in the events of the pod: kubectl describe pod -n shop web-1"
		refused    = `The registry denies access to image "shop/web:2" (container app of Pod web-1): `
		orReach    = "Correct the registry in spec.image of the application, or give the nodes network access to it."
	)
	lost := pod("web-1", waiting("ErrImagePull", "x: not found"))
	lost.Spec.Containers[0].Name = "renamed"
	const (
		foreign = `Image "docker.io/shop/web:2" does not exist in its registry (container app of Pod web-1)`
		x509    = "tls: failed to verify certificate: x509: certificate signed by unknown authority"
		limit   = "429 Too Many Requests - toomanyrequests: You have reached your pull rate limit"
		ofPod   = ` (image "shop/web:2" of container app of Pod web-1)`
		arm     = "no match for platform in manifest: not found"
	)
	return map[string]podCase{
		"image not found": {
			pods: pull("ErrImagePull", pullErrorPrefix+"docker.io/shop/web:2: not found"),
			want: cause("ImageNotFound", "shop/web:2", absent, push, pullErrorPrefix+"docker.io/shop/web:2: not found"),
		},
		"image not found, in back-off": {
			pods: pull("ImagePullBackOff", backOff+"manifest unknown"),
			want: cause("ImageNotFound", "shop/web:2", absent, push, backOff+"manifest unknown"),
		},
		"image not found after a restart": {
			pods: pull("ErrImagePull", "not found", restarted(2, termination(137, "Error", "", time.Minute))),
			want: cause("ImageNotFound", "shop/web:2", absent, push, "not found"),
		},
		"image not found for a container that is not in the spec": {
			pods: []*corev1.Pod{lost},
			want: cause("ImageNotFound", "docker.io/shop/web:2", foreign, push, "x: not found"),
		},
		"image for another platform": {
			pods: pull("ErrImagePull", arm),
			want: cause("ImageNotFound", "shop/web:2",
				`Image "shop/web:2" is not available for the platform of the node (container app of Pod web-1)`,
				"Push the image for the platform of the nodes, or correct spec.image of the application.", arm),
		},
		"image denied without a pull Secret": {
			pods: pull("ImagePullBackOff", backOff+hub),
			want: cause("ImageAuth", "shop/web:2", refused+"no image pull Secret is set",
				checkName+"set spec.imagePullSecrets if the image is private.", backOff+hub),
		},
		"image denied with a pull Secret": {
			pods: pull("ErrImagePull", hub, secrets("regcred")),
			want: cause("ImageAuth", "shop/web:2", refused+"the image pull Secret is regcred",
				checkName+"check that its image pull Secrets exist and grant access to the image.", hub),
		},
		"image denied with several pull Secrets": {
			pods: pull("ErrImagePull", hub, secrets("regcred", "mirror")),
			want: cause("ImageAuth", "shop/web:2", refused+"the image pull Secrets are regcred, mirror",
				checkName+"check that its image pull Secrets exist and grant access to the image.", hub),
		},
		"registry host does not resolve": {
			pods: pull("ErrImagePull", noHost, image("reg.example.com:5000/web:2")),
			want: cause("RegistryUnreachable", "reg.example.com:5000",
				`The node cannot reach registry reg.example.com:5000 (image "reg.example.com:5000/web:2" of container app of Pod web-1)`, orReach,
				noHost),
		},
		"kubelet reports RegistryUnavailable": {
			pods: pull("RegistryUnavailable", "try later"),
			want: cause("RegistryUnreachable", "docker.io", "The node cannot reach registry docker.io"+ofPod, orReach, "try later"),
		},
		"registry not trusted": {
			pods: pull("ErrImagePull", x509),
			want: cause("RegistryUnreachable", "docker.io", "The node does not trust the certificate of registry docker.io"+ofPod,
				"Install the CA certificate of the registry on the nodes, or correct the registry in spec.image of the application.", x509),
		},
		"registry rate limit": {
			pods: pull("ErrImagePull", limit),
			want: cause("RegistryUnreachable", "docker.io", "Registry docker.io rejects the pull: its rate limit is reached"+ofPod,
				"Wait until the rate limit resets, or set spec.imagePullSecrets of the application to an account with a higher limit.", limit),
		},
		"back-off without a cause": {
			pods: pull("ImagePullBackOff", `Back-off pulling image "shop/web:2"`),
			want: cause("ImagePull", "shop/web:2", unpulled, lookEvents, `Back-off pulling image "shop/web:2"`),
		},
		"node cannot inspect the image": {
			pods: pull("ImageInspectError", "manifest is corrupt"),
			want: cause("ImageSignature", "shop/web:2",
				`Node n1 rejects image "shop/web:2": it cannot be inspected (container app of Pod web-1)`,
				"Sign the image as the policy of the nodes requires, or push it again; for details: kubectl describe pod -n shop web-1", "manifest is corrupt"),
		},
		"pull error without a message": {
			pods: pull("ErrImagePull", ""),
			want: cause("ImagePull", "shop/web:2", unpulled, lookEvents),
		},
	}
}

func TestClassifyPullError(t *testing.T) {
	cases := map[string]struct {
		text string
		want pullError
	}{
		"empty message":                {"", pullUnknown},
		"image name only":              {`Back-off pulling image "x509"`, pullUnknown},
		"tag that looks like a status": {`failed to resolve image: docker.io/shop/web:401: not found`, pullNotFound},
		"image named like an error":    {`docker.io/unauthorized/x509:429: not found`, pullNotFound},
		"address with an error in it":  {`Head "https://r.io/v2/toomanyrequests/manifests/1": manifest unknown`, pullNotFound},
		"one-letter image name": {`failed to pull "a": unexpected status from HEAD request to https://r.io/v2/a/manifests/1: 401 Unauthorized`,
			pullDenied},
		"denied and not found":            {"pull access denied, repository does not exist: not found", pullDenied},
		"status 401 alone":                {"received unexpected HTTP status: 401", pullDenied},
		"status 403 alone":                {"unexpected status from HEAD request to https://r.io/v2/: 403 Forbidden", pullDenied},
		"status 429 alone":                {"unexpected status code 429", pullRateLimited},
		"no permission":                   {`denied: Permission "artifactregistry.downloadArtifacts" denied on resource`, pullDenied},
		"no credentials":                  {"no basic auth credentials", pullDenied},
		"repository does not exist":       {"name unknown: the repository was not created", pullNotFound},
		"network timeout":                 {"read tcp 10.0.0.1:1->10.0.0.2:443: i/o timeout", pullUnreachable},
		"connection refused":              {"dial tcp 10.0.0.2:443: connect: connection refused", pullUnreachable},
		"timeout of the token request":    {"failed to authorize: failed to fetch anonymous token: context deadline exceeded", pullUnreachable},
		"kubelet reason within a message": {`Back-off pulling image "a/b": RegistryUnavailable: ...`, pullUnreachable},
		"registry without TLS":            {"http: server gave HTTP response to HTTPS client", pullUntrusted},
		"unknown error":                   {"no space left on device", pullUnknown},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := classifyPullError(tc.text); got != tc.want {
				t.Errorf("pull error %d, want %d", got, tc.want)
			}
		})
	}
}

func TestRegistryHost(t *testing.T) {
	cases := map[string]struct{ image, want string }{
		"name alone":     {"nginx", "docker.io"},
		"name and tag":   {"nginx:1.27", "docker.io"},
		"user and name":  {"shop/web", "docker.io"},
		"host":           {"r.example.com/shop/web@sha256:00", "r.example.com"},
		"host with port": {"registry:5000/web", "registry:5000"},
		"local registry": {"localhost/web", "localhost"},
		"empty":          {"", "docker.io"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := registryHost(tc.image); got != tc.want {
				t.Errorf("registry %q, want %q", got, tc.want)
			}
		})
	}
}

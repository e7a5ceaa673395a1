package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	api "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/cli/collect"
)

func objectMeta(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }

// pods returns the pods of the application.
func (s *faultTest) pods() []corev1.Pod {
	var list corev1.PodList
	if err := s.List(s.Context(), &list, api.InNamespace(s.ns), api.MatchingLabels{"app.kubernetes.io/instance": "app"}); err != nil {
		s.Fatal(err)
	}
	return list.Items
}

// anyPod matches if any pod matches.
func anyPod(matches func(*corev1.Pod) bool) func(*faultTest) bool {
	return func(s *faultTest) bool {
		pods := s.pods()
		return slices.ContainsFunc(pods, func(p corev1.Pod) bool { return matches(&p) })
	}
}

// containerWaiting matches a container with one of the waiting reasons.
func containerWaiting(reasons ...string) func(*faultTest) bool {
	return anyPod(func(p *corev1.Pod) bool {
		return slices.ContainsFunc(slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses), func(c corev1.ContainerStatus) bool {
			return c.State.Waiting != nil && slices.Contains(reasons, c.State.Waiting.Reason)
		})
	})
}

// containerTerminated matches a terminated container.
func containerTerminated(s *faultTest) bool {
	return anyPod(func(p *corev1.Pod) bool {
		return slices.ContainsFunc(p.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
			return c.State.Terminated != nil || c.LastTerminationState.Terminated != nil
		})
	})(s)
}

// containerRunning matches a running container.
func containerRunning(s *faultTest) bool {
	return anyPod(func(p *corev1.Pod) bool {
		return slices.ContainsFunc(slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses), func(c corev1.ContainerStatus) bool { return c.State.Running != nil })
	})(s)
}

// podUnschedulable matches a pod that the scheduler could not place.
func podUnschedulable(s *faultTest) bool {
	return anyPod(func(p *corev1.Pod) bool {
		return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse
		})
	})(s)
}

// replicaFailure matches a Deployment with condition ReplicaFailure.
func replicaFailure(s *faultTest) bool {
	var d appsv1.Deployment
	return s.Get(s.Context(), api.ObjectKey{Namespace: s.ns, Name: "app"}, &d) == nil &&
		slices.ContainsFunc(d.Status.Conditions, func(c appsv1.DeploymentCondition) bool { return c.Type == appsv1.DeploymentReplicaFailure })
}

// quotaIsEnforced reports whether the quotas of the namespace have been counted, which takes seconds in a new cluster.
func (s *faultTest) quotaIsEnforced() bool {
	var list corev1.ResourceQuotaList
	if err := s.List(s.Context(), &list, api.InNamespace(s.ns)); err != nil {
		s.Fatal(err)
	}
	return len(list.Items) > 0 && !slices.ContainsFunc(list.Items, func(q corev1.ResourceQuota) bool { return len(q.Status.Used) == 0 })
}

// hasEvent matches an event.
func hasEvent(reason, text string) func(*faultTest) bool {
	return func(s *faultTest) bool {
		var list corev1.EventList
		if err := s.List(s.Context(), &list, api.InNamespace(s.ns)); err != nil {
			s.Fatal(err)
		}
		return slices.ContainsFunc(list.Items, func(e corev1.Event) bool { return e.Reason == reason && strings.Contains(e.Message, text) })
	}
}

func waitAppServiceReady(s *faultTest) {
	s.Helper()
	kubectl(s.T, "-n", s.ns, "wait", "--for=condition=Ready", "--timeout=60s", "appservice/app")
}

func waitAppStackReady(s *faultTest) {
	s.Helper()
	kubectl(s.T, "-n", s.ns, "wait", "--for=condition=Ready", "--timeout=90s", "appstack/app")
}

// registryManifest is a registry on the node: containerd uses plain HTTP for localhost. It has no images, and paths
// below private require authentication. It stays until the end of the run.
const registryManifest = `
apiVersion: v1
kind: Namespace
metadata: {name: cause-registry}
---
apiVersion: v1
kind: Pod
metadata: {name: registry, namespace: cause-registry}
spec:
  hostNetwork: true
  terminationGracePeriodSeconds: 0
  containers:
  - name: httpd
    image: busybox:1.32.1
    command: [/bin/sh, -c, "mkdir -p /tmp/www && echo '/v2/private:nobody:nothing' >/tmp/httpd.conf && exec httpd -f -p 127.0.0.1:5000 -h /tmp/www -c /tmp/httpd.conf"]
`

var startRegistry = sync.OnceValue(func() error {
	if _, err := tryKubectl(registryManifest, "apply", "-f", "-"); err != nil {
		return err
	}
	_, err := tryKubectl("", "-n", "cause-registry", "wait", "--for=condition=Ready", "--timeout=60s", "pod/registry")
	return err
})

func requireRegistry(t *testing.T) {
	t.Helper()
	if err := startRegistry(); err != nil {
		t.Fatal(err)
	}
}

// captureFixture saves the observed objects of a fault for unit tests.
func (s *faultTest) captureFixture(f fault) {
	s.Helper()
	app, err := cli.FindApplication(s.Context(), s, s.ns, []string{"app"})
	if err != nil {
		s.Fatal(err)
	}
	now := time.Now().UTC()
	l, err := collect.Application(s.Context(), s, app, false, now)
	if err != nil {
		s.Fatal(err)
	}
	var component string
	for _, c := range l.Components {
		for _, x := range c.Causes {
			if string(x.Code) == f.code && component == "" {
				component = c.Workload.Name
			}
		}
	}
	var objects []any
	for _, obj := range l.Objects {
		o := obj.(api.Object)
		if o.GetNamespace() != "" && !strings.Contains(o.GetName(), component) && o.GetObjectKind().GroupVersionKind().Kind != "Event" {
			continue
		}
		fields := o.GetManagedFields()
		o.SetManagedFields(nil)
		if f.code == "SpecNotObserved" {
			o.SetManagedFields(fields)
		}
		objects = append(objects, o)
	}
	content, err := yaml.Marshal(map[string]any{"now": now, "code": f.code, "objects": objects})
	if err != nil {
		s.Fatal(err)
	}
	name := s.Name()[strings.LastIndexByte(s.Name(), '/')+1:]
	if err := os.WriteFile(filepath.Join(*captureDir, name+".yaml"), content, 0o644); err != nil {
		s.Fatal(err)
	}
}

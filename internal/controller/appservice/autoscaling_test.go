package appservice_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
)

// replicaCounts are the observed values of spec.replicas of a Deployment.
type replicaCounts struct {
	mu       sync.Mutex
	observed []int32
}

func (c *replicaCounts) all() []int32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.observed)
}

func (w *world) watchReplicaCounts(client kubernetes.Interface) *replicaCounts {
	w.Helper()
	c := &replicaCounts{}
	events, err := client.AppsV1().Deployments(w.NS).Watch(w.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + w.name})
	w.Expect(err).NotTo(HaveOccurred())
	go func() {
		for e := range events.ResultChan() {
			d, ok := e.Object.(*appsv1.Deployment)
			if !ok {
				continue
			}
			c.mu.Lock()
			if n := *d.Spec.Replicas; len(c.observed) == 0 || c.observed[len(c.observed)-1] != n {
				c.observed = append(c.observed, n)
			}
			c.mu.Unlock()
		}
	}()
	return c
}

// TestAutoscalerOwnsReplicas changes the replicas as the HorizontalPodAutoscaler controller does, as its user and
// through the scale subresource, together with other changes. The operator must never change the replicas, not even when
// autoscaling is enabled or disabled.
func TestAutoscalerOwnsReplicas(t *testing.T) {
	w := newStory(t)
	cfg, err := w.Plane.ConfigFor("system:serviceaccount:kube-system:horizontal-pod-autoscaler")
	w.Expect(err).NotTo(HaveOccurred())
	cfg.UserAgent = "kube-controller-manager/horizontal-pod-autoscaler" // sets the field manager
	hpa, err := kubernetes.NewForConfig(cfg)
	w.Expect(err).NotTo(HaveOccurred())
	admin, err := kubernetes.NewForConfig(w.Plane.Config)
	w.Expect(err).NotTo(HaveOccurred())
	scale := func(n int32) {
		_, err := hpa.AppsV1().Deployments(w.NS).UpdateScale(w.Context(), w.name,
			&autoscalingv1.Scale{ObjectMeta: w.objectMeta(), Spec: autoscalingv1.ScaleSpec{Replicas: n}}, metav1.UpdateOptions{})
		w.Expect(err).NotTo(HaveOccurred())
		w.waitReady()
	}
	triggerReconcile := func() {
		edit(w, w.app(), func(a *appsapi.AppService) {
			a.Labels = map[string]string{"touched": fmt.Sprint(a.Generation, a.ResourceVersion)}
		})
	}
	settings := appsapi.AutoscalingSettings{MaxReplicas: 10, TargetCPUUtilization: 70}
	// deploymentWrites counts the operator's writes of the Deployment for a change of the spec.
	deploymentWrites := func(change func(*appsapi.AppServiceSpec)) int {
		calls := w.OperatorRequests(func() {
			w.editSpec(change)
			w.waitReady()
			w.WaitIdle(w.name)
		})
		return len(calls.Of("deployments.apps").Writes().Where((*audit.Event).Accepted))
	}

	seen := w.watchReplicaCounts(admin)
	w.create(`{image: "shop/web:1", replicas: 1}`)
	w.waitReady()
	w.Expect(deploymentWrites(func(s *appsapi.AppServiceSpec) { s.Replicas, s.Autoscaling = nil, &settings })).To(Equal(1), "one write releases the replicas")
	w.Expect(*find(w, &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: w.objectMeta()}).Spec.MinReplicas).To(BeEquivalentTo(1))
	scale(7)
	for range 50 {
		triggerReconcile()
	}
	w.editSpec(func(s *appsapi.AppServiceSpec) { s.Image = "shop/web:2" })
	w.waitReady()
	scale(3)
	for range 50 {
		triggerReconcile()
	}
	w.Expect(deploymentWrites(func(s *appsapi.AppServiceSpec) { s.Autoscaling = nil })).To(BeZero(), "the Deployment does not change")
	w.Eventually(func() any { return find(w, &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: w.objectMeta()}) }, "60s").Should(BeNil())
	w.editSpec(func(s *appsapi.AppServiceSpec) { s.Image = "shop/web:3" })
	w.waitReady()
	w.Expect(deploymentWrites(func(s *appsapi.AppServiceSpec) { s.Autoscaling = &settings })).To(BeZero())
	scale(4)
	w.Expect(seen.all()).To(Equal([]int32{1, 7, 3, 4}), "only the autoscaler changes the replicas")
	w.Expect(deploymentWrites(func(s *appsapi.AppServiceSpec) { s.Replicas, s.Autoscaling = new(int32(4)), nil })).To(Equal(1), "one write takes over the replicas")
	w.editSpec(func(s *appsapi.AppServiceSpec) { s.Replicas = new(int32(2)) })
	w.waitReady()
	w.Expect(seen.all()).To(Equal([]int32{1, 7, 3, 4, 2}))
	w.expectSteadyState()
}

package appstack_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/revision"
	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
	"github.com/holdfast-dev/holdfast/internal/testutil/harness"
)

const twoServicesSpec = `
components:
- {name: web, service: {image: "shop/web:1"}}
- {name: api, service: {image: "shop/api:1"}}
`

// revisions returns the revisions of the namespace by number.
func (w *world) revisions() []appsv1.ControllerRevision {
	w.Helper()
	var list appsv1.ControllerRevisionList
	w.Expect(w.List(w.Context(), &list, client.InNamespace(w.NS))).To(Succeed())
	slices.SortFunc(list.Items, func(a, b appsv1.ControllerRevision) int { return int(a.Revision - b.Revision) })
	return list.Items
}

// revisionNumbers returns the revision numbers, with an h for healthy ones.
func (w *world) revisionNumbers() []string {
	w.Helper()
	var out []string
	for _, r := range w.revisions() {
		n := strconv.FormatInt(r.Revision, 10)
		if r.Annotations["apps.holdfast.dev/revision-healthy"] == "true" {
			n += "h"
		}
		out = append(out, n)
	}
	return out
}

func (w *world) setWebTag(tag string) {
	w.Helper()
	w.editComponent("web", func(c *appsapi.Component) { c.Service.Image = "shop/web:" + tag })
}

func (w *world) waitRevisions(current, healthy string) {
	w.Helper()
	w.Eventually(func() [2]string {
		s := w.stack().Status
		return [2]string{s.CurrentRevision, s.HealthyRevision}
	}, "60s", "50ms").Should(Equal([2]string{current, healthy}))
}

func TestOneRevisionPerSpec(t *testing.T) {
	w := newStory(t)
	calls := w.OperatorRequests(func() {
		w.create(twoServicesSpec)
		w.waitReady()
		w.WaitIdle("shop")
	})
	w.Expect(writtenNames(calls, "controllerrevisions.apps")).To(HaveLen(2), "created, then marked as healthy:\n%s", calls.Count())
	w.Expect(len(calls.Reads())).To(BeZero(), "%s", calls.Count())
	w.Expect(w.revisionNumbers()).To(Equal([]string{"1h"}))
	r := w.revisions()[0]
	w.Expect(metav1.IsControlledBy(&r, w.stack())).To(BeTrue())
	w.Expect(r.Name).To(MatchRegexp("^shop-[0-9a-f]{10}$"))
	w.Expect(r.Labels).To(Equal(map[string]string{
		"app.kubernetes.io/instance": "shop", "app.kubernetes.io/part-of": "shop", "app.kubernetes.io/managed-by": "holdfast",
		"apps.holdfast.dev/owner-uid": string(w.stack().UID), "apps.holdfast.dev/owner-kind": "AppStack",
	}), "other controllers must not select it by its labels")
	w.Expect(len(r.Data.Raw)).To(BeNumerically("<", 300), "%s", r.Data.Raw)

	content, err := revision.Read(&r)
	w.Expect(err).NotTo(HaveOccurred())
	var stored appsapi.AppStackSpec
	w.Expect(json.Unmarshal(content, &stored)).To(Succeed())
	w.Expect(stored).To(Equal(appsapi.AppStackSpec{Components: w.stack().Spec.Components}))

	r.Data.Raw = []byte(`{"gzip":""}`)
	w.Expect(w.Update(w.Context(), &r)).To(MatchError(ContainSubstring("immutable")))
	w.waitRevisions("1", "1")
	w.expectSteadyState()
	w.setWebTag("2")
	w.waitReady()
	w.Expect(w.revisionNumbers()).To(Equal([]string{"1h", "2h"}))
	w.expectSteadyState()
}

func TestRollbackReusesRevision(t *testing.T) {
	w := newStory(t)
	w.create(twoServicesSpec)
	w.waitReady()
	first := w.revisions()[0]
	w.setWebTag("2")
	w.waitReady()
	calls := w.OperatorRequests(func() {
		w.setWebTag("1")
		w.waitReady()
		w.WaitIdle("shop")
	})
	w.Expect(w.revisionNumbers()).To(Equal([]string{"2h", "3h"}))
	w.Expect(w.revisions()[1].UID).To(Equal(first.UID), "the same spec has the same revision")
	w.Expect(writtenNames(calls, "controllerrevisions.apps")).To(HaveLen(1), "%s", calls.Count())
	w.waitRevisions("3", "3")
	w.expectSteadyState()
	for _, tag := range []string{"2", "1", "2", "1"} { // faster than the rollouts
		w.setWebTag(tag)
	}
	w.waitReady()
	w.Expect(w.revisions()).To(HaveLen(2))
	w.Expect(w.revisions()[1].UID).To(Equal(first.UID))
	w.waitRevisions(strconv.FormatInt(w.revisions()[1].Revision, 10), strconv.FormatInt(w.revisions()[1].Revision, 10))
	w.expectSteadyState()
}

func TestRevisionHistoryLimit(t *testing.T) {
	w := newStory(t)
	w.create("revisionHistoryLimit: 3" + twoServicesSpec)
	w.waitReady()
	for i := 2; i <= 6; i++ {
		w.editComponent("web", func(c *appsapi.Component) { c.Service.Image = fmt.Sprintf("shop/web-%d:missing", i) })
		w.waitRevisions(strconv.Itoa(i), "1")
	}
	w.Eventually(w.revisionNumbers, "60s", "50ms").Should(Equal([]string{"1h", "4", "5", "6"}), "three revisions and the healthy one")
	w.editSpec(func(s *appsapi.AppStackSpec) { s.RevisionHistoryLimit = new(int32(1)) })
	w.Eventually(w.revisionNumbers, "60s", "50ms").Should(Equal([]string{"1h", "6"}))
	w.setWebTag("2")
	w.waitReady()
	w.Eventually(w.revisionNumbers, "60s", "50ms").Should(Equal([]string{"7h"}))
	w.waitRevisions("7", "7")
	w.expectSteadyState()
}

func TestRollbackFromBrokenSpec(t *testing.T) {
	w := newStory(t)
	w.create(twoServicesSpec)
	w.waitReady()
	w.setWebTag("missing")
	w.Eventually(w.condition("Ready"), "60s", "50ms").Should(HavePrefix(`False/ComponentDegraded: Component "web": `))
	w.waitRevisions("2", "1")
	w.Expect(w.revisionNumbers()).To(Equal([]string{"1h", "2"}))
	// Revert to the healthy revision in one edit.
	healthy := w.revisions()[0]
	content, err := revision.Read(&healthy)
	w.Expect(err).NotTo(HaveOccurred())
	w.editSpec(func(s *appsapi.AppStackSpec) { w.Expect(json.Unmarshal(content, s)).To(Succeed()) })
	w.waitReady()
	w.Expect(w.revisionNumbers()).To(Equal([]string{"2", "3h"}))
	w.waitRevisions("3", "3")
	w.expectSteadyState()
}

// TestRevisionMetadataIsRepaired removes metadata of the current revision: it is restored with few requests.
func TestRevisionMetadataIsRepaired(t *testing.T) {
	w := newStory(t)
	w.create(twoServicesSpec)
	w.waitReady()
	before := w.revisions()[0]
	for _, mutate := range []func(*appsv1.ControllerRevision){
		func(r *appsv1.ControllerRevision) { delete(r.Labels, "app.kubernetes.io/managed-by") },
		func(r *appsv1.ControllerRevision) { r.Labels = nil },
		func(r *appsv1.ControllerRevision) { r.OwnerReferences = nil },
		func(r *appsv1.ControllerRevision) {
			r.OwnerReferences = nil
			delete(r.Labels, "app.kubernetes.io/managed-by")
		},
	} {
		w.WaitIdle("shop")
		calls := w.OperatorRequests(func() {
			harness.Edit(w.World, before.DeepCopy(), mutate)
			w.Eventually(func() bool {
				r := w.revisions()[0]
				return r.UID == before.UID && metav1.IsControlledBy(&r, w.stack()) &&
					fmt.Sprint(r.Labels) == fmt.Sprint(before.Labels) && r.Annotations["apps.holdfast.dev/revision-healthy"] == "true"
			}, "60s", "50ms").Should(BeTrue())
			w.WaitIdle("shop")
		})
		w.Expect(len(withoutEvents(calls))).To(BeNumerically("<=", 6), "%s", calls.Count())
		w.Expect(w.revisionNumbers()).To(Equal([]string{"1h"}))
		w.waitRevisions("1", "1")
	}
	w.expectSteadyState()
	w.setWebTag("2")
	w.waitReady()
	w.Expect(w.revisionNumbers()).To(Equal([]string{"1h", "2h"}))
	w.expectSteadyState()
}

func TestDeletedRevision(t *testing.T) {
	w := newStory(t)
	w.create(twoServicesSpec)
	w.waitReady()
	w.setWebTag("2")
	w.waitReady()
	w.WaitIdle("shop")
	for _, i := range []int{1, 0} {
		r := w.revisions()[i]
		calls := w.OperatorRequestsWithin(700*time.Millisecond, func() { w.Expect(w.Delete(w.Context(), &r)).To(Succeed()) })
		w.Expect(len(withoutEvents(calls))).To(BeNumerically("<=", 6), "%s", calls.Count())
		w.Expect(w.deployment("shop-web").Annotations["deployment.kubernetes.io/revision"]).To(Equal("2"))
	}
	w.Eventually(w.revisionNumbers, "60s", "50ms").Should(Equal([]string{"2h"}), "the current revision is recreated, deleted ones are not")
	w.waitRevisions("2", "2")
	w.expectSteadyState()
}

// TestDeletedHealthyRevision deletes the healthy revision while the current one is not healthy.
func TestDeletedHealthyRevision(t *testing.T) {
	w := newStory(t)
	w.create(twoServicesSpec)
	w.waitReady()
	w.setWebTag("missing")
	w.waitRevisions("2", "1")
	w.Eventually(w.condition("Ready"), "60s", "50ms").Should(HavePrefix("False/ComponentDegraded"))
	r := w.revisions()[0]
	w.Expect(w.Delete(w.Context(), &r)).To(Succeed())
	w.Eventually(func() string { return w.stack().Status.HealthyRevision }, "10s", "50ms").Should(BeEmpty(), "no rollback target")
	w.setWebTag("2")
	w.waitReady()
	w.waitRevisions("3", "3")
	w.expectSteadyState()
}

// TestSettingsWithoutRevision edits fields that are not part of revisions: the history limit and suspend.
func TestSettingsWithoutRevision(t *testing.T) {
	w := newStory(t)
	w.create(twoServicesSpec)
	w.waitReady()
	w.editSpec(func(s *appsapi.AppStackSpec) { s.RevisionHistoryLimit = new(int32(4)) })
	w.waitReady()
	w.editSpec(func(s *appsapi.AppStackSpec) { s.Suspend = true })
	w.Eventually(w.condition("Ready"), "60s", "50ms").Should(HavePrefix("True/Suspended"))
	w.editSpec(func(s *appsapi.AppStackSpec) { s.Suspend = false })
	w.waitReady()
	w.Expect(w.revisionNumbers()).To(Equal([]string{"1h"}))
	w.expectSteadyState()
}

// deploymentRevisions returns the rollout revision of each Deployment.
func (w *world) deploymentRevisions() map[string]string {
	w.Helper()
	var list appsv1.DeploymentList
	w.Expect(w.List(w.Context(), &list, client.InNamespace(w.NS))).To(Succeed())
	out := map[string]string{}
	for i := range list.Items {
		out[list.Items[i].Name] = list.Items[i].Annotations["deployment.kubernetes.io/revision"]
	}
	return out
}

// withoutEvents returns all requests except events, which may be sent late.
func withoutEvents(calls audit.Events) audit.Events {
	return calls.Where(func(e *audit.Event) bool { return e.ObjectRef.Resource != "events" })
}

// writtenNames returns the names of the objects that the operator wrote, once per accepted write.
func writtenNames(calls audit.Events, resource string) []string {
	var out []string
	for _, e := range calls.Of(resource).Writes().Where((*audit.Event).Accepted) {
		out = append(out, e.ObjectRef.Name)
	}
	return out
}

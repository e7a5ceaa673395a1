package appstack_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/history"
	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
	"github.com/holdfast-dev/holdfast/internal/testutil/stage"
)

// plain is a stack of two services.
const plain = `
components:
- {name: web, service: {image: "shop/web:1"}}
- {name: api, service: {image: "shop/api:1"}}
`

func init() {
	stories["history: one revision for each spec"] = oneRevisionPerSpec
	stories["history: goes back"] = goesBack
	stories["history: only so many"] = onlySoMany
	stories["history: a broken spec"] = brokenSpec
	stories["history: a revision is stripped of what makes it ours"] = strippedRevision
	stories["history: a revision is deleted"] = revisionDeleted
	stories["history: the healthy one is deleted"] = healthyDeleted
	stories["history: what is no change is none"] = noChange
}

// revisions are those of the namespace, by their number.
func (w *world) revisions() []appsv1.ControllerRevision {
	w.Helper()
	var list appsv1.ControllerRevisionList
	w.Expect(w.List(w.Context(), &list, client.InNamespace(w.NS))).To(Succeed())
	slices.SortFunc(list.Items, func(a, b appsv1.ControllerRevision) int { return int(a.Revision - b.Revision) })
	return list.Items
}

// numbers are their numbers, those that were healthy with an h.
func (w *world) numbers() []string {
	w.Helper()
	var out []string
	for _, r := range w.revisions() {
		n := strconv.FormatInt(r.Revision, 10)
		if r.Annotations["apps.holdfast.dev/healthy"] == "true" {
			n += "h"
		}
		out = append(out, n)
	}
	return out
}

// setWeb changes the image of web.
func (w *world) setWeb(tag string) {
	w.Helper()
	w.editComponent("web", func(c *appsapi.Component) { c.Service.Image = "shop/web:" + tag })
}

func (w *world) showsRevisions(current, healthy string) {
	w.Helper()
	w.Eventually(func() [2]string {
		s := w.stack().Status
		return [2]string{s.CurrentRevision, s.HealthyRevision}
	}, "60s", "50ms").Should(Equal([2]string{current, healthy}))
}

func oneRevisionPerSpec(w *world) {
	calls := w.Calls(func() {
		w.create(plain)
		w.becomesReady()
		w.FallsSilent("shop")
	})
	w.Expect(written(calls, "controllerrevisions.apps")).To(HaveLen(2), "created, and found healthy:\n%s", calls.Count())
	w.Expect(len(calls.Reads())).To(BeZero(), "%s", calls.Count())
	w.Expect(w.numbers()).To(Equal([]string{"1h"}))
	r := w.revisions()[0]
	w.Expect(metav1.IsControlledBy(&r, w.stack())).To(BeTrue())
	w.Expect(r.Name).To(MatchRegexp("^shop-[0-9a-f]{10}$"))
	w.Expect(r.Labels).To(Equal(map[string]string{
		"app.kubernetes.io/instance": "shop", "app.kubernetes.io/part-of": "shop", "app.kubernetes.io/managed-by": "holdfast",
		"apps.holdfast.dev/owner-uid": string(w.stack().UID), "apps.holdfast.dev/owner-kind": "AppStack",
	}), "a label that selects pods would make it somebody else's")
	w.Expect(len(r.Data.Raw)).To(BeNumerically("<", 300), "%s", r.Data.Raw)

	content, err := history.Read(&r)
	w.Expect(err).NotTo(HaveOccurred())
	var was appsapi.AppStackSpec
	w.Expect(json.Unmarshal(content, &was)).To(Succeed())
	w.Expect(was).To(Equal(appsapi.AppStackSpec{Components: w.stack().Spec.Components}))

	r.Data.Raw = []byte(`{"gzip":""}`)
	w.Expect(w.Update(w.Context(), &r)).To(MatchError(ContainSubstring("immutable")))
	w.showsRevisions("1", "1")
	w.settles()
	w.setWeb("2")
	w.becomesReady()
	w.Expect(w.numbers()).To(Equal([]string{"1h", "2h"}))
	w.settles()
}

func goesBack(w *world) {
	w.create(plain)
	w.becomesReady()
	first := w.revisions()[0]
	w.setWeb("2")
	w.becomesReady()
	calls := w.Calls(func() {
		w.setWeb("1")
		w.becomesReady()
		w.FallsSilent("shop")
	})
	w.Expect(w.numbers()).To(Equal([]string{"2h", "3h"}))
	w.Expect(w.revisions()[1].UID).To(Equal(first.UID), "the same spec is the same revision")
	w.Expect(written(calls, "controllerrevisions.apps")).To(HaveLen(1), "%s", calls.Count())
	w.showsRevisions("3", "3")
	w.settles()
	for _, tag := range []string{"2", "1", "2", "1"} { // faster than they become ready
		w.setWeb(tag)
	}
	w.becomesReady()
	w.Expect(w.revisions()).To(HaveLen(2))
	w.Expect(w.revisions()[1].UID).To(Equal(first.UID))
	w.showsRevisions(strconv.FormatInt(w.revisions()[1].Revision, 10), strconv.FormatInt(w.revisions()[1].Revision, 10))
	w.settles()
}

func onlySoMany(w *world) {
	w.create("revisionHistoryLimit: 3" + plain)
	w.becomesReady()
	for i := 2; i <= 6; i++ {
		w.editComponent("web", func(c *appsapi.Component) { c.Service.Image = fmt.Sprintf("shop/web-%d:missing", i) })
		w.showsRevisions(strconv.Itoa(i), "1")
	}
	w.Eventually(w.numbers, "60s", "50ms").Should(Equal([]string{"1h", "4", "5", "6"}), "three, and the healthy one")
	w.edit(func(s *appsapi.AppStackSpec) { s.RevisionHistoryLimit = new(int32(1)) })
	w.Eventually(w.numbers, "60s", "50ms").Should(Equal([]string{"1h", "6"}))
	w.setWeb("2")
	w.becomesReady()
	w.Eventually(w.numbers, "60s", "50ms").Should(Equal([]string{"7h"}))
	w.showsRevisions("7", "7")
	w.settles()
}

func brokenSpec(w *world) {
	w.create(plain)
	w.becomesReady()
	w.setWeb("missing")
	w.Eventually(w.condition("Ready"), "60s", "50ms").Should(HavePrefix(`False/ComponentDegraded: Component "web": `))
	w.showsRevisions("2", "1")
	w.Expect(w.numbers()).To(Equal([]string{"1h", "2"}))
	// Back in one edit, with what was healthy.
	healthy := w.revisions()[0]
	content, err := history.Read(&healthy)
	w.Expect(err).NotTo(HaveOccurred())
	w.edit(func(s *appsapi.AppStackSpec) { w.Expect(json.Unmarshal(content, s)).To(Succeed()) })
	w.becomesReady()
	w.Expect(w.numbers()).To(Equal([]string{"2", "3h"}))
	w.showsRevisions("3", "3")
	w.settles()
}

// strippedRevision takes something away from the current revision: it is given back, with
// few calls.
func strippedRevision(w *world) {
	w.create(plain)
	w.becomesReady()
	before := w.revisions()[0]
	for _, harm := range []func(*appsv1.ControllerRevision){
		func(r *appsv1.ControllerRevision) { delete(r.Labels, "app.kubernetes.io/managed-by") },
		func(r *appsv1.ControllerRevision) { r.Labels = nil },
		func(r *appsv1.ControllerRevision) { r.OwnerReferences = nil },
		func(r *appsv1.ControllerRevision) {
			r.OwnerReferences = nil
			delete(r.Labels, "app.kubernetes.io/managed-by")
		},
	} {
		w.FallsSilent("shop")
		calls := w.Calls(func() {
			stage.Edit(w.World, before.DeepCopy(), harm)
			w.Eventually(func() bool {
				r := w.revisions()[0]
				return r.UID == before.UID && metav1.IsControlledBy(&r, w.stack()) &&
					fmt.Sprint(r.Labels) == fmt.Sprint(before.Labels) && r.Annotations["apps.holdfast.dev/healthy"] == "true"
			}, "60s", "50ms").Should(BeTrue())
			w.FallsSilent("shop")
		})
		w.Expect(len(deeds(calls))).To(BeNumerically("<=", 6), "%s", calls.Count())
		w.Expect(w.numbers()).To(Equal([]string{"1h"}))
		w.showsRevisions("1", "1")
	}
	w.settles()
	w.setWeb("2")
	w.becomesReady()
	w.Expect(w.numbers()).To(Equal([]string{"1h", "2h"}))
	w.settles()
}

func revisionDeleted(w *world) {
	w.create(plain)
	w.becomesReady()
	w.setWeb("2")
	w.becomesReady()
	w.FallsSilent("shop")
	for _, i := range []int{1, 0} {
		r := w.revisions()[i]
		calls := w.Calls(func() {
			w.Expect(w.Delete(w.Context(), &r)).To(Succeed())
			time.Sleep(700 * time.Millisecond)
		})
		w.Expect(len(deeds(calls))).To(BeNumerically("<=", 6), "%s", calls.Count())
		w.Expect(w.deployment("shop-web").Annotations["deployment.kubernetes.io/revision"]).To(Equal("2"))
	}
	w.Eventually(w.numbers, "60s", "50ms").Should(Equal([]string{"2h"}), "what is applied is remembered; what is forgotten is forgotten")
	w.showsRevisions("2", "2")
	w.settles()
}

// healthyDeleted deletes what was healthy while the current spec is not.
func healthyDeleted(w *world) {
	w.create(plain)
	w.becomesReady()
	w.setWeb("missing")
	w.showsRevisions("2", "1")
	w.Eventually(w.condition("Ready"), "60s", "50ms").Should(HavePrefix("False/ComponentDegraded"))
	r := w.revisions()[0]
	w.Expect(w.Delete(w.Context(), &r)).To(Succeed())
	w.Eventually(func() string { return w.stack().Status.HealthyRevision }, "10s", "50ms").Should(BeEmpty(), "nobody can go back to it")
	w.setWeb("2")
	w.becomesReady()
	w.showsRevisions("3", "3")
	w.settles()
}

// noChange edits what is not remembered: how much is, and whether hands are off.
func noChange(w *world) {
	w.create(plain)
	w.becomesReady()
	w.edit(func(s *appsapi.AppStackSpec) { s.RevisionHistoryLimit = new(int32(4)) })
	w.becomesReady()
	w.edit(func(s *appsapi.AppStackSpec) { s.Suspend = true })
	w.Eventually(w.condition("Ready"), "60s", "50ms").Should(HavePrefix("True/Suspended"))
	w.edit(func(s *appsapi.AppStackSpec) { s.Suspend = false })
	w.becomesReady()
	w.Expect(w.numbers()).To(Equal([]string{"1h"}))
	w.settles()
}

// rolls are how often the pods of each Deployment were replaced.
func (w *world) rolls() map[string]string {
	w.Helper()
	var list appsv1.DeploymentList
	w.Expect(w.List(w.Context(), &list, client.InNamespace(w.NS))).To(Succeed())
	out := map[string]string{}
	for i := range list.Items {
		out[list.Items[i].Name] = list.Items[i].Annotations["deployment.kubernetes.io/revision"]
	}
	return out
}

// deeds are all calls but events: nobody waits for those, and they may come late.
func deeds(calls audit.Events) audit.Events {
	return calls.Where(func(e *audit.Event) bool { return e.ObjectRef.Resource != "events" })
}

// written are the names of objects of a resource that the operator wrote, once for each
// accepted write.
func written(calls audit.Events, resource string) []string {
	var out []string
	for _, e := range calls.Of(resource).Writes().Where((*audit.Event).Accepted) {
		out = append(out, e.ObjectRef.Name)
	}
	return out
}

package verbs_test

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestRun(t *testing.T) {
	w := newStory(t)
	w.create(`
components:
- {name: migrate, job: {image: "shop/migrate:done"}}
- {name: report, job: {image: "shop/report:done", schedule: "0 3 1 1 *"}}
- {name: web, dependsOn: [migrate], service: {image: "shop/web:1"}}
`)
	w.waitReady()
	title, generation := fmt.Sprintf("AppStack %s/shop", w.NS), w.stack().Generation
	w.Expect(w.run("run", "shop").err).To(MatchError(title + " has several jobs; select one with --component: migrate, report"))
	w.Expect(w.run("run", "shop", "--component", "web").err).To(MatchError(title + ` has no job "web"; it has migrate, report`))

	before, pods := w.jobUIDs(), w.podUIDs("web")
	w.Expect(w.mustRun("run", "shop", "--component", "migrate")).To(MatchRegexp(
		`^Job %s/shop-migrate-[0-9a-f]{10} of component "migrate" runs again. Follow it: kubectl holdfast logs shop --component migrate -f -n %[1]s\n$`, w.NS))
	w.Eventually(w.jobUIDs, "60s", "50ms").Should(And(HaveLen(len(before)), Not(Equal(before))))
	w.waitReady()
	w.Expect(w.podUIDs("web")).To(Equal(pods), "dependents keep running")

	w.Expect(w.stack().Status.Drift).To(BeEmpty(), "a requested run is no drift")

	w.mustRun("run", "shop", "--component", "report")
	w.Eventually(func() []types.UID { return w.jobsOfSchedule("shop-report") }, "60s", "50ms").Should(HaveLen(1))
	w.waitReady()
	w.Expect(w.stack().Generation).To(Equal(generation), "the spec is not changed")

	w.mustRun("suspend", "shop")
	w.Eventually(w.readyCondition, "60s", "50ms").Should(HavePrefix("True/Suspended"))
	w.Expect(w.run("run", "shop", "--component", "migrate").err).To(MatchError(ContainSubstring("is suspended; resume it first: kubectl holdfast resume shop -n " + w.NS)))
}

// jobsOfSchedule returns the UIDs of the Jobs of a CronJob.
func (w *world) jobsOfSchedule(name string) []types.UID {
	w.Helper()
	var list batchv1.JobList
	w.Expect(w.List(w.Context(), &list, client.InNamespace(w.NS))).To(Succeed())
	var out []types.UID
	for i := range list.Items {
		if owners := list.Items[i].OwnerReferences; len(owners) == 1 && owners[0].Kind == "CronJob" && owners[0].Name == name {
			out = append(out, list.Items[i].UID)
		}
	}
	return out
}

package appstack_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/harness"
	"github.com/holdfast-dev/holdfast/internal/testutil/watcher"
)

var (
	jobResource        = schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}
	deploymentResource = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	serviceResource    = schema.GroupVersionResource{Version: "v1", Resource: "services"}
)

// jobSpec is a stack with a job that api depends on.
const jobSpec = `
components:
- {name: api, dependsOn: [migrate], service: {image: "shop/api:1"}}
- {name: migrate, job: {image: "shop/migrate:%s", backoffLimit: 0}}
- {name: lone, service: {image: "shop/lone:1"}}
`

// startWatcher records every state of these resources from now on.
func (w *world) startWatcher(resources ...schema.GroupVersionResource) *watcher.Watcher {
	w.Helper()
	observer, err := watcher.Start(w.Context(), w.Plane.Config, resources...)
	w.Expect(err).NotTo(HaveOccurred())
	w.Cleanup(observer.Stop)
	return observer
}

// jobUIDs returns the UIDs of the Jobs of a component, in order.
func (w *world) jobUIDs(component string) []types.UID {
	var out []types.UID
	for _, j := range w.jobs(component) {
		out = append(out, j.UID)
	}
	slices.Sort(out)
	return out
}

func (w *world) setJobImage(image string) {
	w.Helper()
	w.editComponent("migrate", func(c *appsapi.Component) { c.Job.Image = image })
}

// currentJobName returns the name of the Job of the current spec.
func (w *world) currentJobName() string {
	w.Helper()
	for _, c := range w.stack().Status.Components {
		if c.Name == "migrate" {
			return c.ResourceName
		}
	}
	return ""
}

func isJobComplete(j *batchv1.Job) bool {
	return slices.ContainsFunc(j.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Type == batchv1.JobComplete && c.Status == corev1.ConditionTrue
	})
}

func TestJobRunsBeforeDependents(t *testing.T) {
	w := newStory(t)
	observer := w.startWatcher(jobResource, deploymentResource)
	w.create(fmt.Sprintf(jobSpec, "busy"))
	w.Eventually(w.condition("Ready"), "60s", "20ms").Should(MatchRegexp(
		`^False/WaitingForDependency: Component "api" waits for "migrate": Job ` + w.NS + `/shop-migrate-[0-9a-f]{10} has been running since [-0-9]{10}T[0-9:]{8}Z$`))
	w.Expect(w.deployment("shop-api")).To(BeNil())
	w.waitReady()
	job := w.jobs("migrate")[0]
	w.Expect(isJobComplete(&job)).To(BeTrue())
	state := observer.State()
	done := state.History(jobResource, w.NS+"/"+job.Name)
	created := state.History(deploymentResource, w.NS+"/shop-api")
	w.Expect(done).NotTo(BeEmpty())
	w.Expect(created).NotTo(BeEmpty())
	w.Expect(parseVersion(w, created[0].ResourceVersion)).To(BeNumerically(">=", parseVersion(w, job.ResourceVersion)), "api is created after its job completed")
	w.Expect(job.Labels).To(HaveKeyWithValue("app.kubernetes.io/component", "migrate"))
	w.expectSteadyState()
}

func parseVersion(w *world, version string) int64 {
	w.Helper()
	n, err := strconv.ParseInt(version, 10, 64)
	w.Expect(err).NotTo(HaveOccurred())
	return n
}

func TestFailedJobBlocksDependents(t *testing.T) {
	w := newStory(t)
	w.create(fmt.Sprintf(jobSpec, "fail"))
	w.Eventually(w.condition("Stalled"), "60s", "20ms").Should(HavePrefix("True/ComponentDegraded: "))
	failed := w.jobs("migrate")[0].Name
	w.Expect(w.condition("Ready")()).To(Equal(fmt.Sprintf(
		`False/ComponentDegraded: Component "migrate": Job %s/%s failed: its container exited with code 3; "api" waits for it`, w.NS, failed)))
	w.Expect(w.condition("Reconciling")()).To(Equal("none"))
	w.Expect(w.condition("Applied")()).To(HavePrefix("True/"))
	w.Expect(w.deployment("shop-api")).To(BeNil())
	w.Eventually(w.healthyComponents, "60s", "50ms").Should(Equal([]string{"lone"}))
	w.WaitIdle("shop")
	calls := w.OperatorRequestsWithin(time.Second)
	w.Expect(len(withoutEvents(calls))).To(BeZero(), "%s", calls.Count())

	w.setJobImage("shop/migrate:done")
	w.waitReady()
	w.Expect(w.condition("Stalled")()).To(Equal("none"))
	w.Expect(w.currentJobName()).NotTo(Equal(failed))
	w.Expect(w.deployment("shop-api")).NotTo(BeNil())
	w.expectSteadyState()

	// The failed Job stays failed; deleting it runs it again.
	w.setJobImage("shop/migrate:fail")
	w.Eventually(w.condition("Ready"), "60s", "50ms").Should(HavePrefix(fmt.Sprintf(`False/ComponentDegraded: Component "migrate": Job %s/%s failed`, w.NS, failed)))
	w.Expect(w.jobs("migrate")).To(HaveLen(2))
	w.Expect(w.deployment("shop-api").Status.AvailableReplicas).To(BeEquivalentTo(1), "running pods are kept")
	w.setJobImage("shop/migrate:done")
	w.waitReady()
	w.expectSteadyState()
}

// TestJobRunsOncePerSpec changes everything except the job, and switches between two job specs.
func TestJobRunsOncePerSpec(t *testing.T) {
	w := newStory(t)
	w.create(fmt.Sprintf(jobSpec, "done"))
	w.waitReady()
	first := w.jobUIDs("migrate")
	w.editComponent("lone", func(c *appsapi.Component) { c.Service.Image = "shop/lone:2" })
	w.editComponent("api", func(c *appsapi.Component) { c.Service.Image, c.DependsOn = "shop/api:2", []string{"lone", "migrate"} })
	w.editComponent("migrate", func(c *appsapi.Component) { c.DependsOn = []string{"lone"} })
	w.waitReady()
	w.Expect(w.jobUIDs("migrate")).To(Equal(first), "the job does not run for other changes")

	w.setJobImage("shop/migrate:2")
	w.waitReady()
	both := w.jobUIDs("migrate")
	w.Expect(both).To(HaveLen(2))
	calls := w.OperatorRequests(func() {
		w.setJobImage("shop/migrate:done")
		w.waitReady()
		w.WaitIdle("shop")
	})
	w.Expect(w.jobUIDs("migrate")).To(Equal(both), "the job does not run again with this spec")
	w.Expect(writtenNames(calls, "jobs.batch")).To(BeEmpty(), "%s", calls.Count())

	all := w.stack().Spec.Components
	w.editSpec(func(s *appsapi.AppStackSpec) {
		s.Components = append(s.Components[:1], s.Components[2])
		s.Components[0].DependsOn = nil
	})
	w.waitReady()
	w.Expect(w.jobUIDs("migrate")).To(Equal(both), "Jobs are kept as long as their revisions")
	w.editSpec(func(s *appsapi.AppStackSpec) { s.Components = all })
	w.waitReady()
	w.Expect(w.jobUIDs("migrate")).To(Equal(both))
	w.expectSteadyState()
}

func TestDeletedJobRunsAgain(t *testing.T) {
	w := newStory(t)
	w.create(fmt.Sprintf(jobSpec, "done"))
	w.waitReady()
	first := w.jobs("migrate")[0]
	w.setJobImage("shop/migrate:2")
	w.waitReady()
	w.WaitIdle("shop")
	calls := w.OperatorRequestsWithin(time.Second, func() {
		w.Expect(w.Delete(w.Context(), &first, client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
	})
	w.Expect(len(withoutEvents(calls))).To(BeZero(), "a deleted Job of another revision is not recreated:\n%s", calls.Count())

	second := w.jobs("migrate")[0]
	calls = w.OperatorRequests(func() {
		w.Expect(w.Delete(w.Context(), &second, client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
		w.Eventually(func() bool {
			jobs := w.jobs("migrate")
			return len(jobs) == 1 && jobs[0].Name == second.Name && jobs[0].UID != second.UID && isJobComplete(&jobs[0])
		}, "60s", "20ms").Should(BeTrue())
		w.waitReady()
		w.WaitIdle("shop")
	})
	w.Expect(writtenNames(calls, "jobs.batch")).To(Equal([]string{second.Name}), "%s", calls.Count())
	w.Expect(writtenNames(calls, "deployments.apps")).To(BeEmpty(), "%s", calls.Count())
	w.expectSteadyState()
}

func TestJobsOfPrunedRevisionsAreDeleted(t *testing.T) {
	w := newStory(t)
	w.create("revisionHistoryLimit: 2" + fmt.Sprintf(jobSpec, "done"))
	w.waitReady()
	names := []string{w.currentJobName()}
	for i := 2; i <= 4; i++ {
		w.setJobImage(fmt.Sprintf("shop/migrate:%d", i))
		w.waitReady()
		names = append(names, w.currentJobName())
	}
	jobNames := func() []string {
		var out []string
		for _, j := range w.jobs("migrate") {
			out = append(out, j.Name)
		}
		return out
	}
	w.Eventually(jobNames, "60s", "50ms").Should(ConsistOf(names[2:]))
	w.Eventually(func() []string { return w.Events("AppStack", "shop") }, "60s", "50ms").Should(ContainElement("ComponentPruned"))
	w.expectSteadyState()
	w.Expect(jobNames()).To(ConsistOf(names[2:]))
}

func TestScheduledJob(t *testing.T) {
	w := newStory(t)
	w.create(`
components:
- {name: api, dependsOn: [migrate], service: {image: "shop/api:1"}}
- {name: migrate, job: {image: "shop/migrate:done", schedule: "0 3 * * *"}}
`)
	w.waitReady()
	cron := func() *batchv1.CronJob {
		return harness.Find(w.World, &batchv1.CronJob{ObjectMeta: w.objectMeta("shop-migrate")})
	}
	w.Expect(cron().Spec.Schedule).To(Equal("0 3 * * *"))
	w.Expect(w.jobs("migrate")).To(BeEmpty())
	w.Expect(w.deployment("shop-api")).NotTo(BeNil())
	w.expectSteadyState()

	uid := cron().UID
	w.editComponent("migrate", func(c *appsapi.Component) { c.Job.Schedule, c.Job.Image = "0 4 * * *", "shop/migrate:2" })
	w.waitReady()
	w.Expect(cron().UID).To(Equal(uid))
	w.Expect(cron().Spec.Schedule).To(Equal("0 4 * * *"))
	w.Expect(cron().Spec.JobTemplate.Spec.Template.Spec.Containers[0].Image).To(Equal("shop/migrate:2"))

	w.editComponent("migrate", func(c *appsapi.Component) { c.Job.Schedule = "" })
	w.Eventually(func() bool { return cron() == nil }, "60s", "50ms").Should(BeTrue())
	w.waitReady()
	w.Expect(w.jobs("migrate")).To(HaveLen(1))
	w.Expect(w.Events("AppStack", "shop")).To(ContainElement("ComponentPruned"))
	w.expectSteadyState()

	w.editComponent("migrate", func(c *appsapi.Component) { c.Job.Schedule = "@daily" })
	w.Eventually(func() bool { return cron() != nil }, "60s", "50ms").Should(BeTrue())
	w.waitReady()
	w.Expect(w.jobs("migrate")).To(HaveLen(1), "the completed Job is kept")
	w.expectSteadyState()
}

// TestRunningJobIsSuperseded changes a job whose pod is running and terminates slowly: two runs must not overlap.
func TestRunningJobIsSuperseded(t *testing.T) {
	w := newStory(t)
	observer := w.startWatcher(jobResource)
	w.create(fmt.Sprintf(jobSpec, "runs"))
	w.Eventually(func() bool {
		jobs := w.jobs("migrate")
		return len(jobs) == 1 && jobs[0].Status.Ready != nil && *jobs[0].Status.Ready == 1
	}, "60s", "20ms").Should(BeTrue())
	old := w.jobs("migrate")[0]
	pod := w.podOf(&old)
	w.addFinalizer(pod)

	w.setJobImage("shop/migrate:done")
	w.Eventually(w.condition("Ready"), "60s", "20ms").Should(Equal(fmt.Sprintf(
		`False/WaitingForDependency: Component "api" waits for "migrate": its previous run (Job %s) has not finished`, old.Name)))
	// Its pod is terminating, but not deleted.
	w.Consistently(func() []batchv1.Job { return w.jobs("migrate") }, "1500ms", "100ms").Should(HaveLen(1), "the second run starts after the first has ended")
	w.removeFinalizer(pod)
	w.waitReady()

	state := observer.State()
	gone := state.History(jobResource, w.NS+"/"+old.Name)
	created := state.History(jobResource, w.NS+"/"+w.currentJobName())
	w.Expect(gone[len(gone)-1].Type).To(Equal(watch.Deleted))
	w.Expect(parseVersion(w, created[0].ResourceVersion)).To(BeNumerically(">", parseVersion(w, gone[len(gone)-1].ResourceVersion)))
	w.expectSteadyState()
}

// podOf returns the only pod of a Job.
func (w *world) podOf(job *batchv1.Job) *corev1.Pod {
	w.Helper()
	var list corev1.PodList
	w.Expect(w.List(w.Context(), &list, client.InNamespace(w.NS), client.MatchingLabels{"batch.kubernetes.io/controller-uid": string(job.UID)})).To(Succeed())
	w.Expect(list.Items).To(HaveLen(1))
	return &list.Items[0]
}

const foreignFinalizer = "example.com/held"

// addFinalizer blocks the deletion of an object.
func (w *world) addFinalizer(obj client.Object) {
	w.Helper()
	harness.Edit(w.World, obj, func(o client.Object) { o.SetFinalizers(append(o.GetFinalizers(), foreignFinalizer)) })
}

func (w *world) removeFinalizer(obj client.Object) {
	w.Helper()
	harness.Edit(w.World, obj, func(o client.Object) {
		o.SetFinalizers(slices.DeleteFunc(o.GetFinalizers(), func(f string) bool { return f == foreignFinalizer }))
	})
}

// TestPendingJobIsSuperseded corrects a job whose image does not exist: its grace period does not apply.
func TestPendingJobIsSuperseded(t *testing.T) {
	w := newStory(t)
	observer := w.startWatcher(jobResource)
	w.create(fmt.Sprintf(jobSpec, "missing"))
	w.Eventually(w.condition("Ready"), "60s", "20ms").Should(HavePrefix(`False/ComponentDegraded: Component "migrate": `))
	old := w.jobs("migrate")[0]
	edited := time.Now()
	w.setJobImage("shop/migrate:done")
	w.waitReady()
	w.Expect(w.jobUIDs("migrate")).To(HaveLen(1))
	w.Expect(w.jobUIDs("migrate")).NotTo(ContainElement(old.UID))
	deletedAt := lastEvent(w, observer.History(jobResource, w.NS+"/"+old.Name)).ObservedAt
	createdAt := observer.History(jobResource, w.NS+"/"+w.currentJobName())[0].ObservedAt
	w.Logf("deleted after %s, replaced after %s", deletedAt.Sub(edited), createdAt.Sub(edited))
	w.Expect(deletedAt.Sub(edited)).To(BeNumerically("<", 25*time.Second))
	w.Expect(createdAt.Sub(deletedAt)).To(BeNumerically("<", 5*time.Second))
	w.expectSteadyState()
}

// TestJobMetadataIsRepaired removes ownership metadata of a completed Job: it is restored, and the job does not run
// again.
func TestJobMetadataIsRepaired(t *testing.T) {
	w := newStory(t)
	app := w.create(fmt.Sprintf(jobSpec, "done"))
	w.waitReady()
	job := w.jobs("migrate")[0]
	removeOwner := func(j *batchv1.Job) { j.OwnerReferences = nil }
	removeManagedBy := func(j *batchv1.Job) { delete(j.Labels, "app.kubernetes.io/managed-by") }
	for _, mutate := range []func(*batchv1.Job){removeOwner, removeManagedBy, func(j *batchv1.Job) { removeOwner(j); removeManagedBy(j) }} {
		w.WaitIdle("shop")
		calls := w.OperatorRequests(func() {
			harness.Edit(w.World, job.DeepCopy(), mutate)
			w.Eventually(func() map[string]string {
				now := harness.Find(w.World, &batchv1.Job{ObjectMeta: w.objectMeta(job.Name)})
				if !metav1.IsControlledBy(now, app) {
					return nil
				}
				return now.Labels
			}, "60s", "50ms").Should(Equal(job.Labels))
			w.waitReady()
			w.WaitIdle("shop")
		})
		w.Expect(w.jobUIDs("migrate")).To(Equal([]types.UID{job.UID}))
		w.Expect(writtenNames(calls, "jobs.batch")).To(HaveLen(1), "%s", calls.Count())
		w.Expect(deletedObjects(calls)).To(BeEmpty())
	}
	w.expectSteadyState()
}

func TestInvalidScheduleIsReported(t *testing.T) {
	w := newStory(t)
	w.create(`
components:
- {name: api, dependsOn: [report], service: {image: "shop/api:1"}}
- {name: report, job: {image: "shop/report:done", schedule: "9-3 3 * * *"}}
`)
	w.Eventually(w.condition("Ready"), "60s", "20ms").Should(Equal(`False/InvalidSpec: Component "report": ` +
		`schedule "9-3 3 * * *" has "9-3" as the minute, which must be from 0 to 59; correct it, for example "0 3 * * *" for every day at 03:00`))
	w.Expect(w.condition("Stalled")()).To(HavePrefix(`True/InvalidSpec: Component "report"`))
	w.Expect(w.deployment("shop-api")).To(BeNil(), "nothing is written for an invalid spec")
	w.editComponent("report", func(c *appsapi.Component) { c.Job.Schedule = "59 3 * * *" })
	w.waitReady()
	w.expectSteadyState()
}

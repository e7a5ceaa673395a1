package verbs_test

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/appkind"
	"github.com/holdfast-dev/holdfast/internal/testutil/harness"
)

const threeComponents = `
components:
- {name: migrate, job: {image: "shop/migrate:done"}}
- {name: db, stateful: {image: "shop/db:1", storage: [{name: data, mountPath: /data, size: 1Gi}]}}
- {name: web, service: {image: "shop/web:1", update: {maxSurge: 2}}}
`

func (w *world) readyCondition() string { return w.Condition(w.stackKey(), "Ready") }

func TestSuspend(t *testing.T) {
	w := newStory(t)
	w.create(threeComponents)
	w.waitReady()
	title := fmt.Sprintf("AppStack %s/shop", w.NS)
	resume := "kubectl holdfast resume shop -n " + w.NS
	const effect = "it keeps running unchanged; drift is not corrected and updates are not applied. To resume: "
	w.Expect(w.mustRun("suspend", "shop")).To(Equal(title + " is suspended: " + effect + resume + "\n"))
	w.Eventually(w.readyCondition, "60s", "50ms").Should(HavePrefix("True/Suspended"))
	generation := w.stack().Generation
	w.Expect(w.mustRun("suspend", "shop")).To(Equal(title + " is already suspended: " + effect + resume + "\n"))
	w.Expect(w.stack().Generation).To(Equal(generation))

	component := fmt.Sprintf("Component %q of %s", "web", title)
	w.Expect(w.mustRun("suspend", "shop", "--component", "web")).To(Equal(component + " is suspended: " + effect + resume + " --component web\n"))
	w.Expect(w.mustRun("resume", "shop")).To(Equal(title + " is no longer suspended: drift is corrected and pending changes are applied now, except for components that are suspended individually: web. To resume: " + resume + " --component web\n"))
	w.Eventually(w.readyCondition, "60s", "50ms").Should(Equal("True/Reconciled: Everything runs as declared; suspended: 1 of 3 components"))
	w.mustRun("suspend", "shop")
	w.Expect(w.mustRun("resume", "shop", "--component", "web")).To(Equal(component + " is no longer suspended, but the application is suspended, so nothing changes. To resume: " + resume + "\n"))
	w.Expect(w.mustRun("resume", "shop")).To(Equal(title + " is no longer suspended: drift is corrected and pending changes are applied now. Follow the rollout: kubectl holdfast wait shop -n " + w.NS + "\n"))
	w.waitReady()
	w.Expect(w.mustRun("resume", "shop")).To(Equal(title + " is not suspended; nothing to do.\n"))
	a := w.run("suspend", "shop", "--component", "webb")
	w.Expect(a.err).To(MatchError(title + ` has no component "webb"; it has migrate, db, web`))
}

func TestSuspendOtherKinds(t *testing.T) {
	w := newStory(t)
	app := createSample(w, "appservice.yaml", &appsapi.AppService{})
	w.WaitReady(app)
	w.mustRun("suspend", app.Name)
	w.Eventually(func() string { return w.Condition(app, "Ready") }, "60s", "50ms").Should(HavePrefix("True/Suspended"))
	w.mustRun("resume", "appservice", app.Name)
	w.WaitReady(app)
	w.Expect(w.run("suspend", app.Name, "--component", "web").err).To(MatchError(fmt.Sprintf("AppService %s/%s has no components; omit --component", w.NS, app.Name)))
	cm := createSample(w, "cloudmanager.yaml", &appsapi.CloudManager{})
	w.WaitReady(cm)
	w.mustRun("suspend", cm.Name, "--component", "identity")
	w.Eventually(func() string { return w.Condition(cm, "Ready") }, "60s", "50ms").Should(HaveSuffix("suspended: 1 of 3 components"))
	w.mustRun("suspend", cm.Name)
	w.Eventually(func() string { return w.Condition(cm, "Ready") }, "60s", "50ms").Should(HavePrefix("True/Suspended"))
	w.mustRun("resume", cm.Name, "--component", "identity")
	w.mustRun("resume", cm.Name)
	w.WaitReady(cm)
}

// podUIDs returns the UIDs of the pods of a component.
func (w *world) podUIDs(component string) []types.UID {
	w.Helper()
	var list corev1.PodList
	w.Expect(w.List(w.Context(), &list, client.InNamespace(w.NS))).To(Succeed())
	var out []types.UID
	for i := range list.Items {
		if p := &list.Items[i]; p.DeletionTimestamp == nil && strings.HasPrefix(p.Name, "shop-"+component+"-") {
			out = append(out, p.UID)
		}
	}
	return out
}

func TestRestart(t *testing.T) {
	w := newStory(t)
	w.create(threeComponents)
	w.waitReady()
	web, db, jobs := w.podUIDs("web"), w.podUIDs("db"), w.jobUIDs()
	w.Expect(w.mustRun("restart", "shop", "--component", "web")).To(Equal(fmt.Sprintf("AppStack %s/shop restarts: web. Follow the rollout: kubectl holdfast wait shop -n %[1]s\n", w.NS)))
	w.waitReady()
	w.Eventually(func() []types.UID { return w.podUIDs("web") }, "60s", "50ms").Should(And(HaveLen(1), Not(Equal(web))))
	w.Expect(w.podUIDs("db")).To(Equal(db))
	w.Expect(w.stack().Spec.OperationsOf("web", "").RestartRequestedAt).To(MatchRegexp(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$`))

	w.Expect(w.mustRun("restart", "shop")).To(HavePrefix(fmt.Sprintf("AppStack %s/shop restarts: db, web. Skipped: jobs are not restarted (migrate). Follow the rollout", w.NS)))
	w.waitReady()
	w.Eventually(func() []types.UID { return w.podUIDs("db") }, "60s", "50ms").Should(And(HaveLen(1), Not(Equal(db))))
	w.Expect(w.jobUIDs()).To(Equal(jobs))
	a := w.run("restart", "shop", "--component", "migrate")
	w.Expect(a.err).To(MatchError(fmt.Sprintf("AppStack %s/shop has no component to restart: jobs are not restarted (migrate); to run a job again: kubectl holdfast run shop -n %[1]s", w.NS)))

	w.mustRun("suspend", "shop", "--component", "web")
	w.Expect(w.mustRun("restart", "shop")).To(HaveSuffix(" Suspended components restart after kubectl holdfast resume: web.\n"))
}

func TestRestartOtherKinds(t *testing.T) {
	w := newStory(t)
	app := createSample(w, "appservice.yaml", &appsapi.AppService{})
	w.WaitReady(app)
	w.Expect(w.mustRun("restart", app.Name)).To(HavePrefix(fmt.Sprintf("AppService %s/%s restarts. Follow the rollout", w.NS, app.Name)))
	w.WaitReady(app)
	d := harness.Find(w.World, &appsv1.Deployment{ObjectMeta: w.meta(app.Name)})
	w.Expect(d.Spec.Template.Annotations).To(HaveKeyWithValue("apps.holdfast.dev/restarted-at", app.Spec.OperationsOf(app.Name, "").RestartRequestedAt))

	cm := createSample(w, "cloudmanager.yaml", &appsapi.CloudManager{})
	w.WaitReady(cm)
	restarted := func(workload client.Object, pods *corev1.PodTemplateSpec) func() map[string]string {
		return func() map[string]string { harness.Find(w.World, workload); return pods.Annotations }
	}
	set, front := &appsv1.StatefulSet{ObjectMeta: w.meta("cm-db")}, &appsv1.Deployment{ObjectMeta: w.meta("ake-front")}
	w.Expect(w.mustRun("restart", cm.Name, "--component", "db")).To(ContainSubstring("restarts: db."))
	w.Eventually(restarted(set, &set.Spec.Template), "60s").Should(HaveKey("apps.holdfast.dev/restarted-at"))
	w.Expect(restarted(front, &front.Spec.Template)()).NotTo(HaveKey("apps.holdfast.dev/restarted-at"))
	w.WaitReady(cm)
	// The operator does not revert this restart.
	w.Expect(w.Patch(w.Context(), front, client.RawPatch(types.StrategicMergePatchType,
		[]byte(`{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"now"}}}}}`)))).To(Succeed())
	w.WaitIdle("ake-front")
	w.Expect(harness.Find(w.World, front).Spec.Template.Annotations).To(HaveKey("kubectl.kubernetes.io/restartedAt"))
	w.Expect(front.Annotations["deployment.kubernetes.io/revision"]).To(Equal("2"))
}

// TestRotate requests a rotation and waits with the printed command.
func TestRotate(t *testing.T) {
	w := newStory(t)
	cm := createSample(w, "cloudmanager.yaml", &appsapi.CloudManager{})
	w.WaitReady(cm)
	binding := &corev1.Secret{ObjectMeta: w.meta("cm-db-binding")}
	password := func() string { return string(harness.Find(w.World, binding).Data["password"]) }
	before := password()
	w.Expect(w.mustRun("rotate", cm.Name)).To(Equal(fmt.Sprintf(
		"CloudManager %[1]s/%[2]s: password rotation requested for db. Follow the rollout: kubectl holdfast wait %[2]s -n %[1]s\n", w.NS, cm.Name)))
	w.mustRun("wait", cm.Name)
	w.Expect(password()).NotTo(Equal(before), "wait returned before the rotation")
	w.Expect(appkind.Rotating(harness.Find(w.World, cm))).To(BeNil(), "wait returned before all clients had restarted")
	w.WaitReady(cm)
	app := createSample(w, "appservice.yaml", &appsapi.AppService{})
	w.Expect(w.run("rotate", app.Name).err).To(MatchError(HaveSuffix("has no database, so there are no passwords to rotate")))
}

func TestScale(t *testing.T) {
	w := newStory(t)
	w.create(threeComponents)
	w.waitReady()
	title := fmt.Sprintf("AppStack %s/shop", w.NS)
	follow := fmt.Sprintf(" Follow the rollout: kubectl holdfast wait shop -n %s\n", w.NS)
	w.Expect(w.mustRun("scale", "shop", "--component", "web", "--replicas", "2")).To(Equal(`Component "web" of ` + title + " is scaled to 2 pods; replicas was not set before." + follow))
	w.waitReady()
	w.Eventually(func() []types.UID { return w.podUIDs("web") }, "60s", "50ms").Should(HaveLen(2))
	generation := w.stack().Generation
	w.Expect(w.mustRun("scale", "shop", "--component", "web", "--replicas", "2")).To(Equal(`Component "web" of ` + title + " already has 2 pods in its spec; nothing to do.\n"))
	w.Expect(w.stack().Generation).To(Equal(generation))
	w.Expect(w.mustRun("scale", "shop", "--component", "web", "--replicas", "0")).To(Equal(`Component "web" of ` + title + " is scaled from 2 to 0 pods." + follow))
	w.Eventually(func() []types.UID { return w.podUIDs("web") }, "60s", "50ms").Should(BeEmpty())
	w.mustRun("suspend", "shop")
	w.Expect(w.mustRun("scale", "shop", "--component", "web", "--replicas", "1")).To(HaveSuffix(" It is suspended: the change takes effect after kubectl holdfast resume.\n"))
	w.Expect(w.run("scale", "shop", "--replicas", "1").err).To(MatchError(title + " has several components; choose one with --component: db or web"))
	w.Expect(w.run("scale", "shop").err).To(MatchError(`required flag(s) "replicas" not set`))

	app := createSample(w, "appservice.yaml", &appsapi.AppService{})
	w.Expect(w.mustRun("scale", app.Name, "--replicas", "1")).To(ContainSubstring(" A manifest that sets replicas restores its own number when it is applied again; to keep this one, omit replicas there."))
	w.WaitReady(app)
	w.Expect(app.Spec.Replicas).To(HaveValue(BeEquivalentTo(1)))
	cm := createSample(w, "cloudmanager.yaml", &appsapi.CloudManager{})
	w.mustRun("scale", cm.Name, "--component", "identity", "--replicas", "2")
	w.WaitReady(cm)
	w.Expect(cm.Spec.OperationsOf("identity", "").Replicas).To(HaveValue(BeEquivalentTo(2)))
	w.Expect(w.run("scale", cm.Name, "--component", "db", "--replicas", "2").err).To(MatchError(HaveSuffix("is a single server and cannot be scaled; scale identity or front")))
}

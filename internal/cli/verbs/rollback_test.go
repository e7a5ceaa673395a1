package verbs_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/revision"
	"github.com/holdfast-dev/holdfast/internal/testutil/harness"
)

// tenSpecs returns ten successive specs of a stack.
func tenSpecs() []string {
	const (
		api   = "- {name: api, dependsOn: [db], bindings: [{component: db}], service: {image: \"shop/api:1\", ports: [{port: 80}]}}\n"
		cache = "- {name: cache, stateful: {image: \"shop/kv:1\", storage: [{name: data, mountPath: /data, size: 1Gi}], credentials: [{key: pw, env: PW}]}}\n"
		job   = "- {name: migrate, dependsOn: [db], job: {image: \"shop/migrate:done\"}}\n"
	)
	db := func(tag, size string) string {
		return fmt.Sprintf("- {name: db, stateful: {image: \"shop/db:%s\", ports: [{port: 3306}], storage: [{name: data, mountPath: /data, size: %s}], credentials: [{key: password, env: PASSWORD}]}}\n", tag, size)
	}
	web := func(fields string) string { return "- {name: web, service: {" + fields + "}}\n" }
	const env, files = `env: [{name: MODE, value: prod}]`, `config: {files: [{path: /etc/app.yaml, content: "a: 1"}]}`
	all := []string{
		db("1", "1Gi") + web(`image: "shop/web:1", replicas: 1`),
		db("1", "1Gi") + web(`image: "shop/web:2", replicas: 1`),
		db("1", "1Gi") + web(`image: "shop/web:2", replicas: 1, `+env),
		db("1", "1Gi") + api + web(`image: "shop/web:2", replicas: 1, `+env),
		db("1", "2Gi") + api + web(`image: "shop/web:2", replicas: 1, `+env),
		db("1", "2Gi") + api + web(`image: "shop/web:2", replicas: 3, `+env),
		db("1", "2Gi") + api + web(`image: "shop/web:2", replicas: 3, `+files+", "+env),
		db("1", "2Gi") + cache + web(`image: "shop/web:2", replicas: 3, `+files+", "+env),
		db("2", "2Gi") + cache + job + web(`image: "shop/web:2", replicas: 3, `+files+", "+env),
		db("2", "2Gi") + job + web(`image: "shop/web:3", replicas: 2, ports: [{port: 80}], `+strings.Replace(files, "a: 1", "a: 2", 1)),
	}
	for i := range all {
		all[i] = "revisionHistoryLimit: 100\ncomponents:\n" + all[i]
	}
	return all
}

// TestRollbackToEveryRevision applies ten specs to a stack and then rolls back to each of them, each time
// from another one.
func TestRollbackToEveryRevision(t *testing.T) {
	w := newStory(t)
	var live []map[string]string // the children of each revision
	var names []string
	for i, spec := range tenSpecs() {
		if i == 0 {
			w.create(spec)
		} else {
			w.apply(spec)
		}
		w.waitReady()
		w.waitPruned(spec)
		w.WaitIdle("shop") // removed components are deleted last
		live = append(live, w.childSpecs())
		names = append(names, w.currentRevision().Name)
	}
	jobs := w.jobUIDs()
	w.Expect(jobs).To(HaveLen(1))
	for _, i := range []int{0, 9, 1, 8, 2, 7, 3, 6, 4, 5} {
		before, number := w.dataVersions(), w.revisionNumber(names[i])
		out := w.mustRun("rollback", "shop", "--to-revision", strconv.FormatInt(number, 10), "--yes")
		w.Expect(out).To(ContainSubstring(fmt.Sprintf("AppStack %s/shop was rolled back to revision %d.", w.NS, number)))
		w.waitReady()
		w.waitPruned(tenSpecs()[i])
		w.Eventually(func() string { return cmp.Diff(live[i], w.childSpecs()) }, "60s", "50ms").
			Should(BeEmpty(), "revision %d of ten; output:\n%s", i+1, out)
		w.Expect(w.dataVersions()).To(Equal(before), "revision %d of ten; output:\n%s", i+1, out)
		size := w.stack().Spec.Components[0].Stateful.Storage[0].Size
		w.Expect(size.String()).To(Equal("2Gi"), "volumes do not shrink")
		w.Expect(w.jobUIDs()).To(Equal(jobs), "a completed job does not run again")
	}
	table := w.mustRun("history", "shop")
	w.Expect(table).To(ContainSubstring("web: image shop/web:1 -> shop/web:2"))
	w.Expect(table).To(MatchRegexp(`(?m)^\d+ +\S+ ago +yes +yes `), "the current revision")
}

// childSpecs returns the specs of the children except for data, without fields that a rollback keeps or
// that Kubernetes adds.
func (w *world) childSpecs() map[string]string {
	w.Helper()
	out := map[string]string{}
	add := func(obj client.Object, spec any) {
		content, err := json.Marshal(spec)
		w.Expect(err).NotTo(HaveOccurred())
		out[fmt.Sprintf("%T %s", obj, obj.GetName())] = string(content)
	}
	var deployments appsv1.DeploymentList
	var sets appsv1.StatefulSetList
	var services corev1.ServiceList
	var budgets policyv1.PodDisruptionBudgetList
	var files corev1.ConfigMapList
	for _, list := range []client.ObjectList{&deployments, &sets, &services, &budgets, &files} {
		w.Expect(w.List(w.Context(), list, client.InNamespace(w.NS), client.MatchingLabels{"app.kubernetes.io/instance": "shop"})).To(Succeed())
	}
	for i := range deployments.Items {
		add(&deployments.Items[i], deployments.Items[i].Spec)
	}
	for i := range sets.Items {
		sets.Items[i].Spec.VolumeClaimTemplates = nil
		add(&sets.Items[i], sets.Items[i].Spec)
	}
	for i := range services.Items {
		services.Items[i].Spec.ClusterIP, services.Items[i].Spec.ClusterIPs = "", nil
		add(&services.Items[i], services.Items[i].Spec)
	}
	for i := range budgets.Items {
		add(&budgets.Items[i], budgets.Items[i].Spec)
	}
	for i := range files.Items {
		add(&files.Items[i], files.Items[i].Data)
	}
	return out
}

// waitPruned waits until the workloads match a spec: condition Ready waits neither for the deletion of
// others nor for a StatefulSet that is recreated because a volume grows.
func (w *world) waitPruned(spec string) {
	w.Helper()
	w.Eventually(func() (wrong []string) {
		children := w.childSpecs()
		for _, c := range []string{"db", "api", "cache", "web"} {
			wanted := strings.Contains(spec, "name: "+c+",")
			if _, ok := children["*v1.Deployment shop-"+c]; ok != (wanted && (c == "api" || c == "web")) {
				wrong = append(wrong, "Deployment shop-"+c)
			}
			if _, ok := children["*v1.StatefulSet shop-"+c]; ok != (wanted && (c == "db" || c == "cache")) {
				wrong = append(wrong, "StatefulSet shop-"+c)
			}
		}
		return wrong
	}, "60s", "50ms").Should(BeEmpty())
	w.waitReady()
}

// dataVersions returns the versions of claims and Secrets, to detect writes. The cache is excluded: its
// labels change with the component.
func (w *world) dataVersions() map[string]string {
	w.Helper()
	out := map[string]string{}
	for _, obj := range w.dataObjects() {
		version := string(obj.GetUID())
		if obj.GetLabels()["app.kubernetes.io/component"] != "cache" {
			version += " " + obj.GetResourceVersion()
		}
		out[fmt.Sprintf("%T %s", obj, obj.GetName())] = version
	}
	return out
}

// jobUIDs returns the Jobs of the namespace.
func (w *world) jobUIDs() []string {
	w.Helper()
	var list batchv1.JobList
	w.Expect(w.List(w.Context(), &list, client.InNamespace(w.NS))).To(Succeed())
	var out []string
	for i := range list.Items {
		out = append(out, string(list.Items[i].UID))
	}
	return out
}

// revisionItem is a revision in the JSON output of the plugin.
type revisionItem struct {
	Revision         int64
	Name             string
	Healthy, Current bool
}

func (w *world) history(app string) []revisionItem {
	w.Helper()
	var list struct{ Items []revisionItem }
	w.Expect(json.Unmarshal([]byte(w.mustRun("history", app, "-o", "json")), &list)).To(Succeed())
	return list.Items
}

func (w *world) currentRevision() revisionItem {
	w.Helper()
	all := w.history("shop")
	i := slices.IndexFunc(all, func(r revisionItem) bool { return r.Current })
	w.Expect(i).To(BeNumerically(">=", 0), "%v", all)
	return all[i]
}

func (w *world) revisionNumber(name string) int64 {
	w.Helper()
	for _, r := range w.history("shop") {
		if r.Name == name {
			return r.Revision
		}
	}
	w.Fatalf("revision %s not found", name)
	return 0
}

func TestRollbackCloudManager(t *testing.T) {
	w := newStory(t)
	const password = "password-of-a-trial"
	cm := &appsapi.CloudManager{ObjectMeta: w.meta("trial")}
	cm.Annotations = map[string]string{appsapi.DefaultKeys.Trial: "true"}
	w.Expect(yaml.UnmarshalStrict([]byte(`
front: {deployment: {image: "nginx:1.20", name: ake-front, ports: [{port: 80}]}}
identity: {deployment: {image: "busybox:1.32.1", name: cm-identity}}
db: {rootPass: `+password+`, statefulSet: {image: "mariadb:10.3.35", name: cm-db, storage: {class: local-path, size: 20Gi}}}
`), &cm.Spec)).To(Succeed())
	w.Expect(w.Create(w.Context(), cm)).To(Succeed())
	w.WaitReady(cm)
	w.WaitIdle(cm.Name)
	harness.Edit(w.World, cm, func(cm *appsapi.CloudManager) {
		cm.Spec.Front.Deployment.Image = "nginx:1.21"
		cm.Spec.Identity.Deployment.Env = []corev1.EnvVar{{Name: "MODE", Value: "new"}}
		cm.Spec.DB.StatefulSet.Image = "mariadb:10.6"
		cm.Spec.DB.StatefulSet.Storage.Size = resource.MustParse("21Gi")
		cm.Spec.DeletionPolicy = appsapi.DeletionDelete
	})
	w.WaitReady(cm)
	w.WaitIdle(cm.Name)
	before := w.dataVersions()
	out := w.mustRun("rollback", cm.Name, "--yes")
	w.Expect(out).To(And(
		ContainSubstring("front      image nginx:1.21 -> nginx:1.20\n"), ContainSubstring("identity   env[MODE] removed, was new\n"),
		ContainSubstring("  db: image mariadb:10.6 (mariadb:10.3.35 in revision 1)\n"), ContainSubstring("  db: storage.size 21Gi (20Gi in revision 1)\n")))
	w.WaitReady(cm)
	w.Expect(cm.Spec.Front.Deployment.Image).To(Equal("nginx:1.20"))
	w.Expect(cm.Spec.Identity.Deployment.Env).To(BeEmpty())
	w.Expect(cm.Spec.DB.StatefulSet.Image).To(Equal("mariadb:10.6"), "a database server must not be older than its files")
	w.Expect(cm.Spec.DB.StatefulSet.Storage.Size.String()).To(Equal("21Gi"))
	w.Expect(cm.Spec.DB.RootPass).To(Equal(password))
	w.Expect(cm.Spec.DeletionPolicy).To(Equal(appsapi.DeletionDelete))
	w.Expect(w.dataVersions()).To(Equal(before))
	var list appsv1.ControllerRevisionList
	w.Expect(w.List(w.Context(), &list, client.InNamespace(w.NS), client.MatchingLabels{"apps.holdfast.dev/owner-uid": string(cm.UID)})).To(Succeed())
	w.Expect(list.Items).To(HaveLen(3))
	for i := range list.Items {
		content, err := revision.Read(&list.Items[i])
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(string(content)).NotTo(Or(ContainSubstring("rootPass\""), ContainSubstring(password)))
	}
	w.Expect(out + w.mustRun("history", cm.Name, "-o", "json") + w.mustRun("history", cm.Name, "--revision", "1")).NotTo(ContainSubstring(password))
}

const oneDB = "components:\n- {name: %s, stateful: {image: \"shop/db:%s\", storage: [{name: data, mountPath: /data, size: %s}]}}\n"

// TestRollbackRejectedStorage rolls back to a smaller volume, which is not supported.
func TestRollbackRejectedStorage(t *testing.T) {
	w := newStory(t)
	w.create(fmt.Sprintf(oneDB, "db", "1", "2Gi"))
	w.waitReady()
	w.apply(fmt.Sprintf(oneDB, "db", "2", "1Gi"))
	w.Eventually(func() string { return w.Condition(w.stackKey(), "Ready") }, "60s", "50ms").Should(HavePrefix("False/StorageChangeRejected"))
	before := w.dataVersions()
	w.Expect(w.mustRun("rollback", "shop", "--yes")).To(ContainSubstring("storage[data].size 1Gi -> 2Gi"))
	w.waitReady()
	w.Expect(w.dataVersions()).To(Equal(before))
	w.Expect(w.stack().Status.CurrentRevision).To(Equal("3"))
}

// TestRollbackRenamedComponent rolls back the rename of a component with data.
func TestRollbackRenamedComponent(t *testing.T) {
	w := newStory(t)
	w.create(fmt.Sprintf(oneDB, "db", "1", "1Gi"))
	w.waitReady()
	w.apply(fmt.Sprintf(oneDB, "database, renamedFrom: db", "2", "2Gi"))
	w.waitReady()
	before := w.dataObjects()
	out := w.mustRun("rollback", "shop", "--yes")
	w.Expect(out).To(ContainSubstring(`"database" is renamed back to "db"`))
	w.waitReady()
	c := w.stack().Spec.Components[0]
	w.Expect([]string{c.Name, c.RenamedFrom, c.Stateful.Image, c.Stateful.Storage[0].Size.String()}).To(Equal([]string{"db", "database", "shop/db:1", "2Gi"}))
	after := w.dataObjects()
	w.Expect(after).To(HaveLen(1))
	w.Expect(after[0].GetUID()).To(Equal(before[0].GetUID()))
}

func TestRollbackThatWouldDeleteData(t *testing.T) {
	w := newStory(t)
	const web = "components:\n- {name: web, service: {image: \"shop/web:1\"}}\n"
	w.create("deletionPolicy: Delete\n" + web)
	w.waitReady()
	w.apply("deletionPolicy: Delete\n" + web + strings.TrimPrefix(fmt.Sprintf(oneDB, "db", "1", "1Gi"), "components:\n"))
	w.waitReady()
	before := w.dataVersions()
	a := w.run("rollback", "shop", "--yes")
	w.Expect(a.code).To(Equal(1))
	w.Expect(a.err).To(MatchError(ContainSubstring("deletionPolicy Delete would delete its data; retain the data first: kubectl patch appstack shop")))
	w.Expect(w.dataVersions()).To(Equal(before))
	harness.Edit(w.World, w.stackKey(), func(s *appsapi.AppStack) { s.Spec.DeletionPolicy = appsapi.DeletionRetain })
	w.Expect(w.mustRun("rollback", "shop", "--yes")).To(ContainSubstring(`"db" is not in revision 1: its pods are deleted.`))
	w.waitReady()
	w.Eventually(func() int { return len(w.stack().Status.Retained) }, "60s", "50ms").Should(Equal(1))
	// Rolling forward again reuses the volume.
	w.Expect(w.mustRun("rollback", "shop", "--yes")).To(ContainSubstring("is added again with its retained data: PersistentVolumeClaim data-shop-db-0."))
	w.waitReady()
	w.Expect(w.dataObjects()).To(HaveLen(1))
	w.Expect(before).To(HaveKeyWithValue("*v1.PersistentVolumeClaim data-shop-db-0", HavePrefix(string(w.dataObjects()[0].GetUID()))))
}

func TestRollbackDryRun(t *testing.T) {
	w := newStory(t)
	w.create("components: [{name: web, service: {image: \"shop/web:1\"}}]")
	w.waitReady()
	w.Expect(w.run("rollback", "shop", "--yes").err).To(MatchError(ContainSubstring("no earlier revision that was healthy")))
	w.apply("components: [{name: web, service: {image: \"shop/web:missing\"}}]")
	w.Eventually(func() string { return w.stack().Status.CurrentRevision }, "60s", "50ms").Should(Equal("2"))
	generation := w.stack().Generation
	const change = "web        image shop/web:missing -> shop/web:1\n"
	w.Expect(w.mustRun("rollback", "shop", "--dry-run")).To(And(ContainSubstring(change), HaveSuffix("Dry run: nothing was changed. To roll back, run the command without --dry-run.\n")))
	a := w.run("rollback", "shop")
	w.Expect(a.out).To(ContainSubstring(change))
	w.Expect(a.err).To(MatchError("not a terminal: use --yes to confirm or --dry-run to preview; nothing was changed"))
	w.Expect(a.code).To(Equal(1))
	w.Expect(w.run("rollback", "shop", "--yes", "--to-revision", "7").err).To(MatchError(ContainSubstring("has no revision 7")))
	w.Expect(w.stack().Generation).To(Equal(generation))
	w.Expect(w.mustRun("rollback", "shop", "--to-revision", "2", "--yes")).To(ContainSubstring("already has the spec of revision 2"))
	w.Expect(w.stack().Generation).To(Equal(generation))
	// A suspended application stays suspended.
	harness.Edit(w.World, w.stackKey(), func(s *appsapi.AppStack) { s.Spec.Suspend = true })
	w.Expect(w.mustRun("rollback", "shop", "--yes")).To(HaveSuffix("It is suspended: the change takes effect after kubectl holdfast resume shop -n " + w.NS + ".\n"))
	w.Expect(w.stack().Spec.Suspend).To(BeTrue())
	w.Expect(w.stack().Spec.Components[0].Service.Image).To(Equal("shop/web:1"))
}

func TestAppServiceHasNoHistory(t *testing.T) {
	w := newStory(t)
	app := createSample(w, "appservice.yaml", &appsapi.AppService{})
	for _, verb := range []string{"history", "rollback"} {
		a := w.run(verb, app.Name)
		w.Expect(a.err).To(MatchError(fmt.Sprintf("AppService %s/%s has no revisions: kind AppService does not store earlier specs; apply the earlier manifest, for example from Git", w.NS, app.Name)))
		w.Expect(a.code).To(Equal(1))
	}
}

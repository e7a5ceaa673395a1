package appstack_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
	"github.com/holdfast-dev/holdfast/internal/testutil/harness"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
)

// configSpec is a stack whose components use different keys of the same objects: web uses a of the ConfigMap, api uses b
// and the password, deaf uses all of them without rollOnChange.
const configSpec = `
components:
- name: web
  service: {image: "shop/web:1", env: [{name: A, valueFrom: {configMapKeyRef: {name: settings, key: a}}}]}
- name: api
  service:
    image: shop/api:1
    env:
    - {name: B, valueFrom: {configMapKeyRef: {name: settings, key: b}}}
    - {name: PASSWORD, valueFrom: {secretKeyRef: {name: login, key: password}}}
- name: deaf
  service:
    image: shop/deaf:1
    config: {rollOnChange: false}
    env:
    - {name: A, valueFrom: {configMapKeyRef: {name: settings, key: a}}}
    - {name: B, valueFrom: {configMapKeyRef: {name: settings, key: b}}}
    - {name: PASSWORD, valueFrom: {secretKeyRef: {name: login, key: password}}}
`

// password is short and easy to guess: its hash must not be stored anywhere.
const password = "swordfish"

func TestOptionalConfigRollsItsConsumers(t *testing.T) {
	w := newStory(t)
	w.create(`
components:
- {name: web, service: {image: "shop/web:1", env: [{name: A, valueFrom: {configMapKeyRef: {name: settings, key: a, optional: true}}}]}}
- {name: api, service: {image: "shop/api:1", env: [{name: B, valueFrom: {configMapKeyRef: {name: settings, key: b, optional: true}}}]}}
`)
	w.waitReady()
	w.expectRollouts(func() { w.setConfigMap("a", "1") }, "web", "api")
	w.expectRollouts(func() { w.setConfigMap("a", "1", "b", "1") }, "api")
	w.expectSteadyState()
}

func TestEnvFromRollsForEveryKey(t *testing.T) {
	w := newStory(t)
	w.setConfigMap("a", "1")
	w.setSecret("user", "anna")
	w.create(`
components:
- {name: web, service: {image: "shop/web:1", envFrom: [{configMapRef: {name: settings}}]}}
- {name: api, service: {image: "shop/api:1", envFrom: [{prefix: LOGIN_, secretRef: {name: login}}]}}
`)
	w.waitReady()
	w.expectRollouts(func() { w.setConfigMap("a", "1", "b", "1") }, "web")
	w.expectRollouts(func() { w.setConfigMap("a", "1") }, "web")
	w.expectRollouts(func() { w.setSecret("user", "anna", "password", password) }, "api")
	w.expectSteadyState()
}

// setConfigMap sets the data of ConfigMap settings to these pairs of keys and values.
func (w *world) setConfigMap(pairs ...string) {
	w.Helper()
	c := &corev1.ConfigMap{ObjectMeta: w.objectMeta("settings"), Data: toMap(pairs)}
	if harness.Find(w.World, &corev1.ConfigMap{ObjectMeta: c.ObjectMeta}) == nil {
		w.Expect(w.Create(w.Context(), c)).To(Succeed())
		return
	}
	w.Expect(w.Update(w.Context(), c)).To(Succeed())
}

// setSecret sets the data of Secret login to these pairs.
func (w *world) setSecret(pairs ...string) {
	w.Helper()
	s := &corev1.Secret{ObjectMeta: w.objectMeta("login"), StringData: toMap(pairs)}
	if harness.Find(w.World, &corev1.Secret{ObjectMeta: s.ObjectMeta}) == nil {
		w.Expect(w.Create(w.Context(), s)).To(Succeed())
		return
	}
	w.Expect(w.Update(w.Context(), s)).To(Succeed())
}

func toMap(list []string) map[string]string {
	out := map[string]string{}
	for i := 0; i < len(list); i += 2 {
		out[list[i]] = list[i+1]
	}
	return out
}

// configReads returns the reads of ConfigMaps and Secrets.
func configReads(calls audit.Events) audit.Events { return calls.Of("configmaps", "secrets") }

// expectRollouts checks that a change replaces the pods of exactly these components, with one write each, and that each
// changed object is read once.
func (w *world) expectRollouts(change func(), components ...string) {
	w.Helper()
	want, names := w.deploymentRevisions(), []string{}
	for _, c := range components {
		var n int
		_, err := fmt.Sscan(want["shop-"+c], &n)
		w.Expect(err).NotTo(HaveOccurred())
		want["shop-"+c] = fmt.Sprint(n + 1)
		names = append(names, "shop-"+c)
	}
	calls := w.OperatorRequests(func() {
		change()
		w.Eventually(w.deploymentRevisions, "60s", "20ms").Should(Equal(want))
		w.waitReady()
		w.WaitIdle("shop")
		w.Consistently(w.deploymentRevisions, "500ms", "100ms").Should(Equal(want), "no second rollout")
	})
	w.Expect(writtenNames(calls, "deployments.apps")).To(ConsistOf(names), "%s", calls.Count())
	w.Expect(len(configReads(calls))).To(BeNumerically("<=", 1), "each version is read once:\n%s", calls.Count())
}

// expectNoRollout checks that a change causes this number of reads, and no write.
func (w *world) expectNoRollout(reads int, change func()) {
	w.Helper()
	before := w.deploymentRevisions()
	from, err := w.AuditLog.Mark(w.Context(), w.Plane.Config)
	w.Expect(err).NotTo(HaveOccurred())
	calls := func() audit.Events {
		all, err := w.AuditLog.Since(w.Context(), w.Plane.Config, from)
		w.Expect(err).NotTo(HaveOccurred())
		return withoutEvents(all.In(w.NS).By(operator.User))
	}
	change()
	w.Eventually(func() int { return len(calls()) }, "60s", "200ms").Should(BeNumerically(">=", reads))
	w.Consistently(func() int { return len(calls()) }, "500ms", "250ms").Should(Equal(reads))
	w.Expect(len(calls().Writes())).To(BeZero(), "%s", calls().Count())
	w.Expect(w.deploymentRevisions()).To(Equal(before))
}

func TestConfigKeyRollsItsConsumers(t *testing.T) {
	w := newStory(t)
	w.setConfigMap("a", "1", "b", "1", "c", "1")
	w.setSecret("password", password, "other", "1")
	w.create(configSpec)
	w.waitReady()
	w.WaitIdle("shop")
	w.expectRollouts(func() { w.setConfigMap("a", "2", "b", "1", "c", "1") }, "web")
	w.expectRollouts(func() { w.setConfigMap("a", "2", "b", "2", "c", "1") }, "api")
	w.expectRollouts(func() { w.setSecret("password", password+"2", "other", "1") }, "api")
	w.expectNoRollout(1, func() { w.setConfigMap("a", "2", "b", "2", "c", "2", "d", "2") })
	w.expectNoRollout(1, func() { w.setSecret("password", password+"2", "other", "2") })
	w.expectRollouts(func() { w.setConfigMap("a", "3", "b", "3") }, "web", "api")
	w.expectSteadyState()
}

// TestUnchangedConfigCausesNoRollout writes objects without a change: they are read once, and the result is cached.
func TestUnchangedConfigCausesNoRollout(t *testing.T) {
	w := newStory(t)
	w.setConfigMap("a", "1", "b", "1")
	w.setSecret("password", password)
	w.create(configSpec)
	w.waitReady()
	w.WaitIdle("shop")
	for _, obj := range []client.Object{&corev1.Secret{ObjectMeta: w.objectMeta("login")}, &corev1.ConfigMap{ObjectMeta: w.objectMeta("settings")}} {
		w.expectNoRollout(1, func() { w.Touch(obj) })
		w.expectNoRollout(0, func() { w.Touch(&appsapi.AppStack{ObjectMeta: w.objectMeta("shop")}) })
		w.expectNoRollout(1, func() {
			harness.Edit(w.World, obj, func(o client.Object) { o.SetAnnotations(map[string]string{"example.com/by": "a controller"}) })
		})
	}
	// Changes of unreferenced objects are ignored.
	w.expectNoRollout(0, func() {
		other := &corev1.Secret{ObjectMeta: w.objectMeta("other"), StringData: map[string]string{"password": password}}
		w.Expect(w.Create(w.Context(), other)).To(Succeed())
		w.Touch(other)
	})
	w.expectSteadyState()
}

// TestConfigDeletedAndRestored deletes configuration that running pods use: they are not replaced by pods that cannot
// start.
func TestConfigDeletedAndRestored(t *testing.T) {
	w := newStory(t)
	w.setConfigMap("a", "1", "b", "1")
	w.setSecret("password", password)
	w.create(configSpec)
	w.waitReady()
	w.WaitIdle("shop")
	login := &corev1.Secret{ObjectMeta: w.objectMeta("login")}
	w.expectNoRollout(0, func() { w.Expect(w.Delete(w.Context(), login)).To(Succeed()) })
	w.Expect(w.condition("Ready")()).To(HavePrefix("True/"))
	w.expectNoRollout(1, func() { w.setSecret("password", password) })
	w.expectNoRollout(0, func() { w.Expect(w.Delete(w.Context(), login)).To(Succeed()) })
	w.expectRollouts(func() { w.setSecret("password", password+"2") }, "api")
	settings := &corev1.ConfigMap{ObjectMeta: w.objectMeta("settings")}
	w.expectNoRollout(0, func() { w.Expect(w.Delete(w.Context(), settings)).To(Succeed()) })
	// An edit in the meantime causes one rollout.
	w.expectRollouts(func() {
		w.editComponent("web", func(c *appsapi.Component) { c.Service.Image = "shop/web:2" })
	}, "web")
	w.expectNoRollout(1, func() { w.setConfigMap("a", "1", "b", "1") })
	w.expectSteadyState()
}

// TestSecretsCannotBeGuessed searches everything that is readable without access to Secrets for a password, and for
// hashes that allow a dictionary attack.
func TestSecretsCannotBeGuessed(t *testing.T) {
	w := newStory(t)
	w.setSecret("password", password)
	w.setConfigMap("a", "1", "b", "1")
	w.create(configSpec)
	w.waitReady()
	w.expectRollouts(func() { w.setSecret("password", password+"2") }, "api")
	w.expectSteadyState()

	key := harness.Find(w.World, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: operator.Namespace, Name: "holdfast-content-key"}})
	w.Expect(key).NotTo(BeNil())
	w.Expect(key.Data["key"]).To(HaveLen(32))
	w.Expect(*key.Immutable).To(BeTrue())
	w.Expect(key.Labels).To(BeEmpty(), "it is only found by its name")
	all, err := w.AuditLog.Since(w.Context(), w.Plane.Config, 0)
	w.Expect(err).NotTo(HaveOccurred())
	operatorRequests := all.By(operator.User).In(operator.Namespace)
	w.Expect(writtenNames(operatorRequests, "secrets")).To(And(
		ContainElement("holdfast-content-key"),
		HaveEach(BeElementOf("holdfast-content-key", "holdfast-database-ca")), // the second one by stories with databases
	), "%s", operatorRequests.Count())

	var published strings.Builder
	for _, list := range []client.ObjectList{&appsv1.DeploymentList{}, &appsv1.ReplicaSetList{}, &appsv1.ControllerRevisionList{},
		&corev1.PodList{}, &corev1.EventList{}, &appsapi.AppStackList{}} {
		w.Expect(w.List(w.Context(), list, client.InNamespace(w.NS))).To(Succeed())
		content, err := json.Marshal(list)
		w.Expect(err).NotTo(HaveOccurred())
		published.Write(content)
	}
	for _, value := range []string{password, password + "2"} {
		plain := sha256.Sum256([]byte(value))
		asMap, err := json.Marshal(map[string][]byte{"password": []byte(value)})
		w.Expect(err).NotTo(HaveOccurred())
		ofMap := sha256.Sum256(append(asMap, '\n'))
		for _, guess := range []string{value, base64.StdEncoding.EncodeToString([]byte(value)),
			hex.EncodeToString(plain[:])[:10], base64.StdEncoding.EncodeToString(plain[:])[:10], hex.EncodeToString(ofMap[:])[:10]} {
			w.Expect(published.String()).NotTo(ContainSubstring(guess))
		}
	}
}

// TestConfigChangeDoesNotRerunJobs changes everything that a job uses except its own spec.
func TestConfigChangeDoesNotRerunJobs(t *testing.T) {
	w := newStory(t)
	w.setConfigMap("a", "1")
	w.setSecret("password", password)
	w.create(`
components:
- {name: api, service: {image: "shop/api:1", ports: [{port: 80}]}}
- name: migrate
  bindings: [{component: api}]
  job:
    image: shop/migrate:done
    envFrom: [{configMapRef: {name: settings}}]
    env: [{name: PASSWORD, valueFrom: {secretKeyRef: {name: login, key: password}}}]
- {name: web, dependsOn: [migrate], service: {image: "shop/web:1"}}
`)
	w.waitReady()
	w.WaitIdle("shop")
	before := w.jobs("migrate")
	w.Expect(before).To(HaveLen(1))
	w.expectNoRollout(0, func() {
		w.setConfigMap("a", "2")
		w.setSecret("password", "other")
	})
	w.editComponent("api", func(c *appsapi.Component) {
		c.Service.Ports[0].Port, c.Service.Image = 81, "shop/api:2"
	})
	w.waitReady()
	w.editSpec(func(s *appsapi.AppStackSpec) { s.Components[0].ResourceName = "other-api" })
	w.waitReady()
	w.Eventually(func() *appsv1.Deployment { return w.deployment("shop-api") }, "60s", "50ms").Should(BeNil())
	w.waitReady()
	after := w.jobs("migrate")
	w.Expect(after).To(HaveLen(1))
	w.Expect(after[0].UID).To(Equal(before[0].UID))
	w.Expect(w.deployment("shop-web").Annotations["deployment.kubernetes.io/revision"]).To(Equal("1"))
	w.expectSteadyState()
}

func TestConfigRollsAppService(t *testing.T) {
	w := newStory(t)
	w.setConfigMap("a", "1", "b", "1")
	w.setSecret("password", password)
	app := &appsapi.AppService{ObjectMeta: w.objectMeta("shop-web")}
	w.Expect(yaml.UnmarshalStrict([]byte(`
image: shop/web:1
envFrom: [{secretRef: {name: login}}]
env: [{name: A, valueFrom: {configMapKeyRef: {name: settings, key: a}}}]`), &app.Spec)).To(Succeed())
	w.Expect(w.Create(w.Context(), app)).To(Succeed())
	w.WaitReady(app)
	w.WaitIdle("shop-web")
	expectOneRollout := func(to string, change func()) {
		calls := w.OperatorRequests(func() {
			change()
			w.Eventually(w.deploymentRevisions, "60s", "20ms").Should(Equal(map[string]string{"shop-web": to}))
			w.WaitReady(app)
			w.WaitIdle("shop-web")
		})
		w.Expect(writtenNames(calls, "deployments.apps")).To(HaveLen(1), "%s", calls.Count())
		w.Expect(len(configReads(calls))).To(Equal(1), "%s", calls.Count())
	}
	expectOneRollout("2", func() { w.setConfigMap("a", "2", "b", "1") })
	expectOneRollout("3", func() { w.setSecret("password", password, "user", "anna") })
	w.expectNoRollout(1, func() { w.setConfigMap("a", "2", "b", "2") })
	w.expectNoRollout(1, func() { w.Touch(&corev1.Secret{ObjectMeta: w.objectMeta("login")}) })
	w.ExpectSteadyState(app, &appsv1.Deployment{ObjectMeta: w.objectMeta("shop-web")})
}

// TestConfigCreatedWithStack creates a stack before its configuration, as kubectl apply of one file may. The first pods
// must not be replaced.
func TestConfigCreatedWithStack(t *testing.T) {
	w := newStory(t)
	var group sync.WaitGroup
	for i := range 16 {
		group.Go(func() {
			name := fmt.Sprintf("s%d", i)
			secret := &corev1.Secret{ObjectMeta: w.objectMeta(name), StringData: map[string]string{"password": password}}
			w.Expect(w.Create(w.Context(), secret)).To(Succeed())
			app := &appsapi.AppStack{ObjectMeta: w.objectMeta(name)}
			w.Expect(yaml.UnmarshalStrict([]byte(`
components: [{name: web, service: {image: "shop/web:1", envFrom: [{secretRef: {name: `+name+`}}]}}]`), &app.Spec)).To(Succeed())
			w.Expect(w.Create(w.Context(), app)).To(Succeed())
			w.WaitReady(app)
		})
	}
	group.Wait()
	for name, times := range w.deploymentRevisions() {
		w.Expect(times).To(Equal("1"), "the first pods of %s are not replaced", name)
	}
}

// TestConfigRolloutWaitsForDependency changes configuration twice while a dependency is not ready: the pods are replaced
// once, after it is ready.
func TestConfigRolloutWaitsForDependency(t *testing.T) {
	w := newStory(t)
	w.setConfigMap("a", "1")
	w.create(`
components:
- {name: web, dependsOn: [api], service: {image: "shop/web:1", env: [{name: A, valueFrom: {configMapKeyRef: {name: settings, key: a}}}]}}
- {name: api, service: {image: "shop/api:1"}}
`)
	w.waitReady()
	w.editComponent("api", func(c *appsapi.Component) { c.Service.Image = "shop/api:missing" })
	w.Eventually(w.condition("Ready"), "60s", "50ms").Should(HavePrefix(`False/ComponentDegraded: Component "api": `))
	w.setConfigMap("a", "2")
	w.Eventually(w.condition("Ready"), "60s", "50ms").Should(HaveSuffix(`; "web" waits for it`))
	w.WaitIdle("shop")
	w.expectNoRollout(1, func() { w.setConfigMap("a", "3") })
	w.editComponent("api", func(c *appsapi.Component) { c.Service.Image = "shop/api:2" })
	w.waitReady()
	w.Expect(w.deploymentRevisions()).To(Equal(map[string]string{"shop-web": "2", "shop-api": "3"}))
	w.expectSteadyState()
}

// TestConfigSurvivesRestart kills an operator that has read ConfigMaps and Secrets: the restarted one computes the same
// hashes.
func TestConfigSurvivesRestart(t *testing.T) {
	skipUnlessLong(t) // the table of API requests covers it, too
	s := harness.New(t, harness.BehaviorByTag(behaviors), operator.Options{})
	w := newWorld(t, s)
	w.setConfigMap("a", "1", "b", "1")
	w.setSecret("password", password)
	w.create(configSpec)
	w.waitReady()
	w.WaitIdle("shop")
	calls := w.OperatorRequestsWithin(2*time.Second, func() {
		w.Expect(s.Operator.Kill()).To(Succeed())
		w.Expect(s.Operator.Start()).To(Succeed())
		w.Expect(s.Operator.WaitReady(t.Context())).To(Succeed())
		w.Touch(&appsapi.AppStack{ObjectMeta: w.objectMeta("shop")})
	})
	w.Expect(len(calls)).To(BeZero(), "%s", calls.Count())
	w.expectNoRollout(1, func() { w.Touch(&corev1.Secret{ObjectMeta: w.objectMeta("login")}) })
	w.expectRollouts(func() { w.setSecret("password", password+"2") }, "api")
	w.expectSteadyState()
	s.ExpectNoForbiddenRequests(t)
}

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// testCloudManagerLifecycle creates, expands, renames, deletes and recreates a CloudManager with a real MariaDB and
// checks that every row is kept.
func testCloudManagerLifecycle(t *testing.T, _ *WithT, ns string) {
	startClientPod(t, ns)
	for _, step := range []struct {
		name string
		run  func(*testing.T, *WithT, string)
	}{
		{"SampleComesUpInOrder", testSampleStartsInOrder}, {"NeedEachOther", testDependenciesServe}, {"GrowsUnderLoad", testVolumeExpansionUnderLoad},
		{"RenamedUnderLoad", testRenameUnderLoad}, {"DeletedAndMadeAgain", testRecreateKeepsData},
	} {
		if !t.Run(step.name, func(t *testing.T) { step.run(t, NewWithT(t), ns) }) {
			return // each test continues from the state of the previous one
		}
	}
}

const sampleName = "cloudmanager-sample"

func cloudManagerField(t *testing.T, ns, path string) string {
	t.Helper()
	return kubectl(t, "-n", ns, "get", "cloudmanager", sampleName, "-o", "jsonpath="+path)
}

func waitCloudManagerReady(t *testing.T, g *WithT, ns string) {
	t.Helper()
	g.Eventually(func() string {
		generation, condition, _ := strings.Cut(cloudManagerField(t, ns, `{.metadata.generation} {.status.observedGeneration} {.status.phase} {.status.conditions[?(@.type=="Ready")].message}`), " ")
		return strings.TrimPrefix(condition, generation+" ")
	}, "120s", "200ms").Should(Equal("Ready Everything runs as declared"))
}

// samplePassword is the root password of the sample.
const samplePassword = "password-of-the-sample"

// applySample creates the sample and the Secret with its password.
func applySample(t *testing.T, ns string) {
	t.Helper()
	kubectl(t, "-n", ns, "create", "secret", "generic", "cm-root", "--from-literal=password="+samplePassword)
	kubectl(t, "-n", ns, "apply", "-f", root+"/config/samples/cloudmanager.yaml")
}

// sampleSQL runs statements in the database pod, as root, with the password of the sample.
func sampleSQL(t *testing.T, ns, statements string) string {
	t.Helper()
	return kubectl(t, "-n", ns, "exec", "cm-db-0", "--", "mariadb", "-uroot", "-p"+samplePassword, "-N", "-e", statements)
}

func testSampleStartsInOrder(t *testing.T, g *WithT, ns string) {
	start := time.Now()
	applySample(t, ns)
	waitCloudManagerReady(t, g, ns)
	t.Logf("ready after %.1f s", time.Since(start).Seconds())
	g.Expect(kubectl(t, "-n", ns, "get", "cloudmanager", sampleName, "--no-headers")).To(MatchRegexp(`^cloudmanager-sample +Ready +3/3 `))
	field := func(kind, name, path string) string {
		return kubectl(t, "-n", ns, "get", kind, name, "-o", "jsonpath="+path)
	}
	dbReady := field("pod", "cm-db-0", `{.status.conditions[?(@.type=="Ready")].lastTransitionTime}`)
	identity, front := field("deployment", "cm-identity", "{.metadata.creationTimestamp}"), field("deployment", "ake-front", "{.metadata.creationTimestamp}")
	g.Expect(dbReady <= identity && identity <= front).To(BeTrue(), "db ready %s, identity created %s, front created %s", dbReady, identity, front)
	sampleSQL(t, ns, "create database shop; create table shop.orders (id bigint auto_increment primary key, who varchar(40)); insert into shop.orders (who) values ('ann'), ('bob')")
	g.Expect(sampleSQL(t, ns, "select version()")).To(ContainSubstring("MariaDB"))
}

func patchCloudManager(t *testing.T, ns, spec string) {
	t.Helper()
	kubectl(t, "-n", ns, "patch", "cloudmanager", sampleName, "--type=merge", "-p", fmt.Sprintf(`{"spec":%s}`, spec))
}

// testDependenciesServe uses programs for identity and front that answer 503 until their dependency answers.
func testDependenciesServe(t *testing.T, g *WithT, ns string) {
	patchCloudManager(t, ns, `{
		"identity": {"deployment": {"image": "localhost/web:1", "replicas": 2, "ports": [{"port": 8080}], "command": ["/program", "--needs=tcp://$(DB_HOST):$(DB_PORT)"]}},
		"front": {"deployment": {"replicas": 2, "command": ["/program", "--address=:80", "--needs=http://$(IDENTITY_HOST):$(IDENTITY_PORT)/healthz"]}}}`)
	waitCloudManagerReady(t, g, ns)
	g.Expect(execInClient(t, ns, "timeout 5 wget -q -O- http://ake-front/")).To(HavePrefix("hello from ake-front-"))
}

// databaseIdentity returns what must not change: pod, restart count, volume and password.
func databaseIdentity(t *testing.T, ns string) string {
	t.Helper()
	return strings.Join([]string{
		kubectl(t, "-n", ns, "get", "pod", "cm-db-0", "-o", "jsonpath={.metadata.uid} {.status.containerStatuses[0].restartCount}"), volumeAndPassword(t, ns)}, " ")
}

func volumeAndPassword(t *testing.T, ns string) string {
	t.Helper()
	return kubectl(t, "-n", ns, "get", "pvc", "data-cm-db-0", "-o", "jsonpath={.metadata.uid} {.spec.volumeName}") + " " +
		kubectl(t, "-n", ns, "get", "secret", "cm-db-auth", "-o", "jsonpath={.data.root-password}")
}

// insertLoopScript inserts rows through a Service, with a new connection for each.
const insertLoopScript = `rm -f /tmp/stop; n=0; bad=0
while [ ! -e /tmp/stop ]; do
  mariadb -h%s -uroot -p%s -e "insert into shop.orders (who) values ('load')" || bad=$((bad+1)); n=$((n+1))
done; echo "$n writes, $bad failed"`

// volumeSizes returns the size of the volume of cm-db and of the claim template of its StatefulSet, which is missing
// while it is recreated.
func volumeSizes(t *testing.T, ns string) string {
	t.Helper()
	set, _ := tryKubectl("", "-n", ns, "get", "statefulset", "cm-db", "-o", "jsonpath={.spec.volumeClaimTemplates[0].spec.resources.requests.storage}")
	return kubectl(t, "-n", ns, "get", "pvc", "data-cm-db-0", "-o", "jsonpath={.status.capacity.storage}") + " " + set
}

// testVolumeExpansionUnderLoad expands the volume while rows are written.
func testVolumeExpansionUnderLoad(t *testing.T, g *WithT, ns string) {
	before := databaseIdentity(t, ns)
	size := func() string {
		return kubectl(t, "-n", ns, "exec", "cm-db-0", "--", "df", "--output=size", "-BG", "/var/lib/mysql")
	}
	old := size()
	apply(t, ns, `{apiVersion: v1, kind: Pod, metadata: {name: writer}, spec: {terminationGracePeriodSeconds: 0,
		containers: [{name: c, image: "mariadb:10.11", command: [sleep, "600"]}]}}`)
	kubectl(t, "-n", ns, "wait", "--for=condition=Ready", "pod/writer", "--timeout=60s")
	written := make(chan string, 1)
	go func() {
		out, err := tryKubectl("", "-n", ns, "exec", "writer", "--", "sh", "-c", fmt.Sprintf(insertLoopScript, "cm-db", samplePassword))
		written <- out + fmt.Sprint(err)
	}()
	start := time.Now()
	patchCloudManager(t, ns, `{"db": {"statefulSet": {"storage": {"size": "21Gi"}}}}`)
	waitCloudManagerReady(t, g, ns)
	g.Expect(cloudManagerField(t, ns, "{.status.phase}")).To(Equal("Ready"))
	g.Eventually(func() string { return volumeSizes(t, ns) }, "60s", "500ms").Should(Equal("21Gi 21Gi"))
	t.Logf("grew in %.1f s, file system from %s to %s", time.Since(start).Seconds(), strings.Fields(old)[1], strings.Fields(size())[1])
	g.Expect(size()).NotTo(Equal(old))
	kubectl(t, "-n", ns, "exec", "writer", "--", "touch", "/tmp/stop")
	var counted string
	g.Eventually(written, "30s").Should(Receive(&counted))
	t.Log(counted)
	g.Expect(counted).To(MatchRegexp(`^\d{2,} writes, 0 failed<nil>$`))
	g.Expect(databaseIdentity(t, ns)).To(Equal(before), "the database was restarted, or its volume or password changed")
}

// requestUntilStoppedScript calls a Service until told to stop and counts failures.
const requestUntilStoppedScript = `rm -f /tmp/%[1]s; n=0; bad=0
while [ ! -e /tmp/%[1]s ]; do
  timeout 5 wget -q -O /dev/null http://%[2]s/ || bad=$((bad+1)); n=$((n+1))
done; echo "$n requests, $bad failed"`

func startRequests(ns, what, address string) <-chan string {
	result := make(chan string, 1)
	go func() {
		out, err := tryKubectl("", "-n", ns, "exec", "client", "--", "sh", "-c", fmt.Sprintf(requestUntilStoppedScript, what, address))
		result <- out + fmt.Sprint(err)
	}()
	return result
}

// testRenameUnderLoad renames database and front: identity gets the new database address in a rolling update, the front
// is replaced, and no request is lost.
func testRenameUnderLoad(t *testing.T, g *WithT, ns string) {
	before := databaseIdentity(t, ns)
	identity := startRequests(ns, "identity", "cm-identity:8080")
	front := startRequests(ns, "front", "ake-front")
	time.Sleep(time.Second)
	patchCloudManager(t, ns, `{"db": {"statefulSet": {"name": "cm-database"}}}`)
	waitCloudManagerReady(t, g, ns)
	g.Expect(kubectl(t, "-n", ns, "get", "deployment", "cm-identity", "-o", `jsonpath={.spec.template.spec.containers[0].env[?(@.name=="DB_HOST")].value}`)).
		To(Equal("cm-database." + ns + ".svc"))
	execInClient(t, ns, "touch /tmp/front")
	var counted string
	g.Eventually(front, "30s").Should(Receive(&counted))
	t.Log("front, while the database is renamed: " + counted)
	g.Expect(counted).To(MatchRegexp(`^\d{2,} requests, 0 failed<nil>$`))

	verifyRenameLosesNoRequest(t, g, ns, "ake-front", "web-front", func() { patchCloudManager(t, ns, `{"front": {"deployment": {"name": "web-front"}}}`) })
	waitCloudManagerReady(t, g, ns)
	g.Expect(execInClient(t, ns, "timeout 5 wget -q -O- http://web-front/")).To(HavePrefix("hello from web-front-"))
	execInClient(t, ns, "touch /tmp/identity")
	g.Eventually(identity, "30s").Should(Receive(&counted))
	t.Log("identity, while it rolls: " + counted)
	g.Expect(counted).To(MatchRegexp(`^\d{2,} requests, 0 failed<nil>$`))
	g.Eventually(func() string {
		return kubectl(t, "-n", ns, "get", "services", "-o", "jsonpath={.items[*].metadata.name}")
	}, "60s", "500ms").
		Should(Equal("cm-database cm-db-headless cm-identity web-front"), "old Services are deleted")
	g.Expect(databaseIdentity(t, ns)).To(Equal(before), "the database was restarted, or its volume or password changed")
}

// testRecreateKeepsData deletes the object and creates it again: rows and password are kept.
func testRecreateKeepsData(t *testing.T, g *WithT, ns string) {
	const sum = "checksum table shop.orders; select count(*) from shop.orders"
	before, rows := volumeAndPassword(t, ns), sampleSQL(t, ns, sum)
	spec := kubectl(t, "-n", ns, "get", "cloudmanager", sampleName, "-o", `jsonpath={.spec}`)
	kubectl(t, "-n", ns, "delete", "cloudmanager", sampleName, "--timeout=110s")
	g.Expect(kubectl(t, "-n", ns, "get", "statefulsets,deployments", "-o", "name")).To(BeEmpty())
	g.Expect(kubectl(t, "-n", ns, "get", "pvc,secret", "-l", "apps.holdfast.dev/retained=true", "-o", "name")).
		To(Equal("persistentvolumeclaim/data-cm-db-0\nsecret/cm-db-auth"))
	_, err := tryKubectl("", "-n", ns, "delete", "pvc", "data-cm-db-0", "--wait=false")
	g.Expect(err).To(MatchError(ContainSubstring(`PersistentVolumeClaim "data-cm-db-0" contains the data of component "db" of application "cloudmanager-sample"`)))

	start := time.Now()
	apply(t, ns, fmt.Sprintf(`{"apiVersion": "apps.holdfast.dev/v1alpha1", "kind": "CloudManager", "metadata": {"name": %q}, "spec": %s}`, sampleName, spec))
	waitCloudManagerReady(t, g, ns)
	t.Logf("ready again after %.1f s", time.Since(start).Seconds())
	g.Expect(volumeAndPassword(t, ns)).To(Equal(before))
	g.Expect(sampleSQL(t, ns, sum)).To(Equal(rows))
	t.Log("rows: " + strings.ReplaceAll(rows, "\n", ", "))
}

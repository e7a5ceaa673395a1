package e2e

import (
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/gomega"
)

// viewerPlans previews a change without the permission to write.
func viewerPlans(d firstDay) {
	d.applyStack(webComponent("web", ""))
	d.waitReady()
	viewer := d.userConfig("viewer", "--verb=get,list,watch", "--resource=*.*")
	next := stackYAML(strings.Replace(webComponent("web", ""), "--healthy", "--healthy=true", 1))
	out, code := runPlugin(d.T, d.ns, next, "plan", "--kubeconfig", viewer, "-f", "-")
	d.Expect(code).To(BeZero(), out)
	d.Expect(out).To(MatchRegexp(`changed +web +Deployment shop-web`))
}

// userOfOneKind may read AppStacks and nothing else.
func userOfOneKind(d firstDay) {
	d.applyStack(webComponent("web", ""))
	d.waitReady()
	config := d.userConfig("reader", "--verb=get,list", "--resource=appstacks.apps.holdfast.dev")
	d.Expect(d.plugin(0, "list", "--kubeconfig", config)).To(MatchRegexp(`shop +AppStack`))
	out, _ := runPlugin(d.T, d.ns, "", "status", "shop", "--kubeconfig", config)
	d.Expect(out).To(And(ContainSubstring("AppStack"), ContainSubstring("READY"), MatchRegexp(`(?i)forbidden|permission`)))
}

// userConfig returns a kubeconfig of a ServiceAccount with a role in the namespace.
func (d firstDay) userConfig(name string, role ...string) string {
	d.Helper()
	d.kubectl("create", "serviceaccount", name)
	d.kubectl(append([]string{"create", "role", name}, role...)...)
	d.kubectl("create", "rolebinding", name, "--role="+name, "--serviceaccount="+d.ns+":"+name)
	token := d.kubectl("create", "token", name)
	file := filepath.Join(d.TempDir(), name)
	config := d.kubectl("config", "view", "--raw", "--minify", "--flatten")
	d.Expect(os.WriteFile(file, []byte(config), 0o600)).To(Succeed())
	for _, args := range [][]string{
		{"set-credentials", name, "--token=" + token}, {"set-context", "--current", "--user=" + name},
	} {
		d.kubectl(append([]string{"config", "--kubeconfig=" + file}, args...)...)
	}
	return file
}

// planMistakes previews manifests with typical mistakes.
func planMistakes(d firstDay) {
	for manifest, want := range map[string]string{
		stackYAML(`{name: db, database: {version: 11.8, storage: {size: 1Gi}}}`):   `version.*quote|quote.*version|"11\.8"`,
		stackYAML(`{name: db, database: {version: "11.8", storage: {size: 1GB}}}`): `size`,
		stackYAML(webComponent("web", ""), webComponent("web", "")):                `(?i)two components are called "web"|duplicate.*web`,
	} {
		out, code := runPlugin(d.T, d.ns, manifest, "plan", "--offline", "-f", "-")
		d.Expect(code).NotTo(BeZero(), out)
		d.Expect(out).To(MatchRegexp(want))
		d.Expect(out).NotTo(ContainSubstring("json: cannot unmarshal"))
	}
}

// noCluster has a kubeconfig of a cluster that is not reachable.
func noCluster(d firstDay) {
	for _, args := range [][]string{{"list"}, {"watch", "pods", "--timeout=3s"}, {"ui"}} {
		out, code := runPlugin(d.T, d.ns, "", append(args, "--server=https://127.0.0.1:9", "--request-timeout=3s")...)
		d.Expect(code).NotTo(BeZero(), "%s: %s", args, out)
		d.Expect(out).To(MatchRegexp(`(?i)cannot (reach|connect)|not reachable`), "%s", args)
		d.Expect(out).NotTo(MatchRegexp(`(?m)^[EWI]\d{4} `), "%s prints log lines", args)
	}
}

// runJobAgain runs a completed job again.
func runJobAgain(d firstDay) {
	d.applyStack(`{name: migrate, job: {image: "busybox:1", command: ["true"]}}`)
	d.waitReady()
	jobs := func() string { return d.kubectl("get", "jobs", "-o", "jsonpath={.items[*].metadata.uid}") }
	before := jobs()
	d.plugin(0, "run", "shop", "--component=migrate")
	d.Eventually(jobs, "30s", "300ms").ShouldNot(Equal(before))
	d.waitReady()
}

// versionsAgree compares the versions of a documented installation.
func versionsAgree(d firstDay) {
	out := d.plugin(0, "version")
	versions := map[string]string{}
	for line := range strings.Lines(out) {
		if words := strings.Fields(line); len(words) >= 2 {
			versions[strings.TrimSuffix(words[0], ":")] = words[1]
		}
	}
	d.Expect(versions["operator"]).To(Equal(versions["plugin"]), out)
}

// samplesAreValid checks the samples with the API server.
func samplesAreValid(d firstDay) {
	d.kubectl("apply", "--dry-run=server", "-f", filepath.Join(root, "config", "samples"))
}

// rejectedEdits must name both sides of a contradiction.
func rejectedEdits(d firstDay) {
	out, err := tryKubectl(stackYAML(webComponent("web", ", dependsOn: [nope]")), "apply", "-n", d.ns, "-f", "-")
	d.Expect(err).To(HaveOccurred(), out)
	d.Expect(err.Error()).To(And(ContainSubstring("web"), ContainSubstring("nope")))
}

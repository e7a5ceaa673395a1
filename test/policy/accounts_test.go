package policy_test

import (
	"fmt"
	"strings"

	. "github.com/onsi/gomega"
)

// serviceAccountNames returns n names of ServiceAccounts.
func serviceAccountNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("account-%02d", i)
	}
	return names
}

// largestStack returns a stack of maximum size with all kinds of children and n ServiceAccounts.
func largestStack(n int) string {
	var b strings.Builder
	b.WriteString("kind: AppStack\nspec:\n  components:\n")
	component := func(name, body string, i int) {
		fmt.Fprintf(&b, "  - name: %s-%02d\n    %s, serviceAccountName: account-%02d, config: {files: [{path: /f, content: %q}]}}\n",
			name, i, body, i%n, strings.Repeat("x", 10_000))
	}
	for i := range 16 {
		component("web", "service: {image: 'example.com/web:1', ports: [{port: 80}], expose: {ingressClassName: nginx, hostnames: [a.example.com]}, autoscaling: {minReplicas: 2, maxReplicas: 3, targetCPUUtilization: 70}", i)
		component("db", "stateful: {image: 'example.com/db:1', storage: [{name: data, mountPath: /d, size: 1Gi}], credentials: [{key: password}]", 16+i)
		component("job", "job: {image: 'example.com/job:1'", 32+i)
	}
	for i := range 8 {
		component("route", "service: {image: 'example.com/web:1', ports: [{port: 80}], expose: {gatewayRef: {name: web}, hostnames: [b.example.com]}", 48+i)
		component("nightly", "job: {image: 'example.com/job:1', schedule: '@daily'", 56+i)
	}
	return b.String()
}

// testManyAccounts tests the limit of ServiceAccounts that the policy checks one by one, and that the largest stack
// is within the CEL cost limit.
func testManyAccounts(w *world) {
	ctx := w.t.Context()
	named, owner := w.clientFor("many-accounts"), w.clientFor("owner")
	w.Expect(named.Create(ctx, applicationInShop(w.t, largestStack(8), "eight"))).To(Succeed())
	err := named.Create(ctx, applicationInShop(w.t, largestStack(9), "nine"))
	w.t.Log(err)
	w.Expect(errorText(err)).To(ContainSubstring(`user "many-accounts" cannot impersonate every ServiceAccount in namespace "shop", but AppStack "nine" uses more than the 8 ServiceAccounts that can be checked one by one`))

	for i := range 8 {
		manifest := strings.ReplaceAll(largestStack(8), fmt.Sprintf("account-%02d", i), "stranger")
		err := named.Create(ctx, applicationInShop(w.t, manifest, fmt.Sprintf("stranger-%d", i)))
		w.Expect(errorText(err)).To(ContainSubstring(`cannot impersonate ServiceAccount "stranger" in namespace "shop"`), "ServiceAccount %d", i)
	}
	w.Expect(owner.Create(ctx, applicationInShop(w.t, largestStack(64), "sixty-four"))).To(Succeed())
	changed := applicationInShop(w.t, largestStack(64), "sixty-four")
	w.Expect(owner.Patch(ctx, changed, mergePatch(w.t, 3, "spec", "revisionHistoryLimit"))).To(Succeed())
}

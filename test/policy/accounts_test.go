package policy_test

import (
	"fmt"
	"strings"

	. "github.com/onsi/gomega"
)

// serviceAccountNames are n ServiceAccounts.
func serviceAccountNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("account-%02d", i)
	}
	return names
}

// largestStack is as large as a stack gets, makes everything there is, and names n accounts.
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

// testManyAccounts shows where asking for accounts one by one ends, and that the largest stack is
// within what the API server lets a policy spend.
func testManyAccounts(w *world) {
	ctx := w.t.Context()
	named, owner := w.clientFor("many-accounts"), w.clientFor("owner")
	w.Expect(named.Create(ctx, applicationInShop(w.t, largestStack(8), "eight"))).To(Succeed())
	err := named.Create(ctx, applicationInShop(w.t, largestStack(9), "nine"))
	w.t.Log(err)
	w.Expect(errorText(err)).To(ContainSubstring(`user "many-accounts" may not impersonate every ServiceAccount in namespace "shop", but AppStack "nine" names more than the 8 that can be asked for one by one`))

	for i := range 8 {
		manifest := strings.ReplaceAll(largestStack(8), fmt.Sprintf("account-%02d", i), "stranger")
		err := named.Create(ctx, applicationInShop(w.t, manifest, fmt.Sprintf("stranger-%d", i)))
		w.Expect(errorText(err)).To(ContainSubstring(`may not impersonate ServiceAccount "stranger" in namespace "shop"`), "the account at %d", i)
	}
	w.Expect(owner.Create(ctx, applicationInShop(w.t, largestStack(64), "sixty-four"))).To(Succeed())
	changed := applicationInShop(w.t, largestStack(64), "sixty-four")
	w.Expect(owner.Patch(ctx, changed, mergePatch(w.t, 3, "spec", "revisionHistoryLimit"))).To(Succeed())
}

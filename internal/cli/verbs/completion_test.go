package verbs_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

func TestCompletionOfFlagsAndKinds(t *testing.T) {
	w := newStory(t)
	w.create(chainWithTag("1"))
	w.waitReady()
	w.mustRun("scale", "shop", "--component", "api", "--replicas", "2")
	complete := func(words string) []string {
		lines := strings.Split(strings.TrimSpace(w.mustRun(append([]string{"__complete"}, strings.Split(words, " ")...)...)), "\n")
		return lines[:len(lines)-1] // without the directive
	}
	w.Expect(complete("status s")).To(Equal([]string{"shop"}))
	w.Expect(complete("status -n " + w.NS[:10])).To(ContainElement(w.NS))
	w.Expect(complete("status -o ")).To(ConsistOf("table", "json", "yaml", "name", "jsonpath=", "jsonpath-as-json=", "jsonpath-file="))
	w.Expect(complete("logs shop --component ")).To(Equal([]string{"db", "api", "web"}))
	w.Expect(complete("logs shop -c ")).To(Equal([]string{"app"}))
	w.Expect(complete("rollback shop --to-revision ")).To(ContainElement("1"))
	w.Expect(complete("watch appst")).To(Equal([]string{"appstacks.apps.holdfast.dev"}))
	w.Expect(complete("watch conf")).To(Equal([]string{"configmaps"}))
	w.Expect(complete("watch deployments.apps shop-a")).To(Equal([]string{"shop-api"}))
}

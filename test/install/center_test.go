package install

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"

	"github.com/holdfast-dev/holdfast/internal/center"
	"github.com/holdfast-dev/holdfast/internal/center/informers"
	"github.com/holdfast-dev/holdfast/internal/center/model"
	"github.com/holdfast-dev/holdfast/internal/testutil/markdown"
)

const centerUser = "system:serviceaccount:" + namespace + ":holdfast-center"

// TestCenterRolesGrantExactlyFollowedKinds checks that the center has permission to list and watch its default kinds
// and CRDs, and no other permissions.
func TestCenterRolesGrantExactlyFollowedKinds(t *testing.T) {
	name := func(k informers.Kind) string { return strings.TrimSuffix(k.Resource+"."+k.Group, ".") }
	const read = "list, watch"
	namespaced, clusterScoped := map[string]string{}, map[string]string{"customresourcedefinitions.apiextensions.k8s.io": read}
	for _, k := range append(model.DefaultKinds(), model.ConfigMapKind()) {
		if k.ClusterScoped {
			clusterScoped[name(k)] = read
		} else {
			namespaced[name(k)] = read
		}
	}
	for _, overlay := range []string{"cluster-wide", "namespaced"} {
		all := renderObjects(t, overlay)
		if diff := cmp.Diff(namespaced, verbsByResource(t, all["ClusterRole /holdfast-center-reads"])); diff != "" {
			t.Errorf("%s, namespaced (-watched +granted):\n%s", overlay, diff)
		}
		if diff := cmp.Diff(clusterScoped, verbsByResource(t, all["ClusterRole /holdfast-center-cluster"])); diff != "" {
			t.Errorf("%s, cluster-scoped (-watched +granted):\n%s", overlay, diff)
		}
		// The controller-manager writes the rules of an aggregated ClusterRole.
		if got := verbsByResource(t, all["ClusterRole /holdfast-center"]); len(got) > 0 {
			t.Errorf("%s: ClusterRole holdfast-center has rules: %v", overlay, got)
		}
	}
	documented := documentedVerbs(t, "center.md")
	for _, role := range []map[string]string{namespaced, clusterScoped} {
		for resource, verbs := range role {
			if documented[resource] != verbs {
				t.Errorf("docs/user/center.md documents %q for %s, the role grants %q", documented[resource], resource, verbs)
			}
		}
	}
}

// gadgetCRD is a third-party kind.
const gadgetCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.example.com}
spec:
  group: example.com
  names: {kind: Gadget, plural: gadgets}
  scope: Namespaced
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`

// TestCenterFollowsKindsWithGrantedRights runs a center with the permissions of each overlay.
func TestCenterFollowsKindsWithGrantedRights(t *testing.T) {
	for overlay, namespaces := range map[string][]string{"cluster-wide": nil, "namespaced": {"team-a"}} {
		t.Run(overlay, func(t *testing.T) {
			c := newCluster(t)
			c.kubectl(nil, "create", "namespace", "team-a")
			c.kubectl(render(t, overlay), "apply", "-f", "-")
			c.kubectl([]byte(gadgetCRD), "apply", "-f", "-")
			c.kubectl(nil, "wait", "--for=condition=Established", "--timeout=30s", "crd", "--all")

			config := rest.CopyConfig(c.plane.Config)
			config.Impersonate.UserName, config.Impersonate.Groups = centerUser, []string{"system:authenticated", "system:serviceaccounts", "system:serviceaccounts:" + namespace}
			core, err := center.New(center.Options{Config: config, Namespaces: namespaces})
			c.Expect(err).NotTo(HaveOccurred())
			ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
			done := make(chan struct{})
			go func() { defer close(done); core.Run(ctx) }()
			t.Cleanup(func() { cancel(); <-done })

			notLive := func() string {
				var lines []string
				for _, i := range core.Registry.Informers() {
					if i.State != informers.Live {
						lines = append(lines, fmt.Sprintf("%s %s", i.Key.Resource.Resource, i.State))
					}
				}
				return strings.Join(lines, ", ")
			}
			c.Eventually(func() int { return len(core.Registry.Informers()) }, "20s").Should(BeNumerically(">=", len(model.DefaultKinds())+2))
			c.Eventually(notLive, "60s", "100ms").Should(Equal("gadgets Forbidden"), "all kinds are live except the custom kind without permission")
			c.Expect(c.centerCan("get", "secrets")).To(BeFalse())
			c.Expect(c.centerCan("list", "secrets")).To(BeFalse())
			c.Expect(c.centerCan("create", "pods")).To(BeFalse())

			// The example of docs/user/center.md.
			c.kubectl([]byte(yamlExample(t, "center.md", "ClusterRole")), "apply", "-f", "-")
			began := time.Now()
			c.Eventually(notLive, "90s", "100ms").Should(BeEmpty())
			t.Logf("the kind is live %.1f s after the permission was granted", time.Since(began).Seconds())
		})
	}
}

// yamlExample returns the code block of a page with an object of a kind.
func yamlExample(t *testing.T, page, kind string) string {
	t.Helper()
	read, err := markdown.Read(root + "/docs/user/" + page)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range read.Blocks {
		if b.Info == "yaml" && strings.Contains(b.Text, "kind: "+kind+"\n") {
			return b.Text
		}
	}
	t.Fatalf("%s has no example of a %s", page, kind)
	return ""
}

// centerCan reports whether the center has a permission.
func (c *cluster) centerCan(verb, resource string) bool {
	c.t.Helper()
	out, _ := c.tryKubectl(nil, "auth", "can-i", verb, resource, "--as="+centerUser, "-n", "team-a")
	return !strings.HasPrefix(out, "no")
}

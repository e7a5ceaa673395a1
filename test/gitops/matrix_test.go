package gitops

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/harness"
)

// verbs are the verbs that write requests, each with commands for the three kinds, and how to see their effect. The
// effect must be the same after the manifest was applied again.
var verbs = []struct {
	name     string
	commands [][]string
	effect   func(*world) map[string]string
	// suspends is set if the applications are not Ready/Reconciled afterwards.
	suspends bool
}{
	{"restart", [][]string{{"restart", "shop"}, {"restart", "hello"}, {"restart", "cm", "--component", "db"}}, (*world).restarts, false},
	{"rotate", [][]string{{"rotate", "shop"}, {"rotate", "cm"}}, (*world).passwords, false},
	{"scale", [][]string{{"scale", "shop", "--component", "web", "--replicas", "3"}, {"scale", "hello", "--replicas", "3"},
		{"scale", "cm", "--component", "identity", "--replicas", "2"}}, (*world).replicas, false},
	{"suspend", [][]string{{"suspend", "shop", "--component", "web"}, {"suspend", "hello"}, {"suspend", "cm"}}, (*world).operations, true},
	{"resume", [][]string{{"resume", "shop", "--component", "web"}, {"resume", "hello"}, {"resume", "cm"}}, (*world).operations, false},
}

// TestMatrix runs every verb with every tool: the tool applies the manifest, the verb changes the applications, and the
// tool applies the same manifest again.
func TestMatrix(t *testing.T) {
	for _, tool := range tools {
		if tool.library && *program == "" {
			continue // make gitops tests these
		}
		t.Run(tool.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, tool.library, tool.args)
			w.mustApply()
			w.waitReady()
			for _, verb := range verbs {
				before := verb.effect(w)
				for _, command := range verb.commands {
					w.plugin(command...)
				}
				w.Eventually(func() map[string]string { return verb.effect(w) }, "60s", "100ms").ShouldNot(Equal(before), "%s has no effect", verb.name)
				w.settle(verb.suspends)
				effect, pods := verb.effect(w), w.pods()
				w.mustApply()
				w.settle(verb.suspends)
				w.Expect(verb.effect(w)).To(Equal(effect), "applying the manifest again reverted %s", verb.name)
				w.Expect(w.pods()).To(Equal(pods), "applying the manifest again after %s replaced pods", verb.name)
				t.Logf("| %s | %s | kept | 0 |", verb.name, tool.name)
			}
			w.expectManifestWins()
		})
	}
}

// settle waits until the operator is done with all applications.
func (w *world) settle(suspended bool) {
	w.Helper()
	if !suspended {
		w.waitReady()
	}
	for _, name := range []string{"shop", "hello", "cm"} {
		w.WaitIdle(name)
	}
	w.Eventually(func() bool {
		return w.observed(w.shop) && w.observed(w.hello) && w.observed(w.cm) &&
			!rotating(w.shop.Status.Components) && !rotating(w.cm.Status.Components)
	}, "60s", "100ms").Should(BeTrue())
}

// rotating reports whether a password rotation is in progress. The application stays Ready meanwhile.
func rotating(components []appsapi.ComponentStatus) bool {
	return slices.ContainsFunc(components, func(c appsapi.ComponentStatus) bool { return c.Reason == appsapi.ReasonRotating })
}

func (w *world) observed(app interface {
	client.Object
	ApplicationStatus() *appsapi.ApplicationStatus
}) bool {
	w.Expect(w.Get(w.Context(), client.ObjectKeyFromObject(app), app)).To(Succeed())
	return app.ApplicationStatus().ObservedGeneration == app.GetGeneration()
}

// expectManifestWins scales a component whose replicas are in the manifest. The plugin states that the manifest wins, and
// then it does, unless the tool reports a conflict.
func (w *world) expectManifestWins() {
	w.Helper()
	w.Expect(w.plugin("scale", "shop", "--component", "fixed", "--replicas", "4")).To(ContainSubstring(
		"A manifest that sets replicas restores its own number when it is applied again; to keep this one, omit replicas there."))
	w.Eventually(func() string { return w.replicas()["shop-fixed"] }, "60s", "100ms").Should(Equal("4"))
	out, err := w.apply()
	if err != nil {
		w.Expect(out).To(And(ContainSubstring(`conflict with "holdfast-cli"`), ContainSubstring(`.spec.components[name="fixed"].service.replicas`)))
		return
	}
	w.Eventually(func() string { return w.replicas()["shop-fixed"] }, "60s", "100ms").Should(Equal("2"))
	w.Expect(w.replicas()).To(HaveKeyWithValue("shop-web", "3"))
}

// pods returns the UIDs of the running pods of services and databases.
func (w *world) pods() map[string]string {
	w.Helper()
	var list corev1.PodList
	w.Expect(w.List(w.Context(), &list, client.InNamespace(w.NS))).To(Succeed())
	out := map[string]string{}
	for i := range list.Items {
		if p := &list.Items[i]; p.DeletionTimestamp == nil && !strings.Contains(p.Name, "-migrate-") {
			out[p.Name] = string(p.UID)
		}
	}
	return out
}

// restarts returns the requested restart in each pod template.
func (w *world) restarts() map[string]string {
	w.Helper()
	key, out := appsapi.DefaultKeys.RestartedAt, map[string]string{}
	for name, template := range w.templates() {
		if at := template.Annotations[key]; at != "" {
			out[name] = at
		}
	}
	return out
}

// templates returns the pod templates of all workloads.
func (w *world) templates() map[string]corev1.PodTemplateSpec {
	w.Helper()
	var deployments appsv1.DeploymentList
	var sets appsv1.StatefulSetList
	w.Expect(w.List(w.Context(), &deployments, client.InNamespace(w.NS))).To(Succeed())
	w.Expect(w.List(w.Context(), &sets, client.InNamespace(w.NS))).To(Succeed())
	out := map[string]corev1.PodTemplateSpec{}
	for i := range deployments.Items {
		out[deployments.Items[i].Name] = deployments.Items[i].Spec.Template
	}
	for i := range sets.Items {
		out[sets.Items[i].Name] = sets.Items[i].Spec.Template
	}
	return out
}

// passwords returns the passwords of the databases.
func (w *world) passwords() map[string]string {
	w.Helper()
	out := map[string]string{}
	for _, name := range []string{"shop-db-auth", "cm-db-auth"} {
		secret := harness.Find(w.World, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.NS, Name: name}})
		w.Expect(secret).NotTo(BeNil())
		maps.Copy(out, map[string]string{name + " root": string(secret.Data["root-password"]), name + " user": string(secret.Data["password"])})
	}
	return out
}

// replicas returns the number of pods of each Deployment.
func (w *world) replicas() map[string]string {
	w.Helper()
	var list appsv1.DeploymentList
	w.Expect(w.List(w.Context(), &list, client.InNamespace(w.NS))).To(Succeed())
	out := map[string]string{}
	for i := range list.Items {
		out[list.Items[i].Name] = fmt.Sprint(*list.Items[i].Spec.Replicas)
	}
	return out
}

// operations returns the requests in the specs.
func (w *world) operations() map[string]string {
	w.Helper()
	out := map[string]string{}
	w.observed(w.shop)
	w.observed(w.hello)
	w.observed(w.cm)
	for name, o := range map[string]appsapi.Operations{"shop": w.shop.Spec.Operations, "hello": w.hello.Spec.Operations, "cm": w.cm.Spec.Operations} {
		text, err := json.Marshal(o)
		w.Expect(err).NotTo(HaveOccurred())
		out[name] = string(text)
	}
	return out
}

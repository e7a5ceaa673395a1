package policy_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-dev/holdfast/internal/testutil"
	"github.com/holdfast-dev/holdfast/internal/testutil/controlplane"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
)

const accountPolicy = "holdfast-operator-account"

// TestStolenToken uses the token of the operator as an attacker would. Every attempt must be rejected, either by RBAC or
// by the policy. The writes of the operator itself must be allowed.
func TestStolenToken(t *testing.T) {
	for overlay, ns := range map[string]string{"cluster-wide": shopNamespace, "namespaced": "team-a"} {
		t.Run(overlay, func(t *testing.T) {
			t.Parallel()
			w := newTheft(t, overlay, ns)
			rejectedBy := map[string]int{}
			all := attempts()
			for _, name := range sortedKeys(all) {
				err := all[name](w)
				by := "RBAC"
				switch text := errorText(err); {
				case !apierrors.IsForbidden(err):
					t.Errorf("%s: not rejected: %v", name, err)
				case strings.Contains(text, "ValidatingAdmissionPolicy '"+accountPolicy+"'"):
					by = accountPolicy
				case strings.Contains(text, "ValidatingAdmissionPolicy '"+rightsPolicy+"'"):
					by = rightsPolicy // the operator has no permission to create pods either
				}
				rejectedBy[by]++
				_, reason, _ := strings.Cut(errorText(err), "denied request: ")
				t.Logf("| %s | %s | %s |", name, by, reason)
			}
			t.Logf("%d attempts: %v", len(all), rejectedBy)
			w.expectOperatorWrites()
		})
	}
}

// theft is a cluster with an installation, in which an attacker has the token of the operator.
type theft struct {
	*world
	thief client.Client
	token string
	ns    string
	// app is an application of a user.
	app *unstructured.Unstructured
}

func newTheft(t *testing.T, overlay, ns string) *theft {
	plane := testutil.ControlPlane(t, controlplane.Options{})
	admin, err := client.New(plane.Config, client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	w := &theft{world: &world{WithT: NewWithT(t), t: t, plane: plane, admin: admin}, ns: ns}
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
	root, err := operator.RepoRoot()
	w.Expect(err).NotTo(HaveOccurred())
	_, err = plane.InstallCRDs(filepath.Join(root, "config", "crd"))
	w.Expect(err).NotTo(HaveOccurred())
	w.install(root, overlay)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "holdfast-system", Name: "holdfast-operator"}}
	request := &authenticationv1.TokenRequest{}
	w.Expect(admin.SubResource("token").Create(t.Context(), account, request)).To(Succeed())
	w.token = request.Status.Token
	w.thief, err = client.New(w.thiefConfig(), client.Options{Scheme: clientgoscheme.Scheme, Mapper: admin.RESTMapper()})
	w.Expect(err).NotTo(HaveOccurred())
	w.prepare()
	w.Eventually(func() string {
		return errorText(w.thief.Create(t.Context(), w.object(`{apiVersion: v1, kind: ConfigMap, metadata: {name: probe}}`), client.DryRunAll))
	}, waitTimeout, "100ms").Should(ContainSubstring(accountPolicy))
	return w
}

// thiefConfig connects with the stolen token.
func (w *theft) thiefConfig() *rest.Config {
	config := rest.AnonymousClientConfig(w.plane.Config)
	config.BearerToken, config.QPS = w.token, -1
	return config
}

// victims are objects of other users, and accounts with permissions that are enough to take over the cluster.
const victims = `
{apiVersion: v1, kind: ServiceAccount, metadata: {name: admin}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: escalator}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: impersonator}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: deployer}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: binder}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: binder}, rules: [{apiGroups: [rbac.authorization.k8s.io], resources: [clusterroles], resourceNames: [cluster-admin], verbs: [bind]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: binder}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: binder}, subjects: [{kind: ServiceAccount, name: binder, namespace: NS}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: escalator}, rules: [{apiGroups: [rbac.authorization.k8s.io], resources: [clusterroles], verbs: [escalate, update]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: impersonator}, rules: [{apiGroups: [""], resources: [users], verbs: [impersonate]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: deployer}, rules: [{apiGroups: [apps], resources: [deployments], verbs: [create]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: admin}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}, subjects: [{kind: ServiceAccount, name: admin, namespace: NS}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: escalator}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: escalator}, subjects: [{kind: ServiceAccount, name: escalator, namespace: NS}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: impersonator}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: impersonator}, subjects: [{kind: ServiceAccount, name: impersonator, namespace: NS}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: deployer, namespace: kube-system}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: deployer}, subjects: [{kind: ServiceAccount, name: deployer, namespace: NS}]}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: foreign}, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: x}]}}}}
---
{apiVersion: v1, kind: Secret, metadata: {name: foreign}, stringData: {a: b}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: foreign}, data: {a: b}}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: foreign}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: foreign}, spec: {containers: [{name: c, image: x}]}}
---
{apiVersion: apps/v1, kind: ControllerRevision, metadata: {name: foreign}, revision: 1, data: {spec: {}}}
---
{apiVersion: v1, kind: Service, metadata: {name: foreign}, spec: {ports: [{port: 80}]}}
---
{apiVersion: v1, kind: Secret, metadata: {name: holdfast-content-key, namespace: holdfast-system}, stringData: {key: x}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: coredns, namespace: kube-system}, data: {Corefile: x}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: coredns, namespace: kube-system}, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: x}]}}}}
`

// prepare creates the victims, an application, and an own Deployment of the operator.
func (w *theft) prepare() {
	w.t.Helper()
	for manifest := range strings.SplitSeq(strings.ReplaceAll(victims, "NS", w.ns), "\n---\n") {
		w.create(w.object(manifest))
	}
	w.app = w.object(`{apiVersion: apps.holdfast.dev/v1alpha1, kind: AppStack, metadata: {name: shop}, spec: {components: [{name: web, service: {image: "shop/web:1"}}]}}`)
	w.Eventually(func() error { return w.admin.Create(w.t.Context(), w.app) }, waitTimeout, "100ms").Should(Succeed())
	// The label that namespaces of network and storage plugins have must not help.
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.ns}}
	w.Expect(w.admin.Patch(w.t.Context(), ns, mergePatch(w.t, "privileged", "metadata", "labels", "pod-security.kubernetes.io/enforce"))).To(Succeed())
	own := w.ownDeployment("own", "")
	w.Eventually(func() error { return w.thief.Create(w.t.Context(), own) }, waitTimeout, "100ms").Should(Succeed(), "the operator can create its own objects")
}

// object parses a manifest and sets the namespace, unless it has one.
func (w *theft) object(manifest string) *unstructured.Unstructured {
	w.t.Helper()
	obj := &unstructured.Unstructured{}
	w.Expect(yaml.UnmarshalStrict([]byte(manifest), &obj.Object)).To(Succeed(), manifest)
	if obj.GetNamespace() == "" && !strings.HasPrefix(obj.GetKind(), "Cluster") {
		obj.SetNamespace(w.ns)
	}
	return obj
}

// owned parses a manifest and adds the labels and the owner that the operator sets.
func (w *theft) owned(manifest string) *unstructured.Unstructured {
	w.t.Helper()
	obj := w.object(manifest)
	labels := obj.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, map[string]string{"app.kubernetes.io/managed-by": "holdfast", "apps.holdfast.dev/owner-uid": string(w.app.GetUID())})
	obj.SetLabels(labels)
	obj.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: w.app.GetAPIVersion(), Kind: w.app.GetKind(), Name: w.app.GetName(), UID: w.app.GetUID(), Controller: new(true), BlockOwnerDeletion: new(true),
	}})
	return obj
}

// ownDeployment returns a Deployment as the operator creates it, with additional fields of the pod.
func (w *theft) ownDeployment(name, podFields string) *unstructured.Unstructured {
	return w.owned(fmt.Sprintf(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: %q}, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {%s}}}}`, name, withContainer(podFields)))
}

// withContainer adds a container to the fields of a pod that have none.
func withContainer(podFields string) string {
	if strings.Contains(podFields, "containers:") {
		return podFields
	}
	return strings.TrimSuffix("containers: [{name: c, image: x}], "+podFields, ", ")
}

// existing returns a victim.
func (w *theft) existing(apiVersion, kind, name string) *unstructured.Unstructured {
	w.t.Helper()
	namespace, name, found := strings.Cut(name, "/")
	if !found {
		namespace, name = w.ns, namespace
	}
	obj := &unstructured.Unstructured{}
	obj.SetAPIVersion(apiVersion)
	obj.SetKind(kind)
	w.Expect(w.admin.Get(w.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, obj)).To(Succeed())
	return obj
}

// expectOperatorWrites checks that writes of the operator are allowed, after all attempts.
func (w *theft) expectOperatorWrites() {
	ctx := w.t.Context()
	own := w.existing("apps/v1", "Deployment", "own")
	w.Expect(w.thief.Patch(ctx, own, mergePatch(w.t, 3, "spec", "replicas"))).To(Succeed())
	w.Expect(w.thief.Patch(ctx, w.app.DeepCopy(), mergePatch(w.t, []string{"apps.holdfast.dev/ordered-deletion"}, "metadata", "finalizers"))).To(Succeed())
	w.Expect(w.thief.Status().Patch(ctx, w.app.DeepCopy(), mergePatch(w.t, 1, "status", "observedGeneration"))).To(Succeed())
	adoptable := w.existing("apps/v1", "Deployment", "foreign")
	w.Expect(w.admin.Patch(ctx, adoptable, mergePatch(w.t, "true", "metadata", "annotations", "apps.holdfast.dev/adopt"))).To(Succeed())
	adopted := w.ownDeployment("foreign", "")
	w.Expect(w.thief.Apply(ctx, client.ApplyConfigurationFromUnstructured(adopted), client.FieldOwner("holdfast"), client.ForceOwnership)).To(Succeed(), "a user allows adoption")
	w.Expect(w.thief.Delete(ctx, own)).To(Succeed())
	claim := w.object(`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data-shop-db-0, labels: {app.kubernetes.io/managed-by: holdfast, apps.holdfast.dev/workload: shop-db}}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}`)
	w.create(claim)
	w.Expect(w.thief.Patch(ctx, claim, mergePatch(w.t, "true", "metadata", "annotations", "apps.holdfast.dev/confirm-delete"))).To(Succeed())
	w.Expect(w.thief.Delete(ctx, claim)).To(Succeed())
	w.Expect(w.thief.Create(ctx, w.object(`{apiVersion: v1, kind: Secret, metadata: {name: holdfast-database-ca, namespace: holdfast-system}}`))).To(Succeed())
	w.Expect(w.thief.Create(ctx, w.owned(`{apiVersion: apps/v1, kind: ControllerRevision, metadata: {name: shop-1}, revision: 1, data: {gzip: ""}}`))).To(Succeed())
}

package main

import (
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/enginetest"
)

// testPolicies makes requests that the generated admission policies reject.
func testPolicies(t *testing.T, plane *enginetest.ControlPlane, c client.Client, g *Guestbook) {
	w := NewWithT(t)
	clientFor := func(user string) client.Client {
		as, err := client.New(plane.ConfigFor(t, user), client.Options{Scheme: c.Scheme(), Mapper: c.RESTMapper()})
		w.Expect(err).NotTo(HaveOccurred())
		return as
	}
	objectMeta := metav1.ObjectMeta{Namespace: g.Namespace, Name: "writer"}
	w.Expect(c.Create(t.Context(), &rbacv1.Role{ObjectMeta: objectMeta, Rules: []rbacv1.PolicyRule{{APIGroups: []string{"example.com"}, Resources: []string{"guestbooks"}, Verbs: []string{"*"}}}})).To(Succeed())
	w.Expect(c.Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: objectMeta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "writer"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "writer"}}})).To(Succeed())
	writer := clientFor("writer")
	w.Eventually(func() error {
		book := readSample(t)
		book.Namespace, book.Name = g.Namespace, "escalates"
		return writer.Create(t.Context(), book)
	}, "30s").Should(MatchError(ContainSubstring(`user "writer" cannot create pods in namespace "` + g.Namespace + `", but Guestbook "escalates" can create them`)))

	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: g.Namespace, Name: "data-visitors-store-0"}}
	w.Expect(c.Delete(t.Context(), claim)).To(MatchError(ContainSubstring("annotate --overwrite persistentvolumeclaim data-visitors-store-0 guestbook.example.com/confirm-delete=true")))

	operator := clientFor("system:serviceaccount:holdfast-system:guestbook-operator")
	web := &appsv1.Deployment{}
	w.Expect(c.Get(t.Context(), client.ObjectKey{Namespace: g.Namespace, Name: "visitors-web"}, web)).To(Succeed())
	stolen := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: g.Namespace, Name: "stolen", Labels: web.Labels, OwnerReferences: web.OwnerReferences}, Spec: *web.Spec.DeepCopy()}
	stolen.Spec.Template.Spec.HostNetwork = true
	w.Expect(operator.Create(t.Context(), stolen)).To(MatchError(ContainSubstring("have access to the node")))
	stolen.Spec.Template.Spec.HostNetwork, stolen.OwnerReferences = false, nil
	w.Expect(operator.Create(t.Context(), stolen)).To(MatchError(ContainSubstring("must have the labels of Holdfast, and an owner of kind Guestbook")))
}

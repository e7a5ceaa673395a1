package cloudmanager

import (
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/mariadb"
	"github.com/holdfast-dev/holdfast/internal/testutil/harness"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
)

// TestMigratesLegacyDatabase starts the operator with a CloudManager whose database was created before databases existed
// as a component: a server with a root account only. It is restarted once, and keeps its data and password.
func TestMigratesLegacyDatabase(t *testing.T) {
	t.Parallel()
	s := harness.New(t, harness.BehaviorByTag(behaviors), operator.Options{})
	w := &world{s.NewWorld(t)}
	w.Expect(s.Operator.Kill()).To(Succeed())
	w.create(unmodified)
	cm := w.cloudManager()
	w.Expect(w.Get(w.Context(), client.ObjectKeyFromObject(cm), cm)).To(Succeed())
	w.createLegacyChildren(cm)
	pod, claim := &corev1.Pod{ObjectMeta: w.objectMeta("cm-db-0")}, w.claim("data-cm-db-0")
	w.Eventually(func() bool {
		claim = w.claim("data-cm-db-0")
		return w.Get(w.Context(), client.ObjectKeyFromObject(pod), pod) == nil && pod.Status.Phase == corev1.PodRunning && claim != nil
	}, "60s").Should(BeTrue())
	volume := w.Databases.Volume(w.Context(), pod)
	w.Expect(volume).NotTo(BeNil())
	w.Expect(volume.Hashes("db")).To(BeEmpty())
	volume.AddRows("shop", 3)

	w.Expect(s.Operator.Start()).To(Succeed())
	w.Expect(s.Operator.WaitReady(t.Context())).To(Succeed())
	w.waitReady()
	w.Expect(w.claim("data-cm-db-0").UID).To(Equal(claim.UID))
	w.Expect(s.Databases.VolumeOfClaim(claim.UID)).To(BeIdenticalTo(volume))
	w.Expect(string(w.secret("cm-db-auth").Data["root-password"])).To(Equal(rootPassword))
	w.Expect(volume.Hashes("root")).To(Equal([]string{mariadb.Hash(rootPassword)}))
	w.Expect(volume.Hashes("db")).To(Equal([]string{mariadb.Hash(string(w.secret("cm-db-binding").Data["password"]))}), "the application account")
	var templates appsv1.ControllerRevisionList
	w.Expect(w.List(w.Context(), &templates, client.InNamespace(w.NS), client.MatchingLabels{appsapi.DefaultKeys.Workload: "statefulset-cm-db"})).To(Succeed())
	w.Expect(templates.Items).To(HaveLen(2), "each pod template is a restart")
}

// createLegacyChildren creates the children of an operator version without database components.
func (w *world) createLegacyChildren(cm *appsapi.CloudManager) {
	w.Helper()
	db := cm.Spec.DB
	legacy := appsapi.Component{Name: "db", ResourceName: db.StatefulSet.Name, Stateful: &appsapi.StatefulComponent{
		Storage: []appsapi.StorageSpec{{
			Name: "data", MountPath: "/var/lib/mysql", ClassName: db.StatefulSet.Storage.Class,
			AccessMode: db.StatefulSet.Storage.AccessModes, Size: db.StatefulSet.Storage.Size,
		}},
		Credentials: []appsapi.Credential{{Key: "root-password", Env: "MARIADB_ROOT_PASSWORD"}},
	}}
	legacy.Stateful.Image, legacy.Stateful.Replicas = db.StatefulSet.Image, new(int32(1))
	legacy.Stateful.Ports = []appsapi.Port{{Name: "mysql", Port: mariadb.Port, Protocol: corev1.ProtocolTCP}}
	owner := desired.Owner{Keys: appsapi.DefaultKeys, APIVersion: appsapi.GroupVersion.String(), Kind: "CloudManager", Namespace: cm.Namespace, Name: cm.Name, UID: cm.UID}
	component := desired.Build(owner, desired.ExpandComponents([]appsapi.Component{legacy}), desired.ClusterState{})[0]
	secret := &corev1.Secret{ObjectMeta: w.objectMeta("cm-db-auth"), StringData: map[string]string{"root-password": rootPassword}}
	secret.Labels = desired.RetainedLabels(owner, component)
	w.Expect(w.Create(w.Context(), secret)).To(Succeed())
	for _, child := range component.Children {
		config, err := child.Render(nil)
		w.Expect(err).NotTo(HaveOccurred())
		patch, err := config.Patch("", "1")
		w.Expect(err).NotTo(HaveOccurred())
		obj := &unstructured.Unstructured{}
		obj.SetGroupVersionKind(child.Kind)
		obj.SetNamespace(w.NS)
		obj.SetName(child.Name)
		w.Expect(w.Patch(w.Context(), obj, client.RawPatch(types.ApplyPatchType, patch), client.FieldOwner(appsapi.DefaultKeys.FieldManager))).To(Succeed())
	}
	w.Eventually(func() *corev1.PersistentVolumeClaim { return w.claim("data-cm-db-0") }, "60s").ShouldNot(BeNil())
	claim := w.claim("data-cm-db-0")
	before := client.MergeFrom(claim.DeepCopy()) // the storage simulator writes it, too
	claim.Labels = desired.RetainedLabels(owner, component)
	w.Expect(w.Patch(w.Context(), claim, before)).To(Succeed())
}

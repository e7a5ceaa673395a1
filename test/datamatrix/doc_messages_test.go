package datamatrix

import (
	"os"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/harness"
	"github.com/holdfast-dev/holdfast/internal/testutil/volsim"
	"github.com/holdfast-dev/holdfast/internal/testutil/watcher"
)

// docChecker performs the operations of the page, in the namespace that the page uses, and checks that the page quotes
// the actual messages.
type docChecker struct {
	*stackDriver
	docText              string
	fullStorageNamespace string // keeps its claims out of the way of the other checks
}

func checkQuotedMessages(t *testing.T, s *harness.Harness) {
	text, err := os.ReadFile(docFile(t))
	if err != nil {
		t.Fatal(err)
	}
	w := s.NewWorld(t)
	fullStorageNamespace := w.NS
	w.NS = "shop"
	w.Expect(w.Create(w.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.NS}})).To(Succeed())
	r := &docChecker{newStackDriver(w), string(text), fullStorageNamespace}
	r.beginStep("the page")
	r.create(&appsapi.AppStack{ObjectMeta: r.objectMeta("shop"), Spec: r.spec()})
	r.waitSettled()
	r.checkStorageRefused()
	r.checkCredentialsLost()
	r.checkDataConflict()
	r.checkDataRetained()
	r.checkAdoption()
}

func (r *docChecker) expectQuoted(message string) {
	r.Helper()
	if !strings.Contains(r.docText, message) {
		r.Errorf("%s does not quote the message: %s", docPath, message)
	}
}

// expectReadyMessage waits for a reason and checks that the page quotes the message.
func (r *docChecker) expectReadyMessage(stack, reason, part string) {
	r.Helper()
	r.expectReadyMessageOf(&appsapi.AppStack{ObjectMeta: r.objectMeta(stack)}, reason, part)
}

// expectReadyMessageOf does the same in any namespace; the page uses namespace shop.
func (r *docChecker) expectReadyMessageOf(app *appsapi.AppStack, reason, part string) {
	r.Helper()
	var condition string
	r.Eventually(func() string {
		condition = r.Condition(app, "Ready")
		return condition
	}, stepTimeout, "100ms").Should(And(HavePrefix("False/"+reason+": "), ContainSubstring(part)))
	_, message, _ := strings.Cut(condition, ": ")
	r.expectQuoted(strings.ReplaceAll(message, " "+app.Namespace+"/", " shop/"))
}

func (r *docChecker) editVolume(edit func(*appsapi.StorageSpec)) {
	r.Helper()
	r.editSpec(func(s *appsapi.AppStackSpec) { edit(&s.Components[0].Stateful.Storage[0]) })
}

func (r *docChecker) checkStorageRefused() {
	r.editVolume(func(s *appsapi.StorageSpec) { s.Size = resource.MustParse("512Mi") })
	r.expectReadyMessage("shop", "StorageChangeRejected", "cannot shrink")
	r.editVolume(func(s *appsapi.StorageSpec) { s.Size, s.ClassName = resource.MustParse("1Gi"), new(volsim.Full) })
	r.expectReadyMessage("shop", "StorageChangeRejected", "cannot be changed to")
	r.editVolume(func(s *appsapi.StorageSpec) { s.ClassName, s.AccessMode = new(volsim.Standard), corev1.ReadWriteMany })
	r.expectReadyMessage("shop", "StorageChangeRejected", "access mode")
	r.editSpec(func(s *appsapi.AppStackSpec) {
		db := s.Components[0].Stateful
		db.Storage[0].AccessMode = ""
		db.Storage = append(db.Storage, appsapi.StorageSpec{Name: "logs", MountPath: "/logs", Size: resource.MustParse("1Gi")})
	})
	r.expectReadyMessage("shop", "StorageChangeRejected", "volumes cannot be added")
	r.applySpec()
	r.waitSettled()
	r.checkStorageFull()
}

// checkStorageFull uses another stack, because its claims would keep requesting storage.
func (r *docChecker) checkStorageFull() {
	db := r.spec().Components[0]
	db.Stateful.Storage[0].ClassName = new(volsim.Full)
	full := &appsapi.AppStack{ObjectMeta: r.objectMeta("shop"), Spec: appsapi.AppStackSpec{Components: []appsapi.Component{db}}}
	full.Namespace = r.fullStorageNamespace
	r.Expect(r.Create(r.Context(), full)).To(Succeed())
	r.WaitReady(full)
	harness.Edit(r.World, full, func(a *appsapi.AppStack) { a.Spec.Components[0].Stateful.Storage[0].Size = resource.MustParse("8Gi") })
	r.expectReadyMessageOf(full, "StorageChangeRejected", "The storage backend cannot expand")
	r.purgeWithComponent(full)
}

func (r *docChecker) purgeWithComponent(app *appsapi.AppStack) {
	web := r.spec().Components[1]
	web.Bindings = nil
	harness.Edit(r.World, app, func(a *appsapi.AppStack) {
		a.Spec.DeletionPolicy, a.Spec.Components = appsapi.DeletionDelete, []appsapi.Component{web}
	})
	r.WaitReady(app)
	r.Eventually(func() []corev1.PersistentVolumeClaim {
		var left corev1.PersistentVolumeClaimList
		r.Expect(r.List(r.Context(), &left, client.InNamespace(app.Namespace))).To(Succeed())
		return left.Items
	}, stepTimeout, "100ms").Should(BeEmpty())
}

func (r *docChecker) checkCredentialsLost() {
	secret := &corev1.Secret{ObjectMeta: r.objectMeta("shop-db-auth")}
	r.Expect(r.Get(r.Context(), client.ObjectKeyFromObject(secret), secret)).To(Succeed())
	r.manuallyDeleted[secret.UID] = true
	r.Expect(r.Delete(r.Context(), harness.ConfirmDelete(r.World, secret))).To(Succeed())
	r.expectReadyMessage("shop", "CredentialsLost", "shop-db-auth")
	restored := &corev1.Secret{ObjectMeta: r.objectMeta("shop-db-auth"), Data: secret.Data}
	restored.Annotations = map[string]string{appsapi.DefaultKeys.Adopt: "true"}
	r.Expect(r.Create(r.Context(), restored)).To(Succeed())
	r.waitSettled()
}

func (r *docChecker) checkDataConflict() {
	r.name = "database"
	r.applySpec()
	r.expectReadyMessage("shop", "DataConflict", "would start with empty volumes")
	r.renamedFrom = "db"
	r.applySpec()
	r.waitSettled()
	r.renamedFrom, r.name = r.name, "db"
	r.applySpec()
	r.waitSettled()
}

func (r *docChecker) checkDataRetained() {
	r.present = false
	r.applySpec()
	r.waitSettled()
	for _, kept := range r.stackIn(r.watcher.State()).Status.Retained {
		r.expectQuoted(kept.RemoveCommand)
	}
	var list eventsv1.EventList
	r.Eventually(func() []eventsv1.Event {
		r.Expect(r.List(r.Context(), &list, client.InNamespace(r.NS), client.MatchingFields{"reason": "DataRetained"})).To(Succeed())
		return list.Items
	}, stepTimeout, "100ms").ShouldNot(BeEmpty())
	for i := range list.Items {
		r.expectQuoted(list.Items[i].Note)
	}
	r.deleteStack()
}

// checkAdoption transfers the data to another stack.
func (r *docChecker) checkAdoption() {
	claim := claimIn(r.watcher.State())
	r.present = true
	spec := r.spec()
	spec.Components[0].ResourceName = "shop-db"
	store := &appsapi.AppStack{ObjectMeta: r.objectMeta("store"), Spec: spec}
	r.create(store)
	r.expectReadyMessage("store", "DataConflict", claim.Name+" belongs to component")
	r.Expect(r.Delete(r.Context(), store)).To(Succeed())
	r.waitFor("deletion of the stack", func(s watcher.State) bool { return len(s.Live(stackResource)) == 0 })
	for _, kept := range []client.Object{&corev1.PersistentVolumeClaim{ObjectMeta: r.objectMeta(claim.Name)}, &corev1.Secret{ObjectMeta: r.objectMeta("shop-db-auth")}} {
		r.Expect(r.Patch(r.Context(), kept, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"apps.holdfast.dev/adopt":"true"}}}`)))).To(Succeed())
	}
	r.create(&appsapi.AppStack{ObjectMeta: r.objectMeta("store"), Spec: spec})
	r.WaitReady(&appsapi.AppStack{ObjectMeta: r.objectMeta("store")})
	r.Expect(claimIn(r.watcher.State()).UID).To(Equal(claim.UID))
	r.Expect(r.check(r.watcher.Events())).To(BeEmpty())
	r.checkAdoptionIsExclusive(spec)
}

// checkAdoptionIsExclusive checks that a third stack does not get data that the second one uses, although the annotation
// is still set.
func (r *docChecker) checkAdoptionIsExclusive(spec appsapi.AppStackSpec) {
	r.Expect(r.Create(r.Context(), &appsapi.AppStack{ObjectMeta: r.objectMeta("third"), Spec: spec})).To(Succeed())
	third := &appsapi.AppStack{ObjectMeta: r.objectMeta("third")}
	r.Eventually(func() string { return r.Condition(third, "Ready") }, stepTimeout, "100ms").Should(HavePrefix("False/NameConflict: "))
	r.waitIdle()
	r.Expect(claimIn(r.watcher.State()).Labels).To(HaveKeyWithValue("app.kubernetes.io/instance", "store"))
	r.WaitReady(&appsapi.AppStack{ObjectMeta: r.objectMeta("store")})
}

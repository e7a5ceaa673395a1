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
	"github.com/holdfast-dev/holdfast/internal/testutil/stage"
	"github.com/holdfast-dev/holdfast/internal/testutil/volsim"
	"github.com/holdfast-dev/holdfast/internal/testutil/watcher"
)

// reader does what the page tells of, in the namespace that it tells of, and holds what is
// said against it.
type reader struct {
	*player
	page string
	full string // a namespace for what would be in the way
}

func quotesWhatIsSaid(t *testing.T, s *stage.Stage) {
	text, err := os.ReadFile(pagePath(t))
	if err != nil {
		t.Fatal(err)
	}
	w := s.World(t)
	full := w.NS
	w.NS = "shop"
	w.Expect(w.Create(w.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.NS}})).To(Succeed())
	r := &reader{newPlayer(w), string(text), full}
	r.mark("the page")
	r.create(&appsapi.AppStack{ObjectMeta: r.meta("shop"), Spec: r.spec()})
	r.settles()
	r.storage()
	r.lost()
	r.conflict()
	r.kept()
	r.handedOver()
}

func (r *reader) quotes(said string) {
	r.Helper()
	if !strings.Contains(r.page, said) {
		r.Errorf("%s does not say: %s", page, said)
	}
}

// told waits for a reason, and for the page to have its message.
func (r *reader) told(stack, reason, part string) {
	r.Helper()
	r.saidOf(&appsapi.AppStack{ObjectMeta: r.meta(stack)}, reason, part)
}

// saidOf does that in any namespace; the page is about one that is called shop.
func (r *reader) saidOf(app *appsapi.AppStack, reason, part string) {
	r.Helper()
	var said string
	r.Eventually(func() string {
		said = r.Condition(app, "Ready")
		return said
	}, patience, "100ms").Should(And(HavePrefix("False/"+reason+": "), ContainSubstring(part)))
	_, message, _ := strings.Cut(said, ": ")
	r.quotes(strings.ReplaceAll(message, " "+app.Namespace+"/", " shop/"))
}

func (r *reader) volume(how func(*appsapi.StorageSpec)) {
	r.Helper()
	r.change(func(s *appsapi.AppStackSpec) { how(&s.Components[0].Stateful.Storage[0]) })
}

func (r *reader) storage() {
	r.volume(func(s *appsapi.StorageSpec) { s.Size = resource.MustParse("512Mi") })
	r.told("shop", "StorageRefused", "cannot shrink")
	r.volume(func(s *appsapi.StorageSpec) { s.Size, s.ClassName = resource.MustParse("1Gi"), new(volsim.Full) })
	r.told("shop", "StorageRefused", "cannot move")
	r.volume(func(s *appsapi.StorageSpec) { s.ClassName, s.AccessMode = new(volsim.Standard), corev1.ReadWriteMany })
	r.told("shop", "StorageRefused", "access mode")
	r.change(func(s *appsapi.AppStackSpec) {
		db := s.Components[0].Stateful
		db.Storage[0].AccessMode = ""
		db.Storage = append(db.Storage, appsapi.StorageSpec{Name: "logs", MountPath: "/logs", Size: resource.MustParse("1Gi")})
	})
	r.told("shop", "StorageRefused", "none can be added")
	r.edit()
	r.settles()
	r.tooMuch()
}

// tooMuch is asked of another stack: the claims of this one would go on asking for it.
func (r *reader) tooMuch() {
	db := r.spec().Components[0]
	db.Stateful.Storage[0].ClassName = new(volsim.Full)
	full := &appsapi.AppStack{ObjectMeta: r.meta("shop"), Spec: appsapi.AppStackSpec{Components: []appsapi.Component{db}}}
	full.Namespace = r.full
	r.Expect(r.Create(r.Context(), full)).To(Succeed())
	r.BecomesReady(full)
	stage.Edit(r.World, full, func(a *appsapi.AppStack) { a.Spec.Components[0].Stateful.Storage[0].Size = resource.MustParse("8Gi") })
	r.saidOf(full, "StorageRefused", "The storage cannot make")
	r.goesWithItsComponent(full)
}

func (r *reader) goesWithItsComponent(app *appsapi.AppStack) {
	web := r.spec().Components[1]
	web.Bindings = nil
	stage.Edit(r.World, app, func(a *appsapi.AppStack) {
		a.Spec.DeletionPolicy, a.Spec.Components = appsapi.DeletionDelete, []appsapi.Component{web}
	})
	r.BecomesReady(app)
	r.Eventually(func() []corev1.PersistentVolumeClaim {
		var left corev1.PersistentVolumeClaimList
		r.Expect(r.List(r.Context(), &left, client.InNamespace(app.Namespace))).To(Succeed())
		return left.Items
	}, patience, "100ms").Should(BeEmpty())
}

func (r *reader) lost() {
	secret := &corev1.Secret{ObjectMeta: r.meta("shop-db-auth")}
	r.Expect(r.Get(r.Context(), client.ObjectKeyFromObject(secret), secret)).To(Succeed())
	r.byHand[secret.UID] = true
	r.Expect(r.Delete(r.Context(), stage.Confirmed(r.World, secret))).To(Succeed())
	r.told("shop", "CredentialsLost", "shop-db-auth")
	r.Expect(r.Create(r.Context(), &corev1.Secret{ObjectMeta: r.meta("shop-db-auth"), Data: secret.Data})).To(Succeed())
	r.settles()
}

func (r *reader) conflict() {
	r.name = "database"
	r.edit()
	r.told("shop", "DataConflict", "would start empty")
	r.was = "db"
	r.edit()
	r.settles()
	r.was, r.name = r.name, "db"
	r.edit()
	r.settles()
}

func (r *reader) kept() {
	r.present = false
	r.edit()
	r.settles()
	for _, kept := range r.stackIn(r.eye.State()).Status.Retained {
		r.quotes(kept.Remove)
	}
	var list eventsv1.EventList
	r.Eventually(func() []eventsv1.Event {
		r.Expect(r.List(r.Context(), &list, client.InNamespace(r.NS), client.MatchingFields{"reason": "DataRetained"})).To(Succeed())
		return list.Items
	}, patience, "100ms").ShouldNot(BeEmpty())
	for i := range list.Items {
		r.quotes(list.Items[i].Note)
	}
	r.deleted()
}

// handedOver lets another stack have the data.
func (r *reader) handedOver() {
	claim := claimIn(r.eye.State())
	r.present = true
	spec := r.spec()
	spec.Components[0].ResourceName = "shop-db"
	store := &appsapi.AppStack{ObjectMeta: r.meta("store"), Spec: spec}
	r.create(store)
	r.told("store", "DataConflict", claim.Name+" has the data of")
	r.Expect(r.Delete(r.Context(), store)).To(Succeed())
	r.until("the end of the stack", func(s watcher.State) bool { return len(s.Live(stacks)) == 0 })
	for _, kept := range []client.Object{&corev1.PersistentVolumeClaim{ObjectMeta: r.meta(claim.Name)}, &corev1.Secret{ObjectMeta: r.meta("shop-db-auth")}} {
		r.Expect(r.Patch(r.Context(), kept, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"apps.holdfast.dev/adopt":"true"}}}`)))).To(Succeed())
	}
	r.create(&appsapi.AppStack{ObjectMeta: r.meta("store"), Spec: spec})
	r.BecomesReady(&appsapi.AppStack{ObjectMeta: r.meta("store")})
	r.Expect(claimIn(r.eye.State()).UID).To(Equal(claim.UID))
	r.Expect(r.judge(r.eye.Events())).To(BeEmpty())
	r.handedOverOnce(spec)
}

// handedOverOnce: the annotation is still there, and a third stack does not get what the
// second uses.
func (r *reader) handedOverOnce(spec appsapi.AppStackSpec) {
	r.Expect(r.Create(r.Context(), &appsapi.AppStack{ObjectMeta: r.meta("third"), Spec: spec})).To(Succeed())
	third := &appsapi.AppStack{ObjectMeta: r.meta("third")}
	r.Eventually(func() string { return r.Condition(third, "Ready") }, patience, "100ms").Should(HavePrefix("False/NameConflict: "))
	r.fallsSilent()
	r.Expect(claimIn(r.eye.State()).Labels).To(HaveKeyWithValue("app.kubernetes.io/instance", "store"))
	r.BecomesReady(&appsapi.AppStack{ObjectMeta: r.meta("store")})
}

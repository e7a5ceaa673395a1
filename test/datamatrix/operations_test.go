package datamatrix

import (
	"math"
	"slices"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/harness"
	"github.com/holdfast-dev/holdfast/internal/testutil/volsim"
	"github.com/holdfast-dev/holdfast/internal/testutil/watcher"
)

// operation is something that people do to a component with data. Each makes sense after
// each other one, also when that left no component.
type operation struct {
	name string
	// What the page says of it.
	title, volume, password, pods string
	// keepsPod is set when the pod of a component that is there is not replaced.
	keepsPod bool
	run      func(*stackDriver)
}

var operations = []operation{
	{"rename", "rename, with `renamedFrom`", "the same, labelled with the new name", "the same", "run on; the Service has the new name", true, (*stackDriver).rename},
	{"remove", "remove from the spec", "kept, listed in `status.retained`", "kept with it", "end", false, (*stackDriver).remove},
	{"re-add", "add again", "the same", "the same", "start with it", false, (*stackDriver).reAdd},
	{"scale", "scale to 0 and back", "the same", "the same", "end, and start with it", false, (*stackDriver).scale},
	{"delete-retain", "delete the stack with `Retain`, create it again", "kept, and found again", "kept, and found again", "end, and start with it", false, (*stackDriver).deleteRetain},
	{"delete-delete", "delete the stack with `Delete`, create it again", "deleted; a new, empty one; what was retained before stays", "deleted with the volume; a new one", "end, and start empty", false, (*stackDriver).deletePurge},
	{"grow", "a larger `size`", "the same, grows", "the same", "run on", true, (*stackDriver).grow},
	{"shrink", "a smaller `size`", "the same, as large as it was; `StorageChangeRejected`", "the same", "run on", true, (*stackDriver).shrink},
	{"class", "another `className`", "the same, of the class it was; `StorageChangeRejected`", "the same", "run on", true, (*stackDriver).changeClass},
	{"set", "delete the StatefulSet by hand", "the same", "the same", "are replaced", false, (*stackDriver).deleteStatefulSet},
	{"secret", "delete the Secret by hand", "the same", "none is made up; `CredentialsLost` until you restore it", "run on", true, (*stackDriver).deleteSecret},
	{"restore", "save as YAML, delete, create from it", "kept, and found again", "kept, and found again", "end, and start with it", false, (*stackDriver).restoreYAML},
}

// rename gives the component the other of two names.
func (p *stackDriver) rename() {
	p.renamedFrom, p.name = p.name, map[string]string{"db": "database", "database": "db"}[p.name]
	p.present = true
	p.applySpec()
	p.waitSettled()
}

// remove of what is not there adds it first, and does not wait.
func (p *stackDriver) remove() {
	if !p.present {
		p.present = true
		p.applySpec()
	}
	p.present = false
	p.applySpec()
	p.waitSettled()
}

// reAdd of what is there removes it first, and does not wait.
func (p *stackDriver) reAdd() {
	if p.present {
		p.present = false
		p.applySpec()
	}
	p.present = true
	p.applySpec()
	p.waitSettled()
}

// restart waits for another pod. Ready does not tell that the restart is over: while a change of
// the storage is rejected, it says the same before and after.
func (p *stackDriver) restart() {
	before := p.podUID()
	p.present = true
	p.restarts++
	p.applySpec()
	if before != "" && p.lostPassword == "" { // without its password nothing starts
		p.Eventually(p.podUID, stepTimeout).ShouldNot(Or(BeEmpty(), Equal(before)), "the pod was not replaced")
	}
	p.waitSettled()
}

// scale of what is not there adds it without pods first.
func (p *stackDriver) scale() {
	if p.database { // one server, which cannot be scaled: restart it
		p.restart()
		return
	}
	p.present, p.replicas = true, 0
	p.applySpec()
	p.waitFor("no pods", func(s watcher.State) bool {
		set, stack := setIn(s), p.stackIn(s)
		return set != nil && *set.Spec.Replicas == 0 && set.Status.Replicas == 0 && set.Status.ObservedGeneration == set.Generation &&
			stack.Generation >= p.generation && stack.Status.ObservedGeneration == stack.Generation
	})
	p.replicas = 1
	p.applySpec()
	p.waitSettled()
}

// deleteStack deletes the stack and waits until it is gone, as kubectl does.
func (p *stackDriver) deleteStack() {
	p.Helper()
	p.Expect(p.Delete(p.Context(), &appsapi.AppStack{ObjectMeta: p.objectMeta("shop")})).To(Succeed())
	p.waitFor("the end of the stack", func(s watcher.State) bool { return p.stackIn(s) == nil && setIn(s) == nil })
}

func (p *stackDriver) deleteRetain() {
	p.deleteStack()
	p.waitFor("a claim that says that it is kept", func(s watcher.State) bool {
		claim := claimIn(s)
		return claim != nil && claim.Labels[appsapi.LabelRetained] == "true"
	})
	p.create(&appsapi.AppStack{ObjectMeta: p.objectMeta("shop"), Spec: p.spec()})
	p.waitSettled()
}

// deletePurge leaves what is kept of a component that is not there: that was kept on
// purpose.
func (p *stackDriver) deletePurge() {
	p.deletionWindows = append(p.deletionWindows, window{from: p.clusterVersion(), to: math.MaxInt64})
	p.editSpec(func(s *appsapi.AppStackSpec) { s.DeletionPolicy = appsapi.DeletionDelete })
	p.deleteStack()
	if p.present {
		p.waitFor("the end of the data", func(s watcher.State) bool { return len(s.Live(claimResource)) == 0 && len(credentials(s)) == 0 })
		p.lostPassword, p.rows = "", 0
	}
	p.deletionWindows[len(p.deletionWindows)-1].to = p.clusterVersion()
	p.create(&appsapi.AppStack{ObjectMeta: p.objectMeta("shop"), Spec: p.spec()})
	p.waitSettled()
	if p.rows == 0 {
		p.writeRows()
	}
}

// grow of what is not there adds it with more.
func (p *stackDriver) grow() {
	size, _ := volumeSizeAndClass(p.watcher.State())
	p.present, p.size = true, 2*size
	p.applySpec()
	p.waitSettled()
	if p.lostPassword == "" && !p.storageRefused(p.watcher.State()) {
		p.waitExpanded()
	}
}

func (p *stackDriver) shrink() {
	size, _ := volumeSizeAndClass(p.watcher.State())
	p.present, p.size = true, min(size, p.size)/2
	p.applySpec()
	p.waitSettled()
}

func (p *stackDriver) changeClass() {
	p.present, p.class = true, map[string]string{volsim.Standard: volsim.Full, volsim.Full: volsim.Fixed}[p.class]
	p.applySpec()
	p.waitSettled()
}

// deleteStatefulSet of what is not there adds it first, and deletes the set as soon as it is seen.
func (p *stackDriver) deleteStatefulSet() {
	if !p.present {
		p.present = true
		p.applySpec()
		p.waitFor("a set", func(s watcher.State) bool { return setIn(s) != nil })
	}
	set := setIn(p.watcher.State())
	p.Expect(p.Delete(p.Context(), set, client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
	p.waitFor("another set", func(s watcher.State) bool {
		now := setIn(s)
		if p.lostPassword != "" { // nothing starts before it is back
			return now == nil
		}
		return now != nil && now.UID != set.UID
	})
	p.waitSettled()
}

// deleteSecret of one that is gone restores it first, and does not wait.
func (p *stackDriver) deleteSecret() {
	if p.lostPassword != "" {
		p.restoreSecret()
	}
	var list corev1.SecretList
	p.Expect(p.List(p.Context(), &list, client.InNamespace(p.NS))).To(Succeed())
	list.Items = slices.DeleteFunc(list.Items, func(s corev1.Secret) bool { return !isCredentials(s.Name) })
	p.Expect(list.Items).To(HaveLen(1))
	secret := &list.Items[0]
	p.lostPassword, p.savedSecret, p.deletedSecret = string(secret.Data["password"]), secret.Data, secret.Name
	p.manuallyDeleted[secret.UID] = true
	p.Expect(p.Delete(p.Context(), harness.ConfirmDelete(p.World, secret))).To(Succeed())
	p.waitFor("no Secret", func(s watcher.State) bool { return len(credentials(s)) == 0 })
	p.waitSettled()
}

// restoreSecret does what the message says.
func (p *stackDriver) restoreSecret() {
	p.Helper()
	content := map[string][]byte{}
	for _, key := range []string{"root-password", "password"} {
		if value := p.savedSecret[key]; value != nil {
			content[key] = value
		}
	}
	p.Expect(p.Create(p.Context(), &corev1.Secret{ObjectMeta: p.objectMeta(p.deletedSecret), Data: content})).To(Succeed())
	p.lostPassword = ""
}

// restoreYAML leaves everything in it that people leave in it.
func (p *stackDriver) restoreYAML() {
	saved := harness.Find(p.World, &appsapi.AppStack{ObjectMeta: p.objectMeta("shop")})
	p.deleteStack()
	saved.UID, saved.ResourceVersion, saved.Generation, saved.CreationTimestamp = "", "", 0, metav1.Time{}
	saved.ManagedFields, saved.Status = nil, appsapi.AppStackStatus{}
	p.create(saved)
	p.waitSettled()
}

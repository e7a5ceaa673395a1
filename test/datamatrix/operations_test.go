package datamatrix

import (
	"math"
	"slices"
	"strings"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/harness"
	"github.com/holdfast-dev/holdfast/internal/testutil/volsim"
	"github.com/holdfast-dev/holdfast/internal/testutil/watcher"
)

// operation is a user operation on a component with data. It must be valid after every other operation, including those
// that leave no component.
type operation struct {
	name string
	// The columns of the table in the page.
	title, volume, password, pods string
	// keepsPod means that the pod of an existing component is not replaced.
	keepsPod bool
	run      func(*stackDriver)
}

var operations = []operation{
	{"rename", "rename with `renamedFrom`", "kept, labeled with the new name", "kept", "keep running; the Service gets the new name", true, (*stackDriver).rename},
	{"revert", "rename, then apply the manifest from before", "kept, labeled with the first name again", "kept", "keep running; the Service gets its first name again", true, (*stackDriver).revertRename},
	{"remove", "remove from the spec", "retained, listed in `status.retained`", "retained", "terminate", false, (*stackDriver).remove},
	{"re-add", "add again", "reused", "reused", "start with the retained volume", false, (*stackDriver).reAdd},
	{"scale", "scale to 0 and back", "kept", "kept", "terminate, then start with the same volume", false, (*stackDriver).scale},
	{"delete-retain", "delete the stack with `Retain`, create it again", "retained, then reused", "retained, then reused", "terminate, then start with the same volume", false, (*stackDriver).deleteRetain},
	{"delete-delete", "delete the stack with `Delete`, create it again", "deleted; a new, empty volume; volumes retained earlier stay", "deleted with the volume; a new password", "terminate, then start empty", false, (*stackDriver).deletePurge},
	{"grow", "increase `size`", "expanded", "kept", "keep running", true, (*stackDriver).grow},
	{"shrink", "decrease `size`", "unchanged; `StorageChangeRejected`", "kept", "keep running", true, (*stackDriver).shrink},
	{"class", "change `className`", "unchanged; `StorageChangeRejected`", "kept", "keep running", true, (*stackDriver).changeClass},
	{"set", "delete the StatefulSet manually", "kept", "kept", "are replaced", false, (*stackDriver).deleteStatefulSet},
	{"secret", "delete the Secret manually", "kept", "not regenerated; `CredentialsLost` until you restore the Secret", "keep running", true, (*stackDriver).deleteSecret},
	{"recreate", "rename, delete with `Retain`, create from the manifest from before", "retained; `DataConflict` until `renamedFrom` is added, then reused", "retained, then reused", "terminate, then start with the same volume", false, (*stackDriver).recreateFromEarlierManifest},
	{"restore", "save the stack as YAML, delete it, create it from the YAML", "retained, then reused", "retained, then reused", "terminate, then start with the same volume", false, (*stackDriver).restoreYAML},
}

// rename alternates between two names.
func (p *stackDriver) rename() {
	p.renamedFrom, p.name = p.name, map[string]string{"db": "database", "database": "db"}[p.name]
	p.present = true
	p.applySpec()
	p.waitSettled()
}

// revertRename renames the component and then applies the manifest from before, as git revert does.
func (p *stackDriver) revertRename() {
	name, renamedFrom := p.name, p.renamedFrom
	p.rename()
	p.name, p.renamedFrom = name, renamedFrom
	p.applySpec()
	p.waitSettled()
}

// recreateFromEarlierManifest deletes a stack after a rename and creates it from the manifest from before, which does
// not find the retained data: the message must name the fix. Data that no component could use has not been renamed.
func (p *stackDriver) recreateFromEarlierManifest() {
	name := p.name
	p.rename()
	p.deleteAndRetain()
	renamed := p.name
	p.name, p.renamedFrom = name, ""
	p.create(&appsapi.AppStack{ObjectMeta: p.objectMeta("shop"), Spec: p.spec()})
	if claimIn(p.watcher.State()).Labels[appsapi.LabelComponent] == name {
		p.waitSettled()
		return
	}
	p.waitFor("the fix", func(s watcher.State) bool {
		stack := p.stackIn(s)
		if stack == nil {
			return false
		}
		ready := meta.FindStatusCondition(stack.Status.Conditions, appsapi.ConditionReady)
		return ready != nil && ready.Reason == appsapi.ReasonDataConflict && strings.Contains(ready.Message, "set renamedFrom: "+renamed)
	})
	p.renamedFrom = renamed
	p.applySpec()
	p.waitSettled()
}

// remove adds a missing component first, without waiting.
func (p *stackDriver) remove() {
	if !p.present {
		p.present = true
		p.applySpec()
	}
	p.present = false
	p.applySpec()
	p.waitSettled()
}

// reAdd removes an existing component first, without waiting.
func (p *stackDriver) reAdd() {
	if p.present {
		p.present = false
		p.applySpec()
	}
	p.present = true
	p.applySpec()
	p.waitSettled()
}

// restart waits for a new pod. Ready is not sufficient: while a storage change is rejected, its condition is the same
// before and after.
func (p *stackDriver) restart() {
	before := p.podUID()
	p.present = true
	p.restarts++
	p.applySpec()
	if before != "" && p.lostPassword == "" { // without the password no server starts
		p.Eventually(p.podUID, stepTimeout).ShouldNot(Or(BeEmpty(), Equal(before)), "the pod was not replaced")
	}
	p.waitSettled()
}

// scale adds a missing component with zero replicas first. Without the password there may be no StatefulSet to scale.
func (p *stackDriver) scale() {
	if p.database { // a database has exactly one server: restart it instead
		p.restart()
		return
	}
	p.present, p.replicas = true, 0
	p.applySpec()
	p.waitFor("no pods", func(s watcher.State) bool {
		set, stack := setIn(s), p.stackIn(s)
		if set == nil && p.lostPassword != "" {
			return true
		}
		return set != nil && *set.Spec.Replicas == 0 && set.Status.Replicas == 0 && set.Status.ObservedGeneration == set.Generation &&
			stack.Generation >= p.generation && stack.Status.ObservedGeneration == stack.Generation
	})
	p.replicas = 1
	p.applySpec()
	p.waitSettled()
}

// deleteStack deletes the stack and waits for its deletion, as kubectl does.
func (p *stackDriver) deleteStack() {
	p.Helper()
	p.Expect(p.Delete(p.Context(), &appsapi.AppStack{ObjectMeta: p.objectMeta("shop")})).To(Succeed())
	p.waitFor("deletion of the stack", func(s watcher.State) bool { return p.stackIn(s) == nil && setIn(s) == nil })
}

// deleteAndRetain deletes the stack and waits until its data is marked as retained.
func (p *stackDriver) deleteAndRetain() {
	p.Helper()
	p.deleteStack()
	p.waitFor("a retained claim", func(watcher.State) bool { return p.dataIsRetained() })
}

// dataIsRetained reports whether no component uses the volume.
func (p *stackDriver) dataIsRetained() bool {
	claim := claimIn(p.watcher.State())
	return claim != nil && claim.Labels[appsapi.DefaultKeys.Retained] == "true"
}

func (p *stackDriver) deleteRetain() {
	p.deleteAndRetain()
	p.create(&appsapi.AppStack{ObjectMeta: p.objectMeta("shop"), Spec: p.spec()})
	p.waitSettled()
}

// deletePurge does not delete retained objects, which no component uses: those of a missing component, and those of a
// component that did not start because its Secret is lost. The new volume can be expanded again.
func (p *stackDriver) deletePurge() {
	purged := p.present && !p.dataIsRetained()
	p.deletionWindows = append(p.deletionWindows, window{from: p.clusterVersion(), to: math.MaxInt64})
	p.editSpec(func(s *appsapi.AppStackSpec) { s.DeletionPolicy = appsapi.DeletionDelete })
	p.deleteStack()
	if purged {
		p.waitFor("deletion of the data", func(s watcher.State) bool { return len(s.Live(claimResource)) == 0 && len(credentials(s)) == 0 })
		p.lostPassword, p.rows, p.class = "", 0, volsim.Standard
	}
	p.deletionWindows[len(p.deletionWindows)-1].to = p.clusterVersion()
	p.create(&appsapi.AppStack{ObjectMeta: p.objectMeta("shop"), Spec: p.spec()})
	p.waitSettled()
	if p.rows == 0 {
		p.writeRows()
	}
}

// grow adds a missing component with a larger size.
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
	p.present, p.class = true, map[string]string{volsim.Standard: volsim.Full, volsim.Full: volsim.Fixed, volsim.Fixed: volsim.Standard}[p.class]
	p.applySpec()
	p.waitSettled()
}

// deleteStatefulSet adds a missing component first, and deletes the StatefulSet as soon as it exists. Without the password
// there may be none.
func (p *stackDriver) deleteStatefulSet() {
	if !p.present {
		p.present = true
		p.applySpec()
		p.waitFor("a set", func(s watcher.State) bool { return setIn(s) != nil || p.lostPassword != "" })
	}
	set := setIn(p.watcher.State())
	if set == nil && p.lostPassword != "" {
		return
	}
	p.Expect(p.Delete(p.Context(), set, client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
	p.waitFor("a new StatefulSet", func(s watcher.State) bool {
		now := setIn(s)
		if p.lostPassword != "" { // no server starts before the Secret is restored
			return now == nil
		}
		return now != nil && now.UID != set.UID
	})
	p.waitSettled()
}

// deleteSecret restores a missing Secret first, without waiting.
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

// restoreSecret follows the instructions of the message.
func (p *stackDriver) restoreSecret() {
	p.Helper()
	content := map[string][]byte{}
	for _, key := range []string{"root-password", "password"} {
		if value := p.savedSecret[key]; value != nil {
			content[key] = value
		}
	}
	secret := &corev1.Secret{ObjectMeta: p.objectMeta(p.deletedSecret), Data: content}
	secret.Annotations = map[string]string{appsapi.DefaultKeys.Adopt: "true"}
	p.Expect(p.Create(p.Context(), secret)).To(Succeed())
	p.lostPassword = ""
}

// restoreYAML keeps the server-set fields in the YAML, as users do.
func (p *stackDriver) restoreYAML() {
	saved := harness.Find(p.World, &appsapi.AppStack{ObjectMeta: p.objectMeta("shop")})
	p.deleteStack()
	saved.UID, saved.ResourceVersion, saved.Generation, saved.CreationTimestamp = "", "", 0, metav1.Time{}
	saved.ManagedFields, saved.Status = nil, appsapi.AppStackStatus{}
	p.create(saved)
	p.waitSettled()
}

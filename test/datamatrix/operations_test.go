package datamatrix

import (
	"math"
	"slices"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/stage"
	"github.com/holdfast-dev/holdfast/internal/testutil/volsim"
	"github.com/holdfast-dev/holdfast/internal/testutil/watcher"
)

// operation is something that people do to a component with data. Each makes sense after
// each other one, also when that left no component.
type operation struct {
	name string
	// What the page says of it.
	title, volume, password, pods string
	// runsOn is set when the pod of a component that is there is not replaced.
	runsOn bool
	do     func(*player)
}

var operations = []operation{
	{"rename", "rename, with `renamedFrom`", "the same, labelled with the new name", "the same", "run on; the Service has the new name", true, (*player).rename},
	{"remove", "remove from the spec", "kept, listed in `status.retained`", "kept with it", "end", false, (*player).remove},
	{"re-add", "add again", "the same", "the same", "start with it", false, (*player).readd},
	{"scale", "scale to 0 and back", "the same", "the same", "end, and start with it", false, (*player).scale},
	{"delete-retain", "delete the stack with `Retain`, create it again", "kept, and found again", "kept, and found again", "end, and start with it", false, (*player).deleteRetain},
	{"delete-delete", "delete the stack with `Delete`, create it again", "deleted; a new, empty one; what was retained before stays", "deleted with the volume; a new one", "end, and start empty", false, (*player).deleteDelete},
	{"grow", "a larger `size`", "the same, grows", "the same", "run on", true, (*player).grow},
	{"shrink", "a smaller `size`", "the same, as large as it was; `StorageRefused`", "the same", "run on", true, (*player).shrink},
	{"class", "another `className`", "the same, of the class it was; `StorageRefused`", "the same", "run on", true, (*player).changeClass},
	{"set", "delete the StatefulSet by hand", "the same", "the same", "are replaced", false, (*player).deleteSet},
	{"secret", "delete the Secret by hand", "the same", "none is made up; `CredentialsLost` until you restore it", "run on", true, (*player).deleteSecret},
	{"restore", "save as YAML, delete, create from it", "kept, and found again", "kept, and found again", "end, and start with it", false, (*player).restoreYAML},
}

// rename gives the component the other of two names.
func (p *player) rename() {
	p.was, p.name = p.name, map[string]string{"db": "database", "database": "db"}[p.name]
	p.present = true
	p.edit()
	p.settles()
}

// remove of what is not there adds it first, and does not wait.
func (p *player) remove() {
	if !p.present {
		p.present = true
		p.edit()
	}
	p.present = false
	p.edit()
	p.settles()
}

// readd of what is there removes it first, and does not wait.
func (p *player) readd() {
	if p.present {
		p.present = false
		p.edit()
	}
	p.present = true
	p.edit()
	p.settles()
}

// scale of what is not there adds it without pods first.
func (p *player) scale() {
	if p.database { // which is one server; it can be started again
		p.present = true
		p.restarts++
		p.edit()
		p.settles()
		return
	}
	p.present, p.replicas = true, 0
	p.edit()
	p.until("no pods", func(s watcher.State) bool {
		set, stack := setIn(s), p.stackIn(s)
		return set != nil && *set.Spec.Replicas == 0 && set.Status.Replicas == 0 && set.Status.ObservedGeneration == set.Generation &&
			stack.Generation >= p.generation && stack.Status.ObservedGeneration == stack.Generation
	})
	p.replicas = 1
	p.edit()
	p.settles()
}

// deleted deletes the stack and waits until it is gone, as kubectl does.
func (p *player) deleted() {
	p.Helper()
	p.Expect(p.Delete(p.Context(), &appsapi.AppStack{ObjectMeta: p.meta("shop")})).To(Succeed())
	p.until("the end of the stack", func(s watcher.State) bool { return p.stackIn(s) == nil && setIn(s) == nil })
}

func (p *player) deleteRetain() {
	p.deleted()
	p.until("a claim that says that it is kept", func(s watcher.State) bool {
		claim := claimIn(s)
		return claim != nil && claim.Labels[appsapi.LabelRetained] == "true"
	})
	p.create(&appsapi.AppStack{ObjectMeta: p.meta("shop"), Spec: p.spec()})
	p.settles()
}

// deleteDelete leaves what is kept of a component that is not there: that was kept on
// purpose.
func (p *player) deleteDelete() {
	p.purges = append(p.purges, window{from: p.moment(), to: math.MaxInt64})
	p.change(func(s *appsapi.AppStackSpec) { s.DeletionPolicy = appsapi.DeletionDelete })
	p.deleted()
	if p.present {
		p.until("the end of the data", func(s watcher.State) bool { return len(s.Live(claims)) == 0 && len(credentials(s)) == 0 })
		p.password, p.rows = "", 0
	}
	p.purges[len(p.purges)-1].to = p.moment()
	p.create(&appsapi.AppStack{ObjectMeta: p.meta("shop"), Spec: p.spec()})
	p.settles()
	if p.rows == 0 {
		p.write()
	}
}

// grow of what is not there adds it with more.
func (p *player) grow() {
	size, _ := has(p.eye.State())
	p.present, p.size = true, 2*size
	p.edit()
	p.settles()
	if p.password == "" && !p.refused(p.eye.State()) {
		p.grown()
	}
}

func (p *player) shrink() {
	size, _ := has(p.eye.State())
	p.present, p.size = true, min(size, p.size)/2
	p.edit()
	p.settles()
}

func (p *player) changeClass() {
	p.present, p.class = true, map[string]string{volsim.Standard: volsim.Full, volsim.Full: volsim.Fixed}[p.class]
	p.edit()
	p.settles()
}

// deleteSet of what is not there adds it first, and deletes the set as soon as it is seen.
func (p *player) deleteSet() {
	if !p.present {
		p.present = true
		p.edit()
		p.until("a set", func(s watcher.State) bool { return setIn(s) != nil })
	}
	set := setIn(p.eye.State())
	p.Expect(p.Delete(p.Context(), set, client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
	p.until("another set", func(s watcher.State) bool {
		now := setIn(s)
		if p.password != "" { // nothing starts before it is back
			return now == nil
		}
		return now != nil && now.UID != set.UID
	})
	p.settles()
}

// deleteSecret of one that is gone restores it first, and does not wait.
func (p *player) deleteSecret() {
	if p.password != "" {
		p.restoreSecret()
	}
	var list corev1.SecretList
	p.Expect(p.List(p.Context(), &list, client.InNamespace(p.NS))).To(Succeed())
	list.Items = slices.DeleteFunc(list.Items, func(s corev1.Secret) bool { return !isCredentials(s.Name) })
	p.Expect(list.Items).To(HaveLen(1))
	secret := &list.Items[0]
	p.password, p.saved, p.secret = string(secret.Data["password"]), secret.Data, secret.Name
	p.byHand[secret.UID] = true
	p.Expect(p.Delete(p.Context(), stage.Confirmed(p.World, secret))).To(Succeed())
	p.until("no Secret", func(s watcher.State) bool { return len(credentials(s)) == 0 })
	p.settles()
}

// restoreSecret does what the message says.
func (p *player) restoreSecret() {
	p.Helper()
	content := map[string][]byte{}
	for _, key := range []string{"root-password", "password"} {
		if value := p.saved[key]; value != nil {
			content[key] = value
		}
	}
	p.Expect(p.Create(p.Context(), &corev1.Secret{ObjectMeta: p.meta(p.secret), Data: content})).To(Succeed())
	p.password = ""
}

// restoreYAML leaves everything in it that people leave in it.
func (p *player) restoreYAML() {
	saved := stage.Find(p.World, &appsapi.AppStack{ObjectMeta: p.meta("shop")})
	p.deleted()
	saved.UID, saved.ResourceVersion, saved.Generation, saved.CreationTimestamp = "", "", 0, metav1.Time{}
	saved.ManagedFields, saved.Status = nil, appsapi.AppStackStatus{}
	p.create(saved)
	p.settles()
}

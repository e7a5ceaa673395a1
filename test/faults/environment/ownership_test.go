package environment

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/test/faults/report"
)

// ownershipSpec is a stack with every kind of child, a finalizer, and two revisions that each ran a job.
const ownershipSpec = `
components:
- {name: web, bindings: [{component: api}], service: {image: "shop/web:1", ports: [{port: 80}]}}
- {name: api, dependsOn: [migrate], service: {image: "shop/api:1", ports: [{port: 8080}]}}
- {name: migrate, job: {image: "shop/migrate:1"}}
- {name: nightly, dependsOn: [api], job: {image: "shop/nightly:1", schedule: "0 3 1 1 *"}}
`

// ownershipDamages remove ownership information from every object of a stack.
func ownershipDamages() map[string]func(client.Object) {
	all := map[string]func(client.Object){
		"owners":     func(o client.Object) { o.SetOwnerReferences(nil) },
		"finalizers": func(o client.Object) { o.SetFinalizers(nil) },
		"apiversion": func(o client.Object) {
			refs := o.GetOwnerReferences()
			for i := range refs {
				if strings.HasPrefix(refs[i].APIVersion, appsapi.GroupVersion.Group+"/") {
					refs[i].APIVersion = appsapi.GroupVersion.Group + "/v9"
				}
			}
			o.SetOwnerReferences(refs)
		},
		// Jobs of an earlier revision must be kept even if the revision is not selected by its labels.
		"hidden": func(o client.Object) {
			if _, ok := o.(*appsv1.ControllerRevision); ok {
				labels := o.GetLabels()
				delete(labels, appsapi.LabelManagedBy)
				o.SetLabels(labels)
			}
		},
		"notcontroller": func(o client.Object) {
			refs := o.GetOwnerReferences()
			for i := range refs {
				refs[i].Controller = nil
			}
			o.SetOwnerReferences(refs)
		},
	}
	for _, key := range []string{
		appsapi.LabelName, appsapi.LabelInstance, appsapi.LabelComponent, appsapi.LabelPartOf, appsapi.LabelVersion,
		appsapi.LabelManagedBy, appsapi.DefaultKeys.Workload, appsapi.DefaultKeys.OwnerUID, appsapi.DefaultKeys.OwnerKind,
	} {
		all["label-"+strings.ToLower(key[strings.LastIndex(key, "/")+1:])] = func(o client.Object) {
			labels := o.GetLabels()
			delete(labels, key)
			o.SetLabels(labels)
		}
	}
	return all
}

// selectedDamages returns all cases or, in a short run, the most distinct ones.
func selectedDamages(row *report.Row) []string {
	all := slices.Sorted(maps.Keys(ownershipDamages()))
	row.Generated = len(all)
	if longRun {
		return all
	}
	return []string{"apiversion", "finalizers", "hidden", "label-managed-by", "owners"}
}

// TestOwnershipRestored removes ownership information from all objects at once while the operator runs.
func TestOwnershipRestored(t *testing.T) {
	w, row := newWorld(t, "14 ownership")
	stacks := w.createStacks(selectedDamages(row))
	for _, o := range stacks {
		o.damage(w, ownershipDamages()[o.name])
	}
	took := w.waitRestored(stacks)
	row.Run = len(stacks)
	row.Measured = fmt.Sprintf("%d ways to remove ownership from %d objects: all restored within %.1f s, no pod changed",
		len(stacks), countObjects(stacks), longestSeconds(took))
}

// TestOwnershipRestoredAfterRestart does the same while the operator is down.
func TestOwnershipRestoredAfterRestart(t *testing.T) {
	w, row := newWorldAlone(t, "14 ownership, operator down")
	stacks := w.createStacks(selectedDamages(row))
	w.Expect(w.Operator.Kill()).To(Succeed())
	for _, o := range stacks {
		o.damage(w, ownershipDamages()[o.name])
	}
	w.restartOperator()
	took := w.waitRestored(stacks)
	row.Run = len(stacks)
	row.Measured = fmt.Sprintf("%d ways to remove ownership from %d objects while the operator was down: all restored within %.1f s after its restart, no pod changed",
		len(stacks), countObjects(stacks), longestSeconds(took))
	w.ExpectNoForbiddenRequests(t)
}

// stackObjects are the objects of a stack before the damage.
type stackObjects struct {
	name    string // of the damage and of the stack
	objects []client.Object
	pods    []string
}

func countObjects(all []*stackObjects) int {
	n := 0
	for _, o := range all {
		n += len(o.objects)
	}
	return n
}

// createStacks creates stacks with two revisions and waits until they are idle.
func (w *world) createStacks(names []string) []*stackObjects {
	w.Helper()
	for _, name := range names {
		w.createStack(name, ownershipSpec)
	}
	for _, name := range names {
		w.waitReady(name)
		w.setImages(name, map[string]string{"migrate": "shop/migrate:2", "web": "shop/web:2"})
	}
	for _, name := range names {
		w.waitReady(name)
		w.WaitIdle(name)
	}
	var all []*stackObjects
	for _, name := range names {
		o := &stackObjects{name: name, objects: w.objectsOfStack(name), pods: w.podsOfStack(name)}
		w.Expect(len(o.objects)).To(Equal(10), "a stack, 2 Deployments, 2 Services, 2 Jobs, a CronJob, 2 revisions")
		all = append(all, o)
	}
	return all
}

// objectsOfStack returns a stack and its children.
func (w *world) objectsOfStack(name string) []client.Object {
	w.Helper()
	all := []client.Object{w.getStack(name)}
	for _, l := range []client.ObjectList{&appsv1.DeploymentList{}, &corev1.ServiceList{}, &batchv1.JobList{}, &batchv1.CronJobList{}, &appsv1.ControllerRevisionList{}} {
		for _, o := range listObjects[client.Object](w, l) {
			if strings.HasPrefix(o.GetName(), name+"-") {
				all = append(all, o)
			}
		}
	}
	return all
}

func (w *world) podsOfStack(name string) []string {
	return slices.DeleteFunc(w.runningPods(), func(p string) bool { return !strings.HasPrefix(p, name+"-") })
}

// revisionsOfStack returns the revisions of a stack.
func (w *world) revisionsOfStack(name string) []*appsv1.ControllerRevision {
	w.Helper()
	return slices.DeleteFunc(listObjects[*appsv1.ControllerRevision](w, &appsv1.ControllerRevisionList{}),
		func(r *appsv1.ControllerRevision) bool { return !strings.HasPrefix(r.Name, name+"-") })
}

// damage changes all objects of a stack concurrently.
func (o *stackObjects) damage(w *world, change func(client.Object)) {
	w.Helper()
	var group sync.WaitGroup
	for _, before := range o.objects {
		group.Go(func() {
			obj := before.DeepCopyObject().(client.Object)
			for {
				change(obj)
				err := w.Update(w.Context(), obj)
				if !apierrors.IsConflict(err) {
					w.Expect(err).NotTo(HaveOccurred())
					return
				}
				w.Expect(w.Get(w.Context(), client.ObjectKeyFromObject(obj), obj)).To(Succeed())
			}
		})
	}
	group.Wait()
}

// waitRestored waits until every object has its original ownership and UID.
func (w *world) waitRestored(all []*stackObjects) []time.Duration {
	w.Helper()
	start := time.Now()
	var took []time.Duration
	for _, o := range all {
		missing := func() string { return strings.Join(o.differences(w, "2"), "\n") }
		w.Eventually(missing, "60s", "50ms").Should(BeEmpty(), o.name)
		took = append(took, time.Since(start))
	}
	for _, o := range all {
		w.waitReady(o.name)
		w.WaitIdle(o.name)
		w.Expect(o.differences(w, "2")).To(BeEmpty(), o.name)
		w.Expect(w.podsOfStack(o.name)).To(Equal(o.pods), "pods of "+o.name)
		// The completed job of the earlier revision still exists, so it does not run again.
		w.setImages(o.name, map[string]string{"migrate": "shop/migrate:1"})
	}
	for _, o := range all {
		w.waitReady(o.name)
		w.Expect(o.differences(w, "1")).To(BeEmpty(), o.name+" after the rollback")
	}
	return took
}

// differences returns the differences to the original objects. current is the version of the applied spec.
func (o *stackObjects) differences(w *world, current string) []string {
	var out []string
	for _, before := range o.objects {
		now := before.DeepCopyObject().(client.Object)
		description := fmt.Sprintf("%T %s: ", before, before.GetName())
		if err := w.Get(w.Context(), client.ObjectKeyFromObject(before), now); err != nil {
			out = append(out, description+err.Error())
			continue
		}
		if now.GetUID() != before.GetUID() {
			out = append(out, description+"has another UID")
		}
		if !equalRefs(now.GetOwnerReferences(), before.GetOwnerReferences()) {
			out = append(out, fmt.Sprintf("%sgot owners %v", description, now.GetOwnerReferences()))
		}
		if !slices.Equal(now.GetFinalizers(), before.GetFinalizers()) {
			out = append(out, fmt.Sprintf("%sgot finalizers %v", description, now.GetFinalizers()))
		}
		if want := o.wantLabels(before, current); !containsAll(now.GetLabels(), want) {
			out = append(out, fmt.Sprintf("%sgot labels %v, want %v", description, now.GetLabels(), want))
		}
	}
	return out
}

// wantLabels returns the required labels of an object. Objects of an earlier revision are not applied anymore and keep
// only the ownership labels. Without the label that the operator selects by, they are restored only when they are
// needed.
func (o *stackObjects) wantLabels(obj client.Object, current string) map[string]string {
	all := maps.Clone(obj.GetLabels())
	switch child := obj.(type) {
	case *batchv1.Job:
		if all[appsapi.LabelVersion] == current {
			return all
		}
	case *appsv1.ControllerRevision:
		if child.Revision == 2 && current == "2" { // a rollback creates revision 3
			return all
		}
	default:
		return all
	}
	if o.name == "label-managed-by" || o.name == "hidden" {
		return nil
	}
	maps.DeleteFunc(all, func(k, _ string) bool {
		return slices.Contains([]string{appsapi.LabelName, appsapi.LabelComponent, appsapi.LabelVersion, appsapi.DefaultKeys.Workload}, k)
	})
	return all
}

func containsAll(all, some map[string]string) bool {
	for k, v := range some {
		if all[k] != v {
			return false
		}
	}
	return true
}

func equalRefs(a, b []metav1.OwnerReference) bool {
	return slices.EqualFunc(a, b, func(a, b metav1.OwnerReference) bool { return a.String() == b.String() })
}

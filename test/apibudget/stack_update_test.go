package apibudget

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
)

// stackEdit is a change by a user and its budget per stack.
type stackEdit struct {
	name   string
	change func(s *harness, stack string)
	budget requestCounts
}

// stackEdits are the measured edits. An edit of the spec creates a revision. Its start and its end cause one status
// update and one event each. Component web is bound to api but does not change, because its binding has the same
// values.
var stackEdits = []stackEdit{
	{"new image of api", (*harness).editImage, requestCounts{children: 1, status: 2, events: 2, revisions: 1, healthyMarks: 1}},
	{"Secret key that api uses", (*harness).editPassword, requestCounts{children: 1, status: 2, events: 2, reads: 1}},
	{"unused Secret key", (*harness).editUnusedKey, requestCounts{reads: 1}},
}

// measureStackEdits makes all edits at the same time, each on different stacks.
func (s *harness) measureStackEdits() {
	all := s.stackNames()
	each := min(*updates, len(all)/len(stackEdits))
	got := operatorRequests(s.recordRequests(func() {
		var group sync.WaitGroup
		for i, e := range stackEdits {
			for _, name := range all[i*each : (i+1)*each] {
				group.Go(func() { e.change(s, name) })
			}
		}
		group.Wait()
	}))
	for i, e := range stackEdits {
		names := all[i*each : (i+1)*each]
		others := slices.Concat(all[:i*each], all[(i+1)*each:])
		requests := got.Where(func(e *audit.Event) bool { return !slices.Contains(others, appOf(e)) })
		s.table.add(budgetRow(fmt.Sprintf("%d stacks, %s, each", each, e.name), e.budget, requests, names, append(exactCategories, reads)...))
	}
}

func (s *harness) editImage(name string) {
	stack := &appsapi.AppStack{}
	s.check(s.Get(s.Context(), client.ObjectKey{Namespace: s.ns, Name: name}, stack))
	i := slices.IndexFunc(stack.Spec.Components, func(c appsapi.Component) bool { return c.Name == "api" })
	patch := fmt.Appendf(nil, `[{"op":"replace","path":"/spec/components/%d/service/image","value":"shop/api:2"}]`, i)
	s.check(s.Patch(s.Context(), stack, client.RawPatch(types.JSONPatchType, patch)))
	s.waitGeneration(name, stack.Generation)
	s.waitReady(name)
}

func (s *harness) editPassword(name string) {
	api := s.getDeployment(name + "-api")
	s.editSecret(name, "password")
	s.waitRolledOut(api)
	s.waitReady(name)
}

func (s *harness) editUnusedKey(name string) { s.editSecret(name, "unused") }

func (s *harness) editSecret(name, key string) {
	patch := fmt.Appendf(nil, `{"stringData":{%q:"second"}}`, key)
	s.check(s.Patch(s.Context(), newSecret(s.objectMeta(name)), client.RawPatch(types.MergePatchType, patch)))
}

func (s *harness) getDeployment(name string) *appsv1.Deployment {
	d := &appsv1.Deployment{}
	s.check(s.Get(s.Context(), client.ObjectKey{Namespace: s.ns, Name: name}, d))
	return d
}

// waitRolledOut waits until a Deployment has new pods.
func (s *harness) waitRolledOut(before *appsv1.Deployment) {
	err := wait.PollUntilContextTimeout(s.Context(), 50*time.Millisecond, waitTimeout, true, func(context.Context) (bool, error) {
		now := s.getDeployment(before.Name)
		return now.Generation > before.Generation && now.Status.ObservedGeneration == now.Generation &&
			now.Status.UpdatedReplicas == 1 && now.Status.Replicas == 1 && now.Status.AvailableReplicas == 1, nil
	})
	if err != nil {
		s.Errorf("Deployment %s was not rolled out", before.Name)
	}
}

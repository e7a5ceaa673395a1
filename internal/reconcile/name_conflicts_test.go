package reconcile

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/ownership"
)

// TestOneMessageForAllUnmanagedObjects checks that users can allow the adoption of all objects with one command.
func TestOneMessageForAllUnmanagedObjects(t *testing.T) {
	scope := newTestScope(nil)
	conflict := func(id desired.ID, labels map[string]string) {
		_, scope.ChildErrs[id] = ownership.CheckOwnership(testOwner, id, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Labels: labels}})
	}
	states := []componentState{{component: webComponent(false)}}
	message := func() string {
		s, _ := failureSummary(states, scope)
		return s.message
	}
	conflict(serviceID, nil)
	const one = "Service shop/web exists and is not managed by Holdfast; delete it, choose another name, or allow adoption " +
		"(checked again within 30 s): kubectl annotate service web -n shop apps.holdfast.dev/adopt=true"
	if got := message(); got != one {
		t.Errorf("got %q, want %q", got, one)
	}
	conflict(deploymentID, nil)
	const two = "Deployment shop/web, Service shop/web exist and are not managed by Holdfast; delete them, choose other names, or allow adoption " +
		"(checked again within 30 s): kubectl annotate deployment/web service/web -n shop apps.holdfast.dev/adopt=true"
	if got := message(); got != two {
		t.Errorf("got %q, want %q", got, two)
	}
	for i := range 10 {
		conflict(desired.ID{Kind: desired.KindConfigMap, Name: fmt.Sprintf("web-%d", i)}, nil)
	}
	if got := message(); !strings.Contains(got, "ConfigMap shop/web-7 and 2 more exist") || !strings.Contains(got, " configmap/web-7 -n shop") {
		t.Errorf("got %q", got)
	}
	conflict(deploymentID, map[string]string{testOwner.Keys.OwnerUID: "former"})
	if got := message(); !strings.HasPrefix(got, "Deployment shop/web was created by another") || !strings.HasSuffix(got, " -n shop -l apps.holdfast.dev/owner-uid=former apps.holdfast.dev/adopt=true") {
		t.Errorf("got %q", got)
	}
}

package health

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	// conditionsAttached are the conditions of a parent that has accepted generation 2 of the route.
	conditionsAttached = `conditions: [{type: Accepted, status: "True", observedGeneration: 2},
  {type: ResolvedRefs, status: "True", observedGeneration: 2}]`
	specOneGateway  = "spec: {parentRefs: [{name: gw}]}\n"
	specTwoGateways = "spec: {parentRefs: [{name: gw}, {namespace: infra, name: edge, sectionName: https}]}\n"
)

func httpRoute(t *testing.T, content string) *unstructured.Unstructured {
	t.Helper()
	const head = "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: web, namespace: shop, generation: 2}\n"
	return parseObject(t, head+content)
}

func TestHTTPRouteHealth(t *testing.T) {
	attached := Result{"Healthy", "Reconciled", "HTTPRoute shop/web is attached to its Gateway"}
	unreadable := Result{"Unknown", "InternalError", "HTTPRoute shop/web cannot be evaluated: it is invalid or has no parentRefs"}
	notAccepted := Result{"Progressing", "Progressing",
		"HTTPRoute shop/web waits for Gateway shop/gw to accept it; check that the Gateway exists and has a controller"}
	gw := func(conditions string) string {
		return specOneGateway + "status: {parents: [{parentRef: {name: gw}, " + conditions + "}]}"
	}
	notObserved := Result{"Progressing", "Progressing", "HTTPRoute shop/web waits for Gateway shop/gw to observe its latest change"}
	cases := map[string]struct {
		content string
		want    Result
	}{
		"no parentRefs":          {"spec: {}", unreadable},
		"spec is not an object":  {"spec: text", unreadable},
		"no status":              {specOneGateway, notAccepted},
		"attached":               {gw(conditionsAttached), attached},
		"no conditions":          {gw("conditions: []"), notObserved},
		"change not observed":    {gw(`conditions: [{type: Accepted, status: "True", observedGeneration: 1}]`), notObserved},
		"references not checked": {gw(`conditions: [{type: Accepted, status: "True", observedGeneration: 2}]`), notObserved},
		"not accepted": {gw(`conditions: [{type: Accepted, status: "False", observedGeneration: 2,
  reason: NotAllowedByListeners, message: "port 80"}]`),
			Result{"Degraded", "ComponentDegraded", "HTTPRoute shop/web is not attached to Gateway shop/gw: NotAllowedByListeners"}},
		"old rejection": {gw(`conditions: [{type: Accepted, status: "False", observedGeneration: 1,
  reason: NotAllowedByListeners}]`), notObserved},
		"backend not found": {gw(`conditions: [{type: Accepted, status: "True", observedGeneration: 2},
  {type: ResolvedRefs, status: "False", observedGeneration: 2, reason: BackendNotFound}]`),
			Result{"Degraded", "ComponentDegraded", "HTTPRoute shop/web is not attached to Gateway shop/gw: BackendNotFound"}},
		"acceptance unknown": {gw(`conditions: [{type: Accepted, status: Unknown, observedGeneration: 2, reason: Pending}]`),
			Result{"Progressing", "Progressing", "HTTPRoute shop/web waits for Gateway shop/gw: Pending"}},
		"a second controller attaches it": {gw(`conditions: [{type: Accepted, status: "False", observedGeneration: 2, reason: NoMatchingParent}]},
  {parentRef: {name: gw}, ` + conditionsAttached), attached},
		"another port of the same Gateway": {
			"spec: {parentRefs: [{name: gw, port: 443}]}\nstatus: {parents: [{parentRef: {name: gw, port: 80}, " + conditionsAttached + "}]}",
			Result{"Progressing", "Progressing",
				"HTTPRoute shop/web waits for Gateway shop/gw port 443 to accept it; check that the Gateway exists and has a controller"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Evaluate(httpRoute(t, tc.content))); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHTTPRouteNeedsEveryGateway(t *testing.T) {
	parents := func(edge string) string {
		return specTwoGateways + "status: {parents: [{parentRef: {namespace: shop, name: gw}, " + conditionsAttached + "}" + edge + "]}"
	}
	missing := Result{"Progressing", "Progressing",
		"HTTPRoute shop/web waits for Gateway infra/edge (https) to accept it; check that the Gateway exists and has a controller"}
	cases := map[string]struct {
		content string
		want    Result
	}{
		"both accept": {parents(", {parentRef: {namespace: infra, name: edge, sectionName: https}, " + conditionsAttached + "}"),
			Result{"Healthy", "Reconciled", "HTTPRoute shop/web is attached to its Gateway"}},
		"one has no status": {parents(""), missing},
		"another listener": {
			parents(", {parentRef: {namespace: infra, name: edge, sectionName: http}, " + conditionsAttached + "}"), missing},
		"the same name in the namespace of the route": {
			parents(", {parentRef: {name: edge, sectionName: https}, " + conditionsAttached + "}"), missing},
		"one rejects": {parents(`, {parentRef: {namespace: infra, name: edge, sectionName: https},
  conditions: [{type: Accepted, status: "False", observedGeneration: 2, reason: NoMatchingParent}]}`),
			Result{"Degraded", "ComponentDegraded", "HTTPRoute shop/web is not attached to Gateway infra/edge (https): NoMatchingParent"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Evaluate(httpRoute(t, tc.content))); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHTTPRouteOfAnotherGroupIsCustom(t *testing.T) {
	o := httpRoute(t, specOneGateway)
	o.SetAPIVersion("example.com/v1")
	if got := Evaluate(o); strings.Contains(got.Message, "Gateway") {
		t.Errorf("verdict %v: only HTTPRoutes of Gateway API are attached to Gateways", got)
	}
}

func TestDeletedHTTPRouteIsProgressing(t *testing.T) {
	o := httpRoute(t, specOneGateway+"status: {parents: [{parentRef: {name: gw}, "+conditionsAttached+"}]}")
	o.SetDeletionTimestamp(new(metav1.Now()))
	if diff := cmp.Diff(Result{"Progressing", "Progressing", "HTTPRoute shop/web is being deleted"}, Evaluate(o)); diff != "" {
		t.Errorf("verdict (-want +got):\n%s", diff)
	}
}

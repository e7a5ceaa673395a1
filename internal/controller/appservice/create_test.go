package appservice_test

import (
	"testing"

	. "github.com/onsi/gomega"
)

const basicSpec = `
image: shop/web:1
replicas: 2
ports: [{name: http, port: 80, targetPort: 8080}]`

func TestCreateWritesEachChildOnce(t *testing.T) {
	w := newStory(t)
	calls := w.OperatorRequests(func() {
		w.create(basicSpec)
		w.waitReady()
		w.WaitIdle(w.name)
	})
	w.Expect(len(calls.Reads())).To(BeZero(), "%s", calls.Count())
	w.Expect(acceptedChildWrites(calls)).To(Equal(3), "one write for each child:\n%s", calls.Count())
	w.Expect(len(calls.Of("appservices.apps.holdfast.dev"))).To(BeNumerically("<=", 3), "status writes until Ready:\n%s", calls.Count())
	w.Expect(w.events()).To(ConsistOf("ComponentCreated", "ComponentReady"))
	status := w.app().Status
	w.Expect(status.ReplicasReady).To(Equal("2/2"))
	w.Expect(status.Endpoints[0].URL).To(Equal("http://web." + w.NS + ".svc:80"))
	w.expectSteadyState()
}

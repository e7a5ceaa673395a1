package bench

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
)

// requestCounts are the numbers of the contender's requests. Watches are counted separately, because client-go reopens
// them after a random time of five to ten minutes, which no flag changes.
type requestCounts struct{ reads, watches, writes int }

func (a requestCounts) since(before requestCounts) requestCounts {
	return requestCounts{a.reads - before.reads, a.watches - before.watches, a.writes - before.writes}
}

// flowSchemaVerbs classifies the requests. The names sort before contenderFlowSchema, which decides between FlowSchemas
// of the same precedence.
var flowSchemaVerbs = map[string][]string{
	"bench-by-verb-reads":   {"get", "list"},
	"bench-by-verb-watches": {"watch"},
	"bench-by-verb-writes":  {"create", "update", "patch", "delete", "deletecollection"},
}

// countRequestsByVerb makes the API server count the contender's requests by verb.
func (s *harness) countRequestsByVerb() {
	s.Helper()
	for name, verbs := range flowSchemaVerbs {
		s.createFlowSchema(name, operator.User, verbs...)
	}
	kube, err := kubernetes.NewForConfig(s.operatorConfig())
	s.must(err)
	for deadline := time.Now().Add(waitTimeout); !s.allVerbsCounted(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.Fatal("the API server does not count the requests of " + operator.User + " by verb")
		}
		// One request of each kind; rejected ones are counted, too.
		namespaces := kube.CoreV1().Namespaces()
		_, _ = namespaces.Get(s.Context(), "default", metav1.GetOptions{})
		if w, err := namespaces.Watch(s.Context(), metav1.ListOptions{}); err == nil {
			w.Stop()
		}
		_ = namespaces.Delete(s.Context(), "none-of-this-name", metav1.DeleteOptions{})
	}
}

func (s *harness) allVerbsCounted() bool {
	s.Helper()
	a := s.requestCounts()
	return a.reads > 0 && a.watches > 0 && a.writes > 0
}

// requestCounts returns the counters of the API server.
func (s *harness) requestCounts() requestCounts {
	s.Helper()
	return requestCounts{s.dispatchedRequests("bench-by-verb-reads"), s.dispatchedRequests("bench-by-verb-watches"), s.dispatchedRequests("bench-by-verb-writes")}
}

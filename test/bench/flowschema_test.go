package bench

import (
	"bufio"
	"bytes"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
)

// contenderFlowSchema matches the requests of a contender, so that the API server counts them without the cost of an
// audit log.
const contenderFlowSchema = "bench-contender"

// countCalls makes the API server count the requests of a user.
func (s *harness) countCalls(user string) {
	s.Helper()
	s.createFlowSchema(contenderFlowSchema, user, "*")
	// The API server applies the FlowSchema with a delay: wait until a request is counted.
	cfg, err := s.plane.ConfigFor(user)
	s.must(err)
	kube, err := kubernetes.NewForConfig(cfg)
	s.must(err)
	for deadline := time.Now().Add(waitTimeout); s.calls() == 0; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.Fatal("the API server does not count the requests of " + user)
		}
		_, _ = kube.CoreV1().Namespaces().Get(s.Context(), "default", metav1.GetOptions{})
	}
}

// createFlowSchema counts requests of a user with these verbs under a name.
func (s *harness) createFlowSchema(name, user string, verbs ...string) {
	s.Helper()
	s.must(s.Create(s.Context(), &flowcontrolv1.FlowSchema{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: flowcontrolv1.FlowSchemaSpec{
			MatchingPrecedence: 2, // 1 is used by Kubernetes
			// The level of administrators, so that no contender waits in a queue.
			PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: "exempt"},
			Rules: []flowcontrolv1.PolicyRulesWithSubjects{{
				Subjects:         []flowcontrolv1.Subject{{Kind: flowcontrolv1.SubjectKindUser, User: &flowcontrolv1.UserSubject{Name: user}}},
				ResourceRules:    []flowcontrolv1.ResourcePolicyRule{{Verbs: verbs, APIGroups: []string{"*"}, Resources: []string{"*"}, ClusterScope: true, Namespaces: []string{"*"}}},
				NonResourceRules: []flowcontrolv1.NonResourcePolicyRule{{Verbs: verbs, NonResourceURLs: []string{"*"}}},
			}},
		},
	}))
}

// calls returns the number of requests of the contender so far.
func (s *harness) calls() int { return s.dispatchedRequests(contenderFlowSchema) }

func (s *harness) dispatchedRequests(name string) int {
	s.Helper()
	n := 0.0
	for _, v := range s.apiServerMetric("apiserver_flowcontrol_dispatched_requests_total", `flow_schema="`+name+`"`) {
		n += v
	}
	return int(n)
}

// apiServerMetric returns the values of a metric of the API server whose labels contain a text.
func (s *harness) apiServerMetric(name, label string) []float64 {
	s.Helper()
	kube, err := kubernetes.NewForConfig(s.plane.Config)
	s.must(err)
	content, err := kube.RESTClient().Get().AbsPath("/metrics").DoRaw(s.Context())
	s.must(err)
	var out []float64
	lines := bufio.NewScanner(bytes.NewReader(content))
	for lines.Scan() {
		line := lines.Text()
		if !strings.HasPrefix(line, name+"{") || !strings.Contains(line, label) {
			continue
		}
		v, err := strconv.ParseFloat(line[strings.LastIndex(line, " ")+1:], 64)
		s.must(err)
		out = append(out, v)
	}
	s.must(lines.Err())
	return out
}

// etcdRevision returns the number of all writes to etcd.
func (s *harness) etcdRevision() int {
	s.Helper()
	var list corev1.NamespaceList
	s.must(s.List(s.Context(), &list, client.Limit(1)))
	n, err := strconv.Atoi(list.ResourceVersion)
	s.must(err)
	return n
}

// operatorConfig returns the access of the operator.
func (s *harness) operatorConfig() *rest.Config {
	s.Helper()
	cfg, err := s.plane.ConfigFor(operator.User)
	s.must(err)
	return cfg
}

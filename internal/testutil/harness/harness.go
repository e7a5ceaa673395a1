// Package harness is what the stories of all kinds are played on: a real control plane with
// one node, played, and the operator's own program.
//
// Safety rule: a story that the operator may not play, because config/rbac does not cover
// it, fails.
package harness

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/holdfast-dev/holdfast/internal/testutil"
	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
	"github.com/holdfast-dev/holdfast/internal/testutil/controlplane"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
	"github.com/holdfast-dev/holdfast/internal/testutil/podsim"
	"github.com/holdfast-dev/holdfast/internal/testutil/sqlsim"
	"github.com/holdfast-dev/holdfast/internal/testutil/volsim"
)

// Main runs the tests of a package with stories.
func Main(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		fmt.Println("stories need an API server: make test-api runs them")
		return
	}
	// Stories mostly wait: as many as there are cores at a time would take minutes.
	if err := flag.Set("test.parallel", "32"); err != nil {
		panic(err)
	}
	ctrl.SetLogger(logr.Discard()) // the client of the tests has nothing to say
	os.Exit(m.Run())
}

// Harness is a control plane and an operator.
type Harness struct {
	Plane    *controlplane.Plane
	AuditLog *audit.Log
	Operator *operator.Operator
	// Databases are the servers in its pods.
	Databases *sqlsim.Pods
}

// New starts a stage that ends with the test. play says what becomes of pods.
func New(t *testing.T, behavior func(*corev1.Pod) podsim.Behavior, o operator.Options) *Harness {
	t.Helper()
	plane := testutil.ControlPlane(t, controlplane.Options{Audit: true})
	operator.Install(t, plane)
	if _, err := podsim.Start(t.Context(), plane.Config, podsim.WithBehavior(behavior)); err != nil {
		t.Fatal(err)
	}
	if err := volsim.Start(t.Context(), plane.Config); err != nil {
		t.Fatal(err)
	}
	log, err := audit.Open(plane.AuditLog())
	if err != nil {
		t.Fatal(err)
	}
	databases, env, err := sqlsim.Start(t.Context(), plane.Config)
	if err != nil {
		t.Fatal(err)
	}
	o.Env = append(o.Env, env)
	return &Harness{Plane: plane, AuditLog: log, Databases: databases, Operator: operator.Start(t, plane, o)}
}

// ExpectNoForbiddenRequests fails the test if the operator asked for something that it may not do.
func (s *Harness) ExpectNoForbiddenRequests(t *testing.T) {
	t.Helper()
	requests, err := s.AuditLog.Since(t.Context(), s.Plane.Config, 0)
	if err != nil {
		t.Fatal(err)
	}
	forbidden := requests.By(operator.User).Where(func(e *audit.Event) bool {
		if e.ResponseStatus.Code != 403 {
			return false
		}
		message := e.ResponseStatus.Message
		return !strings.Contains(message, "quota") &&
			!strings.Contains(message, "must support resize") && // a StorageClass
			!strings.Contains(message, "is being terminated") && // a namespace
			!strings.Contains(message, "definition is terminating") && // a CRD
			!strings.Contains(message, "cannot find RESTMapping") // a CRD is new, and not everybody has noticed
	})
	if len(forbidden) > 0 {
		t.Errorf("config/rbac does not cover what the operator does:\n%sThe first answer: %s", forbidden.Count(), forbidden[0].ResponseStatus.Message)
	}
}

// BehaviorByTag lets the tag of an image say what becomes of its pods.
func BehaviorByTag(behaviors map[string]podsim.Behavior) func(*corev1.Pod) podsim.Behavior {
	return func(pod *corev1.Pod) podsim.Behavior {
		for i := range pod.Spec.Containers {
			_, tag, _ := strings.Cut(pod.Spec.Containers[i].Image, ":")
			if b, ok := behaviors[tag]; ok {
				return b
			}
		}
		return podsim.Behavior{}
	}
}

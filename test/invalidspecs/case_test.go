package invalidspecs_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/harness"
)

const (
	// reportTimeout is the maximum time until the error is reported.
	reportTimeout = 10 * time.Second
	// observationPeriod is the time for which the operator is observed afterwards.
	observationPeriod = 5 * time.Second
	// maxWrites is the maximum number of writes in that time: status updates and events.
	maxWrites = 3
)

// invalidSpec is a test case.
type invalidSpec struct {
	name, class string
	// kind is the kind of the object. Empty means AppService.
	kind string
	// objectName is the name of the object, if the name is invalid.
	objectName string
	// baseSpec is the previous valid spec. Empty means the default of the kind.
	baseSpec string
	spec     string
	// setup prepares the namespace.
	setup func(*world)
	// reason is the reason of the Ready condition. Empty means that the spec is rejected at admission.
	reason string
	// wantMessage is the required part of the message.
	wantMessage string
	// grace overrides reportTimeout. graceReason is its reason.
	grace       time.Duration
	graceReason string
	// maxRejectedWrites is the maximum number of rejected writes in observationPeriod, for errors that require a
	// change outside of Holdfast.
	maxRejectedWrites int
}

func (m invalidSpec) rejectedAtAdmission() bool { return m.reason == "" }

func (m invalidSpec) objectKind() string {
	if m.kind == "" {
		return "AppService"
	}
	return m.kind
}

func (m invalidSpec) validSpec() string {
	switch {
	case m.baseSpec != "":
		return m.baseSpec
	case m.kind == "AppStack":
		return validStack
	}
	return validService
}

const (
	validService = `{image: "shop/web:1", ports: [{name: http, port: 80, targetPort: 8080}]}`
	validStack   = `{components: [` + apiComponent + `, ` + webComponent + `]}`
	apiComponent = `{name: api, service: {image: "shop/api:1", ports: [{port: 8080}]}}`
	webComponent = `{name: web, bindings: [{component: api}], service: {image: "shop/web:1", ports: [{port: 80}]}}`
)

// cases returns all cases.
var cases = slices.Concat(shapeCases, serviceCases, podCases, overlayCases, clusterCases)

// classCases returns the cases of a class, sorted by name.
func classCases(class, kind string, byName map[string]invalidSpec) []invalidSpec {
	var out []invalidSpec
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		m := byName[name]
		m.name, m.class, m.kind = name, class, kind
		out = append(out, m)
	}
	return out
}

func TestCaseNamesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range cases {
		if seen[m.name] {
			t.Errorf("two cases have the name %q", m.name)
		}
		seen[m.name] = true
	}
}

// world is the namespace of a case.
type world struct{ *harness.World }

func newWorld(t *testing.T, s *harness.Harness) *world {
	t.Helper()
	w := &world{s.NewWorld(t)}
	namespaced := *s
	namespaced.AuditLog = s.AuditLog.WithSubstring(w.NS) // cases run in parallel
	w.Harness = &namespaced
	return w
}

// newObject returns the object as a user applies it, unstructured, so that only the API server validates the spec.
func (w *world) newObject(kind, name, spec string) *unstructured.Unstructured {
	w.Helper()
	var content any
	w.Expect(yaml.Unmarshal([]byte(spec), &content)).To(Succeed())
	o := &unstructured.Unstructured{Object: map[string]any{"spec": content}}
	o.SetGroupVersionKind(appsapi.GroupVersion.WithKind(kind))
	o.SetNamespace(w.NS)
	o.SetName(name)
	return o
}

// apply writes a spec with strict field validation, as kubectl does.
func (w *world) apply(kind, name, spec string) error {
	w.Helper()
	o := w.newObject(kind, name, spec)
	current := w.newObject(kind, name, spec)
	if err := w.Get(w.Context(), client.ObjectKeyFromObject(current), current); err != nil {
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		return w.Create(w.Context(), o, client.FieldValidation(metav1.FieldValidationStrict))
	}
	o.SetResourceVersion(current.GetResourceVersion())
	return w.Update(w.Context(), o, client.FieldValidation(metav1.FieldValidationStrict))
}

// applyWithRetry retries apply after a conflict with a status update.
func (w *world) applyWithRetry(kind, name, spec string) error {
	w.Helper()
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error { return w.apply(kind, name, spec) })
}

// readyCondition returns the Ready condition if it is of the current generation.
func (w *world) readyCondition(kind, name string) metav1.Condition {
	o := w.newObject(kind, name, "{}")
	if err := w.Get(w.Context(), client.ObjectKeyFromObject(o), o); err != nil {
		return metav1.Condition{Message: err.Error()}
	}
	var status struct {
		Status appsapi.ApplicationStatus `json:"status"`
	}
	content, err := o.MarshalJSON()
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(yaml.Unmarshal(content, &status)).To(Succeed())
	c := meta.FindStatusCondition(status.Status.Conditions, "Ready")
	if c == nil || c.ObservedGeneration != o.GetGeneration() {
		return metav1.Condition{Message: "not reported yet"}
	}
	return *c
}

func (w *world) waitReady(kind, name string) {
	w.Helper()
	w.Eventually(func() string {
		c := w.readyCondition(kind, name)
		return fmt.Sprintf("%s/%s: %s", c.Status, c.Reason, c.Message)
	}, "60s", "50ms").Should(Equal("True/Reconciled: Everything runs as declared"))
}

// runRejected runs all cases that are rejected at admission. They share valid objects, which must not change.
func runRejected(t *testing.T, s *harness.Harness, results *rows) {
	w := newWorld(t, s)
	validObjects := map[string]string{}
	for _, m := range cases {
		key := m.objectKind() + m.validSpec()
		if _, exists := validObjects[key]; exists || !m.rejectedAtAdmission() {
			continue
		}
		validObjects[key] = fmt.Sprintf("good-%d", len(validObjects))
		w.Expect(w.apply(m.objectKind(), validObjects[key], m.validSpec())).To(Succeed(), m.name)
	}
	for _, m := range cases {
		if !m.rejectedAtAdmission() {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			w := &world{w.ForTest(t)}
			object := validObjects[m.objectKind()+m.validSpec()]
			if m.objectName != "" {
				object = m.objectName
			}
			start := time.Now()
			err := w.applyWithRetry(m.objectKind(), object, m.spec)
			took := time.Since(start)
			if err == nil {
				w.Expect(w.applyWithRetry(m.objectKind(), object, m.validSpec())).To(Succeed())
				t.Fatalf("the spec was accepted")
			}
			results.add(row{Case: m.name, Kind: m.objectKind(), Class: m.class, Where: "admission", Message: err.Error(), Seconds: took.Seconds()})
			if !strings.Contains(err.Error(), m.wantMessage) {
				t.Errorf("got\n\t%s\nwant a message with\n\t%s", err, m.wantMessage)
			}
		})
	}
	for key, name := range validObjects {
		kind, _, _ := strings.Cut(key, "{")
		w.waitReady(kind, name)
		o := w.newObject(kind, name, "{}")
		w.Expect(w.Get(w.Context(), client.ObjectKeyFromObject(o), o)).To(Succeed())
		w.Expect(o.GetGeneration()).To(BeEquivalentTo(1), "%s was changed", name)
	}
}

// runAccepted runs a case that passes admission.
func runAccepted(t *testing.T, s *harness.Harness, m invalidSpec, results *rows) {
	w := newWorld(t, s)
	if m.setup != nil {
		m.setup(w)
	}
	kind, object := m.objectKind(), "web"
	w.Expect(w.apply(kind, object, m.validSpec())).To(Succeed())
	w.waitReady(kind, object)

	w.Expect(w.applyWithRetry(kind, object, m.spec)).To(Succeed())
	start := time.Now()
	limit := max(reportTimeout, m.grace)
	reported := func(c metav1.Condition) bool {
		return c.Reason == m.reason && strings.Contains(c.Message, m.wantMessage)
	}
	var c metav1.Condition
	_ = wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, limit, true, func(context.Context) (bool, error) {
		c = w.readyCondition(kind, object)
		return reported(c), nil
	})
	took := time.Since(start)
	if !reported(c) {
		t.Errorf("after %v got\n\t%s/%s: %s\nwant\n\t%s: %s", limit, c.Status, c.Reason, c.Message, m.reason, m.wantMessage)
	}
	calls := w.OperatorRequestsWithin(observationPeriod)
	accepted, rejected := calls.Writes().Count().Total()
	if accepted > maxWrites || rejected > m.maxRejectedWrites {
		t.Errorf("%d writes and %d rejected writes within %v:\n%s", accepted, rejected, observationPeriod, calls.Count())
	}
	results.add(row{Case: m.name, Kind: kind, Class: m.class, Where: "condition", Reason: c.Reason, Message: w.normalizeMessage(c.Message),
		GraceReason: m.graceReason, Seconds: took.Seconds(), Writes: accepted, Retries: rejected})

	w.Expect(w.applyWithRetry(kind, object, m.validSpec())).To(Succeed())
	w.waitReady(kind, object)
}

package invalidspecs_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/harness"
)

const (
	// reportTimeout is how long it may take until somebody is told.
	reportTimeout = 10 * time.Second
	// observationPeriod is how long the operator is watched afterwards.
	observationPeriod = 5 * time.Second
	// maxWrites is how much it may write meanwhile: a status that follows, and events.
	maxWrites = 3
)

// invalidSpec is one wrong spec.
type invalidSpec struct {
	class string
	// kind of the object; "" is an AppService.
	kind string
	// objectName is what the object is called, if that is what is wrong.
	objectName string
	// baseSpec is the spec before, if it is not the usual one of its kind.
	baseSpec string
	spec     string
	// setup prepares the namespace.
	setup func(*world)
	// reason of the condition; none means that it is refused at admission.
	reason string
	// wantMessage is the part of the message that helps.
	wantMessage string
	// grace is how long it may take, if that is longer than usual, and why says why.
	grace       time.Duration
	graceReason string
	// maxRejectedWrites is how many writes may be refused while the operator is watched, where only
	// somebody else can lift what is in the way.
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

// cases are all of them, by name.
var cases = map[string]invalidSpec{}

// addCases adds the cases of one class.
func addCases(class, kind string, newCases map[string]invalidSpec) {
	for name, m := range newCases {
		m.class, m.kind = class, kind
		if _, taken := cases[name]; taken {
			panic("two cases are called " + name)
		}
		cases[name] = m
	}
}

// world is the namespace of a case.
type world struct{ *harness.World }

func newWorld(t *testing.T, s *harness.Harness) *world {
	t.Helper()
	w := &world{s.NewWorld(t)}
	namespaced := *s
	namespaced.AuditLog = s.AuditLog.WithSubstring(w.NS) // many read it at the same time
	w.Harness = &namespaced
	return w
}

// newObject is what a user would apply. Nothing but the API server looks at the spec.
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

// apply writes a spec as kubectl does: strictly.
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

// applyWithRetry does so again when a status was written meanwhile.
func (w *world) applyWithRetry(kind, name, spec string) error {
	w.Helper()
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error { return w.apply(kind, name, spec) })
}

// readyCondition reads the condition Ready, if it is about the spec as it is now.
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
		return metav1.Condition{Message: "nothing is said yet"}
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

// runRejected plays all cases that are refused. They share their good objects: nothing may
// become of these.
func runRejected(t *testing.T, s *harness.Harness, results *rows) {
	w := newWorld(t, s)
	validObjects := map[string]string{}
	for name, m := range cases {
		key := m.objectKind() + m.validSpec()
		if _, exists := validObjects[key]; exists || !m.rejectedAtAdmission() {
			continue
		}
		validObjects[key] = fmt.Sprintf("good-%d", len(validObjects))
		w.Expect(w.apply(m.objectKind(), validObjects[key], m.validSpec())).To(Succeed(), name)
	}
	for name, m := range cases {
		if !m.rejectedAtAdmission() {
			continue
		}
		t.Run(name, func(t *testing.T) {
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
				t.Fatalf("it is accepted")
			}
			results.add(row{Case: name, Kind: m.objectKind(), Class: m.class, Where: "admission", Message: err.Error(), Seconds: took.Seconds()})
			if !strings.Contains(err.Error(), m.wantMessage) {
				t.Errorf("the answer is\n\t%s\nand lacks\n\t%s", err, m.wantMessage)
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

// runAccepted plays a case that passes admission.
func runAccepted(t *testing.T, s *harness.Harness, name string, m invalidSpec, results *rows) {
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
	c := w.readyCondition(kind, object)
	for !reported(c) && time.Since(start) < limit {
		time.Sleep(50 * time.Millisecond)
		c = w.readyCondition(kind, object)
	}
	took := time.Since(start)
	if !reported(c) {
		t.Errorf("after %v it says\n\t%s/%s: %s\nand not\n\t%s: %s", limit, c.Status, c.Reason, c.Message, m.reason, m.wantMessage)
	}
	calls := w.OperatorRequests(func() { time.Sleep(observationPeriod) })
	accepted, rejected := calls.Writes().Count().Total()
	if accepted > maxWrites || rejected > m.maxRejectedWrites {
		t.Errorf("%d writes and %d refused ones within %v:\n%s", accepted, rejected, observationPeriod, calls.Count())
	}
	results.add(row{Case: name, Kind: kind, Class: m.class, Where: "condition", Reason: c.Reason, Message: w.normalizeMessage(c.Message),
		GraceReason: m.graceReason, Seconds: took.Seconds(), Writes: accepted, Retries: rejected})

	w.Expect(w.applyWithRetry(kind, object, m.validSpec())).To(Succeed())
	w.waitReady(kind, object)
}

package misuse_test

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
	"github.com/holdfast-dev/holdfast/internal/testutil/stage"
)

const (
	// within is how long it may take until somebody is told.
	within = 10 * time.Second
	// quiet is how long the operator is watched afterwards.
	quiet = 5 * time.Second
	// maxWrites is how much it may write meanwhile: a status that follows, and events.
	maxWrites = 3
)

// misuse is one wrong spec.
type misuse struct {
	class string
	// kind of the object; "" is an AppService.
	kind string
	// named is what the object is called, if that is what is wrong.
	named string
	// good is the spec before, if it is not the usual one of its kind.
	good string
	spec string
	// before prepares the namespace.
	before func(*world)
	// reason of the condition; none means that it is refused at admission.
	reason string
	// says is the part of the message that helps.
	says string
	// grace is how long it may take, if that is longer than usual, and why says why.
	grace time.Duration
	why   string
	// tries is how many writes may be refused while the operator is watched, where only
	// somebody else can lift what is in the way.
	tries int
}

func (m misuse) refused() bool { return m.reason == "" }

func (m misuse) kindOf() string {
	if m.kind == "" {
		return "AppService"
	}
	return m.kind
}

func (m misuse) goodSpec() string {
	switch {
	case m.good != "":
		return m.good
	case m.kind == "AppStack":
		return usualStack
	}
	return usual
}

const (
	usual      = `{image: "shop/web:1", ports: [{name: http, port: 80, targetPort: 8080}]}`
	usualStack = `{components: [` + api + `, ` + web + `]}`
	api        = `{name: api, service: {image: "shop/api:1", ports: [{port: 8080}]}}`
	web        = `{name: web, bindings: [{component: api}], service: {image: "shop/web:1", ports: [{port: 80}]}}`
)

// cases are all of them, by name.
var cases = map[string]misuse{}

// add adds the cases of one class.
func add(class, kind string, more map[string]misuse) {
	for name, m := range more {
		m.class, m.kind = class, kind
		if _, taken := cases[name]; taken {
			panic("two cases are called " + name)
		}
		cases[name] = m
	}
}

// world is the namespace of a case.
type world struct{ *stage.World }

func newWorld(t *testing.T, s *stage.Stage) *world {
	t.Helper()
	w := &world{s.World(t)}
	own := *s
	own.Log = s.Log.About(w.NS) // many read it at the same time
	w.Stage = &own
	return w
}

// object is what a user would apply. Nothing but the API server looks at the spec.
func (w *world) object(kind, name, spec string) *unstructured.Unstructured {
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
	o := w.object(kind, name, spec)
	now := w.object(kind, name, spec)
	if err := w.Get(w.Context(), client.ObjectKeyFromObject(now), now); err != nil {
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		return w.Create(w.Context(), o, client.FieldValidation(metav1.FieldValidationStrict))
	}
	o.SetResourceVersion(now.GetResourceVersion())
	return w.Update(w.Context(), o, client.FieldValidation(metav1.FieldValidationStrict))
}

// applyPatiently does so again when a status was written meanwhile.
func (w *world) applyPatiently(kind, name, spec string) error {
	w.Helper()
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error { return w.apply(kind, name, spec) })
}

// ready reads the condition Ready, if it is about the spec as it is now.
func (w *world) ready(kind, name string) metav1.Condition {
	o := w.object(kind, name, "{}")
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

func (w *world) becomesReady(kind, name string) {
	w.Helper()
	w.Eventually(func() string {
		c := w.ready(kind, name)
		return fmt.Sprintf("%s/%s: %s", c.Status, c.Reason, c.Message)
	}, "60s", "50ms").Should(Equal("True/Reconciled: Everything runs as declared"))
}

// playRefused plays all cases that are refused. They share their good objects: nothing may
// become of these.
func playRefused(t *testing.T, s *stage.Stage, all *rows) {
	w := newWorld(t, s)
	goods := map[string]string{}
	for name, m := range cases {
		key := m.kindOf() + m.goodSpec()
		if _, made := goods[key]; made || !m.refused() {
			continue
		}
		goods[key] = fmt.Sprintf("good-%d", len(goods))
		w.Expect(w.apply(m.kindOf(), goods[key], m.goodSpec())).To(Succeed(), name)
	}
	for name, m := range cases {
		if !m.refused() {
			continue
		}
		t.Run(name, func(t *testing.T) {
			w := &world{w.On(t)}
			object := goods[m.kindOf()+m.goodSpec()]
			if m.named != "" {
				object = m.named
			}
			start := time.Now()
			err := w.applyPatiently(m.kindOf(), object, m.spec)
			took := time.Since(start)
			if err == nil {
				w.Expect(w.applyPatiently(m.kindOf(), object, m.goodSpec())).To(Succeed())
				t.Fatalf("it is accepted")
			}
			all.add(row{Case: name, Kind: m.kindOf(), Class: m.class, Where: "admission", Message: err.Error(), Seconds: took.Seconds()})
			if !strings.Contains(err.Error(), m.says) {
				t.Errorf("the answer is\n\t%s\nand lacks\n\t%s", err, m.says)
			}
		})
	}
	for key, name := range goods {
		kind, _, _ := strings.Cut(key, "{")
		w.becomesReady(kind, name)
		o := w.object(kind, name, "{}")
		w.Expect(w.Get(w.Context(), client.ObjectKeyFromObject(o), o)).To(Succeed())
		w.Expect(o.GetGeneration()).To(BeEquivalentTo(1), "%s was changed", name)
	}
}

// playAccepted plays a case that passes admission.
func playAccepted(t *testing.T, s *stage.Stage, name string, m misuse, all *rows) {
	w := newWorld(t, s)
	if m.before != nil {
		m.before(w)
	}
	kind, object := m.kindOf(), "web"
	w.Expect(w.apply(kind, object, m.goodSpec())).To(Succeed())
	w.becomesReady(kind, object)

	w.Expect(w.applyPatiently(kind, object, m.spec)).To(Succeed())
	start := time.Now()
	limit := max(within, m.grace)
	told := func(c metav1.Condition) bool { return c.Reason == m.reason && strings.Contains(c.Message, m.says) }
	c := w.ready(kind, object)
	for !told(c) && time.Since(start) < limit {
		time.Sleep(50 * time.Millisecond)
		c = w.ready(kind, object)
	}
	took := time.Since(start)
	if !told(c) {
		t.Errorf("after %v it says\n\t%s/%s: %s\nand not\n\t%s: %s", limit, c.Status, c.Reason, c.Message, m.reason, m.says)
	}
	calls := w.Calls(func() { time.Sleep(quiet) })
	accepted, refused := calls.Writes().Count().Total()
	if accepted > maxWrites || refused > m.tries {
		t.Errorf("%d writes and %d refused ones within %v:\n%s", accepted, refused, quiet, calls.Count())
	}
	all.add(row{Case: name, Kind: kind, Class: m.class, Where: "condition", Reason: c.Reason, Message: w.anonymous(c.Message),
		Late: m.why, Seconds: took.Seconds(), Writes: accepted, Retries: refused})

	w.Expect(w.applyPatiently(kind, object, m.goodSpec())).To(Succeed())
	w.becomesReady(kind, object)
}

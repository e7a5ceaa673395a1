package bench

import (
	"fmt"
	"net"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/test/bench/results"
)

const (
	// poisonous is how many applications always fail.
	poisonous = 50
	// goodShare is how much of what the operator can do the good ones ask for: a machine
	// that is full without poison shows nothing.
	goodShare = 0.2
	// hangs is how long a webhook may take that says nothing else.
	hangs = 10 * time.Second
)

// Where applications cannot come up, and why. The operator tries both for ever: what is
// refused ever more rarely, what nobody answered every few seconds.
const (
	refusing = "poison-refused" // a policy says no
	hanging  = "poison-hanging" // a webhook that has to be asked does not answer
)

// poisoning is P13: the same arrivals without and with neighbours that always fail. The
// world grows meanwhile, so it is without, with, with, without.
func poisoning(t *testing.T, size liveSize) []results.Figure {
	s := liveStage(t)
	s.forbidDeployments()
	before, start := s.usage(), time.Now()
	good, calls := map[bool]latencies{}, map[bool]float64{}
	rate, from := goodShare*s.saturate(size.burst, nobody), size.burst
	round := func(poisoned bool) {
		l, perSecond := s.goodOnes(from, rate, size.loop)
		from += len(l)
		s.Logf("%.1f apps/s for %s, poison %t: %s; %.1f calls/s", rate, size.loop, poisoned, l, perSecond)
		good[poisoned] = append(good[poisoned], l...)
		calls[poisoned] += perSecond / 2
	}
	round(false)
	s.each(poisonous, func(i int) error { return s.Create(s.Context(), newPoison(i)) })
	time.Sleep(calm) // fifty at once are a burst, whatever becomes of them
	round(true)
	round(true)
	s.stillPoisoned()
	alone := s.callsPerSecond(size.loop)
	s.each(poisonous, func(i int) error { return s.Delete(s.Context(), newPoison(i)) })
	time.Sleep(calm)
	round(false)
	out := good[false].figures("P13", "good ones without poison")
	out = append(out, good[true].figures("P13", "good ones with poison")...)
	ratio := results.Figure{
		Row: "P13", Name: "p99 of the good ones, with / without", Got: good[true].at(0.99) / good[false].at(0.99),
		Note: fmt.Sprintf("%d that always fail, good ones at %.1f/s; p50: %.2f", poisonous, rate, good[true].at(0.50)/good[false].at(0.50)),
	}
	others := s.others("P13", before, start)
	return append(out, ratio.AtMost(1.5, 1.1).DisturbedBy(others),
		results.Figure{Row: "P13", Name: "calls of the poison, from its beginning", Got: calls[true] - calls[false], Unit: "1/s", Note: "with less without"},
		results.Figure{Row: "P13", Name: "calls of the poison, later and alone", Got: alone, Unit: "1/s", Note: "nothing else happens"},
		others)
}

// goodOnes arrive, and the operator's calls are counted until all of them are Ready.
func (s *stage) goodOnes(from int, rate float64, d time.Duration) (latencies, float64) {
	s.Helper()
	before, start := s.calls(), time.Now()
	l := s.arrive(from, rate, d, nobody)
	return l, float64(s.calls()-before) / time.Since(start).Seconds()
}

// callsPerSecond are those of the operator while nobody asks anything of it.
func (s *stage) callsPerSecond(d time.Duration) float64 {
	s.Helper()
	time.Sleep(calm)
	before, start := s.calls(), time.Now()
	time.Sleep(d)
	return float64(s.calls()-before) / time.Since(start).Seconds()
}

func newPoison(i int) *appsapi.AppService {
	app := newApp(i)
	app.Name = fmt.Sprintf("poison-%05d", i)
	app.Namespace = refusing
	if i%2 == 1 {
		app.Namespace = hanging
	}
	return app
}

// forbidDeployments makes two namespaces in which no Deployment can be created.
func (s *stage) forbidDeployments() {
	s.Helper()
	in := func(name string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: name}}
	}
	rule := admissionv1.RuleWithOperations{
		Operations: []admissionv1.OperationType{admissionv1.Create},
		Rule:       admissionv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}},
	}
	for _, obj := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: refusing}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: hanging}},
		&admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: refusing}, Spec: admissionv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: new(admissionv1.Fail),
			MatchConstraints: &admissionv1.MatchResources{
				NamespaceSelector: in(refusing), ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: rule}},
			},
			Validations: []admissionv1.Validation{{Expression: "false", Message: "no Deployments here"}},
		}},
		&admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: refusing}, Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: refusing, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		}},
		&admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: hanging}, Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "nobody.example.com", NamespaceSelector: in(hanging), Rules: []admissionv1.RuleWithOperations{rule},
			ClientConfig:  admissionv1.WebhookClientConfig{URL: new("https://" + s.silence() + "/")},
			FailurePolicy: new(admissionv1.Fail), SideEffects: new(admissionv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"}, TimeoutSeconds: new(int32(hangs / time.Second)),
		}}},
	} {
		s.must(s.Create(s.Context(), obj))
	}
	// The API server takes both up in its own time.
	for namespace, refused := range map[string]func(error) bool{refusing: apierrors.IsInvalid, hanging: apierrors.IsInternalError} {
		s.eventually("a namespace without Deployments", func() string {
			err := s.Create(s.Context(), probe(namespace), client.DryRunAll)
			if !refused(err) {
				return fmt.Sprintf("a Deployment in %s is answered with %v", namespace, err)
			}
			return ""
		})
	}
}

// silence is an address where everybody is let in and nobody is answered.
func (s *stage) silence() string {
	s.Helper()
	door, err := net.Listen("tcp", "127.0.0.1:0")
	s.must(err)
	s.Cleanup(func() { _ = door.Close() })
	go func() {
		for {
			guest, err := door.Accept()
			if err != nil {
				return
			}
			s.Cleanup(func() { _ = guest.Close() })
		}
	}()
	return door.Addr().String()
}

// probe is any Deployment.
func probe(namespace string) *appsv1.Deployment {
	labels := map[string]string{"any": "label"}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "probe"}}
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	d.Spec.Template.Labels = labels
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "main", Image: "any"}}
	return d
}

// stillPoisoned checks that the poison was poison to the end.
func (s *stage) stillPoisoned() {
	s.Helper()
	for _, namespace := range []string{refusing, hanging} {
		var list appsv1.DeploymentList
		s.must(s.List(s.Context(), &list, client.InNamespace(namespace)))
		if len(list.Items) > 0 {
			s.Errorf("%d Deployments in %s, where none can be", len(list.Items), namespace)
		}
	}
}

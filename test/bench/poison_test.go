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
	// poisonAppCount is the number of failing applications.
	poisonAppCount = 50
	// healthyLoad is the load of healthy applications as a share of the operator's capacity: a saturated machine would
	// hide the effect of failing ones.
	healthyLoad = 0.2
	// webhookTimeout is the default timeout of a webhook.
	webhookTimeout = 10 * time.Second
)

// Namespaces in which applications fail. The operator retries forever: with increasing backoff after a rejection, every
// few seconds after a timeout.
const (
	rejectingNamespace = "poison-refused" // a policy rejects
	hangingNamespace   = "poison-hanging" // a required webhook does not respond
)

// measurePoison measures P13: the same load without and with failing applications. The order without, with, with,
// without cancels the effect of the growing cluster.
func measurePoison(t *testing.T, size scenarioSize) []results.Figure {
	s := newOperatorHarness(t)
	s.blockDeployments()
	before, start := s.usage(), time.Now()
	latenciesByPoison, calls := map[bool]latencies{}, map[bool]float64{}
	rate, from := healthyLoad*s.measureBurstRate(size.burst, noCallback), size.burst
	round := func(poisoned bool) {
		l, perSecond := s.measureHealthyApps(from, rate, size.loadDuration)
		from += len(l)
		s.Logf("%.1f apps/s for %s, poison %t: %s; %.1f calls/s", rate, size.loadDuration, poisoned, l, perSecond)
		latenciesByPoison[poisoned] = append(latenciesByPoison[poisoned], l...)
		calls[poisoned] += perSecond / 2
	}
	round(false)
	s.forEachParallel(poisonAppCount, func(i int) error { return s.Create(s.Context(), newPoisonApp(i)) })
	time.Sleep(settleTime) // fifty creations are a burst, even if they fail
	round(true)
	round(true)
	s.verifyStillFailing()
	idleRate := s.idleCallsPerSecond(size.loadDuration)
	s.forEachParallel(poisonAppCount, func(i int) error { return s.Delete(s.Context(), newPoisonApp(i)) })
	time.Sleep(settleTime)
	round(false)
	out := latenciesByPoison[false].figures("P13", "good ones without poison")
	out = append(out, latenciesByPoison[true].figures("P13", "good ones with poison")...)
	ratio := results.Figure{
		Row: "P13", Name: "p99 of the good ones, with / without", Value: latenciesByPoison[true].percentile(0.99) / latenciesByPoison[false].percentile(0.99),
		Note: fmt.Sprintf("%d failing applications, healthy ones at %.1f/s; p50: %.2f", poisonAppCount, rate, latenciesByPoison[true].percentile(0.50)/latenciesByPoison[false].percentile(0.50)),
	}
	external := s.externalCPU("P13", before, start)
	return append(out, ratio.WithBounds(1.5, 1.1).DisturbedBy(external),
		results.Figure{Row: "P13", Name: "calls of the poison, from its beginning", Value: calls[true] - calls[false], Unit: "1/s", Note: "difference of the runs with and without"},
		results.Figure{Row: "P13", Name: "calls of the poison, later and alone", Value: idleRate, Unit: "1/s", Note: "without any other load"},
		external)
}

// measureHealthyApps creates healthy applications and counts the operator's requests until all of them are Ready.
func (s *harness) measureHealthyApps(from int, rate float64, d time.Duration) (latencies, float64) {
	s.Helper()
	before, start := s.calls(), time.Now()
	l := s.createAtRate(from, rate, d, noCallback)
	return l, float64(s.calls()-before) / time.Since(start).Seconds()
}

// idleCallsPerSecond returns the request rate of the operator without load.
func (s *harness) idleCallsPerSecond(d time.Duration) float64 {
	s.Helper()
	time.Sleep(settleTime)
	before, start := s.calls(), time.Now()
	time.Sleep(d)
	return float64(s.calls()-before) / time.Since(start).Seconds()
}

func newPoisonApp(i int) *appsapi.AppService {
	app := newApp(i)
	app.Name = fmt.Sprintf("poison-%05d", i)
	app.Namespace = rejectingNamespace
	if i%2 == 1 {
		app.Namespace = hangingNamespace
	}
	return app
}

// blockDeployments creates two namespaces in which no Deployment can be created.
func (s *harness) blockDeployments() {
	s.Helper()
	namespaceSelector := func(name string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: name}}
	}
	rule := admissionv1.RuleWithOperations{
		Operations: []admissionv1.OperationType{admissionv1.Create},
		Rule:       admissionv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}},
	}
	for _, obj := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: rejectingNamespace}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: hangingNamespace}},
		&admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: rejectingNamespace}, Spec: admissionv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: new(admissionv1.Fail),
			MatchConstraints: &admissionv1.MatchResources{
				NamespaceSelector: namespaceSelector(rejectingNamespace), ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: rule}},
			},
			Validations: []admissionv1.Validation{{Expression: "false", Message: "no Deployments here"}},
		}},
		&admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: rejectingNamespace}, Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: rejectingNamespace, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		}},
		&admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: hangingNamespace}, Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "nobody.example.com", NamespaceSelector: namespaceSelector(hangingNamespace), Rules: []admissionv1.RuleWithOperations{rule},
			ClientConfig:  admissionv1.WebhookClientConfig{URL: new("https://" + s.startSilentListener() + "/")},
			FailurePolicy: new(admissionv1.Fail), SideEffects: new(admissionv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"}, TimeoutSeconds: new(int32(webhookTimeout / time.Second)),
		}}},
	} {
		s.must(s.Create(s.Context(), obj))
	}
	// The API server applies both with a delay.
	for namespace, isRejected := range map[string]func(error) bool{rejectingNamespace: apierrors.IsInvalid, hangingNamespace: apierrors.IsInternalError} {
		s.eventually("a namespace without Deployments", func() string {
			err := s.Create(s.Context(), newProbeDeployment(namespace), client.DryRunAll)
			if !isRejected(err) {
				return fmt.Sprintf("create a Deployment in %s: got %v", namespace, err)
			}
			return ""
		})
	}
}

// startSilentListener returns an address that accepts connections but never responds.
func (s *harness) startSilentListener() string {
	s.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	s.must(err)
	s.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			s.Cleanup(func() { _ = conn.Close() })
		}
	}()
	return listener.Addr().String()
}

// newProbeDeployment returns an arbitrary Deployment.
func newProbeDeployment(namespace string) *appsv1.Deployment {
	labels := map[string]string{"any": "label"}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "probe"}}
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	d.Spec.Template.Labels = labels
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "main", Image: "any"}}
	return d
}

// verifyStillFailing checks that the applications failed until the end.
func (s *harness) verifyStillFailing() {
	s.Helper()
	for _, namespace := range []string{rejectingNamespace, hangingNamespace} {
		var list appsv1.DeploymentList
		s.must(s.List(s.Context(), &list, client.InNamespace(namespace)))
		if len(list.Items) > 0 {
			s.Errorf("got %d Deployments in %s, want none", len(list.Items), namespace)
		}
	}
}

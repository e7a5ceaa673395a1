package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/duration"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/application"
	"github.com/holdfast-dev/holdfast/internal/cli"
)

// installHint is the fix for most of it.
const installHint = "install it: kubectl apply -f dist/install.yaml (docs/user/install.md)"

// addUnknown is the check of something that may not be looked at.
func (e *checker) addUnknown(name string, err error) {
	fix := "ask for the right to read it"
	if !apierrors.IsForbidden(err) {
		fix = "try again"
	}
	e.add(name, Unknown, "not checked: "+err.Error(), fix)
}

// minKubernetesMinor is the first version of Kubernetes that we are made for.
const minKubernetesMinor = 34

// checkAPIServer asks for the version. Who does not get that far cannot look at anything.
func (e *checker) checkAPIServer() error {
	v, err := e.kube.Discovery().ServerVersion()
	if err != nil {
		return fmt.Errorf("reach the API server: %w; choose another cluster with --context or --kubeconfig", cli.WithHint(err))
	}
	minor, err := strconv.Atoi(strings.TrimRight(v.Minor, "+"))
	if v.Major == "1" && err == nil && minor < minKubernetesMinor {
		e.add("Kubernetes", Problem, fmt.Sprintf("%s is older than 1.%d, which nothing is tested with", v.GitVersion, minKubernetesMinor), "upgrade the cluster")
		return nil
	}
	e.add("Kubernetes", OK, v.GitVersion, "")
	return nil
}

var crdResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// checkCRDs looks at the definitions of our kinds.
func (e *checker) checkCRDs(ctx context.Context) {
	served, _ := e.kube.Discovery().ServerResourcesForGroupVersion(appsapi.GroupVersion.String()) // none: not served
	for _, k := range application.Kinds {
		name, check := k.Aliases[0]+"."+appsapi.GroupName, "kind "+k.Name
		crd, err := e.dynamic.Resource(crdResource).Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			e.add(check, Problem, fmt.Sprintf("CustomResourceDefinition %s does not exist", name), installHint)
		case apierrors.IsForbidden(err):
			// Everybody may ask what is served.
			if served != nil && slices.ContainsFunc(served.APIResources, func(r metav1.APIResource) bool { return r.Name == k.Aliases[0] }) {
				e.add(check, OK, "served as "+appsapi.GroupVersion.Version, "")
			} else {
				e.add(check, Problem, fmt.Sprintf("the API server does not serve %s as %s", name, appsapi.GroupVersion.Version), installHint)
			}
		case err != nil:
			e.addUnknown(check, err)
		default:
			e.checkCRD(check, name, crd)
		}
	}
}

func (e *checker) checkCRD(check, name string, crd *unstructured.Unstructured) {
	var versions []string
	list, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, v := range list {
		if m, ok := v.(map[string]any); ok && m["served"] == true {
			versions = append(versions, fmt.Sprint(m["name"]))
		}
	}
	established, reason := false, "not yet accepted by the API server"
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	for _, c := range conditions {
		m, _ := c.(map[string]any)
		switch {
		case m["type"] == "Established":
			established = m["status"] == "True"
		case m["type"] == "NamesAccepted" && m["status"] != "True":
			reason = fmt.Sprint(m["message"])
		}
	}
	switch {
	case !established:
		e.add(check, Problem, fmt.Sprintf("CustomResourceDefinition %s is not Established: %s", name, reason), "look at it: kubectl describe crd "+name)
	case !slices.Contains(versions, appsapi.GroupVersion.Version):
		e.add(check, Problem, fmt.Sprintf("CustomResourceDefinition %s serves %s and not %s", name, strings.Join(versions, ", "), appsapi.GroupVersion.Version), "use a plugin of the version of the operator")
	default:
		e.add(check, OK, "Established, serves "+strings.Join(versions, ", "), "")
	}
}

// checkOperator looks at the operator itself.
func (e *checker) checkOperator(ctx context.Context) {
	const check = "operator"
	d, err := e.kube.AppsV1().Deployments(e.operatorNamespace).Get(ctx, cli.OperatorName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		e.add(check, Problem, fmt.Sprintf("there is no Deployment %s/%s", e.operatorNamespace, cli.OperatorName), "say where it is with --operator-namespace, or "+installHint)
		return
	case err != nil:
		e.operatorInfo = operatorInfo{serviceAccount: cli.OperatorName, leaseNamespace: e.operatorNamespace} // as it is installed
		e.addUnknown(check, err)
		return
	}
	e.operatorInfo = parseOperatorInfo(d)
	replicas := int32(1)
	if d.Spec.Replicas != nil {
		replicas = *d.Spec.Replicas
	}
	summary := fmt.Sprintf("%d of %d ready, image %s", d.Status.ReadyReplicas, replicas, cli.DeploymentImage(d))
	hint := fmt.Sprintf("look at it: kubectl -n %s describe pods -l app.kubernetes.io/component=operator", e.operatorNamespace)
	switch {
	case replicas == 0:
		e.add(check, Problem, fmt.Sprintf("Deployment %s/%s is scaled to 0, so nothing is done for any application", e.operatorNamespace, d.Name), fmt.Sprintf("kubectl -n %s scale deployment %s --replicas=1", e.operatorNamespace, d.Name))
	case d.Status.ReadyReplicas == 0, d.Status.ObservedGeneration < d.Generation, d.Status.UpdatedReplicas < replicas:
		e.add(check, Problem, fmt.Sprintf("Deployment %s/%s: %s, %d of the current version", e.operatorNamespace, d.Name, summary, d.Status.UpdatedReplicas), hint)
	case d.Status.ReadyReplicas < replicas:
		e.add(check, Problem, fmt.Sprintf("Deployment %s/%s: %s", e.operatorNamespace, d.Name, summary), hint)
	default:
		if version := cli.DeploymentVersion(d); version != "" {
			summary += ", version " + version
		}
		e.add(check, OK, summary, "")
	}
}

// parseOperatorInfo finds out from its flags what the operator does.
func parseOperatorInfo(d *appsv1.Deployment) operatorInfo {
	f := operatorInfo{serviceAccount: d.Spec.Template.Spec.ServiceAccountName, version: cli.DeploymentVersion(d), leaseNamespace: d.Namespace}
	if f.serviceAccount == "" {
		f.serviceAccount = "default"
	}
	for i := range d.Spec.Template.Spec.Containers {
		for _, arg := range d.Spec.Template.Spec.Containers[i].Args {
			name, value, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
			switch name {
			case "namespaces":
				f.namespaces = append(f.namespaces, strings.Split(value, ",")...)
			case "leader-election-namespace":
				f.leaseNamespace = value
			case "leader-elect":
				if value == "false" {
					f.leaseNamespace = ""
				}
			}
		}
	}
	return f
}

// leaseStaleAfter is after how long without a sign a leader counts as gone. It renews every second; the
// clocks of this machine and of the cluster differ.
const leaseStaleAfter = time.Minute

// checkLeader looks at who leads.
func (e *checker) checkLeader(ctx context.Context) {
	const check = "leader"
	fix := fmt.Sprintf("look at the operator: kubectl -n %s logs deployment/%s", e.operatorNamespace, cli.OperatorName)
	switch {
	case e.operatorInfo.serviceAccount == "":
		e.add(check, Unknown, "not checked: no operator was found", "see above")
		return
	case e.operatorInfo.leaseNamespace == "":
		e.add(check, OK, "none is elected: the operator runs with --leader-elect=false", "")
		return
	}
	lease, err := e.kube.CoordinationV1().Leases(e.operatorInfo.leaseNamespace).Get(ctx, cli.OperatorName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		e.add(check, Problem, fmt.Sprintf("there is no Lease %s/%s: no operator has ever led", e.operatorInfo.leaseNamespace, cli.OperatorName), fix)
		return
	case err != nil:
		e.addUnknown(check, err)
		return
	}
	holder, renewed := lease.Spec.HolderIdentity, lease.Spec.RenewTime
	if holder == nil || *holder == "" || renewed == nil {
		e.add(check, Problem, fmt.Sprintf("nobody holds Lease %s/%s, so nothing is done for any application", lease.Namespace, lease.Name), fix)
		return
	}
	age := e.env.Now().Sub(renewed.Time)
	if age > leaseStaleAfter {
		e.add(check, Problem, fmt.Sprintf("%s has Lease %s/%s and has not renewed it for %s, so nothing is done for any application", *holder, lease.Namespace, lease.Name, duration.HumanDuration(age)), fix)
		return
	}
	e.add(check, OK, *holder+" leads and renews its Lease", "")
}

// requiredPolicies says what each policy is for.
var requiredPolicies = []struct{ name, without string }{
	{"holdfast-keep-data", "volumes and passwords can be deleted without a word of confirmation"},
	{"holdfast-requester-rights", "whoever may write applications can have the operator make what they may not make themselves"},
}

// checkPolicies looks at what the API server refuses for us.
func (e *checker) checkPolicies(ctx context.Context) {
	admission := e.kube.AdmissionregistrationV1()
	for _, p := range requiredPolicies {
		check := "policy " + strings.TrimPrefix(p.name, "holdfast-")
		_, err := admission.ValidatingAdmissionPolicies().Get(ctx, p.name, metav1.GetOptions{})
		binding, bindingErr := admission.ValidatingAdmissionPolicyBindings().Get(ctx, p.name, metav1.GetOptions{})
		const fix = "kubectl apply -k config/policy, or leave it out knowingly (docs/user/install.md)"
		switch {
		case apierrors.IsNotFound(err):
			e.add(check, Problem, fmt.Sprintf("ValidatingAdmissionPolicy %s does not exist: %s", p.name, p.without), fix)
		case apierrors.IsNotFound(bindingErr):
			e.add(check, Problem, fmt.Sprintf("ValidatingAdmissionPolicyBinding %s does not exist, so the policy does nothing: %s", p.name, p.without), fix)
		case err != nil || bindingErr != nil:
			e.addUnknown(check, errors.Join(err, bindingErr))
		case !slices.Contains(binding.Spec.ValidationActions, admissionv1.Deny):
			e.add(check, Problem, fmt.Sprintf("ValidatingAdmissionPolicyBinding %s does not say Deny, so nothing is refused: %s", p.name, p.without), fix)
		default:
			e.add(check, OK, "in place, refuses", "")
		}
	}
}

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

// install is the fix for most of it.
const install = "install it: kubectl apply -f dist/install.yaml (docs/user/install.md)"

// unable is the check of something that may not be looked at.
func (e *examination) unable(name string, err error) {
	fix := "ask for the right to read it"
	if !apierrors.IsForbidden(err) {
		fix = "try again"
	}
	e.add(name, Unknown, "not checked: "+err.Error(), fix)
}

// oldest is the first version of Kubernetes that we are made for.
const oldest = 34

// server asks for the version. Who does not get that far cannot look at anything.
func (e *examination) server() error {
	v, err := e.kube.Discovery().ServerVersion()
	if err != nil {
		return fmt.Errorf("reach the API server: %w; choose another cluster with --context or --kubeconfig", cli.Explained(err))
	}
	minor, err := strconv.Atoi(strings.TrimRight(v.Minor, "+"))
	if v.Major == "1" && err == nil && minor < oldest {
		e.add("Kubernetes", Problem, fmt.Sprintf("%s is older than 1.%d, which nothing is tested with", v.GitVersion, oldest), "upgrade the cluster")
		return nil
	}
	e.add("Kubernetes", OK, v.GitVersion, "")
	return nil
}

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// kinds looks at the definitions of our kinds.
func (e *examination) kinds(ctx context.Context) {
	served, _ := e.kube.Discovery().ServerResourcesForGroupVersion(appsapi.GroupVersion.String()) // none: not served
	for _, k := range application.Kinds {
		name, check := k.Words[0]+"."+appsapi.GroupName, "kind "+k.Name
		crd, err := e.dynamic.Resource(definitions).Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			e.add(check, Problem, fmt.Sprintf("CustomResourceDefinition %s does not exist", name), install)
		case apierrors.IsForbidden(err):
			// Everybody may ask what is served.
			if served != nil && slices.ContainsFunc(served.APIResources, func(r metav1.APIResource) bool { return r.Name == k.Words[0] }) {
				e.add(check, OK, "served as "+appsapi.GroupVersion.Version, "")
			} else {
				e.add(check, Problem, fmt.Sprintf("the API server does not serve %s as %s", name, appsapi.GroupVersion.Version), install)
			}
		case err != nil:
			e.unable(check, err)
		default:
			e.definition(check, name, crd)
		}
	}
}

func (e *examination) definition(check, name string, crd *unstructured.Unstructured) {
	var versions []string
	list, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, v := range list {
		if m, ok := v.(map[string]any); ok && m["served"] == true {
			versions = append(versions, fmt.Sprint(m["name"]))
		}
	}
	established, why := false, "not yet accepted by the API server"
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	for _, c := range conditions {
		m, _ := c.(map[string]any)
		switch {
		case m["type"] == "Established":
			established = m["status"] == "True"
		case m["type"] == "NamesAccepted" && m["status"] != "True":
			why = fmt.Sprint(m["message"])
		}
	}
	switch {
	case !established:
		e.add(check, Problem, fmt.Sprintf("CustomResourceDefinition %s is not Established: %s", name, why), "look at it: kubectl describe crd "+name)
	case !slices.Contains(versions, appsapi.GroupVersion.Version):
		e.add(check, Problem, fmt.Sprintf("CustomResourceDefinition %s serves %s and not %s", name, strings.Join(versions, ", "), appsapi.GroupVersion.Version), "use a plugin of the version of the operator")
	default:
		e.add(check, OK, "Established, serves "+strings.Join(versions, ", "), "")
	}
}

// deployment looks at the operator itself.
func (e *examination) deployment(ctx context.Context) {
	const check = "operator"
	d, err := e.kube.AppsV1().Deployments(e.operator).Get(ctx, cli.OperatorName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		e.add(check, Problem, fmt.Sprintf("there is no Deployment %s/%s", e.operator, cli.OperatorName), "say where it is with --operator-namespace, or "+install)
		return
	case err != nil:
		e.found = found{account: cli.OperatorName, leases: e.operator} // as it is installed
		e.unable(check, err)
		return
	}
	e.found = learn(d)
	wanted := int32(1)
	if d.Spec.Replicas != nil {
		wanted = *d.Spec.Replicas
	}
	what := fmt.Sprintf("%d of %d ready, image %s", d.Status.ReadyReplicas, wanted, cli.OperatorImage(d))
	logs := fmt.Sprintf("look at it: kubectl -n %s describe pods -l app.kubernetes.io/component=operator", e.operator)
	switch {
	case wanted == 0:
		e.add(check, Problem, fmt.Sprintf("Deployment %s/%s is scaled to 0, so nothing is done for any application", e.operator, d.Name), fmt.Sprintf("kubectl -n %s scale deployment %s --replicas=1", e.operator, d.Name))
	case d.Status.ReadyReplicas == 0, d.Status.ObservedGeneration < d.Generation, d.Status.UpdatedReplicas < wanted:
		e.add(check, Problem, fmt.Sprintf("Deployment %s/%s: %s, %d of the current version", e.operator, d.Name, what, d.Status.UpdatedReplicas), logs)
	case d.Status.ReadyReplicas < wanted:
		e.add(check, Problem, fmt.Sprintf("Deployment %s/%s: %s", e.operator, d.Name, what), logs)
	default:
		if version := cli.OperatorVersion(d); version != "" {
			what += ", version " + version
		}
		e.add(check, OK, what, "")
	}
}

// learn finds out from its flags what the operator does.
func learn(d *appsv1.Deployment) found {
	f := found{account: d.Spec.Template.Spec.ServiceAccountName, version: cli.OperatorVersion(d), leases: d.Namespace}
	if f.account == "" {
		f.account = "default"
	}
	for i := range d.Spec.Template.Spec.Containers {
		for _, arg := range d.Spec.Template.Spec.Containers[i].Args {
			name, value, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
			switch name {
			case "namespaces":
				f.namespaces = append(f.namespaces, strings.Split(value, ",")...)
			case "leader-election-namespace":
				f.leases = value
			case "leader-elect":
				if value == "false" {
					f.leases = ""
				}
			}
		}
	}
	return f
}

// late is after how long without a sign a leader counts as gone. It renews every second; the
// clocks of this machine and of the cluster differ.
const late = time.Minute

// leader looks at who leads.
func (e *examination) leader(ctx context.Context) {
	const check = "leader"
	fix := fmt.Sprintf("look at the operator: kubectl -n %s logs deployment/%s", e.operator, cli.OperatorName)
	switch {
	case e.found.account == "":
		e.add(check, Unknown, "not checked: no operator was found", "see above")
		return
	case e.found.leases == "":
		e.add(check, OK, "none is elected: the operator runs with --leader-elect=false", "")
		return
	}
	lease, err := e.kube.CoordinationV1().Leases(e.found.leases).Get(ctx, cli.OperatorName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		e.add(check, Problem, fmt.Sprintf("there is no Lease %s/%s: no operator has ever led", e.found.leases, cli.OperatorName), fix)
		return
	case err != nil:
		e.unable(check, err)
		return
	}
	holder, renewed := lease.Spec.HolderIdentity, lease.Spec.RenewTime
	if holder == nil || *holder == "" || renewed == nil {
		e.add(check, Problem, fmt.Sprintf("nobody holds Lease %s/%s, so nothing is done for any application", lease.Namespace, lease.Name), fix)
		return
	}
	age := e.env.Now().Sub(renewed.Time)
	if age > late {
		e.add(check, Problem, fmt.Sprintf("%s has Lease %s/%s and has not renewed it for %s, so nothing is done for any application", *holder, lease.Namespace, lease.Name, duration.HumanDuration(age)), fix)
		return
	}
	e.add(check, OK, *holder+" leads and renews its Lease", "")
}

// protects says what each policy is for.
var protects = []struct{ name, without string }{
	{"holdfast-keep-data", "volumes and passwords can be deleted without a word of confirmation"},
	{"holdfast-requester-rights", "whoever may write applications can have the operator make what they may not make themselves"},
}

// policies looks at what the API server refuses for us.
func (e *examination) policies(ctx context.Context) {
	admission := e.kube.AdmissionregistrationV1()
	for _, p := range protects {
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
			e.unable(check, errors.Join(err, bindingErr))
		case !slices.Contains(binding.Spec.ValidationActions, admissionv1.Deny):
			e.add(check, Problem, fmt.Sprintf("ValidatingAdmissionPolicyBinding %s does not say Deny, so nothing is refused: %s", p.name, p.without), fix)
		default:
			e.add(check, OK, "in place, refuses", "")
		}
	}
}

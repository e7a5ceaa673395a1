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
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/duration"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/appkind"
	"github.com/holdfast-dev/holdfast/internal/cli"
)

// installHint is the fix for missing parts of the installation.
const installHint = "install it: kubectl apply -f dist/install.yaml (docs/user/install.md)"

// addUnknown adds a check that could not be completed.
func (e *checker) addUnknown(name string, err error) {
	fix := "request permission to read it"
	if !apierrors.IsForbidden(err) {
		fix = "try again"
	}
	e.add(name, Unknown, "not checked: "+err.Error(), fix)
}

// minKubernetesMinor is the oldest supported minor version of Kubernetes.
const minKubernetesMinor = 34

// checkAPIServer checks the Kubernetes version. Without the API server no other check is possible.
func (e *checker) checkAPIServer() error {
	v, err := e.kube.Discovery().ServerVersion()
	if err != nil {
		return fmt.Errorf("read the version of the API server: %w", cli.WithHint(err))
	}
	minor, err := strconv.Atoi(strings.TrimRight(v.Minor, "+"))
	if v.Major == "1" && err == nil && minor < minKubernetesMinor {
		e.add("Kubernetes", Problem, fmt.Sprintf("%s is older than 1.%d, the oldest supported version",
			v.GitVersion, minKubernetesMinor), "upgrade the cluster")
		return nil
	}
	e.add("Kubernetes", OK, v.GitVersion, "")
	return nil
}

var crdResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// checkCRDs checks the CRDs of Holdfast.
func (e *checker) checkCRDs(ctx context.Context) {
	served, _ := e.kube.Discovery().ServerResourcesForGroupVersion(appsapi.GroupVersion.String()) // an error means not served
	for _, k := range appkind.Builtin {
		name, check := k.Aliases[0]+"."+appsapi.GroupName, "kind "+k.Kind
		crd, err := e.dynamic.Resource(crdResource).Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			e.add(check, Problem, fmt.Sprintf("CustomResourceDefinition %s does not exist", name), installHint)
		case apierrors.IsForbidden(err):
			// Discovery needs no permission.
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

// checkDiscoveredKinds checks the CRDs of other operators. A caller without permission to list CRDs cannot
// use these kinds, which is not a problem of the installation.
func (e *checker) checkDiscoveredKinds(ctx context.Context) {
	list, err := e.dynamic.Resource(crdResource).List(ctx, metav1.ListOptions{LabelSelector: appsapi.LabelApplicationKind + "=true"})
	if err != nil {
		return
	}
	for i := range list.Items {
		var crd apiextensionsv1.CustomResourceDefinition
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, &crd); err != nil {
			continue
		}
		if k, err := appkind.FromCRD(&crd); err != nil {
			e.add("kind "+crd.Spec.Names.Kind, Problem, err.Error(), fmt.Sprintf("remove its label %s", appsapi.LabelApplicationKind))
		} else {
			e.add("kind "+k.Name(), OK, "kind of another operator, read as "+k.Version, "")
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
		e.add(check, Problem, fmt.Sprintf("CustomResourceDefinition %s is not Established: %s",
			name, reason), "inspect it: kubectl describe crd "+name)
	case !slices.Contains(versions, appsapi.GroupVersion.Version):
		e.add(check, Problem, fmt.Sprintf("CustomResourceDefinition %s serves %s but not %s",
			name, strings.Join(versions, ", "), appsapi.GroupVersion.Version), "install the version of the plugin that matches the operator")
	default:
		e.add(check, OK, "Established, serves "+strings.Join(versions, ", "), "")
	}
}

// checkOperator checks the Deployment of the operator.
func (e *checker) checkOperator(ctx context.Context) {
	const check = "operator"
	d, err := e.kube.AppsV1().Deployments(e.operatorNamespace).Get(ctx, cli.OperatorName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		e.add(check, Problem, fmt.Sprintf("Deployment %s/%s not found",
			e.operatorNamespace, cli.OperatorName), "specify its namespace with --operator-namespace, or "+installHint)
		return
	case err != nil:
		e.operatorInfo = operatorInfo{serviceAccount: cli.OperatorName, leaseNamespace: e.operatorNamespace} // the default installation
		e.addUnknown(check, err)
		return
	}
	e.operatorInfo = parseOperatorInfo(d)
	replicas := int32(1)
	if d.Spec.Replicas != nil {
		replicas = *d.Spec.Replicas
	}
	summary := fmt.Sprintf("%d of %d ready, image %s", d.Status.ReadyReplicas, replicas, cli.DeploymentImage(d))
	hint := fmt.Sprintf("inspect it: kubectl -n %s describe pods -l app.kubernetes.io/component=operator", e.operatorNamespace)
	switch {
	case replicas == 0:
		e.add(check, Problem, fmt.Sprintf("Deployment %s/%s is scaled to 0: applications are not reconciled",
			e.operatorNamespace, d.Name), fmt.Sprintf("kubectl -n %s scale deployment %s --replicas=1", e.operatorNamespace, d.Name))
	case d.Status.ReadyReplicas == 0, d.Status.ObservedGeneration < d.Generation, d.Status.UpdatedReplicas < replicas:
		e.add(check, Problem, fmt.Sprintf("Deployment %s/%s: %s, %d updated",
			e.operatorNamespace, d.Name, summary, d.Status.UpdatedReplicas), hint)
	case d.Status.ReadyReplicas < replicas:
		e.add(check, Problem, fmt.Sprintf("Deployment %s/%s: %s", e.operatorNamespace, d.Name, summary), hint)
	default:
		if version := cli.DeploymentVersion(d); version != "" {
			summary += ", version " + version
		}
		e.add(check, OK, summary, "")
	}
}

// checkNamespace checks that the operator watches the current namespace.
func (e *checker) checkNamespace() {
	watched := e.operatorInfo.namespaces
	if len(watched) == 0 {
		return
	}
	check := "namespace " + e.callerNamespace
	if slices.Contains(watched, e.callerNamespace) {
		e.add(check, OK, "managed by the operator", "")
		return
	}
	e.add(check, Problem, fmt.Sprintf("the operator manages only namespaces %s: applications in namespace %s are not reconciled",
		strings.Join(watched, ", "), e.callerNamespace), "add the namespace to --namespaces of the operator, or use another one with -n")
}

// parseOperatorInfo reads the configuration of the operator from its Deployment.
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

// leaseStaleAfter is the age after which a Lease is stale. The leader renews it every second; the margin
// allows for clock skew.
const leaseStaleAfter = time.Minute

// checkLeader checks the leader election of the operator.
func (e *checker) checkLeader(ctx context.Context) {
	const check = "leader"
	fix := fmt.Sprintf("check the operator: kubectl -n %s logs deployment/%s", e.operatorNamespace, cli.OperatorName)
	switch {
	case e.operatorInfo.serviceAccount == "":
		e.add(check, Unknown, "not checked: operator not found", "see above")
		return
	case e.operatorInfo.leaseNamespace == "":
		e.add(check, OK, "leader election is disabled (--leader-elect=false)", "")
		return
	}
	lease, err := e.kube.CoordinationV1().Leases(e.operatorInfo.leaseNamespace).Get(ctx, cli.OperatorName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		e.add(check, Problem, fmt.Sprintf("Lease %s/%s not found: no operator has become the leader",
			e.operatorInfo.leaseNamespace, cli.OperatorName), fix)
		return
	case err != nil:
		e.addUnknown(check, err)
		return
	}
	holder, renewed := lease.Spec.HolderIdentity, lease.Spec.RenewTime
	if holder == nil || *holder == "" || renewed == nil {
		e.add(check, Problem, fmt.Sprintf("Lease %s/%s has no holder: applications are not reconciled", lease.Namespace, lease.Name), fix)
		return
	}
	age := e.env.Now().Sub(renewed.Time)
	if age > leaseStaleAfter {
		e.add(check, Problem, fmt.Sprintf("%s holds Lease %s/%s but has not renewed it for %s: applications are not reconciled",
			*holder, lease.Namespace, lease.Name, duration.HumanDuration(age)), fix)
		return
	}
	e.add(check, OK, *holder+" is the leader and renews its Lease", "")
}

// requiredPolicies lists the policies and the risk without each of them.
var requiredPolicies = []struct{ name, without string }{
	{"holdfast-keep-data", "volumes and passwords can be deleted without confirmation"},
	{"holdfast-operator-account", "a stolen token of the operator is enough to take over the cluster"},
	{"holdfast-plain-passwords", "the spec of a CloudManager can contain a password, which everyone who can read the object can read"},
	{"holdfast-requester-rights", "anyone who can create applications can escalate privileges through the operator"},
}

// checkPolicies checks the admission policies and their bindings.
func (e *checker) checkPolicies(ctx context.Context) {
	admission := e.kube.AdmissionregistrationV1()
	for _, p := range requiredPolicies {
		check := "policy " + strings.TrimPrefix(p.name, "holdfast-")
		_, err := admission.ValidatingAdmissionPolicies().Get(ctx, p.name, metav1.GetOptions{})
		binding, bindingErr := admission.ValidatingAdmissionPolicyBindings().Get(ctx, p.name, metav1.GetOptions{})
		const fix = "install the policies: kubectl apply -k config/policy (docs/user/install.md describes how to run without them)"
		switch {
		case apierrors.IsNotFound(err):
			e.add(check, Problem, fmt.Sprintf("ValidatingAdmissionPolicy %s does not exist: %s", p.name, p.without), fix)
		case apierrors.IsNotFound(bindingErr):
			e.add(check, Problem, fmt.Sprintf("ValidatingAdmissionPolicyBinding %s does not exist, so the policy is not enforced: %s",
				p.name, p.without), fix)
		case err != nil || bindingErr != nil:
			e.addUnknown(check, errors.Join(err, bindingErr))
		case !slices.Contains(binding.Spec.ValidationActions, admissionv1.Deny):
			e.add(check, Problem, fmt.Sprintf("ValidatingAdmissionPolicyBinding %s does not have action Deny, so the policy is not enforced: %s",
				p.name, p.without), fix)
		default:
			e.add(check, OK, "installed and enforced", "")
		}
	}
}

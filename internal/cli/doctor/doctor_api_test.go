package doctor_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/cli/doctor"
	"github.com/holdfast-dev/holdfast/internal/cli/root"
	"github.com/holdfast-dev/holdfast/internal/testutil"
	"github.com/holdfast-dev/holdfast/internal/testutil/controlplane"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
	"github.com/holdfast-dev/holdfast/internal/testutil/podsim"
)

// installation is a cluster and the user who runs the doctor.
type installation struct {
	*testing.T
	kube       kubernetes.Interface
	kubeconfig string
}

// withConfig returns the installation with another user.
func (c installation) withConfig(config *rest.Config) installation {
	c.Helper()
	c.kubeconfig = filepath.Join(c.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(controlplane.Kubeconfig(config), c.kubeconfig); err != nil {
		c.Fatal(err)
	}
	return c
}

// runDoctor returns the checks by name, and the exit code.
func (c installation) runDoctor(args ...string) (map[string]doctor.Check, int) {
	c.Helper()
	var out bytes.Buffer
	cmd := root.Command("v1.2.3")
	cmd.SetArgs(append([]string{"doctor", "-o", "json", "--kubeconfig", c.kubeconfig}, args...))
	cmd.SetOut(&out)
	cmd.SetErr(&bytes.Buffer{})
	err := cmd.ExecuteContext(c.Context())
	var report doctor.Report
	if out.Len() > 0 {
		if err := json.Unmarshal(out.Bytes(), &report); err != nil {
			c.Fatal(err)
		}
	}
	checks := map[string]doctor.Check{}
	for _, check := range report.Checks {
		checks[check.Name] = check
		if check.Result != doctor.OK && check.Fix == "" {
			c.Errorf("%s has no fix", check.Name)
		}
	}
	return checks, cli.ExitCode(err)
}

// expectFindings compares the checks that are not OK.
func (c installation) expectFindings(situation string, code int, want map[string]string) {
	c.Helper()
	checks, gotCode := c.runDoctor()
	got := map[string]string{}
	for name, check := range checks {
		if check.Result != doctor.OK {
			got[name] = fmt.Sprintf("%s %s", check.Result, check.Message)
		}
	}
	delete(checks, "namespace default") // only if the operator does not manage all namespaces
	if diff := cmp.Diff(want, got); diff != "" || gotCode != code || len(checks) != 13 {
		c.Errorf("%s: exit code %d, want %d; %d checks, want 13; not OK (-want +got):\n%s", situation, gotCode, code, len(checks), diff)
	}
}

func (c installation) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// deploy creates the Deployment and ServiceAccount of the operator or center. Its pods do not run yet.
func (c installation) deploy(name, tag string) {
	c.Helper()
	labels := map[string]string{"app": name}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "holdfast-" + name}, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
			ServiceAccountName: "holdfast-" + name, Containers: []corev1.Container{{Name: name, Image: "holdfast/" + name + ":" + tag}},
		}},
	}}
	_, err := c.kube.AppsV1().Deployments(operator.Namespace).Create(c.Context(), d, metav1.CreateOptions{})
	c.must(err)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "holdfast-" + name}}
	_, err = c.kube.CoreV1().ServiceAccounts(operator.Namespace).Create(c.Context(), account, metav1.CreateOptions{})
	c.must(err)
}

// startPods starts the pod simulation and waits for the operator.
func (c installation) startPods(config *rest.Config) {
	c.Helper()
	_, err := podsim.Start(c.Context(), config, podsim.WithBehavior(func(*corev1.Pod) podsim.Behavior { return podsim.Behavior{} }))
	c.must(err)
	c.waitReady("holdfast-operator", 1)
}

// waitReady waits for the ready replicas of a Deployment.
func (c installation) waitReady(name string, want int32) {
	c.Helper()
	gomega.NewWithT(c.T).Eventually(func() int32 {
		d, err := c.kube.AppsV1().Deployments(operator.Namespace).Get(c.Context(), name, metav1.GetOptions{})
		c.must(err)
		if d.Status.ObservedGeneration < d.Generation {
			return -1
		}
		return d.Status.ReadyReplicas
	}, "60s", "50ms").Should(gomega.Equal(want))
}

func (c installation) replaceLease(holder string, renewed time.Time) {
	c.Helper()
	leases := c.kube.CoordinationV1().Leases(operator.Namespace)
	_ = leases.Delete(c.Context(), "holdfast-operator", metav1.DeleteOptions{})
	at := metav1.NewMicroTime(renewed)
	_, err := leases.Create(c.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "holdfast-operator"},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &at}}, metav1.CreateOptions{})
	c.must(err)
}

// TestDoctor installs Holdfast step by step and then breaks it.
func TestDoctor(t *testing.T) {
	plane := testutil.ControlPlane(t, controlplane.Options{})
	kube, err := kubernetes.NewForConfig(plane.Config)
	if err != nil {
		t.Fatal(err)
	}
	c := installation{T: t, kube: kube}.withConfig(plane.Config)
	missing := map[string]string{
		"kind AppStack":           "PROBLEM CustomResourceDefinition appstacks.apps.holdfast.dev does not exist",
		"kind AppService":         "PROBLEM CustomResourceDefinition appservices.apps.holdfast.dev does not exist",
		"kind CloudManager":       "PROBLEM CustomResourceDefinition cloudmanagers.apps.holdfast.dev does not exist",
		"operator":                "PROBLEM Deployment holdfast-system/holdfast-operator not found",
		"leader":                  "UNKNOWN not checked: operator not found",
		"policy keep-data":        "PROBLEM ValidatingAdmissionPolicy holdfast-keep-data does not exist: volumes and passwords can be deleted without confirmation",
		"policy operator-account": "PROBLEM ValidatingAdmissionPolicy holdfast-operator-account does not exist: a stolen token of the operator is enough to take over the cluster",
		"policy plain-passwords":  "PROBLEM ValidatingAdmissionPolicy holdfast-plain-passwords does not exist: the spec of a CloudManager can contain a password, which everyone who can read the object can read",
		"policy requester-rights": "PROBLEM ValidatingAdmissionPolicy holdfast-requester-rights does not exist: anyone who can create applications can escalate privileges through the operator",
		"operator permissions":    "UNKNOWN not checked: operator not found",
	}
	c.expectFindings("nothing installed", 2, missing)

	operator.Install(t, plane)
	c.deploy("operator", "v1.2.3")
	gomega.NewWithT(t).Eventually(func() int32 { // waits until the caches have the Deployment
		d, err := kube.AppsV1().Deployments(operator.Namespace).Get(t.Context(), "holdfast-operator", metav1.GetOptions{})
		c.must(err)
		return d.Status.UpdatedReplicas
	}, "60s", "50ms").Should(gomega.BeEquivalentTo(1))
	c.replaceLease("pod-1", time.Now().Add(-2*time.Minute))
	c.expectFindings("not started", 2, map[string]string{
		"operator": "PROBLEM Deployment holdfast-system/holdfast-operator: 0 of 1 ready, image holdfast/operator:v1.2.3, 1 updated",
		"leader":   "PROBLEM pod-1 holds Lease holdfast-system/holdfast-operator but has not renewed it for 2m: applications are not reconciled",
	})
	c.startPods(plane.Config)
	c.replaceLease("pod-1", time.Now())
	c.expectFindings("all fine", 0, map[string]string{})
	checks, _ := c.runDoctor()
	if got, want := checks["operator"].Message, "1 of 1 ready, image holdfast/operator:v1.2.3, version v1.2.3"; got != want {
		t.Errorf("operator: got %q, want %q", got, want)
	}
	if got := checks["center"]; got.Result != doctor.OK || !strings.HasPrefix(got.Message, "not installed") {
		t.Errorf("no center: got %+v", got)
	}
	testCenter(c)
	testNamespacedAfterClusterWide(c)
	testBrokenInstallation(c)
	testUnprivilegedCaller(c, plane)
}

// testCenter installs a center, upgrades it and removes it.
func testCenter(c installation) {
	c.Helper()
	deployments := c.kube.AppsV1().Deployments(operator.Namespace)
	scale := func(replicas string) {
		c.Helper()
		_, err := deployments.Patch(c.Context(), "holdfast-center", "application/merge-patch+json", []byte(`{"spec":{"replicas":`+replicas+`}}`), metav1.PatchOptions{})
		c.must(err)
	}
	c.deploy("center", "v1.2.3")
	c.waitReady("holdfast-center", 1)
	c.expectFindings("with a center", 0, map[string]string{})
	scale("0")
	c.waitReady("holdfast-center", 0)
	c.expectFindings("a center that is scaled to 0", 2, map[string]string{"center": "PROBLEM Deployment holdfast-system/holdfast-center is scaled to 0"})
	_, err := deployments.Patch(c.Context(), "holdfast-center", "application/json-patch+json", []byte(`[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"holdfast/center:v1.1.0"}]`), metav1.PatchOptions{})
	c.must(err)
	scale("1")
	c.waitReady("holdfast-center", 1)
	c.expectFindings("an old center", 2, map[string]string{"center": "PROBLEM the center has version v1.1.0 and the operator has version v1.2.3: application states in the center can be wrong"})
	c.must(deployments.Delete(c.Context(), "holdfast-center", metav1.DeleteOptions{}))
}

// testNamespacedAfterClusterWide restricts the operator to a namespace without deleting its cluster-wide permissions.
func testNamespacedAfterClusterWide(c installation) {
	c.Helper()
	deployments := c.kube.AppsV1().Deployments(operator.Namespace)
	setArgs := func(args string) {
		c.Helper()
		_, err := deployments.Patch(c.Context(), "holdfast-operator", "application/json-patch+json",
			[]byte(`[{"op":"add","path":"/spec/template/spec/containers/0/args","value":`+args+`}]`), metav1.PatchOptions{})
		c.must(err)
		c.waitReady("holdfast-operator", 1)
	}
	setArgs(`["--namespaces=default"]`) // the namespace of the caller
	c.expectFindings("namespaced after cluster-wide", 2, map[string]string{"operator permissions": "PROBLEM ServiceAccount holdfast-system/holdfast-operator can read the Secrets of all namespaces, " +
		"but the operator watches only default: the permissions of a cluster-wide installation remain"})
	setArgs("[]")
	c.expectFindings("cluster-wide again", 0, map[string]string{})
}

func testBrokenInstallation(c installation) {
	c.Helper()
	ctx, deleteOptions := c.Context(), metav1.DeleteOptions{}
	c.replaceLease("", time.Now())
	c.must(c.kube.RbacV1().RoleBindings(operator.Namespace).Delete(ctx, "holdfast-operator", deleteOptions))
	admission := c.kube.AdmissionregistrationV1()
	c.must(admission.ValidatingAdmissionPolicyBindings().Delete(ctx, "holdfast-keep-data", deleteOptions))
	_, err := admission.ValidatingAdmissionPolicyBindings().Patch(ctx, "holdfast-requester-rights", "application/merge-patch+json", []byte(`{"spec":{"validationActions":["Warn"]}}`), metav1.PatchOptions{})
	c.must(err)
	want := map[string]string{
		"leader":                  "PROBLEM Lease holdfast-system/holdfast-operator has no holder: applications are not reconciled",
		"policy keep-data":        "PROBLEM ValidatingAdmissionPolicyBinding holdfast-keep-data does not exist, so the policy is not enforced: volumes and passwords can be deleted without confirmation",
		"policy requester-rights": "PROBLEM ValidatingAdmissionPolicyBinding holdfast-requester-rights does not have action Deny, so the policy is not enforced: anyone who can create applications can escalate privileges through the operator",
		"operator permissions":    "PROBLEM ServiceAccount holdfast-system/holdfast-operator cannot create events in namespace holdfast-system, create leases.coordination.k8s.io in namespace holdfast-system, get leases.coordination.k8s.io in namespace holdfast-system, patch events in namespace holdfast-system and 1 more",
	}
	c.expectFindings("broken", 2, want)
	c.must(c.kube.CoordinationV1().Leases(operator.Namespace).Delete(ctx, "holdfast-operator", deleteOptions))
	want["leader"] = "PROBLEM Lease holdfast-system/holdfast-operator not found: no operator has become the leader"
	_, err = c.kube.AppsV1().Deployments(operator.Namespace).Patch(ctx, "holdfast-operator", "application/merge-patch+json", []byte(`{"spec":{"replicas":0}}`), metav1.PatchOptions{})
	c.must(err)
	want["operator"] = "PROBLEM Deployment holdfast-system/holdfast-operator is scaled to 0: applications are not reconciled"
	c.expectFindings("scaled to 0", 2, want)
}

// testUnprivilegedCaller runs the doctor as a user with few permissions, and without an API server.
func testUnprivilegedCaller(c installation, plane *controlplane.Plane) {
	c.Helper()
	config, err := plane.ConfigFor("jane")
	c.must(err)
	checks, code := c.withConfig(config).runDoctor()
	if code != 2 {
		c.Errorf("jane: exit code %d, want 2: she cannot read pods", code)
	}
	for name, want := range map[string]doctor.Check{
		"kind AppStack":        {Result: doctor.OK, Message: "served as v1alpha1"},
		"operator":             {Result: doctor.Unknown, Message: `not checked: deployments.apps "holdfast-operator" is forbidden: User "jane" cannot get resource "deployments" in API group "apps" in the namespace "holdfast-system"`},
		"operator permissions": {Result: doctor.Unknown, Message: "not checked: no permission to create subjectaccessreviews.authorization.k8s.io"},
	} {
		if got := checks[name]; got.Result != want.Result || got.Message != want.Message {
			c.Errorf("jane, %s: got %+v, want %+v", name, got, want)
		}
	}
	if got := checks["your permissions"]; got.Result != doctor.Problem || !strings.HasPrefix(got.Message, "in namespace default you cannot ") {
		c.Errorf("jane, your permissions: got %+v", got)
	}
	unreachable := rest.CopyConfig(plane.Config)
	unreachable.Host = "https://127.0.0.1:1"
	if checks, code := c.withConfig(unreachable).runDoctor(); code != 1 || len(checks) != 0 {
		c.Errorf("no API server: exit code %d and %d checks, want 1 and none", code, len(checks))
	}
}

package policy_test

import (
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// attempt is a request that must be rejected.
type attempt func(*theft) error

// attempts returns the ways to get more permissions, or to harm others, with the token of the operator.
func attempts() map[string]attempt {
	all := map[string]attempt{}
	addPodAttempts(all)
	addForeignObjectAttempts(all)
	addSecretAttempts(all)
	addNetworkAttempts(all)
	addRBACAttempts(all)
	return all
}

func createAs(get func(*theft) *unstructured.Unstructured) attempt {
	return func(w *theft) error { return w.thief.Create(w.t.Context(), get(w)) }
}

// createOwned creates an object with the labels and the owner of the operator's objects.
func createOwned(manifest string) attempt {
	return createAs(func(w *theft) *unstructured.Unstructured { return w.owned(manifest) })
}

// create creates an object without these.
func create(manifest string) attempt {
	return createAs(func(w *theft) *unstructured.Unstructured { return w.object(manifest) })
}

// patchExisting changes a field of an object.
func patchExisting(apiVersion, kind, name string, value any, path ...string) attempt {
	return func(w *theft) error {
		return w.thief.Patch(w.t.Context(), w.existing(apiVersion, kind, name), mergePatch(w.t, value, path...))
	}
}

func deleteExisting(apiVersion, kind, name string) attempt {
	return func(w *theft) error { return w.thief.Delete(w.t.Context(), w.existing(apiVersion, kind, name)) }
}

// addPodAttempts runs pods with access to the node or as a powerful ServiceAccount.
func addPodAttempts(all map[string]attempt) {
	const template = `template: {metadata: {labels: {a: b}}, spec: {restartPolicy: %s, containers: [{name: c, image: x, securityContext: {privileged: true}}]}}`
	always, never := fmt.Sprintf(template, "Always"), fmt.Sprintf(template, "Never")
	for name, podFields := range map[string]string{
		"privileged container":                          "containers: [{name: c, image: x, securityContext: {privileged: true}}]",
		"privileged init container":                     "containers: [{name: c, image: x}], initContainers: [{name: i, image: x, securityContext: {privileged: true}}]",
		"hostPath volume":                               "volumes: [{name: root, hostPath: {path: /}}]",
		"NFS volume":                                    "volumes: [{name: root, nfs: {server: a, path: /}}]",
		"CSI volume":                                    "volumes: [{name: root, csi: {driver: a}}]",
		"seccomp Unconfined":                            "securityContext: {seccompProfile: {type: Unconfined}}",
		"AppArmor Unconfined":                           "containers: [{name: c, image: x, securityContext: {appArmorProfile: {type: Unconfined}}}]",
		"SELinux role":                                  "containers: [{name: c, image: x, securityContext: {seLinuxOptions: {role: sysadm_r}}}]",
		"unsafe sysctl":                                 "securityContext: {sysctls: [{name: kernel.msgmax, value: '1'}]}",
		"chosen node":                                   "nodeName: control-plane",
		"priority of the cluster":                       "priorityClassName: system-node-critical",
		"host network":                                  "hostNetwork: true",
		"host PID namespace":                            "hostPID: true",
		"host IPC namespace":                            "hostIPC: true",
		"host port":                                     "containers: [{name: c, image: x, ports: [{containerPort: 80, hostPort: 80}]}]",
		"capability SYS_ADMIN":                          "containers: [{name: c, image: x, securityContext: {capabilities: {add: [SYS_ADMIN]}}}]",
		"unmasked /proc":                                "hostUsers: false, containers: [{name: c, image: x, securityContext: {procMount: Unmasked}}]",
		"Windows host process":                          "os: {name: windows}, hostNetwork: true, securityContext: {windowsOptions: {hostProcess: true, runAsUserName: system}}",
		"account with all permissions":                  "serviceAccountName: admin",
		"account that can escalate":                     "serviceAccountName: escalator",
		"account that can bind cluster-admin only":      "serviceAccountName: binder",
		"account that can impersonate":                  "serviceAccountName: impersonator",
		"account that can create pods in kube-system":   "serviceAccountName: deployer",
		"account that is mounted without its own token": "serviceAccountName: admin, automountServiceAccountToken: false",
	} {
		all["Deployment: "+name] = createAs(func(w *theft) *unstructured.Unstructured { return w.ownDeployment("attack", podFields) })
	}
	all["StatefulSet: privileged container"] = createOwned(`{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: attack}, spec: {serviceName: x, selector: {matchLabels: {a: b}}, ` + always + `}}`)
	all["Job: privileged container"] = createOwned(`{apiVersion: batch/v1, kind: Job, metadata: {name: attack}, spec: {` + never + `}}`)
	all["CronJob: privileged container"] = createOwned(`{apiVersion: batch/v1, kind: CronJob, metadata: {name: attack}, spec: {schedule: "* * * * *", jobTemplate: {spec: {` + never + `}}}}`)
	all["own Deployment: becomes privileged"] = patchExisting("apps/v1", "Deployment", "own", []map[string]any{{"name": "c", "image": "x", "securityContext": map[string]any{"privileged": true}}}, "spec", "template", "spec", "containers")
	all["own Deployment: gets a powerful account"] = patchExisting("apps/v1", "Deployment", "own", "admin", "spec", "template", "spec", "serviceAccountName")
	all["Pod: created directly"] = createOwned(`{apiVersion: v1, kind: Pod, metadata: {name: attack}, spec: {containers: [{name: c, image: x}]}}`)
	all["Pod: exec"] = func(w *theft) error {
		kube, err := kubernetes.NewForConfig(w.thiefConfig())
		if err != nil {
			return err
		}
		return kube.CoreV1().RESTClient().Post().Namespace(w.ns).Resource("pods").Name("foreign").SubResource("exec").Param("command", "sh").Do(w.t.Context()).Error()
	}
	all["DaemonSet: created"] = createOwned(`{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: attack}, spec: {selector: {matchLabels: {a: b}}, ` + always + `}}`)
}

// addForeignObjectAttempts writes objects that do not belong to an application.
func addForeignObjectAttempts(all map[string]attempt) {
	const deployment = `spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: x}]}}}}`
	all["kube-system: Deployment"] = createOwned(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: attack, namespace: kube-system}, ` + deployment)
	all["kube-system: ConfigMap of the DNS server"] = patchExisting("v1", "ConfigMap", "kube-system/coredns", "evil", "data", "Corefile")
	all["kube-system: DNS server deleted"] = deleteExisting("apps/v1", "Deployment", "kube-system/coredns")
	all["kube-system: Event"] = create(`{apiVersion: v1, kind: Event, metadata: {name: attack, namespace: kube-system}, involvedObject: {kind: Pod, namespace: kube-system, name: x}}`)
	all["Deployment without labels and owner"] = create(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: attack}, ` + deployment)
	all["Deployment without owner"] = create(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: attack, labels: {app.kubernetes.io/managed-by: holdfast, apps.holdfast.dev/owner-uid: x}}, ` + deployment)
	all["Deployment with an owner of another kind"] = create(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: attack, labels: {app.kubernetes.io/managed-by: holdfast, apps.holdfast.dev/owner-uid: x}, ` +
		`ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: x, uid: x, controller: true}]}, ` + deployment)
	all["foreign Deployment: image"] = patchExisting("apps/v1", "Deployment", "foreign", 5, "spec", "replicas")
	all["foreign Deployment: labeled"] = patchExisting("apps/v1", "Deployment", "foreign", map[string]string{"app.kubernetes.io/managed-by": "holdfast", "apps.holdfast.dev/owner-uid": "x"}, "metadata", "labels")
	all["foreign Deployment: adopted without a user"] = patchExisting("apps/v1", "Deployment", "foreign", "true", "metadata", "annotations", "apps.holdfast.dev/adopt")
	all["foreign Deployment: taken over"] = func(w *theft) error {
		return w.thief.Apply(w.t.Context(), client.ApplyConfigurationFromUnstructured(w.ownDeployment("foreign", "")), client.FieldOwner("holdfast"), client.ForceOwnership)
	}
	all["foreign Deployment: deleted"] = deleteExisting("apps/v1", "Deployment", "foreign")
	all["foreign ConfigMap: changed"] = patchExisting("v1", "ConfigMap", "foreign", "evil", "data", "a")
	all["foreign Pod: deleted"] = deleteExisting("v1", "Pod", "foreign")
	all["foreign claim: labeled"] = patchExisting("v1", "PersistentVolumeClaim", "foreign", map[string]string{"app.kubernetes.io/managed-by": "holdfast", "apps.holdfast.dev/workload": "x"}, "metadata", "labels")
	all["foreign claim: deleted"] = deleteExisting("v1", "PersistentVolumeClaim", "foreign")
	all["foreign ControllerRevision: changed"] = patchExisting("apps/v1", "ControllerRevision", "foreign", 7, "revision")
	all["application: image changed"] = func(w *theft) error {
		evil := []map[string]any{{"name": "web", "service": map[string]any{"image": "evil/web:1"}}}
		return w.thief.Patch(w.t.Context(), w.app.DeepCopy(), mergePatch(w.t, evil, "spec", "components"))
	}
	all["application: labeled"] = func(w *theft) error {
		return w.thief.Patch(w.t.Context(), w.app.DeepCopy(), mergePatch(w.t, "evil", "metadata", "labels", "app.kubernetes.io/instance"))
	}
	all["application: owner that does not exist"] = func(w *theft) error {
		owner := []map[string]any{{"apiVersion": "v1", "kind": "ConfigMap", "name": "none", "uid": "none"}}
		return w.thief.Patch(w.t.Context(), w.app.DeepCopy(), mergePatch(w.t, owner, "metadata", "ownerReferences"))
	}
	all["revision of a StatefulSet: forged"] = createOwned(`{apiVersion: apps/v1, kind: ControllerRevision, metadata: {name: attack}, revision: 1, data: {spec: {template: {spec: {hostPID: true}}}}}`)
	all["own object: adoption allowed"] = patchExisting("apps/v1", "Deployment", "own", "true", "metadata", "annotations", "apps.holdfast.dev/adopt")
	all["own object: created adoptable"] = createOwned(`{apiVersion: v1, kind: ConfigMap, metadata: {name: attack, annotations: {apps.holdfast.dev/adopt: "true"}}}`)
	all["own object: labels and owner removed"] = func(w *theft) error {
		return w.thief.Patch(w.t.Context(), w.existing("apps/v1", "Deployment", "own"), client.RawPatch("application/merge-patch+json", []byte(`{"metadata": {"labels": null, "ownerReferences": null}}`)))
	}
	all["application: deleted"] = func(w *theft) error { return w.thief.Delete(w.t.Context(), w.app.DeepCopy()) }
	all["application: created"] = create(`{apiVersion: apps.holdfast.dev/v1alpha1, kind: AppService, metadata: {name: attack}, spec: {image: x}}`)
	all["own namespace: Deployment of the operator"] = patchExisting("apps/v1", "Deployment", "holdfast-system/holdfast-operator", 0, "spec", "replicas")
	all["own namespace: ConfigMap"] = createOwned(`{apiVersion: v1, kind: ConfigMap, metadata: {name: attack, namespace: holdfast-system}}`)
	all["own namespace: another Lease"] = create(`{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: attack, namespace: holdfast-system}}`)
	all["another namespace: Lease"] = create(`{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: holdfast-operator, namespace: kube-system}}`)
}

// addSecretAttempts writes Secrets.
func addSecretAttempts(all map[string]attempt) {
	all["Secret: token of an account"] = createOwned(`{apiVersion: v1, kind: Secret, type: kubernetes.io/service-account-token, metadata: {name: attack, annotations: {kubernetes.io/service-account.name: admin}}}`)
	all["Secret: without labels"] = create(`{apiVersion: v1, kind: Secret, metadata: {name: attack}}`)
	all["Secret: bootstrap token"] = create(`{apiVersion: v1, kind: Secret, type: bootstrap.kubernetes.io/token, metadata: {name: bootstrap-token-abcdef, namespace: kube-system}, stringData: {token-id: abcdef, token-secret: "0123456789abcdef", usage-bootstrap-authentication: "true"}}`)
	all["foreign Secret: changed"] = patchExisting("v1", "Secret", "foreign", "ZXZpbA==", "data", "a")
	all["foreign Secret: labeled"] = patchExisting("v1", "Secret", "foreign", map[string]string{"app.kubernetes.io/managed-by": "holdfast", "apps.holdfast.dev/workload": "x"}, "metadata", "labels")
	all["foreign Secret: deleted"] = deleteExisting("v1", "Secret", "foreign")
	all["own namespace: another Secret"] = createOwned(`{apiVersion: v1, kind: Secret, metadata: {name: attack, namespace: holdfast-system}}`)
	all["own namespace: authority that is a token"] = create(`{apiVersion: v1, kind: Secret, type: kubernetes.io/service-account-token, metadata: {name: holdfast-database-ca, namespace: holdfast-system, annotations: {kubernetes.io/service-account.name: holdfast-operator}}}`)
	all["own namespace: content key replaced"] = patchExisting("v1", "Secret", "holdfast-system/holdfast-content-key", "ZXZpbA==", "data", "key")
	all["own namespace: content key deleted"] = deleteExisting("v1", "Secret", "holdfast-system/holdfast-content-key")
}

// addNetworkAttempts redirects traffic or configures shared proxies.
func addNetworkAttempts(all map[string]attempt) {
	all["Service: external addresses"] = createOwned(`{apiVersion: v1, kind: Service, metadata: {name: attack}, spec: {ports: [{port: 443}], externalIPs: [192.0.2.1]}}`)
	all["Service: external name"] = createOwned(`{apiVersion: v1, kind: Service, metadata: {name: attack}, spec: {type: ExternalName, externalName: evil.example.com}}`)
	all["Service: foreign, selector changed"] = patchExisting("v1", "Service", "foreign", map[string]string{"a": "b"}, "spec", "selector")
	all["Ingress: snippet"] = createOwned(`{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: attack, annotations: {nginx.ingress.kubernetes.io/configuration-snippet: "evil"}}, spec: {defaultBackend: {service: {name: x, port: {number: 80}}}}}`)
}

// addRBACAttempts makes requests that the roles do not allow.
func addRBACAttempts(all map[string]attempt) {
	const admin = `roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}, subjects: [{kind: ServiceAccount, name: holdfast-operator, namespace: holdfast-system}]}`
	all["ClusterRoleBinding"] = create(`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: attack}, ` + admin)
	all["RoleBinding"] = create(`{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: attack}, ` + admin)
	all["ClusterRole extended"] = func(w *theft) error {
		role := w.object(`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: view}}`)
		return w.thief.Patch(w.t.Context(), role, mergePatch(w.t, []map[string]any{{"apiGroups": []string{"*"}, "resources": []string{"*"}, "verbs": []string{"*"}}}, "rules"))
	}
	for _, kind := range []string{"ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy"} {
		all[kind+" deleted"] = func(w *theft) error {
			obj := &unstructured.Unstructured{}
			obj.SetAPIVersion("admissionregistration.k8s.io/v1")
			obj.SetKind(kind)
			obj.SetName(accountPolicy)
			return w.thief.Delete(w.t.Context(), obj)
		}
	}
	all["token of another account"] = func(w *theft) error {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "admin"}}
		return w.thief.SubResource("token").Create(w.t.Context(), account, &authenticationv1.TokenRequest{})
	}
	all["impersonation"] = func(w *theft) error {
		config := w.thiefConfig()
		config.Impersonate = rest.ImpersonationConfig{UserName: "admin", Groups: []string{"system:masters"}}
		c, err := client.New(config, client.Options{Scheme: clientgoscheme.Scheme, Mapper: w.admin.RESTMapper()})
		if err != nil {
			return err
		}
		return c.Create(w.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "attack"}})
	}
	all["namespace label"] = func(w *theft) error {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.ns}}
		return w.thief.Patch(w.t.Context(), ns, mergePatch(w.t, "privileged", "metadata", "labels", "pod-security.kubernetes.io/enforce"))
	}
}

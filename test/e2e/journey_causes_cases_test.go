package e2e

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	api "sigs.k8s.io/controller-runtime/pkg/client"
)

// faultAppService returns an AppService with this spec.
func faultAppService(spec string) string {
	return "apiVersion: apps.holdfast.dev/v1alpha1\nkind: AppService\nmetadata: {name: app}\nspec: " + spec + "\n"
}

// faultAppStack returns an AppStack with these components.
func faultAppStack(components string) string {
	return "apiVersion: apps.holdfast.dev/v1alpha1\nkind: AppStack\nmetadata: {name: app}\nspec: {components: [" + components + "]}\n"
}

// statefulComponent returns a component with storage of a StorageClass.
func statefulComponent(class string) string {
	return fmt.Sprintf(`{name: db, stateful: {image: "localhost/web:1", storage: [{name: data, mountPath: /data, className: %s, size: 400Mi}]}}`, class)
}

// storageClassManifest returns a StorageClass that injects a fault.
func storageClassManifest(name, fault, mode string) string {
	return fmt.Sprintf("---\napiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: %s, annotations: {%s}}\nprovisioner: loop.storage.holdfast.dev\nvolumeBindingMode: %s\nallowVolumeExpansion: true\n", name, fault, mode)
}

func deleteStorageClass(name string) func(*faultTest) {
	return func(*faultTest) { _, _ = tryKubectl("", "delete", "storageclass", name, "--ignore-not-found") }
}

const (
	webSpec   = `image: "localhost/web:1", `
	shellSpec = `image: "busybox:1.32.1", command: ["/bin/sh", "-c"], `
	probeSpec = `{httpGet: {path: /healthz, port: 8080}, periodSeconds: 1, failureThreshold: 1}`
	// minGrace is the time after which a pod that does not become ready is reported.
	minGrace      = 15 * time.Second
	quotaManifest = "---\napiVersion: v1\nkind: ResourceQuota\nmetadata: {name: small}\nspec: {hard: {%s}}\n"
)

// faults maps names to faults.
var faults = map[string]fault{
	"ImageNotFound":       {manifest: faultAppService(`{image: "localhost:5000/nope:1"}`), code: "ImageNotFound", isVisible: containerWaiting("ErrImagePull", "ImagePullBackOff")},
	"ImageAuth":           {manifest: faultAppService(`{image: "localhost:5000/private/nope:1"}`), code: "ImageAuth", isVisible: containerWaiting("ErrImagePull", "ImagePullBackOff")},
	"RegistryUnreachable": {manifest: faultAppService(`{image: "localhost:5999/nope:1"}`), code: "RegistryUnreachable", isVisible: containerWaiting("ErrImagePull", "ImagePullBackOff")},
	"InvalidImageName":    {manifest: faultAppService(`{` + webSpec + `podTemplateOverlay: {spec: {containers: [{name: side, image: "localhost/NOT-valid"}]}}}`), code: "InvalidImageName", isVisible: containerWaiting("InvalidImageName")},
	"ImageNeverPull":      {manifest: faultAppService(`{image: "localhost/none:1", imagePullPolicy: Never}`), code: "ImageNeverPull", isVisible: containerWaiting("ErrImageNeverPull")},

	"MissingSecret":          {manifest: faultAppService(`{` + webSpec + `envFrom: [{secretRef: {name: none}}]}`), code: "MissingSecret", isVisible: containerWaiting("CreateContainerConfigError")},
	"MissingConfigMap":       {manifest: faultAppService(`{` + webSpec + `envFrom: [{configMapRef: {name: none}}]}`), code: "MissingConfigMap", isVisible: containerWaiting("CreateContainerConfigError")},
	"MissingKey":             {manifest: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {a: b}\n---\n" + faultAppService(`{`+webSpec+`env: [{name: A, valueFrom: {configMapKeyRef: {name: settings, key: none}}}]}`), code: "MissingKey", isVisible: containerWaiting("CreateContainerConfigError")},
	"MissingSecretVolume":    {manifest: faultAppService(`{` + webSpec + `volumes: [{name: cert, mountPath: /cert, secret: {name: none}}]}`), code: "MissingSecret", isVisible: containerWaiting("ContainerCreating")},
	"MissingConfigMapVolume": {manifest: faultAppService(`{` + webSpec + `volumes: [{name: files, mountPath: /files, configMap: {name: none}}]}`), code: "MissingConfigMap", isVisible: containerWaiting("ContainerCreating")},
	"MissingKeyVolume": {manifest: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {a: b}\n---\n" + faultAppService(`{`+webSpec+`volumes: [{name: files, mountPath: /files, configMap: {name: settings, items: [{key: none, path: none}]}}]}`),
		code: "MissingKey", isVisible: hasEvent("FailedMount", "non-existent"), grace: 30 * time.Second},
	"MissingClaim": {manifest: faultAppService(`{` + webSpec + `volumes: [{name: data, mountPath: /data, persistentVolumeClaim: {claimName: none}}]}`), code: "MissingClaim", isVisible: podUnschedulable, grace: 5 * time.Second},

	"StartError":       {manifest: faultAppService(`{` + webSpec + `command: ["/nope"]}`), code: "StartError", isVisible: containerTerminated},
	"CrashLoop":        {manifest: faultAppService(`{` + webSpec + `args: ["--crash-after=0s"]}`), code: "CrashLoop", isVisible: containerTerminated},
	"OOMKilled":        {manifest: faultAppService(`{` + shellSpec + `args: ["tail /dev/zero"], resources: {limits: {memory: 32Mi}}}`), code: "OOMKilled", isVisible: containerTerminated},
	"Killed":           {manifest: faultAppService(`{` + shellSpec + `args: ["exit 137"]}`), code: "Killed", isVisible: containerTerminated},
	"ReadinessFailing": {manifest: faultAppService(`{` + webSpec + `args: ["--healthy=false"], ports: [{port: 80, targetPort: 8080}], probes: {readiness: ` + probeSpec + `}}`), code: "ReadinessFailing", isVisible: containerRunning, grace: minGrace},
	"StartupFailing":   {manifest: faultAppService(`{` + webSpec + `args: ["--healthy=false"], terminationGracePeriodSeconds: 1, probes: {startup: ` + probeSpec + `}}`), code: "StartupFailing", isVisible: hasEvent("Killing", "startup"), grace: 10 * time.Second},
	"LivenessRestarts": {manifest: faultAppService(`{` + webSpec + `args: ["--healthy=false"], terminationGracePeriodSeconds: 1, probes: {liveness: ` + probeSpec + `}}`), code: "LivenessRestarts", isVisible: hasEvent("Killing", "liveness"), grace: 10 * time.Second},
	"InitBlocked":      {manifest: faultAppService(`{` + webSpec + `podTemplateOverlay: {spec: {initContainers: [{name: wait, image: "busybox:1.32.1", command: [sleep, "600"]}]}}}`), code: "InitBlocked", informational: true, isVisible: containerRunning, grace: time.Minute},
	"InitCrash":        {manifest: faultAppService(`{` + webSpec + `podTemplateOverlay: {spec: {initContainers: [{name: first, image: "busybox:1.32.1", command: [/bin/false]}]}}}`), code: "CrashLoop", isVisible: containerWaiting("CrashLoopBackOff")},
	"ReadinessGate":    {manifest: faultAppService(`{` + webSpec + `podTemplateOverlay: {spec: {readinessGates: [{conditionType: example.com/gate}]}}}`), code: "ReadinessGate", isVisible: containerRunning, grace: minGrace + 2*time.Second},
	"PostStartHook":    {manifest: faultAppService(`{` + webSpec + `podTemplateOverlay: {spec: {containers: [{name: app, lifecycle: {postStart: {exec: {command: [/nope]}}}}]}}}`), code: "PostStartHook", isVisible: containerWaiting("PostStartHookError")},

	"InsufficientCPU":       {manifest: faultAppService(`{` + webSpec + `resources: {requests: {cpu: "500"}}}`), code: "InsufficientCPU", isVisible: podUnschedulable, grace: 5 * time.Second},
	"InsufficientMemory":    {manifest: faultAppService(`{` + webSpec + `resources: {requests: {memory: 64Ti}}}`), code: "InsufficientMemory", isVisible: podUnschedulable, grace: 5 * time.Second},
	"Insufficient":          {manifest: faultAppService(`{` + webSpec + `resources: {limits: {example.com/gpu: 1}}}`), code: "Insufficient", isVisible: podUnschedulable, grace: 5 * time.Second},
	"NodeSelector":          {manifest: faultAppService(`{` + webSpec + `scheduling: {nodeSelector: {disk: ssd}}}`), code: "NodeSelector", isVisible: podUnschedulable, grace: 5 * time.Second},
	"SchedulingGated":       {manifest: faultAppService(`{` + webSpec + `podTemplateOverlay: {spec: {schedulingGates: [{name: example.com/gate}]}}}`), code: "SchedulingGated", isVisible: podUnschedulable, grace: minGrace},
	"Taints":                {manifest: faultAppService(`{` + webSpec + `}`), trigger: func(s *faultTest) { waitAppServiceReady(s); taintNodes(s); s.restartPods() }, cleanup: untaintNodes, code: "Taints", isVisible: podUnschedulable, grace: 5 * time.Second, exclusive: true},
	"Cordoned":              {manifest: faultAppService(`{` + webSpec + `}`), trigger: func(s *faultTest) { waitAppServiceReady(s); setCordoned(s, true); s.restartPods() }, cleanup: func(s *faultTest) { setCordoned(s, false) }, code: "Cordoned", isVisible: podUnschedulable, grace: 5 * time.Second, exclusive: true},
	"NodeAdmissionRejected": {manifest: faultAppService(`{` + webSpec + `resources: {requests: {cpu: "500"}}, podTemplateOverlay: {spec: {schedulerName: by-hand}}}`), trigger: bindPod, code: "NodeAdmissionRejected", isVisible: anyPod(func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed })},

	"StorageClassMissing":      {manifest: faultAppStack(statefulComponent("nope")), code: "StorageClassMissing", isVisible: hasEvent("ProvisioningFailed", "not found"), grace: 15 * time.Second},
	"ProvisioningFailed":       {manifest: storageClassManifest("cause-fail", `storage.holdfast.dev/fail-provision: "disk array on fire"`, "WaitForFirstConsumer") + "---\n" + faultAppStack(statefulComponent("cause-fail")), cleanup: deleteStorageClass("cause-fail"), code: "ProvisioningFailed", isVisible: hasEvent("ProvisioningFailed", "fire"), grace: 15 * time.Second},
	"ProvisionerNotResponding": {manifest: storageClassManifest("cause-hang", `storage.holdfast.dev/hang-provision: "true"`, "Immediate") + "---\n" + faultAppStack(statefulComponent("cause-hang")), cleanup: deleteStorageClass("cause-hang"), code: "ProvisionerNotResponding", isVisible: hasEvent("ExternalProvisioning", ""), grace: 2*time.Minute + 10*time.Second},
	"MountFailed":              {manifest: storageClassManifest("cause-mount", `storage.holdfast.dev/fail-stage: "no such target"`, "WaitForFirstConsumer") + "---\n" + faultAppStack(statefulComponent("cause-mount")), cleanup: deleteStorageClass("cause-mount"), code: "MountFailed", isVisible: hasEvent("FailedMount", "no such target"), grace: 30 * time.Second},

	"WaitForFirstConsumer": {manifest: faultAppStack(`{name: db, stateful: {image: "localhost/web:1", resources: {requests: {cpu: "500"}}, storage: [{name: data, mountPath: /data, size: 400Mi}]}}`), code: "WaitForFirstConsumer", informational: true, isVisible: podUnschedulable, grace: 5 * time.Second},
	"ResizeStuck": {manifest: storageClassManifest("cause-grow", `storage.holdfast.dev/max-size: 500Mi`, "WaitForFirstConsumer") + "---\n" + faultAppStack(statefulComponent("cause-grow")), trigger: func(s *faultTest) {
		waitAppStackReady(s)
		kubectl(s.T, "-n", s.ns, "patch", "appstack", "app", "--type=json", "-p", `[{"op":"replace","path":"/spec/components/0/stateful/storage/0/size","value":"900Mi"}]`)
	}, cleanup: deleteStorageClass("cause-grow"), code: "ResizeStuck", isVisible: claimResizeFailed, grace: 5 * time.Second},
	"VolumeLost": {manifest: faultAppStack(statefulComponent("standard")), trigger: func(s *faultTest) {
		waitAppStackReady(s)
		volume := kubectl(s.T, "-n", s.ns, "get", "pvc", "data-app-db-0", "-o", "jsonpath={.spec.volumeName}")
		kubectl(s.T, "delete", "pv", volume, "--wait=false")
		kubectl(s.T, "patch", "pv", volume, "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
		kubectl(s.T, "-n", s.ns, "delete", "pod", "app-db-0", "--wait=false")
	}, code: "VolumeLost", isVisible: podUnschedulable, grace: 10 * time.Second},
	"CreateFailed": {manifest: faultAppService(`{` + webSpec + `scheduling: {priorityClassName: vip}}`), code: "CreateFailed", isVisible: replicaFailure},

	"QuotaExceeded":         {manifest: fmt.Sprintf(quotaManifest, `pods: "0"`) + "---\n" + faultAppService(`{`+webSpec+`}`), code: "QuotaExceeded", isVisible: replicaFailure},
	"QuotaExceededStateful": {manifest: fmt.Sprintf(quotaManifest, `pods: "0"`) + "---\n" + faultAppStack(statefulComponent("standard")), code: "QuotaExceeded", isVisible: hasEvent("FailedCreate", "exceeded quota"), grace: 15 * time.Second},
	"QuotaExceededService": {manifest: fmt.Sprintf(quotaManifest, `services: "0"`), trigger: func(s *faultTest) {
		s.waitUntil(30*time.Second, "the quota is enforced", s.quotaIsEnforced) // the rejection before that has another message
		apply(s.T, s.ns, faultAppService(`{`+webSpec+`ports: [{port: 80}]}`))
	}, code: "QuotaExceeded"},
	"QuotaNeedsRequests": {manifest: fmt.Sprintf(quotaManifest, `requests.cpu: "1"`) + "---\n" + faultAppService(`{`+webSpec+`}`), code: "QuotaNeedsRequests", isVisible: replicaFailure},
	"LimitRange":         {manifest: "apiVersion: v1\nkind: LimitRange\nmetadata: {name: range}\nspec: {limits: [{type: Container, max: {memory: 1Gi}}]}\n---\n" + faultAppService(`{`+webSpec+`resources: {limits: {memory: 2Gi}}}`), code: "LimitRange", isVisible: replicaFailure},
	"PodSecurity": {manifest: faultAppService(`{` + webSpec + `}`), trigger: func(s *faultTest) {
		waitAppServiceReady(s)
		kubectl(s.T, "label", "namespace", s.ns, "pod-security.kubernetes.io/enforce=restricted")
		s.restartPods()
	}, code: "PodSecurity", isVisible: replicaFailure},
	"PolicyDenied": {manifest: policyManifest + faultAppService(`{`+webSpec+`}`), trigger: func(s *faultTest) {
		waitAppServiceReady(s)
		time.Sleep(3 * time.Second) // a new policy takes effect after a moment
		kubectl(s.T, "-n", s.ns, "patch", "appservice", "app", "--type=merge", "-p", `{"spec":{"podLabels":{"team":"red"}}}`)
	}, cleanup: deletePolicy, code: "PolicyDenied", isVisible: replicaFailure},
	"WebhookDown":           {manifest: webhookManifest + faultAppService(`{`+webSpec+`}`), cleanup: deleteWebhook, code: "WebhookDown", isVisible: replicaFailure},
	"ServiceAccountMissing": {manifest: faultAppService(`{` + webSpec + `serviceAccountName: none}`), code: "ServiceAccountMissing", isVisible: replicaFailure},

	"RolloutStuck": {manifest: faultAppService(`{` + webSpec + `ports: [{port: 80, targetPort: 8080}], probes: {readiness: {tcpSocket: {port: 8081}, initialDelaySeconds: 300}}, update: {progressDeadlineSeconds: 3}}`),
		code: "RolloutStuck", isVisible: progressDeadlineExceeded},
	"Paused": {manifest: faultAppService(`{` + webSpec + `}`), trigger: func(s *faultTest) {
		waitAppServiceReady(s)
		kubectl(s.T, "-n", s.ns, "rollout", "pause", "deployment/app")
	}, code: "Paused", informational: true},
	"ScaledToZero":             {manifest: faultAppService(`{` + webSpec + `replicas: 0}`), code: "ScaledToZero", informational: true},
	"IngressBroken":            {manifest: faultAppService(`{` + webSpec + `ports: [{port: 80, targetPort: 8080}], expose: {hostnames: [a.example.com], ingressClassName: nope}}`), trigger: waitAppServiceReady, code: "IngressBroken", notInStatus: true},
	"LBPending":                {manifest: faultAppService(`{` + webSpec + `ports: [{port: 80, targetPort: 8080}], service: {type: LoadBalancer}}`), code: "LBPending", grace: 2*time.Minute + 15*time.Second},
	"AutoscalerMetricsMissing": {manifest: faultAppService(`{` + webSpec + `resources: {requests: {cpu: 10m}}, autoscaling: {minReplicas: 1, maxReplicas: 2, targetCPUUtilization: 50}}`), code: "AutoscalerMetricsMissing", informational: true, grace: 100 * time.Second},
	"Disrupted":                {manifest: faultAppStack(`{name: db, stateful: {image: "busybox:1.32.1", command: [sleep, "3600"], storage: [{name: data, mountPath: /data, size: 400Mi}]}}`), trigger: func(s *faultTest) { waitAppStackReady(s); s.evictPod() }, code: "Disrupted", informational: true, isVisible: podTerminating},
	"StuckTerminating": {manifest: faultAppStack(`{name: db, stateful: {image: "localhost/web:1", terminationGracePeriodSeconds: 1, storage: [{name: data, mountPath: /data, size: 400Mi}]}}`), trigger: func(s *faultTest) {
		waitAppStackReady(s)
		kubectl(s.T, "-n", s.ns, "patch", "pod", "app-db-0", "--type=merge", "-p", `{"metadata":{"finalizers":["example.com/hold"]}}`)
		kubectl(s.T, "-n", s.ns, "delete", "pod", "app-db-0", "--wait=false")
	}, cleanup: func(s *faultTest) {
		_, _ = tryKubectl("", "-n", s.ns, "patch", "pod", "app-db-0", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	}, code: "StuckTerminating", isVisible: podTerminating, grace: 35 * time.Second},

	"JobFailed":       {manifest: faultAppStack(`{name: migrate, job: {image: "busybox:1.32.1", command: [/bin/sh, -c, "exit 3"], backoffLimit: 0}}`), code: "JobFailed", isVisible: containerTerminated, grace: 5 * time.Second},
	"DependencyWait":  {manifest: faultAppStack(`{name: api, service: {image: "localhost/web:1", args: ["--start-delay=1h", "--crash-after=2s"], ports: [{port: 8080}]}}, {name: web, dependsOn: [api], service: {image: "localhost/web:1"}}`), code: "DependencyWait", informational: true, isVisible: containerTerminated},
	"SpecNotObserved": {manifest: faultAppService(`{` + webSpec + `}`), trigger: func(s *faultTest) { waitAppServiceReady(s); scaleOperator(s, 0); editSpec(s) }, cleanup: func(s *faultTest) { scaleOperator(s, 1) }, code: "SpecNotObserved", notInStatus: true, grace: minGrace, exclusive: true},
}

const policyManifest = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: cause-no-red}
spec:
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: "%s"}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  validations: [{expression: "!has(object.metadata.labels.team) || object.metadata.labels.team != 'red'", message: "no pods of team red here"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: cause-no-red}
spec: {policyName: cause-no-red, validationActions: [Deny]}
---
`

const webhookManifest = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: cause-down}
webhooks:
- name: pods.example.com
  clientConfig: {service: {namespace: "%s", name: nobody, port: 443}}
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: "%s"}}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods], scope: Namespaced}]
  failurePolicy: Fail
  sideEffects: None
  timeoutSeconds: 2
  admissionReviewVersions: [v1]
---
`

func deletePolicy(*faultTest) {
	_, _ = tryKubectl("", "delete", "validatingadmissionpolicybinding,validatingadmissionpolicy", "cause-no-red", "--ignore-not-found")
}

func deleteWebhook(*faultTest) {
	_, _ = tryKubectl("", "delete", "validatingwebhookconfiguration", "cause-down", "--ignore-not-found")
}

func (s *faultTest) restartPods() {
	kubectl(s.T, "-n", s.ns, "patch", "appservice", "app", "--type=merge", "-p", `{"spec":{"podLabels":{"generation":"2"}}}`)
}

// evictPod evicts the pod as kubectl drain does.
func (s *faultTest) evictPod() {
	p := s.pods()[0]
	err := s.SubResource("eviction").Create(s.Context(), &p, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}})
	if err != nil {
		s.Fatal(err)
	}
}

// podTerminating matches a pod with a deletion timestamp.
func podTerminating(s *faultTest) bool {
	return anyPod(func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil })(s)
}

// claimResizeFailed matches a claim whose expansion failed.
func claimResizeFailed(s *faultTest) bool {
	var list corev1.PersistentVolumeClaimList
	if err := s.List(s.Context(), &list, api.InNamespace(s.ns)); err != nil {
		s.Fatal(err)
	}
	for _, c := range list.Items {
		for _, x := range c.Status.Conditions {
			if x.Type == corev1.PersistentVolumeClaimControllerResizeError || x.Type == corev1.PersistentVolumeClaimNodeResizeError {
				return true
			}
		}
	}
	return false
}

// progressDeadlineExceeded matches a Deployment that exceeded its progress deadline.
func progressDeadlineExceeded(s *faultTest) bool {
	var d appsv1.Deployment
	if s.Get(s.Context(), api.ObjectKey{Namespace: s.ns, Name: "app"}, &d) != nil {
		return false
	}
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentProgressing && c.Reason == "ProgressDeadlineExceeded" {
			return true
		}
	}
	return false
}

// bindPod schedules a pod to a node, whatever it requests.
func bindPod(s *faultTest) {
	pods := s.pods()
	for deadline := time.Now().Add(30 * time.Second); len(pods) == 0; pods = s.pods() {
		if time.Now().After(deadline) {
			s.Fatal("no pod was created")
		}
		time.Sleep(200 * time.Millisecond)
	}
	binding := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Binding", "metadata": {"name": %q}, "target": {"apiVersion": "v1", "kind": "Node", "name": "node1"}}`, pods[0].Name)
	if _, err := tryKubectl(binding, "create", "--raw", "/api/v1/namespaces/"+s.ns+"/pods/"+pods[0].Name+"/binding", "-f", "-"); err != nil {
		s.Fatal(err)
	}
}

func taintNodes(s *faultTest) {
	kubectl(s.T, "taint", "nodes", "--all", "example.com/busy=yes:NoSchedule")
}
func untaintNodes(*faultTest) { _, _ = tryKubectl("", "taint", "nodes", "--all", "example.com/busy-") }

func setCordoned(s *faultTest, on bool) {
	var nodes corev1.NodeList
	if err := s.List(context.WithoutCancel(s.Context()), &nodes); err != nil {
		s.Log(err)
	}
	for i := range nodes.Items {
		_, _ = tryKubectl("", "patch", "node", nodes.Items[i].Name, "--type=merge", "-p", fmt.Sprintf(`{"spec":{"unschedulable":%t}}`, on))
	}
}

// scaleOperator sets the number of operator replicas.
func scaleOperator(s *faultTest, n int) {
	_, err := tryKubectl("", "-n", "holdfast-system", "scale", "deployment/holdfast-operator", fmt.Sprintf("--replicas=%d", n))
	if err == nil && n == 0 {
		_, err = tryKubectl("", "-n", "holdfast-system", "wait", "--for=delete", "pod", "-l", "app.kubernetes.io/name=holdfast", "--timeout=60s")
	}
	if err == nil && n > 0 {
		_, err = tryKubectl("", "-n", "holdfast-system", "rollout", "status", "deployment/holdfast-operator", "--timeout=60s")
	}
	if err != nil {
		s.Log(err)
	}
}

func editSpec(s *faultTest) {
	kubectl(s.T, "-n", s.ns, "patch", "appservice", "app", "--type=merge", "-p", `{"spec":{"podLabels":{"edited":"yes"}}}`)
}

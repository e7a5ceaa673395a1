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

// appService is one with this spec.
func appService(spec string) string {
	return "apiVersion: apps.holdfast.dev/v1alpha1\nkind: AppService\nmetadata: {name: app}\nspec: " + spec + "\n"
}

// stack is an AppStack with these components.
func stack(components string) string {
	return "apiVersion: apps.holdfast.dev/v1alpha1\nkind: AppStack\nmetadata: {name: app}\nspec: {components: [" + components + "]}\n"
}

// db is a component with data of a class.
func db(class string) string {
	return fmt.Sprintf(`{name: db, stateful: {image: "localhost/web:1", storage: [{name: data, mountPath: /data, className: %s, size: 400Mi}]}}`, class)
}

// class is a StorageClass that misbehaves.
func class(name, fault, mode string) string {
	return fmt.Sprintf("---\napiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: %s, annotations: {%s}}\nprovisioner: loop.storage.holdfast.dev\nvolumeBindingMode: %s\nallowVolumeExpansion: true\n", name, fault, mode)
}

func dropClass(name string) func(*scene) {
	return func(*scene) { _, _ = try("", "delete", "storageclass", name, "--ignore-not-found") }
}

const (
	web   = `image: "localhost/web:1", `
	shell = `image: "busybox:1.32.1", command: ["/bin/sh", "-c"], `
	probe = `{httpGet: {path: /healthz, port: 8080}, periodSeconds: 1, failureThreshold: 1}`
	// least is the shortest silence that is believed.
	least = 15 * time.Second
	quota = "---\napiVersion: v1\nkind: ResourceQuota\nmetadata: {name: small}\nspec: {hard: {%s}}\n"
)

// faults by name.
var faults = map[string]fault{
	"ImageNotFound":       {manifest: appService(`{image: "localhost:5000/nope:1"}`), code: "ImageNotFound", sees: waits("ErrImagePull", "ImagePullBackOff")},
	"ImageAuth":           {manifest: appService(`{image: "localhost:5000/private/nope:1"}`), code: "ImageAuth", sees: waits("ErrImagePull", "ImagePullBackOff")},
	"RegistryUnreachable": {manifest: appService(`{image: "localhost:5999/nope:1"}`), code: "RegistryUnreachable", sees: waits("ErrImagePull", "ImagePullBackOff")},
	"InvalidImageName":    {manifest: appService(`{` + web + `podTemplateOverlay: {spec: {containers: [{name: side, image: "localhost/NOT-valid"}]}}}`), code: "InvalidImageName", sees: waits("InvalidImageName")},
	"ImageNeverPull":      {manifest: appService(`{image: "localhost/none:1", imagePullPolicy: Never}`), code: "ImageNeverPull", sees: waits("ErrImageNeverPull")},

	"MissingSecret":          {manifest: appService(`{` + web + `envFrom: [{secretRef: {name: none}}]}`), code: "MissingSecret", sees: waits("CreateContainerConfigError")},
	"MissingConfigMap":       {manifest: appService(`{` + web + `envFrom: [{configMapRef: {name: none}}]}`), code: "MissingConfigMap", sees: waits("CreateContainerConfigError")},
	"MissingKey":             {manifest: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {a: b}\n---\n" + appService(`{`+web+`env: [{name: A, valueFrom: {configMapKeyRef: {name: settings, key: none}}}]}`), code: "MissingKey", sees: waits("CreateContainerConfigError")},
	"MissingSecretVolume":    {manifest: appService(`{` + web + `volumes: [{name: cert, mountPath: /cert, secret: {name: none}}]}`), code: "MissingSecret", sees: waits("ContainerCreating")},
	"MissingConfigMapVolume": {manifest: appService(`{` + web + `volumes: [{name: files, mountPath: /files, configMap: {name: none}}]}`), code: "MissingConfigMap", sees: waits("ContainerCreating")},
	"MissingKeyVolume": {manifest: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {a: b}\n---\n" + appService(`{`+web+`volumes: [{name: files, mountPath: /files, configMap: {name: settings, items: [{key: none, path: none}]}}]}`),
		code: "MissingKey", sees: event("FailedMount", "non-existent"), grace: 30 * time.Second},
	"MissingClaim": {manifest: appService(`{` + web + `volumes: [{name: data, mountPath: /data, persistentVolumeClaim: {claimName: none}}]}`), code: "MissingClaim", sees: unplaced, grace: 5 * time.Second},

	"StartError":       {manifest: appService(`{` + web + `command: ["/nope"]}`), code: "StartError", sees: ended},
	"CrashLoop":        {manifest: appService(`{` + web + `args: ["--crash-after=0s"]}`), code: "CrashLoop", sees: ended},
	"OOMKilled":        {manifest: appService(`{` + shell + `args: ["tail /dev/zero"], resources: {limits: {memory: 32Mi}}}`), code: "OOMKilled", sees: ended},
	"Killed":           {manifest: appService(`{` + shell + `args: ["exit 137"]}`), code: "Killed", sees: ended},
	"ReadinessFailing": {manifest: appService(`{` + web + `args: ["--healthy=false"], ports: [{port: 80, targetPort: 8080}], probes: {readiness: ` + probe + `}}`), code: "ReadinessFailing", sees: runs, grace: least},
	"StartupFailing":   {manifest: appService(`{` + web + `args: ["--healthy=false"], terminationGracePeriodSeconds: 1, probes: {startup: ` + probe + `}}`), code: "StartupFailing", sees: event("Killing", "startup"), grace: 10 * time.Second},
	"LivenessRestarts": {manifest: appService(`{` + web + `args: ["--healthy=false"], terminationGracePeriodSeconds: 1, probes: {liveness: ` + probe + `}}`), code: "LivenessRestarts", sees: event("Killing", "liveness"), grace: 10 * time.Second},
	"InitBlocked":      {manifest: appService(`{` + web + `podTemplateOverlay: {spec: {initContainers: [{name: wait, image: "busybox:1.32.1", command: [sleep, "600"]}]}}}`), code: "InitBlocked", notice: true, sees: runs, grace: time.Minute},
	"InitCrash":        {manifest: appService(`{` + web + `podTemplateOverlay: {spec: {initContainers: [{name: first, image: "busybox:1.32.1", command: [/bin/false]}]}}}`), code: "CrashLoop", sees: waits("CrashLoopBackOff")},
	"ReadinessGate":    {manifest: appService(`{` + web + `podTemplateOverlay: {spec: {readinessGates: [{conditionType: example.com/gate}]}}}`), code: "ReadinessGate", sees: runs, grace: least + 2*time.Second},
	"PostStartHook":    {manifest: appService(`{` + web + `podTemplateOverlay: {spec: {containers: [{name: app, lifecycle: {postStart: {exec: {command: [/nope]}}}}]}}}`), code: "PostStartHook", sees: waits("PostStartHookError")},

	"InsufficientCPU":    {manifest: appService(`{` + web + `resources: {requests: {cpu: "500"}}}`), code: "InsufficientCPU", sees: unplaced, grace: 5 * time.Second},
	"InsufficientMemory": {manifest: appService(`{` + web + `resources: {requests: {memory: 64Ti}}}`), code: "InsufficientMemory", sees: unplaced, grace: 5 * time.Second},
	"Insufficient":       {manifest: appService(`{` + web + `resources: {limits: {example.com/gpu: 1}}}`), code: "Insufficient", sees: unplaced, grace: 5 * time.Second},
	"NodeSelector":       {manifest: appService(`{` + web + `scheduling: {nodeSelector: {disk: ssd}}}`), code: "NodeSelector", sees: unplaced, grace: 5 * time.Second},
	"SchedulingGated":    {manifest: appService(`{` + web + `podTemplateOverlay: {spec: {schedulingGates: [{name: example.com/gate}]}}}`), code: "SchedulingGated", sees: unplaced, grace: least},
	"Taints":             {manifest: appService(`{` + web + `}`), then: func(s *scene) { serviceReady(s); taint(s); s.restart() }, clean: untaint, code: "Taints", sees: unplaced, grace: 5 * time.Second, alone: true},
	"Cordoned":           {manifest: appService(`{` + web + `}`), then: func(s *scene) { serviceReady(s); cordon(s, true); s.restart() }, clean: func(s *scene) { cordon(s, false) }, code: "Cordoned", sees: unplaced, grace: 5 * time.Second, alone: true},
	"AdmissionAtNode":    {manifest: appService(`{` + web + `resources: {requests: {cpu: "500"}}, podTemplateOverlay: {spec: {nodeName: node1}}}`), code: "AdmissionAtNode", sees: pod(func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed })},

	"StorageClassMissing": {manifest: stack(db("nope")), code: "StorageClassMissing", sees: event("ProvisioningFailed", "not found"), grace: 15 * time.Second},
	"ProvisioningFailed":  {manifest: class("cause-fail", `storage.holdfast.dev/fail-provision: "disk array on fire"`, "WaitForFirstConsumer") + "---\n" + stack(db("cause-fail")), clean: dropClass("cause-fail"), code: "ProvisioningFailed", sees: event("ProvisioningFailed", "fire"), grace: 15 * time.Second},
	"ProvisionerSilent":   {manifest: class("cause-hang", `storage.holdfast.dev/hang-provision: "true"`, "Immediate") + "---\n" + stack(db("cause-hang")), clean: dropClass("cause-hang"), code: "ProvisionerSilent", sees: event("ExternalProvisioning", ""), grace: 2*time.Minute + 10*time.Second},
	"MountFailed":         {manifest: class("cause-mount", `storage.holdfast.dev/fail-stage: "no such target"`, "WaitForFirstConsumer") + "---\n" + stack(db("cause-mount")), clean: dropClass("cause-mount"), code: "MountFailed", sees: event("FailedMount", "no such target"), grace: 30 * time.Second},

	"WaitForFirstConsumer": {manifest: stack(`{name: db, stateful: {image: "localhost/web:1", resources: {requests: {cpu: "500"}}, storage: [{name: data, mountPath: /data, size: 400Mi}]}}`), code: "WaitForFirstConsumer", notice: true, sees: unplaced, grace: 5 * time.Second},
	"ResizeStuck": {manifest: class("cause-grow", `storage.holdfast.dev/max-size: 500Mi`, "WaitForFirstConsumer") + "---\n" + stack(db("cause-grow")), then: func(s *scene) {
		allReady(s)
		kubectl(s.T, "-n", s.ns, "patch", "appstack", "app", "--type=json", "-p", `[{"op":"replace","path":"/spec/components/0/stateful/storage/0/size","value":"900Mi"}]`)
	}, clean: dropClass("cause-grow"), code: "ResizeStuck", sees: cannotGrow, grace: 5 * time.Second},
	"VolumeLost": {manifest: stack(db("standard")), then: func(s *scene) {
		allReady(s)
		volume := kubectl(s.T, "-n", s.ns, "get", "pvc", "data-app-db-0", "-o", "jsonpath={.spec.volumeName}")
		kubectl(s.T, "delete", "pv", volume, "--wait=false")
		kubectl(s.T, "patch", "pv", volume, "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
		kubectl(s.T, "-n", s.ns, "delete", "pod", "app-db-0", "--wait=false")
	}, code: "VolumeLost", sees: unplaced, grace: 10 * time.Second},
	"CreateFailed": {manifest: appService(`{` + web + `scheduling: {priorityClassName: vip}}`), code: "CreateFailed", sees: refused},

	"QuotaExceeded":         {manifest: fmt.Sprintf(quota, `pods: "0"`) + "---\n" + appService(`{`+web+`}`), code: "QuotaExceeded", sees: refused},
	"QuotaExceededStateful": {manifest: fmt.Sprintf(quota, `pods: "0"`) + "---\n" + stack(db("standard")), code: "QuotaExceeded", sees: event("FailedCreate", "exceeded quota"), grace: 15 * time.Second},
	"QuotaExceededService":  {manifest: fmt.Sprintf(quota, `services: "0"`) + "---\n" + appService(`{`+web+`ports: [{port: 80}]}`), code: "QuotaExceeded"},
	"QuotaNeedsRequests":    {manifest: fmt.Sprintf(quota, `requests.cpu: "1"`) + "---\n" + appService(`{`+web+`}`), code: "QuotaNeedsRequests", sees: refused},
	"LimitRange":            {manifest: "apiVersion: v1\nkind: LimitRange\nmetadata: {name: range}\nspec: {limits: [{type: Container, max: {memory: 1Gi}}]}\n---\n" + appService(`{`+web+`resources: {limits: {memory: 2Gi}}}`), code: "LimitRange", sees: refused},
	"PodSecurity": {manifest: appService(`{` + web + `}`), then: func(s *scene) {
		serviceReady(s)
		kubectl(s.T, "label", "namespace", s.ns, "pod-security.kubernetes.io/enforce=restricted")
		s.restart()
	}, code: "PodSecurity", sees: refused},
	"PolicyDenied": {manifest: policy + appService(`{`+web+`}`), then: func(s *scene) {
		serviceReady(s)
		time.Sleep(3 * time.Second) // the API server takes a moment to know a policy
		kubectl(s.T, "-n", s.ns, "patch", "appservice", "app", "--type=merge", "-p", `{"spec":{"podLabels":{"team":"red"}}}`)
	}, clean: dropPolicy, code: "PolicyDenied", sees: refused},
	"WebhookDown":           {manifest: webhook + appService(`{`+web+`}`), clean: dropWebhook, code: "WebhookDown", sees: refused},
	"ServiceAccountMissing": {manifest: appService(`{` + web + `serviceAccountName: none}`), code: "ServiceAccountMissing", sees: refused},

	"RolloutStuck": {manifest: appService(`{` + web + `ports: [{port: 80, targetPort: 8080}], probes: {readiness: {tcpSocket: {port: 8081}, initialDelaySeconds: 300}}, update: {progressDeadlineSeconds: 3}}`),
		code: "RolloutStuck", sees: stuck},
	"Paused":          {manifest: appService(`{` + web + `}`), then: func(s *scene) { serviceReady(s); kubectl(s.T, "-n", s.ns, "rollout", "pause", "deployment/app") }, code: "Paused", notice: true},
	"ScaledToZero":    {manifest: appService(`{` + web + `replicas: 0}`), code: "ScaledToZero", notice: true},
	"IngressBroken":   {manifest: appService(`{` + web + `ports: [{port: 80, targetPort: 8080}], expose: {hostnames: [a.example.com], ingressClassName: nope}}`), then: serviceReady, code: "IngressBroken", blind: true},
	"LBPending":       {manifest: appService(`{` + web + `ports: [{port: 80, targetPort: 8080}], service: {type: LoadBalancer}}`), code: "LBPending", grace: 2*time.Minute + 15*time.Second},
	"AutoscalerBlind": {manifest: appService(`{` + web + `resources: {requests: {cpu: 10m}}, autoscaling: {minReplicas: 1, maxReplicas: 2, targetCPUUtilization: 50}}`), code: "AutoscalerBlind", notice: true, grace: 100 * time.Second},
	"Disrupted":       {manifest: stack(`{name: db, stateful: {image: "busybox:1.32.1", command: [sleep, "3600"], storage: [{name: data, mountPath: /data, size: 400Mi}]}}`), then: func(s *scene) { allReady(s); s.evict() }, code: "Disrupted", notice: true, sees: leaving},
	"StuckTerminating": {manifest: stack(`{name: db, stateful: {image: "localhost/web:1", terminationGracePeriodSeconds: 1, storage: [{name: data, mountPath: /data, size: 400Mi}]}}`), then: func(s *scene) {
		allReady(s)
		kubectl(s.T, "-n", s.ns, "patch", "pod", "app-db-0", "--type=merge", "-p", `{"metadata":{"finalizers":["example.com/hold"]}}`)
		kubectl(s.T, "-n", s.ns, "delete", "pod", "app-db-0", "--wait=false")
	}, clean: func(s *scene) {
		_, _ = try("", "-n", s.ns, "patch", "pod", "app-db-0", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	}, code: "StuckTerminating", sees: leaving, grace: 35 * time.Second},

	"JobFailed":       {manifest: stack(`{name: migrate, job: {image: "busybox:1.32.1", command: [/bin/sh, -c, "exit 3"], backoffLimit: 0}}`), code: "JobFailed", sees: ended, grace: 5 * time.Second},
	"DependencyWait":  {manifest: stack(`{name: api, service: {image: "localhost/web:1", args: ["--start-delay=1h", "--crash-after=2s"], ports: [{port: 8080}]}}, {name: web, dependsOn: [api], service: {image: "localhost/web:1"}}`), code: "DependencyWait", notice: true, sees: ended},
	"SpecNotObserved": {manifest: appService(`{` + web + `}`), then: func(s *scene) { serviceReady(s); operators(s, 0); edit(s) }, clean: func(s *scene) { operators(s, 1) }, code: "SpecNotObserved", blind: true, grace: least, alone: true},
}

const policy = `
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

const webhook = `
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

func dropPolicy(*scene) {
	_, _ = try("", "delete", "validatingadmissionpolicybinding,validatingadmissionpolicy", "cause-no-red", "--ignore-not-found")
}

func dropWebhook(*scene) {
	_, _ = try("", "delete", "validatingwebhookconfiguration", "cause-down", "--ignore-not-found")
}

// restart replaces the pods.
func (s *scene) restart() {
	kubectl(s.T, "-n", s.ns, "patch", "appservice", "app", "--type=merge", "-p", `{"spec":{"podLabels":{"generation":"2"}}}`)
}

// evict asks for the end of a pod as a drain does.
func (s *scene) evict() {
	p := s.pods()[0]
	err := s.SubResource("eviction").Create(s.Context(), &p, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}})
	if err != nil {
		s.Fatal(err)
	}
}

// leaving sees a pod that is being deleted.
func leaving(s *scene) bool {
	return pod(func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil })(s)
}

// cannotGrow sees a claim that says so.
func cannotGrow(s *scene) bool {
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

// stuck sees a Deployment that has missed its deadline.
func stuck(s *scene) bool {
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

func taint(s *scene) { kubectl(s.T, "taint", "nodes", "--all", "example.com/busy=yes:NoSchedule") }
func untaint(*scene) { _, _ = try("", "taint", "nodes", "--all", "example.com/busy-") }

func cordon(s *scene, on bool) {
	var nodes corev1.NodeList
	if err := s.List(context.WithoutCancel(s.Context()), &nodes); err != nil {
		s.Log(err)
	}
	for i := range nodes.Items {
		_, _ = try("", "patch", "node", nodes.Items[i].Name, "--type=merge", "-p", fmt.Sprintf(`{"spec":{"unschedulable":%t}}`, on))
	}
}

// operators sets how many there are.
func operators(s *scene, n int) {
	_, err := try("", "-n", "holdfast-system", "scale", "deployment/holdfast-operator", fmt.Sprintf("--replicas=%d", n))
	if err == nil && n == 0 {
		_, err = try("", "-n", "holdfast-system", "wait", "--for=delete", "pod", "-l", "app.kubernetes.io/name=holdfast", "--timeout=60s")
	}
	if err == nil && n > 0 {
		_, err = try("", "-n", "holdfast-system", "rollout", "status", "deployment/holdfast-operator", "--timeout=60s")
	}
	if err != nil {
		s.Log(err)
	}
}

func edit(s *scene) {
	kubectl(s.T, "-n", s.ns, "patch", "appservice", "app", "--type=merge", "-p", `{"spec":{"podLabels":{"edited":"yes"}}}`)
}

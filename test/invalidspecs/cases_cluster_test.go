package invalidspecs_test

import (
	"slices"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// probeGraceReason is the reason for a longer grace period: a container counts as unready only after its probe has
// failed several times, by default 3 times with a period of 10 s.
const probeGraceReason = "the readiness probe may fail three times, every 10 s"

// Specs that are valid but cannot work in this cluster.
var clusterCases = slices.Concat(
	classCases("reference", "", map[string]invalidSpec{
		"variable of a missing Secret":    {spec: imageSpecPrefix + `env: [{name: A, valueFrom: {secretKeyRef: {name: no-such-secret, key: k}}}]}`, reason: "ComponentDegraded", wantMessage: `needs Secret "no-such-secret", which does not exist in namespace`},
		"variable of a missing ConfigMap": {spec: imageSpecPrefix + `env: [{name: A, valueFrom: {configMapKeyRef: {name: no-such-config, key: k}}}]}`, reason: "ComponentDegraded", wantMessage: `needs ConfigMap "no-such-config", which does not exist in namespace`},
		"envFrom of a missing Secret":     {spec: imageSpecPrefix + `envFrom: [{secretRef: {name: no-such-secret}}]}`, reason: "ComponentDegraded", wantMessage: `needs Secret "no-such-secret", which does not exist in namespace`},
		"envFrom of a missing ConfigMap":  {spec: imageSpecPrefix + `envFrom: [{configMapRef: {name: no-such-config}}]}`, reason: "ComponentDegraded", wantMessage: `needs ConfigMap "no-such-config", which does not exist`},
		"missing key of a Secret":         {setup: createSettings, spec: imageSpecPrefix + `env: [{name: A, valueFrom: {secretKeyRef: {name: settings, key: no-such-key}}}]}`, reason: "ComponentDegraded", wantMessage: `needs key "no-such-key" of Secret "settings" in namespace`},
		"missing key of a ConfigMap":      {setup: createSettings, spec: imageSpecPrefix + `env: [{name: A, valueFrom: {configMapKeyRef: {name: settings, key: no-such-key}}}]}`, reason: "ComponentDegraded", wantMessage: `needs key "no-such-key" of ConfigMap "settings" in namespace`},
		"volume of a missing Secret":      {spec: imageSpecPrefix + `volumes: [{name: v, mountPath: /v, secret: {name: no-such-secret}}]}`, reason: "ComponentDegraded", wantMessage: `cannot start: a volume refers to Secret "no-such-secret", which does not exist in namespace`},
		"volume of a missing ConfigMap":   {spec: imageSpecPrefix + `volumes: [{name: v, mountPath: /v, configMap: {name: no-such-config}}]}`, reason: "ComponentDegraded", wantMessage: `cannot start: a volume refers to ConfigMap "no-such-config", which does not exist in namespace`},
		"volume of a missing claim":       {spec: imageSpecPrefix + `volumes: [{name: v, mountPath: /v, persistentVolumeClaim: {claimName: no-such-claim}}]}`, reason: "ComponentDegraded", wantMessage: `needs PersistentVolumeClaim "no-such-claim", which does not exist in namespace`},
		"missing ServiceAccount":          {spec: imageSpecPrefix + `serviceAccountName: robot}`, reason: "ComponentDegraded", wantMessage: `ServiceAccount "robot" does not exist in namespace`},
		"missing PriorityClass":           {spec: imageSpecPrefix + `scheduling: {priorityClassName: vip}}`, reason: "ComponentDegraded", wantMessage: "no PriorityClass with name vip was found"},
	}),
	classCases("reference", "AppStack", map[string]invalidSpec{
		"missing Secret in a bound component": {
			spec:   `{components: [{name: api, service: {image: "shop/api:1", ports: [{port: 8080}], envFrom: [{secretRef: {name: no-such-secret}}]}}, ` + webComponent + `]}`,
			reason: "ComponentDegraded", wantMessage: `Component "api": Container app of Pod`,
		},
		"missing Secret in a job": {
			spec:   `{components: [` + apiComponent + `, ` + webComponent + `, {name: j, job: {image: "shop/j:1", envFrom: [{secretRef: {name: no-such-secret}}]}}]}`,
			reason: "ComponentDegraded", wantMessage: `needs Secret "no-such-secret", which does not exist in namespace`,
		},
		"name of an existing Service": {
			setup: createForeignService, spec: `{components: [` + apiComponent + `, ` + webComponent + `, {name: old, resourceName: legacy, service: {image: "shop/old:1", ports: [{port: 80}]}}]}`,
			reason: "NameConflict", wantMessage: "legacy",
		},
	}),
	classCases("image", "", map[string]invalidSpec{
		"image that does not exist":     {spec: `{image: "shop/web:missing"}`, reason: "ComponentDegraded", wantMessage: `Image "shop/web:missing" does not exist in its registry`},
		"image without pull permission": {spec: `{image: "shop/web:denied"}`, reason: "ComponentDegraded", wantMessage: `The registry denies access to image "shop/web:denied"`},
		"unreachable registry":          {spec: `{image: "registry.invalid/web:unreachable"}`, reason: "ComponentDegraded", wantMessage: `The node cannot reach registry registry.invalid`},
		"image with two colons":         {spec: `{image: "nginx::1"}`, wantMessage: "image must be a lowercase image name with an optional tag or digest"},
		"image in upper case":           {spec: `{image: "Shop/Web:1"}`, wantMessage: "image must be a lowercase image name with an optional tag or digest"},
		"image with a scheme":           {spec: `{image: "https://registry.example.com/web:1"}`, wantMessage: "image must be a lowercase image name with an optional tag or digest"},
		"image with a shell variable":   {spec: `{image: "${IMAGE}"}`, wantMessage: "image must be a lowercase image name with an optional tag or digest"},
		"image with a Helm template":    {spec: `{image: "{{.Values.image}}"}`, wantMessage: "image must be a lowercase image name with an optional tag or digest"},
		"image with an empty tag":       {spec: `{image: "nginx:"}`, wantMessage: "image must be a lowercase image name with an optional tag or digest"},
		"digest without an algorithm":   {spec: `{image: "nginx@0123456789abcdef"}`, wantMessage: "image must be a lowercase image name with an optional tag or digest"},
	}),
	classCases("program", "", map[string]invalidSpec{
		"container crashes":                  {spec: `{image: "shop/web:crash"}`, reason: "ComponentDegraded", wantMessage: "crashes: it exited with code 3"},
		"container exceeds its memory limit": {spec: `{image: "shop/web:oom", resources: {limits: {memory: 64Mi}}}`, reason: "ComponentDegraded", wantMessage: "was killed because it used more than its memory limit of 64Mi"},
		"readiness probe fails":              {spec: `{image: "shop/web:never", ports: [{port: 80, targetPort: 8080}]}`, reason: "ComponentDegraded", wantMessage: "runs, but nothing listens on TCP port 8080", grace: 40 * time.Second, graceReason: probeGraceReason},
		"readiness probe with a wrong path":  {spec: `{image: "shop/web:never", ports: [{port: 80}], probes: {readiness: {httpGet: {path: /nope, port: 80}}}}`, reason: "ComponentDegraded", wantMessage: "/nope", grace: 40 * time.Second, graceReason: probeGraceReason},
	}),
	classCases("program", "AppStack", map[string]invalidSpec{
		"job that fails":            {spec: `{components: [` + apiComponent + `, {name: migrate, job: {image: "shop/j:fail", backoffLimit: 0}}, {name: web, dependsOn: [migrate], bindings: [{component: api}], service: {image: "shop/web:1", ports: [{port: 80}]}}]}`, reason: "ComponentDegraded", wantMessage: `Component "migrate": `},
		"bound component not ready": {spec: `{components: [{name: api, service: {image: "shop/api:missing", ports: [{port: 8080}]}}, ` + webComponent + `]}`, reason: "ComponentDegraded", wantMessage: `Component "api": Image "shop/api:missing" does not exist in its registry`},
	}),
	classCases("placement", "", map[string]invalidSpec{
		"node selector without a match":    {spec: imageSpecPrefix + `scheduling: {nodeSelector: {disk: ssd}}}`, reason: "ComponentDegraded", wantMessage: "because of the node selector or node affinity of the pod"},
		"more CPU than any node":           {spec: imageSpecPrefix + `resources: {requests: {cpu: "5000"}}}`, reason: "ComponentDegraded", wantMessage: "No node has enough CPU for Pod"},
		"more memory than any node":        {spec: imageSpecPrefix + `resources: {requests: {memory: 64Ti}}}`, reason: "ComponentDegraded", wantMessage: "No node has enough memory for Pod"},
		"extended resource without a node": {spec: imageSpecPrefix + `resources: {limits: {example.com/gpu: 1}}}`, reason: "ComponentDegraded", wantMessage: "example.com/gpu"},
	}),
	classCases("policy", "", map[string]invalidSpec{
		"more pods than the quota":       {setup: createQuota(corev1.ResourceList{corev1.ResourcePods: resource.MustParse("2")}), baseSpec: imageSpecPrefix + `replicas: 1}`, spec: imageSpecPrefix + `replicas: 4}`, reason: "ComponentDegraded", wantMessage: "is exceeded (pods), so the pods of Deployment web cannot be created"},
		"quota requires requests":        {setup: createQuota(corev1.ResourceList{corev1.ResourceRequestsCPU: resource.MustParse("1")}), baseSpec: imageSpecPrefix + `resources: {requests: {cpu: 100m}}}`, spec: imageSpecPrefix + `replicas: 1}`, reason: "ComponentDegraded", wantMessage: "requires requests.cpu to be set"},
		"limit above the LimitRange":     {setup: createLimitRange, spec: imageSpecPrefix + `resources: {limits: {memory: 2Gi}}}`, reason: "ComponentDegraded", wantMessage: "sets a maximum of 1Gi memory per Container"},
		"root in a restricted namespace": {setup: restrictNamespace, baseSpec: `{image: "shop/web:1", security: {level: Restricted, runAsUser: 1000}}`, spec: `{image: "shop/web:1"}`, reason: "ComponentDegraded", wantMessage: "enforces PodSecurity level restricted"},
		"Services beyond the quota":      {setup: createQuota(corev1.ResourceList{corev1.ResourceServices: resource.MustParse("0")}), baseSpec: `{image: "shop/web:1"}`, spec: imageSpecPrefix + `ports: [{port: 80}]}`, reason: "ApplyFailed", wantMessage: "ResourceQuota small in namespace", maxRejectedWrites: 9},
	}),
)

func (w *world) createInNamespace(obj client.Object) {
	w.Helper()
	obj.SetNamespace(w.NS)
	w.Expect(w.Create(w.Context(), obj)).To(Succeed())
}

// createSettings creates a Secret and a ConfigMap without the referenced keys.
func createSettings(w *world) {
	w.createInNamespace(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "settings"}, StringData: map[string]string{"key": "value"}})
	w.createInNamespace(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"key": "value"}})
}

// createForeignService creates a Service that Holdfast does not manage.
func createForeignService(w *world) {
	w.createInNamespace(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "legacy"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}})
}

// createQuota creates a ResourceQuota and waits for its status. Until then the API server rejects all objects with a
// different message.
func createQuota(hard corev1.ResourceList) func(*world) {
	return func(w *world) {
		q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "small"}, Spec: corev1.ResourceQuotaSpec{Hard: hard}}
		w.createInNamespace(q)
		w.Eventually(func() corev1.ResourceList {
			w.Expect(w.Get(w.Context(), client.ObjectKeyFromObject(q), q)).To(Succeed())
			return q.Status.Hard
		}, "60s").ShouldNot(BeEmpty())
	}
}

func createLimitRange(w *world) {
	w.createInNamespace(&corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Name: "range"}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
		Type: corev1.LimitTypeContainer, Max: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")},
	}}}})
}

// restrictNamespace enforces Pod Security level restricted.
func restrictNamespace(w *world) {
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`))
	w.Expect(w.Patch(w.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.NS}}, patch)).To(Succeed())
}

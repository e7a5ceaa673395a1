package misuse_test

import (
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// patience is why it takes longer to say that a program does not get ready: a probe may
// fail a few times, 3 times every 10 s unless the spec says otherwise, before that means
// anything.
const patience = "the readiness probe may fail three times, every 10 s"

// What is right in itself, and cannot work in this cluster.
func init() {
	add("reference", "", map[string]misuse{
		"variable of a missing Secret":    {spec: image + `env: [{name: A, valueFrom: {secretKeyRef: {name: no-such-secret, key: k}}}]}`, reason: "ComponentDegraded", says: `needs Secret "no-such-secret", which does not exist in namespace`},
		"variable of a missing ConfigMap": {spec: image + `env: [{name: A, valueFrom: {configMapKeyRef: {name: no-such-config, key: k}}}]}`, reason: "ComponentDegraded", says: `needs ConfigMap "no-such-config", which does not exist in namespace`},
		"all of a missing Secret":         {spec: image + `envFrom: [{secretRef: {name: no-such-secret}}]}`, reason: "ComponentDegraded", says: `needs Secret "no-such-secret", which does not exist in namespace`},
		"all of a missing ConfigMap":      {spec: image + `envFrom: [{configMapRef: {name: no-such-config}}]}`, reason: "ComponentDegraded", says: `needs ConfigMap "no-such-config", which does not exist`},
		"missing key of a Secret":         {before: settings, spec: image + `env: [{name: A, valueFrom: {secretKeyRef: {name: settings, key: no-such-key}}}]}`, reason: "ComponentDegraded", says: `needs key "no-such-key" of Secret "settings" in namespace`},
		"missing key of a ConfigMap":      {before: settings, spec: image + `env: [{name: A, valueFrom: {configMapKeyRef: {name: settings, key: no-such-key}}}]}`, reason: "ComponentDegraded", says: `needs key "no-such-key" of ConfigMap "settings" in namespace`},
		"volume of a missing Secret":      {spec: image + `volumes: [{name: v, mountPath: /v, secret: {name: no-such-secret}}]}`, reason: "ComponentDegraded", says: `cannot start: a volume shows Secret "no-such-secret", which does not exist in namespace`},
		"volume of a missing ConfigMap":   {spec: image + `volumes: [{name: v, mountPath: /v, configMap: {name: no-such-config}}]}`, reason: "ComponentDegraded", says: `cannot start: a volume shows ConfigMap "no-such-config", which does not exist in namespace`},
		"volume of a missing claim":       {spec: image + `volumes: [{name: v, mountPath: /v, persistentVolumeClaim: {claimName: no-such-claim}}]}`, reason: "ComponentDegraded", says: `needs PersistentVolumeClaim "no-such-claim", which does not exist in namespace`},
		"missing ServiceAccount":          {spec: image + `serviceAccountName: robot}`, reason: "ComponentDegraded", says: `ServiceAccount "robot" does not exist in namespace`},
		"missing PriorityClass":           {spec: image + `scheduling: {priorityClassName: vip}}`, reason: "ComponentDegraded", says: "no PriorityClass with name vip was found"},
	})
	add("reference", "AppStack", map[string]misuse{
		"bound one lacks its Secret": {
			spec:   `{components: [{name: api, service: {image: "shop/api:1", ports: [{port: 8080}], envFrom: [{secretRef: {name: no-such-secret}}]}}, ` + web + `]}`,
			reason: "ComponentDegraded", says: `Component "api": Container app of pod`,
		},
		"job lacks its Secret": {
			spec:   `{components: [` + api + `, ` + web + `, {name: j, job: {image: "shop/j:1", envFrom: [{secretRef: {name: no-such-secret}}]}}]}`,
			reason: "ComponentDegraded", says: `needs Secret "no-such-secret", which does not exist in namespace`,
		},
		"name of somebody else": {
			before: foreign, spec: `{components: [` + api + `, ` + web + `, {name: old, resourceName: legacy, service: {image: "shop/old:1", ports: [{port: 80}]}}]}`,
			reason: "NameConflict", says: "legacy",
		},
	})
	add("image", "", map[string]misuse{
		"image that does not exist":     {spec: `{image: "shop/web:missing"}`, reason: "ComponentDegraded", says: `Image "shop/web:missing" does not exist in its registry`},
		"image of somebody else":        {spec: `{image: "shop/web:denied"}`, reason: "ComponentDegraded", says: `The registry refuses to give out image "shop/web:denied"`},
		"registry that is not there":    {spec: `{image: "registry.invalid/web:unreachable"}`, reason: "ComponentDegraded", says: `The node cannot reach registry registry.invalid`},
		"image with two colons":         {spec: `{image: "nginx::1"}`, says: "say which image to run: a name in lower case and a tag or digest"},
		"image in capitals":             {spec: `{image: "Shop/Web:1"}`, says: "say which image to run: a name in lower case and a tag or digest"},
		"image with a scheme":           {spec: `{image: "https://registry.example.com/web:1"}`, says: "say which image to run: a name in lower case and a tag or digest"},
		"image that is a template":      {spec: `{image: "${IMAGE}"}`, says: "say which image to run: a name in lower case and a tag or digest"},
		"image that is a Helm template": {spec: `{image: "{{.Values.image}}"}`, says: "say which image to run: a name in lower case and a tag or digest"},
		"image with an empty tag":       {spec: `{image: "nginx:"}`, says: "say which image to run: a name in lower case and a tag or digest"},
		"digest without a method":       {spec: `{image: "nginx@0123456789abcdef"}`, says: "say which image to run: a name in lower case and a tag or digest"},
	})
	add("program", "", map[string]misuse{
		"program that crashes":    {spec: `{image: "shop/web:crash"}`, reason: "ComponentDegraded", says: "crashes: it exited with code 3"},
		"program needs more":      {spec: `{image: "shop/web:oom", resources: {limits: {memory: 64Mi}}}`, reason: "ComponentDegraded", says: "was killed because it used more than its memory limit of 64Mi"},
		"program is never ready":  {spec: `{image: "shop/web:never", ports: [{port: 80, targetPort: 8080}]}`, reason: "ComponentDegraded", says: "runs but does not pass its readiness probe (TCP port 8080)", grace: 40 * time.Second, why: patience},
		"probe asks another path": {spec: `{image: "shop/web:never", ports: [{port: 80}], probes: {readiness: {httpGet: {path: /nope, port: 80}}}}`, reason: "ComponentDegraded", says: "/nope", grace: 40 * time.Second, why: patience},
	})
	add("program", "AppStack", map[string]misuse{
		"job that fails":               {spec: `{components: [` + api + `, {name: migrate, job: {image: "shop/j:fail", backoffLimit: 0}}, {name: web, dependsOn: [migrate], bindings: [{component: api}], service: {image: "shop/web:1", ports: [{port: 80}]}}]}`, reason: "ComponentDegraded", says: `Component "migrate": `},
		"bound one does not get ready": {spec: `{components: [{name: api, service: {image: "shop/api:missing", ports: [{port: 8080}]}}, ` + web + `]}`, reason: "ComponentDegraded", says: `Component "api": Image "shop/api:missing" does not exist in its registry`},
	})
	add("placement", "", map[string]misuse{
		"nodes that do not exist": {spec: image + `scheduling: {nodeSelector: {disk: ssd}}}`, reason: "ComponentDegraded", says: "because of the node selector or node affinity of the pod"},
		"more CPU than any node":  {spec: image + `resources: {requests: {cpu: "5000"}}}`, reason: "ComponentDegraded", says: "No node has enough CPU for pod"},
		"more memory than any":    {spec: image + `resources: {requests: {memory: 64Ti}}}`, reason: "ComponentDegraded", says: "No node has enough memory for pod"},
		"GPU that nobody has":     {spec: image + `resources: {limits: {example.com/gpu: 1}}}`, reason: "ComponentDegraded", says: "example.com/gpu"},
	})
	add("policy", "", map[string]misuse{
		"more pods than the quota":       {before: quota(corev1.ResourceList{corev1.ResourcePods: resource.MustParse("2")}), good: image + `replicas: 1}`, spec: image + `replicas: 4}`, reason: "ComponentDegraded", says: "is used up (pods), so the pods of Deployment web cannot be created"},
		"quota wants requests":           {before: quota(corev1.ResourceList{corev1.ResourceRequestsCPU: resource.MustParse("1")}), good: image + `resources: {requests: {cpu: 100m}}}`, spec: image + `replicas: 1}`, reason: "ComponentDegraded", says: "wants requests.cpu to be set"},
		"more than the limit of range":   {before: limitRange, spec: image + `resources: {limits: {memory: 2Gi}}}`, reason: "ComponentDegraded", says: "sets a maximum of 1Gi memory per Container"},
		"root in a restricted namespace": {before: restricted, good: `{image: "shop/web:1", security: {level: Restricted, runAsUser: 1000}}`, spec: `{image: "shop/web:1"}`, reason: "ComponentDegraded", says: "enforces PodSecurity level restricted"},
		"Services beyond the quota":      {before: quota(corev1.ResourceList{corev1.ResourceServices: resource.MustParse("0")}), good: `{image: "shop/web:1"}`, spec: image + `ports: [{port: 80}]}`, reason: "ApplyFailed", says: "ResourceQuota small of namespace", tries: 9},
	})
}

func (w *world) put(obj client.Object) {
	w.Helper()
	obj.SetNamespace(w.NS)
	w.Expect(w.Create(w.Context(), obj)).To(Succeed())
}

// settings exist, with other keys than those that are asked for.
func settings(w *world) {
	w.put(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "settings"}, StringData: map[string]string{"key": "value"}})
	w.put(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"key": "value"}})
}

// foreign is a Service that somebody else made.
func foreign(w *world) {
	w.put(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "legacy"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}})
}

// quota limits what there may be, and waits until it is counted: until then everything is
// refused, in other words.
func quota(hard corev1.ResourceList) func(*world) {
	return func(w *world) {
		q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "small"}, Spec: corev1.ResourceQuotaSpec{Hard: hard}}
		w.put(q)
		w.Eventually(func() corev1.ResourceList {
			w.Expect(w.Get(w.Context(), client.ObjectKeyFromObject(q), q)).To(Succeed())
			return q.Status.Hard
		}, "60s").ShouldNot(BeEmpty())
	}
}

func limitRange(w *world) {
	w.put(&corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Name: "range"}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
		Type: corev1.LimitTypeContainer, Max: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")},
	}}}})
}

// restricted lets no pods in that could become root.
func restricted(w *world) {
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`))
	w.Expect(w.Patch(w.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.NS}}, patch)).To(Succeed())
}

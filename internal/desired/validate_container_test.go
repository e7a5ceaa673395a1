package desired

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// invalidMessages builds a service from each spec and compares the whole message.
func invalidMessages(t *testing.T, cases map[string]string) {
	t.Helper()
	for spec, want := range cases {
		if got := singleComponent(component(t, "{image: a, "+spec+"}")).InvalidMessage; got != want {
			t.Errorf("%s:\ngot  %q\nwant %q", spec, got, want)
		}
	}
}

func TestValidateEnvironment(t *testing.T) {
	const sources = `env[A] needs exactly one of configMapKeyRef, secretKeyRef, fieldRef and resourceFieldRef in valueFrom`
	const invalidName = `, which is not a valid name; use only lower-case letters, digits, dashes and dots`
	invalidMessages(t, map[string]string{
		`env: [{value: a}]`: `env[] has no name; set the name of the variable`,
		`env: [{name: A, value: a, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]`: `env[A] has value and valueFrom; ` +
			`remove one of them`,
		`env: [{name: A, valueFrom: {}}]`: sources,
		`env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}, secretKeyRef: {name: s, key: k}}}]`: sources,
		`env: [{name: A, valueFrom: {configMapKeyRef: {name: C_C, key: k}}}]`: `env[A] ` +
			`references ConfigMap "C_C"` + invalidName,
		`env: [{name: A, valueFrom: {fieldRef: {fieldPath: spec.containers}}}]`: `env[A] has fieldPath "spec.containers", which is not available ` +
			`to environment variables; use one of metadata.name, metadata.namespace, metadata.uid, spec.nodeName, ` +
			`spec.serviceAccountName, status.hostIP, status.hostIPs, status.podIP, status.podIPs, ` +
			`metadata.labels['<name>'] and metadata.annotations['<name>']`,
		`envFrom: [{configMapRef: {name: c}}, {configMapRef: {name: C_C}}]`: `envFrom[1] references ConfigMap "C_C"` + invalidName,
		`envFrom: [{secretRef: {name: S_S}}]`:                               `envFrom[0] references Secret "S_S"` + invalidName,
		`envFrom: [{secretRef: {name: S_S, optional: true}}]`:               "",
	})
}

func TestValidateResourceQuantities(t *testing.T) {
	invalidMessages(t, map[string]string{
		`resources: {requests: {cpu: -1}}`: `resources.requests.cpu is -1; it must not be negative`,
		`resources: {limits: {a.b/gpu: 500m}}`: `resources.limits.a.b/gpu is 500m; ` +
			`an extended resource must be a whole number`,
		`resources: {limits: {cpu: 500m}}`: "",
	})
}

func TestValidateProbes(t *testing.T) {
	invalidMessages(t, map[string]string{
		`probes: {liveness: {tcpSocket: {port: 9}, timeoutSeconds: -1}}`: "probes.liveness has timeoutSeconds -1; it must not be negative",
		`probes: {startup: {exec: {}}}`: "probes.startup has exec without a command; " +
			"set the command, for example exec: {command: [test, -e, /ready]}",
		`probes: {startup: {exec: {command: [ls]}}}`:    "",
		`probes: {readiness: {httpGet: {port: 65536}}}`: "probes.readiness has port 65536; a port must be from 1 to 65535",
		`probes: {readiness: {httpGet: {port: 65535}}}`: "",
		`probes: {readiness: {grpc: {port: 0}}}`:        "probes.readiness has port 0; a port must be from 1 to 65535",
		`ports: [{port: 80}], probes: {readiness: {httpGet: {port: web}}}`: `probes.readiness has port "web", but no port has a name; ` +
			`use the port number, or name the port in ports`,
	})
}

func TestValidateTolerations(t *testing.T) {
	const first = "scheduling.tolerations[0] has "
	invalidMessages(t, map[string]string{
		`scheduling: {tolerations: [{key: a, operator: In}]}`: first + `operator "In"; use Exists or Equal`,
		`scheduling: {tolerations: [{key: a, operator: Exists, value: b}]}`: first + "operator Exists and a value; " +
			"remove the value, or use operator Equal",
		`scheduling: {tolerations: [{key: a, effect: Never}]}`: first + `effect "Never"; ` +
			`use NoSchedule, PreferNoSchedule or NoExecute, or leave it unset to match all effects`,
		`scheduling: {tolerations: [{key: a, effect: NoSchedule, tolerationSeconds: 3}]}`: first +
			"tolerationSeconds, which requires effect NoExecute; set the effect, or remove tolerationSeconds",
	})
}

func TestValidateReferencesOfPods(t *testing.T) {
	invalidMessages(t, map[string]string{
		`scheduling: {priorityClassName: high}`: "",
		`scheduling: {priorityClassName: HIGH}`: `scheduling.priorityClassName is "HIGH", which is not a valid name; ` +
			`run kubectl get priorityclass to list the classes`,
		`volumes: [{name: v, mountPath: /v, persistentVolumeClaim: {claimName: C_C}}]`: `volumes[v] references ` +
			`PersistentVolumeClaim "C_C", which is not a valid name; use only lower-case letters, digits, dashes and dots`,
		`config: {files: [{path: /etc/app, content: x}]}, volumes: [{name: v, mountPath: /etc/app/data/v, emptyDir: {}}]`: `config.files ` +
			`contains /etc/app, and volume "v" is mounted at /etc/app/data/v, but /etc/app cannot be both a file and a directory; ` +
			`use another path for one of them`,
	})
}

func TestValidateHostnames(t *testing.T) {
	const label = "a123456789b123456789c123456789d123456789e123456789f123456789xyz" // 63 characters
	invalidMessages(t, map[string]string{
		`ports: [{port: 80}], expose: {hostnames: [` + label + `.example.com]}`: "",
		`ports: [{port: 80}], expose: {hostnames: [x` + label + `.example.com]}`: `expose.hostnames contains "x` + label + `.example.com", ` +
			`which is not a valid DNS name: each part can have at most 63 characters`,
		`env: [{name: ""}], expose: {hostnames: [x` + label + `.example.com]}`: `env[] has no name; set the name of the variable. ` +
			`expose.hostnames contains "x` + label + `.example.com", which is not a valid DNS name: each part can have at most 63 characters`,
	})
}

func TestInvalidScheduleIsReported(t *testing.T) {
	const want = `schedule "60 3 * * *" has "60" as the minute, which must be from 0 to 59; ` +
		`correct it, for example "0 3 * * *" for every day at 03:00`
	got := Build(stack, components(t, `[{name: nightly, job: {image: a, schedule: "60 3 * * *"}}]`), ClusterState{})[0].InvalidMessage
	if got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// A kind written in Go can pass an overlay that never went through the API server.
func TestOverlayThatIsNotJSONIsReported(t *testing.T) {
	c := appsapi.Component{Name: "migrate", Job: &appsapi.JobComponent{}}
	c.Job.Image = "a"
	c.Job.PodTemplateOverlay = &runtime.RawExtension{Raw: []byte("{")}
	if got := Build(stack, ExpandComponents([]appsapi.Component{c}), ClusterState{})[0].InvalidMessage; !strings.Contains(got, "podTemplateOverlay") {
		t.Errorf("got %q, want a message that names podTemplateOverlay", got)
	}
}

package desired

import "testing"

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
	const sources = `env: "A" needs exactly one of configMapKeyRef, secretKeyRef, fieldRef and resourceFieldRef in valueFrom`
	const invalidName = `, which nothing can be called: names are made of a-z, 0-9, - and .; correct it`
	invalidMessages(t, map[string]string{
		`env: [{value: a}]`: `env: "" is no name; say how the variable is called`,
		`env: [{name: A, value: a, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]`: `env: "A" has value and valueFrom; ` +
			`remove one of them`,
		`env: [{name: A, valueFrom: {}}]`: sources,
		`env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}, secretKeyRef: {name: s, key: k}}}]`: sources,
		`env: [{name: A, valueFrom: {configMapKeyRef: {name: C_C, key: k}}}]`: `env: "A" ` +
			`refers to ConfigMap "C_C"` + invalidName,
		`env: [{name: A, valueFrom: {fieldRef: {fieldPath: spec.containers}}}]`: `env: "A" takes "spec.containers", which is no field ` +
			`of a pod that a variable can have; there are metadata.name, metadata.namespace, metadata.uid, spec.nodeName, ` +
			`spec.serviceAccountName, status.hostIP, status.hostIPs, status.podIP, status.podIPs, ` +
			`metadata.labels['<name>'] and metadata.annotations['<name>']`,
		`envFrom: [{configMapRef: {name: c}}, {configMapRef: {name: C_C}}]`: `envFrom[1] refers to ConfigMap "C_C"` + invalidName,
		`envFrom: [{secretRef: {name: S_S}}]`:                               `envFrom[0] refers to Secret "S_S"` + invalidName,
		`envFrom: [{secretRef: {name: S_S, optional: true}}]`:               "",
	})
}

func TestValidateResourceQuantities(t *testing.T) {
	invalidMessages(t, map[string]string{
		`resources: {requests: {cpu: -1}}`: `resources.requests has "cpu" of -1; it cannot be less than 0`,
		`resources: {limits: {a.b/gpu: 500m}}`: `resources.limits has "a.b/gpu" of 500m; ` +
			`devices are given out as a whole, so it has to be a whole number`,
		`resources: {limits: {cpu: 500m}}`: "",
	})
}

func TestValidateProbes(t *testing.T) {
	invalidMessages(t, map[string]string{
		`probes: {liveness: {tcpSocket: {port: 9}, timeoutSeconds: -1}}`: "probes.liveness has a timeoutSeconds of -1; it cannot be less than 0",
		`probes: {startup: {exec: {}}}`: "probes.startup has exec without a command; " +
			"say what to run, for example exec: {command: [test, -e, /ready]}",
		`probes: {startup: {exec: {command: [ls]}}}`:    "",
		`probes: {readiness: {httpGet: {port: 65536}}}`: "probes.readiness asks port 65536; ports go from 1 to 65535",
		`probes: {readiness: {httpGet: {port: 65535}}}`: "",
		`probes: {readiness: {grpc: {port: 0}}}`:        "probes.readiness asks port 0; ports go from 1 to 65535",
		`ports: [{port: 80}], probes: {readiness: {httpGet: {port: web}}}`: `probes.readiness asks port "web", and no port has a name; ` +
			`say its number, or name the port in ports`,
	})
}

func TestValidateTolerations(t *testing.T) {
	const first = "scheduling.tolerations[0] has "
	invalidMessages(t, map[string]string{
		`scheduling: {tolerations: [{key: a, operator: In}]}`: first + `operator "In"; it is Exists or Equal`,
		`scheduling: {tolerations: [{key: a, operator: Exists, value: b}]}`: first + "operator Exists and a value; " +
			"remove the value, or use operator Equal",
		`scheduling: {tolerations: [{key: a, effect: Never}]}`: first + `effect "Never"; ` +
			`it is NoSchedule, PreferNoSchedule or NoExecute, or unset for all of them`,
		`scheduling: {tolerations: [{key: a, effect: NoSchedule, tolerationSeconds: 3}]}`: first +
			"tolerationSeconds, which goes with effect NoExecute alone",
	})
}

func TestValidateReferencesOfPods(t *testing.T) {
	invalidMessages(t, map[string]string{
		`scheduling: {priorityClassName: high}`: "",
		`scheduling: {priorityClassName: HIGH}`: `scheduling.priorityClassName is "HIGH", which no PriorityClass can be called; ` +
			`see kubectl get priorityclass`,
		`volumes: [{name: v, mountPath: /v, persistentVolumeClaim: {claimName: C_C}}]`: `volumes: "v" refers to ` +
			`PersistentVolumeClaim "C_C", which nothing can be called: names are made of a-z, 0-9, - and .; correct it`,
		`config: {files: [{path: /etc/app, content: x}]}, volumes: [{name: v, mountPath: /etc/app/data/v, emptyDir: {}}]`: `config.files ` +
			`has /etc/app, and volume "v" is mounted at /etc/app/data/v, so /etc/app would have to be a file and a folder; ` +
			`choose another path for one of them`,
	})
}

func TestValidateHostnames(t *testing.T) {
	const label = "a123456789b123456789c123456789d123456789e123456789f123456789xyz" // 63 characters
	invalidMessages(t, map[string]string{
		`ports: [{port: 80}], expose: {hostnames: [` + label + `.example.com]}`: "",
		`ports: [{port: 80}], expose: {hostnames: [x` + label + `.example.com]}`: `expose.hostnames has "x` + label + `.example.com", ` +
			`which is no DNS name: no part of it may have more than 63 characters`,
		`env: [{name: ""}], expose: {hostnames: [x` + label + `.example.com]}`: `env: "" is no name; say how the variable is called`,
	})
}

func TestInvalidScheduleIsReported(t *testing.T) {
	const want = `schedule "60 3 * * *" has "60" as the minute, which goes from 0 to 59; ` +
		`correct it, for example "0 3 * * *" for every night at three`
	got := Build(stack, components(t, `[{name: nightly, job: {image: a, schedule: "60 3 * * *"}}]`), ClusterState{})[0].InvalidMessage
	if got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

package desired

import (
	"strings"
	"testing"
)

// TestValidate has valid and invalid specs: a spec that the API server accepts and whose pods are valid must pass.
func TestValidate(t *testing.T) {
	for spec, want := range map[string]string{
		`env: [{name: "my.var-1 x", value: a}]`:                                            "",
		`env: [{name: A, valueFrom: {fieldRef: {fieldPath: "metadata.labels['team']"}}}]`:  "",
		`env: [{name: A, valueFrom: {secretKeyRef: {name: S_S, key: k, optional: true}}}]`: "",
		`env: [{name: "A=1"}]`: `env[A=1] is not a valid variable name`,
		`env: [{name: A, valueFrom: {secretKeyRef: {name: S_S, key: k}}}]`: `env[A] references Secret "S_S", which is not a valid name`,
		`envFrom: [{prefix: A}]`: "envFrom[0] needs exactly one of configMapRef and secretRef",
		`resources: {requests: {cpu: 1, ephemeral-storage: 1Gi}, limits: {cpu: 1000m}}`:                    "",
		`resources: {requests: {hugepages-2Mi: 4Mi}, limits: {hugepages-2Mi: 4Mi, a.b/gpu: 2}}`:            "",
		`resources: {requests: {cpu: 2}, limits: {cpu: 1999m}}`:                                            "resources.requests.cpu (2) exceeds resources.limits.cpu (1999m); lower the request or raise the limit",
		`resources: {requests: {a.b/gpu: 1}, limits: {a.b/gpu: 2}}`:                                        "resources.requests.a.b/gpu is an extended resource and requires an equal limit; set resources.limits.a.b/gpu to 1",
		`resources: {limits: {ram: 1}}`:                                                                    `resources.limits.ram is not a known resource`,
		`resources: {claims: [{name: gpu}]}`:                                                               `resources.claims references "gpu", which the pod does not declare`,
		`ports: [{name: web, port: 80}], probes: {readiness: {httpGet: {port: web}}}`:                      "",
		`probes: {readiness: {tcpSocket: {port: 9}, successThreshold: 3}}`:                                 "",
		`ports: [{name: web, port: 80}], probes: {startup: {httpGet: {port: http}}}`:                       `probes.startup has port "http", which is not in ports (web); correct the name, or use the port number`,
		`probes: {liveness: {tcpSocket: {port: 9}, successThreshold: 3}}`:                                  "probes.liveness has successThreshold 3",
		`scheduling: {tolerations: [{operator: Exists}, {key: a, value: b}]}`:                              "",
		`scheduling: {tolerations: [{key: a, operator: Exists, effect: NoExecute, tolerationSeconds: 3}]}`: "",
		`scheduling: {tolerations: [{value: b}]}`:                                                          "scheduling.tolerations[0] has no key",
		`podLabels: {example.com/Team: a}, podAnnotations: {Example.com/a: b}`:                             "",
		`podLabels: {example..com/team: a}`:                                                                `podLabels contains "example..com/team", which is not a valid name`,
		`service: {annotations: {"a b": c}}`:                                                               `service.annotations contains "a b", which is not a valid name`,
		`volumes: [{name: v, mountPath: /v, secret: {name: s, items: [{key: k, path: a/b..c}]}}]`:          "",
		`volumes: [{name: v, mountPath: /v, secret: {name: s, items: [{key: k, path: a/../c}]}}]`:          `volumes[v] has key "k" at path "a/../c", which is outside the volume`,
		`volumes: [{name: v, mountPath: /v, emptyDir: {sizeLimit: -1}}]`:                                   `volumes[v] has emptyDir.sizeLimit -1`,
		`config: {files: [{path: /a, content: "` + strings.Repeat("ä", 1<<19) + `"}]}`:                     "",
		`config: {files: [{path: /a, content: "` + strings.Repeat("ä", 1<<19) + `b"}]}`:                    "config.files has 1048577 bytes in total",
		`podTemplateOverlay: {spec: {resourceClaims: [{name: gpu}]}}, resources: {claims: [{name: gpu}]}`:  "",
		`podTemplateOverlay: {spec: {containers: [{name: p, image: p, env: [{name: "A="}]}]}}`:             `podTemplateOverlay: container "p": env[A=] is not a valid variable name`,
		`podTemplateOverlay: {spec: {containers: [{name: p}]}}`:                                            `podTemplateOverlay has container "p" without an image`,
		`podTemplateOverlay: {spec: {restartPolicy: Always}}`:                                              "",
		`podTemplateOverlay: {spec: {restartPolicy: Never}}`:                                               "podTemplateOverlay sets spec.restartPolicy to Never",
	} {
		name := spec[:min(len(spec), 120)]
		t.Run(name, func(t *testing.T) {
			got := singleComponent(component(t, "{image: a, "+spec+"}")).InvalidMessage
			if !strings.HasPrefix(got, want) || got != "" && want == "" {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

func TestValidateSchedule(t *testing.T) {
	for schedule, valid := range map[string]bool{
		"@daily": true, "0 3 * * *": true, "*/5 * * * *": true, "0,30 9-17/2 1,15 1-6 1-5": true, "0 3 ? * ?": true,
		"0 3 * JAN-mar Mon,FRI": true, "59 23 31 12 6": true, "5/15 0 1 1 0": true, "0 3 1-31 * sun-sat": true,
		"60 3 * * *": false, "0 24 * * *": false, "0 3 0 * *": false, "0 3 32 * *": false, "0 3 1 foo *": false, "0 3 1 13 *": false,
		"0 3 * * 7": false, "*/0 * * * *": false, "9-3 * * * *": false, "1,,2 * * * *": false, "1- * * * *": false, "-1 * * * *": false,
	} {
		if err := validateSchedule(schedule); (err == nil) != valid {
			t.Errorf("%q: got %v, want valid: %t", schedule, err, valid)
		}
	}
}

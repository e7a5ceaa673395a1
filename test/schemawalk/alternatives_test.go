package schemawalk

import (
	"fmt"
	"strings"
)

// alternatives are mutually exclusive fields. The walks of single leaves never change from one to another, so these
// walks go through all of them in a cycle.
type alternatives struct {
	name           string
	componentTypes string // component types that have the fields
	variants       []string
}

const (
	serverTypes = "service stateful"
	podTypes    = "service stateful job"
)

var alternativeSets = []alternatives{
	{"readiness", serverTypes, probeVariants("readiness")},
	{"liveness", serverTypes, probeVariants("liveness")},
	{"startup", serverTypes, probeVariants("startup")},
	{"source of a volume", podTypes, []string{
		`{volumes: [{name: alpha, mountPath: /alpha, emptyDir: {sizeLimit: 1Gi, medium: Memory}}]}`,
		`{volumes: [{name: alpha, mountPath: /alpha, secret: {name: alpha, items: [{key: alpha, path: a}], defaultMode: 256}}]}`,
		`{volumes: [{name: alpha, mountPath: /alpha, configMap: {name: alpha}}]}`,
		`{volumes: [{name: alpha, mountPath: /alpha, readOnly: true, persistentVolumeClaim: {claimName: alpha}}]}`,
	}},
	{"source of an environment variable", podTypes + " deployment", []string{
		`{env: [{name: A, value: one}]}`,
		`{env: [{name: A, valueFrom: {configMapKeyRef: {name: alpha, key: alpha}}}]}`,
		`{env: [{name: A, valueFrom: {secretKeyRef: {name: alpha, key: alpha, optional: true}}}]}`,
		`{env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]}`,
		`{env: [{name: A, valueFrom: {resourceFieldRef: {resource: limits.cpu}}}], resources: {limits: {cpu: 500m}}}`,
	}},
	{"order of environment variables", podTypes + " deployment", []string{
		`{env: [{name: A, value: one}, {name: B, value: two}]}`,
		`{env: [{name: B, value: two}, {name: A, value: one}]}`,
		`{env: [{name: C, value: three}, {name: B, value: two}, {name: A, value: one}]}`,
	}},
	{"sources of envFrom", podTypes, []string{
		`{envFrom: [{configMapRef: {name: alpha}}]}`,
		`{envFrom: [{secretRef: {name: alpha}, prefix: A_}]}`,
		`{envFrom: [{configMapRef: {name: beta}}, {configMapRef: {name: alpha}}]}`,
	}},
	{"exposure", "service", []string{
		`{expose: {ingressClassName: alpha, hostnames: [alpha.example.com], tls: {secretName: alpha}}}`,
		`{expose: {gatewayRef: {name: alpha}, hostnames: [alpha.example.com]}}`,
		`{expose: {ingressClassName: beta}}`,
		`{}`,
	}},
	{"number of replicas", "service", []string{
		`{replicas: 3}`,
		`{replicas: null, autoscaling: {minReplicas: 2, maxReplicas: 4, targetCPUUtilization: 70}}`,
		`{replicas: null}`,
		`{replicas: null, autoscaling: {maxReplicas: 4, targetMemoryUtilization: 80}}`,
	}},
	{"files", podTypes, []string{
		`{config: {files: [{path: /etc/a, content: one}]}}`,
		`{config: {files: [{path: /etc/a, content: two}, {path: /etc/b, content: three}]}}`,
		`{config: {files: [{path: /etc/b, content: three}], rollOnChange: false}}`,
		`{config: {files: [{path: /etc/c, content: four}], rollOnChange: false}}`,
		`{}`,
	}},
	{"ports", serverTypes, []string{
		`{ports: [{name: dns, port: 53, protocol: UDP}, {name: dns-tcp, port: 53, protocol: TCP}]}`,
		`{ports: [{name: dns-tcp, port: 53, protocol: TCP}]}`,
		`{ports: [{name: dns-tcp, port: 54, targetPort: 53}, {name: http, port: 80, targetPort: 53}]}`,
		`{ports: [{port: 80}], service: {type: NodePort, sessionAffinity: ClientIP}}`,
		`{ports: [{port: 81}], service: {type: LoadBalancer}}`,
		`{ports: null}`,
	}},
	{"overlay", podTypes, []string{
		`{podTemplateOverlay: {spec: {containers: [{name: beside, image: "shop/beside:1", env: [{name: A, value: one}]}]}}}`,
		`{podTemplateOverlay: {spec: {containers: [{name: app, env: [{name: A, value: one}]}], dnsConfig: {nameservers: [192.0.2.1]}}}}`,
		`{env: [{name: A, value: one}], podTemplateOverlay: {metadata: {annotations: {alpha: one}}, spec: {affinity: {nodeAffinity: {}}}}}`,
		`{}`,
	}},
}

func probeVariants(name string) []string {
	var out []string
	for _, handler := range []string{
		`{httpGet: {port: 80, path: /ready, httpHeaders: [{name: A, value: b}]}, periodSeconds: 3}`,
		`{tcpSocket: {port: 80}}`, `{grpc: {port: 81, service: alpha}}`, `{exec: {command: ["true"]}, failureThreshold: 5}`,
	} {
		out = append(out, fmt.Sprintf("{probes: {%s: %s}}", name, handler))
	}
	return append(out, "{}")
}

// leavesIn returns the positions in a kind at which a cycle is walked. For jobs it is a job with a schedule, because a
// Job is immutable and would be replaced.
func (r alternatives) leavesIn(k kind) []leaf {
	var out []leaf
	for _, part := range strings.Fields(r.componentTypes) {
		switch {
		case k.name == "AppService" && part == "service":
			out = append(out, leaf{kind: k, path: []string{r.name}})
		case k.name == "AppStack" && part != "deployment":
			out = append(out, leaf{kind: k, path: []string{"components", listElement, part, r.name}, scheduled: part == "job"})
		case k.name == "CloudManager" && part == "deployment":
			out = append(out, leaf{kind: k, path: []string{"front", part, r.name}})
		}
	}
	return out
}

// walkAlternatives walks a cycle and ends at its start.
func (w *walk) walkAlternatives(l leaf, r alternatives) result {
	out := result{leaf: l, isAlternatives: true}
	var live liveObject
	for i := range len(r.variants) + 1 {
		variant := r.variants[i%len(r.variants)]
		spec := l.baseSpec()
		component := spec
		if path := l.componentPath(); path != nil {
			component = fieldAt(spec, path).(map[string]any)
		}
		mergePatch(component, parseYAML(variant).(map[string]any))
		step := fmt.Sprintf("step %d, %s", i+1, variant)
		var err error
		if i == 0 {
			live, err = w.create(l, spec)
		} else {
			live, err = w.update(l.kind, live, spec)
		}
		if err != nil {
			out.mismatches = append(out.mismatches, fmt.Sprintf("%s: %v", step, err))
			return out
		}
		w.waitSettled(l, live, spec, &out, step)
	}
	return out
}

package schemawalk

import (
	"fmt"
	"strings"
)

// alternatives are ways to say something of which only one can be said at a time. A leaf alone
// never goes from one to the other, so these walks do, all the way round.
type alternatives struct {
	name           string
	componentTypes string // in which of them it means something
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
	{"source of a variable", podTypes + " deployment", []string{
		`{env: [{name: A, value: one}]}`,
		`{env: [{name: A, valueFrom: {configMapKeyRef: {name: alpha, key: alpha}}}]}`,
		`{env: [{name: A, valueFrom: {secretKeyRef: {name: alpha, key: alpha, optional: true}}}]}`,
		`{env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]}`,
		`{env: [{name: A, valueFrom: {resourceFieldRef: {resource: limits.cpu}}}], resources: {limits: {cpu: 500m}}}`,
	}},
	{"order of variables", podTypes + " deployment", []string{
		`{env: [{name: A, value: one}, {name: B, value: two}]}`,
		`{env: [{name: B, value: two}, {name: A, value: one}]}`,
		`{env: [{name: C, value: three}, {name: B, value: two}, {name: A, value: one}]}`,
	}},
	{"where variables come from", podTypes, []string{
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
	{"count of pods", "service", []string{
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

// leavesIn are the leaves in whose place a ring is walked in a kind. That of a job is one with
// a schedule: a Job cannot change, and what follows it is a fresh one.
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

// walkAlternatives goes round a ring and ends where it began.
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

package schemawalk

import "fmt"

// ring are ways to say something of which only one can be said at a time. A leaf alone
// never goes from one to the other, so these walks do, all the way round.
type ring struct {
	name string
	job  bool // of a job with a schedule, too
	ways []string
}

var rings = []ring{
	{"readiness", false, probe("readiness")},
	{"liveness", false, probe("liveness")},
	{"startup", false, probe("startup")},
	{"source of a volume", true, []string{
		`{volumes: [{name: data, mountPath: /data, emptyDir: {sizeLimit: 1Gi, medium: Memory}}]}`,
		`{volumes: [{name: data, mountPath: /data, secret: {name: alpha, items: [{key: alpha, path: a}], defaultMode: 256}}]}`,
		`{volumes: [{name: data, mountPath: /data, configMap: {name: alpha}}]}`,
		`{volumes: [{name: data, mountPath: /data, readOnly: true, persistentVolumeClaim: {claimName: alpha}}]}`,
	}},
	{"source of a variable", true, []string{
		`{env: [{name: A, value: one}]}`,
		`{env: [{name: A, valueFrom: {configMapKeyRef: {name: alpha, key: alpha}}}]}`,
		`{env: [{name: A, valueFrom: {secretKeyRef: {name: alpha, key: alpha, optional: true}}}]}`,
		`{env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]}`,
		`{env: [{name: A, valueFrom: {resourceFieldRef: {resource: limits.cpu}}}], resources: {limits: {cpu: 500m}}}`,
	}},
	{"order of variables", true, []string{
		`{env: [{name: A, value: one}, {name: B, value: two}]}`,
		`{env: [{name: B, value: two}, {name: A, value: one}]}`,
		`{env: [{name: C, value: three}, {name: B, value: two}, {name: A, value: one}]}`,
	}},
	{"where variables come from", true, []string{
		`{envFrom: [{configMapRef: {name: alpha}}]}`,
		`{envFrom: [{secretRef: {name: alpha}, prefix: A_}]}`,
		`{envFrom: [{configMapRef: {name: beta}}, {configMapRef: {name: alpha}}]}`,
	}},
	{"exposure", false, []string{
		`{expose: {ingressClassName: alpha, hostnames: [alpha.example.com], tls: {secretName: alpha}}}`,
		`{expose: {gatewayRef: {name: alpha}, hostnames: [alpha.example.com]}}`,
		`{expose: {ingressClassName: beta}}`,
		`{}`,
	}},
	{"count of pods", false, []string{
		`{replicas: 3}`,
		`{replicas: null, autoscaling: {minReplicas: 2, maxReplicas: 4, targetCPUUtilization: 70}}`,
		`{replicas: null}`,
		`{replicas: null, autoscaling: {maxReplicas: 4, targetMemoryUtilization: 80}}`,
	}},
	{"files", true, []string{
		`{config: {files: [{path: /etc/a, content: one}]}}`,
		`{config: {files: [{path: /etc/a, content: two}, {path: /etc/b, content: three}]}}`,
		`{config: {files: [{path: /etc/b, content: three}], rollOnChange: false}}`,
		`{config: {files: [{path: /etc/c, content: four}], rollOnChange: false}}`,
		`{}`,
	}},
	{"ports", false, []string{
		`{ports: [{name: dns, port: 53, protocol: UDP}, {name: dns-tcp, port: 53, protocol: TCP}]}`,
		`{ports: [{name: dns-tcp, port: 53, protocol: TCP}]}`,
		`{ports: [{name: dns-tcp, port: 54, targetPort: 53}, {name: http, port: 80, targetPort: 53}]}`,
		`{ports: [{port: 80}], service: {type: NodePort, sessionAffinity: ClientIP}}`,
		`{ports: [{port: 81}], service: {type: LoadBalancer}}`,
		`{ports: null}`,
	}},
	{"overlay", true, []string{
		`{podTemplateOverlay: {spec: {containers: [{name: beside, image: "shop/beside:1", env: [{name: A, value: one}]}]}}}`,
		`{podTemplateOverlay: {spec: {containers: [{name: app, env: [{name: A, value: one}]}], dnsConfig: {nameservers: [192.0.2.1]}}}}`,
		`{env: [{name: A, value: one}], podTemplateOverlay: {metadata: {annotations: {alpha: one}}, spec: {affinity: {nodeAffinity: {}}}}}`,
		`{}`,
	}},
}

func probe(name string) []string {
	var out []string
	for _, handler := range []string{
		`{httpGet: {port: 80, path: /ready, httpHeaders: [{name: A, value: b}]}, periodSeconds: 3}`,
		`{tcpSocket: {port: 80}}`, `{grpc: {port: 81, service: alpha}}`, `{exec: {command: ["true"]}, failureThreshold: 5}`,
	} {
		out = append(out, fmt.Sprintf("{probes: {%s: %s}}", name, handler))
	}
	return append(out, "{}")
}

// turn goes round a ring and ends where it began.
func (w *walk) turn(k kind, r ring, scheduled bool) result {
	l := leaf{kind: k, path: []string{r.name}, scheduled: scheduled}
	out := result{leaf: l, ring: true}
	var live object
	for i := range len(r.ways) + 1 {
		spec := r.spec(k, i%len(r.ways), scheduled)
		step := fmt.Sprintf("step %d, %s", i+1, r.ways[i%len(r.ways)])
		var err error
		if i == 0 {
			live, err = w.create(k, spec)
		} else {
			live, err = w.update(k, live, spec)
		}
		if err != nil {
			out.mismatches = append(out.mismatches, fmt.Sprintf("%s: %v", step, err))
			return out
		}
		w.settled(k, live, spec, &out, step)
	}
	return out
}

// spec is that of one way.
func (r ring) spec(k kind, way int, scheduled bool) map[string]any {
	within := []string{"components", element, "service", r.name}
	if scheduled {
		within[2] = "job"
	}
	if k.name == "AppService" {
		within = []string{r.name}
	}
	start := leaf{kind: k, path: within, scheduled: scheduled}
	spec := start.start()
	holder := spec
	if k.name != "AppService" {
		holder = at(spec, within[:3]).(map[string]any)
	}
	merge(holder, parse(r.ways[way]).(map[string]any))
	return spec
}

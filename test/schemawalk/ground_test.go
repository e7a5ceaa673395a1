package schemawalk

import "regexp"

// What every walk begins with. Two pods are what makes a PodDisruptionBudget; a second
// component is what can stay when the walked one goes; a history of one spec lets go of
// the Jobs of earlier ones, which would otherwise be kept on purpose.
const (
	baseService = `{image: "shop/web:1", replicas: 2, ports: [{name: http, port: 80}]}`
	baseJob     = `{image: "shop/job:1"}`
	baseStack   = `{revisionHistoryLimit: 1, components: [{name: walked}, {name: other, service: {image: "shop/other:1"}}]}`
	reachable   = `[{name: other, service: {image: "shop/other:1", ports: [{port: 80}]}}, {name: third, service: {image: "shop/third:1", ports: [{name: http, port: 8080}]}}]`
	schedule    = "0 4 * * *"
)

// ground is what must be there for a field to mean anything, as a merge patch on the
// service or the job. Required fields beside a field need no ground: the schema names
// them.
type ground struct{ path, patch string }

var grounds = []ground{
	{`^autoscaling\.`, `{replicas: null, autoscaling: {maxReplicas: 5, targetCPUUtilization: 70, targetMemoryUtilization: 80}}`},
	{`^config\.rollOnChange`, `{config: {files: [{path: /etc/app/app.yaml, content: a}]}}`},
	{`^expose\.`, `{expose: {ingressClassName: alpha}, ports: [{name: http, port: 80}, {name: admin, port: 8080}]}`},
	{`^expose\.(paths|hostnames)`, `{expose: {paths: [{path: /}, {path: /other}]}}`},
	{`^expose\.gatewayRef`, `{expose: {ingressClassName: null}}`},
	{`^envFrom`, `{envFrom: [{}, {configMapRef: {name: stays}}]}`},
	{`^envFrom\[\]\.prefix`, `{envFrom: [{configMapRef: {name: alpha}}]}`},
	{`fileKeyRef`, `{volumes: [{name: alpha, mountPath: /alpha, emptyDir: {}}, {name: beta, mountPath: /beta, emptyDir: {}}]}`},
	{`resourceFieldRef`, `{resources: {limits: {cpu: 500m}, requests: {cpu: 250m}}}`},
	{`^resources\.claims`, `{podTemplateOverlay: {spec: {resourceClaims: [{name: alpha, resourceClaimName: alpha}, {name: beta, resourceClaimName: beta}]}}}`},
	{`tolerations`, `{scheduling: {tolerations: [{key: alpha, operator: Exists}, {key: other, operator: Exists}]}}`},
	{`tolerations\[\]\.value`, `{scheduling: {tolerations: [{key: alpha, operator: Equal}]}}`},
	{`tolerations\[\]\.tolerationSeconds`, `{scheduling: {tolerations: [{key: alpha, operator: Exists, effect: NoExecute}]}}`},
	{`^volumes`, `{volumes: [{name: walked, mountPath: /walked}, {name: other, mountPath: /other, emptyDir: {}}]}`},
	{`^volumes\[\]\.(name|mountPath|readOnly)$`, `{volumes: [{name: walked, mountPath: /walked, emptyDir: {}}]}`},
	{`^volumes\[\]\.readOnly$`, `{volumes: [{name: walked, mountPath: /walked, persistentVolumeClaim: {claimName: alpha}}]}`},
	{`^probes\.liveness\.[^.]+$`, `{probes: {liveness: {exec: {command: ["true"]}}}}`},
	{`^probes\.readiness\.[^.]+$`, `{probes: {readiness: {exec: {command: ["true"]}}}}`},
	{`^probes\.startup\.[^.]+$`, `{probes: {startup: {exec: {command: ["true"]}}}}`},
	{`^env\[\]\.value$|^env\[\]\.valueFrom`, `{env: [{name: WALKED}, {name: OTHER, value: stays}]}`},
}

// ground is the service or job in which a leaf is walked.
func (l leaf) ground() map[string]any {
	base := baseService
	if l.ofJob() {
		base = baseJob
	}
	out := parse(base).(map[string]any)
	for _, c := range grounds {
		if regexp.MustCompile(c.path).MatchString(l.within()) {
			merge(out, parse(c.patch).(map[string]any))
		}
	}
	if l.scheduled {
		out["schedule"] = schedule
	}
	return out
}

// start is the spec in which a leaf is walked.
func (l leaf) start() map[string]any {
	within := l.ground()
	if l.kind.name == "AppService" {
		return within
	}
	spec := parse(baseStack).(map[string]any)
	components := spec["components"].([]any)
	walked := components[0].(map[string]any)
	if l.ofJob() {
		walked["job"] = within
		return spec
	}
	walked["service"] = within
	if !regexp.MustCompile(`^components\[\]\.`).MatchString(l.within()) {
		return spec
	}
	spec["components"] = append(components[:1], parse(reachable).([]any)...) // something to point at
	return spec
}

// merge is a JSON merge patch: null takes away, lists are replaced.
func merge(into, patch map[string]any) {
	for k, v := range patch {
		inner, isMap := v.(map[string]any)
		there, isThere := into[k].(map[string]any)
		switch {
		case v == nil:
			delete(into, k)
		case isMap && isThere:
			merge(there, inner)
		default:
			into[k] = v
		}
	}
}

// together are the fields that Kubernetes does not let go alone, although no schema says
// so: without them, what holds them means nothing.
var together = regexp.MustCompile(`valueFrom\.[a-zA-Z]+$|envFrom\[\]\.(configMap|secret)Ref$|exec\.command$`)

// exception is a leaf that is not like the others, and why.
type exception struct{ path, why string }

// left are the leaves that cannot be walked.
var left = []exception{
	{`probes\.[a-z]+\.grpc\.mode$`, "a field of Kubernetes 1.37, which the API server of this run does not know"},
	{`probes\.[a-z]+\.httpGet\.protocol$`, "a field of Kubernetes 1.37, which the API server of this run does not know"},
	{`probes\.readiness\.terminationGracePeriodSeconds$`, "Kubernetes refuses it in a readiness probe"},
}

// quiet are the leaves of which no value changes a child. Any other such leaf is one whose
// values are chosen badly: its walk would prove nothing.
var quiet = []exception{
	{`suspend$`, "what runs keeps running, so it is compared with an object that is not suspended"},
	{`renamedFrom$`, "about a component that was"},
	{`revisionHistoryLimit$`, "about specs that were"},
	{`job\.scheduling\.spread$`, "a job is not spread"},
	{`fieldRef\.apiVersion$`, "has one legal value, which is the default"},
}

// among is why a leaf is one of the exceptions, or "".
func (l leaf) among(exceptions []exception) string {
	for _, e := range exceptions {
		if regexp.MustCompile(e.path).MatchString(l.name()) {
			return e.why
		}
	}
	return ""
}

package schemawalk

import (
	"maps"
	"regexp"
)

// What every walk begins with. Two pods are what makes a PodDisruptionBudget; a second
// component is what can stay when the walked one goes; a history of one spec lets go of
// the Jobs of earlier ones, which would otherwise be kept on purpose.
const (
	baseService  = `{image: "shop/web:1", replicas: 2, ports: [{name: http, port: 80}]}`
	baseStateful = `{image: "shop/db:1", replicas: 2, ports: [{name: http, port: 80}], storage: [{name: data, mountPath: /data, size: 1Gi}]}`
	baseDatabase = `{version: "11.8", storage: {size: 1Gi}}`
	baseJob      = `{image: "shop/job:1"}`
	baseCloud    = `{front: {deployment: {image: "shop/front:1"}}, identity: {deployment: {image: "shop/identity:1"}}, db: {statefulSet: {image: "mariadb:10.11", storage: {size: 1Gi}}}}`
	baseStack    = `{revisionHistoryLimit: 1, components: [{name: walked}, {name: other, service: {image: "shop/other:1"}}]}`
	reachable    = `[{name: other, service: {image: "shop/other:1", ports: [{port: 80}]}}, {name: third, service: {image: "shop/third:1", ports: [{name: http, port: 8080}]}}]`
	schedule     = "0 4 * * *"
)

// ground is what must be there for a field to mean anything, as a merge patch on the
// part that the field is in; what a part has no field for is left out of it. Required
// fields beside a field need no ground: the schema names them.
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
	{`^storage\[\]\.(name|className|accessMode)$`, `{replicas: 0}`}, // without pods there is no volume that it would be too late for
	{`^version$`, `{image: "shop/mariadb:11.8"}`},
	{`^credentials\[\]\.key$`, `{replicas: 0, credentials: [{env: ALPHA}]}`},
	{`^credentials\[\]\.env$`, `{credentials: [{key: alpha}]}`},
	{`^credentials\[\]\.secretRef`, `{credentials: [{key: alpha, env: ALPHA}]}`},
	{`^env\[\]\.value$|^env\[\]\.valueFrom`, `{env: [{name: WALKED}, {name: OTHER, value: stays}]}`},
}

var bases = map[string]string{"service": baseService, "stateful": baseStateful, "database": baseDatabase, "job": baseJob, "deployment": baseService, "statefulSet": "{}"}

// ground is the part in which a leaf is walked.
func (l leaf) ground() map[string]any {
	out := parse(bases[l.part()]).(map[string]any)
	schema := l.kind.spec
	for _, step := range l.holder() {
		schema = below(schema, step)
	}
	for _, c := range grounds {
		if !regexp.MustCompile(c.path).MatchString(l.within()) {
			continue
		}
		patch := parse(c.patch).(map[string]any)
		maps.DeleteFunc(patch, func(field string, _ any) bool {
			_, known := schema.Properties[field]
			return l.holder() != nil && !known
		})
		merge(out, patch)
	}
	if l.scheduled {
		out["schedule"] = schedule
	}
	return out
}

// start is the spec in which a leaf is walked.
func (l leaf) start() map[string]any {
	within := l.ground()
	switch l.kind.name {
	case "AppService":
		return within
	case "CloudManager":
		spec := parse(baseCloud).(map[string]any)
		if holder := l.holder(); holder != nil {
			merge(at(spec, holder).(map[string]any), within)
		}
		return spec
	}
	spec := parse(baseStack).(map[string]any)
	components := spec["components"].([]any)
	components[0].(map[string]any)[l.part()] = within
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

package schemawalk

import (
	"maps"
	"regexp"
)

// The base specs of all walks. Two replicas cause a PodDisruptionBudget. The second component remains when the walked
// one is removed. A revision history of 1 deletes the Jobs of earlier specs, which would otherwise be retained.
const (
	baseService       = `{image: "shop/web:1", replicas: 2, ports: [{name: http, port: 80}]}`
	baseStateful      = `{image: "shop/db:1", replicas: 2, ports: [{name: http, port: 80}], storage: [{name: data, mountPath: /data, size: 1Gi}]}`
	baseDatabase      = `{version: "11.8", storage: {size: 1Gi}}`
	baseJob           = `{image: "shop/job:1"}`
	baseCloud         = `{front: {deployment: {image: "shop/front:1"}}, identity: {deployment: {image: "shop/identity:1"}}, db: {statefulSet: {image: "mariadb:10.11", storage: {size: 1Gi}}}}`
	baseStack         = `{revisionHistoryLimit: 1, components: [{name: walked}, {name: other, service: {image: "shop/other:1"}}]}`
	dependencyTargets = `[{name: other, service: {image: "shop/other:1", ports: [{port: 80}]}}, {name: third, service: {image: "shop/third:1", ports: [{name: http, port: 8080}]}}]`
	schedule          = "0 4 * * *"
)

// precondition is a merge patch of the component that a field requires to have an effect. Fields that a component does
// not have are omitted. Required sibling fields need no precondition, because the schema lists them.
type precondition struct{ path, patch string }

var preconditions = []precondition{
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
	{`^storage\[\]\.(name|className|accessMode)$`, `{replicas: 0}`}, // without pods there is no volume, so the field is still mutable
	{`^version$`, `{image: "shop/mariadb:11.8"}`},
	{`^credentials\[\]\.key$`, `{replicas: 0, credentials: [{env: ALPHA}]}`},
	{`^credentials\[\]\.env$`, `{credentials: [{key: alpha}]}`},
	{`^credentials\[\]\.secretRef`, `{credentials: [{key: alpha, env: ALPHA}]}`},
	{`^env\[\]\.value$|^env\[\]\.valueFrom`, `{env: [{name: WALKED}, {name: OTHER, value: stays}]}`},
}

var baseComponents = map[string]string{"service": baseService, "stateful": baseStateful, "database": baseDatabase, "job": baseJob, "deployment": baseService, "statefulSet": "{}"}

// baseComponent returns the component in which a leaf is walked.
func (l leaf) baseComponent() map[string]any {
	out := parseYAML(baseComponents[l.componentType()]).(map[string]any)
	schema := l.kind.spec
	for _, step := range l.componentPath() {
		schema = childSchema(schema, step)
	}
	for _, c := range preconditions {
		if !regexp.MustCompile(c.path).MatchString(l.relativePath()) {
			continue
		}
		patch := parseYAML(c.patch).(map[string]any)
		maps.DeleteFunc(patch, func(field string, _ any) bool {
			_, known := schema.Properties[field]
			return l.componentPath() != nil && !known
		})
		mergePatch(out, patch)
	}
	if l.scheduled {
		out["schedule"] = schedule
	}
	return out
}

// baseSpec returns the spec in which a leaf is walked.
func (l leaf) baseSpec() map[string]any {
	component := l.baseComponent()
	switch l.kind.name {
	case "AppService":
		return component
	case "CloudManager":
		spec := parseYAML(baseCloud).(map[string]any)
		if componentPath := l.componentPath(); componentPath != nil {
			mergePatch(fieldAt(spec, componentPath).(map[string]any), component)
		}
		return spec
	}
	spec := parseYAML(baseStack).(map[string]any)
	components := spec["components"].([]any)
	components[0].(map[string]any)[l.componentType()] = component
	if !regexp.MustCompile(`^components\[\]\.`).MatchString(l.relativePath()) {
		return spec
	}
	spec["components"] = append(components[:1], parseYAML(dependencyTargets).([]any)...) // targets for dependencies
	return spec
}

// mergePatch applies a JSON merge patch: null removes fields, lists are replaced.
func mergePatch(into, patch map[string]any) {
	for k, v := range patch {
		patchMap, isMap := v.(map[string]any)
		existing, exists := into[k].(map[string]any)
		switch {
		case v == nil:
			delete(into, k)
		case isMap && exists:
			mergePatch(existing, patchMap)
		default:
			into[k] = v
		}
	}
}

// inseparableFields are fields that Kubernetes requires in their parent although the schema does not.
var inseparableFields = regexp.MustCompile(`valueFrom\.[a-zA-Z]+$|envFrom\[\]\.(configMap|secret)Ref$|exec\.command$`)

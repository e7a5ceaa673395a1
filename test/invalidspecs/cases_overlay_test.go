package invalidspecs_test

import "slices"

// Errors that the schema cannot detect: the overlay and the dependencies of components.
var overlayCases = slices.Concat(
	classCases("overlay", "", map[string]invalidSpec{
		"overlay with privileged":           {spec: withOverlay(`{spec: {containers: [{name: app, securityContext: {privileged: true}}]}}`), reason: "InvalidSpec", wantMessage: "podTemplateOverlay sets spec.containers[0].securityContext, which is not allowed"},
		"overlay with hostNetwork":          {spec: withOverlay(`{spec: {hostNetwork: true}}`), reason: "InvalidSpec", wantMessage: "podTemplateOverlay sets spec.hostNetwork, which is not allowed"},
		"overlay with hostPath":             {spec: withOverlay(`{spec: {volumes: [{name: v, hostPath: {path: /}}]}}`), reason: "InvalidSpec", wantMessage: "podTemplateOverlay sets spec.volumes[0].hostPath, which is not allowed"},
		"overlay with a token":              {spec: withOverlay(`{spec: {volumes: [{name: v, projected: {sources: [{serviceAccountToken: {path: t}}]}}]}}`), reason: "InvalidSpec", wantMessage: "podTemplateOverlay sets spec.volumes[0].projected.sources[0].serviceAccountToken, which is not allowed"},
		"overlay with nodeName":             {spec: withOverlay(`{spec: {nodeName: node1}}`), reason: "InvalidSpec", wantMessage: "podTemplateOverlay sets spec.nodeName, which is not allowed"},
		"overlay with a system priority":    {spec: withOverlay(`{spec: {priorityClassName: system-node-critical}}`), reason: "InvalidSpec", wantMessage: "podTemplateOverlay sets spec.priorityClassName to system-node-critical, which is reserved"},
		"overlay without AppArmor":          {spec: withOverlay(`{metadata: {annotations: {container.apparmor.security.beta.kubernetes.io/app: unconfined}}}`), reason: "InvalidSpec", wantMessage: "podTemplateOverlay does not comply with security level Baseline: forbidden AppArmor profile"},
		"overlay with a ServiceAccount":     {spec: withOverlay(`{spec: {serviceAccountName: admin}}`), reason: "InvalidSpec", wantMessage: "podTemplateOverlay sets spec.serviceAccountName, which is not allowed"},
		"overlay with unknown fields":       {spec: withOverlay(`{spec: {sidecars: [{name: proxy}]}}`), reason: "InvalidSpec", wantMessage: `unknown field "spec.sidecars"`},
		"overlay with a wrong type":         {spec: withOverlay(`{spec: {containers: [{name: app, image: 5}]}}`), reason: "InvalidSpec", wantMessage: "spec.containers.image is a number but must be a string; correct it"},
		"overlay one level too high":        {spec: withOverlay(`{containers: [{name: proxy, image: proxy}]}`), reason: "InvalidSpec", wantMessage: `podTemplateOverlay is not a valid pod template`},
		"overlay deletes the app container": {spec: withOverlay(`{spec: {containers: [{name: app, $patch: delete}, {name: x, image: x}]}}`), reason: "InvalidSpec", wantMessage: `podTemplateOverlay removes or changes the container "app"`},
		"overlay changes a managed label":   {spec: withOverlay(`{metadata: {labels: {app.kubernetes.io/managed-by: me}}}`), reason: "InvalidSpec", wantMessage: "podTemplateOverlay removes or changes the label app.kubernetes.io/managed-by"},
		"overlay as a string":               {spec: withOverlay(`"spec: {}"`), wantMessage: `spec.podTemplateOverlay in body must be of type object: "string"`},
		"overlay with an unknown directive": {spec: withOverlay(`{spec: {containers: [{name: app, $patch: drop}]}}`), reason: "InvalidSpec", wantMessage: "unknown patch type: drop; $patch must be replace, merge or delete"},
		"sidecar without an image":          {spec: withOverlay(`{spec: {containers: [{name: proxy}]}}`), reason: "InvalidSpec", wantMessage: `podTemplateOverlay has container "proxy" without an image; set an image, or use the name "app"`},
		"sidecar without a name":            {spec: withOverlay(`{spec: {containers: [{image: proxy}]}}`), reason: "InvalidSpec", wantMessage: "a list item has no name, which is the merge key; add the key"},
		"sidecar mounts a missing volume":   {spec: withOverlay(`{spec: {containers: [{name: proxy, image: proxy, volumeMounts: [{name: data, mountPath: /data}]}]}}`), reason: "InvalidSpec", wantMessage: `podTemplateOverlay: container "proxy" mounts volume "data", which does not exist; add it to volumes, or correct the name`},
		"overlay with restartPolicy Never":  {spec: withOverlay(`{spec: {restartPolicy: Never}}`), reason: "InvalidSpec", wantMessage: "podTemplateOverlay sets spec.restartPolicy to Never, but the pods of a service require restartPolicy Always; remove it"},
	}),
	classCases("order", "AppStack", map[string]invalidSpec{
		"depends on itself":                  {spec: `{components: [{name: web, dependsOn: [web], service: {image: web}}]}`, wantMessage: "a component cannot depend on itself; remove its name from dependsOn"},
		"depends on a missing component":     {spec: `{components: [{name: web, dependsOn: [ap], service: {image: web}}]}`, wantMessage: "dependsOn names a component that does not exist: web depends on ap; correct the name, or add the component"},
		"duplicate dependency":               {spec: `{components: [` + apiComponent + `, {name: web, dependsOn: [api, api], service: {image: web}}]}`, wantMessage: `spec.components[1].dependsOn[1]: Duplicate value: "api"`},
		"dependsOn as a string":              {spec: `{components: [` + apiComponent + `, {name: web, dependsOn: api, service: {image: web}}]}`, wantMessage: `dependsOn in body must be of type array: "string"`},
		"dependency cycle of two":            {spec: `{components: [{name: a, dependsOn: [b], service: {image: "shop/a:1"}}, {name: b, dependsOn: [a], service: {image: "shop/b:1"}}]}`, reason: "InvalidSpec", wantMessage: "Components have a dependency cycle: a -> b -> a; remove one of these dependencies"},
		"dependency cycle of three":          {spec: `{components: [{name: a, dependsOn: [b], service: {image: "shop/a:1"}}, {name: b, dependsOn: [c], service: {image: "shop/b:1"}}, {name: c, dependsOn: [a], service: {image: "shop/c:1"}}]}`, reason: "InvalidSpec", wantMessage: "a -> b -> c -> a"},
		"dependency cycle through a binding": {spec: `{components: [{name: api, dependsOn: [web], service: {image: "shop/api:1", ports: [{port: 80}]}}, ` + webComponent + `]}`, reason: "InvalidSpec", wantMessage: "api -> web -> api"},
		"bound to itself":                    {spec: `{components: [{name: web, bindings: [{component: web}], service: {image: web, ports: [{port: 80}]}}]}`, wantMessage: "a component cannot be bound to itself; remove it from bindings"},
		"bound to a missing component":       {spec: `{components: [{name: web, bindings: [{component: ap}], service: {image: web}}]}`, wantMessage: "bindings names a component that does not exist or has no ports: web is bound to ap"},
		"bound to a component without ports": {spec: `{components: [{name: w, service: {image: w}}, {name: web, bindings: [{component: w}], service: {image: web}}]}`, wantMessage: "add a port to that component"},
		"bound to a job":                     {spec: `{components: [{name: j, job: {image: j}}, {name: web, bindings: [{component: j}], service: {image: web}}]}`, wantMessage: "use dependsOn for a job"},
		"duplicate binding":                  {spec: `{components: [` + apiComponent + `, {name: web, bindings: [{component: api}, {component: api}], service: {image: web}}]}`, wantMessage: `Duplicate value: {"component":"api"}`},
		"two bindings with one prefix":       {spec: `{components: [` + apiComponent + `, {name: b, service: {image: b, ports: [{port: 1}]}}, {name: web, bindings: [{component: api}, {component: b, envPrefix: API}], service: {image: web}}]}`, wantMessage: "two bindings set the same environment variables; set a different envPrefix for one of them"},
		"prefix with a dash":                 {spec: `{components: [` + apiComponent + `, {name: web, bindings: [{component: api, envPrefix: MY-API}], service: {image: web}}]}`, wantMessage: "envPrefix is the prefix of environment variables"},
		"bindings as strings":                {spec: `{components: [` + apiComponent + `, {name: web, bindings: [api], service: {image: web}}]}`, wantMessage: `bindings[0] in body must be of type object: "string"`},
		"needed component removed":           {spec: `{components: [` + webComponent + `]}`, wantMessage: "bindings names a component that does not exist or has no ports"},
	}),
	classCases("stack pods", "AppStack", map[string]invalidSpec{
		"overlay of a job":                  {spec: `{components: [{name: j, job: {image: "shop/j:1", podTemplateOverlay: {spec: {hostPID: true}}}}]}`, reason: "InvalidSpec", wantMessage: "podTemplateOverlay sets spec.hostPID, which is not allowed"},
		"invalid variable of one component": {spec: `{components: [` + apiComponent + `, {name: web, service: {image: "shop/web:1", env: [{name: "A=B"}]}}]}`, reason: "InvalidSpec", wantMessage: `Component "web": env[A=B] is not a valid variable name`},
		"invalid variable of a job":         {spec: `{components: [` + apiComponent + `, {name: j, job: {image: "shop/j:1", env: [{name: "A=B"}]}}]}`, reason: "InvalidSpec", wantMessage: `Component "j": env[A=B] is not a valid variable name`},
		"limit of a job below its request":  {spec: `{components: [{name: j, job: {image: "shop/j:1", resources: {requests: {cpu: 2}, limits: {cpu: 1}}}}]}`, reason: "InvalidSpec", wantMessage: "resources.requests.cpu (2) exceeds resources.limits.cpu (1)"},
	}),
)

func withOverlay(overlay string) string {
	return `{image: "shop/web:1", ports: [{name: http, port: 80, targetPort: 8080}], podTemplateOverlay: ` + overlay + `}`
}

package invalidspecs_test

// What no schema can look into: the overlay, and the order of components.
func init() {
	addCases("overlay", "", map[string]invalidSpec{
		"overlay is privileged":           {spec: withOverlay(`{spec: {containers: [{name: app, securityContext: {privileged: true}}]}}`), reason: "InvalidSpec", wantMessage: "podTemplateOverlay sets spec.containers[0].securityContext, which it may not"},
		"overlay joins the host":          {spec: withOverlay(`{spec: {hostNetwork: true}}`), reason: "InvalidSpec", wantMessage: "podTemplateOverlay sets spec.hostNetwork, which it may not"},
		"overlay mounts the host":         {spec: withOverlay(`{spec: {volumes: [{name: v, hostPath: {path: /}}]}}`), reason: "InvalidSpec", wantMessage: "podTemplateOverlay sets spec.volumes[0].hostPath, which it may not"},
		"overlay is somebody else":        {spec: withOverlay(`{spec: {serviceAccountName: admin}}`), reason: "InvalidSpec", wantMessage: "podTemplateOverlay sets spec.serviceAccountName, which it may not"},
		"overlay of unknown fields":       {spec: withOverlay(`{spec: {sidecars: [{name: proxy}]}}`), reason: "InvalidSpec", wantMessage: `unknown field "spec.sidecars"`},
		"overlay of a wrong type":         {spec: withOverlay(`{spec: {containers: [{name: app, image: 5}]}}`), reason: "InvalidSpec", wantMessage: "spec.containers.image is a number and has to be a string; correct it"},
		"overlay one level too high":      {spec: withOverlay(`{containers: [{name: proxy, image: proxy}]}`), reason: "InvalidSpec", wantMessage: `podTemplateOverlay is not part of a pod template`},
		"overlay deletes our container":   {spec: withOverlay(`{spec: {containers: [{name: app, $patch: delete}, {name: x, image: x}]}}`), reason: "InvalidSpec", wantMessage: `podTemplateOverlay takes away or changes the container "app"`},
		"overlay changes our label":       {spec: withOverlay(`{metadata: {labels: {app.kubernetes.io/managed-by: me}}}`), reason: "InvalidSpec", wantMessage: "podTemplateOverlay takes away or changes the label app.kubernetes.io/managed-by"},
		"overlay is a text":               {spec: withOverlay(`"spec: {}"`), wantMessage: `spec.podTemplateOverlay in body must be of type object: "string"`},
		"overlay of an unknown directive": {spec: withOverlay(`{spec: {containers: [{name: app, $patch: drop}]}}`), reason: "InvalidSpec", wantMessage: "unknown patch type: drop; $patch is replace, merge or delete"},
		"sidecar without an image":        {spec: withOverlay(`{spec: {containers: [{name: proxy}]}}`), reason: "InvalidSpec", wantMessage: `podTemplateOverlay has container "proxy" without an image; say which image it runs, or call it "app"`},
		"sidecar without a name":          {spec: withOverlay(`{spec: {containers: [{image: proxy}]}}`), reason: "InvalidSpec", wantMessage: "an entry of a list has no name, by which it is found; say it"},
		"sidecar mounts nothing":          {spec: withOverlay(`{spec: {containers: [{name: proxy, image: proxy, volumeMounts: [{name: data, mountPath: /data}]}]}}`), reason: "InvalidSpec", wantMessage: `podTemplateOverlay: container "proxy" mounts volume "data", which does not exist; add it to volumes, or correct the name`},
		"overlay never restarts":          {spec: withOverlay(`{spec: {restartPolicy: Never}}`), reason: "InvalidSpec", wantMessage: "podTemplateOverlay sets spec.restartPolicy to Never, and the pods of a service are always restarted; remove it"},
	})
	addCases("order", "AppStack", map[string]invalidSpec{
		"depends on itself":          {spec: `{components: [{name: web, dependsOn: [web], service: {image: web}}]}`, wantMessage: "a component cannot depend on itself; remove its own name"},
		"depends on nobody":          {spec: `{components: [{name: web, dependsOn: [ap], service: {image: web}}]}`, wantMessage: "dependsOn names a component that does not exist; correct the name, or add the component"},
		"depends on one twice":       {spec: `{components: [` + apiComponent + `, {name: web, dependsOn: [api, api], service: {image: web}}]}`, wantMessage: `spec.components[1].dependsOn[1]: Duplicate value: "api"`},
		"dependsOn as plain text":    {spec: `{components: [` + apiComponent + `, {name: web, dependsOn: api, service: {image: web}}]}`, wantMessage: `dependsOn in body must be of type array: "string"`},
		"two depend on each other":   {spec: `{components: [{name: a, dependsOn: [b], service: {image: "shop/a:1"}}, {name: b, dependsOn: [a], service: {image: "shop/b:1"}}]}`, reason: "InvalidSpec", wantMessage: "Components depend on each other in a circle: a -> b -> a; remove one of these dependencies"},
		"three in a circle":          {spec: `{components: [{name: a, dependsOn: [b], service: {image: "shop/a:1"}}, {name: b, dependsOn: [c], service: {image: "shop/b:1"}}, {name: c, dependsOn: [a], service: {image: "shop/c:1"}}]}`, reason: "InvalidSpec", wantMessage: "a -> b -> c -> a"},
		"circle through a binding":   {spec: `{components: [{name: api, dependsOn: [web], service: {image: "shop/api:1", ports: [{port: 80}]}}, ` + webComponent + `]}`, reason: "InvalidSpec", wantMessage: "api -> web -> api"},
		"bound to itself":            {spec: `{components: [{name: web, bindings: [{component: web}], service: {image: web, ports: [{port: 80}]}}]}`, wantMessage: "a component cannot be bound to itself; remove its own name"},
		"bound to nobody":            {spec: `{components: [{name: web, bindings: [{component: ap}], service: {image: web}}]}`, wantMessage: "bindings names a component that does not exist or has no ports"},
		"bound to one without ports": {spec: `{components: [{name: w, service: {image: w}}, {name: web, bindings: [{component: w}], service: {image: web}}]}`, wantMessage: "give that one a port"},
		"bound to a job":             {spec: `{components: [{name: j, job: {image: j}}, {name: web, bindings: [{component: j}], service: {image: web}}]}`, wantMessage: "use dependsOn for a job"},
		"bound twice":                {spec: `{components: [` + apiComponent + `, {name: web, bindings: [{component: api}, {component: api}], service: {image: web}}]}`, wantMessage: `Duplicate value: {"component":"api"}`},
		"two bindings of one prefix": {spec: `{components: [` + apiComponent + `, {name: b, service: {image: b, ports: [{port: 1}]}}, {name: web, bindings: [{component: api}, {component: b, envPrefix: API}], service: {image: web}}]}`, wantMessage: "two bindings would set the same variables; give one of them an envPrefix of its own"},
		"prefix with a dash":         {spec: `{components: [` + apiComponent + `, {name: web, bindings: [{component: api, envPrefix: MY-API}], service: {image: web}}]}`, wantMessage: "envPrefix becomes part of the name of an environment variable"},
		"bindings as plain names":    {spec: `{components: [` + apiComponent + `, {name: web, bindings: [api], service: {image: web}}]}`, wantMessage: `bindings[0] in body must be of type object: "string"`},
		"needed component removed":   {spec: `{components: [` + webComponent + `]}`, wantMessage: "bindings names a component that does not exist or has no ports"},
	})
	addCases("stack pods", "AppStack", map[string]invalidSpec{
		"overlay of a job":           {spec: `{components: [{name: j, job: {image: "shop/j:1", podTemplateOverlay: {spec: {hostPID: true}}}}]}`, reason: "InvalidSpec", wantMessage: "podTemplateOverlay sets spec.hostPID, which it may not"},
		"one wrong variable of many": {spec: `{components: [` + apiComponent + `, {name: web, service: {image: "shop/web:1", env: [{name: "A=B"}]}}]}`, reason: "InvalidSpec", wantMessage: `Component "web": env: "A=B" is no name of a variable`},
		"wrong variable of a job":    {spec: `{components: [` + apiComponent + `, {name: j, job: {image: "shop/j:1", env: [{name: "A=B"}]}}]}`, reason: "InvalidSpec", wantMessage: `Component "j": env: "A=B" is no name of a variable`},
		"limit of a job below":       {spec: `{components: [{name: j, job: {image: "shop/j:1", resources: {requests: {cpu: 2}, limits: {cpu: 1}}}}]}`, reason: "InvalidSpec", wantMessage: "resources.requests.cpu (2) is more than resources.limits.cpu (1)"},
	})
}

func withOverlay(overlay string) string {
	return `{image: "shop/web:1", ports: [{name: http, port: 80, targetPort: 8080}], podTemplateOverlay: ` + overlay + `}`
}

package invalidspecs_test

import "strings"

// imageSpecPrefix is the spec of an AppService that works, without its closing brace.
const imageSpecPrefix = `{image: "shop/web:1", `

// What is wrong with the pods: environment, volumes, files, resources, probes, labels.
func init() {
	addCases("environment", "", map[string]invalidSpec{
		"variable twice":              {spec: imageSpecPrefix + `env: [{name: A, value: a}, {name: A, value: b}]}`, wantMessage: `spec.env[1]: Duplicate value: {"name":"A"}`},
		"number as a variable":        {spec: imageSpecPrefix + `env: [{name: PORT, value: 80}]}`, wantMessage: `spec.env[0].value in body must be of type string: "integer"`},
		"environment as a map":        {spec: imageSpecPrefix + `env: {MODE: production}}`, wantMessage: `unknown field "spec.env.MODE"`},
		"variable without a name":     {spec: imageSpecPrefix + `env: [{value: a}]}`, wantMessage: "spec.env[0].name: Required value"},
		"variable with an equals":     {spec: imageSpecPrefix + `env: [{name: "MODE=production"}]}`, reason: "InvalidSpec", wantMessage: `env: "MODE=production" is no name of a variable: it cannot have =`},
		"variable with an empty name": {spec: imageSpecPrefix + `env: [{name: "", value: a}]}`, reason: "InvalidSpec", wantMessage: `env: "" is no name; say how the variable is called`},
		"value and valueFrom":         {spec: imageSpecPrefix + `env: [{name: A, value: a, valueFrom: {secretKeyRef: {name: s, key: k}}}]}`, reason: "InvalidSpec", wantMessage: `env: "A" has value and valueFrom; remove one of them`},
		"valueFrom nothing":           {spec: imageSpecPrefix + `env: [{name: A, valueFrom: {}}]}`, reason: "InvalidSpec", wantMessage: `env: "A" needs exactly one of configMapKeyRef, secretKeyRef, fieldRef and resourceFieldRef in valueFrom`},
		"valueFrom two sources":       {spec: imageSpecPrefix + `env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k}, configMapKeyRef: {name: c, key: k}}}]}`, reason: "InvalidSpec", wantMessage: `env: "A" needs exactly one of configMapKeyRef, secretKeyRef, fieldRef and resourceFieldRef in valueFrom`},
		"Secret in capitals":          {spec: imageSpecPrefix + `env: [{name: A, valueFrom: {secretKeyRef: {name: My_Secret, key: k}}}]}`, reason: "InvalidSpec", wantMessage: `env: "A" refers to Secret "My_Secret", which nothing can be called: names are made of a-z, 0-9, - and .; correct it`},
		"field of a pod of no name":   {spec: imageSpecPrefix + `env: [{name: A, valueFrom: {fieldRef: {fieldPath: spec.image}}}]}`, reason: "InvalidSpec", wantMessage: `env: "A" takes "spec.image", which is no field of a pod that a variable can have; there are metadata.name`},
		"envFrom nothing":             {spec: imageSpecPrefix + `envFrom: [{prefix: A_}]}`, reason: "InvalidSpec", wantMessage: "envFrom[0] needs exactly one of configMapRef and secretRef"},
		"envFrom two sources":         {spec: imageSpecPrefix + `envFrom: [{secretRef: {name: s}, configMapRef: {name: c}}]}`, reason: "InvalidSpec", wantMessage: "envFrom[0] needs exactly one of configMapRef and secretRef"},
		"Secret key without a key":    {spec: imageSpecPrefix + `env: [{name: A, valueFrom: {secretKeyRef: {name: s}}}]}`, wantMessage: "spec.env[0].valueFrom.secretKeyRef.key: Required value"},
	})
	addCases("volumes", "", map[string]invalidSpec{
		"volume of no source":          {spec: imageSpecPrefix + `volumes: [{name: data, mountPath: /data}]}`, wantMessage: "a volume has exactly one of emptyDir, secret, configMap and persistentVolumeClaim"},
		"volume of two sources":        {spec: imageSpecPrefix + `volumes: [{name: data, mountPath: /data, emptyDir: {}, secret: {name: s}}]}`, wantMessage: "a volume has exactly one of emptyDir, secret, configMap and persistentVolumeClaim"},
		"volume twice":                 {spec: imageSpecPrefix + `volumes: [{name: a, mountPath: /a, emptyDir: {}}, {name: a, mountPath: /b, emptyDir: {}}]}`, wantMessage: `spec.volumes[1]: Duplicate value: {"name":"a"}`},
		"two volumes at one path":      {spec: imageSpecPrefix + `volumes: [{name: a, mountPath: /a, emptyDir: {}}, {name: b, mountPath: /a, emptyDir: {}}]}`, wantMessage: "two volumes have the same mountPath; give each its own"},
		"relative mountPath":           {spec: imageSpecPrefix + `volumes: [{name: a, mountPath: data, emptyDir: {}}]}`, wantMessage: "a mountPath begins with /"},
		"mountPath with dots":          {spec: imageSpecPrefix + `volumes: [{name: a, mountPath: /data/../etc, emptyDir: {}}]}`, wantMessage: "neither : nor . or .. as a part"},
		"mountPath as with docker":     {spec: imageSpecPrefix + `volumes: [{name: a, mountPath: "/data:ro", emptyDir: {}}]}`, wantMessage: "neither : nor . or .. as a part"},
		"hostPath":                     {spec: imageSpecPrefix + `volumes: [{name: a, mountPath: /a, hostPath: {path: /etc}}]}`, wantMessage: `unknown field "spec.volumes[0].hostPath"`},
		"secretName of a pod":          {spec: imageSpecPrefix + `volumes: [{name: a, mountPath: /a, secret: {secretName: s}}]}`, wantMessage: `unknown field "spec.volumes[0].secret.secretName"`},
		"octal mode in quotes":         {spec: imageSpecPrefix + `volumes: [{name: a, mountPath: /a, secret: {name: s, defaultMode: "0444"}}]}`, wantMessage: `defaultMode in body must be of type integer: "string"`},
		"mode beyond all bits":         {spec: imageSpecPrefix + `volumes: [{name: a, mountPath: /a, secret: {name: s, defaultMode: 777}}]}`, wantMessage: "defaultMode in body should be less than or equal to 511"},
		"size of nonsense":             {spec: imageSpecPrefix + `volumes: [{name: a, mountPath: /a, emptyDir: {sizeLimit: 1 GB}}]}`, wantMessage: "spec.volumes[0].emptyDir.sizeLimit"},
		"size below zero":              {spec: imageSpecPrefix + `volumes: [{name: a, mountPath: /a, emptyDir: {sizeLimit: "-1Gi"}}]}`, reason: "InvalidSpec", wantMessage: `volumes: "a" has an emptyDir.sizeLimit of -1Gi; it cannot be less than 0`},
		"medium of another word":       {spec: imageSpecPrefix + `volumes: [{name: a, mountPath: /a, emptyDir: {medium: RAM}}]}`, wantMessage: `supported values: "Memory"`},
		"volume with our prefix":       {spec: imageSpecPrefix + `volumes: [{name: holdfast-files, mountPath: /a, emptyDir: {}}]}`, wantMessage: "does not begin with holdfast-"},
		"absolute path of an item":     {spec: imageSpecPrefix + `volumes: [{name: a, mountPath: /a, secret: {name: s, items: [{key: k, path: /etc/k}]}}]}`, reason: "InvalidSpec", wantMessage: `volumes: "a" shows key "k" at "/etc/k", which is not within the volume: say a path without / at its beginning`},
		"name of a Secret in capitals": {spec: imageSpecPrefix + `volumes: [{name: a, mountPath: /a, secret: {name: My_Secret}}]}`, reason: "InvalidSpec", wantMessage: `volumes: "a" refers to Secret "My_Secret", which nothing can be called`},
		"name of a claim with a slash": {spec: imageSpecPrefix + `volumes: [{name: a, mountPath: /a, persistentVolumeClaim: {claimName: shop/data}}]}`, reason: "InvalidSpec", wantMessage: `volumes: "a" refers to PersistentVolumeClaim "shop/data", which nothing can be called`},
	})
	addCases("files", "", map[string]invalidSpec{
		"relative file":          {spec: imageSpecPrefix + `config: {files: [{path: etc/app.yaml, content: a}]}}`, wantMessage: "a path begins with / and names a file"},
		"folder as a file":       {spec: imageSpecPrefix + `config: {files: [{path: /etc/app/, content: a}]}}`, wantMessage: "a path begins with / and names a file"},
		"file twice":             {spec: imageSpecPrefix + `config: {files: [{path: /a, content: a}, {path: /a, content: b}]}}`, wantMessage: `spec.config.files[1]: Duplicate value: {"path":"/a"}`},
		"file without content":   {spec: imageSpecPrefix + `config: {files: [{path: /a}]}}`, wantMessage: "spec.config.files[0].content: Required value"},
		"huge file":              {spec: imageSpecPrefix + `config: {files: [{path: /a, content: ` + strings.Repeat("x", 65537) + `}]}}`, wantMessage: "spec.config.files[0].content: Too long: may not be more than 65536 bytes"},
		"17 files":               {spec: imageSpecPrefix + `config: {files: [` + fileList(17, 1) + `]}}`, wantMessage: "spec.config.files: Too many: 17: must have at most 16 items"},
		"9 huge files":           {spec: imageSpecPrefix + `config: {files: [` + strings.ReplaceAll(fileList(9, 65536), "x", "ä") + `]}}`, reason: "InvalidSpec", wantMessage: "config.files have 1179648 bytes together, and no more than 1048576 fit into a ConfigMap; put what is large into the image or a volume"},
		"file where a volume is": {spec: imageSpecPrefix + `volumes: [{name: a, mountPath: /a, emptyDir: {}}], config: {files: [{path: /a, content: a}]}}`, reason: "InvalidSpec", wantMessage: `config.files has /a, where volume "a" is mounted; choose another path for one of them`},
		"file as a folder":       {spec: imageSpecPrefix + `config: {files: [{path: /a, content: a}, {path: /a/b, content: b}]}}`, reason: "InvalidSpec", wantMessage: "so /a would have to be a file and a folder; choose another path for one of them"},
		"volume inside a file":   {spec: imageSpecPrefix + `volumes: [{name: v, mountPath: /a/b, emptyDir: {}}], config: {files: [{path: /a, content: a}]}}`, reason: "InvalidSpec", wantMessage: `volume "v" is mounted at /a/b, so /a would have to be a file and a folder; choose another path for one of them`},
	})
	addCases("resources", "", map[string]invalidSpec{
		"quantity of nonsense":      {spec: imageSpecPrefix + `resources: {requests: {cpu: lots}}}`, wantMessage: "spec.resources.requests.cpu"},
		"memory in GB":              {spec: imageSpecPrefix + `resources: {requests: {memory: 1GB}}}`, wantMessage: "spec.resources.requests.memory"},
		"limit below request":       {spec: imageSpecPrefix + `resources: {requests: {memory: 2Gi}, limits: {memory: 1Gi}}}`, reason: "InvalidSpec", wantMessage: "resources.requests.memory (2Gi) is more than resources.limits.memory (1Gi)"},
		"request below zero":        {spec: imageSpecPrefix + `resources: {requests: {cpu: "-1"}}}`, reason: "InvalidSpec", wantMessage: `resources.requests has "cpu" of -1; it cannot be less than 0`},
		"resource that is not one":  {spec: imageSpecPrefix + `resources: {requests: {ram: 1Gi}}}`, reason: "InvalidSpec", wantMessage: `resources.requests has "ram" which is no resource; there are cpu, memory and ephemeral-storage`},
		"resources without a level": {spec: imageSpecPrefix + `resources: {cpu: 1}}`, wantMessage: `unknown field "spec.resources.cpu"`},
		"half a GPU":                {spec: imageSpecPrefix + `resources: {limits: {example.com/gpu: 500m}}}`, reason: "InvalidSpec", wantMessage: `resources.limits has "example.com/gpu" of 500m; devices are given out as a whole`},
		"GPU only requested":        {spec: imageSpecPrefix + `resources: {requests: {example.com/gpu: 1}}}`, reason: "InvalidSpec", wantMessage: "resources.requests.example.com/gpu cannot be shared; set resources.limits.example.com/gpu to the same, 1"},
		"claims that nobody made":   {spec: imageSpecPrefix + `resources: {claims: [{name: gpu}]}}`, reason: "InvalidSpec", wantMessage: `resources.claims names "gpu", which the pod does not have; declare it in podTemplateOverlay`},
	})
	addCases("probes", "", map[string]invalidSpec{
		"probe that asks nothing":   {spec: imageSpecPrefix + `probes: {readiness: {periodSeconds: 3}}}`, wantMessage: "a probe needs exactly one of httpGet, tcpSocket, grpc and exec"},
		"probe that asks twice":     {spec: imageSpecPrefix + `probes: {liveness: {tcpSocket: {port: 80}, exec: {command: ["true"]}}}}`, wantMessage: "a probe needs exactly one of httpGet, tcpSocket, grpc and exec"},
		"probe without a port":      {spec: imageSpecPrefix + `probes: {readiness: {httpGet: {path: /}}}}`, wantMessage: "spec.probes.readiness.httpGet.port: Required value"},
		"probe of another spelling": {spec: imageSpecPrefix + `probes: {readinessProbe: {tcpSocket: {port: 80}}}}`, wantMessage: `unknown field "spec.probes.readinessProbe"`},
		"probe of an unknown port":  {spec: imageSpecPrefix + `ports: [{name: http, port: 80}], probes: {readiness: {httpGet: {port: web}}}}`, reason: "InvalidSpec", wantMessage: `probes.readiness asks port "web", which is not in ports (http); correct the name, or say a number`},
		"probe of port 0":           {spec: imageSpecPrefix + `probes: {readiness: {tcpSocket: {port: 0}}}}`, reason: "InvalidSpec", wantMessage: "probes.readiness asks port 0; ports go from 1 to 65535"},
		"probe in negative time":    {spec: imageSpecPrefix + `probes: {readiness: {tcpSocket: {port: 80}, periodSeconds: -1}}}`, reason: "InvalidSpec", wantMessage: "probes.readiness has a periodSeconds of -1; it cannot be less than 0"},
		"liveness wants two passes": {spec: imageSpecPrefix + `probes: {liveness: {tcpSocket: {port: 80}, successThreshold: 2}}}`, reason: "InvalidSpec", wantMessage: "probes.liveness has a successThreshold of 2; only a readiness probe may want more than 1"},
		"probe runs no command":     {spec: imageSpecPrefix + `probes: {readiness: {exec: {}}}}`, reason: "InvalidSpec", wantMessage: "probes.readiness has exec without a command; say what to run"},
	})
	addCases("labels", "", map[string]invalidSpec{
		"label of Kubernetes":         {spec: imageSpecPrefix + `podLabels: {app.kubernetes.io/name: mine}}`, wantMessage: "are set by Holdfast and Kubernetes; choose other names"},
		"label of ours":               {spec: imageSpecPrefix + `podLabels: {apps.holdfast.dev/workload: mine}}`, wantMessage: "choose other names"},
		"label with a space":          {spec: imageSpecPrefix + `podLabels: {my team: red}}`, wantMessage: "the name of a label has at most 63 of A-Z, a-z, 0-9"},
		"label of 64 letters":         {spec: imageSpecPrefix + `podLabels: {` + strings.Repeat("l", 64) + `: red}}`, wantMessage: "the name of a label has at most 63"},
		"value with a space":          {spec: imageSpecPrefix + `podLabels: {team: red and blue}}`, wantMessage: "the value of a label is made of A-Z, a-z, 0-9"},
		"value is a boolean":          {spec: imageSpecPrefix + `podLabels: {scrape: true}}`, wantMessage: `must be of type string: "boolean"`},
		"pod annotation of ours":      {spec: imageSpecPrefix + `podAnnotations: {apps.holdfast.dev/config-hash: x}}`, wantMessage: "set by Holdfast alone; remove them here"},
		"pod annotation of no syntax": {spec: imageSpecPrefix + `podAnnotations: {"a b": x}}`, wantMessage: "the name of an annotation has at most 63"},
		"node label of no syntax":     {spec: imageSpecPrefix + `scheduling: {nodeSelector: {"a b": x}}}`, wantMessage: "the name of a label has at most 63"},
		"label with two slashes":      {spec: imageSpecPrefix + `podLabels: {example.com/a/b: x}}`, wantMessage: "the name of a label"},
		"label with dots in a row":    {spec: imageSpecPrefix + `podLabels: {example..com/a: x}}`, reason: "InvalidSpec", wantMessage: `podLabels has "example..com/a", which is no name`},
	})
	addCases("security", "", map[string]invalidSpec{
		"root at level Restricted":         {spec: imageSpecPrefix + `security: {level: Restricted, runAsUser: 0}}`, wantMessage: "level Restricted does not run as user 0 (root); choose another user, or level Baseline"},
		"user below zero":                  {spec: imageSpecPrefix + `security: {runAsUser: -1}}`, wantMessage: "spec.security.runAsUser in body should be greater than or equal to 0"},
		"user by name":                     {spec: imageSpecPrefix + `security: {runAsUser: nobody}}`, wantMessage: `runAsUser in body must be of type integer: "string"`},
		"privileged":                       {spec: imageSpecPrefix + `security: {privileged: true}}`, wantMessage: `unknown field "spec.security.privileged"`},
		"ServiceAccount in capitals":       {spec: imageSpecPrefix + `serviceAccountName: Robot}`, wantMessage: "serviceAccountName is the name of a ServiceAccount"},
		"spread of another word":           {spec: imageSpecPrefix + `scheduling: {spread: Zone}}`, wantMessage: `supported values: "Soft", "Hard", "None"`},
		"toleration of no operator":        {spec: imageSpecPrefix + `scheduling: {tolerations: [{key: a, operator: In, value: b}]}}`, reason: "InvalidSpec", wantMessage: `scheduling.tolerations[0] has operator "In"; it is Exists or Equal`},
		"toleration with a value too many": {spec: imageSpecPrefix + `scheduling: {tolerations: [{key: a, operator: Exists, value: b}]}}`, reason: "InvalidSpec", wantMessage: "scheduling.tolerations[0] has operator Exists and a value; remove the value, or use operator Equal"},
		"toleration of no effect":          {spec: imageSpecPrefix + `scheduling: {tolerations: [{key: a, operator: Exists, effect: Never}]}}`, reason: "InvalidSpec", wantMessage: `scheduling.tolerations[0] has effect "Never"; it is NoSchedule, PreferNoSchedule or NoExecute`},
		"PriorityClass in capitals":        {spec: imageSpecPrefix + `scheduling: {priorityClassName: High_Prio}}`, reason: "InvalidSpec", wantMessage: `scheduling.priorityClassName is "High_Prio", which no PriorityClass can be called; see kubectl get priorityclass`},
	})
}

// fileList are n files of a size.
func fileList(n, size int) string {
	var all []string
	for i := range n {
		all = append(all, `{path: /f`+string(rune('a'+i))+`, content: `+strings.Repeat("x", size)+`}`)
	}
	return strings.Join(all, ", ")
}

package misuse_test

import "strings"

// image is the spec of an AppService that works, without its closing brace.
const image = `{image: "shop/web:1", `

// What is wrong with the pods: environment, volumes, files, resources, probes, labels.
func init() {
	add("environment", "", map[string]misuse{
		"variable twice":              {spec: image + `env: [{name: A, value: a}, {name: A, value: b}]}`, says: `spec.env[1]: Duplicate value: {"name":"A"}`},
		"number as a variable":        {spec: image + `env: [{name: PORT, value: 80}]}`, says: `spec.env[0].value in body must be of type string: "integer"`},
		"environment as a map":        {spec: image + `env: {MODE: production}}`, says: `unknown field "spec.env.MODE"`},
		"variable without a name":     {spec: image + `env: [{value: a}]}`, says: "spec.env[0].name: Required value"},
		"variable with an equals":     {spec: image + `env: [{name: "MODE=production"}]}`, reason: "InvalidSpec", says: `env: "MODE=production" is no name of a variable: it cannot have =`},
		"variable with an empty name": {spec: image + `env: [{name: "", value: a}]}`, reason: "InvalidSpec", says: `env: "" is no name; say how the variable is called`},
		"value and valueFrom":         {spec: image + `env: [{name: A, value: a, valueFrom: {secretKeyRef: {name: s, key: k}}}]}`, reason: "InvalidSpec", says: `env: "A" has value and valueFrom; remove one of them`},
		"valueFrom nothing":           {spec: image + `env: [{name: A, valueFrom: {}}]}`, reason: "InvalidSpec", says: `env: "A" needs exactly one of configMapKeyRef, secretKeyRef, fieldRef and resourceFieldRef in valueFrom`},
		"valueFrom two sources":       {spec: image + `env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k}, configMapKeyRef: {name: c, key: k}}}]}`, reason: "InvalidSpec", says: `env: "A" needs exactly one of configMapKeyRef, secretKeyRef, fieldRef and resourceFieldRef in valueFrom`},
		"Secret in capitals":          {spec: image + `env: [{name: A, valueFrom: {secretKeyRef: {name: My_Secret, key: k}}}]}`, reason: "InvalidSpec", says: `env: "A" refers to Secret "My_Secret", which nothing can be called: names are made of a-z, 0-9, - and .; correct it`},
		"field of a pod of no name":   {spec: image + `env: [{name: A, valueFrom: {fieldRef: {fieldPath: spec.image}}}]}`, reason: "InvalidSpec", says: `env: "A" takes "spec.image", which is no field of a pod that a variable can have; there are metadata.name`},
		"envFrom nothing":             {spec: image + `envFrom: [{prefix: A_}]}`, reason: "InvalidSpec", says: "envFrom[0] needs exactly one of configMapRef and secretRef"},
		"envFrom two sources":         {spec: image + `envFrom: [{secretRef: {name: s}, configMapRef: {name: c}}]}`, reason: "InvalidSpec", says: "envFrom[0] needs exactly one of configMapRef and secretRef"},
		"Secret key without a key":    {spec: image + `env: [{name: A, valueFrom: {secretKeyRef: {name: s}}}]}`, says: "spec.env[0].valueFrom.secretKeyRef.key: Required value"},
	})
	add("volumes", "", map[string]misuse{
		"volume of no source":          {spec: image + `volumes: [{name: data, mountPath: /data}]}`, says: "a volume has exactly one of emptyDir, secret, configMap and persistentVolumeClaim"},
		"volume of two sources":        {spec: image + `volumes: [{name: data, mountPath: /data, emptyDir: {}, secret: {name: s}}]}`, says: "a volume has exactly one of emptyDir, secret, configMap and persistentVolumeClaim"},
		"volume twice":                 {spec: image + `volumes: [{name: a, mountPath: /a, emptyDir: {}}, {name: a, mountPath: /b, emptyDir: {}}]}`, says: `spec.volumes[1]: Duplicate value: {"name":"a"}`},
		"two volumes at one path":      {spec: image + `volumes: [{name: a, mountPath: /a, emptyDir: {}}, {name: b, mountPath: /a, emptyDir: {}}]}`, says: "two volumes have the same mountPath; give each its own"},
		"relative mountPath":           {spec: image + `volumes: [{name: a, mountPath: data, emptyDir: {}}]}`, says: "a mountPath begins with /"},
		"mountPath with dots":          {spec: image + `volumes: [{name: a, mountPath: /data/../etc, emptyDir: {}}]}`, says: "neither : nor . or .. as a part"},
		"mountPath as with docker":     {spec: image + `volumes: [{name: a, mountPath: "/data:ro", emptyDir: {}}]}`, says: "neither : nor . or .. as a part"},
		"hostPath":                     {spec: image + `volumes: [{name: a, mountPath: /a, hostPath: {path: /etc}}]}`, says: `unknown field "spec.volumes[0].hostPath"`},
		"secretName of a pod":          {spec: image + `volumes: [{name: a, mountPath: /a, secret: {secretName: s}}]}`, says: `unknown field "spec.volumes[0].secret.secretName"`},
		"octal mode in quotes":         {spec: image + `volumes: [{name: a, mountPath: /a, secret: {name: s, defaultMode: "0444"}}]}`, says: `defaultMode in body must be of type integer: "string"`},
		"mode beyond all bits":         {spec: image + `volumes: [{name: a, mountPath: /a, secret: {name: s, defaultMode: 777}}]}`, says: "defaultMode in body should be less than or equal to 511"},
		"size of nonsense":             {spec: image + `volumes: [{name: a, mountPath: /a, emptyDir: {sizeLimit: 1 GB}}]}`, says: "spec.volumes[0].emptyDir.sizeLimit"},
		"size below zero":              {spec: image + `volumes: [{name: a, mountPath: /a, emptyDir: {sizeLimit: "-1Gi"}}]}`, reason: "InvalidSpec", says: `volumes: "a" has an emptyDir.sizeLimit of -1Gi; it cannot be less than 0`},
		"medium of another word":       {spec: image + `volumes: [{name: a, mountPath: /a, emptyDir: {medium: RAM}}]}`, says: `supported values: "Memory"`},
		"volume with our prefix":       {spec: image + `volumes: [{name: holdfast-files, mountPath: /a, emptyDir: {}}]}`, says: "does not begin with holdfast-"},
		"absolute path of an item":     {spec: image + `volumes: [{name: a, mountPath: /a, secret: {name: s, items: [{key: k, path: /etc/k}]}}]}`, reason: "InvalidSpec", says: `volumes: "a" shows key "k" at "/etc/k", which is not within the volume: say a path without / at its beginning`},
		"name of a Secret in capitals": {spec: image + `volumes: [{name: a, mountPath: /a, secret: {name: My_Secret}}]}`, reason: "InvalidSpec", says: `volumes: "a" refers to Secret "My_Secret", which nothing can be called`},
		"name of a claim with a slash": {spec: image + `volumes: [{name: a, mountPath: /a, persistentVolumeClaim: {claimName: shop/data}}]}`, reason: "InvalidSpec", says: `volumes: "a" refers to PersistentVolumeClaim "shop/data", which nothing can be called`},
	})
	add("files", "", map[string]misuse{
		"relative file":          {spec: image + `config: {files: [{path: etc/app.yaml, content: a}]}}`, says: "a path begins with / and names a file"},
		"folder as a file":       {spec: image + `config: {files: [{path: /etc/app/, content: a}]}}`, says: "a path begins with / and names a file"},
		"file twice":             {spec: image + `config: {files: [{path: /a, content: a}, {path: /a, content: b}]}}`, says: `spec.config.files[1]: Duplicate value: {"path":"/a"}`},
		"file without content":   {spec: image + `config: {files: [{path: /a}]}}`, says: "spec.config.files[0].content: Required value"},
		"huge file":              {spec: image + `config: {files: [{path: /a, content: ` + strings.Repeat("x", 65537) + `}]}}`, says: "spec.config.files[0].content: Too long: may not be more than 65536 bytes"},
		"17 files":               {spec: image + `config: {files: [` + files(17, 1) + `]}}`, says: "spec.config.files: Too many: 17: must have at most 16 items"},
		"9 huge files":           {spec: image + `config: {files: [` + strings.ReplaceAll(files(9, 65536), "x", "ä") + `]}}`, reason: "InvalidSpec", says: "config.files have 1179648 bytes together, and no more than 1048576 fit into a ConfigMap; put what is large into the image or a volume"},
		"file where a volume is": {spec: image + `volumes: [{name: a, mountPath: /a, emptyDir: {}}], config: {files: [{path: /a, content: a}]}}`, reason: "InvalidSpec", says: `config.files has /a, where volume "a" is mounted; choose another path for one of them`},
		"file as a folder":       {spec: image + `config: {files: [{path: /a, content: a}, {path: /a/b, content: b}]}}`, reason: "InvalidSpec", says: "so /a would have to be a file and a folder; choose another path for one of them"},
		"volume inside a file":   {spec: image + `volumes: [{name: v, mountPath: /a/b, emptyDir: {}}], config: {files: [{path: /a, content: a}]}}`, reason: "InvalidSpec", says: `volume "v" is mounted at /a/b, so /a would have to be a file and a folder; choose another path for one of them`},
	})
	add("resources", "", map[string]misuse{
		"quantity of nonsense":      {spec: image + `resources: {requests: {cpu: lots}}}`, says: "spec.resources.requests.cpu"},
		"memory in GB":              {spec: image + `resources: {requests: {memory: 1GB}}}`, says: "spec.resources.requests.memory"},
		"limit below request":       {spec: image + `resources: {requests: {memory: 2Gi}, limits: {memory: 1Gi}}}`, reason: "InvalidSpec", says: "resources.requests.memory (2Gi) is more than resources.limits.memory (1Gi)"},
		"request below zero":        {spec: image + `resources: {requests: {cpu: "-1"}}}`, reason: "InvalidSpec", says: `resources.requests has "cpu" of -1; it cannot be less than 0`},
		"resource that is not one":  {spec: image + `resources: {requests: {ram: 1Gi}}}`, reason: "InvalidSpec", says: `resources.requests has "ram" which is no resource; there are cpu, memory and ephemeral-storage`},
		"resources without a level": {spec: image + `resources: {cpu: 1}}`, says: `unknown field "spec.resources.cpu"`},
		"half a GPU":                {spec: image + `resources: {limits: {example.com/gpu: 500m}}}`, reason: "InvalidSpec", says: `resources.limits has "example.com/gpu" of 500m; devices are given out as a whole`},
		"GPU only requested":        {spec: image + `resources: {requests: {example.com/gpu: 1}}}`, reason: "InvalidSpec", says: "resources.requests.example.com/gpu cannot be shared; set resources.limits.example.com/gpu to the same, 1"},
		"claims that nobody made":   {spec: image + `resources: {claims: [{name: gpu}]}}`, reason: "InvalidSpec", says: `resources.claims names "gpu", which the pod does not have; declare it in podTemplateOverlay`},
	})
	add("probes", "", map[string]misuse{
		"probe that asks nothing":   {spec: image + `probes: {readiness: {periodSeconds: 3}}}`, says: "a probe needs exactly one of httpGet, tcpSocket, grpc and exec"},
		"probe that asks twice":     {spec: image + `probes: {liveness: {tcpSocket: {port: 80}, exec: {command: ["true"]}}}}`, says: "a probe needs exactly one of httpGet, tcpSocket, grpc and exec"},
		"probe without a port":      {spec: image + `probes: {readiness: {httpGet: {path: /}}}}`, says: "spec.probes.readiness.httpGet.port: Required value"},
		"probe of another spelling": {spec: image + `probes: {readinessProbe: {tcpSocket: {port: 80}}}}`, says: `unknown field "spec.probes.readinessProbe"`},
		"probe of an unknown port":  {spec: image + `ports: [{name: http, port: 80}], probes: {readiness: {httpGet: {port: web}}}}`, reason: "InvalidSpec", says: `probes.readiness asks port "web", which is not in ports (http); correct the name, or say a number`},
		"probe of port 0":           {spec: image + `probes: {readiness: {tcpSocket: {port: 0}}}}`, reason: "InvalidSpec", says: "probes.readiness asks port 0; ports go from 1 to 65535"},
		"probe in negative time":    {spec: image + `probes: {readiness: {tcpSocket: {port: 80}, periodSeconds: -1}}}`, reason: "InvalidSpec", says: "probes.readiness has a periodSeconds of -1; it cannot be less than 0"},
		"liveness wants two passes": {spec: image + `probes: {liveness: {tcpSocket: {port: 80}, successThreshold: 2}}}`, reason: "InvalidSpec", says: "probes.liveness has a successThreshold of 2; only a readiness probe may want more than 1"},
		"probe runs no command":     {spec: image + `probes: {readiness: {exec: {}}}}`, reason: "InvalidSpec", says: "probes.readiness has exec without a command; say what to run"},
	})
	add("labels", "", map[string]misuse{
		"label of Kubernetes":         {spec: image + `podLabels: {app.kubernetes.io/name: mine}}`, says: "are set by Holdfast and Kubernetes; choose other names"},
		"label of ours":               {spec: image + `podLabels: {apps.holdfast.dev/workload: mine}}`, says: "choose other names"},
		"label with a space":          {spec: image + `podLabels: {my team: red}}`, says: "the name of a label has at most 63 of A-Z, a-z, 0-9"},
		"label of 64 letters":         {spec: image + `podLabels: {` + strings.Repeat("l", 64) + `: red}}`, says: "the name of a label has at most 63"},
		"value with a space":          {spec: image + `podLabels: {team: red and blue}}`, says: "the value of a label is made of A-Z, a-z, 0-9"},
		"value is a boolean":          {spec: image + `podLabels: {scrape: true}}`, says: `must be of type string: "boolean"`},
		"pod annotation of ours":      {spec: image + `podAnnotations: {apps.holdfast.dev/config: x}}`, says: "set by Holdfast alone; remove them here"},
		"pod annotation of no syntax": {spec: image + `podAnnotations: {"a b": x}}`, says: "the name of an annotation has at most 63"},
		"node label of no syntax":     {spec: image + `scheduling: {nodeSelector: {"a b": x}}}`, says: "the name of a label has at most 63"},
		"label with two slashes":      {spec: image + `podLabels: {example.com/a/b: x}}`, says: "the name of a label"},
		"label with dots in a row":    {spec: image + `podLabels: {example..com/a: x}}`, reason: "InvalidSpec", says: `podLabels has "example..com/a", which is no name`},
	})
	add("security", "", map[string]misuse{
		"root at level Restricted":         {spec: image + `security: {level: Restricted, runAsUser: 0}}`, says: "level Restricted does not run as user 0 (root); choose another user, or level Baseline"},
		"user below zero":                  {spec: image + `security: {runAsUser: -1}}`, says: "spec.security.runAsUser in body should be greater than or equal to 0"},
		"user by name":                     {spec: image + `security: {runAsUser: nobody}}`, says: `runAsUser in body must be of type integer: "string"`},
		"privileged":                       {spec: image + `security: {privileged: true}}`, says: `unknown field "spec.security.privileged"`},
		"ServiceAccount in capitals":       {spec: image + `serviceAccountName: Robot}`, says: "serviceAccountName is the name of a ServiceAccount"},
		"spread of another word":           {spec: image + `scheduling: {spread: Zone}}`, says: `supported values: "Soft", "Hard", "None"`},
		"toleration of no operator":        {spec: image + `scheduling: {tolerations: [{key: a, operator: In, value: b}]}}`, reason: "InvalidSpec", says: `scheduling.tolerations[0] has operator "In"; it is Exists or Equal`},
		"toleration with a value too many": {spec: image + `scheduling: {tolerations: [{key: a, operator: Exists, value: b}]}}`, reason: "InvalidSpec", says: "scheduling.tolerations[0] has operator Exists and a value; remove the value, or use operator Equal"},
		"toleration of no effect":          {spec: image + `scheduling: {tolerations: [{key: a, operator: Exists, effect: Never}]}}`, reason: "InvalidSpec", says: `scheduling.tolerations[0] has effect "Never"; it is NoSchedule, PreferNoSchedule or NoExecute`},
		"PriorityClass in capitals":        {spec: image + `scheduling: {priorityClassName: High_Prio}}`, reason: "InvalidSpec", says: `scheduling.priorityClassName is "High_Prio", which no PriorityClass can be called; see kubectl get priorityclass`},
	})
}

// files are n files of a size.
func files(n, size int) string {
	var all []string
	for i := range n {
		all = append(all, `{path: /f`+string(rune('a'+i))+`, content: `+strings.Repeat("x", size)+`}`)
	}
	return strings.Join(all, ", ")
}

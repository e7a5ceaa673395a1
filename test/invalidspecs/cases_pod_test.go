package invalidspecs_test

import (
	"slices"
	"strings"
)

// imageSpecPrefix is a valid AppService spec without the closing brace.
const imageSpecPrefix = `{image: "shop/web:1", `

// Errors in pods: environment, volumes, files, resources, probes, labels.
var podCases = slices.Concat(
	classCases("environment", "", map[string]invalidSpec{
		"duplicate variable":          {spec: imageSpecPrefix + `env: [{name: A, value: a}, {name: A, value: b}]}`, wantMessage: `spec.env[1]: Duplicate value: {"name":"A"}`},
		"number as a variable":        {spec: imageSpecPrefix + `env: [{name: PORT, value: 80}]}`, wantMessage: `spec.env[0].value in body must be of type string: "integer"`},
		"environment as a map":        {spec: imageSpecPrefix + `env: {MODE: production}}`, wantMessage: `unknown field "spec.env.MODE"`},
		"variable without a name":     {spec: imageSpecPrefix + `env: [{value: a}]}`, wantMessage: "spec.env[0].name: Required value"},
		"variable with an equals":     {spec: imageSpecPrefix + `env: [{name: "MODE=production"}]}`, reason: "InvalidSpec", wantMessage: `env[MODE=production] is not a valid variable name: it must not contain =`},
		"variable with an empty name": {spec: imageSpecPrefix + `env: [{name: "", value: a}]}`, reason: "InvalidSpec", wantMessage: `env[] has no name; set the name of the variable`},
		"value and valueFrom":         {spec: imageSpecPrefix + `env: [{name: A, value: a, valueFrom: {secretKeyRef: {name: s, key: k}}}]}`, reason: "InvalidSpec", wantMessage: `env[A] has value and valueFrom; remove one of them`},
		"empty valueFrom":             {spec: imageSpecPrefix + `env: [{name: A, valueFrom: {}}]}`, reason: "InvalidSpec", wantMessage: `env[A] needs exactly one of configMapKeyRef, secretKeyRef, fieldRef and resourceFieldRef in valueFrom`},
		"valueFrom with two sources":  {spec: imageSpecPrefix + `env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k}, configMapKeyRef: {name: c, key: k}}}]}`, reason: "InvalidSpec", wantMessage: `env[A] needs exactly one of configMapKeyRef, secretKeyRef, fieldRef and resourceFieldRef in valueFrom`},
		"Secret name in upper case":   {spec: imageSpecPrefix + `env: [{name: A, valueFrom: {secretKeyRef: {name: My_Secret, key: k}}}]}`, reason: "InvalidSpec", wantMessage: `env[A] references Secret "My_Secret", which is not a valid name; use only lower-case letters, digits, dashes and dots`},
		"unsupported fieldPath":       {spec: imageSpecPrefix + `env: [{name: A, valueFrom: {fieldRef: {fieldPath: spec.image}}}]}`, reason: "InvalidSpec", wantMessage: `env[A] has fieldPath "spec.image", which is not available to environment variables; use one of metadata.name`},
		"empty envFrom":               {spec: imageSpecPrefix + `envFrom: [{prefix: A_}]}`, reason: "InvalidSpec", wantMessage: "envFrom[0] needs exactly one of configMapRef and secretRef"},
		"envFrom with two sources":    {spec: imageSpecPrefix + `envFrom: [{secretRef: {name: s}, configMapRef: {name: c}}]}`, reason: "InvalidSpec", wantMessage: "envFrom[0] needs exactly one of configMapRef and secretRef"},
		"Secret key without a key":    {spec: imageSpecPrefix + `env: [{name: A, valueFrom: {secretKeyRef: {name: s}}}]}`, wantMessage: "spec.env[0].valueFrom.secretKeyRef.key: Required value"},
	}),
	classCases("volumes", "", map[string]invalidSpec{
		"volume without a source":          {spec: imageSpecPrefix + `volumes: [{name: data, mountPath: /data}]}`, wantMessage: "a volume must set exactly one of emptyDir, secret, configMap and persistentVolumeClaim"},
		"volume with two sources":          {spec: imageSpecPrefix + `volumes: [{name: data, mountPath: /data, emptyDir: {}, secret: {name: s}}]}`, wantMessage: "a volume must set exactly one of emptyDir, secret, configMap and persistentVolumeClaim"},
		"duplicate volume":                 {spec: imageSpecPrefix + `volumes: [{name: a, mountPath: /a, emptyDir: {}}, {name: a, mountPath: /b, emptyDir: {}}]}`, wantMessage: `spec.volumes[1]: Duplicate value: {"name":"a"}`},
		"two volumes at one path":          {spec: imageSpecPrefix + `volumes: [{name: a, mountPath: /a, emptyDir: {}}, {name: b, mountPath: /a, emptyDir: {}}]}`, wantMessage: "two volumes have the same mountPath; use another path for one of them"},
		"relative mountPath":               {spec: imageSpecPrefix + `volumes: [{name: a, mountPath: data, emptyDir: {}}]}`, wantMessage: "mountPath must be an absolute path"},
		"mountPath with dots":              {spec: imageSpecPrefix + `volumes: [{name: a, mountPath: /data/../etc, emptyDir: {}}]}`, wantMessage: "without : and without . or .. segments"},
		"mountPath as with docker":         {spec: imageSpecPrefix + `volumes: [{name: a, mountPath: "/data:ro", emptyDir: {}}]}`, wantMessage: "without : and without . or .. segments"},
		"hostPath":                         {spec: imageSpecPrefix + `volumes: [{name: a, mountPath: /a, hostPath: {path: /etc}}]}`, wantMessage: `unknown field "spec.volumes[0].hostPath"`},
		"secretName of a pod":              {spec: imageSpecPrefix + `volumes: [{name: a, mountPath: /a, secret: {secretName: s}}]}`, wantMessage: `unknown field "spec.volumes[0].secret.secretName"`},
		"octal mode in quotes":             {spec: imageSpecPrefix + `volumes: [{name: a, mountPath: /a, secret: {name: s, defaultMode: "0444"}}]}`, wantMessage: `defaultMode in body must be of type integer: "string"`},
		"mode above 0777":                  {spec: imageSpecPrefix + `volumes: [{name: a, mountPath: /a, secret: {name: s, defaultMode: 777}}]}`, wantMessage: "defaultMode in body should be less than or equal to 511"},
		"invalid size":                     {spec: imageSpecPrefix + `volumes: [{name: a, mountPath: /a, emptyDir: {sizeLimit: 1 GB}}]}`, wantMessage: "spec.volumes[0].emptyDir.sizeLimit"},
		"negative size":                    {spec: imageSpecPrefix + `volumes: [{name: a, mountPath: /a, emptyDir: {sizeLimit: "-1Gi"}}]}`, reason: "InvalidSpec", wantMessage: `volumes[a] has emptyDir.sizeLimit -1Gi; it must not be negative`},
		"unsupported medium":               {spec: imageSpecPrefix + `volumes: [{name: a, mountPath: /a, emptyDir: {medium: RAM}}]}`, wantMessage: `supported values: "Memory"`},
		"volume with a reserved prefix":    {spec: imageSpecPrefix + `volumes: [{name: holdfast-files, mountPath: /a, emptyDir: {}}]}`, wantMessage: "not start with holdfast-"},
		"absolute path of an item":         {spec: imageSpecPrefix + `volumes: [{name: a, mountPath: /a, secret: {name: s, items: [{key: k, path: /etc/k}]}}]}`, reason: "InvalidSpec", wantMessage: `volumes[a] has key "k" at path "/etc/k", which is outside the volume; use a relative path`},
		"volume of a Secret in upper case": {spec: imageSpecPrefix + `volumes: [{name: a, mountPath: /a, secret: {name: My_Secret}}]}`, reason: "InvalidSpec", wantMessage: `volumes[a] references Secret "My_Secret", which is not a valid name`},
		"name of a claim with a slash":     {spec: imageSpecPrefix + `volumes: [{name: a, mountPath: /a, persistentVolumeClaim: {claimName: shop/data}}]}`, reason: "InvalidSpec", wantMessage: `volumes[a] references PersistentVolumeClaim "shop/data", which is not a valid name`},
	}),
	classCases("files", "", map[string]invalidSpec{
		"relative file path":     {spec: imageSpecPrefix + `config: {files: [{path: etc/app.yaml, content: a}]}}`, wantMessage: "path must be the absolute path of a file"},
		"directory as a file":    {spec: imageSpecPrefix + `config: {files: [{path: /etc/app/, content: a}]}}`, wantMessage: "path must be the absolute path of a file"},
		"duplicate file":         {spec: imageSpecPrefix + `config: {files: [{path: /a, content: a}, {path: /a, content: b}]}}`, wantMessage: `spec.config.files[1]: Duplicate value: {"path":"/a"}`},
		"file without content":   {spec: imageSpecPrefix + `config: {files: [{path: /a}]}}`, wantMessage: "spec.config.files[0].content: Required value"},
		"huge file":              {spec: imageSpecPrefix + `config: {files: [{path: /a, content: ` + strings.Repeat("x", 65537) + `}]}}`, wantMessage: "spec.config.files[0].content: Too long: may not be more than 65536 bytes"},
		"17 files":               {spec: imageSpecPrefix + `config: {files: [` + fileList(17, 1) + `]}}`, wantMessage: "spec.config.files: Too many: 17: must have at most 16 items"},
		"9 huge files":           {spec: imageSpecPrefix + `config: {files: [` + strings.ReplaceAll(fileList(9, 65536), "x", "ä") + `]}}`, reason: "InvalidSpec", wantMessage: "config.files has 1179648 bytes in total, but a ConfigMap holds at most 1048576; move large files into the image or a volume"},
		"file where a volume is": {spec: imageSpecPrefix + `volumes: [{name: a, mountPath: /a, emptyDir: {}}], config: {files: [{path: /a, content: a}]}}`, reason: "InvalidSpec", wantMessage: `config.files contains /a, where volume "a" is mounted; use another path for one of them`},
		"file as a directory":    {spec: imageSpecPrefix + `config: {files: [{path: /a, content: a}, {path: /a/b, content: b}]}}`, reason: "InvalidSpec", wantMessage: "but /a cannot be both a file and a directory; use another path for one of them"},
		"volume inside a file":   {spec: imageSpecPrefix + `volumes: [{name: v, mountPath: /a/b, emptyDir: {}}], config: {files: [{path: /a, content: a}]}}`, reason: "InvalidSpec", wantMessage: `volume "v" is mounted at /a/b, but /a cannot be both a file and a directory; use another path for one of them`},
	}),
	classCases("resources", "", map[string]invalidSpec{
		"invalid quantity":                     {spec: imageSpecPrefix + `resources: {requests: {cpu: lots}}}`, wantMessage: "spec.resources.requests.cpu"},
		"memory in GB":                         {spec: imageSpecPrefix + `resources: {requests: {memory: 1GB}}}`, wantMessage: "spec.resources.requests.memory"},
		"limit below request":                  {spec: imageSpecPrefix + `resources: {requests: {memory: 2Gi}, limits: {memory: 1Gi}}}`, reason: "InvalidSpec", wantMessage: "resources.requests.memory (2Gi) exceeds resources.limits.memory (1Gi)"},
		"negative request":                     {spec: imageSpecPrefix + `resources: {requests: {cpu: "-1"}}}`, reason: "InvalidSpec", wantMessage: `resources.requests.cpu is -1; it must not be negative`},
		"unknown resource":                     {spec: imageSpecPrefix + `resources: {requests: {ram: 1Gi}}}`, reason: "InvalidSpec", wantMessage: `resources.requests.ram is not a known resource; use cpu, memory, ephemeral-storage`},
		"resources without requests or limits": {spec: imageSpecPrefix + `resources: {cpu: 1}}`, wantMessage: `unknown field "spec.resources.cpu"`},
		"fractional extended resource":         {spec: imageSpecPrefix + `resources: {limits: {example.com/gpu: 500m}}}`, reason: "InvalidSpec", wantMessage: `resources.limits.example.com/gpu is 500m; an extended resource must be a whole number`},
		"extended resource without a limit":    {spec: imageSpecPrefix + `resources: {requests: {example.com/gpu: 1}}}`, reason: "InvalidSpec", wantMessage: "resources.requests.example.com/gpu is an extended resource and requires an equal limit; set resources.limits.example.com/gpu to 1"},
		"undeclared resource claim":            {spec: imageSpecPrefix + `resources: {claims: [{name: gpu}]}}`, reason: "InvalidSpec", wantMessage: `resources.claims references "gpu", which the pod does not declare; declare it in spec.resourceClaims of podTemplateOverlay`},
	}),
	classCases("probes", "", map[string]invalidSpec{
		"probe without an action":                {spec: imageSpecPrefix + `probes: {readiness: {periodSeconds: 3}}}`, wantMessage: "a probe must set exactly one of httpGet, tcpSocket, grpc and exec"},
		"probe with two actions":                 {spec: imageSpecPrefix + `probes: {liveness: {tcpSocket: {port: 80}, exec: {command: ["true"]}}}}`, wantMessage: "a probe must set exactly one of httpGet, tcpSocket, grpc and exec"},
		"probe without a port":                   {spec: imageSpecPrefix + `probes: {readiness: {httpGet: {path: /}}}}`, wantMessage: "spec.probes.readiness.httpGet.port: Required value"},
		"probe of another host":                  {spec: imageSpecPrefix + `probes: {readiness: {httpGet: {host: 169.254.169.254, port: 80}}}}`, wantMessage: "a probe must not set host, because the node sends it with its own access to the network; remove host to check the pod"},
		"TCP probe of another host":              {spec: imageSpecPrefix + `probes: {liveness: {tcpSocket: {host: 10.0.0.1, port: 22}}}}`, wantMessage: "a probe must not set host"},
		"misspelled probe":                       {spec: imageSpecPrefix + `probes: {readinessProbe: {tcpSocket: {port: 80}}}}`, wantMessage: `unknown field "spec.probes.readinessProbe"`},
		"probe with an unknown port":             {spec: imageSpecPrefix + `ports: [{name: http, port: 80}], probes: {readiness: {httpGet: {port: web}}}}`, reason: "InvalidSpec", wantMessage: `probes.readiness has port "web", which is not in ports (http); correct the name, or use the port number`},
		"probe with port 0":                      {spec: imageSpecPrefix + `probes: {readiness: {tcpSocket: {port: 0}}}}`, reason: "InvalidSpec", wantMessage: "probes.readiness has port 0; a port must be from 1 to 65535"},
		"probe with a negative period":           {spec: imageSpecPrefix + `probes: {readiness: {tcpSocket: {port: 80}, periodSeconds: -1}}}`, reason: "InvalidSpec", wantMessage: "probes.readiness has periodSeconds -1; it must not be negative"},
		"liveness probe with successThreshold 2": {spec: imageSpecPrefix + `probes: {liveness: {tcpSocket: {port: 80}, successThreshold: 2}}}`, reason: "InvalidSpec", wantMessage: "probes.liveness has successThreshold 2; only a readiness probe can have more than 1"},
		"exec probe without a command":           {spec: imageSpecPrefix + `probes: {readiness: {exec: {}}}}`, reason: "InvalidSpec", wantMessage: "probes.readiness has exec without a command; set the command"},
	}),
	classCases("labels", "", map[string]invalidSpec{
		"reserved Kubernetes label":        {spec: imageSpecPrefix + `podLabels: {app.kubernetes.io/name: mine}}`, wantMessage: "are reserved for Holdfast and Kubernetes; use other names"},
		"reserved Holdfast label":          {spec: imageSpecPrefix + `podLabels: {apps.holdfast.dev/workload: mine}}`, wantMessage: "use other names"},
		"label with a space":               {spec: imageSpecPrefix + `podLabels: {my team: red}}`, wantMessage: "a label name must have at most 63 characters of A-Z, a-z, 0-9"},
		"label of 64 letters":              {spec: imageSpecPrefix + `podLabels: {` + strings.Repeat("l", 64) + `: red}}`, wantMessage: "a label name must have at most 63"},
		"value with a space":               {spec: imageSpecPrefix + `podLabels: {team: red and blue}}`, wantMessage: "a label value must consist of A-Z, a-z, 0-9"},
		"value is a boolean":               {spec: imageSpecPrefix + `podLabels: {scrape: true}}`, wantMessage: `must be of type string: "boolean"`},
		"reserved pod annotation":          {spec: imageSpecPrefix + `podAnnotations: {apps.holdfast.dev/config-hash: x}}`, wantMessage: "reserved for Holdfast; remove them"},
		"invalid name of a pod annotation": {spec: imageSpecPrefix + `podAnnotations: {"a b": x}}`, wantMessage: "an annotation name must have at most 63"},
		"invalid name of a node label":     {spec: imageSpecPrefix + `scheduling: {nodeSelector: {"a b": x}}}`, wantMessage: "a label name must have at most 63"},
		"label with two slashes":           {spec: imageSpecPrefix + `podLabels: {example.com/a/b: x}}`, wantMessage: "a label name must have"},
		"label with consecutive dots":      {spec: imageSpecPrefix + `podLabels: {example..com/a: x}}`, reason: "InvalidSpec", wantMessage: `podLabels contains "example..com/a", which is not a valid name`},
	}),
	classCases("security", "", map[string]invalidSpec{
		"root at level Restricted":        {spec: imageSpecPrefix + `security: {level: Restricted, runAsUser: 0}}`, wantMessage: "level Restricted does not allow user 0 (root); set another runAsUser, or level Baseline"},
		"negative user":                   {spec: imageSpecPrefix + `security: {runAsUser: -1}}`, wantMessage: "spec.security.runAsUser in body should be greater than or equal to 0"},
		"user by name":                    {spec: imageSpecPrefix + `security: {runAsUser: nobody}}`, wantMessage: `runAsUser in body must be of type integer: "string"`},
		"privileged":                      {spec: imageSpecPrefix + `security: {privileged: true}}`, wantMessage: `unknown field "spec.security.privileged"`},
		"ServiceAccount in upper case":    {spec: imageSpecPrefix + `serviceAccountName: Robot}`, wantMessage: "serviceAccountName must be the name of a ServiceAccount"},
		"unsupported spread":              {spec: imageSpecPrefix + `scheduling: {spread: Zone}}`, wantMessage: `supported values: "Soft", "Hard", "None"`},
		"unsupported toleration operator": {spec: imageSpecPrefix + `scheduling: {tolerations: [{key: a, operator: In, value: b}]}}`, reason: "InvalidSpec", wantMessage: `scheduling.tolerations[0] has operator "In"; use Exists or Equal`},
		"toleration Exists with a value":  {spec: imageSpecPrefix + `scheduling: {tolerations: [{key: a, operator: Exists, value: b}]}}`, reason: "InvalidSpec", wantMessage: "scheduling.tolerations[0] has operator Exists and a value; remove the value, or use operator Equal"},
		"unsupported toleration effect":   {spec: imageSpecPrefix + `scheduling: {tolerations: [{key: a, operator: Exists, effect: Never}]}}`, reason: "InvalidSpec", wantMessage: `scheduling.tolerations[0] has effect "Never"; use NoSchedule, PreferNoSchedule or NoExecute`},
		"PriorityClass in upper case":     {spec: imageSpecPrefix + `scheduling: {priorityClassName: High_Prio}}`, reason: "InvalidSpec", wantMessage: `scheduling.priorityClassName is "High_Prio", which is not a valid name; run kubectl get priorityclass to list the classes`},
	}),
)

// fileList returns n files of a size.
func fileList(n, size int) string {
	var all []string
	for i := range n {
		all = append(all, `{path: /f`+string(rune('a'+i))+`, content: `+strings.Repeat("x", size)+`}`)
	}
	return strings.Join(all, ", ")
}

package invalidspecs_test

// What is wrong with how a service is reached, scaled and updated.
func init() {
	addCases("ports", "", map[string]invalidSpec{
		"port 0":                          {spec: `{image: nginx, ports: [{port: 0}]}`, wantMessage: "spec.ports[0].port in body should be greater than or equal to 1"},
		"port 65536":                      {spec: `{image: nginx, ports: [{port: 65536}]}`, wantMessage: "spec.ports[0].port in body should be less than or equal to 65535"},
		"port without a number":           {spec: `{image: nginx, ports: [{name: http}]}`, wantMessage: "spec.ports[0].port: Required value"},
		"ports as plain numbers":          {spec: `{image: nginx, ports: [80]}`, wantMessage: `spec.ports[0] in body must be of type object: "integer"`},
		"ports as with docker":            {spec: `{image: nginx, ports: ["8080:80"]}`, wantMessage: `spec.ports[0] in body must be of type object: "string"`},
		"containerPort":                   {spec: `{image: nginx, ports: [{containerPort: 80}]}`, wantMessage: `unknown field "spec.ports[0].containerPort"`},
		"several ports without names":     {spec: `{image: nginx, ports: [{port: 80}, {port: 81}]}`, wantMessage: "with several ports each needs a name, for example {name: http, port: 80}"},
		"same port twice":                 {spec: `{image: nginx, ports: [{port: 80, name: a}, {port: 80, name: b}]}`, wantMessage: `spec.ports[1]: Duplicate value: {"port":80,"protocol":"TCP"}`},
		"same port name twice":            {spec: `{image: nginx, ports: [{port: 80, name: http}, {port: 81, name: http}]}`, wantMessage: "two ports have the same name; give each its own"},
		"port name in capitals":           {spec: `{image: nginx, ports: [{port: 80, name: HTTP}]}`, wantMessage: "a port's name is made of a-z, 0-9 and single - between them"},
		"port name of 16 letters":         {spec: `{image: nginx, ports: [{port: 80, name: abcdefghijklmnop}]}`, wantMessage: "spec.ports[0].name: Too long: may not be more than 15 bytes"},
		"protocol HTTP":                   {spec: `{image: nginx, ports: [{port: 80, protocol: HTTP}]}`, wantMessage: `supported values: "TCP", "UDP", "SCTP"`},
		"targetPort by name":              {spec: `{image: nginx, ports: [{port: 80, targetPort: http}]}`, wantMessage: `spec.ports[0].targetPort in body must be of type integer: "string"`},
		"live Service becomes headless":   {spec: `{image: "shop/web:1", ports: [{name: http, port: 80, targetPort: 8080}], service: {type: Headless}}`, wantMessage: "a Service cannot become Headless, or stop being it, while it exists; keep the type, or use a new name"},
		"annotation of ours":              {spec: `{image: nginx, ports: [{port: 80}], service: {annotations: {apps.holdfast.dev/adopt: "true"}}}`, wantMessage: "annotations that begin with apps.holdfast.dev/ are set by Holdfast alone"},
		"annotation is no text":           {spec: `{image: nginx, ports: [{port: 80}], service: {annotations: {example.com/internal: true}}}`, wantMessage: `must be of type string: "boolean"`},
		"Service annotation of no syntax": {spec: `{image: "shop/web:1", ports: [{name: http, port: 80}], service: {annotations: {"not a name": "true"}}}`, reason: "InvalidSpec", wantMessage: `service.annotations has "not a name", which is no name`},
	})
	addCases("scaling", "", map[string]invalidSpec{
		"autoscaling beside replicas":  {spec: `{image: nginx, replicas: 2, autoscaling: {maxReplicas: 3, targetCPUUtilization: 70}}`, wantMessage: "autoscaling decides how many pods run; remove replicas, or autoscaling"},
		"autoscaling without a target": {spec: `{image: nginx, autoscaling: {maxReplicas: 3}}`, wantMessage: "autoscaling needs something to aim at: set targetCPUUtilization"},
		"autoscaling without maximum":  {spec: `{image: nginx, autoscaling: {minReplicas: 1, targetCPUUtilization: 70}}`, wantMessage: "spec.autoscaling.maxReplicas: Required value"},
		"minimum above maximum":        {spec: `{image: nginx, autoscaling: {minReplicas: 4, maxReplicas: 3, targetCPUUtilization: 70}}`, wantMessage: "minReplicas cannot be more than maxReplicas; lower the one or raise the other"},
		"target as a percentage":       {spec: `{image: nginx, autoscaling: {maxReplicas: 3, targetCPUUtilization: 70%}}`, wantMessage: `targetCPUUtilization in body must be of type integer: "string"`},
		"scale to zero":                {spec: `{image: nginx, autoscaling: {minReplicas: 0, maxReplicas: 3, targetCPUUtilization: 70}}`, wantMessage: "minReplicas in body should be greater than or equal to 1"},
		"budget that blocks all nodes": {spec: `{image: nginx, replicas: 3, disruption: {maxUnavailable: 0}}`, wantMessage: "with 0 no node could ever be emptied"},
		"budget of nonsense":           {spec: `{image: nginx, replicas: 3, disruption: {maxUnavailable: most}}`, wantMessage: "say a number of pods from 1 without quotes, or a percentage"},
		"budget of another word":       {spec: `{image: nginx, replicas: 3, disruption: {budget: Always}}`, wantMessage: `supported values: "Auto", "None"`},
	})
	addCases("expose", "", map[string]invalidSpec{
		"expose without ports":         {spec: `{image: nginx, expose: {ingressClassName: nginx}}`, wantMessage: "there is nothing to expose without ports; add the port that the container listens on"},
		"both Gateway and Ingress":     {spec: withExpose(`{gatewayRef: {name: public}, ingressClassName: nginx}`), wantMessage: "say exactly one of gatewayRef (an HTTPRoute for a Gateway) and ingressClassName (an Ingress)"},
		"neither Gateway nor Ingress":  {spec: withExpose(`{hostnames: [shop.example.com]}`), wantMessage: "say exactly one of gatewayRef"},
		"hostname with a scheme":       {spec: withExpose(`{hostnames: ["https://shop.example.com"], ingressClassName: nginx}`), wantMessage: "a hostname is a DNS name in lower case, for example shop.example.com"},
		"hostname with a port":         {spec: withExpose(`{hostnames: ["shop.example.com:443"], ingressClassName: nginx}`), wantMessage: "a hostname is a DNS name in lower case"},
		"hostname that is an address":  {spec: withExpose(`{hostnames: [192.0.2.1], ingressClassName: nginx}`), wantMessage: "and not an address"},
		"hostname twice":               {spec: withExpose(`{hostnames: [a.example.com, a.example.com], ingressClassName: nginx}`), wantMessage: `spec.expose.hostnames[1]: Duplicate value: "a.example.com"`},
		"path to an unknown port":      {spec: withExpose(`{paths: [{path: /, port: 81}], ingressClassName: nginx}`), wantMessage: "a path leads to a port that is not in ports; correct the number, or add the port"},
		"path without a slash":         {spec: withExpose(`{paths: [{path: api}], ingressClassName: nginx}`), wantMessage: "a path begins with /"},
		"path twice":                   {spec: withExpose(`{paths: [{path: /a}, {path: /a}], ingressClassName: nginx}`), wantMessage: "two paths are the same; say each once"},
		"certificate behind a Gateway": {spec: withExpose(`{gatewayRef: {name: public}, tls: {secretName: cert}}`), wantMessage: "behind a Gateway the listener has the certificate; remove tls"},
		"Gateway without a name":       {spec: withExpose(`{gatewayRef: {namespace: infra}}`), wantMessage: "spec.expose.gatewayRef.name: Required value"},
		"hostname with empty label":    {spec: withExpose(`{hostnames: ["shop..example.com"], ingressClassName: nginx}`), wantMessage: "a hostname is a DNS name in lower case"},
		"label of a hostname too long": {
			spec:   withExpose(`{hostnames: ["` + letters(64) + `.example.com"], ingressClassName: nginx}`),
			reason: "InvalidSpec", wantMessage: "which is no DNS name: no part of it may have more than 63 characters",
		},
		"Gateway API is not installed": {spec: withExpose(`{gatewayRef: {name: public}}`), reason: "ApplyFailed", wantMessage: "install the Gateway API, or use expose.ingressClassName instead of expose.gatewayRef"},
	})
	addCases("update", "", map[string]invalidSpec{
		"no room for an update":        {spec: `{image: nginx, update: {maxSurge: 0}}`, wantMessage: "maxSurge and maxUnavailable (0 unless set) cannot both be 0; raise one of them"},
		"no room, in percent":          {spec: `{image: nginx, update: {maxSurge: 0%, maxUnavailable: 0%}}`, wantMessage: "cannot both be 0; raise one of them"},
		"surge in quotes":              {spec: `{image: nginx, update: {maxSurge: "1"}}`, wantMessage: "say a number of pods from 0 to 10000 without quotes, or a percentage"},
		"surge of 150 percent":         {spec: `{image: nginx, update: {maxSurge: 150%}}`, wantMessage: "a percentage from 0% to 100%"},
		"ready only after deadline":    {spec: `{image: nginx, update: {minReadySeconds: 60, progressDeadlineSeconds: 60}}`, wantMessage: "minReadySeconds must be less than progressDeadlineSeconds (600 unless set)"},
		"deadline of no time":          {spec: `{image: nginx, update: {progressDeadlineSeconds: 0}}`, wantMessage: "progressDeadlineSeconds in body should be greater than or equal to 1"},
		"sleeps longer than its grace": {spec: `{image: nginx, preStopSleepSeconds: 31}`, wantMessage: "preStopSleepSeconds is part of terminationGracePeriodSeconds (30 unless set) and cannot be longer"},
		"time as a duration":           {spec: `{image: nginx, terminationGracePeriodSeconds: 30s}`, wantMessage: `terminationGracePeriodSeconds in body must be of type integer: "string"`},
		"strategy of a Deployment":     {spec: `{image: nginx, strategy: {type: Recreate}}`, wantMessage: `unknown field "spec.strategy"`},
	})
}

func withExpose(expose string) string {
	return `{image: "shop/web:1", ports: [{name: http, port: 80, targetPort: 8080}], expose: ` + expose + `}`
}

func letters(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = 'a'
	}
	return string(b)
}

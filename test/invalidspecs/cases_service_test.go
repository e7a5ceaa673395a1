package invalidspecs_test

import "slices"

// Errors in ports, scaling and updates of a service.
var serviceCases = slices.Concat(
	classCases("ports", "", map[string]invalidSpec{
		"port 0":                               {spec: `{image: nginx, ports: [{port: 0}]}`, wantMessage: "spec.ports[0].port in body should be greater than or equal to 1"},
		"port 65536":                           {spec: `{image: nginx, ports: [{port: 65536}]}`, wantMessage: "spec.ports[0].port in body should be less than or equal to 65535"},
		"port without a number":                {spec: `{image: nginx, ports: [{name: http}]}`, wantMessage: "spec.ports[0].port: Required value"},
		"ports as plain numbers":               {spec: `{image: nginx, ports: [80]}`, wantMessage: `spec.ports[0] in body must be of type object: "integer"`},
		"ports as with docker":                 {spec: `{image: nginx, ports: ["8080:80"]}`, wantMessage: `spec.ports[0] in body must be of type object: "string"`},
		"containerPort":                        {spec: `{image: nginx, ports: [{containerPort: 80}]}`, wantMessage: `unknown field "spec.ports[0].containerPort"`},
		"several ports without names":          {spec: `{image: nginx, ports: [{port: 80}, {port: 81}]}`, wantMessage: "each port must have a name if there is more than one, for example {name: http, port: 80}"},
		"duplicate port":                       {spec: `{image: nginx, ports: [{port: 80, name: a}, {port: 80, name: b}]}`, wantMessage: `spec.ports[1]: Duplicate value: {"port":80,"protocol":"TCP"}`},
		"duplicate port name":                  {spec: `{image: nginx, ports: [{port: 80, name: http}, {port: 81, name: http}]}`, wantMessage: "two ports have the same name; use different names"},
		"port name in upper case":              {spec: `{image: nginx, ports: [{port: 80, name: HTTP}]}`, wantMessage: "a port name must consist of a-z, 0-9 and single - between them"},
		"port name of 16 letters":              {spec: `{image: nginx, ports: [{port: 80, name: abcdefghijklmnop}]}`, wantMessage: "spec.ports[0].name: Too long: may not be more than 15 bytes"},
		"protocol HTTP":                        {spec: `{image: nginx, ports: [{port: 80, protocol: HTTP}]}`, wantMessage: `supported values: "TCP", "UDP", "SCTP"`},
		"targetPort by name":                   {spec: `{image: nginx, ports: [{port: 80, targetPort: http}]}`, wantMessage: `spec.ports[0].targetPort in body must be of type integer: "string"`},
		"existing Service becomes headless":    {spec: `{image: "shop/web:1", ports: [{name: http, port: 80, targetPort: 8080}], service: {type: Headless}}`, wantMessage: "an existing Service cannot change to or from type Headless; keep the type, or use a new name"},
		"reserved Service annotation":          {spec: `{image: nginx, ports: [{port: 80}], service: {annotations: {apps.holdfast.dev/adopt: "true"}}}`, wantMessage: "annotations with the prefix apps.holdfast.dev/ are reserved for Holdfast"},
		"annotation as a boolean":              {spec: `{image: nginx, ports: [{port: 80}], service: {annotations: {example.com/internal: true}}}`, wantMessage: `must be of type string: "boolean"`},
		"invalid name of a Service annotation": {spec: `{image: "shop/web:1", ports: [{name: http, port: 80}], service: {annotations: {"not a name": "true"}}}`, reason: "InvalidSpec", wantMessage: `service.annotations contains "not a name", which is not a valid name`},
	}),
	classCases("scaling", "", map[string]invalidSpec{
		"autoscaling and replicas":     {spec: `{image: nginx, replicas: 2, autoscaling: {maxReplicas: 3, targetCPUUtilization: 70}}`, wantMessage: "autoscaling and replicas are mutually exclusive; remove one of them"},
		"autoscaling without a target": {spec: `{image: nginx, autoscaling: {maxReplicas: 3}}`, wantMessage: "autoscaling requires a target; set targetCPUUtilization"},
		"autoscaling without maximum":  {spec: `{image: nginx, autoscaling: {minReplicas: 1, targetCPUUtilization: 70}}`, wantMessage: "spec.autoscaling.maxReplicas: Required value"},
		"minimum above maximum":        {spec: `{image: nginx, autoscaling: {minReplicas: 4, maxReplicas: 3, targetCPUUtilization: 70}}`, wantMessage: "minReplicas must not exceed maxReplicas; lower minReplicas or raise maxReplicas"},
		"target as a percentage":       {spec: `{image: nginx, autoscaling: {maxReplicas: 3, targetCPUUtilization: 70%}}`, wantMessage: `targetCPUUtilization in body must be of type integer: "string"`},
		"scale to zero":                {spec: `{image: nginx, autoscaling: {minReplicas: 0, maxReplicas: 3, targetCPUUtilization: 70}}`, wantMessage: "minReplicas in body should be greater than or equal to 1"},
		"budget that blocks drains":    {spec: `{image: nginx, replicas: 3, disruption: {maxUnavailable: 0}}`, wantMessage: "with 0, nodes could never be drained"},
		"budget that is not a number":  {spec: `{image: nginx, replicas: 3, disruption: {maxUnavailable: most}}`, wantMessage: "maxUnavailable must be a number of pods from 1 to 10000 without quotes, or a percentage"},
		"unsupported budget":           {spec: `{image: nginx, replicas: 3, disruption: {budget: Always}}`, wantMessage: `supported values: "Auto", "None"`},
	}),
	classCases("expose", "", map[string]invalidSpec{
		"expose without ports":         {spec: `{image: nginx, expose: {ingressClassName: nginx}}`, wantMessage: "expose requires ports; add the port that the container listens on"},
		"both Gateway and Ingress":     {spec: withExpose(`{gatewayRef: {name: public}, ingressClassName: nginx}`), wantMessage: "expose must set exactly one of gatewayRef (creates an HTTPRoute) and ingressClassName (creates an Ingress)"},
		"neither Gateway nor Ingress":  {spec: withExpose(`{hostnames: [shop.example.com]}`), wantMessage: "expose must set exactly one of gatewayRef"},
		"hostname with a scheme":       {spec: withExpose(`{hostnames: ["https://shop.example.com"], ingressClassName: nginx}`), wantMessage: "a hostname must be a lowercase DNS name and not an IP address, for example shop.example.com"},
		"hostname with a port":         {spec: withExpose(`{hostnames: ["shop.example.com:443"], ingressClassName: nginx}`), wantMessage: "a hostname must be a lowercase DNS name"},
		"hostname that is an address":  {spec: withExpose(`{hostnames: [192.0.2.1], ingressClassName: nginx}`), wantMessage: "and not an IP address"},
		"duplicate hostname":           {spec: withExpose(`{hostnames: [a.example.com, a.example.com], ingressClassName: nginx}`), wantMessage: `spec.expose.hostnames[1]: Duplicate value: "a.example.com"`},
		"path to an unknown port":      {spec: withExpose(`{paths: [{path: /, port: 81}], ingressClassName: nginx}`), wantMessage: "a path references a port that is not in ports; correct the port number, or add the port"},
		"path without a slash":         {spec: withExpose(`{paths: [{path: api}], ingressClassName: nginx}`), wantMessage: "a path must start with /"},
		"duplicate path":               {spec: withExpose(`{paths: [{path: /a}, {path: /a}], ingressClassName: nginx}`), wantMessage: "paths contains the same path twice; remove one of them"},
		"certificate behind a Gateway": {spec: withExpose(`{gatewayRef: {name: public}, tls: {secretName: cert}}`), wantMessage: "the listener of the Gateway has the certificate; remove tls"},
		"Gateway without a name":       {spec: withExpose(`{gatewayRef: {namespace: infra}}`), wantMessage: "spec.expose.gatewayRef.name: Required value"},
		"hostname with empty label":    {spec: withExpose(`{hostnames: ["shop..example.com"], ingressClassName: nginx}`), wantMessage: "a hostname must be a lowercase DNS name"},
		"label of a hostname too long": {
			spec:   withExpose(`{hostnames: ["` + letters(64) + `.example.com"], ingressClassName: nginx}`),
			reason: "InvalidSpec", wantMessage: "which is not a valid DNS name: each part can have at most 63 characters",
		},
		"Gateway API is not installed": {spec: withExpose(`{gatewayRef: {name: public}}`), reason: "ApplyFailed", wantMessage: "install the Gateway API, or use expose.ingressClassName instead of expose.gatewayRef"},
	}),
	classCases("update", "", map[string]invalidSpec{
		"maxSurge and maxUnavailable 0":        {spec: `{image: nginx, update: {maxSurge: 0}}`, wantMessage: "maxSurge and maxUnavailable (default 0) cannot both be 0; raise one of them"},
		"maxSurge and maxUnavailable 0%":       {spec: `{image: nginx, update: {maxSurge: 0%, maxUnavailable: 0%}}`, wantMessage: "cannot both be 0; raise one of them"},
		"surge in quotes":                      {spec: `{image: nginx, update: {maxSurge: "1"}}`, wantMessage: "must be a number of pods from 0 to 10000 without quotes, or a percentage"},
		"surge of 150 percent":                 {spec: `{image: nginx, update: {maxSurge: 150%}}`, wantMessage: "a percentage from 0% to 100%"},
		"minReadySeconds above the deadline":   {spec: `{image: nginx, update: {minReadySeconds: 60, progressDeadlineSeconds: 60}}`, wantMessage: "minReadySeconds must be less than progressDeadlineSeconds (default 600)"},
		"progress deadline of 0":               {spec: `{image: nginx, update: {progressDeadlineSeconds: 0}}`, wantMessage: "progressDeadlineSeconds in body should be greater than or equal to 1"},
		"preStop sleep above the grace period": {spec: `{image: nginx, preStopSleepSeconds: 31}`, wantMessage: "preStopSleepSeconds must not exceed terminationGracePeriodSeconds (default 30)"},
		"time as a duration":                   {spec: `{image: nginx, terminationGracePeriodSeconds: 30s}`, wantMessage: `terminationGracePeriodSeconds in body must be of type integer: "string"`},
		"strategy of a Deployment":             {spec: `{image: nginx, strategy: {type: Recreate}}`, wantMessage: `unknown field "spec.strategy"`},
	}),
)

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

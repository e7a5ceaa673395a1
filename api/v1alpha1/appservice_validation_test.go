package v1alpha1_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
)

func testAppService(t *testing.T, apps dynamic.ResourceInterface) {
	t.Run("accepted", func(t *testing.T) { testServiceAccepted(t, apps) })
	t.Run("rejected", func(t *testing.T) { testServiceRejected(t, apps) })
	t.Run("name", func(t *testing.T) { testServiceName(t, apps) })
	t.Run("update", func(t *testing.T) { testServiceUpdate(t, apps) })
	t.Run("status", func(t *testing.T) { testServiceStatus(t, apps) })
	t.Run("scale", func(t *testing.T) { testServiceScale(t, apps) })
}

// testServiceAccepted checks which specs are valid and how the API server stores them.
func testServiceAccepted(t *testing.T, apps dynamic.ResourceInterface) {
	tests := map[string]struct {
		spec string
		want string // the stored spec if it is different
	}{
		"only an image":                {spec: `{image: nginx}`},
		"a digest":                     {spec: `{image: "registry.example.com:5000/shop/web@sha256:0123456789abcdef"}`},
		"zero replicas":                {spec: `{image: nginx, replicas: 0}`},
		"one port without a name":      {spec: `{image: nginx, ports: [{port: 80}]}`, want: `{image: nginx, ports: [{port: 80, protocol: TCP}]}`},
		"a port in two protocols":      {spec: `{image: dns, ports: [{port: 53, protocol: UDP, name: dns}, {port: 53, protocol: TCP, name: dns-tcp}]}`},
		"two ports with one target":    {spec: `{image: nginx, ports: [{port: 80, protocol: TCP, name: a, targetPort: 8080}, {port: 81, protocol: TCP, name: b, targetPort: 8080}]}`},
		"port names":                   {spec: `{image: nginx, ports: [{port: 1, protocol: TCP, name: h2}, {port: 2, protocol: TCP, name: 2h}, {port: 3, protocol: TCP, name: a-b-c}]}`},
		"sleep of the grace period":    {spec: `{image: nginx, preStopSleepSeconds: 30}`},
		"longer sleep":                 {spec: `{image: nginx, preStopSleepSeconds: 60, terminationGracePeriodSeconds: 60}`},
		"no sleep, no grace period":    {spec: `{image: nginx, preStopSleepSeconds: 0, terminationGracePeriodSeconds: 0}`},
		"maxSurge 0":                   {spec: `{image: nginx, update: {maxSurge: 0, maxUnavailable: 1}}`},
		"percentages":                  {spec: `{image: nginx, update: {maxSurge: 25%, maxUnavailable: 100%}}`},
		"maxUnavailable 0%":            {spec: `{image: nginx, update: {maxUnavailable: 0%}}`},
		"long minReadySeconds":         {spec: `{image: nginx, update: {minReadySeconds: 600, progressDeadlineSeconds: 601}}`},
		"root at level Baseline":       {spec: `{image: nginx, security: {level: Baseline, runAsUser: 0}}`},
		"root at the default level":    {spec: `{image: nginx, security: {runAsUser: 0}}`},
		"non-root at level Restricted": {spec: `{image: nginx, security: {level: Restricted, runAsUser: 65534}}`},
		"annotation of another prefix": {spec: `{image: nginx, service: {annotations: {example.com/apps.holdfast.dev: internal}}}`},
		"rollOnChange false":           {spec: `{image: nginx, config: {rollOnChange: false}}`},
		"empty settings":               {spec: `{image: nginx, ports: [], env: [], service: {}, update: {}, config: {}, security: {}, probes: {}, resources: {}}`},
		"all fields": {spec: `
image: nginx:1.27
imagePullPolicy: IfNotPresent
imagePullSecrets: [{name: registry}]
command: [nginx]
args: [-g, daemon off;]
env:
- {name: MODE, value: production}
- {name: PASSWORD, valueFrom: {secretKeyRef: {name: web, key: password}}}
envFrom: [{prefix: APP_, configMapRef: {name: web}}]
resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {memory: 128Mi}}
probes:
  readiness: {httpGet: {path: /ready, port: http}, periodSeconds: 2}
  liveness: {tcpSocket: {port: 80}}
  startup: {exec: {command: [test, -e, /started]}}
preStopSleepSeconds: 10
terminationGracePeriodSeconds: 60
replicas: 3
ports: [{name: http, port: 80, targetPort: 8080, protocol: TCP}]
service: {type: LoadBalancer, annotations: {example.com/internal: "true"}, sessionAffinity: ClientIP}
update: {maxSurge: 2, maxUnavailable: 10%, minReadySeconds: 5, progressDeadlineSeconds: 300}
config: {rollOnChange: true}
security: {level: Restricted, runAsUser: 1000, runAsGroup: 1000, fsGroup: 1000, readOnlyRootFilesystem: true}
suspend: true
operations: [{component: web, restartRequestedAt: "2026-01-02T03:04:05Z", replicas: 3}]`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if tc.want == "" {
				tc.want = tc.spec
			}
			got, err := apps.Create(t.Context(), appService(t, "web", tc.spec), dryRun)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(parse(t, tc.want), got.Object["spec"]); diff != "" {
				t.Errorf("stored spec (-want +got):\n%s", diff)
			}
		})
	}
}

// testServiceRejected checks which specs are invalid and that the message names the fix.
func testServiceRejected(t *testing.T, apps dynamic.ResourceInterface) {
	tests := map[string]struct {
		spec string
		want []string // "field: end of the message", sorted by field
	}{
		"no image": {
			spec: `{replicas: 1}`,
			want: []string{"spec.image: Required value"},
		},
		"probes of another host": {
			spec: `{image: nginx, probes: {readiness: {httpGet: {host: 169.254.169.254, port: 80}}, liveness: {tcpSocket: {host: 10.0.0.1, port: 22}}}}`,
			want: []string{
				"spec.probes.liveness: Invalid value: a probe must not set host, because the node sends it with its own access to the network; remove host to check the pod",
				"spec.probes.readiness: Invalid value: a probe must not set host, because the node sends it with its own access to the network; remove host to check the pod",
			},
		},
		"empty image": {
			spec: `{image: ""}`,
			want: []string{"spec.image: image must be a lowercase image name with an optional tag or digest, without spaces or https://, for example nginx:1.27 or registry.example.com/shop/web:1"},
		},
		"image with a space": {
			spec: `{image: "nginx: 1.27"}`,
			want: []string{"spec.image: image must be a lowercase image name with an optional tag or digest, without spaces or https://, for example nginx:1.27 or registry.example.com/shop/web:1"},
		},
		"image with a line break": {
			spec: `{image: "nginx\n"}`,
			want: []string{"spec.image: image must be a lowercase image name with an optional tag or digest, without spaces or https://, for example nginx:1.27 or registry.example.com/shop/web:1"},
		},
		"image that is too long": {
			spec: `{image: ` + strings.Repeat("x", 1025) + `}`,
			want: []string{"spec.image: Too long: may not be more than 1024 bytes"},
		},
		"pull policy in lower case": {
			spec: `{image: nginx, imagePullPolicy: always}`,
			want: []string{`spec.imagePullPolicy: Unsupported value: "always": supported values: "Always", "IfNotPresent", "Never"`},
		},
		"duplicate variable": {
			spec: `{image: nginx, env: [{name: MODE, value: a}, {name: MODE, value: b}]}`,
			want: []string{`spec.env[1]: Duplicate value: {"name":"MODE"}`},
		},
		"number as the value of a variable": {
			spec: `{image: nginx, env: [{name: PORT, value: 80}]}`,
			want: []string{`spec.env[0].value: spec.env[0].value in body must be of type string: "integer"`},
		},
		"negative replicas": {
			spec: `{image: nginx, replicas: -1}`,
			want: []string{".spec.replicas: should be a non-negative integer", "spec.replicas: spec.replicas in body should be greater than or equal to 0"},
		},
		"too many replicas": {
			spec: `{image: nginx, replicas: 10001}`,
			want: []string{"spec.replicas: spec.replicas in body should be less than or equal to 10000"},
		},
		"port without a number": {
			spec: `{image: nginx, ports: [{name: http}]}`,
			want: []string{"spec.ports[0].port: Required value"},
		},
		"port 0": {
			spec: `{image: nginx, ports: [{port: 0}]}`,
			want: []string{"spec.ports[0].port: spec.ports[0].port in body should be greater than or equal to 1"},
		},
		"target port above 65535": {
			spec: `{image: nginx, ports: [{port: 80, targetPort: 65536}]}`,
			want: []string{"spec.ports[0].targetPort: spec.ports[0].targetPort in body should be less than or equal to 65535"},
		},
		"protocol in lower case": {
			spec: `{image: nginx, ports: [{port: 80, protocol: tcp}]}`,
			want: []string{`spec.ports[0].protocol: Unsupported value: "tcp": supported values: "TCP", "UDP", "SCTP"`},
		},
		"several ports without names": {
			spec: `{image: nginx, ports: [{port: 80, name: http}, {port: 81}]}`,
			want: []string{"spec.ports: each port must have a name if there is more than one, for example {name: http, port: 80}"},
		},
		"duplicate port": {
			spec: `{image: nginx, ports: [{port: 80, name: a}, {port: 80, name: b}]}`,
			want: []string{`spec.ports[1]: Duplicate value: {"port":80,"protocol":"TCP"}`},
		},
		"duplicate port name": {
			spec: `{image: nginx, ports: [{port: 80, name: http}, {port: 53, name: dns}, {port: 81, name: http}]}`,
			want: []string{"spec.ports: two ports have the same name; use different names, for example dns and dns-tcp"},
		},
		"port name in upper case": {
			spec: `{image: nginx, ports: [{port: 80, name: HTTP}]}`,
			want: []string{"spec.ports[0].name: a port name must consist of a-z, 0-9 and single - between them, and contain at least one letter, for example http or grpc-web"},
		},
		"port name without a letter": {
			spec: `{image: nginx, ports: [{port: 80, name: "80"}]}`,
			want: []string{"spec.ports[0].name: a port name must consist of a-z, 0-9 and single - between them, and contain at least one letter, for example http or grpc-web"},
		},
		"port name with two dashes": {
			spec: `{image: nginx, ports: [{port: 80, name: a--b}]}`,
			want: []string{"spec.ports[0].name: a port name must consist of a-z, 0-9 and single - between them, and contain at least one letter, for example http or grpc-web"},
		},
		"port name that is too long": {
			spec: `{image: nginx, ports: [{port: 80, name: abcdefghijklmnop}]}`,
			want: []string{"spec.ports[0].name: Too long: may not be more than 15 bytes"},
		},
		"too many ports": {
			spec: `{image: nginx, ports: [` + portList(17) + `]}`,
			want: []string{"spec.ports: Too many: 17: must have at most 16 items"},
		},
		"unknown type of Service": {
			spec: `{image: nginx, service: {type: ExternalName}}`,
			want: []string{`spec.service.type: Unsupported value: "ExternalName": supported values: "ClusterIP", "NodePort", "LoadBalancer", "Headless"`},
		},
		"reserved annotation": {
			spec: `{image: nginx, service: {annotations: {apps.holdfast.dev/adopt: "true"}}}`,
			want: []string{"spec.service.annotations: annotations with the prefix apps.holdfast.dev/ are reserved for Holdfast; remove them"},
		},
		"probe without a handler": {
			spec: `{image: nginx, probes: {readiness: {}, liveness: {periodSeconds: 3}, startup: {}}}`,
			want: []string{
				"spec.probes.liveness: a probe must set exactly one of httpGet, tcpSocket, grpc and exec",
				"spec.probes.readiness: a probe must set exactly one of httpGet, tcpSocket, grpc and exec",
				"spec.probes.startup: a probe must set exactly one of httpGet, tcpSocket, grpc and exec",
			},
		},
		"probe with two handlers": {
			spec: `{image: nginx, probes: {readiness: {tcpSocket: {port: 80}, exec: {command: ["true"]}}}}`,
			want: []string{"spec.probes.readiness: a probe must set exactly one of httpGet, tcpSocket, grpc and exec"},
		},
		"sleep longer than the default grace period": {
			spec: `{image: nginx, preStopSleepSeconds: 31}`,
			want: []string{"spec.preStopSleepSeconds: preStopSleepSeconds must not exceed terminationGracePeriodSeconds (default 30); lower preStopSleepSeconds or raise terminationGracePeriodSeconds"},
		},
		"sleep longer than the grace period": {
			spec: `{image: nginx, preStopSleepSeconds: 11, terminationGracePeriodSeconds: 10}`,
			want: []string{"spec.preStopSleepSeconds: preStopSleepSeconds must not exceed terminationGracePeriodSeconds (default 30); lower preStopSleepSeconds or raise terminationGracePeriodSeconds"},
		},
		"maxSurge and maxUnavailable 0": {
			spec: `{image: nginx, update: {maxSurge: 0}}`,
			want: []string{"spec.update: maxSurge and maxUnavailable (default 0) cannot both be 0; raise one of them"},
		},
		"maxSurge and maxUnavailable 0%": {
			spec: `{image: nginx, update: {maxSurge: 0%, maxUnavailable: 0%}}`,
			want: []string{"spec.update: maxSurge and maxUnavailable (default 0) cannot both be 0; raise one of them"},
		},
		"negative maxSurge": {
			spec: `{image: nginx, update: {maxSurge: -1}}`,
			want: []string{"spec.update.maxSurge: maxSurge must be a number of pods from 0 to 10000 without quotes, or a percentage from 0% to 100%"},
		},
		"maxSurge in quotes": {
			spec: `{image: nginx, update: {maxSurge: "1"}}`,
			want: []string{"spec.update.maxSurge: maxSurge must be a number of pods from 0 to 10000 without quotes, or a percentage from 0% to 100%"},
		},
		"maxUnavailable above 100%": {
			spec: `{image: nginx, update: {maxUnavailable: 101%}}`,
			want: []string{"spec.update.maxUnavailable: maxUnavailable must be a number of pods from 0 to 10000 without quotes, or a percentage from 0% to 100%"},
		},
		"minReadySeconds not below the deadline": {
			spec: `{image: nginx, update: {minReadySeconds: 600}}`,
			want: []string{"spec.update.minReadySeconds: minReadySeconds must be less than progressDeadlineSeconds (default 600); lower minReadySeconds or raise progressDeadlineSeconds"},
		},
		"root at level Restricted": {
			spec: `{image: nginx, security: {level: Restricted, runAsUser: 0}}`,
			want: []string{"spec.security.runAsUser: level Restricted does not allow user 0 (root); set another runAsUser, or level Baseline"},
		},
		"unknown security level": {
			spec: `{image: nginx, security: {level: Privileged}}`,
			want: []string{`spec.security.level: Unsupported value: "Privileged": supported values: "Baseline", "Restricted"`},
		},
		"misspelled field": {
			spec: `{image: nginx, replica: 2, update: {maxsurge: 1}}`,
			want: []string{`AppService in version "v1alpha1" cannot be handled as a AppService: strict decoding error: unknown field "spec.replica", unknown field "spec.update.maxsurge"`},
		},
		"misspelled field of a probe": {
			spec: `{image: nginx, probes: {readiness: {httpGet: {port: 80, uri: /}}}}`,
			want: []string{`AppService in version "v1alpha1" cannot be handled as a AppService: strict decoding error: unknown field "spec.probes.readiness.httpGet.uri"`},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := apps.Create(t.Context(), appService(t, "web", tc.spec), dryRun)
			wantRejected(t, err, tc.want...)
		})
	}
}

func testServiceName(t *testing.T, apps dynamic.ResourceInterface) {
	const want = "metadata: the name is used as the name of a Service: it must have at most 63 characters of a-z, 0-9 and -, start with a letter and not end with -"
	tests := map[string]struct {
		name     string
		rejected bool
	}{
		"one letter":      {name: "w"},
		"63 characters":   {name: strings.Repeat("w", 63)},
		"64 characters":   {name: strings.Repeat("w", 64), rejected: true},
		"leading digit":   {name: "2web", rejected: true},
		"name with a dot": {name: "web.shop", rejected: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := apps.Create(t.Context(), appService(t, tc.name, `{image: nginx}`), dryRun)
			if tc.rejected {
				wantRejected(t, err, want)
				return
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// testServiceUpdate checks which changes of a spec are valid.
func testServiceUpdate(t *testing.T, apps dynamic.ResourceInterface) {
	const headless = "spec.service.type: an existing Service cannot change to or from type Headless; keep the type, or use a new name"
	tests := map[string]struct {
		before, after string
		want          []string
	}{
		"another image":         {before: `{image: nginx:1}`, after: `{image: nginx:2}`},
		"replicas removed":      {before: `{image: nginx, replicas: 2}`, after: `{image: nginx}`},
		"LoadBalancer added":    {before: `{image: nginx}`, after: `{image: nginx, service: {type: LoadBalancer}}`},
		"LoadBalancer removed":  {before: `{image: nginx, service: {type: LoadBalancer}}`, after: `{image: nginx}`},
		"Headless unchanged":    {before: `{image: nginx, service: {type: Headless}}`, after: `{image: nginx, service: {type: Headless, sessionAffinity: None}}`},
		"changed to Headless":   {before: `{image: nginx}`, after: `{image: nginx, service: {type: Headless}}`, want: []string{headless}},
		"NodePort to Headless":  {before: `{image: nginx, service: {type: NodePort}}`, after: `{image: nginx, service: {type: Headless}}`, want: []string{headless}},
		"Headless to ClusterIP": {before: `{image: nginx, service: {type: Headless}}`, after: `{image: nginx, service: {type: ClusterIP}}`, want: []string{headless}},
		"Headless removed":      {before: `{image: nginx, service: {type: Headless}}`, after: `{image: nginx}`, want: []string{headless}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			stored := create(t, apps, appService(t, "web", tc.before))
			stored.Object["spec"] = parse(t, tc.after)
			_, err := apps.Update(t.Context(), stored, metav1.UpdateOptions{FieldValidation: strict})
			if tc.want != nil {
				wantRejected(t, err, tc.want...)
				return
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// portList returns a list of n ports.
func portList(n int) string {
	ports := make([]string, n)
	for i := range ports {
		ports[i] = fmt.Sprintf("{name: port-%d, port: %d}", i, 8000+i)
	}
	return strings.Join(ports, ", ")
}

func appService(t *testing.T, name, spec string) *unstructured.Unstructured {
	t.Helper()
	return manifest(t, "AppService", name, spec)
}

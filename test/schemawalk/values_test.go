package schemawalk

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"
)

// namePlaceholder is replaced by the name of the object, because values that are names of children must be unique.
const namePlaceholder = "MYNAME"

// valueHint contains two valid values of a field as YAML, for fields whose schema is not specific enough. A field
// with only one valid value has it twice.
type valueHint struct{ path, a, b string }

// valueHints are matched in order against the end of the path within a component.
var valueHints = []valueHint{
	{`autoscaling\.minReplicas`, "2", "3"},
	{`autoscaling\.maxReplicas`, "5", "6"},
	{`config\.files\[\]\.path`, "/etc/app/alpha", "/etc/app/beta"},
	{`disruption\.maxUnavailable`, "2", `"30%"`},
	{`env\[\]\.name`, "ALPHA", "BETA"},
	{`fieldRef\.apiVersion`, "v1", "v1"},
	{`fieldRef\.fieldPath`, "metadata.name", "metadata.namespace"},
	{`resourceFieldRef\.containerName`, "app", "app"},
	{`resourceFieldRef\.divisor`, `"1"`, "1m"},
	{`resourceFieldRef\.resource`, "limits.cpu", "requests.cpu"},
	{`fileKeyRef\.key`, "ALPHA", "BETA"},
	{`envFrom\[\]\.prefix`, "ALPHA_", "BETA_"},
	{`bindings\[\]\.envPrefix`, "ALPHA", "BETA"},
	{`expose\.hostnames`, "[alpha.example.com]", `[beta.example.com, "*.example.com"]`},
	{`expose\.paths\[\]\.path`, "/alpha", "/beta"},
	{`expose\.paths\[\]\.port`, "80", "8080"},
	{`database\.image`, "shop/mariadb:11.8", "registry.example.com/shop/mariadb:11.8"},
	{`database\.version`, `"11.8"`, `"11.8.0"`},
	{`database\.database`, "alpha", "beta"},
	{`^image`, "shop/web:2", "registry.example.com/shop/web:3"},
	{`(job|service|stateful|deployment|statefulSet)\.image`, "shop/web:2", "registry.example.com/shop/web:3"},
	{`podLabels|podAnnotations|nodeSelector`, "{example.com/alpha: one}", "{example.com/beta: two}"},
	{`service\.annotations`, "{example.com/alpha: one}", "{example.com/beta: two}"},
	{`podTemplateOverlay`, "{spec: {dnsPolicy: Default, containers: [{name: app, tty: true}]}}",
		"{metadata: {labels: {alpha: one}}, spec: {containers: [{name: beside, image: shop/beside:1}], initContainers: [{name: before, image: shop/before:1}]}}"},
	{`ports\[\]\.port`, "81", "8082"},
	{`ports\[\]\.targetPort`, "8080", "8081"},
	{`ports\[\]\.protocol`, "UDP", "SCTP"},
	{`ports\[\]\.name`, "alpha", "beta"},
	{`preStopSleepSeconds`, "1", "2"},
	{`(liveness|startup)\.successThreshold`, "1", "1"},
	{`successThreshold|failureThreshold|initialDelaySeconds`, "2", "4"},
	{`periodSeconds|timeoutSeconds`, "3", "5"},
	{`(httpGet|tcpSocket)\.port`, "81", "http"},
	{`grpc\.port`, "81", "82"},
	{`httpGet\.path`, "/alpha", "/beta"},
	{`httpGet\.scheme`, "HTTPS", "HTTP"},
	{`httpHeaders\[\]\.name`, "X-Alpha", "X-Beta"},
	{`operations\[\]\.component`, "walked", "other"},
	{`replicas`, "3", "0"},
	{`resources\.(limits|requests)`, "{cpu: 500m, memory: 128Mi}", "{cpu: 250m, ephemeral-storage: 1Gi}"},
	{`tolerations\[\]\.effect`, "NoSchedule", "NoExecute"},
	{`tolerations\[\]\.operator`, "Exists", "Equal"},
	{`tolerationSeconds`, "30", "60"},
	{`runAsUser|runAsGroup|fsGroup`, "1000", "1001"},
	{`service\.type`, "NodePort", "LoadBalancer"},
	{`sessionAffinity`, "ClientIP", "None"},
	{`scheduling\.spread`, "Hard", "None"},
	{`security\.level`, "Restricted", "Baseline"},
	{`update\.(maxSurge|maxUnavailable)`, "2", `"50%"`},
	{`minReadySeconds`, "5", "6"},
	{`progressDeadlineSeconds`, "700", "800"},
	{`activeDeadlineSeconds`, "700", "800"},
	{`backoffLimit`, "3", "0"},
	{`terminationGracePeriodSeconds`, "40", "50"},
	{`job\.schedule`, `"0 3 * * *"`, `"@hourly"`},
	{`defaultMode`, "256", "292"},
	{`mountPath`, "/alpha", "/beta"},
	{`revisionHistoryLimit`, "2", "3"},
	{`components\[\]\.name`, "walked", "renamed"},
	{`components\[\]\.renamedFrom`, "alpha", "beta"},
	{`storage(\[\])?\.size`, "2Gi", "3Gi"}, // a volume can only be expanded
	{`storage(\[\])?\.className|storage\.class`, "standard", "local-path"},
	{`accessModes?`, "ReadWriteOncePod", "ReadWriteMany"}, // not the default
	{`credentials\[\]\.env`, "ALPHA", "BETA"},
	{`resourceName|deployment\.name`, namePlaceholder + "-alpha", namePlaceholder + "-beta"},
	{`dependsOn`, "[other]", "[third]"},
	{`bindings\[\]\.component`, "other", "third"},
	{`imagePullPolicy`, "Always", "Never"},
}

var hintPatterns = func() []*regexp.Regexp {
	var out []*regexp.Regexp
	for _, h := range valueHints {
		out = append(out, regexp.MustCompile("("+h.path+")$"))
	}
	return out
}()

// valuesFor returns the two values of a field, from the hints or else from the schema.
func valuesFor(path string, n *schemaNode) (a, b any) {
	for i, h := range valueHints {
		if hintPatterns[i].MatchString(path) {
			return parseYAML(h.a), parseYAML(h.b)
		}
	}
	return valuesFromSchema(n)
}

func valuesFromSchema(n *schemaNode) (a, b any) {
	switch {
	case n.XIntOrString && n.Pattern != "": // a quantity
		return "1Gi", "2Gi"
	case n.XIntOrString:
		return int64(1), "30%"
	case len(n.Enum) > 0:
		return parseYAML(string(n.Enum[0].Raw)), parseYAML(string(n.Enum[min(1, len(n.Enum)-1)].Raw))
	case n.Type == "boolean":
		return true, false
	case n.Type == "integer":
		minimum := 1.0
		if n.Minimum != nil {
			minimum = math.Max(minimum, *n.Minimum)
		}
		return int64(minimum), int64(minimum) + 1
	case n.Type == "array":
		return []any{"alpha"}, []any{"beta", "gamma"}
	case n.Type == "object":
		return map[string]any{"alpha": "one"}, map[string]any{"beta": "two"}
	}
	return "alpha", "beta"
}

// parseYAML parses YAML.
func parseYAML(text string) any {
	content, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		panic(fmt.Sprintf("%s: %v", text, err))
	}
	return decodeJSON(string(content))
}

// decodeJSON decodes JSON as the API server does: integers stay integers.
func decodeJSON(text string) any {
	var out any
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&out); err != nil {
		panic(fmt.Sprintf("%s: %v", text, err))
	}
	return convertNumbers(out)
}

func convertNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		n, err := v.Int64()
		if err != nil {
			panic(err)
		}
		return n
	case map[string]any:
		for k := range v {
			v[k] = convertNumbers(v[k])
		}
	case []any:
		for i := range v {
			v[i] = convertNumbers(v[i])
		}
	}
	return v
}

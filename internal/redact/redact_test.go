package redact_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-dev/holdfast/internal/redact"
)

// canary is in every value that must be hidden.
const canary = "kanarienvogel"

func TestObject(t *testing.T) {
	cases := map[string]struct{ object, want string }{
		"environment: names and references stay": {
			object: `{kind: Pod, spec: {containers: [{name: web, env: [{name: MODE, value: kanarienvogel}, {name: EMPTY, value: ""}, {name: DB, valueFrom: {secretKeyRef: {name: db, key: password}}}]}]}}`,
			want:   `{kind: Pod, spec: {containers: [{name: web, env: [{name: MODE, value: (hidden)}, {name: EMPTY, value: ""}, {name: DB, valueFrom: {secretKeyRef: {name: db, key: password}}}]}]}}`,
		},
		"environment: in an AppStack and in an overlay": {
			object: `{kind: AppStack, spec: {components: [{name: web, service: {env: [{name: A, value: kanarienvogel}], podTemplateOverlay: {spec: {initContainers: [{name: x, env: [{name: B, value: kanarienvogel}]}]}}}}]}}`,
			want:   `{kind: AppStack, spec: {components: [{name: web, service: {env: [{name: A, value: (hidden)}], podTemplateOverlay: {spec: {initContainers: [{name: x, env: [{name: B, value: (hidden)}]}]}}}}]}}`,
		},
		"root password": {
			object: `{kind: CloudManager, spec: {db: {rootPass: kanarienvogel, rootPasswordSecretRef: {name: db, key: root}}}}`,
			want:   `{kind: CloudManager, spec: {db: {rootPass: (hidden), rootPasswordSecretRef: {name: db, key: root}}}}`,
		},
		"annotations with a copy of an object": {
			object: `{metadata: {annotations: {kubectl.kubernetes.io/last-applied-configuration: "kanarienvogel", other/original: '{"spec": "kanarienvogel"}', apps.holdfast.dev/config-refs: "[kanarienvogel]", apps.holdfast.dev/config-hash: "kanarienvogel", example.com/api-token: kanarienvogel, apps.holdfast.dev/depends-on: "db,identity"}}}`,
			want:   `{metadata: {annotations: {kubectl.kubernetes.io/last-applied-configuration: "(omitted: 13 bytes)", other/original: "(omitted: 25 bytes)", apps.holdfast.dev/config-refs: (hidden), apps.holdfast.dev/config-hash: (hidden), example.com/api-token: (hidden), apps.holdfast.dev/depends-on: "db,identity"}}}`,
		},
		"long annotations": {
			object: `{metadata: {annotations: {example.com/note: "` + strings.Repeat(canary, 50) + `"}}}`,
			want:   `{metadata: {annotations: {example.com/note: "(omitted: 650 bytes)"}}}`,
		},
		"managed fields": {
			object: `{metadata: {name: web, managedFields: [{manager: kubectl, operation: Apply, time: "2026-01-02T03:04:05Z", apiVersion: v1, fieldsType: FieldsV1, fieldsV1: {"f:spec": {"k:kanarienvogel": {}}}}]}}`,
			want:   `{metadata: {name: web, managedFields: [{manager: kubectl, operation: Apply, time: "2026-01-02T03:04:05Z"}]}}`,
		},
		"ConfigMap": {
			object: `{kind: ConfigMap, metadata: {name: web}, data: {app.yaml: kanarienvogel}, binaryData: {blob: kanarienvogel}}`,
			want:   `{kind: ConfigMap, metadata: {name: web}, data: {app.yaml: "(omitted: 13 bytes)"}, binaryData: {blob: "(omitted: 13 bytes)"}}`,
		},
		"Secret, although Secrets are never read": {
			object: `{kind: Secret, metadata: {name: db}, type: Opaque, data: {password: kanarienvogel}, stringData: {a: kanarienvogel}, other: kanarienvogel}`,
			want:   `{kind: Secret, metadata: {name: db}, type: Opaque, data: {password: "(omitted: 13 bytes)"}, stringData: {a: "(omitted: 13 bytes)"}, other: (hidden)}`,
		},
		"ControllerRevision": {
			object: `{kind: ControllerRevision, data: {spec: kanarienvogel}, revision: 3}`,
			want:   `{kind: ControllerRevision, data: (hidden), revision: 3}`,
		},
		"files and configurations": {
			object: `{kind: AppService, spec: {config: {files: [{path: /etc/app, content: kanarienvogel}], rollOnChange: true}, database: {config: kanarienvogel}}}`,
			want:   `{kind: AppService, spec: {config: {files: [{path: /etc/app, content: "(omitted: 13 bytes)"}], rollOnChange: true}, database: {config: "(omitted: 13 bytes)"}}}`,
		},
		"commands": {
			object: `{spec: {command: [/bin/app, --db-password=kanarienvogel, --token, kanarienvogel, --port, "80"], args: [--key=kanarienvogel, "8"], livenessProbe: {exec: {command: [mysqladmin, -pkanarienvogel, ping]}}}}`,
			want:   `{spec: {command: [/bin/app, --db-password=(hidden), --token, (hidden), --port, "80"], args: [--key=(hidden), "8"], livenessProbe: {exec: {command: [mysqladmin, -p(hidden), ping]}}}}`,
		},
		"headers of probes": {
			object: `{readinessProbe: {httpGet: {path: /ready, httpHeaders: [{name: Authorization, value: kanarienvogel}]}}}`,
			want:   `{readinessProbe: {httpGet: {path: /ready, httpHeaders: [{name: Authorization, value: (hidden)}]}}}`,
		},
		"fields that are not secret stay": {
			object: `{spec: {replicas: 2, automountServiceAccountToken: false, volumes: [{secret: {secretName: tls}}], tolerations: [{key: node.kubernetes.io/not-ready}], imagePullSecrets: [{name: regcred}], topologySpreadConstraints: [{topologyKey: zone}]}}`,
			want:   `{spec: {replicas: 2, automountServiceAccountToken: false, volumes: [{secret: {secretName: tls}}], tolerations: [{key: node.kubernetes.io/not-ready}], imagePullSecrets: [{name: regcred}], topologySpreadConstraints: [{topologyKey: zone}]}}`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			object, want := mustParse(t, tc.object), mustParse(t, tc.want)
			got := redact.Object(object)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(mustParse(t, tc.object), object); diff != "" {
				t.Errorf("the input was changed:\n%s", diff)
			}
			if text, _ := json.Marshal(got); strings.Contains(string(text), canary) {
				t.Errorf("got %s", text)
			}
		})
	}
}

func mustParse(t *testing.T, text string) (out map[string]any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestText(t *testing.T) {
	cases := map[string]struct{ text, want string }{
		"assignment":          {"export DB_PASSWORD=kanarienvogel; run", "export DB_PASSWORD=(hidden) run"},
		"double quotes":       {`run --secret="kanarien kanarienvogel" --port=80`, "run --secret=(hidden) --port=80"},
		"single quotes":       {`TOKEN='a kanarienvogel' run`, "TOKEN=(hidden) run"},
		"unterminated quotes": {`TOKEN='a kanarienvogel`, "TOKEN=(hidden)"},
		"nested quotes":       {`exec: \"PASSWORD=\"kanarienvogel b\" x\"`, `exec: \"PASSWORD=(hidden) x\"`},
		"flag and value":      {"mytool --token kanarienvogel --port 80", "mytool --token (hidden) --port 80"},
		"URL":                 {"dial https://user:kanarienvogel@example.com/a failed", "dial https://(hidden)@example.com/a failed"},
		"database DSN": {
			"open root:kanarienvogel@tcp(db:3306)/shop", "open (hidden)@tcp(db:3306)/shop"},
		"URL with a user name only": {"redis://kanarienvogel@cache:6379", "redis://(hidden)@cache:6379"},
		"webhook host":              {"post https://hooks.example.com/services/T1/kanarienvogel", "post https://hooks.example.com/(hidden)"},
		"webhook path":              {"https://chat.example.com/api/webhooks/1/kanarienvogel", "https://chat.example.com/api/webhooks/(hidden)"},
		"JSON":                      {`{"password": "kanarien\"kanarienvogel", "name": "x"}`, `{"password": "(hidden)", "name": "x"}`},
		"JSON within a string":      {`"{\"apiKey\":\"kanarienvogel\",\"a\":1}"`, `"{\"apiKey\":\"(hidden)\",\"a\":1}"`},
		"Authorization header":      {"Authorization: Bearer kanarienvogel", "Authorization: Bearer (hidden)"},
		"JSON Web Token":            {"got eyJhbGciOiJSUzI1NiJ9.kanarienvogel.x1", "got (hidden)"},
		"private key":               {"-----BEGIN RSA PRIVATE KEY-----\nkanarienvogel\n-----END RSA PRIVATE KEY-----\nend", "(hidden)\nend"},
		"SQL statement":             {"CREATE USER a IDENTIFIED BY 'kanarienvogel'", "CREATE USER a IDENTIFIED BY (hidden)"},
		"database client":           {"sh -c mariadb-admin -uroot -pkanarienvogel ping", "sh -c mariadb-admin -uroot -p(hidden) ping"},
		"sentence about a Secret": {`Secret "shop-token" does not exist; create it: kubectl create secret generic shop-token -n shop`,
			`Secret "shop-token" does not exist; create it: kubectl create secret generic shop-token -n shop`},
		"URL without credentials": {"http://web.shop.svc:80/a?b=c", "http://web.shop.svc:80/a?b=c"},
		"-p of another tool":      {"mkdir -p /data", "mkdir -p /data"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := redact.Text(tc.text)
			if got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
			if again := redact.Text(got); again != got {
				t.Errorf("not idempotent: got %s", again)
			}
		})
	}
}

func TestArgs(t *testing.T) {
	cases := map[string]struct{ args, want []string }{
		"flag and value":           {[]string{"--password", "x", "y"}, []string{"--password", "(hidden)", "y"}},
		"flag without a value":     {[]string{"--no-token", "--port", "80"}, []string{"--no-token", "--port", "80"}},
		"script":                   {[]string{"sh", "-c", "PASS=x run"}, []string{"sh", "-c", "PASS=(hidden) run"}},
		"password without a space": {[]string{"/usr/bin/mysql", "-px", "-u", "root"}, []string{"/usr/bin/mysql", "-p(hidden)", "-u", "root"}},
		"-p of another program":    {[]string{"web", "-p80"}, []string{"web", "-p80"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := redact.Args(tc.args); !slices.Equal(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// FuzzText checks that a secret is hidden whatever text surrounds it.
func FuzzText(f *testing.F) {
	f.Add("a", "b")
	f.Add(`{"x":"`, `"}`)
	f.Fuzz(func(t *testing.T, before, after string) {
		got := redact.Text(before + " PASSWORD=" + canary + " " + after)
		if strings.Contains(strings.ReplaceAll(strings.ReplaceAll(got, before, ""), after, ""), canary) {
			t.Errorf("got %q", got)
		}
	})
}

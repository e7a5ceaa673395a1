package v1alpha1_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// Components used by most test cases.
const (
	api     = `{name: api, service: {image: api, ports: [{port: 80, protocol: TCP}]}}`
	worker  = `{name: worker, service: {image: worker}}`
	migrate = `{name: migrate, job: {image: migrate}}`
)

// Messages about a component and the components that it references.
const (
	msgOneType       = "a component must set exactly one of service, stateful, job and database"
	msgTypeChanged   = "the type of a component is immutable; add a component with another name, and set renamedFrom if it replaces this one"
	msgComponentName = "a component name must consist of a-z, 0-9 and -, start with a letter and not end with -"
	msgResourceName  = "resourceName is used as the name of a Service: it must consist of a-z, 0-9 and -, start with a letter and not end with -"
	msgEnvPrefix     = "envPrefix is the prefix of environment variables: it must consist of letters, digits and _, and not start with a digit"
)

// msgUnknownDependency is the message about these dependencies, for example "web depends on api".
func msgUnknownDependency(pairs string) string {
	return "spec.components: dependsOn names a component that does not exist: " + pairs + "; correct the name, or add the component"
}

// msgInvalidBinding is the message about these bindings, for example "web is bound to api".
func msgInvalidBinding(pairs string) string {
	return "spec.components: bindings names a component that does not exist or has no ports: " + pairs +
		"; correct the name, add a port to that component, or use dependsOn for a job"
}

// msgRenamedFromExists is the message about these renames, for example "web is renamed from api".
func msgRenamedFromExists(pairs string) string {
	return "spec.components: renamedFrom names a component that is still in the spec: " + pairs + "; remove that component, or renamedFrom"
}

func testAppStack(t *testing.T, config *rest.Config, stacks dynamic.ResourceInterface, namespace string) {
	t.Run("accepted", func(t *testing.T) { testStackAccepted(t, stacks) })
	t.Run("rejected", func(t *testing.T) { testStackRejected(t, stacks) })
	t.Run("references", func(t *testing.T) { testStackReferences(t, stacks) })
	t.Run("schedule", func(t *testing.T) { testSchedule(t, config, stacks, namespace) })
	t.Run("name", func(t *testing.T) { testStackName(t, stacks) })
	t.Run("update", func(t *testing.T) { testStackUpdate(t, stacks) })
	t.Run("limits", func(t *testing.T) { testStackAtLimits(t, stacks) })
	t.Run("status", func(t *testing.T) { testStackStatus(t, config, stacks) })
}

// testStackAccepted checks which specs are valid and that the API server stores them unchanged.
func testStackAccepted(t *testing.T, stacks dynamic.ResourceInterface) {
	tests := map[string]string{
		"one service":                  stackOf(worker),
		"one job":                      stackOf(migrate),
		"a service and a job":          stackOf(api, migrate),
		"depends on a job":             stackOf(migrate, `{name: web, dependsOn: [migrate], service: {image: web}}`),
		"depends on several":           stackOf(migrate, api, `{name: web, dependsOn: [migrate, api], service: {image: web}}`),
		"depends on a later component": stackOf(`{name: web, dependsOn: [api], service: {image: web}}`, api),
		"a job depends on a service":   stackOf(api, `{name: import, dependsOn: [api], job: {image: import}}`),
		"bound":                        stackOf(api, `{name: web, bindings: [{component: api}], service: {image: web}}`),
		"bound under another name":     stackOf(api, `{name: web, bindings: [{component: api, envPrefix: SHOP_API}], service: {image: web}}`),
		"a prefix in lower case":       stackOf(api, `{name: web, bindings: [{component: api, envPrefix: _api2}], service: {image: web}}`),
		"bound job":                    stackOf(api, `{name: import, bindings: [{component: api}], job: {image: import}}`),
		"binding and dependency":       stackOf(api, `{name: web, dependsOn: [api], bindings: [{component: api}], service: {image: web}}`),
		"suspended":                    `{suspend: true, components: [` + api + `]}`,
		"one component suspended":      `{operations: [{component: api, suspend: true}], components: [` + api + `]}`,
		"revisionHistoryLimit 1":       `{revisionHistoryLimit: 1, components: [` + api + `]}`,
		"revisionHistoryLimit 100":     `{revisionHistoryLimit: 100, components: [` + api + `]}`,
		"renamed":                      stackOf(`{name: web, renamedFrom: front, service: {image: web}}`),
		"resourceName":                 stackOf(`{name: web, resourceName: front, service: {image: web}}`),
		"names of maximum length":      stackOf(`{name: ` + strings.Repeat("x", 40) + `, resourceName: ` + strings.Repeat("x", 63) + `, service: {image: web}}`),
		"names of one letter":          stackOf(`{name: x, resourceName: x, service: {image: web}}`),
		"rollOnChange false":           stackOf(`{name: web, service: {image: web, config: {rollOnChange: false}}}`),
		"a job without retries":        stackOf(`{name: migrate, job: {image: migrate, backoffLimit: 0, activeDeadlineSeconds: 1}}`),
		"a job with maximum limits":    stackOf(`{name: migrate, job: {image: migrate, backoffLimit: 100, activeDeadlineSeconds: 604800}}`),
		"a cycle (engine rejects it)":  stackOf(`{name: a, dependsOn: [b], service: {image: a}}`, `{name: b, dependsOn: [a], service: {image: b}}`),
		"empty lists":                  stackOf(`{name: web, dependsOn: [], bindings: [], service: {image: web}}`),
		"all fields": `
revisionHistoryLimit: 5
suspend: true
operations:
- {component: api, restartRequestedAt: "2026-01-02T03:04:05Z", rotationRequestedAt: "1", suspend: true, replicas: 0}
components:
- name: migrate
  job:
    image: shop/migrate:1
    imagePullPolicy: IfNotPresent
    imagePullSecrets: [{name: registry}]
    command: [migrate]
    args: [--all]
    env: [{name: PASSWORD, valueFrom: {secretKeyRef: {name: shop, key: password}}}]
    envFrom: [{configMapRef: {name: shop}}]
    resources: {limits: {memory: 64Mi}}
    terminationGracePeriodSeconds: 5
    backoffLimit: 1
    activeDeadlineSeconds: 60
    schedule: 0 3 * * *
    security: {level: Restricted, runAsUser: 1000}
- name: api
  resourceName: shop-backend
  renamedFrom: backend
  dependsOn: [migrate]
  service:
    image: shop/api:1
    replicas: 2
    ports: [{name: http, port: 80, targetPort: 8080, protocol: TCP}]
    config: {rollOnChange: true}
- name: web
  bindings: [{component: api, envPrefix: BACKEND}]
  service: {image: shop/web:1}`,
	}
	for name, spec := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := stacks.Create(t.Context(), appStack(t, "shop", spec), dryRun)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(parse(t, spec), got.Object["spec"]); diff != "" {
				t.Errorf("stored spec (-want +got):\n%s", diff)
			}
		})
	}
}

// testStackRejected checks which specs of a stack and of a single component are invalid.
func testStackRejected(t *testing.T, stacks dynamic.ResourceInterface) {
	tests := map[string]struct {
		spec string
		want []string
	}{
		"empty spec":                     {`{}`, []string{"spec.components: Required value"}},
		"no components":                  {`{components: []}`, []string{"spec.components: spec.components in body should have at least 1 items"}},
		"too many components":            {stackOf(workers(65)...), []string{"spec.components: Too many: 65: must have at most 64 items"}},
		"duplicate name":                 {stackOf(worker, api, worker), []string{`spec.components[2]: Duplicate value: {"name":"worker"}`}},
		"no type":                        {stackOf(api, `{name: web}`), []string{"spec.components[1]: " + msgOneType}},
		"two types":                      {stackOf(`{name: web, service: {image: web}, job: {image: web}}`), []string{"spec.components[0]: " + msgOneType}},
		"no name":                        {stackOf(`{service: {image: web}}`), []string{"spec.components[0].name: Required value"}},
		"empty name":                     {stackOf(`{name: "", service: {image: web}}`), []string{"spec.components[0].name: " + msgComponentName}},
		"name in upper case":             {stackOf(`{name: Web, service: {image: web}}`), []string{"spec.components[0].name: " + msgComponentName}},
		"name with a leading digit":      {stackOf(`{name: 2web, service: {image: web}}`), []string{"spec.components[0].name: " + msgComponentName}},
		"name with a trailing dash":      {stackOf(`{name: web-, service: {image: web}}`), []string{"spec.components[0].name: " + msgComponentName}},
		"name with a dot":                {stackOf(`{name: web.shop, service: {image: web}}`), []string{"spec.components[0].name: " + msgComponentName}},
		"name that is too long":          {stackOf(`{name: ` + strings.Repeat("x", 41) + `, service: {image: web}}`), []string{"spec.components[0].name: Too long: may not be more than 40 bytes"}},
		"resourceName in upper case":     {stackOf(`{name: web, resourceName: Web, service: {image: web}}`), []string{"spec.components[0].resourceName: " + msgResourceName}},
		"resourceName, leading digit":    {stackOf(`{name: web, resourceName: 2web, service: {image: web}}`), []string{"spec.components[0].resourceName: " + msgResourceName}},
		"resourceName with a dot":        {stackOf(`{name: web, resourceName: web.shop, service: {image: web}}`), []string{"spec.components[0].resourceName: " + msgResourceName}},
		"resourceName that is too long":  {stackOf(`{name: web, resourceName: ` + strings.Repeat("x", 64) + `, service: {image: web}}`), []string{"spec.components[0].resourceName: Too long: may not be more than 63 bytes"}},
		"revisionHistoryLimit 0":         {`{revisionHistoryLimit: 0, components: [` + api + `]}`, []string{"spec.revisionHistoryLimit: spec.revisionHistoryLimit in body should be greater than or equal to 1"}},
		"revisionHistoryLimit 101":       {`{revisionHistoryLimit: 101, components: [` + api + `]}`, []string{"spec.revisionHistoryLimit: spec.revisionHistoryLimit in body should be less than or equal to 100"}},
		"negative backoffLimit":          {stackOf(`{name: migrate, job: {image: migrate, backoffLimit: -1}}`), []string{"spec.components[0].job.backoffLimit: spec.components[0].job.backoffLimit in body should be greater than or equal to 0"}},
		"backoffLimit 101":               {stackOf(`{name: migrate, job: {image: migrate, backoffLimit: 101}}`), []string{"spec.components[0].job.backoffLimit: spec.components[0].job.backoffLimit in body should be less than or equal to 100"}},
		"activeDeadlineSeconds 0":        {stackOf(`{name: migrate, job: {image: migrate, activeDeadlineSeconds: 0}}`), []string{"spec.components[0].job.activeDeadlineSeconds: spec.components[0].job.activeDeadlineSeconds in body should be greater than or equal to 1"}},
		"activeDeadlineSeconds > a week": {stackOf(`{name: migrate, job: {image: migrate, activeDeadlineSeconds: 604801}}`), []string{"spec.components[0].job.activeDeadlineSeconds: spec.components[0].job.activeDeadlineSeconds in body should be less than or equal to 604800"}},
		"service without an image":       {stackOf(`{name: web, service: {}}`), []string{"spec.components[0].service.image: Required value"}},
		"job without an image":           {stackOf(`{name: web, job: {}}`), []string{"spec.components[0].job.image: Required value"}},
		"rules of a service": {
			stackOf(`{name: web, service: {image: web, ports: [{port: 80}, {port: 81}], update: {maxSurge: 0}}}`),
			[]string{
				"spec.components[0].service.ports: each port must have a name if there is more than one, for example {name: http, port: 80}",
				"spec.components[0].service.update: maxSurge and maxUnavailable (default 0) cannot both be 0; raise one of them",
			},
		},
		"root at level Restricted": {
			stackOf(`{name: migrate, job: {image: migrate, security: {level: Restricted, runAsUser: 0}}}`),
			[]string{"spec.components[0].job.security.runAsUser: level Restricted does not allow user 0 (root); set another runAsUser, or level Baseline"},
		},
		"several errors": {
			stackOf(`{name: Web, service: {image: web}, dependsOn: [api]}`, `{name: worker}`),
			[]string{msgUnknownDependency("Web depends on api"), "spec.components[0].name: " + msgComponentName, "spec.components[1]: " + msgOneType},
		},
		"misspelled field": {
			stackOf(`{name: web, dependson: [api], service: {image: web, replica: 2}}`),
			[]string{`AppStack in version "v1alpha1" cannot be handled as a AppStack: strict decoding error: unknown field "spec.components[0].dependson", unknown field "spec.components[0].service.replica"`},
		},
		"field of another type": {
			stackOf(`{name: migrate, job: {image: migrate, ports: [{port: 80}]}}`),
			[]string{`AppStack in version "v1alpha1" cannot be handled as a AppStack: strict decoding error: unknown field "spec.components[0].job.ports"`},
		},
		"suspend at the service": {
			stackOf(`{name: web, service: {image: web, suspend: true}}`),
			[]string{`AppStack in version "v1alpha1" cannot be handled as a AppStack: strict decoding error: unknown field "spec.components[0].service.suspend"`},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := stacks.Create(t.Context(), appStack(t, "shop", tc.spec), dryRun)
			wantRejected(t, err, tc.want...)
		})
	}
}

// testStackReferences checks which references to other components are invalid.
func testStackReferences(t *testing.T, stacks dynamic.ResourceInterface) {
	const (
		dependsOnItself = "spec.components[0].dependsOn: a component cannot depend on itself; remove its name from dependsOn"
		boundToItself   = "spec.components[0].bindings: a component cannot be bound to itself; remove it from bindings"
		samePrefix      = "spec.components[0].bindings: two bindings set the same environment variables; set a different envPrefix for one of them"
		renamedToItself = "spec.components[0].renamedFrom: renamedFrom must be the previous name of the component, not its current name"
	)
	tests := map[string]struct {
		component string // in addition to api, worker and migrate
		want      []string
	}{
		"depends on itself":             {`{name: web, dependsOn: [web], service: {image: web}}`, []string{dependsOnItself}},
		"job depends on itself":         {`{name: web, dependsOn: [api, web], job: {image: web}}`, []string{dependsOnItself}},
		"unknown dependency":            {`{name: web, dependsOn: [nothing], service: {image: web}}`, []string{msgUnknownDependency("web depends on nothing")}},
		"first of two unknown":          {`{name: web, dependsOn: [nothing, none], service: {image: web}}`, []string{msgUnknownDependency("web depends on nothing")}},
		"one unknown dependency of two": {`{name: web, dependsOn: [api, nothing], job: {image: web}}`, []string{msgUnknownDependency("web depends on nothing")}},
		"empty name in dependsOn":       {`{name: web, dependsOn: [""], service: {image: web}}`, []string{msgUnknownDependency("web depends on ")}},
		"duplicate dependency":          {`{name: web, dependsOn: [api, api], service: {image: web}}`, []string{`spec.components[0].dependsOn[1]: Duplicate value: "api"`}},
		"too many dependencies":         {`{name: web, dependsOn: [` + repeatFormat("x-%d", 17) + `], service: {image: web}}`, []string{"spec.components[0].dependsOn: Too many: 17: must have at most 16 items"}},
		"dependency name too long":      {`{name: web, dependsOn: [` + strings.Repeat("x", 41) + `], service: {image: web}}`, []string{"spec.components[0].dependsOn[0]: Too long: may not be more than 40 bytes"}},
		"bound to itself":               {`{name: web, bindings: [{component: web}], service: {image: web, ports: [{port: 80}]}}`, []string{boundToItself}},
		"job bound to itself":           {`{name: web, bindings: [{component: web}], job: {image: web}}`, []string{msgInvalidBinding("web is bound to web"), boundToItself}},
		"unknown binding":               {`{name: web, bindings: [{component: nothing}], service: {image: web}}`, []string{msgInvalidBinding("web is bound to nothing")}},
		"one unknown binding of two":    {`{name: web, bindings: [{component: api}, {component: nothing}], job: {image: web}}`, []string{msgInvalidBinding("web is bound to nothing")}},
		"bound to a job":                {`{name: web, bindings: [{component: migrate}], service: {image: web}}`, []string{msgInvalidBinding("web is bound to migrate")}},
		"bound without ports":           {`{name: web, bindings: [{component: worker}], service: {image: web}}`, []string{msgInvalidBinding("web is bound to worker")}},
		"duplicate binding":             {`{name: web, bindings: [{component: api}, {component: api, envPrefix: API2}], service: {image: web}}`, []string{`spec.components[0].bindings[1]: Duplicate value: {"component":"api"}`}},
		"same prefix twice":             {`{name: web, bindings: [{component: api}, {component: api-2, envPrefix: API}], service: {image: web}}`, []string{msgInvalidBinding("web is bound to api-2"), samePrefix}},
		"too many bindings":             {`{name: web, bindings: [` + repeatFormat("{component: x-%d}", 17) + `], service: {image: web}}`, []string{"spec.components[0].bindings: Too many: 17: must have at most 16 items"}},
		"binding without a component":   {`{name: web, bindings: [{envPrefix: API}], service: {image: web}}`, []string{"spec.components[0].bindings[0].component: Required value"}},
		"empty prefix":                  {`{name: web, bindings: [{component: api, envPrefix: ""}], service: {image: web}}`, []string{"spec.components[0].bindings[0].envPrefix: " + msgEnvPrefix}},
		"prefix with a leading digit":   {`{name: web, bindings: [{component: api, envPrefix: 2API}], service: {image: web}}`, []string{"spec.components[0].bindings[0].envPrefix: " + msgEnvPrefix}},
		"prefix with a dash":            {`{name: web, bindings: [{component: api, envPrefix: SHOP-API}], service: {image: web}}`, []string{"spec.components[0].bindings[0].envPrefix: " + msgEnvPrefix}},
		"prefix that is too long":       {`{name: web, bindings: [{component: api, envPrefix: ` + strings.Repeat("X", 41) + `}], service: {image: web}}`, []string{"spec.components[0].bindings[0].envPrefix: Too long: may not be more than 40 bytes"}},
		"renamed from its own name":     {`{name: web, renamedFrom: web, service: {image: web}}`, []string{msgRenamedFromExists("web is renamed from web"), renamedToItself}},
		"renamed from an existing one":  {`{name: web, renamedFrom: worker, service: {image: web}}`, []string{msgRenamedFromExists("web is renamed from worker")}},
		"renamedFrom too long":          {`{name: web, renamedFrom: ` + strings.Repeat("x", 41) + `, service: {image: web}}`, []string{"spec.components[0].renamedFrom: Too long: may not be more than 40 bytes"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := stacks.Create(t.Context(), appStack(t, "shop", stackOf(tc.component, api, worker, migrate)), dryRun)
			wantRejected(t, err, tc.want...)
		})
	}
}

func testStackName(t *testing.T, stacks dynamic.ResourceInterface) {
	const want = "metadata: the name is the prefix of Service names: it must have at most 63 characters of a-z, 0-9 and -, start with a letter and not end with -"
	tests := map[string]struct {
		name     string
		rejected bool
	}{
		"one letter":      {name: "s"},
		"63 characters":   {name: strings.Repeat("s", 63)},
		"64 characters":   {name: strings.Repeat("s", 64), rejected: true},
		"leading digit":   {name: "2shop", rejected: true},
		"name with a dot": {name: "shop.example", rejected: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := stacks.Create(t.Context(), appStack(t, tc.name, stackOf(worker)), dryRun)
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

// testStackUpdate checks which changes of a stack are valid.
func testStackUpdate(t *testing.T, stacks dynamic.ResourceInterface) {
	const web = `{name: web, bindings: [{component: api}], service: {image: web}}`
	tests := map[string]struct {
		before, after string
		want          []string
	}{
		"component added":          {before: stackOf(api), after: stackOf(worker, api)},
		"component removed":        {before: stackOf(worker, migrate, api), after: stackOf(api)},
		"every component replaced": {before: stackOf(worker, migrate), after: stackOf(api)},
		"reordered":                {before: stackOf(api, worker, migrate), after: stackOf(migrate, api, worker)},
		"renamed":                  {before: stackOf(worker, api), after: stackOf(`{name: backend, renamedFrom: worker, service: {image: worker}}`, api)},
		"without renamedFrom":      {before: stackOf(worker), after: stackOf(`{name: backend, service: {image: worker}}`)},
		"renamed and renamed back": {before: stackOf(`{name: backend, renamedFrom: worker, service: {image: worker}}`), after: stackOf(`{name: worker, renamedFrom: backend, service: {image: worker}}`)},
		"another type, renamed":    {before: stackOf(worker), after: stackOf(`{name: once, renamedFrom: worker, job: {image: worker}}`)},
		"changed job":              {before: stackOf(migrate), after: stackOf(`{name: migrate, job: {image: migrate:2, args: [--all], backoffLimit: 0}}`)},
		"schedule added":           {before: stackOf(migrate), after: stackOf(`{name: migrate, job: {image: migrate, schedule: "@daily"}}`)},
		"schedule removed":         {before: stackOf(`{name: migrate, job: {image: migrate, schedule: "@daily"}}`), after: stackOf(migrate)},
		"resourceName changed":     {before: stackOf(`{name: web, resourceName: a, service: {image: web}}`), after: stackOf(`{name: web, resourceName: b, service: {image: web}}`)},
		"binding removed":          {before: stackOf(api, web), after: stackOf(api, `{name: web, service: {image: web}}`)},
		"port of a bound service":  {before: stackOf(api, web), after: stackOf(`{name: api, service: {image: api, ports: [{port: 8080}]}}`, web)},
		"service to job":           {before: stackOf(api, worker), after: stackOf(api, `{name: worker, job: {image: worker}}`), want: []string{"spec.components[1]: " + msgTypeChanged}},
		"job to service":           {before: stackOf(migrate), after: stackOf(`{name: migrate, service: {image: migrate}}`), want: []string{"spec.components[0]: " + msgTypeChanged}},
		"job to both":              {before: stackOf(migrate), after: stackOf(`{name: migrate, service: {image: migrate}, job: {image: migrate}}`), want: []string{"spec.components[0]: " + msgOneType, "spec.components[0]: " + msgTypeChanged}},
		"type and order changed":   {before: stackOf(api, migrate), after: stackOf(`{name: migrate, service: {image: migrate}}`, api), want: []string{"spec.components[0]: " + msgTypeChanged}},
		"names swapped":            {before: stackOf(`{name: a, service: {image: a}}`, `{name: b, service: {image: b}}`), after: stackOf(`{name: a, renamedFrom: b, service: {image: b}}`, `{name: b, renamedFrom: a, service: {image: a}}`), want: []string{msgRenamedFromExists("a is renamed from b")}},
		"dependency removed":       {before: stackOf(worker, `{name: web, dependsOn: [worker], service: {image: web}}`), after: stackOf(`{name: web, dependsOn: [worker], service: {image: web}}`), want: []string{msgUnknownDependency("web depends on worker")}},
		"bound component removed":  {before: stackOf(api, web), after: stackOf(web), want: []string{msgInvalidBinding("web is bound to api")}},
		"bound component renamed":  {before: stackOf(api, web), after: stackOf(`{name: backend, renamedFrom: api, service: {image: api, ports: [{port: 80}]}}`, web), want: []string{msgInvalidBinding("web is bound to api")}},
		"last bound port removed":  {before: stackOf(api, web), after: stackOf(`{name: api, service: {image: api}}`, web), want: []string{msgInvalidBinding("web is bound to api")}},
		"bound ports emptied":      {before: stackOf(api, web), after: stackOf(`{name: api, service: {image: api, ports: []}}`, web), want: []string{msgInvalidBinding("web is bound to api")}},
		"last component removed":   {before: stackOf(api), after: stackOf(), want: []string{"spec.components: spec.components in body should have at least 1 items"}},
		"changed to Headless": {
			before: stackOf(worker, api), after: stackOf(`{name: api, service: {image: api, ports: [{port: 80}], service: {type: Headless}}}`),
			want: []string{"spec.components[0].service.service.type: an existing Service cannot change to or from type Headless; keep the type, or use a new name"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			stored := create(t, stacks, appStack(t, "shop", tc.before))
			stored.Object["spec"] = parse(t, tc.after)
			_, err := stacks.Update(t.Context(), stored, metav1.UpdateOptions{FieldValidation: strict})
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

func appStack(t *testing.T, name, spec string) *unstructured.Unstructured {
	t.Helper()
	return manifest(t, "AppStack", name, spec)
}

// stackOf returns the spec of a stack with these components.
func stackOf(components ...string) string {
	return `{components: [` + strings.Join(components, ", ") + `]}`
}

// workers returns n components.
func workers(n int) []string {
	components := make([]string, n)
	for i := range components {
		components[i] = fmt.Sprintf("{name: worker-%d, service: {image: worker}}", i)
	}
	return components
}

// repeatFormat returns a list of n items with the same format.
func repeatFormat(form string, n int) string {
	items := make([]string, n)
	for i := range items {
		items[i] = fmt.Sprintf(form, i)
	}
	return strings.Join(items, ", ")
}

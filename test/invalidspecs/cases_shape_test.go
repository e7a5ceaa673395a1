package invalidspecs_test

import (
	"slices"
	"strings"
)

// Structural errors: types, names, unknown fields.
var shapeCases = slices.Concat(
	classCases("shape", "", map[string]invalidSpec{
		"no image":                  {spec: `{ports: [{port: 80}]}`, wantMessage: `spec.image: Required value`},
		"empty image":               {spec: `{image: ""}`, wantMessage: "image must be a lowercase image name"},
		"image with a space":        {spec: `{image: "nginx: 1.27"}`, wantMessage: "image must be a lowercase image name with an optional tag or digest, without spaces"},
		"empty spec":                {spec: `{}`, wantMessage: `spec.image: Required value`},
		"spec is a list":            {spec: `[{image: nginx}]`, wantMessage: `unknown field "spec[0].image"`},
		"replicas in quotes":        {spec: `{image: nginx, replicas: "2"}`, wantMessage: `spec.replicas in body must be of type integer: "string"`},
		"fractional replicas":       {spec: `{image: nginx, replicas: 1.5}`, wantMessage: `spec.replicas in body must be of type int32: "float64"`},
		"negative replicas":         {spec: `{image: nginx, replicas: -1}`, wantMessage: "spec.replicas: Invalid value: -1: spec.replicas in body should be greater than or equal to 0"},
		"too many replicas":         {spec: `{image: nginx, replicas: 100000}`, wantMessage: "should be less than or equal to 10000"},
		"misspelled field":          {spec: `{image: nginx, replica: 2}`, wantMessage: `unknown field "spec.replica"`},
		"field of a Deployment":     {spec: `{image: nginx, template: {spec: {containers: []}}}`, wantMessage: `unknown field "spec.template"`},
		"containers as in a pod":    {spec: `{containers: [{name: app, image: nginx}]}`, wantMessage: `unknown field "spec.containers"`},
		"field one level too high":  {spec: `{image: nginx, maxSurge: 1}`, wantMessage: `unknown field "spec.maxSurge"`},
		"field in snake case":       {spec: `{image: nginx, image_pull_policy: Always}`, wantMessage: `unknown field "spec.image_pull_policy"`},
		"pull policy in lower case": {spec: `{image: nginx, imagePullPolicy: always}`, wantMessage: `spec.imagePullPolicy: Unsupported value: "always": supported values: "Always", "IfNotPresent", "Never"`},
		"pull Secret as plain text": {spec: `{image: nginx, imagePullSecrets: [registry]}`, wantMessage: `spec.imagePullSecrets[0] in body must be of type object: "string"`},
		"command as one line":       {spec: `{image: nginx, command: nginx -g daemon}`, wantMessage: `spec.command in body must be of type array: "string"`},
		"image name too long":       {spec: `{image: ` + strings.Repeat("x", 1025) + `}`, wantMessage: "spec.image: Too long: may not be more than 1024 bytes"},
		"unknown security level":    {spec: `{image: nginx, security: {level: Privileged}}`, wantMessage: `supported values: "Baseline", "Restricted"`},
		"unsupported Service type":  {spec: `{image: nginx, ports: [{port: 80}], service: {type: ExternalName}}`, wantMessage: `supported values: "ClusterIP", "NodePort", "LoadBalancer", "Headless"`},
		"suspend in quotes":         {spec: `{image: nginx, suspend: "yes"}`, wantMessage: `spec.suspend in body must be of type boolean: "string"`},
	}),
	classCases("name", "", map[string]invalidSpec{
		"name with a dot":        {objectName: "web.shop", spec: validService, wantMessage: "the name is used as the name of a Service: it must have at most 63 characters of a-z, 0-9 and -"},
		"name begins with digit": {objectName: "2web", spec: validService, wantMessage: "start with a letter"},
		"name of 64 letters":     {objectName: strings.Repeat("w", 64), spec: validService, wantMessage: "at most 63 characters of a-z"},
		"name in upper case":     {objectName: "Web", spec: validService, wantMessage: "metadata.name: Invalid value: \"Web\": a lowercase RFC 1123 subdomain"},
		"name with underscores":  {objectName: "my_web", spec: validService, wantMessage: "metadata.name: Invalid value: \"my_web\""},
	}),
	classCases("name", "AppStack", map[string]invalidSpec{
		"stack name with a dot":              {objectName: "shop.eu", spec: validStack, wantMessage: "the name is the prefix of Service names"},
		"component name in upper case":       {spec: `{components: [{name: Web, service: {image: web}}]}`, wantMessage: "a component name must consist of a-z, 0-9 and -"},
		"component name of 41 letters":       {spec: `{components: [{name: ` + strings.Repeat("c", 41) + `, service: {image: web}}]}`, wantMessage: "spec.components[0].name: Too long: may not be more than 40 bytes"},
		"component without a name":           {spec: `{components: [{service: {image: web}}]}`, wantMessage: "spec.components[0].name: Required value"},
		"duplicate component":                {spec: `{components: [` + apiComponent + `, ` + apiComponent + `]}`, wantMessage: `spec.components[1]: Duplicate value: {"name":"api"}`},
		"resourceName with a dot":            {spec: `{components: [{name: web, resourceName: web.shop, service: {image: web}}]}`, wantMessage: "resourceName is used as the name of a Service"},
		"renamed from itself":                {spec: `{components: [{name: web, renamedFrom: web, service: {image: web}}]}`, wantMessage: "renamedFrom must be the previous name of the component"},
		"renamed from an existing component": {spec: `{components: [{name: web, renamedFrom: api, service: {image: web}}, ` + apiComponent + `]}`, wantMessage: "renamedFrom names a component that is still in the spec: web is renamed from api; remove that component, or renamedFrom"},
		"duplicate resourceName": {
			spec:   `{components: [{name: a, resourceName: same, service: {image: "shop/a:1"}}, {name: b, resourceName: same, service: {image: "shop/b:1"}}]}`,
			reason: "InvalidSpec", wantMessage: `Components "a" and "b" would both create Deployment same; set a different resourceName on one of them`,
		},
		"resourceName of another component": {
			spec:   `{components: [{name: a, service: {image: "shop/a:1"}}, {name: b, resourceName: web-a, service: {image: "shop/b:1"}}]}`,
			reason: "InvalidSpec", wantMessage: `Components "a" and "b" would both create Deployment web-a; set a different resourceName on one of them`,
		},
	}),
	classCases("kind", "AppStack", map[string]invalidSpec{
		"no components":                 {spec: `{components: []}`, wantMessage: "spec.components in body should have at least 1 items"},
		"components as a map":           {spec: `{components: {web: {service: {image: web}}}}`, wantMessage: `unknown field "spec.components.web"`},
		"spec without components":       {spec: `{suspend: false}`, wantMessage: "spec.components: Required value"},
		"component without a type":      {spec: `{components: [{name: web}]}`, wantMessage: "a component must set exactly one of service, stateful, job and database"},
		"component with two types":      {spec: `{components: [{name: web, service: {image: web}, job: {image: web}}]}`, wantMessage: "a component must set exactly one of service, stateful, job and database"},
		"image outside of the type":     {spec: `{components: [{name: web, image: web, service: {}}]}`, wantMessage: `unknown field "spec.components[0].image"`},
		"unknown component type":        {spec: `{components: [{name: web, statefulSet: {image: web}}]}`, wantMessage: `unknown field "spec.components[0].statefulSet"`},
		"service becomes a job":         {spec: `{components: [` + apiComponent + `, {name: web, job: {image: web}}]}`, wantMessage: "the type of a component is immutable; add a component with another name"},
		"65 components":                 {spec: `{components: [` + componentList(65) + `]}`, wantMessage: "spec.components: Too many: 65: must have at most 64 items"},
		"revision history of 0":         {spec: `{revisionHistoryLimit: 0, components: [` + apiComponent + `]}`, wantMessage: "spec.revisionHistoryLimit in body should be greater than or equal to 1"},
		"job with replicas":             {spec: `{components: [{name: j, job: {image: j, replicas: 2}}]}`, wantMessage: `unknown field "spec.components[0].job.replicas"`},
		"job with ports":                {spec: `{components: [{name: j, job: {image: j, ports: [{port: 80}]}}]}`, wantMessage: `unknown field "spec.components[0].job.ports"`},
		"negative backoffLimit":         {spec: `{components: [{name: j, job: {image: j, backoffLimit: -1}}]}`, wantMessage: "backoffLimit in body should be greater than or equal to 0"},
		"job deadline of 0":             {spec: `{components: [{name: j, job: {image: j, activeDeadlineSeconds: 0}}]}`, wantMessage: "activeDeadlineSeconds in body should be greater than or equal to 1"},
		"stack component gets headless": {spec: `{components: [{name: api, service: {image: "shop/api:1", ports: [{port: 8080}], service: {type: Headless}}}]}`, wantMessage: "an existing Service cannot change to or from type Headless; keep the type, or use a new name"},
	}),
	classCases("database", "AppStack", map[string]invalidSpec{
		"database without a version": {spec: withDatabase(`storage: {size: 1Gi}`), wantMessage: `a database must set version, for example "11.8", or image`},
		"database without a volume":  {spec: withDatabase(`version: "11.8"`), wantMessage: "spec.components[0].database.storage: Required value"},
		"version as a number":        {spec: withDatabase(`version: 10.10, storage: {size: 1Gi}`), wantMessage: "database.version: Invalid value: \"number\""},
		"version without numbers":    {spec: withDatabase(`version: lts, storage: {size: 1Gi}`), wantMessage: `version must have two or three numbers, for example "11.8"; use quotes`},
		"unsupported engine":         {spec: withDatabase(`engine: PostgreSQL, version: "17", storage: {size: 1Gi}`), wantMessage: `database.engine: Unsupported value: "PostgreSQL": supported values: "MariaDB"`},
		"database with replicas":     {spec: withDatabase(`version: "11.8", replicas: 2, storage: {size: 1Gi}`), wantMessage: `unknown field "spec.components[0].database.replicas"`},
		"schema name of the server":  {spec: withDatabase(`version: "11.8", storage: {size: 1Gi}, database: mysql`), wantMessage: "the server already has a schema or an account with this name; use another name"},
		"schema with a dash":         {spec: withDatabase(`version: "11.8", storage: {size: 1Gi}, database: my-shop`), wantMessage: "database must consist of letters, digits and _, and start with a letter"},
		"rotation interval of 0":     {spec: withDatabase(`version: "11.8", storage: {size: 1Gi}, rotation: {everyDays: 0}`), wantMessage: "everyDays in body should be greater than or equal to 1"},
		"component named root": {
			spec:   `{components: [{name: root, database: {version: "11.8", storage: {size: 1Gi}}}]}`,
			reason: "InvalidSpec", wantMessage: `database is "root", but the server already has a schema or an account with this name; use another name`,
		},
	}),
	classCases("schedule", "AppStack", map[string]invalidSpec{
		"schedule of four fields":   {spec: withSchedule(`0 3 * *`), wantMessage: "schedule must be a cron expression with five fields, for example '0 3 * * *' for every day at 03:00"},
		"schedule with seconds":     {spec: withSchedule(`0 0 3 * * *`), wantMessage: "schedule must be a cron expression with five fields"},
		"schedule in words":         {spec: withSchedule(`every night`), wantMessage: "schedule must be a cron expression with five fields"},
		"schedule with a time zone": {spec: withSchedule(`CRON_TZ=Europe/Berlin 0 3 * * *`), wantMessage: "schedule must be a cron expression with five fields"},
		"minute 60":                 {spec: withSchedule(`60 3 * * *`), wantMessage: `schedule "60 3 * * *" has a value that is out of range: minute 0-59`},
		"hour 24":                   {spec: withSchedule(`0 24 * * *`), wantMessage: `schedule "0 24 * * *" has a value that is out of range`},
		"month foo":                 {spec: withSchedule(`0 3 1 foo *`), reason: "InvalidSpec", wantMessage: `has "foo" as the month, which must be from 1 to 12`},
		"weekday 8":                 {spec: withSchedule(`0 3 * * 8`), wantMessage: `schedule "0 3 * * 8" has a value that is out of range`},
		"schedule step of 0":        {spec: withSchedule(`*/0 3 * * *`), reason: "InvalidSpec", wantMessage: `has "*/0" as the minute`},
	}),
)

func withDatabase(database string) string {
	return `{components: [{name: db, database: {` + database + `}}]}`
}

func withSchedule(schedule string) string {
	return `{components: [{name: nightly, job: {image: "shop/job:1", schedule: "` + schedule + `"}}]}`
}

// componentList returns n components.
func componentList(n int) string {
	var all []string
	for i := range n {
		all = append(all, `{name: c`+strings.Repeat("x", i%30)+string(rune('a'+i%26))+string(rune('a'+i/26))+`, service: {image: web}}`)
	}
	return strings.Join(all, ", ")
}

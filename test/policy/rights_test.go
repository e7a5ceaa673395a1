package policy_test

import (
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// specs are the tested specs by description.
var specs = map[string]struct {
	object   string
	makes    []string
	deletes  []string
	accounts []string
	// edited is the field that an update changes. value returns a different value for each update.
	edited []string
	value  func(n int) any
}{
	"AppService, bare": {
		object: `
kind: AppService
spec: {image: example.com/web:1, replicas: 3, disruption: {budget: None}}
`,
		makes:  []string{"pods", "deployments.apps"},
		edited: []string{"spec", "image"},
		value:  nextImage,
	},
	"AppService, whole": {
		object: `
kind: AppService
spec:
  image: example.com/web:1
  ports: [{port: 80}]
  autoscaling: {minReplicas: 2, maxReplicas: 4, targetCPUUtilization: 70}
  expose: {hostnames: [shop.example.com], ingressClassName: nginx}
  config: {files: [{path: /etc/web.yaml, content: "a: 1"}]}
  serviceAccountName: robot
`,
		makes: []string{
			"pods", "deployments.apps", "services", "configmaps", "horizontalpodautoscalers.autoscaling",
			"poddisruptionbudgets.policy", "ingresses.networking.k8s.io",
		},
		accounts: []string{"robot"},
		edited:   []string{"spec", "image"},
		value:    nextImage,
	},
	"AppStack, of a job": {
		object: `
kind: AppStack
spec:
  components:
  - name: migrate
    job: {image: example.com/web:1, serviceAccountName: robot}
`,
		makes:    []string{"pods", "jobs.batch"},
		accounts: []string{"robot"},
		edited:   []string{"spec", "revisionHistoryLimit"},
		value:    func(n int) any { return n + 1 },
	},
	"AppStack, whole": {
		object: `
kind: AppStack
spec:
  components:
  - name: db
    stateful:
      image: example.com/db:1
      storage: [{name: data, mountPath: /data, size: 1Gi}]
      credentials: [{key: password}]
      serviceAccountName: robot
  - name: nightly
    job: {image: example.com/web:1, schedule: "@daily", config: {files: [{path: /etc/job.yaml, content: "a: 1"}]}}
  - name: web
    service:
      image: example.com/web:1
      replicas: 2
      ports: [{port: 80}]
      expose: {hostnames: [shop.example.com], gatewayRef: {name: web}}
      serviceAccountName: robot
`,
		makes: []string{
			"pods", "deployments.apps", "statefulsets.apps", "persistentvolumeclaims", "cronjobs.batch", "services",
			"secrets", "configmaps", "poddisruptionbudgets.policy", "httproutes.gateway.networking.k8s.io",
		},
		accounts: []string{"robot"},
		edited:   []string{"spec", "revisionHistoryLimit"},
		value:    func(n int) any { return n + 1 },
	},
	"AppStack, database": {
		object: `
kind: AppStack
spec:
  components:
  - name: db
    database: {version: "11.8", storage: {size: 1Gi}, config: "[server]"}
`,
		makes:  []string{"pods", "statefulsets.apps", "persistentvolumeclaims", "services", "secrets", "configmaps"},
		edited: []string{"spec", "revisionHistoryLimit"},
		value:  func(n int) any { return n + 1 },
	},
	"AppStack, deletes data": {
		object: `
kind: AppStack
spec:
  deletionPolicy: Delete
  components:
  - name: db
    stateful: {image: "example.com/db:1", storage: [{name: data, mountPath: /data, size: 1Gi}], serviceAccountName: robot}
`,
		makes:    []string{"pods", "statefulsets.apps", "persistentvolumeclaims", "services"},
		deletes:  dataResources,
		accounts: []string{"robot"},
		edited:   []string{"spec", "revisionHistoryLimit"},
		value:    func(n int) any { return n + 1 },
	},
	"CloudManager, deletes data": {
		object: `
kind: CloudManager
spec:
  deletionPolicy: Delete
  front: {deployment: {image: "example.com/front:1"}}
  identity: {deployment: {image: "example.com/identity:1"}}
  db: {statefulSet: {image: "example.com/db:1", storage: {size: 1Gi}}}
`,
		makes:   []string{"pods", "deployments.apps", "statefulsets.apps", "persistentvolumeclaims", "services", "secrets"},
		deletes: dataResources,
		edited:  []string{"spec", "front", "deployment", "image"},
		value:   nextImage,
	},
	"AppStack, restarted": {
		object: `
kind: AppStack
spec:
  components: [{name: web, service: {image: "example.com/web:1"}}]
`,
		makes:  []string{"pods", "deployments.apps"},
		edited: []string{"spec", "operations"},
		value: func(n int) any {
			return []any{map[string]any{"component": "web", "restartRequestedAt": fmt.Sprint(n)}}
		},
	},
	"AppStack, scaled": {
		object: `
kind: AppStack
spec:
  operations: [{component: web, replicas: 2}, {component: migrate, suspend: true}]
  components: [{name: web, service: {image: "example.com/web:1"}}]
`,
		makes:  []string{"pods", "deployments.apps", "poddisruptionbudgets.policy"},
		edited: []string{"spec", "operations"},
		value:  func(n int) any { return []any{map[string]any{"component": "web", "replicas": n + 3}} },
	},
	"CloudManager, rotated": {
		object: `
kind: CloudManager
spec:
  front: {deployment: {image: "example.com/front:1"}}
  identity: {deployment: {image: "example.com/identity:1"}}
  db: {statefulSet: {image: "example.com/db:1", storage: {size: 1Gi}}}
`,
		makes:  []string{"pods", "deployments.apps", "statefulsets.apps", "persistentvolumeclaims", "services", "secrets"},
		edited: []string{"spec", "operations"},
		value: func(n int) any {
			return []any{map[string]any{"component": "db", "rotationRequestedAt": fmt.Sprint(n)}}
		},
	},
	"CloudManager": {
		object: `
kind: CloudManager
spec:
  front: {deployment: {image: "example.com/front:1"}}
  identity: {deployment: {image: "example.com/identity:1"}}
  db: {statefulSet: {image: "example.com/db:1", storage: {size: 1Gi}}}
`,
		makes:  []string{"pods", "deployments.apps", "statefulsets.apps", "persistentvolumeclaims", "services", "secrets"},
		edited: []string{"spec", "front", "deployment", "image"},
		value:  nextImage,
	},
}

// slug returns a name prefix.
func slug(spec string) string {
	return strings.ToLower(strings.NewReplacer(",", "", " ", "-").Replace(spec)) + "-"
}

func nextImage(n int) any { return fmt.Sprintf("example.com/web:%d", n+2) }

// missingRight returns the first missing permission of a user as in the message of the policy.
func missingRight(u user, makes, deletes, accounts []string) string {
	for _, kind := range childResources {
		if slices.Contains(makes, kind) && !slices.Contains(u.canCreate, kind) {
			return "create " + kind
		}
	}
	for _, kind := range deletes {
		if !slices.Contains(u.canDelete, kind) {
			return "delete " + kind
		}
	}
	for _, account := range accounts {
		if !slices.Contains(u.canImpersonate, account) && !slices.Contains(u.canImpersonate, allServiceAccounts) {
			return fmt.Sprintf("impersonate ServiceAccount %q", account)
		}
	}
	return ""
}

// testRequesterRights creates and changes every spec as every user. It must succeed only for users who are allowed
// to create all children of the spec and to impersonate its ServiceAccounts.
func testRequesterRights(w *world) {
	for _, name := range sortedKeys(specs) {
		spec := specs[name]
		target := applicationInShop(w.t, spec.object, slug(name)+"target")
		w.create(target)
		for n, u := range users() {
			want, c := missingRight(u, spec.makes, spec.deletes, spec.accounts), w.clientFor(u.name)
			all := neededRights(spec.makes, spec.deletes, spec.accounts)
			created := applicationInShop(w.t, spec.object, slug(name)+u.name)
			w.expectDecision(u, "creates "+name, want, all, c.Create(w.t.Context(), created))
			w.expectDecision(u, "changes "+name, want, all, c.Patch(w.t.Context(), target.DeepCopy(), mergePatch(w.t, spec.value(n), spec.edited...)))
		}
	}
}

// neededRights returns all permissions that a spec needs, as in the message of the policy.
func neededRights(makes, deletes, accounts []string) string {
	text := "create " + strings.Join(makes, ", ")
	if len(deletes) > 0 {
		text += "; delete " + strings.Join(deletes, ", ")
	}
	if len(accounts) > 0 {
		text += "; impersonate ServiceAccounts " + strings.Join(accounts, ", ")
	}
	text += `. The ClusterRole "edit" contains them`
	if slices.Contains(makes, "httproutes.gateway.networking.k8s.io") {
		text += ", except create httproutes.gateway.networking.k8s.io"
	}
	return text
}

// expectDecision compares the response with the missing permission and all permissions that the spec needs.
func (w *world) expectDecision(u user, action, missing, all string, err error) {
	w.t.Helper()
	w.t.Logf("%s %s: %v", u.name, action, err)
	if missing == "" {
		w.Expect(err).NotTo(HaveOccurred(), "%s %s", u.name, action)
		return
	}
	w.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%s %s without permission to %s: %v", u.name, action, missing, err)
	w.Expect(err.Error()).To(And(
		ContainSubstring("ValidatingAdmissionPolicy '"+rightsPolicy+"'"),
		ContainSubstring("user %q cannot %s in namespace \"shop\", but ", u.name, missing),
		HaveSuffix("; ask an administrator of the namespace for all permissions that it needs, or have a user with these permissions make the change: "+all),
	), "%s %s", u.name, action)
}

// testWriteVerbs tests all write verbs.
func testWriteVerbs(w *world) {
	manifest := specs["AppService, bare"].object
	target := applicationInShop(w.t, manifest, "verbs")
	w.create(target)
	writer, ctx := w.clientFor("writer"), w.t.Context()

	changed := target.DeepCopy()
	changed.Object["spec"].(map[string]any)["image"] = "example.com/web:2"
	applied := applicationInShop(w.t, manifest, "applied")
	appliedOver := applicationInShop(w.t, manifest, "verbs")
	appliedOver.Object["spec"].(map[string]any)["image"] = "example.com/web:2"
	for verb, err := range map[string]error{
		"create":             writer.Create(ctx, applicationInShop(w.t, manifest, "created")),
		"update":             writer.Update(ctx, changed),
		"patch":              writer.Patch(ctx, target.DeepCopy(), mergePatch(w.t, "example.com/web:2", "spec", "image")),
		"apply a new object": writer.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), client.FieldOwner("writer")),
		"apply an existing object": writer.Apply(ctx, client.ApplyConfigurationFromUnstructured(appliedOver), client.FieldOwner("writer"),
			client.ForceOwnership),
	} {
		w.Expect(errorText(err)).To(ContainSubstring(`user "writer" cannot create pods`), verb)
	}
}

// testMetadataOnly checks that users without further permissions can make all changes that create no children.
func testMetadataOnly(w *world) {
	writer, ctx := w.clientFor("writer"), w.t.Context()
	for name, spec := range specs {
		target := applicationInShop(w.t, spec.object, slug(name)+"metadata")
		w.create(target)
		for action, err := range map[string]error{
			"label":            writer.Patch(ctx, target.DeepCopy(), mergePatch(w.t, "red", "metadata", "labels", "team")),
			"set a finalizer":  writer.Patch(ctx, target.DeepCopy(), mergePatch(w.t, []string{"example.com/wait"}, "metadata", "finalizers")),
			"write the status": writer.Status().Patch(ctx, target.DeepCopy(), mergePatch(w.t, 7, "status", "observedGeneration")),
			"delete":           writer.Delete(ctx, target.DeepCopy()),
		} {
			w.Expect(err).NotTo(HaveOccurred(), "%s %s", action, name)
		}
		w.Expect(writer.Patch(ctx, target.DeepCopy(), mergePatch(w.t, nil, "metadata", "finalizers"))).To(Succeed(),
			"remove the finalizer of %s", name)
	}
	scaled := applicationInShop(w.t, specs["AppService, bare"].object, "scaled")
	w.create(scaled)
	w.Expect(writer.SubResource("scale").Patch(ctx, scaled, mergePatch(w.t, 5, "spec", "replicas"))).To(Succeed(),
		"scale has a separate permission")
}

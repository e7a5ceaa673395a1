package apply

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/ownership"
)

// conflictingEdits are what people do by hand that shuts out a field of ours, as merge patches of
// the first container, the pod spec, the Deployment's spec or the Service's spec.
var conflictingEdits = map[string]struct {
	spec string
	edit string
}{
	"probe: tcpSocket to httpGet": {
		spec: `{image: nginx, ports: [{port: 80}]}`,
		edit: `container: {readinessProbe: {tcpSocket: null, httpGet: {port: 8080, path: /theirs}}}`,
	},
	"probe: httpGet to exec": {
		spec: `{image: nginx, probes: {liveness: {httpGet: {port: 80}}}}`,
		edit: `container: {livenessProbe: {httpGet: null, exec: {command: [theirs]}}}`,
	},
	"probe: exec to grpc": {
		spec: `{image: nginx, probes: {startup: {exec: {command: [ours]}}}}`,
		edit: `container: {startupProbe: {exec: null, grpc: {port: 9090}}}`,
	},
	"preStop: sleep to exec": {
		spec: `{image: nginx, preStopSleepSeconds: 3}`,
		edit: `container: {lifecycle: {preStop: {sleep: null, exec: {command: [theirs]}}}}`,
	},
	"env: value to valueFrom": {
		spec: `{image: nginx, env: [{name: MODE, value: prod}]}`,
		edit: `container: {env: [{name: MODE, value: null, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]}`,
	},
	"env: valueFrom to value": {
		spec: `{image: nginx, env: [{name: MODE, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]}`,
		edit: `container: {env: [{name: MODE, value: theirs, valueFrom: null}]}`,
	},
	"env: from a Secret to from a ConfigMap": {
		spec: `{image: nginx, env: [{name: MODE, valueFrom: {secretKeyRef: {name: a, key: b}}}]}`,
		edit: `container: {env: [{name: MODE, valueFrom: {secretKeyRef: null, configMapKeyRef: {name: a, key: b}}}]}`,
	},
	"env: empty to a value": {
		spec: `{image: nginx, env: [{name: MODE}]}`,
		edit: `container: {env: [{name: MODE, value: theirs}]}`,
	},
	"seccomp: Localhost": {
		spec: `{image: nginx}`,
		edit: `pod: {securityContext: {seccompProfile: {type: Localhost, localhostProfile: theirs.json}}}`,
	},
	"privileged": {
		spec: `{image: nginx}`,
		edit: `container: {securityContext: {allowPrivilegeEscalation: true, privileged: true}}`,
	},
	"CAP_SYS_ADMIN": {
		spec: `{image: nginx}`,
		edit: `container: {securityContext: {allowPrivilegeEscalation: true, capabilities: {add: [CAP_SYS_ADMIN]}}}`,
	},
	"requests above our limits": {
		spec: `{image: nginx, resources: {limits: {cpu: "1", memory: 1Gi}}}`,
		edit: `container: {resources: {limits: {cpu: "4"}, requests: {cpu: "2"}}}`,
	},
	"limits below our requests": {
		spec: `{image: nginx, resources: {requests: {memory: 1Gi}}}`,
		edit: `container: {resources: {limits: {memory: 500Mi}, requests: {memory: 500Mi}}}`,
	},
	"a grace period shorter than our sleep": {
		spec: `{image: nginx, ports: [{port: 80}]}`,
		edit: `{pod: {terminationGracePeriodSeconds: 2}, container: {lifecycle: {preStop: {sleep: {seconds: 1}}}}}`,
	},
	"ready later than our deadline": {
		spec: `{image: nginx}`,
		edit: `spec: {minReadySeconds: 700, progressDeadlineSeconds: 800}`,
	},
	"strategy: Recreate": {
		spec: `{image: nginx}`,
		edit: `spec: {strategy: {type: Recreate, rollingUpdate: null}}`,
	},
	"Service: LoadBalancer with source ranges": {
		spec: `{image: nginx, ports: [{port: 80}]}`,
		edit: `service: {type: LoadBalancer, loadBalancerSourceRanges: [10.0.0.0/8]}`,
	},
	"Service: ExternalName": {
		spec: `{image: nginx, ports: [{port: 80}]}`,
		edit: `service: {type: ExternalName, externalName: example.com, clusterIP: null, clusterIPs: null}`,
	},
	"Service: another port of the same name": {
		spec: `{image: nginx, ports: [{name: http, port: 80}]}`,
		edit: `service: {ports: [{$patch: replace}, {name: http, port: 81, protocol: TCP}]}`,
	},
	"Service: number of a port without a name": {
		spec: `{image: nginx, ports: [{port: 80}]}`,
		edit: `service: {ports: [{$patch: replace}, {port: 81, protocol: TCP}]}`,
	},
	"Service: number and name of a port without a name": {
		spec: `{image: nginx, ports: [{port: 80}]}`,
		edit: `service: {ports: [{$patch: replace}, {name: theirs, port: 81, protocol: TCP}]}`,
	},
	"Service: a port without a name": {
		spec: `{image: nginx, ports: [{name: http, port: 80}]}`,
		edit: `service: {ports: [{$patch: replace}, {port: 81, protocol: TCP}]}`,
	},
	"container: another port of the same name": {
		spec: `{image: nginx, ports: [{name: http, port: 80}]}`,
		edit: `container: {ports: [{$patch: replace}, {name: http, containerPort: 81, protocol: TCP}]}`,
	},
	"Service: ClientIP": {
		spec: `{image: nginx, ports: [{port: 80}], service: {sessionAffinity: None}}`,
		edit: `service: {sessionAffinity: ClientIP}`,
	},
	"Service: another selector": {
		spec: `{image: nginx, ports: [{port: 80}]}`,
		edit: `service: {selector: {theirs: "yes"}}`,
	},
}

// acceptedByPlainApply are the edits that a plain apply undoes: they are here to show that.
var acceptedByPlainApply = map[string]bool{
	"strategy: Recreate": true, "Service: ExternalName": true, "Service: ClientIP": true, "Service: another selector": true,
	"env: empty to a value": true, // accepted, and without effect
}

// testUnionConflicts makes each edit: a plain apply is refused, ours is not, and afterwards the
// object is as if the edit had never been, in the books too.
func (a *apiServer) testUnionConflicts(t *testing.T) {
	for name, tc := range conflictingEdits {
		t.Run(name, func(t *testing.T) {
			owner := a.owner(t)
			children := buildComponent(t, owner, tc.spec).Children
			child := children[0]
			if strings.Contains(tc.edit, "service:") {
				child = children[1]
			}
			applier := a.applier()
			if _, result, err := observeAndApply(t.Context(), t, applier, owner, child); err != nil || result.Action != Created {
				t.Fatalf("%q, %v", result.Action, err)
			}
			a.edit(t, owner, child.ID, tc.edit)
			plain := a.plainApply(t, owner, child)
			if acceptedByPlainApply[name] != (plain == nil) {
				t.Errorf("a plain apply: %v", plain)
			}
			a.edit(t, owner, child.ID, tc.edit) // once more, if that undid it
			_, result, err := observeAndApply(t.Context(), t, applier, owner, child)
			if err != nil || result.Action != Repaired {
				t.Fatalf("%q, %v", result.Action, err)
			}
			a.checkForeignFieldsGone(t, child, result.Object)
			if _, result, err := observeAndApply(t.Context(), t, a.applier(), owner, child); err != nil || result.Action != Unchanged {
				t.Errorf("a second time: %q, %v", result.Action, err)
			}
		})
	}
}

// checkForeignFieldsGone says that the edit is gone as far as it was in the way, and that it
// is us alone who hold what we hold.
func (a *apiServer) checkForeignFieldsGone(t *testing.T, child desired.Child, obj client.Object) {
	t.Helper()
	config, err := child.Render(obj)
	if err != nil {
		t.Fatal(err)
	}
	want, err := config.Fields()
	if err != nil {
		t.Fatal(err)
	}
	if projected, err := ownership.Compare(want, obj); projected != "" || err != nil {
		t.Errorf("it is not what we want: %v", err)
	}
	if err := a.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
		t.Fatal(err)
	}
	for _, entry := range obj.GetManagedFields() {
		if entry.Manager == "holdfast" && entry.Operation != metav1.ManagedFieldsOperationApply {
			t.Errorf("we hold fields that an apply never gives back: %s", entry.FieldsV1.GetRawString())
		}
	}
}

func (a *apiServer) plainApply(t *testing.T, owner desired.Owner, child desired.Child) error {
	t.Helper()
	live := a.get(t, owner, child.ID)
	config, err := child.Render(live)
	if err != nil {
		t.Fatal(err)
	}
	_, err = a.applier().patch(t.Context(), owner, child.ID, config, live.GetUID(), live.GetResourceVersion())
	if err != nil && !apierrors.IsInvalid(err) {
		t.Fatal(err)
	}
	return err
}

func (a *apiServer) get(t *testing.T, owner desired.Owner, id desired.ID) client.Object {
	t.Helper()
	obj, err := a.applier().get(t.Context(), a.Client, owner.Namespace, id)
	if err != nil || obj == nil {
		t.Fatalf("get %s: %v", id.Kind.Kind, err)
	}
	return obj
}

// edit changes a child as somebody with an editor does.
func (a *apiServer) edit(t *testing.T, owner desired.Owner, id desired.ID, text string) {
	t.Helper()
	var e struct{ Container, Pod, Spec, Service map[string]any }
	if err := yaml.UnmarshalStrict([]byte(text), &e); err != nil {
		t.Fatal(err)
	}
	patch := map[string]any{}
	spec := e.Spec
	if e.Service != nil {
		spec = e.Service
	}
	if spec == nil {
		spec = map[string]any{}
	}
	patch["spec"] = spec
	if e.Container != nil || e.Pod != nil {
		pod := e.Pod
		if pod == nil {
			pod = map[string]any{}
		}
		if e.Container != nil {
			e.Container["name"] = "app"
			pod["containers"] = []any{e.Container}
		}
		spec["template"] = map[string]any{"spec": pod}
	}
	content, err := json.Marshal(patch)
	if err != nil {
		t.Fatal(err)
	}
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(id.Kind)
	obj.SetNamespace(owner.Namespace)
	obj.SetName(id.Name)
	if err := a.Patch(t.Context(), obj, client.RawPatch(types.StrategicMergePatchType, content), client.FieldOwner("kubectl-edit")); err != nil {
		t.Fatal(err)
	}
}

// TestTransferFields moves a field from their page of the books to ours, once.
func TestTransferFields(t *testing.T) {
	managedFieldsEntry := func(manager string, operation metav1.ManagedFieldsOperationType, subresource, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: operation, APIVersion: "apps/v1", FieldsType: "FieldsV1",
			Subresource: subresource, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	path := fieldpath.MakePathOrDie("spec", "probe", "httpGet")
	cases := map[string]struct {
		before, want []metav1.ManagedFieldsEntry
		changed      bool
	}{
		"theirs": {
			before: []metav1.ManagedFieldsEntry{
				managedFieldsEntry("holdfast", "Apply", "", `{"f:spec":{"f:replicas":{}}}`),
				managedFieldsEntry("kubectl-edit", "Update", "", `{"f:spec":{"f:paused":{},"f:probe":{"f:httpGet":{".":{},"f:port":{}}}}}`),
				managedFieldsEntry("holdfast", "Apply", "status", `{"f:status":{}}`),
			},
			want: []metav1.ManagedFieldsEntry{
				managedFieldsEntry("kubectl-edit", "Update", "", `{"f:spec":{"f:paused":{}}}`),
				managedFieldsEntry("holdfast", "Apply", "status", `{"f:status":{}}`),
				managedFieldsEntry("holdfast", "Apply", "", `{"f:spec":{"f:probe":{"f:httpGet":{}},"f:replicas":{}}}`),
			},
			changed: true,
		},
		"theirs, and nothing else of them": {
			before:  []metav1.ManagedFieldsEntry{managedFieldsEntry("kubectl-edit", "Update", "", `{"f:spec":{"f:probe":{"f:httpGet":{"f:port":{}}}}}`)},
			want:    []metav1.ManagedFieldsEntry{managedFieldsEntry("holdfast", "Apply", "", `{"f:spec":{"f:probe":{"f:httpGet":{}}}}`)},
			changed: true,
		},
		"nobody's": {
			before:  []metav1.ManagedFieldsEntry{managedFieldsEntry("holdfast", "Apply", "", `{"f:spec":{"f:replicas":{}}}`)},
			want:    []metav1.ManagedFieldsEntry{managedFieldsEntry("holdfast", "Apply", "", `{"f:spec":{"f:probe":{"f:httpGet":{}},"f:replicas":{}}}`)},
			changed: true,
		},
		"ours": {
			before: []metav1.ManagedFieldsEntry{managedFieldsEntry("holdfast", "Apply", "", `{"f:spec":{"f:probe":{"f:httpGet":{"f:port":{}}}}}`)},
			want:   []metav1.ManagedFieldsEntry{managedFieldsEntry("holdfast", "Apply", "", `{"f:spec":{"f:probe":{"f:httpGet":{".":{},"f:port":{}}}}}`)},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, changed, err := transferFields(tc.before, "apps/v1", []fieldpath.Path{path})
			if err != nil || changed != tc.changed {
				t.Fatalf("changed: %t, %v", changed, err)
			}
			if diff := cmp.Diff(managedFieldLines(tc.want), managedFieldLines(got)); diff != "" {
				t.Error(diff)
			}
			if _, changed, err := transferFields(got, "apps/v1", []fieldpath.Path{path}); changed || err != nil {
				t.Errorf("a second time: changed: %t, %v", changed, err)
			}
		})
	}
}

func managedFieldLines(books []metav1.ManagedFieldsEntry) []string {
	var lines []string
	for _, p := range books {
		lines = append(lines, fmt.Sprint(p.Manager, p.Operation, p.Subresource, p.APIVersion, p.FieldsV1.GetRawString()))
	}
	return lines
}

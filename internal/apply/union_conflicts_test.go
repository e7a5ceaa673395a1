package apply

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/fieldmanager"
)

// conflictingEdits are manual edits that conflict with a declared field, as merge patches of the
// first container, the pod spec, the spec of the Deployment or the spec of the Service.
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
	"requests above the declared limits": {
		spec: `{image: nginx, resources: {limits: {cpu: "1", memory: 1Gi}}}`,
		edit: `container: {resources: {limits: {cpu: "4"}, requests: {cpu: "2"}}}`,
	},
	"limits below the declared requests": {
		spec: `{image: nginx, resources: {requests: {memory: 1Gi}}}`,
		edit: `container: {resources: {limits: {memory: 500Mi}, requests: {memory: 500Mi}}}`,
	},
	"grace period shorter than the declared sleep": {
		spec: `{image: nginx, ports: [{port: 80}]}`,
		edit: `{pod: {terminationGracePeriodSeconds: 2}, container: {lifecycle: {preStop: {sleep: {seconds: 1}}}}}`,
	},
	"minReadySeconds above the declared deadline": {
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
	"Service: port without a name": {
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

// resolvedByApply are the edits that a plain apply reverts: they are drift, not conflicts.
var resolvedByApply = map[string]bool{
	"strategy: Recreate": true, "Service: ExternalName": true, "Service: ClientIP": true, "Service: another selector": true,
}

// acceptedWithoutEffect are the edits that a plain apply does not revert although the API server
// accepts it.
var acceptedWithoutEffect = map[string]bool{"env: empty to a value": true}

// testUnionConflicts performs each edit. A plain apply is rejected; ours reports the manager and
// writes nothing. With permission the object, including managedFields, is afterwards as if the edit
// had never been made.
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
			if (resolvedByApply[name] || acceptedWithoutEffect[name]) != (plain == nil) {
				t.Errorf("plain apply: %v", plain)
			}
			a.edit(t, owner, child.ID, tc.edit) // repeated, in case the plain apply reverted it
			if !resolvedByApply[name] {
				a.checkConflictReported(t, applier, owner, child)
				a.annotate(t, owner, child.ID, appsapi.DefaultKeys.TakeOwnership)
			}
			_, result, err := observeAndApply(t.Context(), t, applier, owner, child)
			if err != nil || result.Action != Repaired || resolvedByApply[name] != (len(result.TakenOver) == 0) {
				t.Fatalf("%q, taken over %v, %v", result.Action, result.TakenOver, err)
			}
			a.checkForeignFieldsGone(t, child, result.Object)
			if _, result, err := observeAndApply(t.Context(), t, a.applier(), owner, child); err != nil || result.Action != Unchanged {
				t.Errorf("second apply: %q, %v", result.Action, err)
			}
		})
	}
}

// checkConflictReported expects an error that names the manager, and no write.
func (a *apiServer) checkConflictReported(t *testing.T, applier *Applier, owner desired.Owner, child desired.Child) {
	t.Helper()
	before := a.get(t, owner, child.ID)
	_, _, err := observeAndApply(t.Context(), t, applier, owner, child)
	var conflict *fieldmanager.FieldConflict
	if !errors.As(err, &conflict) || !strings.Contains(conflict.Message, `is set by field manager "kubectl-edit"`) {
		t.Errorf("got %v", err)
	}
	if after := a.get(t, owner, child.ID); after.GetResourceVersion() != before.GetResourceVersion() {
		t.Error("the object was written")
	}
}

func (a *apiServer) annotate(t *testing.T, owner desired.Owner, id desired.ID, annotation string) {
	t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:"true"}}}`, annotation)
	if err := a.Patch(t.Context(), a.get(t, owner, id), client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		t.Fatal(err)
	}
}

// checkForeignFieldsGone checks that the conflicting fields are gone, and that only we own the
// declared fields.
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
	if projected, err := fieldmanager.Compare(want, obj); projected != "" || err != nil {
		t.Errorf("the object does not match: %v", err)
	}
	if err := a.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
		t.Fatal(err)
	}
	for _, entry := range obj.GetManagedFields() {
		if entry.Manager == "holdfast" && entry.Operation != metav1.ManagedFieldsOperationApply {
			t.Errorf("we own fields that no apply removes: %s", entry.FieldsV1.GetRawString())
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

// edit changes a child as kubectl edit does.
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

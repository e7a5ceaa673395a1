package appservice_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
)

// fullSpec sets every field of the spec, with zero replicas.
const fullSpec = `
image: shop/web:2@sha256:0123456789012345678901234567890123456789012345678901234567890123
imagePullPolicy: Always
imagePullSecrets: [{name: regcred}, {name: other}]
command: [/bin/web]
args: [--verbose, ""]
env:
- {name: MODE, value: prod}
- {name: EMPTY}
- {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
- {name: LIMIT, valueFrom: {resourceFieldRef: {resource: limits.memory}}}
- {name: TOKEN, valueFrom: {secretKeyRef: {name: web, key: token, optional: true}}}
- {name: COLOR, valueFrom: {configMapKeyRef: {name: web, key: color}}}
envFrom:
- {prefix: CFG_, configMapRef: {name: settings}}
- {secretRef: {name: more}}
resources: {requests: {cpu: 10m}, limits: {memory: "134217728", example.com/gpu: "1"}}
probes:
  readiness: {httpGet: {path: /ready, port: http}, periodSeconds: 3}
  liveness: {exec: {command: [/bin/check]}, timeoutSeconds: 5}
  startup: {grpc: {port: 9090}, failureThreshold: 30}
preStopSleepSeconds: 12
terminationGracePeriodSeconds: 60
replicas: 0
ports:
- {name: http, port: 80, targetPort: 8080, protocol: TCP}
- {name: https, port: 443, targetPort: 8443, protocol: TCP}
- {name: alias, port: 8080, protocol: TCP}
- {name: dns, port: 53, protocol: UDP}
service: {type: LoadBalancer, annotations: {example.com/lb: internal}, sessionAffinity: ClientIP}
update: {maxSurge: 25%, maxUnavailable: 1, minReadySeconds: 5, progressDeadlineSeconds: 120}
security: {level: Restricted, runAsUser: 1000, runAsGroup: 1000, fsGroup: 2000, readOnlyRootFilesystem: true}
operations: [{component: web, restartRequestedAt: "2026-01-02T03:04:05Z"}]`

// alternativeValues are valid values of fields for which appending "-x" is not valid.
var alternativeValues = map[string]any{
	"apiVersion": "v2", "divisor": "1Mi", "fieldPath": "metadata.name", "resource": "limits.cpu",
	"cpu": "20m", "memory": "256Mi", "maxSurge": "30%", "topologyKey": "example.com/rack",
	"imagePullPolicy": "IfNotPresent", "terminationMessagePolicy": "File", "sessionAffinity": "None",
	"example.com/gpu": "2", "spec.type": "NodePort", "seccompProfile.type": "Unconfined",
}

// rejectedChanges are the changes that the API server rejects or reverts.
const rejectedChanges = `
remove deployments.apps metadata.ownerReferences[ours].apiVersion
remove deployments.apps metadata.ownerReferences[ours].kind
remove deployments.apps metadata.ownerReferences[ours].name
remove deployments.apps spec.selector.matchLabels.app.kubernetes.io/managed-by
remove deployments.apps spec.selector.matchLabels.apps.holdfast.dev/workload
remove deployments.apps spec.strategy.rollingUpdate.maxSurge
remove deployments.apps spec.strategy.type
remove deployments.apps spec.template.metadata.labels.app.kubernetes.io/managed-by
remove deployments.apps spec.template.metadata.labels.apps.holdfast.dev/workload
remove deployments.apps spec.template.spec.containers[app]
remove deployments.apps spec.template.spec.containers[app].env[COLOR].valueFrom.configMapKeyRef.key
remove deployments.apps spec.template.spec.containers[app].env[COLOR].valueFrom.configMapKeyRef.name
remove deployments.apps spec.template.spec.containers[app].env[LIMIT].valueFrom.resourceFieldRef.divisor
remove deployments.apps spec.template.spec.containers[app].env[LIMIT].valueFrom.resourceFieldRef.resource
remove deployments.apps spec.template.spec.containers[app].env[NODE].valueFrom.fieldRef.apiVersion
remove deployments.apps spec.template.spec.containers[app].env[NODE].valueFrom.fieldRef.fieldPath
remove deployments.apps spec.template.spec.containers[app].env[TOKEN].valueFrom.secretKeyRef.key
remove deployments.apps spec.template.spec.containers[app].env[TOKEN].valueFrom.secretKeyRef.name
remove deployments.apps spec.template.spec.containers[app].image
remove deployments.apps spec.template.spec.containers[app].livenessProbe.exec.command
remove deployments.apps spec.template.spec.containers[app].readinessProbe.httpGet.port
remove deployments.apps spec.template.spec.containers[app].startupProbe.grpc.port
remove deployments.apps spec.template.spec.containers[app].startupProbe.grpc.service
remove deployments.apps spec.template.spec.securityContext.seccompProfile.type
remove deployments.apps spec.template.spec.topologySpreadConstraints[kubernetes.io/hostname ScheduleAnyway].maxSkew
remove deployments.apps spec.template.spec.topologySpreadConstraints[topology.kubernetes.io/zone ScheduleAnyway].maxSkew
remove services metadata.ownerReferences[ours].apiVersion
remove services metadata.ownerReferences[ours].kind
remove services metadata.ownerReferences[ours].name
remove services spec.ports[443 TCP].name
remove services spec.ports[53 UDP].name
remove services spec.ports[53 UDP].targetPort
remove services spec.ports[80 TCP].name
remove services spec.ports[8080 TCP].name
remove services spec.ports[8080 TCP].targetPort
set deployments.apps spec.selector.matchLabels.app.kubernetes.io/managed-by to holdfast-x
set deployments.apps spec.selector.matchLabels.apps.holdfast.dev/workload to deployment-first-x
set deployments.apps spec.strategy.type to RollingUpdate-x
set deployments.apps spec.template.metadata.labels.app.kubernetes.io/managed-by to holdfast-x
set deployments.apps spec.template.metadata.labels.apps.holdfast.dev/workload to deployment-first-x
set deployments.apps spec.template.spec.containers[app].env[NODE].valueFrom.fieldRef.apiVersion to v2`

// driftEdit is one change by another client.
type driftEdit struct {
	resource string
	field    field
	value    any // nil removes
}

func (d driftEdit) String() string {
	if d.value == nil {
		return "remove " + d.resource + " " + d.field.String()
	}
	return fmt.Sprintf("set %s %s to %v", d.resource, d.field, d.value)
}

func allDriftEdits(sent map[string]map[string]any) []driftEdit {
	var all []driftEdit
	for _, resource := range []string{"deployments.apps", "services"} {
		for _, f := range fieldsOf(sent[resource]) {
			all = append(all, driftEdit{resource, f, nil})
			if _, isElement := f.want.(map[string]any); !isElement {
				all = append(all, driftEdit{resource, f, changedValue(f)})
			}
		}
	}
	return all
}

// changedValue returns another value for a field.
func changedValue(f field) any {
	path := f.String()
	for name, value := range alternativeValues {
		if strings.HasSuffix("."+path, "."+name) {
			return value
		}
	}
	switch v := f.want.(type) {
	case bool:
		return !v
	case float64:
		return v + 1
	case string:
		return v + "-x"
	case []any:
		return append(slices.Clone(v), v[0])
	}
	panic(fmt.Sprintf("no alternative value for %s %T", path, f.want))
}

func TestDriftOfEveryFieldIsRepaired(t *testing.T) {
	w := newStory(t)
	calls := w.OperatorRequests(func() {
		w.withName("first").create(fullSpec)
		w.withName("first").waitApplied()
		w.WaitIdle(w.name)
	})
	all := allDriftEdits(w.withName("first").appliedConfigs(calls))
	w.Expect(len(all)).To(BeNumerically(">", 200))
	var failed []string
	var waits []time.Duration
	var mu sync.Mutex
	limit := make(chan struct{}, 8)
	var group sync.WaitGroup
	// Five changes of a child are corrected at once, further ones are delayed.
	for i, chunk := range slices.Collect(slices.Chunk(all, 5)) {
		group.Go(func() {
			limit <- struct{}{}
			defer func() { <-limit }()
			f, ws := w.withName(fmt.Sprintf("web-%d", i)).makeDriftEdits(chunk)
			mu.Lock()
			defer mu.Unlock()
			failed, waits = append(failed, f...), append(waits, ws...)
		})
	}
	group.Wait()
	slices.Sort(failed)
	w.Expect(strings.Join(failed, "\n")).To(Equal(strings.TrimSpace(rejectedChanges)))
	slices.Sort(waits)
	w.Logf("%d changes were corrected, median %s, slowest %s", len(waits), waits[len(waits)/2], waits[len(waits)-1])
	w.Expect(waits[len(waits)/2]).To(BeNumerically("<", 2*time.Second))
}

func (w *world) waitApplied() {
	w.Helper()
	w.Eventually(w.condition("Applied"), "60s", "50ms").Should(Equal("True/Reconciled: The API server accepted every object"))
}

// makeDriftEdits makes changes one after the other and waits for their correction. It returns the failed ones and the
// delays of the corrections.
func (w *world) makeDriftEdits(all []driftEdit) (failed []string, delays []time.Duration) {
	w.create(fullSpec)
	w.waitApplied()
	w.WaitIdle(w.name)
	acceptedEdits := 0
	requests := w.Requests(func() {
		for _, d := range all {
			d.field.path = w.withOwnUID(d.field.path)
			if err := w.makeDriftEdit(d); err != nil {
				failed = append(failed, d.String())
				continue
			}
			acceptedEdits++
		}
		w.WaitIdle(w.name)
	})
	delays = repairDelays(requests.Where(func(e *audit.Event) bool { return e.ObjectRef.Name == w.name }))
	if len(delays) != acceptedEdits {
		w.Errorf("got %d changes and %d corrections: %v\n%s", acceptedEdits, len(delays), all, requests.Writes().Count())
	}
	return failed, delays
}

// repairDelays returns the delay of each accepted write of the operator to a child after the last write of another
// client. It uses the time and order of the API server, because a test on a busy machine may observe both late.
func repairDelays(requests audit.Events) []time.Duration {
	var delays []time.Duration
	var changed time.Time
	for _, e := range requests.Of("deployments.apps", "services").Writes() {
		switch {
		case !e.Accepted() || e.ObjectRef.Subresource != "":
		case e.User.Username == operator.User:
			delays = append(delays, e.Received.Sub(changed))
		case !strings.HasPrefix(e.User.Username, "system:"):
			changed = e.StageTime
		}
	}
	return delays
}

// withOwnUID replaces the UID in a path with that of this AppService.
func (w *world) withOwnUID(path []any) []any {
	path = slices.Clone(path)
	for i, step := range path {
		if keys, ok := step.(elementKeys); ok && keys["uid"] != nil {
			path[i] = elementKeys{"uid": string(w.app().UID)}
		}
	}
	return path
}

var gvkByResource = map[string]schema.GroupVersionKind{
	"deployments.apps": {Group: "apps", Version: "v1", Kind: "Deployment"},
	"services":         {Version: "v1", Kind: "Service"},
}

// makeDriftEdit makes one change and waits for its correction.
func (w *world) makeDriftEdit(d driftEdit) error {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(gvkByResource[d.resource])
	var before any
	for {
		w.Expect(w.Get(w.Context(), client.ObjectKey{Namespace: w.NS, Name: w.name}, obj)).To(Succeed())
		before = d.field.valueIn(obj.DeepCopy().Object)
		if !d.field.setIn(obj.Object, d.value) {
			return fmt.Errorf("already is %v", before)
		}
		err := w.Update(w.Context(), obj, client.FieldOwner("kubectl-edit"))
		if apierrors.IsConflict(err) {
			continue
		}
		if err != nil {
			return err
		}
		break
	}
	if fmt.Sprint(d.field.valueIn(obj.Object)) == fmt.Sprint(before) {
		return errors.New("changed nothing")
	}
	w.Eventually(func() any {
		w.Expect(w.Get(w.Context(), client.ObjectKeyFromObject(obj), obj)).To(Succeed())
		return d.field.valueIn(obj.Object)
	}, "60s", "20ms").Should(Satisfy(func(now any) bool { return includes(now, ownedFields(before, d.field.want)) }), d.String())
	return nil
}

// ownedFields reduces a list element to the applied fields: a recreated port gets a new node port.
func ownedFields(element, applied any) any {
	o, ok := applied.(map[string]any)
	if !ok {
		return element
	}
	e := maps.Clone(asMap(element))
	maps.DeleteFunc(e, func(k string, _ any) bool { return o[k] == nil })
	return e
}

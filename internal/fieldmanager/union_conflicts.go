package fieldmanager

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/holdfast-dev/holdfast/internal/objdiff"
)

// The API server accepts only one of some fields: a probe has one handler, a variable has a value or a
// source. An apply merges and cannot remove a field of another manager, so it would be rejected forever:
//
//	live: httpGet (kubectl-edit)  +  apply: tcpSocket (holdfast)  =  both  ──► 422
//
// Such a field is reported (FieldConflict). With permission its entry in metadata.managedFields is moved to
// us (TransferFields), so that the apply removes it as a field that we owned and no longer declare. The pods
// are then replaced once, and no entry is left behind.

var probeHandlers = []string{"exec", "grpc", "httpGet", "tcpSocket"}

// unionFields are groups of fields of which only one may be set, by the name of their parent. For a
// list they apply to each element.
var unionFields = map[string][]string{
	"readinessProbe": probeHandlers, "livenessProbe": probeHandlers, "startupProbe": probeHandlers,
	"preStop":   {"exec", "httpGet", "sleep", "tcpSocket"},
	"env":       {"value", "valueFrom"},
	"valueFrom": {"configMapKeyRef", "fieldRef", "fileKeyRef", "resourceFieldRef", "secretKeyRef"},
	"volumes": {"awsElasticBlockStore", "azureDisk", "azureFile", "cephfs", "cinder", "configMap", "csi", "downwardAPI",
		"emptyDir", "ephemeral", "fc", "flexVolume", "flocker", "gcePersistentDisk", "gitRepo", "glusterfs", "hostPath",
		"image", "iscsi", "nfs", "persistentVolumeClaim", "photonPersistentDisk", "portworxVolume", "projected", "quobyte",
		"rbd", "scaleIO", "secret", "storageos", "vsphereVolume"},
}

// exclusion is a field of live that is invalid next to a declared field. Both paths are relative to
// their common parent.
type exclusion struct {
	theirs []string
	ours   fieldpath.Path
	// value of our field, if the other field is valid next to other values.
	value any
}

// incompatibleFields are fields that are invalid next to some values of another field, by the name
// of their common parent.
var incompatibleFields = map[string]func(want, live map[string]any) []exclusion{
	"seccompProfile": func(want, _ map[string]any) []exclusion {
		return excludedUnless(want["type"] == "Localhost", "localhostProfile", want, "type")
	},
	"securityContext": func(want, live map[string]any) []exclusion {
		if want["allowPrivilegeEscalation"] != false {
			return nil
		}
		found := excludedUnless(live["privileged"] != true, "privileged", want, "allowPrivilegeEscalation")
		if added, _, _ := unstructured.NestedStringSlice(live, "capabilities", "add"); slices.Contains(added, "CAP_SYS_ADMIN") {
			found = append(found, exclusion{[]string{"capabilities", "add"}, fieldpath.MakePathOrDie("allowPrivilegeEscalation"), false})
		}
		return found
	},
	"resources": resourceExclusions,
	// Deployments, pods, Services and PodDisruptionBudgets share the name "spec".
	"spec": func(want, live map[string]any) []exclusion {
		var found []exclusion
		if deadline, ok := want["progressDeadlineSeconds"].(int64); ok {
			ready, _ := live["minReadySeconds"].(int64)
			found = append(found, excludedUnless(ready < deadline, "minReadySeconds", want, "progressDeadlineSeconds")...)
		}
		if _, ok := want["containers"]; ok {
			grace, _ := live["terminationGracePeriodSeconds"].(int64)
			if path, sleep := longestPreStopSleep(want); sleep > grace {
				found = append(found, exclusion{[]string{"terminationGracePeriodSeconds"}, path, sleep})
			}
		}
		if kind, ok := want["type"]; ok {
			found = append(found, excludedUnless(kind == "LoadBalancer", "loadBalancerSourceRanges", want, "type")...)
		}
		_, budget := want["unhealthyPodEvictionPolicy"]
		return append(found, excludedUnless(!budget, "minAvailable", want, "maxUnavailable")...)
	},
}

func excludedUnless(valid bool, theirs string, want map[string]any, ours string) []exclusion {
	if valid {
		return nil
	}
	return []exclusion{{[]string{theirs}, fieldpath.MakePathOrDie(ours), want[ours]}}
}

// resourceExclusions returns requests above our limits, and limits below our requests.
func resourceExclusions(want, live map[string]any) []exclusion {
	var found []exclusion
	for _, pair := range []struct {
		ours, theirs string
		sign         int // result of comparing the other value with our value if they conflict
	}{{"limits", "requests", 1}, {"requests", "limits", -1}} {
		ours, _ := want[pair.ours].(map[string]any)
		theirs, _ := live[pair.theirs].(map[string]any)
		for name, q := range ours {
			a, errA := resource.ParseQuantity(fmt.Sprint(theirs[name]))
			b, errB := resource.ParseQuantity(fmt.Sprint(q))
			if errA == nil && errB == nil && a.Cmp(b) == pair.sign {
				found = append(found, exclusion{[]string{pair.theirs, name}, fieldpath.MakePathOrDie(pair.ours, name), q})
			}
		}
	}
	return found
}

// longestPreStopSleep returns the longest preStop sleep of the declared containers.
func longestPreStopSleep(podSpec map[string]any) (path fieldpath.Path, longest int64) {
	containers, _ := podSpec["containers"].([]any)
	for _, c := range containers {
		container := c.(map[string]any)
		seconds, _, _ := unstructured.NestedInt64(container, "lifecycle", "preStop", "sleep", "seconds")
		if seconds > longest {
			longest = seconds
			path = fieldpath.MakePathOrDie("containers", keyElement(objdiff.MergeKeys("containers", container), container), "lifecycle", "preStop", "sleep", "seconds")
		}
	}
	return path, longest
}

// exclusionsAt returns the undeclared fields of a map in live that are invalid next to declared
// fields.
func exclusionsAt(field string, want, live map[string]any) []exclusion {
	var candidates, found []exclusion
	for _, theirs := range unionFields[field] {
		e := exclusion{theirs: []string{theirs}}
		for _, ours := range unionFields[field] {
			if _, ok := want[ours]; ok {
				e.ours = fieldpath.MakePathOrDie(ours)
			}
		}
		candidates = append(candidates, e)
	}
	if incompatible := incompatibleFields[field]; incompatible != nil {
		candidates = append(candidates, incompatible(want, live)...)
	}
	for _, e := range candidates {
		_, ours, _ := unstructured.NestedFieldNoCopy(want, e.theirs...)
		_, theirs, _ := unstructured.NestedFieldNoCopy(live, e.theirs...)
		if theirs && !ours {
			found = append(found, e)
		}
	}
	return found
}

// UnionConflict is a field of an object that is invalid next to a declared field.
type UnionConflict struct {
	Path fieldpath.Path
	// Declared is our field. Its value is appended if the other field is valid next to other
	// values.
	Declared string
}

func (e exclusion) conflict(parent fieldpath.Path) UnionConflict {
	path := parent
	for _, name := range e.theirs {
		path = childPath(path, fieldpath.PathElement{FieldName: &name})
	}
	declared := pathText(append(slices.Clip(parent), e.ours...))
	if e.value != nil {
		declared = fmt.Sprintf("%s=%v", declared, e.value)
	}
	return UnionConflict{Path: path, Declared: declared}
}

// pathText formats a path as in all other messages: containers[app].image.
func pathText(path fieldpath.Path) string {
	var out objdiff.Path
	for _, e := range path {
		switch {
		case e.FieldName != nil:
			out = out.Field(*e.FieldName)
		case e.Key != nil:
			var key []string
			for _, field := range *e.Key {
				key = append(key, fmt.Sprint(field.Value.Unstructured()))
			}
			out = out.Item(strings.Join(key, "/"))
		default:
			out = out.Item(e.String())
		}
	}
	return out.String()
}

// UnionConflicts returns the fields of live that are invalid next to declared fields, regardless of
// their manager.
func UnionConflicts(want map[string]any, live Object) ([]UnionConflict, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
	if err != nil {
		return nil, fmt.Errorf("read fields of %s: %w", live.GetName(), err)
	}
	conflicts := unionConflictsIn(nil, "", want, content)
	// Sorted, because messages name the first one.
	slices.SortFunc(conflicts, func(a, b UnionConflict) int { return a.Path.Compare(b.Path) })
	return conflicts, nil
}

func unionConflictsIn(parent fieldpath.Path, field string, want, live any) []UnionConflict {
	var found []UnionConflict
	switch w := want.(type) {
	case map[string]any:
		l, ok := live.(map[string]any)
		if !ok || atomicMaps[field] {
			return nil
		}
		for _, e := range exclusionsAt(field, w, l) {
			found = append(found, e.conflict(parent))
		}
		for k, v := range w {
			found = append(found, unionConflictsIn(childPath(parent, fieldpath.PathElement{FieldName: &k}), k, v, l[k])...)
		}
	case []any:
		l, _ := live.([]any)
		if field == "ports" {
			found = portNameConflicts(parent, w, l)
		}
		for _, e := range w {
			element, ok := e.(map[string]any)
			keys := objdiff.MergeKeys(field, element)
			if !ok || len(keys) == 0 {
				return nil
			}
			i := slices.IndexFunc(l, func(e any) bool { return sameKeys(keys, element, e.(map[string]any)) })
			if i >= 0 {
				found = append(found, unionConflictsIn(childPath(parent, keyElement(keys, element)), field, element, l[i])...)
			}
		}
	}
	return found
}

// portNameConflicts returns ports with the name of a declared port: names are unique, and a port
// with a changed number is another port for the API server. In a Service a port without a name must
// be the only one, so it conflicts with every other port.
func portNameConflicts(parent fieldpath.Path, want, live []any) []UnionConflict {
	var found []UnionConflict
	for _, e := range live {
		theirs := e.(map[string]any)
		keys := objdiff.MergeKeys("ports", theirs)
		_, isContainerPort := theirs["containerPort"]
		var declared map[string]any
		samePort := false
		for _, w := range want {
			ours := w.(map[string]any)
			sameName := ours["name"] != nil && ours["name"] == theirs["name"]
			unnamed := !isContainerPort && (theirs["name"] == nil || staysUnnamed(keys, ours, live))
			if declared == nil && (sameName || unnamed) {
				declared = ours
			}
			samePort = samePort || sameKeys(keys, ours, theirs)
		}
		if declared != nil && !samePort {
			found = append(found, UnionConflict{
				Path: childPath(parent, keyElement(keys, theirs)), Declared: pathText(childPath(parent, keyElement(keys, declared))),
			})
		}
	}
	return found
}

// staysUnnamed reports whether a declared port would have no name.
func staysUnnamed(keys []string, ours map[string]any, live []any) bool {
	return ours["name"] == nil && !slices.ContainsFunc(live, func(e any) bool {
		l := e.(map[string]any)
		return sameKeys(keys, ours, l) && l["name"] != nil
	})
}

func childPath(parent fieldpath.Path, next fieldpath.PathElement) fieldpath.Path {
	return append(slices.Clip(parent), next)
}

func keyElement(keys []string, element map[string]any) fieldpath.PathElement {
	var pairs []any
	for _, k := range keys {
		pairs = append(pairs, k, element[k])
	}
	return fieldpath.PathElement{Key: fieldpath.KeyByFields(pairs...)}
}

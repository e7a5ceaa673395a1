package ownership

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Of some fields the API server accepts only one at a time: a probe has one handler, a
// variable has a value or a source. An apply merges, and a null in it is not heard, so
// when somebody else has set the other one every apply would be refused, for ever:
//
//	live: httpGet (theirs)  +  apply: tcpSocket (ours)  =  both  ──► 422
//
// The way out is to make theirs ours first, in the books only (metadata.managedFields):
// the apply then takes it away as a field that we held and no longer want. So the pods
// are replaced once, and nothing is left in anybody's name.

var probeHandlers = []string{"exec", "grpc", "httpGet", "tcpSocket"}

// unionFields are the fields of which only one may be set, by the name of their parent; of
// a list, in each element.
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

// incompatibleFields are fields that are not legal beside every value of another, by the name
// of their common parent. They return the paths from there that contradict what we want.
var incompatibleFields = map[string]func(want, live map[string]any) [][]string{
	"seccompProfile": func(want, _ map[string]any) [][]string {
		return fieldUnless(want["type"] == "Localhost", "localhostProfile")
	},
	"securityContext": func(want, live map[string]any) [][]string {
		if want["allowPrivilegeEscalation"] != false {
			return nil
		}
		found := fieldUnless(live["privileged"] != true, "privileged")
		if added, _, _ := unstructured.NestedStringSlice(live, "capabilities", "add"); slices.Contains(added, "CAP_SYS_ADMIN") {
			found = append(found, []string{"capabilities", "add"})
		}
		return found
	},
	"resources": resourceConflicts,
	// Of a Deployment, of its pods, of a Service, of a budget: they have nothing in common
	// but the name.
	"spec": func(want, live map[string]any) [][]string {
		var found [][]string
		if deadline, ok := want["progressDeadlineSeconds"].(int64); ok {
			ready, _ := live["minReadySeconds"].(int64)
			found = append(found, fieldUnless(ready < deadline, "minReadySeconds")...)
		}
		if _, ok := want["containers"]; ok {
			grace, _ := live["terminationGracePeriodSeconds"].(int64)
			found = append(found, fieldUnless(maxPreStopSleep(want) <= grace, "terminationGracePeriodSeconds")...)
		}
		if kind, ok := want["type"]; ok {
			found = append(found, fieldUnless(kind == "LoadBalancer", "loadBalancerSourceRanges")...)
		}
		_, budget := want["unhealthyPodEvictionPolicy"]
		found = append(found, fieldUnless(!budget, "minAvailable")...)
		return found
	},
}

func fieldUnless(legal bool, field string) [][]string {
	if legal {
		return nil
	}
	return [][]string{{field}}
}

// resourceConflicts are requests above our limits, and limits below our requests.
func resourceConflicts(want, live map[string]any) [][]string {
	var found [][]string
	for _, pair := range []struct {
		ours, theirs string
		sign         int // of theirs compared with ours, where it is wrong
	}{{"limits", "requests", 1}, {"requests", "limits", -1}} {
		ours, _ := want[pair.ours].(map[string]any)
		theirs, _ := live[pair.theirs].(map[string]any)
		for name, q := range ours {
			a, errA := resource.ParseQuantity(fmt.Sprint(theirs[name]))
			b, errB := resource.ParseQuantity(fmt.Sprint(q))
			if errA == nil && errB == nil && a.Cmp(b) == pair.sign {
				found = append(found, []string{pair.theirs, name})
			}
		}
	}
	return found
}

// maxPreStopSleep is how long the containers that we want sleep before they stop.
func maxPreStopSleep(podSpec map[string]any) int64 {
	var longest int64
	containers, _ := podSpec["containers"].([]any)
	for _, c := range containers {
		seconds, _, _ := unstructured.NestedInt64(c.(map[string]any), "lifecycle", "preStop", "sleep", "seconds")
		longest = max(longest, seconds)
	}
	return longest
}

// conflictsAt returns the fields below a map in live, by their paths from there, that are not
// ours and cannot be beside what we want.
func conflictsAt(field string, want, live map[string]any) [][]string {
	var candidates, found [][]string
	for _, k := range unionFields[field] {
		candidates = append(candidates, []string{k})
	}
	if incompatible := incompatibleFields[field]; incompatible != nil {
		candidates = append(candidates, incompatible(want, live)...)
	}
	for _, path := range candidates {
		_, ours, _ := unstructured.NestedFieldNoCopy(want, path...)
		_, theirs, _ := unstructured.NestedFieldNoCopy(live, path...)
		if theirs && !ours {
			found = append(found, path)
		}
	}
	return found
}

// UnionConflicts returns where live has something that shuts out a field of ours.
func UnionConflicts(want map[string]any, live Object) ([]fieldpath.Path, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
	if err != nil {
		return nil, fmt.Errorf("read fields of %s: %w", live.GetName(), err)
	}
	return unionConflictPaths(nil, "", want, content), nil
}

func unionConflictPaths(parent fieldpath.Path, field string, want, live any) []fieldpath.Path {
	var found []fieldpath.Path
	switch w := want.(type) {
	case map[string]any:
		l, ok := live.(map[string]any)
		if !ok || atomicMaps[field] {
			return nil
		}
		for _, names := range conflictsAt(field, w, l) {
			path := parent
			for _, name := range names {
				path = childPath(path, fieldpath.PathElement{FieldName: &name})
			}
			found = append(found, path)
		}
		for k, v := range w {
			found = append(found, unionConflictPaths(childPath(parent, fieldpath.PathElement{FieldName: &k}), k, v, l[k])...)
		}
	case []any:
		l, _ := live.([]any)
		if field == "ports" {
			found = portNameConflicts(parent, w, l)
		}
		for _, e := range w {
			element, ok := e.(map[string]any)
			keys := MergeKeys(field, element)
			if !ok || len(keys) == 0 {
				return nil
			}
			i := slices.IndexFunc(l, func(e any) bool { return sameKeys(keys, element, e.(map[string]any)) })
			if i >= 0 {
				found = append(found, unionConflictPaths(childPath(parent, keyElement(keys, element)), field, element, l[i])...)
			}
		}
	}
	return found
}

// portNameConflicts are ports of others that have the name of one of ours: names are unique, and
// a port whose number was changed is another port to the API server. In a Service a port
// without a name has to be the only one, so there it is a namesake of every other.
func portNameConflicts(parent fieldpath.Path, want, live []any) []fieldpath.Path {
	var found []fieldpath.Path
	for _, e := range live {
		theirs := e.(map[string]any)
		keys := MergeKeys("ports", theirs)
		_, isContainerPort := theirs["containerPort"]
		nameConflict, samePort := !isContainerPort && theirs["name"] == nil, false
		for _, w := range want {
			ours := w.(map[string]any)
			nameConflict = nameConflict || ours["name"] != nil && ours["name"] == theirs["name"] || !isContainerPort && staysUnnamed(keys, ours, live)
			samePort = samePort || sameKeys(keys, ours, theirs)
		}
		if nameConflict && !samePort {
			found = append(found, childPath(parent, keyElement(keys, theirs)))
		}
	}
	return found
}

// staysUnnamed says whether a port of ours would have no name: we give it none, and nobody else
// has.
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

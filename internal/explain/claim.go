package explain

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

const (
	// bindGrace is how long a claim may be pending without a word.
	bindGrace = 15 * time.Second
	// provisionGrace is how long a provisioner may take before it counts as silent, and a
	// node to grow a volume.
	provisionGrace = 2 * time.Minute
)

// Reasons of events about claims.
const (
	reasonProvisioningFailed   = "ProvisioningFailed"
	reasonFailedBinding        = "FailedBinding"
	reasonExternalProvisioning = "ExternalProvisioning"
	reasonWaitForFirstConsumer = "WaitForFirstConsumer"
	reasonWaitForPodScheduled  = "WaitForPodScheduled"
)

// checkClaims examines what a pod's volumes are made of. It says whether one of them explains
// why the pod does not start, or is about to: then what else is said about the pod only
// follows from that.
func (e *explainer) checkClaims(pod *corev1.Pod) (found bool) {
	for _, name := range claimNames(pod) {
		claim := e.claimByName(name)
		switch {
		case claim == nil && e.snapshot.isComplete("PersistentVolumeClaim"):
			o := missingClaimReason(pod, name)
			e.addPodCause(pod, name, Cause{
				Code: o.code, Path: "spec.volumes", Value: name, Since: falseSince(pod, corev1.PodScheduled, corev1.ContainersReady), Message: o.message, Fix: o.fix,
			})
			found = true
		case claim == nil:
		case claim.Status.Phase == corev1.ClaimLost || e.volumeFailed(claim):
			e.addVolumeLost(claim)
			found = true
		case claim.Status.Phase == corev1.ClaimPending:
			found = e.checkPendingClaim(claim) || found
		}
	}
	return found
}

// claimNames are the names of the claims that a pod uses.
func claimNames(pod *corev1.Pod) []string {
	var names []string
	for _, v := range pod.Spec.Volumes {
		switch {
		case v.PersistentVolumeClaim != nil:
			names = append(names, v.PersistentVolumeClaim.ClaimName)
		case v.Ephemeral != nil:
			names = append(names, pod.Name+"-"+v.Name)
		}
	}
	return names
}

// volumeFailed says whether the volume behind a claim is broken.
func (e *explainer) volumeFailed(claim *corev1.PersistentVolumeClaim) bool {
	v := e.volumeByName(claim.Spec.VolumeName)
	return v != nil && v.Status.Phase == corev1.VolumeFailed
}

func (e *explainer) addVolumeLost(claim *corev1.PersistentVolumeClaim) {
	e.addCause(newObjectRef("PersistentVolumeClaim", claim), claim.Name, Cause{
		Code: VolumeLost, Path: "status.phase", Value: string(claim.Status.Phase), Since: claim.CreationTimestamp.Time,
		Message: fmt.Sprintf("The volume behind PersistentVolumeClaim %s is gone or has failed", claim.Name),
		Fix:     fmt.Sprintf("Restore volume %s, or its data from a backup; nothing is started with an empty one instead.", volumeNameOrDefault(claim.Spec.VolumeName)),
	})
}

func volumeNameOrDefault(volume string) string {
	if volume == "" {
		return "of the claim"
	}
	return abbreviate(volume)
}

var missingClassPattern = regexp.MustCompile(`storageclass\.storage\.k8s\.io "(` + namePattern + `)" not found`)

// checkPendingClaim is a claim without a volume. It says whether that is why its pod waits.
func (e *explainer) checkPendingClaim(claim *corev1.PersistentVolumeClaim) bool {
	o := newObjectRef("PersistentVolumeClaim", claim)
	if class, missing := e.missingStorageClass(o, claim); missing {
		e.addCause(o, claim.Name, e.storageClassMissingCause(claim, class))
		return true
	}
	if ev, ok := e.latestEvent(o, []string{reasonProvisioningFailed}); ok {
		e.addCause(o, claim.Name, Cause{
			Code: ProvisioningFailed, Path: "spec.storageClassName", Value: storageClassName(claim), Since: claim.CreationTimestamp.Time,
			Message:  fmt.Sprintf("StorageClass %s fails to make a volume for PersistentVolumeClaim %s", displayClassName(claim), claim.Name),
			Fix:      fmt.Sprintf("Look at what its provisioner says: kubectl describe pvc -n %s %s", claim.Namespace, claim.Name),
			Evidence: []string{ev.String()},
		})
		return true
	}
	waiting, ok := e.latestEvent(o, []string{reasonWaitForFirstConsumer, reasonWaitForPodScheduled})
	external, requested := e.latestEvent(o, []string{reasonExternalProvisioning})
	if ok && (!requested || external.LastSeen.Before(waiting.LastSeen)) || !requested && e.waitsForFirstConsumer(claim) && claim.Annotations[annotationSelectedNode] == "" {
		e.addCause(o, claim.Name, Cause{
			Code: WaitForFirstConsumer, Path: "status.phase", Value: string(corev1.ClaimPending), Since: claim.CreationTimestamp.Time,
			Message: fmt.Sprintf("The volume of PersistentVolumeClaim %s is made when its pod has a node, which is normal", claim.Name),
			Fix:     "See why the pod has no node yet.",
		})
		return false
	}
	return e.checkUnprovisionedClaim(o, claim, external, requested)
}

// annotationSelectedNode is what the scheduler writes on a claim whose pod it has a node for.
const annotationSelectedNode = "volume.kubernetes.io/selected-node"

// checkUnprovisionedClaim is a claim that nobody has made a volume for, and nobody says why.
func (e *explainer) checkUnprovisionedClaim(o ObjectRef, claim *corev1.PersistentVolumeClaim, external Event, requested bool) bool {
	grace := bindGrace
	if requested || e.storageClass(claim) != nil {
		grace = provisionGrace
	}
	if end := claim.CreationTimestamp.Add(grace); e.now.Before(end) {
		e.scheduleRecheck(end)
		if eventsFrom := claim.CreationTimestamp.Add(schedulerGrace); !requested && e.now.Before(eventsFrom) {
			e.scheduleRecheck(eventsFrom)
		} else if !requested {
			e.needEvents(o)
		}
		return true // something is on its way, or will be named then
	}
	c := Cause{
		Code: ClaimPending, Path: "status.phase", Value: string(corev1.ClaimPending), Since: claim.CreationTimestamp.Time,
		Message: fmt.Sprintf("PersistentVolumeClaim %s has no volume yet", claim.Name),
		Fix:     fmt.Sprintf("Look at what it waits for: kubectl describe pvc -n %s %s", claim.Namespace, claim.Name),
	}
	if requested {
		c.Code, c.Path, c.Value = ProvisionerNotResponding, "spec.storageClassName", storageClassName(claim)
		c.Message = fmt.Sprintf("Nothing makes the volume of PersistentVolumeClaim %s: the provisioner of StorageClass %s does not answer", claim.Name, displayClassName(claim))
		c.Fix = "See whether the driver of the StorageClass runs: kubectl get csidrivers, and its pods."
		c.Evidence = []string{external.String()}
	} else {
		e.needEvents(o)
	}
	e.addCause(o, claim.Name, c)
	return true
}

// missingStorageClass says whether the StorageClass of a claim does not exist, and which one that is;
// "" means that there is no default one.
func (e *explainer) missingStorageClass(o ObjectRef, claim *corev1.PersistentVolumeClaim) (string, bool) {
	class := storageClassName(claim)
	if ev, ok := e.latestEvent(o, []string{reasonProvisioningFailed}); ok {
		if found := missingClassPattern.FindStringSubmatch(ev.Message); found != nil && found[1] == class {
			return class, !slices.ContainsFunc(e.snapshot.StorageClasses, func(c *storagev1.StorageClass) bool { return c.Name == class })
		}
	}
	if _, ok := e.latestEvent(o, []string{reasonFailedBinding}, "no storage class is set"); ok && claim.Spec.StorageClassName == nil {
		return "", true
	}
	if !e.snapshot.isComplete("StorageClass") || claim.Spec.VolumeName != "" {
		return "", false
	}
	if claim.Spec.StorageClassName == nil {
		return "", !slices.ContainsFunc(e.snapshot.StorageClasses, func(c *storagev1.StorageClass) bool {
			return c.Annotations["storageclass.kubernetes.io/is-default-class"] == "true"
		})
	}
	return class, class != "" && e.storageClass(claim) == nil
}

func (e *explainer) storageClass(claim *corev1.PersistentVolumeClaim) *storagev1.StorageClass {
	return findByName(e.snapshot.StorageClasses, storageClassName(claim))
}

// waitsForFirstConsumer says whether volumes of the class are made for the node of their pod.
func (e *explainer) waitsForFirstConsumer(claim *corev1.PersistentVolumeClaim) bool {
	c := e.storageClass(claim)
	return c != nil && c.VolumeBindingMode != nil && *c.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
}

// storageClassMissingCause is a claim whose StorageClass does not exist.
func (e *explainer) storageClassMissingCause(claim *corev1.PersistentVolumeClaim, class string) Cause {
	c := Cause{
		Code: StorageClassMissing, Path: "spec.storageClassName", Value: class, Since: claim.CreationTimestamp.Time,
		Message: fmt.Sprintf("PersistentVolumeClaim %s asks for StorageClass %q, which does not exist", claim.Name, abbreviate(class)),
		Fix:     "Create the StorageClass; kubectl get storageclasses lists those there are.",
	}
	if class == "" {
		c.Message = fmt.Sprintf("PersistentVolumeClaim %s asks for the default StorageClass, and there is none", claim.Name)
		c.Fix = "Make a StorageClass the default one, or name one in the storage of the component; kubectl get storageclasses lists those there are."
	}
	var names []string
	for _, s := range e.snapshot.StorageClasses {
		names = append(names, s.Name)
	}
	if len(names) > 0 {
		slices.Sort(names)
		c.Fix = "Create it, or use one of those there are in the storage of a new component: " + strings.Join(names, ", ")
	}
	return c
}

func storageClassName(claim *corev1.PersistentVolumeClaim) string {
	if claim.Spec.StorageClassName == nil {
		return ""
	}
	return *claim.Spec.StorageClassName
}

// displayClassName is a class in a sentence.
func displayClassName(claim *corev1.PersistentVolumeClaim) string {
	if class := storageClassName(claim); class != "" {
		return abbreviate(class)
	}
	return "(none)"
}

// checkResizes examines claims that should grow.
func (e *explainer) checkResizes() {
	for _, claim := range e.snapshot.Claims {
		c, ok := e.resizeCause(claim)
		if !ok {
			continue
		}
		o := newObjectRef("PersistentVolumeClaim", claim)
		size := claim.Spec.Resources.Requests[corev1.ResourceStorage]
		c.Code, c.Value = ResizeStuck, size.String()
		c.Message = fmt.Sprintf("The volume of PersistentVolumeClaim %s does not grow to %s: %s", claim.Name, size.String(), c.Message)
		c.Fix = fmt.Sprintf("Look at what the driver of the volume says: kubectl describe pvc -n %s %s", claim.Namespace, claim.Name)
		e.addCause(o, claim.Name, c)
	}
}

// resizeErrors are conditions that say that a volume cannot grow.
var resizeErrors = map[corev1.PersistentVolumeClaimConditionType]string{
	corev1.PersistentVolumeClaimControllerResizeError: "its storage refuses",
	corev1.PersistentVolumeClaimNodeResizeError:       "its node cannot grow the filesystem",
}

func (e *explainer) resizeCause(claim *corev1.PersistentVolumeClaim) (Cause, bool) {
	for _, c := range claim.Status.Conditions {
		if c.Status != corev1.ConditionTrue {
			continue
		}
		path := fmt.Sprintf("status.conditions[?(@.type==%q)]", c.Type)
		if detail, known := resizeErrors[c.Type]; known {
			return Cause{Path: path, Since: c.LastTransitionTime.Time, Message: detail, Evidence: evidence(c.Message)}, true
		}
		if c.Type != corev1.PersistentVolumeClaimFileSystemResizePending || !e.isMounted(claim.Name) {
			continue
		}
		if end := c.LastTransitionTime.Add(provisionGrace); e.now.Before(end) {
			e.scheduleRecheck(end)
			continue
		}
		return Cause{Path: path, Since: c.LastTransitionTime.Time, Message: "its node has not grown the filesystem yet", Evidence: evidence(c.Message)}, true
	}
	return Cause{}, false
}

// isMounted says whether a ready pod has a claim: only a node that runs one can grow it. A
// pod that is well does not tell which claims it has to those who keep little of it.
func (e *explainer) isMounted(claim string) bool {
	return slices.ContainsFunc(e.snapshot.Pods, func(p *corev1.Pod) bool {
		return p != nil && isReady(p) && (len(p.Spec.Volumes) == 0 || slices.Contains(claimNames(p), claim))
	})
}

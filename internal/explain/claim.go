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
	// bindGrace is how long a claim can be pending before it is reported.
	bindGrace = 15 * time.Second
	// provisionGrace is how long a provisioner can take to create a volume, and a node to expand
	// its file system, before it is reported.
	provisionGrace = 2 * time.Minute
)

// Event reasons of claims.
const (
	reasonProvisioningFailed   = "ProvisioningFailed"
	reasonFailedBinding        = "FailedBinding"
	reasonExternalProvisioning = "ExternalProvisioning"
	reasonWaitForFirstConsumer = "WaitForFirstConsumer"
	reasonWaitForPodScheduled  = "WaitForPodScheduled"
)

// checkClaims checks the claims of a pod. It returns true if one of them explains why the pod does not
// start, or will after its grace period: everything else about the pod is a consequence then.
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

// claimNames returns the names of the claims that a pod uses.
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

// volumeFailed reports whether the volume of a claim is in phase Failed.
func (e *explainer) volumeFailed(claim *corev1.PersistentVolumeClaim) bool {
	v := e.volumeByName(claim.Spec.VolumeName)
	return v != nil && v.Status.Phase == corev1.VolumeFailed
}

func (e *explainer) addVolumeLost(claim *corev1.PersistentVolumeClaim) {
	e.addCause(newObjectRef("PersistentVolumeClaim", claim), claim.Name, Cause{
		Code: VolumeLost, Path: "status.phase", Value: string(claim.Status.Phase), Since: claim.CreationTimestamp.Time,
		Message: fmt.Sprintf("The volume of PersistentVolumeClaim %s is lost or has failed", claim.Name),
		Fix: fmt.Sprintf("Restore volume %s, or restore its data from a backup; it is not replaced with an empty volume.",
			volumeNameOrDefault(claim.Spec.VolumeName)),
	})
}

func volumeNameOrDefault(volume string) string {
	if volume == "" {
		return "of the claim"
	}
	return abbreviate(volume)
}

var missingClassPattern = regexp.MustCompile(`storageclass\.storage\.k8s\.io "(` + namePattern + `)" not found`)

// checkPendingClaim checks a pending claim. It returns true if the claim is why its pod does not start.
func (e *explainer) checkPendingClaim(claim *corev1.PersistentVolumeClaim) bool {
	o := newObjectRef("PersistentVolumeClaim", claim)
	if class, missing := e.missingStorageClass(o, claim); missing {
		e.addCause(o, claim.Name, e.storageClassMissingCause(claim, class))
		return true
	}
	// The class of a missing-class event has been created since: the event is outdated.
	if ev, ok := e.latestEvent(o, []string{reasonProvisioningFailed}); ok && !missingClassPattern.MatchString(ev.Message) {
		e.addCause(o, claim.Name, Cause{
			Code: ProvisioningFailed, Path: "spec.storageClassName", Value: storageClassName(claim), Since: claim.CreationTimestamp.Time,
			Message: fmt.Sprintf("The provisioner of StorageClass %s failed to create a volume for PersistentVolumeClaim %s",
				displayClassName(claim), claim.Name),
			Fix:      fmt.Sprintf("Check the error of the provisioner: kubectl describe pvc -n %s %s", claim.Namespace, claim.Name),
			Evidence: []string{ev.String()},
		})
		return true
	}
	waiting, ok := e.latestEvent(o, []string{reasonWaitForFirstConsumer, reasonWaitForPodScheduled})
	external, requested := e.latestEvent(o, []string{reasonExternalProvisioning})
	if ok && (!requested || external.LastSeen.Before(waiting.LastSeen)) || !requested && e.waitsForFirstConsumer(claim) && claim.Annotations[annotationSelectedNode] == "" {
		e.addCause(o, claim.Name, Cause{
			Code: WaitForFirstConsumer, Path: "status.phase", Value: string(corev1.ClaimPending), Since: claim.CreationTimestamp.Time,
			Message: fmt.Sprintf("The volume of PersistentVolumeClaim %s is provisioned when its pod is scheduled (WaitForFirstConsumer), which "+
				"is normal", claim.Name),
			Fix: "Check why the pod is not scheduled yet.",
		})
		return false
	}
	return e.checkUnprovisionedClaim(o, claim, external, requested)
}

// annotationSelectedNode is set by the scheduler on a claim when it has selected a node for the pod.
const annotationSelectedNode = "volume.kubernetes.io/selected-node"

// checkUnprovisionedClaim checks a pending claim without an error event.
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
		return true // the volume may still be provisioned; otherwise the claim is reported later
	}
	c := Cause{
		Code: ClaimPending, Path: "status.phase", Value: string(corev1.ClaimPending), Since: claim.CreationTimestamp.Time,
		Message: fmt.Sprintf("PersistentVolumeClaim %s is not bound to a volume yet", claim.Name),
		Fix:     fmt.Sprintf("Check the events of the claim: kubectl describe pvc -n %s %s", claim.Namespace, claim.Name),
	}
	if requested {
		c.Code, c.Path, c.Value = ProvisionerNotResponding, "spec.storageClassName", storageClassName(claim)
		c.Message = fmt.Sprintf("PersistentVolumeClaim %s has no volume: the provisioner of StorageClass %s does not respond", claim.Name,
			displayClassName(claim))
		c.Fix = "Check that the CSI driver of the StorageClass is installed and its pods are running; for details: kubectl get csidrivers"
		c.Evidence = []string{external.String()}
	} else {
		e.needEvents(o)
	}
	e.addCause(o, claim.Name, c)
	return true
}

// missingStorageClass returns the StorageClass of a claim and whether it does not exist. The name ""
// means that the cluster has no default StorageClass.
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

// waitsForFirstConsumer reports whether the volumeBindingMode of the class is WaitForFirstConsumer.
func (e *explainer) waitsForFirstConsumer(claim *corev1.PersistentVolumeClaim) bool {
	c := e.storageClass(claim)
	return c != nil && c.VolumeBindingMode != nil && *c.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
}

// storageClassMissingCause returns the cause for a claim whose StorageClass does not exist.
func (e *explainer) storageClassMissingCause(claim *corev1.PersistentVolumeClaim, class string) Cause {
	c := Cause{
		Code: StorageClassMissing, Path: "spec.storageClassName", Value: class, Since: claim.CreationTimestamp.Time,
		Message: fmt.Sprintf("PersistentVolumeClaim %s asks for StorageClass %q, which does not exist", claim.Name, abbreviate(class)),
		Fix: "Correct className in the storage of the component, or create the StorageClass; kubectl get storageclasses lists the existing " +
			"ones.",
	}
	if class == "" {
		c.Message = fmt.Sprintf("PersistentVolumeClaim %s asks for the default StorageClass, but the cluster has none", claim.Name)
		c.Fix = "Mark a StorageClass as the default, or set one in the storage of the component; kubectl get storageclasses lists the " +
			"existing ones."
	}
	var names []string
	for _, s := range e.snapshot.StorageClasses {
		names = append(names, s.Name)
	}
	if len(names) > 0 {
		slices.Sort(names)
		c.Fix = "Correct className in the storage of the component, or create the StorageClass; existing ones: " + strings.Join(names, ", ")
	}
	return c
}

func storageClassName(claim *corev1.PersistentVolumeClaim) string {
	if claim.Spec.StorageClassName == nil {
		return ""
	}
	return *claim.Spec.StorageClassName
}

// displayClassName returns the StorageClass of a claim for messages.
func displayClassName(claim *corev1.PersistentVolumeClaim) string {
	if class := storageClassName(claim); class != "" {
		return abbreviate(class)
	}
	return "(none)"
}

// checkResizes reports claims whose volume expansion failed or takes too long.
func (e *explainer) checkResizes() {
	for _, claim := range e.snapshot.Claims {
		c, ok := e.resizeCause(claim)
		if !ok {
			continue
		}
		o := newObjectRef("PersistentVolumeClaim", claim)
		size := claim.Spec.Resources.Requests[corev1.ResourceStorage]
		c.Code, c.Value = ResizeStuck, size.String()
		c.Message = fmt.Sprintf("The volume of PersistentVolumeClaim %s is not expanded to %s: %s", claim.Name, size.String(), c.Message)
		c.Fix = fmt.Sprintf("Check the error of the CSI driver: kubectl describe pvc -n %s %s", claim.Namespace, claim.Name)
		e.addCause(o, claim.Name, c)
	}
}

// resizeErrors are claim conditions that report a failed volume expansion.
var resizeErrors = map[corev1.PersistentVolumeClaimConditionType]string{
	corev1.PersistentVolumeClaimControllerResizeError: "the storage backend failed to expand it",
	corev1.PersistentVolumeClaimNodeResizeError:       "the node failed to expand the file system",
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
		return Cause{Path: path, Since: c.LastTransitionTime.Time, Message: "the node has not expanded the file system yet",
			Evidence: evidence(c.Message)}, true
	}
	return Cause{}, false
}

// isMounted reports whether a ready pod uses a claim: only the node that runs it can expand the file
// system. A projected ready pod has no volumes and counts as using the claim.
func (e *explainer) isMounted(claim string) bool {
	return slices.ContainsFunc(e.snapshot.Pods, func(p *corev1.Pod) bool {
		return p != nil && isReady(p) && (len(p.Spec.Volumes) == 0 || slices.Contains(claimNames(p), claim))
	})
}

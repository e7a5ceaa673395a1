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
	reasonFirstConsumer        = "WaitForFirstConsumer"
	reasonPodScheduled         = "WaitForPodScheduled"
)

// claims examines what a pod's volumes are made of. It says whether one of them explains
// why the pod does not start, or is about to: then what else is said about the pod only
// follows from that.
func (e *examiner) claims(pod *corev1.Pod) (found bool) {
	for _, name := range claimsOf(pod) {
		claim := e.claim(name)
		switch {
		case claim == nil && e.scene.whole("PersistentVolumeClaim"):
			o := unclaimed(pod, name)
			e.add(pod, name, Cause{
				Code: o.code, Path: "spec.volumes", Value: name, Since: since(pod, corev1.PodScheduled, corev1.ContainersReady), Sentence: o.whole, Fix: o.fix,
			})
			found = true
		case claim == nil:
		case claim.Status.Phase == corev1.ClaimLost || e.failed(claim):
			e.lost(claim)
			found = true
		case claim.Status.Phase == corev1.ClaimPending:
			found = e.pending(claim) || found
		}
	}
	return found
}

// claimsOf are the names of the claims that a pod uses.
func claimsOf(pod *corev1.Pod) []string {
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

// failed says whether the volume behind a claim is broken.
func (e *examiner) failed(claim *corev1.PersistentVolumeClaim) bool {
	v := e.volume(claim.Spec.VolumeName)
	return v != nil && v.Status.Phase == corev1.VolumeFailed
}

func (e *examiner) lost(claim *corev1.PersistentVolumeClaim) {
	e.addTo(objectOf("PersistentVolumeClaim", claim), claim.Name, Cause{
		Code: VolumeLost, Path: "status.phase", Value: string(claim.Status.Phase), Since: claim.CreationTimestamp.Time,
		Sentence: fmt.Sprintf("The volume behind PersistentVolumeClaim %s is gone or has failed", claim.Name),
		Fix:      fmt.Sprintf("Restore volume %s, or its data from a backup; nothing is started with an empty one instead.", orWhat(claim.Spec.VolumeName)),
	})
}

func orWhat(volume string) string {
	if volume == "" {
		return "of the claim"
	}
	return short(volume)
}

var missingClass = regexp.MustCompile(`storageclass\.storage\.k8s\.io "(` + name + `)" not found`)

// pending is a claim without a volume. It says whether that is why its pod waits.
func (e *examiner) pending(claim *corev1.PersistentVolumeClaim) bool {
	o := objectOf("PersistentVolumeClaim", claim)
	if class, missing := e.lacksClass(o, claim); missing {
		e.addTo(o, claim.Name, e.classless(claim, class))
		return true
	}
	if ev, ok := e.event(o, []string{reasonProvisioningFailed}); ok {
		e.addTo(o, claim.Name, Cause{
			Code: ProvisioningFailed, Path: "spec.storageClassName", Value: classOf(claim), Since: claim.CreationTimestamp.Time,
			Sentence: fmt.Sprintf("StorageClass %s fails to make a volume for PersistentVolumeClaim %s", className(claim), claim.Name),
			Fix:      fmt.Sprintf("Look at what its provisioner says: kubectl describe pvc -n %s %s", claim.Namespace, claim.Name),
			Evidence: []string{ev.String()},
		})
		return true
	}
	waiting, ok := e.event(o, []string{reasonFirstConsumer, reasonPodScheduled})
	external, asked := e.event(o, []string{reasonExternalProvisioning})
	if ok && (!asked || external.Last.Before(waiting.Last)) || !asked && e.bindsLate(claim) && claim.Annotations[selectedNode] == "" {
		e.addTo(o, claim.Name, Cause{
			Code: WaitForFirstConsumer, Path: "status.phase", Value: string(corev1.ClaimPending), Since: claim.CreationTimestamp.Time,
			Sentence: fmt.Sprintf("The volume of PersistentVolumeClaim %s is made when its pod has a node, which is normal", claim.Name),
			Fix:      "See why the pod has no node yet.",
		})
		return false
	}
	return e.unprovisioned(o, claim, external, asked)
}

// selectedNode is what the scheduler writes on a claim whose pod it has a node for.
const selectedNode = "volume.kubernetes.io/selected-node"

// unprovisioned is a claim that nobody has made a volume for, and nobody says why.
func (e *examiner) unprovisioned(o Object, claim *corev1.PersistentVolumeClaim, external Event, asked bool) bool {
	grace := bindGrace
	if asked || e.class(claim) != nil {
		grace = provisionGrace
	}
	if end := claim.CreationTimestamp.Add(grace); e.now.Before(end) {
		e.look(end)
		if listen := claim.CreationTimestamp.Add(schedulerGrace); !asked && e.now.Before(listen) {
			e.look(listen)
		} else if !asked {
			e.ask(o)
		}
		return true // something is on its way, or will be named then
	}
	c := Cause{
		Code: ClaimPending, Path: "status.phase", Value: string(corev1.ClaimPending), Since: claim.CreationTimestamp.Time,
		Sentence: fmt.Sprintf("PersistentVolumeClaim %s has no volume yet", claim.Name),
		Fix:      fmt.Sprintf("Look at what it waits for: kubectl describe pvc -n %s %s", claim.Namespace, claim.Name),
	}
	if asked {
		c.Code, c.Path, c.Value = ProvisionerSilent, "spec.storageClassName", classOf(claim)
		c.Sentence = fmt.Sprintf("Nothing makes the volume of PersistentVolumeClaim %s: the provisioner of StorageClass %s does not answer", claim.Name, className(claim))
		c.Fix = "See whether the driver of the StorageClass runs: kubectl get csidrivers, and its pods."
		c.Evidence = []string{external.String()}
	} else {
		e.ask(o)
	}
	e.addTo(o, claim.Name, c)
	return true
}

// lacksClass says whether the StorageClass of a claim does not exist, and which one that is;
// "" means that there is no default one.
func (e *examiner) lacksClass(o Object, claim *corev1.PersistentVolumeClaim) (string, bool) {
	class := classOf(claim)
	if ev, ok := e.event(o, []string{reasonProvisioningFailed}); ok {
		if found := missingClass.FindStringSubmatch(ev.Message); found != nil && found[1] == class {
			return class, !slices.ContainsFunc(e.scene.Classes, func(c *storagev1.StorageClass) bool { return c.Name == class })
		}
	}
	if _, ok := e.event(o, []string{reasonFailedBinding}, "no storage class is set"); ok && claim.Spec.StorageClassName == nil {
		return "", true
	}
	if !e.scene.whole("StorageClass") || claim.Spec.VolumeName != "" {
		return "", false
	}
	if claim.Spec.StorageClassName == nil {
		return "", !slices.ContainsFunc(e.scene.Classes, func(c *storagev1.StorageClass) bool {
			return c.Annotations["storageclass.kubernetes.io/is-default-class"] == "true"
		})
	}
	return class, class != "" && e.class(claim) == nil
}

func (e *examiner) class(claim *corev1.PersistentVolumeClaim) *storagev1.StorageClass {
	return named(e.scene.Classes, classOf(claim))
}

// bindsLate says whether volumes of the class are made for the node of their pod.
func (e *examiner) bindsLate(claim *corev1.PersistentVolumeClaim) bool {
	c := e.class(claim)
	return c != nil && c.VolumeBindingMode != nil && *c.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
}

// classless is a claim whose StorageClass does not exist.
func (e *examiner) classless(claim *corev1.PersistentVolumeClaim, class string) Cause {
	c := Cause{
		Code: StorageClassMissing, Path: "spec.storageClassName", Value: class, Since: claim.CreationTimestamp.Time,
		Sentence: fmt.Sprintf("PersistentVolumeClaim %s asks for StorageClass %q, which does not exist", claim.Name, short(class)),
		Fix:      "Create the StorageClass; kubectl get storageclasses lists those there are.",
	}
	if class == "" {
		c.Sentence = fmt.Sprintf("PersistentVolumeClaim %s asks for the default StorageClass, and there is none", claim.Name)
		c.Fix = "Make a StorageClass the default one, or name one in the storage of the component; kubectl get storageclasses lists those there are."
	}
	var names []string
	for _, s := range e.scene.Classes {
		names = append(names, s.Name)
	}
	if len(names) > 0 {
		slices.Sort(names)
		c.Fix = "Create it, or use one of those there are in the storage of a new component: " + strings.Join(names, ", ")
	}
	return c
}

func classOf(claim *corev1.PersistentVolumeClaim) string {
	if claim.Spec.StorageClassName == nil {
		return ""
	}
	return *claim.Spec.StorageClassName
}

// className is a class in a sentence.
func className(claim *corev1.PersistentVolumeClaim) string {
	if class := classOf(claim); class != "" {
		return short(class)
	}
	return "(none)"
}

// resizing examines claims that should grow.
func (e *examiner) resizing() {
	for _, claim := range e.scene.Claims {
		c, ok := e.resize(claim)
		if !ok {
			continue
		}
		o := objectOf("PersistentVolumeClaim", claim)
		size := claim.Spec.Resources.Requests[corev1.ResourceStorage]
		c.Code, c.Value = ResizeStuck, size.String()
		c.Sentence = fmt.Sprintf("The volume of PersistentVolumeClaim %s does not grow to %s: %s", claim.Name, size.String(), c.Sentence)
		c.Fix = fmt.Sprintf("Look at what the driver of the volume says: kubectl describe pvc -n %s %s", claim.Namespace, claim.Name)
		e.addTo(o, claim.Name, c)
	}
}

// resizeErrors are conditions that say that a volume cannot grow.
var resizeErrors = map[corev1.PersistentVolumeClaimConditionType]string{
	corev1.PersistentVolumeClaimControllerResizeError: "its storage refuses",
	corev1.PersistentVolumeClaimNodeResizeError:       "its node cannot grow the filesystem",
}

func (e *examiner) resize(claim *corev1.PersistentVolumeClaim) (Cause, bool) {
	for _, c := range claim.Status.Conditions {
		if c.Status != corev1.ConditionTrue {
			continue
		}
		path := fmt.Sprintf("status.conditions[?(@.type==%q)]", c.Type)
		if why, known := resizeErrors[c.Type]; known {
			return Cause{Path: path, Since: c.LastTransitionTime.Time, Sentence: why, Evidence: evidence(c.Message)}, true
		}
		if c.Type != corev1.PersistentVolumeClaimFileSystemResizePending || !e.mounted(claim.Name) {
			continue
		}
		if end := c.LastTransitionTime.Add(provisionGrace); e.now.Before(end) {
			e.look(end)
			continue
		}
		return Cause{Path: path, Since: c.LastTransitionTime.Time, Sentence: "its node has not grown the filesystem yet", Evidence: evidence(c.Message)}, true
	}
	return Cause{}, false
}

// mounted says whether a ready pod has a claim: only a node that runs one can grow it. A
// pod that is well does not tell which claims it has to those who keep little of it.
func (e *examiner) mounted(claim string) bool {
	return slices.ContainsFunc(e.scene.Pods, func(p *corev1.Pod) bool {
		return p != nil && isReady(p) && (len(p.Spec.Volumes) == 0 || slices.Contains(claimsOf(p), claim))
	})
}

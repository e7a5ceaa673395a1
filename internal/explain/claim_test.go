package explain

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var testClaimRef = ObjectRef{Kind: "PersistentVolumeClaim", Namespace: "shop", Name: "data-db-0", UID: "uid-data-db-0"}

// newTestClaim returns a pending claim that is an hour old and has no StorageClass.
func newTestClaim(changes ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data-db-0", UID: "uid-data-db-0", CreationTimestamp: ago(time.Hour)},
		Status:     corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending},
	}
	for _, change := range changes {
		change(c)
	}
	return c
}

func claimCreated(before time.Duration) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) { c.CreationTimestamp = ago(before) }
}

func withStorageClass(name string) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = new(name) }
}

func withClaimVolume(p *corev1.Pod) {
	p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-db-0"}}}}
}

// waitsForVolumes is a pod without conditions: the scheduler sets none until its volumes exist.
func waitsForVolumes(p *corev1.Pod) {
	p.Spec.NodeName, p.Status = "", corev1.PodStatus{Phase: "Pending"}
}

// claimSnapshot returns a snapshot with a pod that waits for the volume of a claim.
func claimSnapshot(claim *corev1.PersistentVolumeClaim, changes ...func(*Snapshot)) Snapshot {
	s := Snapshot{Pods: []*corev1.Pod{pod("db-0", withClaimVolume, waitsForVolumes)}, Claims: []*corev1.PersistentVolumeClaim{claim}}
	for _, change := range changes {
		change(&s)
	}
	return s
}

func claimEvent(reason, message string) func(*Snapshot) {
	return func(s *Snapshot) {
		ev := Event{Object: testClaimRef, Reason: reason, Message: message, Count: 1, LastSeen: testNow.Add(-time.Minute)}
		s.Events = append(s.Events, ev)
	}
}

// allStorageClasses sets the complete list of StorageClasses.
func allStorageClasses(classes ...*storagev1.StorageClass) func(*Snapshot) {
	return func(s *Snapshot) { s.StorageClasses, s.CompleteKinds = classes, []string{"StorageClass"} }
}

func newStorageClass(name, isDefault string) *storagev1.StorageClass {
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{
		Name: name, Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": isDefault}}}
}

func claimCause(code Code, path, value, message, fix string, evidence ...string) Cause {
	return Cause{
		Code: code, Object: testClaimRef, Path: path, Value: value, Since: testNow.Add(-time.Hour),
		Message: message, Fix: fix, Evidence: evidence,
	}
}

func TestMissingClaimBlocksPod(t *testing.T) {
	missing := func(name, fix string) Diagnosis {
		return oneCause(Cause{
			Code: MissingClaim, Object: testPodRef("db-0"), Path: "spec.volumes", Value: name, Since: testNow.Add(-podAge),
			Message: `Pod db-0 needs PersistentVolumeClaim "` + name + `", which does not exist in namespace shop`, Fix: fix,
			AffectedPods: 1, Evidence: []string{"1 of 1 pods"},
		})
	}
	create := func(name string) string {
		return `Create PersistentVolumeClaim "` + name + `" in namespace shop, or correct spec.volumes of the application.`
	}
	ephemeral := func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}}}
	}
	withPod := func(complete []string, changes ...podOption) Snapshot {
		return Snapshot{Pods: []*corev1.Pod{pod("db-0", append(changes, waitsForVolumes)...)}, CompleteKinds: complete}
	}
	claims := []string{"PersistentVolumeClaim"}
	checkDiagnoses(t, map[string]snapshotCase{
		"claim does not exist":                     {withPod(claims, withClaimVolume), missing("data-db-0", create("data-db-0"))},
		"claim of ephemeral volume does not exist": {withPod(claims, ephemeral), missing("db-0-scratch", create("db-0-scratch"))},
		"claims are not known":                     {withPod(nil, withClaimVolume), Diagnosis{}},
	})
}

func TestLostClaimBlocksPod(t *testing.T) {
	lost := func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimLost }
	named := func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "pv-7" }
	cause := func(volume string) Diagnosis {
		return oneCause(claimCause(VolumeLost, "status.phase", "Lost",
			"The volume of PersistentVolumeClaim data-db-0 is lost or has failed",
			"Restore volume "+volume+", or restore its data from a backup; it is not replaced with an empty volume."))
	}
	schedulerFails := func(s *Snapshot) {
		s.Pods = []*corev1.Pod{pod("db-0", withClaimVolume, unscheduled(time.Minute, "SchedulerError", "volume is lost"))}
	}
	checkDiagnoses(t, map[string]snapshotCase{
		"with the name of its volume":      {claimSnapshot(newTestClaim(lost, named)), cause("pv-7")},
		"without the name of its volume":   {claimSnapshot(newTestClaim(lost)), cause("of the claim")},
		"and explains the scheduler error": {claimSnapshot(newTestClaim(lost), schedulerFails), cause("of the claim")},
	})
}

func TestMissingStorageClass(t *testing.T) {
	const (
		message = "PersistentVolumeClaim data-db-0 asks for "
		choose  = "Correct className in the storage of the component, or create the StorageClass; existing ones: "
		none    = message + "the default StorageClass, but the cluster has none"
		noneFix = "Mark a StorageClass as the default, or set one in the storage of the component; " +
			"kubectl get storageclasses lists the existing ones."
		noVolume = "no persistent volumes available for this claim and no storage class is set"
	)
	missing := func(class, message, fix string) Diagnosis {
		return oneCause(claimCause(StorageClassMissing, "spec.storageClassName", class, message, fix))
	}
	pending := Diagnosis{
		Causes: []Cause{claimCause(ClaimPending, "status.phase", "Pending", "PersistentVolumeClaim data-db-0 is not bound to a volume yet",
			"Check the events of the claim: kubectl describe pvc -n shop data-db-0")},
		EventsNeeded: []ObjectRef{testClaimRef},
	}
	fast, slow, standard := newStorageClass("fast", "false"), newStorageClass("slow", "false"), newStorageClass("standard", "true")
	toVolume := func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "pv-7" }
	checkDiagnoses(t, map[string]snapshotCase{
		"event reports that no default exists": {
			claimSnapshot(newTestClaim(), claimEvent("FailedBinding", noVolume)),
			missing("", none, noneFix),
		},
		"no class exists":        {claimSnapshot(newTestClaim(), allStorageClasses()), missing("", none, noneFix)},
		"a default class exists": {claimSnapshot(newTestClaim(), allStorageClasses(fast, standard)), pending},
		"the named class does not exist": {
			claimSnapshot(newTestClaim(withStorageClass("nope")), allStorageClasses(slow, fast)),
			missing("nope", message+`StorageClass "nope", which does not exist`, choose+"fast, slow"),
		},
		"the named class exists": {
			claimSnapshot(newTestClaim(withStorageClass("slow")), allStorageClasses(slow, fast)),
			pending,
		},
		"the named class was created after an event": {
			claimSnapshot(newTestClaim(withStorageClass("slow")), allStorageClasses(slow, fast),
				claimEvent("ProvisioningFailed", `storageclass.storage.k8s.io "slow" not found`)),
			pending,
		},
		"the claim requests no class": {claimSnapshot(newTestClaim(withStorageClass("")), allStorageClasses(fast)), pending},
		"the claim names its volume": {
			claimSnapshot(newTestClaim(withStorageClass("nope"), toVolume), allStorageClasses(fast)),
			pending,
		},
		"the claim names a class since then": {
			claimSnapshot(newTestClaim(withStorageClass("")), claimEvent("FailedBinding", noVolume)),
			pending,
		},
		"provisioning fails without a class": {claimSnapshot(newTestClaim(), claimEvent("ProvisioningFailed", "disk quota")),
			oneCause(claimCause(ProvisioningFailed, "spec.storageClassName", "",
				"The provisioner of StorageClass (none) failed to create a volume for PersistentVolumeClaim data-db-0",
				"Check the error of the provisioner: kubectl describe pvc -n shop data-db-0", "event ProvisioningFailed: disk quota"))},
	})
}

func TestPendingClaimGracePeriods(t *testing.T) {
	young, older := newTestClaim(claimCreated(2*time.Second)), newTestClaim(claimCreated(10*time.Second))
	classed := newTestClaim(claimCreated(10*time.Second), withStorageClass("fast"))
	requested := claimEvent("ExternalProvisioning", "waiting for a volume to be created")
	ask := []ObjectRef{testClaimRef}
	checkDiagnoses(t, map[string]snapshotCase{
		"events are not expected yet": {claimSnapshot(young), Diagnosis{RecheckAt: testNow.Add(3 * time.Second)}},
		"events may say more":         {claimSnapshot(older), Diagnosis{RecheckAt: testNow.Add(5 * time.Second), EventsNeeded: ask}},
		"claim with a StorageClass may take longer": {
			claimSnapshot(classed, allStorageClasses(newStorageClass("fast", ""))),
			Diagnosis{RecheckAt: testNow.Add(110 * time.Second), EventsNeeded: ask},
		},
		"provisioner is working":         {claimSnapshot(older, requested), Diagnosis{RecheckAt: testNow.Add(110 * time.Second)}},
		"new claim, provisioner working": {claimSnapshot(young, requested), Diagnosis{RecheckAt: testNow.Add(118 * time.Second)}},
	})
}

func TestVolumeExpansion(t *testing.T) {
	type conditionType = corev1.PersistentVolumeClaimConditionType
	snapshot := func(kind conditionType, status corev1.ConditionStatus, since time.Duration, pods ...*corev1.Pod) Snapshot {
		c := newTestClaim()
		c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")}
		c.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Conditions: []corev1.PersistentVolumeClaimCondition{
			{Type: kind, Status: status, LastTransitionTime: ago(since), Message: "needs a remount"}}}
		return Snapshot{Claims: []*corev1.PersistentVolumeClaim{c}, Pods: pods}
	}
	stuck := func(kind, detail string, since time.Duration) Diagnosis {
		c := claimCause(ResizeStuck, `status.conditions[?(@.type=="`+kind+`")]`, "2Gi",
			"The volume of PersistentVolumeClaim data-db-0 is not expanded to 2Gi: "+detail,
			"Check the error of the CSI driver: kubectl describe pvc -n shop data-db-0", "needs a remount")
		c.Since = testNow.Add(-since)
		return oneCause(c)
	}
	const late, pending = "the node has not expanded the file system yet", "FileSystemResizePending"
	mounted, other := pod("db-0", ready, withClaimVolume), pod("db-1", ready, withClaimVolume)
	other.Spec.Volumes[0].PersistentVolumeClaim.ClaimName = "data-db-1"
	checkDiagnoses(t, map[string]snapshotCase{
		"node reports an error": {
			snapshot("NodeResizeError", "True", time.Second),
			stuck("NodeResizeError", "the node failed to expand the file system", time.Second),
		},
		"node reported an error": {snapshot("NodeResizeError", "False", time.Hour), Diagnosis{}},
		"node exceeds the grace period": {
			snapshot(pending, "True", 2*time.Minute, other, mounted),
			stuck(pending, late, 2*time.Minute),
		},
		"node exceeds the grace period, projected pod": {snapshot(pending, "True", time.Hour, ProjectPod(mounted)),
			stuck(pending, late, time.Hour)},
		"node is within the grace period": {
			snapshot(pending, "True", time.Minute, mounted),
			Diagnosis{RecheckAt: testNow.Add(time.Minute)},
		},
		"no pod uses the claim": {snapshot(pending, "True", time.Hour, other, nil), Diagnosis{}},
		"the pod of the claim is not ready": {
			snapshot(pending, "True", time.Hour, pod("db-0", withClaimVolume, running(time.Hour))),
			Diagnosis{},
		},
		"storage backend expands the volume": {snapshot("Resizing", "True", time.Hour, mounted), Diagnosis{}},
	})
}

package explain

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestMissingVolumeSources(t *testing.T) {
	missing := []Ref{{"Secret", "cert"}}
	want := []string{`MissingSecret: Pod web-1 cannot start: a volume refers to Secret "cert", which does not exist in namespace shop`}
	for name, tc := range map[string]struct {
		pod     *corev1.Pod
		missing []Ref
		want    []string
	}{
		"no container started":      {pod("web-1", waiting("ContainerCreating", "")), missing, want},
		"no init container started": {pod("web-1", waiting("PodInitializing", "")), missing, want},
		"nothing is missing":        {pod("web-1", waiting("ContainerCreating", "")), nil, nil},
		"image cannot be pulled": {pod("web-1", waiting("ImagePullBackOff", "")), missing,
			[]string{`ImagePull: Image "shop/web:2" cannot be pulled (container app of Pod web-1)`}},
		"not scheduled": {pod("web-1", unscheduled(time.Minute, "Unschedulable", "0/1 nodes are available")), missing,
			[]string{"Unschedulable: Pod web-1 cannot be scheduled"}},
		"container is running": {pod("web-1", running(time.Minute)), missing, nil},
	} {
		t.Run(name, func(t *testing.T) {
			for _, p := range []*corev1.Pod{tc.pod, ProjectPod(tc.pod)} {
				var got []string
				for _, c := range diagnoseMissingRefs([]*corev1.Pod{p}, tc.missing) {
					got = append(got, string(c.Code)+": "+c.Message)
				}
				if diff := cmp.Diff(tc.want, got, ignoreAffectedPods); diff != "" {
					t.Errorf("causes (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// withKeyVolumes adds volumes with single keys of ConfigMaps and Secrets.
func withKeyVolumes(p *corev1.Pod) {
	items := func(key string) []corev1.KeyToPath { return []corev1.KeyToPath{{Key: key, Path: key}} }
	configMap := func(name, key string) corev1.Volume {
		source := corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}, Items: items(key)}
		return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{ConfigMap: &source}}
	}
	secret := func(name, key string) corev1.Volume {
		source := corev1.SecretVolumeSource{SecretName: name, Items: items(key)}
		return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Secret: &source}}
	}
	p.Spec.Volumes = []corev1.Volume{
		configMap("other", "b.conf"), configMap("trust", "tls.crt"), configMap("web-settings", "a.conf"),
		secret("token", "a.conf"), secret("web-cert", "tls.crt"),
	}
}

func TestSetupEventsOfCreatingPod(t *testing.T) {
	creating := func(since time.Duration, changes ...podOption) *corev1.Pod {
		return pod("web-1", append(changes, func(p *corev1.Pod) {
			for i := range p.Status.Conditions {
				p.Status.Conditions[i].LastTransitionTime = ago(since)
			}
		})...)
	}
	snapshot := func(p *corev1.Pod, reason, message string) Snapshot {
		ev := Event{Object: podRef(p), Reason: reason, Message: message, Count: 1, LastSeen: testNow}
		return Snapshot{Pods: []*corev1.Pod{p}, Events: []Event{ev}}
	}
	cause := func(code Code, path, value, message, fix, event string) Diagnosis {
		return oneCause(Cause{
			Code: code, Object: testPodRef("web-1"), Path: path, Value: value, Since: testNow.Add(-time.Minute),
			Message: message, Fix: fix,
			AffectedPods: 1, Evidence: []string{"1 of 1 pods", event},
		})
	}
	const (
		noSecret    = `MountVolume.SetUp failed for volume "cert" : secret "web-cert" not found`
		noKey       = `MountVolume.SetUp failed for volume "settings" : configmap references non-existent config key: a.conf`
		noSecretKey = `MountVolume.SetUp failed for volume "cert" : references non-existent secret key: tls.crt`
		unnamed     = "rpc error: code = Internal"
		blocked     = "Pod web-1 cannot start: a volume refers to "
	)
	keyCause := func(source, key, event string) Diagnosis {
		return cause(MissingKey, "spec.volumes", key, blocked+`key "`+key+`" of `+source+" in namespace shop, which has no such key",
			`Add key "`+key+`" to `+source+" in namespace shop, or correct spec.volumes of the application.", "event FailedMount: "+event)
	}
	checkDiagnoses(t, map[string]snapshotCase{
		"Secret does not exist": {
			snapshot(creating(time.Minute), "FailedMount", noSecret),
			cause(MissingSecret, "spec.volumes", "web-cert", blocked+`Secret "web-cert", which does not exist in namespace shop`,
				`Create Secret "web-cert" in namespace shop, or correct spec.volumes of the application.`, "event FailedMount: "+noSecret),
		},
		"ConfigMap has no such key": {
			snapshot(creating(time.Minute, withKeyVolumes), "FailedMount", noKey), keyCause(`ConfigMap "web-settings"`, "a.conf", noKey),
		},
		"Secret has no such key": {
			snapshot(creating(time.Minute, withKeyVolumes), "FailedMount", noSecretKey),
			keyCause(`Secret "web-cert"`, "tls.crt", noSecretKey),
		},
		"no volume lists the key": {
			snapshot(creating(time.Minute), "FailedMount", noSecretKey), keyCause("a Secret", "tls.crt", noSecretKey),
		},
		"volume without a name cannot be mounted": {
			snapshot(creating(time.Minute), "FailedMapVolume", unnamed),
			cause(MountFailed, "spec.volumes", "(unknown)", "Volume (unknown) of Pod web-1 cannot be mounted on Node n1",
				"Check the mount error in the events of the pod: kubectl describe pod -n shop web-1", "event FailedMapVolume: "+unnamed),
		},
		"node retries within the grace period": {
			snapshot(creating(5*time.Second), "FailedMapVolume", unnamed), Diagnosis{RecheckAt: testNow.Add(10 * time.Second)},
		},
		"unrelated event": {
			snapshot(creating(time.Minute), "Scheduled", "assigned to n1"), Diagnosis{EventsNeeded: []ObjectRef{testPodRef("web-1")}},
		},
	})
}

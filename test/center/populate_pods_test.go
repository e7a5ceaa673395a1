package center

import (
	"context"
	"fmt"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// controllerManager is the field manager of objects that Kubernetes controllers create.
const controllerManager = "kube-controller-manager"

// createDeploymentPods creates the ReplicaSet and the pods of a Deployment. A Deployment with several pods was
// updated once and also has its old ReplicaSet.
func (c *populator) createDeploymentPods(ctx context.Context, d *appsv1.Deployment) error {
	replicas := *d.Spec.Replicas
	sets := []int32{0, replicas}
	for _, n := range sets[2-min(len(sets), int(replicas)):] {
		hash := digest(fmt.Sprint(d.Name, n))[7:17]
		labels := withLabel(d.Spec.Template.Labels, appsv1.DefaultDeploymentUniqueLabelKey, hash)
		set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name + "-" + hash, Labels: labels, OwnerReferences: ownedBy(d, "Deployment"),
			Annotations: map[string]string{"deployment.kubernetes.io/desired-replicas": fmt.Sprint(replicas), "deployment.kubernetes.io/max-replicas": fmt.Sprint(replicas + 1), "deployment.kubernetes.io/revision": "2"}}}
		set.Spec = appsv1.ReplicaSetSpec{Replicas: &n, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: *d.Spec.Template.DeepCopy()}
		set.Spec.Template.Labels = labels
		if err := c.createWithStatus(ctx, controllerManager, set, func() {
			set.Status = appsv1.ReplicaSetStatus{Replicas: n, FullyLabeledReplicas: n, ReadyReplicas: n, AvailableReplicas: n, ObservedGeneration: 1}
		}); err != nil {
			return err
		}
		for i := range n {
			if err := c.createPod(ctx, d.Namespace, fmt.Sprintf("%s-%s", set.Name, digest(i)[7:12]), ownedBy(set, "ReplicaSet"), &set.Spec.Template, nil); err != nil {
				return err
			}
		}
	}
	return c.updateStatus(ctx, controllerManager, d, func() {
		d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: replicas, UpdatedReplicas: replicas, ReadyReplicas: replicas, AvailableReplicas: replicas, Conditions: []appsv1.DeploymentCondition{
			{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, Reason: "MinimumReplicasAvailable", Message: "Deployment has minimum availability.", LastUpdateTime: nowSeconds(), LastTransitionTime: nowSeconds()},
			{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable", Message: fmt.Sprintf("ReplicaSet %q has successfully progressed.", d.Name), LastUpdateTime: nowSeconds(), LastTransitionTime: hourAgo()},
		}}
	})
}

// createStatefulSetPods creates the pods of a StatefulSet and their PersistentVolumeClaims.
func (c *populator) createStatefulSetPods(ctx context.Context, s *appsv1.StatefulSet) error {
	replicas, revision := *s.Spec.Replicas, s.Name+"-"+digest(s.Name)[7:17]
	for i := range replicas {
		name := fmt.Sprintf("%s-%d", s.Name, i)
		var volumes []corev1.Volume
		for _, t := range s.Spec.VolumeClaimTemplates {
			claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: t.Name + "-" + name, Labels: maps.Clone(t.Labels)}, Spec: *t.Spec.DeepCopy()}
			if claim.Labels == nil {
				claim.Labels = map[string]string{}
			}
			maps.Copy(claim.Labels, s.Spec.Selector.MatchLabels)
			claim.Spec.VolumeName = "pvc-" + digest(claim.Name + s.Namespace)[7:39]
			if err := c.createWithStatus(ctx, controllerManager, claim, func() {
				claim.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, AccessModes: claim.Spec.AccessModes, Capacity: claim.Spec.Resources.Requests}
			}); err != nil {
				return err
			}
			volumes = append(volumes, corev1.Volume{Name: t.Name, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name}}})
		}
		template := s.Spec.Template.DeepCopy()
		template.Labels = withLabel(withLabel(template.Labels, appsv1.StatefulSetPodNameLabel, name), appsv1.StatefulSetRevisionLabel, revision)
		if err := c.createPod(ctx, s.Namespace, name, ownedBy(s, "StatefulSet"), template, volumes); err != nil {
			return err
		}
	}
	return c.updateStatus(ctx, controllerManager, s, func() {
		s.Status = appsv1.StatefulSetStatus{ObservedGeneration: s.Generation, Replicas: replicas, ReadyReplicas: replicas, CurrentReplicas: replicas, UpdatedReplicas: replicas, AvailableReplicas: replicas, CurrentRevision: revision, UpdateRevision: revision}
	})
}

// createPod creates a pod that has been running for an hour.
func (c *populator) createPod(ctx context.Context, namespace, name string, owners []metav1.OwnerReference, t *corev1.PodTemplateSpec, volumes []corev1.Volume) error {
	serial := int(c.podSerial.Add(1))
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: t.Labels, Annotations: t.Annotations, OwnerReferences: owners}, Spec: *t.Spec.DeepCopy()}
	p.Spec.Volumes = append(p.Spec.Volumes, volumes...)
	p.Spec.NodeName = nodeName(serial / perNode)
	return c.createWithStatus(ctx, controllerManager, p, func() { p.Status = runningStatus(p, serial) })
}

// runningStatus returns the status of a healthy pod.
func runningStatus(p *corev1.Pod, serial int) corev1.PodStatus {
	ip, host := fmt.Sprintf("10.%d.%d.%d", 128+serial>>16, serial>>8&255, serial&255), fmt.Sprintf("192.168.%d.%d", serial/perNode>>8, serial/perNode&255)
	s := corev1.PodStatus{Phase: corev1.PodRunning, HostIP: host, HostIPs: []corev1.HostIP{{IP: host}}, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}}, StartTime: new(hourAgo()), QOSClass: p.Status.QOSClass, ObservedGeneration: p.Generation}
	for _, kind := range []corev1.PodConditionType{corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.PodScheduled} {
		s.Conditions = append(s.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: hourAgo(), ObservedGeneration: p.Generation})
	}
	for i := range p.Spec.Containers {
		container := &p.Spec.Containers[i]
		st := corev1.ContainerStatus{Name: container.Name, Image: container.Image, ImageID: container.Image + "@" + digest(container.Image), ContainerID: "containerd://" + digest(serial)[7:],
			Ready: true, Started: new(true), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: hourAgo()}},
			AllocatedResources: container.Resources.Requests, Resources: container.Resources.DeepCopy(),
			User: &corev1.ContainerUser{Linux: &corev1.LinuxContainerUser{UID: 65532, GID: 65532, SupplementalGroups: []int64{65532}}}}
		for _, m := range container.VolumeMounts {
			st.VolumeMounts = append(st.VolumeMounts, corev1.VolumeMountStatus{Name: m.Name, MountPath: m.MountPath, ReadOnly: m.ReadOnly, RecursiveReadOnly: m.RecursiveReadOnly})
		}
		s.ContainerStatuses = append(s.ContainerStatuses, st)
	}
	return s
}

// createEndpointSlice creates the EndpointSlice of a Service.
func (c *populator) createEndpointSlice(ctx context.Context, s *corev1.Service) error {
	e := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name + "-" + digest(s.Name)[7:12], OwnerReferences: ownedBy(s, "Service"),
		Labels:      withLabel(withLabel(s.Labels, discoveryv1.LabelServiceName, s.Name), discoveryv1.LabelManagedBy, "endpointslice-controller.k8s.io"),
		Annotations: map[string]string{corev1.EndpointsLastChangeTriggerTime: hourAgo().UTC().Format("2006-01-02T15:04:05Z")}}, AddressType: discoveryv1.AddressTypeIPv4}
	for _, p := range s.Spec.Ports {
		e.Ports = append(e.Ports, discoveryv1.EndpointPort{Name: new(p.Name), Port: new(p.Port), Protocol: new(p.Protocol)})
	}
	for i := range 2 {
		e.Endpoints = append(e.Endpoints, discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("10.128.0.%d", i)}, NodeName: new(nodeName(i)), Zone: new("zone-a"),
			Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)},
			TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: s.Namespace, Name: fmt.Sprintf("%s-%s-%d", s.Name, digest(s.Name)[7:17], i), UID: s.UID}})
	}
	return c.createWithStatus(ctx, controllerManager, e, nil)
}

// bystanders are unrelated ConfigMaps.
func (c *populator) createUnrelatedConfigMap(ctx context.Context, namespace string, i int) error {
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("settings-of-something-else-%d", i), Labels: map[string]string{"app": "something-else", "pod-template-hash": digest(i)[7:17]}},
		Data: map[string]string{"settings.yaml": fmt.Sprintf("serial: %d\n%0512d\n", i, 0)}}
	return c.Create(ctx, m, client.FieldOwner("helm"))
}

// smallStack is an application that makes the center watch ConfigMaps in its namespace.
func smallStack(namespace string) *appsapi.AppStack {
	return &appsapi.AppStack{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "small"},
		Spec: appsapi.AppStackSpec{Components: []appsapi.Component{{Name: "web", Service: &appsapi.ServiceComponent{ServerSpec: appsapi.ServerSpec{ContainerSpec: appsapi.ContainerSpec{Image: "web:1"}}}}}}}
}

func ownedBy(o client.Object, kind string) []metav1.OwnerReference {
	gv := appsv1.SchemeGroupVersion
	if kind == "Service" {
		gv = corev1.SchemeGroupVersion
	}
	return []metav1.OwnerReference{*metav1.NewControllerRef(o, gv.WithKind(kind))}
}

func withLabel(labels map[string]string, key, value string) map[string]string {
	out := maps.Clone(labels)
	if out == nil {
		out = map[string]string{}
	}
	out[key] = value
	return out
}

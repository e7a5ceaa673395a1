// Package podsim simulates the scheduler and the kubelet, so that tests with pods take seconds and need no node. It
// registers one Node, schedules pods on it and writes their status as Kubernetes 1.36 with containerd does: same phases,
// conditions, reasons and messages. The [Behavior] of a pod is returned by a function or selected by the annotation
// [BehaviorAnnotation].
//
//	unbound pod --> bind --> status of its behavior <---+
//	                             |                  | next step, or
//	                             +------------------+ new behavior
//	deleted pod --> final status --> force delete
//
// The status of a pod is a pure function of the pod, its behavior and the time (status.go, container_status.go,
// conditions.go); only simulator.go and sync.go access the API server.
//
// Not simulated: volumes, probes, logs, events, ephemeral containers, restart rules of a single container, the user of a
// container, pod-level resources. The tests of test/cluster compare the rest with a real kubelet.
//
// Safety rule: it writes only pods that are unbound or bound to its own node, and every write has the UID or the
// resourceVersion of the observed pod as a precondition.
package podsim

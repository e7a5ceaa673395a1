// Package podsim plays scheduler and kubelet, so that stories about pods take seconds
// and need no node. It registers one Node, places pods on it and writes their status
// the way Kubernetes 1.36 with containerd does: same phases, conditions, reasons and
// texts. What happens to a pod is a [Behavior]; a function chooses one for each pod, or
// the pod names one itself in the annotation [BehaviorAnnotation].
//
//	unbound pod --> bind --> status of its act <---+
//	                             |                 | the act has a next scene, or
//	                             +-----------------+ another behavior was chosen
//	deleted pod --> final status --> delete for good
//
// The status of a pod is a pure function of the pod, its act and the time (status.go,
// containers.go, conditions.go); only simulator.go and sync.go talk to the API server.
//
// Not played: volumes, probes, logs, events, ephemeral containers, restart rules of a
// single container, the user of a container, the resources of the pod as a whole. The
// rest is held against a real kubelet by the tests of test/cluster.
//
// Safety rule: it writes only pods that are unbound or bound to its own node, and every
// write carries the UID or the resourceVersion it was decided on.
package podsim

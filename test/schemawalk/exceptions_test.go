package schemawalk

import "regexp"

// exception is a leaf that is handled differently, with the reason.
type exception struct{ path, reason string }

// skippedLeaves are the leaves that cannot be walked.
var skippedLeaves = []exception{
	{`operations\[\]\.`, "removing a request restarts, rotates and scales nothing; test/gitops and the tests of package desired cover requests"},
	{`db\.statefulSet\.name$`, "data is not moved: only a new object has a StatefulSet with that name; on a rename only the Service changes"},
}

// rejectedLeaves are the leaves that the schema or Kubernetes rejects in their place. Their walk checks that
// there is a message and that no child changes.
var rejectedLeaves = []exception{
	{`probes\.[a-z]+\.grpc\.mode$`, "new in Kubernetes 1.37; the API server of this run does not have it"},
	{`probes\.[a-z]+\.httpGet\.protocol$`, "new in Kubernetes 1.37; the API server of this run does not have it"},
	{`probes\.[a-z]+\.(httpGet|tcpSocket)\.host$`, "the node would send the probe anywhere in its network; the schema rejects it"},
	{`probes\.readiness\.terminationGracePeriodSeconds$`, "Kubernetes rejects it in a readiness probe"},
	{`stateful\.update\.(maxSurge|maxUnavailable)$`, "pods with volumes are replaced one at a time; the schema rejects it"},
	{`deployment\.env\[\]\.valueFrom\.fileKeyRef\.`, "needs a volume of the pod, and CloudManager has no field for volumes"},
	{`(deployment|statefulSet)\.resources\.claims\[\]\.`, "names a resource claim of the pod, and CloudManager has no field for these"},
	{`database\.resources\.claims\[\]\.`, "names a resource claim of the pod, and a database has no field for these"},
	{`database\.database$`, "the database schema is part of the data and immutable"},
}

// recreatedLeaves are immutable while their parent exists. The parent is removed between the two values.
var recreatedLeaves = []exception{
	{`storage\[\]\.name$`, "volumes of a StatefulSet are immutable, so the component is removed between the two values"},
}

// leavesWithoutClaims are the leaves whose objects are walked without claims: they are immutable once a
// volume exists, and no field sets zero replicas.
var leavesWithoutClaims = []exception{
	{`(db\.statefulSet|database)\.storage\.(class|className|accessModes?)$`, "immutable once a volume exists, so it is walked before that"},
}

// leavesWithoutEffect are the leaves that change no child. Any other leaf without effect has badly chosen
// values, and its walk would prove nothing.
var leavesWithoutEffect = []exception{
	{`suspend$`, "running pods keep running, so it is compared with an object that is not suspended"},
	{`renamedFrom$`, "refers to a former component"},
	{`revisionHistoryLimit$`, "affects earlier revisions only"},
	{`deletionPolicy$`, "affects deletion only"},
	{`job\.scheduling\.spread$`, "not used by jobs"},
	{`fieldRef\.apiVersion$`, "the default is the only valid value"},
	{`stateful\.update\.progressDeadlineSeconds$`, "StatefulSets have no such field; the operator measures the time"},
	{`credentials\[\]\.secretRef\.`, "a password is created once, with the component"},
	{`(db|database)\.(rootPass$|rootPasswordSecretRef\.|passwordSecretRef\.|rotation\.)`, "affects passwords, which are in the server and in retained Secrets"},
	{`database\.engine$`, "the default is the only valid value"},
	{`database\.version$`, "with an image, it is only compared with the version of the server"},
}

// exceptionReason returns the reason if a leaf is one of the exceptions, or "".
func (l leaf) exceptionReason(exceptions []exception) string {
	for _, e := range exceptions {
		if regexp.MustCompile(e.path).MatchString(l.name()) {
			return e.reason
		}
	}
	return ""
}

package schemawalk

import "regexp"

// exception is a leaf that is not like the others, and why.
type exception struct{ path, reason string }

// skippedLeaves are the leaves that cannot be walked.
var skippedLeaves = []exception{
	{`db\.statefulSet\.name$`, "data does not move: only a fresh object has a StatefulSet of that name, and only the Service follows"},
}

// rejectedLeaves are the leaves that cannot be set where they are, by the schema or by Kubernetes.
// Their walk shows that somebody says so, and that nothing of the attempt stays.
var rejectedLeaves = []exception{
	{`probes\.[a-z]+\.grpc\.mode$`, "a field of Kubernetes 1.37, which the API server of this run does not know"},
	{`probes\.[a-z]+\.httpGet\.protocol$`, "a field of Kubernetes 1.37, which the API server of this run does not know"},
	{`probes\.readiness\.terminationGracePeriodSeconds$`, "Kubernetes refuses it in a readiness probe"},
	{`stateful\.update\.(maxSurge|maxUnavailable)$`, "pods with volumes are replaced one after the other, which the schema says"},
	{`deployment\.env\[\]\.valueFrom\.fileKeyRef\.`, "the file is on a volume of the pod, and CloudManager has no field for those"},
	{`(deployment|statefulSet)\.resources\.claims\[\]\.`, "names a claim of the pod, and CloudManager has no field for those"},
	{`database\.resources\.claims\[\]\.`, "names a claim of the pod, and a database has no field for those"},
	{`database\.database$`, "the schema is part of the data, so it is what it was when the component was made"},
}

// recreatedLeaves are the leaves that cannot change while what holds them lives. It goes between one
// value and the other.
var recreatedLeaves = []exception{
	{`storage\[\]\.name$`, "a StatefulSet keeps the volumes that it was made with, so the component goes between one value and the other"},
}

// leavesWithoutClaims are the leaves whose objects are walked without claims, because it would be too
// late to change them once there is a volume, and no field says that there are no pods.
var leavesWithoutClaims = []exception{
	{`(db\.statefulSet|database)\.storage\.(class|className|accessModes?)$`, "cannot change once there is a volume, so it is walked before there is one"},
}

// leavesWithoutEffect are the leaves of which no value changes a child. Any other such leaf is one whose
// values are chosen badly: its walk would prove nothing.
var leavesWithoutEffect = []exception{
	{`suspend$`, "what runs keeps running, so it is compared with an object that is not suspended"},
	{`renamedFrom$`, "about a component that was"},
	{`revisionHistoryLimit$`, "about specs that were"},
	{`deletionPolicy$`, "about data that is no longer wanted"},
	{`job\.scheduling\.spread$`, "a job is not spread"},
	{`fieldRef\.apiVersion$`, "has one legal value, which is the default"},
	{`stateful\.update\.progressDeadlineSeconds$`, "a StatefulSet has no such field, so the operator itself keeps the time"},
	{`credentials\[\]\.secretRef\.`, "a password is made once, with the component"},
	{`(db|database)\.(rootPass$|rootPasswordSecretRef\.|passwordSecretRef\.|rotation\.)`, "about passwords, which are in the server and in Secrets that stay"},
	{`database\.engine$`, "has one legal value, which is the default"},
	{`database\.version$`, "beside an image it is only held against what the server says"},
}

// exceptionReason is why a leaf is one of the exceptions, or "".
func (l leaf) exceptionReason(exceptions []exception) string {
	for _, e := range exceptions {
		if regexp.MustCompile(e.path).MatchString(l.name()) {
			return e.reason
		}
	}
	return ""
}

// Package controlplane runs a real Kubernetes control plane as child processes:
// etcd, kube-apiserver, kube-controller-manager and, on request, kube-scheduler.
//
// Tests start one in about five seconds, several run side by side, and the test
// cluster (test/cluster) builds its node on the same code, so there is one place
// that knows the flags. The binaries come from a folder that `make assets` fills.
//
// controller-runtime's envtest has types for two of the four processes. They are
// not used here because they cannot name further addresses in the serving
// certificate, forget their certificate authority when they stop, and leave their
// processes behind when a test is killed. envtest's CRD installer does fit: see
// [Plane.InstallCRDs].
//
// Safety rule: every process dies with the one that started it, and Stop ends
// exactly the processes this package started, by pid.
package controlplane

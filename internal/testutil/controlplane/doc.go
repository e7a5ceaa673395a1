// Package controlplane runs a real Kubernetes control plane as child processes:
// etcd, kube-apiserver, kube-controller-manager and, on request, kube-scheduler.
//
// A control plane starts in about five seconds, and several can run in parallel. The test cluster (test/cluster) uses
// the same code for its node, so that the flags are defined in one place. `make assets` provides the binaries.
//
// It does not use the control plane of controller-runtime's envtest, which cannot add addresses to the serving
// certificate, discards its certificate authority on stop, and leaves processes running when a test is killed. Only
// envtest's CRD installer is used: see [Plane.InstallCRDs].
//
// Safety rule: every process is killed with the process that started it, and Stop stops only processes of this package,
// by PID.
package controlplane

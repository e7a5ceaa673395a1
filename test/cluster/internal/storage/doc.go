// Package storage provides real volumes for a one-node test cluster. It is for tests only: it does not handle lost
// disks, several nodes or hostile claims.
//
// A volume is a sparse file with a filesystem on a loop device: it has a real size, can fill up, supports fsGroup and
// online expansion. Three components run in the supervisor of the node:
//
//	claim ── provisioner ──> file + PV ── kubelet ──> driver: stage, publish
//	claim ── resizer ──────> larger file, PV, claim status ── kubelet ──> driver: expand
//	PV released ── deleter ─> loop device detached, file and PV deleted
//
// Annotations inject the failures of real storage systems while the cluster runs; they are listed in faultswitches.go.
// Loop devices belong to the machine and not to the node's namespaces, so [Detach] must be called after a node has
// stopped; it never changes devices of files outside of the given directory.
package storage

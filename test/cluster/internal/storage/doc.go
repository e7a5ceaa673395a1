// Package storage gives a one-node test cluster real volumes. It is for tests only: nothing here survives a lost
// disk, knows a second node or defends itself against a hostile claim.
//
// A volume is a sparse file with a filesystem on a loop device, so it has a real size, fills up, honours fsGroup and
// grows under a running database. Three parts share one process, the supervisor of the node:
//
//	claim ── provisioner ──> file + PV ── kubelet ──> driver: stage, publish
//	claim ── resizer ──────> larger file, PV, claim status ── kubelet ──> driver: expand
//	PV released ── deleter ─> loop device detached, file gone, PV gone
//
// Each way a real storage system fails can be provoked by an annotation while the cluster runs; switches.go lists
// them. Loop devices belong to the machine and not to the node's namespaces, so whoever ends a node calls [Detach]
// afterwards; no device outside the given folder is ever touched.
package storage

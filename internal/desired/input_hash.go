package desired

import (
	"encoding/json"
	"fmt"
	"hash/maphash"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

var seed = maphash.MakeSeed()

// inputHash tells applications apart by everything that their children are made of. The generation
// would not do: after a restore of etcd it is that of another spec, and a new default of the CRD
// does not change it.
func inputHash(owner Owner, components []appsapi.Component, state ClusterState) uint64 {
	if len(state.Retained)+len(state.OrphanedReplicas) > 0 {
		return 0 // objects of the cluster, which say nothing by their names alone
	}
	owner.Generation = 0 // nothing is made of it
	content, err := json.Marshal([]any{owner, components})
	if err != nil {
		return 0 // to be told by whoever makes the children
	}
	return maphash.Bytes(seed, fmt.Appendf(content, "%q", state.RefStates))
}

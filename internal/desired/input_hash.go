package desired

import (
	"encoding/json"
	"fmt"
	"hash/maphash"
)

var seed = maphash.MakeSeed()

// inputHash returns a hash of all inputs of the children. The generation is not sufficient: after a restore of
// etcd the same generation can belong to another spec, and a new CRD default does not change the generation.
func inputHash(owner Owner, components []ExpandedComponent, state ClusterState) uint64 {
	if len(state.Retained)+len(state.OrphanedReplicas) > 0 {
		return 0 // the content of these objects is not hashed
	}
	owner.Generation = 0 // not an input
	content, err := json.Marshal([]any{owner, components})
	if err != nil {
		return 0 // reported by Render
	}
	return maphash.Bytes(seed, fmt.Appendf(content, "%q", state.RefStates))
}

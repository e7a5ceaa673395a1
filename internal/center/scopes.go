package center

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/center/model"
	"github.com/holdfast-dev/holdfast/internal/center/sse"
	"github.com/holdfast-dev/holdfast/internal/explain"
)

// scopeResolver says which right is needed to see something: to list objects of its kind where it is.
type scopeResolver struct{ kinds *kindIndex }

// ObjectScope is the right for one object.
func (r scopeResolver) ObjectScope(o explain.ObjectRef) sse.Scope {
	gr := r.kinds.groupResource(o.Group, o.Kind)
	return sse.Scope{Group: gr.Group, Resource: gr.Resource, Namespace: o.Namespace}
}

// ApplicationScopes are the rights of which one is needed to see that an application is there: that to
// its object, or else to any of the objects it is made of.
func (r scopeResolver) ApplicationScopes(rec *model.Record) []sse.Scope {
	if rec.Ref.IsManaged() {
		gr := r.kinds.groupResource(appsapi.GroupVersion.Group, rec.Ref.Kind)
		return []sse.Scope{{Group: gr.Group, Resource: gr.Resource, Namespace: rec.Ref.Namespace}}
	}
	var out []sse.Scope
	for _, k := range rec.Kinds {
		gr := r.kinds.groupResource(k.Group, k.Kind)
		out = append(out, sse.Scope{Group: gr.Group, Resource: gr.Resource, Namespace: rec.Ref.Namespace})
	}
	return out
}

// groupResource is the resource of a kind. Objects of Kubernetes' own kinds do not say their group.
func (r *kindIndex) groupResource(group, kind string) schema.GroupResource {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if k, ok := r.byGroupKind[schema.GroupKind{Group: group, Kind: kind}]; ok {
		return schema.GroupResource{Group: k.Group, Resource: k.Resource}
	}
	if group == "" {
		if gr, ok := r.wellKnown[kind]; ok {
			return gr
		}
	}
	// What is not followed is not known better. Nobody has a right to what does not exist, but
	// for those who have every right.
	return schema.GroupResource{Group: group, Resource: strings.ToLower(kind) + "s"}
}

package center

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/holdfast-dev/holdfast/internal/appkind"
	"github.com/holdfast-dev/holdfast/internal/center/model"
	"github.com/holdfast-dev/holdfast/internal/center/sse"
	"github.com/holdfast-dev/holdfast/internal/explain"
)

// scopeResolver maps objects to the permission that is required to see them: list on their resource
// in their namespace.
type scopeResolver struct{ kinds *kindIndex }

// ObjectScope returns the permission required to see an object.
func (r scopeResolver) ObjectScope(o explain.ObjectRef) sse.Scope {
	gr := r.kinds.groupResource(o.Group, o.Kind)
	return sse.Scope{Group: gr.Group, Resource: gr.Resource, Namespace: o.Namespace}
}

// ApplicationScopes returns the permissions of which any one is enough to see that an application exists:
// list on its own resource, or, for groups and Helm releases, list on the resource of any member.
func (r scopeResolver) ApplicationScopes(rec *model.Record) []sse.Scope {
	if rec.Ref.IsManaged() {
		gk := appkind.ParseName(rec.Ref.Kind)
		gr := r.kinds.groupResource(gk.Group, gk.Kind)
		return []sse.Scope{{Group: gr.Group, Resource: gr.Resource, Namespace: rec.Ref.Namespace}}
	}
	var out []sse.Scope
	for _, k := range rec.Kinds {
		gr := r.kinds.groupResource(k.Group, k.Kind)
		out = append(out, sse.Scope{Group: gr.Group, Resource: gr.Resource, Namespace: rec.Ref.Namespace})
	}
	return out
}

// groupResource returns the resource of a kind. References to built-in kinds of Kubernetes omit the group.
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
	// The kind is not watched, so the resource name is guessed. A wrong guess is a resource that does not
	// exist, which only users with wildcard permissions are allowed to list.
	return schema.GroupResource{Group: group, Resource: strings.ToLower(kind) + "s"}
}

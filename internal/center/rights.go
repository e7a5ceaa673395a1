package center

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/center/hub"
	"github.com/holdfast-dev/holdfast/internal/center/model"
	"github.com/holdfast-dev/holdfast/internal/explain"
)

// rights says which right is needed to see something: to list objects of its kind where it is.
type rights struct{ resources *resources }

// Object is the right for one object.
func (r rights) Object(o explain.Object) hub.Scope {
	gr := r.resources.resource(o.Group, o.Kind)
	return hub.Scope{Group: gr.Group, Resource: gr.Resource, Namespace: o.Namespace}
}

// Application are the rights of which one is needed to see that an application is there: that to
// its object, or else to any of the objects it is made of.
func (r rights) Application(rec *model.Record) []hub.Scope {
	if rec.Ref.IsOurs() {
		gr := r.resources.resource(appsapi.GroupVersion.Group, rec.Ref.Kind)
		return []hub.Scope{{Group: gr.Group, Resource: gr.Resource, Namespace: rec.Ref.Namespace}}
	}
	var out []hub.Scope
	for _, k := range rec.Kinds {
		gr := r.resources.resource(k.Group, k.Kind)
		out = append(out, hub.Scope{Group: gr.Group, Resource: gr.Resource, Namespace: rec.Ref.Namespace})
	}
	return out
}

// resource is the resource of a kind. Objects of Kubernetes' own kinds do not say their group.
func (r *resources) resource(group, kind string) schema.GroupResource {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if k, ok := r.kinds[schema.GroupKind{Group: group, Kind: kind}]; ok {
		return schema.GroupResource{Group: k.Group, Resource: k.Resource}
	}
	if group == "" {
		if gr, ok := r.own[kind]; ok {
			return gr
		}
	}
	// What is not followed is not known better. Nobody has a right to what does not exist, but
	// for those who have every right.
	return schema.GroupResource{Group: group, Resource: strings.ToLower(kind) + "s"}
}

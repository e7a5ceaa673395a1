package childkind

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
)

// Set contains the kinds that applications with some types of components need. Other kinds are neither
// watched nor read, and need no permissions.
type Set struct {
	Required, Optional []Kind
	// Data is set if components have claims and credentials.
	Data bool
	// ConfigRefs is set if pods are replaced when ConfigMaps and Secrets change.
	ConfigRefs bool
	types      []appsapi.ComponentType
}

var allTypes = []appsapi.ComponentType{appsapi.ComponentService, appsapi.ComponentStateful, appsapi.ComponentJob, appsapi.ComponentDatabase}

// typesByKind are the types of components that have children of a kind. A database is also stateful.
var typesByKind = map[schema.GroupVersionKind][]appsapi.ComponentType{
	desired.KindDeployment:  {appsapi.ComponentService},
	desired.KindStatefulSet: {appsapi.ComponentStateful},
	desired.KindService:     {appsapi.ComponentService, appsapi.ComponentStateful},
	desired.KindJob:         {appsapi.ComponentJob},
	desired.KindCronJob:     {appsapi.ComponentJob},
	desired.KindConfigMap:   {appsapi.ComponentService, appsapi.ComponentStateful, appsapi.ComponentJob},
	desired.KindAutoscaler:  {appsapi.ComponentService},
	desired.KindBudget:      {appsapi.ComponentService, appsapi.ComponentStateful},
	desired.KindIngress:     {appsapi.ComponentService},
	desired.KindRoute:       {appsapi.ComponentService},
}

// All is the set of all types, with revisions.
var All = mustNewSet(nil, true)

func mustNewSet(types []appsapi.ComponentType, revisions bool) Set {
	s, err := NewSet(types, revisions)
	if err != nil {
		panic(err) // the types are constants
	}
	return s
}

// NewSet returns the set for some types of components; no types means all.
func NewSet(types []appsapi.ComponentType, revisions bool) (Set, error) {
	for _, t := range types {
		if !slices.Contains(allTypes, t) {
			return Set{}, fmt.Errorf("unknown component type %q; use Service, Stateful, Job or Database", t)
		}
	}
	if len(types) == 0 {
		types = allTypes
	}
	s := Set{types: slices.Clone(types)}
	if slices.Contains(types, appsapi.ComponentDatabase) {
		s.types = append(s.types, appsapi.ComponentStateful)
	}
	needed := func(k Kind) bool {
		if k.GVK == desired.KindRevision {
			return revisions
		}
		return slices.ContainsFunc(typesByKind[k.GVK], func(t appsapi.ComponentType) bool { return slices.Contains(s.types, t) })
	}
	for _, k := range Required {
		if needed(k) {
			s.Required = append(s.Required, k)
		}
	}
	for _, k := range Optional {
		if needed(k) {
			s.Optional = append(s.Optional, k)
		}
	}
	s.Data = slices.Contains(s.types, appsapi.ComponentStateful)
	s.ConfigRefs = s.Data || slices.Contains(s.types, appsapi.ComponentService)
	return s, nil
}

// Has reports whether an application of the set can have components of a type.
func (s *Set) Has(t appsapi.ComponentType) bool { return slices.Contains(s.types, t) }

// Cached returns the objects to cache, except for optional kinds.
func (s *Set) Cached() []client.Object {
	all := []client.Object{&corev1.Pod{}}
	for _, k := range s.Required {
		all = append(all, k.Object)
	}
	if s.Data {
		all = append(all, &corev1.PersistentVolumeClaim{})
	}
	if s.ConfigRefs {
		for _, kind := range ConfigRefs {
			all = append(all, NewConfigRefMetadata(kind))
		}
	}
	return all
}

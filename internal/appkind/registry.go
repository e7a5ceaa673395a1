// Package appkind is the registry of kinds. It contains everything that operator, plugin and center know
// about one kind of application. A new built-in kind needs an entry here, its components and its
// controller.
//
// Safety rule: functions are pure and do not change the object that they read. A different result for the
// same object replaces pods in every upgraded cluster.
package appkind

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
)

// Kind describes a kind of application.
type Kind struct {
	schema.GroupVersionKind
	// Keys are the labels, annotations and field managers of the operator that runs the kind.
	Keys *appsapi.Keys
	// Aliases are the names of the kind in commands: plural, singular, short names.
	Aliases []string
	New     func() Application
	NewList func() List
	// Components returns the components of an application.
	Components func(Application) []desired.ExpandedComponent
	// ReadyCount returns the ready and total number of components, or of pods for a single component: 2/3.
	ReadyCount func(Application) string
	// DeletionPolicy returns the deletion policy of the data; nil means that data is retained.
	DeletionPolicy func(Application) appsapi.DeletionPolicy
	// PlaintextSecrets returns the fields of an application that contain a secret; nil means none.
	PlaintextSecrets func(Application) []*string
	// History describes the revisions of the kind; nil if the operator stores none.
	History *History
	// Layout describes the editable fields of a spec; nil for discovered kinds.
	Layout *Layout
	// Operations is set if the spec contains appsapi.Operations, which is optional for discovered kinds.
	Operations bool
	// Discovered kinds belong to other operators: they come from a CustomResourceDefinition.
	Discovered bool
}

// Name identifies the kind. Like the owner-kind label of children, it includes the API group unless that
// is apps.holdfast.dev: Guestbook.example.com.
func (k *Kind) Name() string {
	if k.Group == appsapi.GroupName {
		return k.Kind
	}
	return k.GroupKind().String()
}

// ParseName returns the group and kind of a name.
func ParseName(name string) schema.GroupKind {
	gk := schema.ParseGroupKind(name)
	if gk.Group == "" {
		gk.Group = appsapi.GroupName
	}
	return gk
}

// Resource returns the group, version and plural name.
func (k *Kind) Resource() schema.GroupVersionResource {
	return k.GroupVersion().WithResource(k.Aliases[0])
}

// History describes the revisions of a kind.
type History struct {
	// Spec returns the part of the spec that a revision stores and how many revisions are kept;
	// 0 means the default.
	Spec func(Application) (spec any, limit int32)
	// NewSpec returns an empty spec to decode a stored one into.
	NewSpec func() any
	// KeepRules are the fields that a rollback does not restore.
	KeepRules []KeepRule
}

// Builtin are the built-in kinds in the order of listings.
var Builtin = []*Kind{
	{
		GroupVersionKind: appsapi.GroupVersion.WithKind("AppStack"),
		Keys:             appsapi.DefaultKeys,
		Aliases:          []string{"appstacks", "appstack", "as"},
		New:              func() Application { return &appsapi.AppStack{} },
		NewList:          func() List { return &appsapi.AppStackList{} },
		Components: erase(func(s *appsapi.AppStack) []desired.ExpandedComponent {
			return expand(AppStackComponents(s), &s.Spec.Operations, AppStackSpecPath)
		}),
		ReadyCount:     componentsReady,
		DeletionPolicy: erase(AppStackDeletionPolicy),
		History: &History{
			Spec:      func(app Application) (any, int32) { return AppStackRevisionSpec(app.(*appsapi.AppStack)) },
			NewSpec:   func() any { return &appsapi.AppStackSpec{} },
			KeepRules: appStackKeepRules,
		},
		Layout:     &Layout{Components: appStackLayout},
		Operations: true,
	},
	{
		GroupVersionKind: appsapi.GroupVersion.WithKind("AppService"),
		Keys:             appsapi.DefaultKeys,
		Aliases:          []string{"appservices", "appservice", "appsvc"},
		New:              func() Application { return &appsapi.AppService{} },
		NewList:          func() List { return &appsapi.AppServiceList{} },
		Components: erase(func(s *appsapi.AppService) []desired.ExpandedComponent {
			return expand(AppServiceComponents(s), &s.Spec.Operations, AppServiceSpecPath)
		}),
		ReadyCount: erase(func(app *appsapi.AppService) string { return app.Status.ReplicasReady }),
		Layout:     &Layout{SingleComponent: true, Components: appServiceLayout},
		Operations: true,
	},
	{
		GroupVersionKind: appsapi.GroupVersion.WithKind("CloudManager"),
		Keys:             appsapi.DefaultKeys,
		Aliases:          []string{"cloudmanagers", "cloudmanager", "cloudm"},
		New:              func() Application { return &appsapi.CloudManager{} },
		NewList:          func() List { return &appsapi.CloudManagerList{} },
		Components: erase(func(cm *appsapi.CloudManager) []desired.ExpandedComponent {
			return expand(CloudManagerComponents(cm), &cm.Spec.Operations, CloudManagerSpecPath, CloudManagerPasswords(cm)...)
		}),
		ReadyCount:       componentsReady,
		DeletionPolicy:   erase(CloudManagerDeletionPolicy),
		PlaintextSecrets: erase(func(cm *appsapi.CloudManager) []*string { return []*string{&cm.Spec.DB.RootPass} }),
		History: &History{
			Spec:      func(app Application) (any, int32) { return CloudManagerRevisionSpec(app.(*appsapi.CloudManager)) },
			NewSpec:   func() any { return &appsapi.CloudManagerSpec{} },
			KeepRules: cloudManagerKeepRules,
		},
		Layout:     &Layout{Components: cloudManagerLayout},
		Operations: true,
	},
}

// erase converts a function of one type of application to a function of any application.
func erase[T Application, R any](f func(T) R) func(Application) R {
	return func(app Application) R { return f(app.(T)) }
}

// expand returns components with everything that follows from the spec of their application.
func expand(components []appsapi.Component, operations *appsapi.Operations, path func(appsapi.Component) string, passwords ...desired.PlainPassword) []desired.ExpandedComponent {
	expanded := desired.SetOperations(desired.ExpandComponents(components, passwords...), operations)
	return desired.SetSpecPaths(expanded, path)
}

func componentsReady(app Application) string { return app.(Stack).StackStatus().ComponentsReady }

// byType are the kinds by Go type: objects from a typed client do not contain their kind.
var byType = func() map[reflect.Type]*Kind {
	out := map[reflect.Type]*Kind{}
	for _, k := range Builtin {
		out[reflect.TypeOf(k.New())] = k
	}
	return out
}()

// Of returns the kind of an application.
func Of(app Application) *Kind {
	if d, ok := app.(*discoveredApp); ok {
		return d.kind
	}
	return byType[reflect.TypeOf(app)]
}

// discovered are the kinds that were registered at run time, allKeys the keys of all kinds. Readers need
// no lock.
var (
	discovered atomic.Pointer[[]*Kind]
	allKeys    atomic.Pointer[[]*appsapi.Keys]
	registerMu sync.Mutex
)

// Register adds a discovered kind, or replaces the kind with the same group and name.
func Register(k *Kind) { replaceDiscovered(k.GroupKind(), k) }

// Unregister removes a discovered kind.
func Unregister(gk schema.GroupKind) { replaceDiscovered(gk) }

func replaceDiscovered(gk schema.GroupKind, by ...*Kind) {
	registerMu.Lock()
	defer registerMu.Unlock()
	others := slices.DeleteFunc(slices.Clone(Discovered()), func(k *Kind) bool { return k.GroupKind() == gk })
	discovered.Store(new(append(others, by...)))
	keys := []*appsapi.Keys{appsapi.DefaultKeys}
	for _, k := range Discovered() {
		keys = append(keys, k.Keys)
	}
	allKeys.Store(&keys)
}

// AllKeys returns the keys of all registered kinds. The caller must not change the list.
func AllKeys() []*appsapi.Keys {
	if keys := allKeys.Load(); keys != nil {
		return *keys
	}
	return []*appsapi.Keys{appsapi.DefaultKeys}
}

// Discovered returns the discovered kinds. The caller must not change the list.
func Discovered() []*Kind {
	if kinds := discovered.Load(); kinds != nil {
		return *kinds
	}
	return nil
}

// KeysOf returns the keys that match the labels of a child or pod.
func KeysOf(obj metav1.Object) *appsapi.Keys {
	l := obj.GetLabels()
	for _, k := range AllKeys() {
		if l[k.Workload] != "" || l[k.OwnerKind] != "" {
			return k
		}
	}
	return appsapi.DefaultKeys
}

// Lookup returns the registered kind of a group and kind, or nil.
func Lookup(gk schema.GroupKind) *Kind {
	for _, kinds := range [][]*Kind{Builtin, Discovered()} {
		for _, k := range kinds {
			if k.GroupKind() == gk {
				return k
			}
		}
	}
	return nil
}

// ByAlias returns the built-in kind with a name, optionally followed by its group.
func ByAlias(name string) (*Kind, error) {
	if k := Find(Builtin, name); k != nil {
		return k, nil
	}
	name, _, _ = strings.Cut(strings.ToLower(name), ".")
	return nil, fmt.Errorf("%q is not a kind of application; use appstack, appservice or cloudmanager", name)
}

// Find returns the kind with a name, or nil. The name may be followed by the group, as in
// guestbook.example.com; without it the first kind wins.
func Find(kinds []*Kind, name string) *Kind {
	name, group, _ := strings.Cut(strings.ToLower(name), ".")
	for _, k := range kinds {
		if slices.Contains(k.Aliases, name) && (group == "" || group == k.Group || group == k.Version+"."+k.Group) {
			return k
		}
	}
	return nil
}

// DeletesData reports whether the data of removed components of an application is deleted.
func DeletesData(app Application) bool {
	policy := Of(app).DeletionPolicy
	return policy != nil && policy(app) == appsapi.DeletionDelete
}

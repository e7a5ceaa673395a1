package appkind

import (
	"cmp"
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
)

// IsApplicationCRD reports whether the objects of a CustomResourceDefinition are applications.
func IsApplicationCRD(crd *apiextensionsv1.CustomResourceDefinition) bool {
	return crd.Labels[appsapi.LabelApplicationKind] == "true"
}

// FromCRD returns the kind that a CustomResourceDefinition of another operator defines. Only that operator
// can interpret the spec, so its applications are described by their status and children.
func FromCRD(crd *apiextensionsv1.CustomResourceDefinition) (*Kind, error) {
	version := ServedVersion(crd)
	switch {
	case crd.Spec.Group == appsapi.GroupName:
		return nil, fmt.Errorf("CustomResourceDefinition %s is of API group %s, whose kinds are built in", crd.Name, appsapi.GroupName)
	case crd.Spec.Scope != apiextensionsv1.NamespaceScoped:
		return nil, fmt.Errorf("CustomResourceDefinition %s is cluster-scoped; applications are namespaced", crd.Name)
	case version == "":
		return nil, fmt.Errorf("CustomResourceDefinition %s serves no version", crd.Name)
	}
	names := crd.Spec.Names
	singular := names.Singular
	if singular == "" {
		singular = strings.ToLower(names.Kind)
	}
	k := &Kind{
		Keys:             keysOf(crd),
		GroupVersionKind: schema.GroupVersionKind{Group: crd.Spec.Group, Version: version, Kind: names.Kind},
		Aliases:          append([]string{names.Plural, singular}, names.ShortNames...),
		Components:       reportedComponents,
		ReadyCount:       componentsReady,
		Discovered:       true,
		Operations:       hasOperations(crd, version),
	}
	k.New = func() Application {
		app := &discoveredApp{kind: k}
		app.SetGroupVersionKind(k.GroupVersionKind)
		return app
	}
	k.NewList = func() List {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(k.GroupVersion().WithKind(k.Kind + "List"))
		return list
	}
	return k, nil
}

// keysOf returns the keys of the operator that runs the kind.
func keysOf(crd *apiextensionsv1.CustomResourceDefinition) *appsapi.Keys {
	a, d := crd.Annotations, appsapi.DefaultKeys
	keys := appsapi.NewKeys(cmp.Or(a[appsapi.AnnotationLabelPrefix], d.Prefix), cmp.Or(a[appsapi.AnnotationFieldManager], d.FieldManager))
	keys.Finalizer = cmp.Or(a[appsapi.AnnotationFinalizer], keys.Finalizer)
	if *keys == *d {
		return d
	}
	return keys
}

// hasOperations reports whether the spec of a kind contains appsapi.Operations.
func hasOperations(crd *apiextensionsv1.CustomResourceDefinition, version string) bool {
	for _, v := range crd.Spec.Versions {
		if v.Name != version || v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
			continue
		}
		operations := v.Schema.OpenAPIV3Schema.Properties["spec"].Properties["operations"]
		if operations.Items != nil && operations.Items.Schema != nil {
			_, ok := operations.Items.Schema.Properties["restartRequestedAt"]
			return ok
		}
	}
	return false
}

// ServedVersion returns the version of a kind to read, preferably the stored version, which needs no
// conversion.
func ServedVersion(crd *apiextensionsv1.CustomResourceDefinition) string {
	version := ""
	for _, v := range crd.Spec.Versions {
		if v.Served && (version == "" || v.Storage) {
			version = v.Name
		}
	}
	return version
}

// Application returns an object of the kind as an application. A list or watch of a discovered kind
// yields unstructured objects.
func (k *Kind) Application(obj runtime.Object) (Application, bool) {
	if u, ok := obj.(*unstructured.Unstructured); ok && k.Discovered {
		return &discoveredApp{Unstructured: *u, kind: k}, true
	}
	app, ok := obj.(Application)
	return app, ok
}

// discoveredApp is an application of a discovered kind. Every call decodes its status: a cached status
// would need a lock, because the center reads one object from several goroutines. Changes of the returned
// status are lost.
type discoveredApp struct {
	unstructured.Unstructured
	kind *Kind
}

func (a *discoveredApp) ApplicationStatus() *appsapi.ApplicationStatus {
	return decodeStatus[appsapi.ApplicationStatus](a)
}

func (a *discoveredApp) StackStatus() *appsapi.StackStatus {
	return decodeStatus[appsapi.StackStatus](a)
}

// decodeStatus ignores fields with another type than the engine writes.
func decodeStatus[T any](a *discoveredApp) *T {
	out := new(T)
	if status, ok := a.Object["status"].(map[string]any); ok {
		_ = runtime.DefaultUnstructuredConverter.FromUnstructured(status, out)
	}
	return out
}

func (a *discoveredApp) DeepCopyObject() runtime.Object {
	return &discoveredApp{Unstructured: *a.DeepCopy(), kind: a.kind}
}

func (a *discoveredApp) NewEmptyInstance() runtime.Unstructured {
	return a.kind.New().(*discoveredApp)
}

// reportedComponents returns the components in the status of an application. Their spec is unknown except
// for the type.
func reportedComponents(app Application) []desired.ExpandedComponent {
	var out []desired.ExpandedComponent
	for _, s := range app.(Stack).StackStatus().Components {
		c := appsapi.Component{Name: s.Name, ResourceName: s.ResourceName, DependsOn: s.DependsOn}
		switch s.Type {
		case appsapi.ComponentStateful:
			c.Stateful = &appsapi.StatefulComponent{}
		case appsapi.ComponentDatabase:
			c.Database = &appsapi.DatabaseComponent{}
		case appsapi.ComponentJob:
			c.Job = &appsapi.JobComponent{}
		default:
			c.Service = &appsapi.ServiceComponent{}
		}
		suspended := appsapi.ComponentOperations{Suspend: s.Reason == appsapi.ReasonSuspended}
		out = append(out, desired.ExpandedComponent{Component: c, Operations: suspended})
	}
	return out
}

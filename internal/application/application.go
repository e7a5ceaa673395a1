// Package application is what an application of any of our kinds has in common with the others:
// what it is called, what it consists of, and where in it a child belongs. Plugin and center
// share it.
//
// Safety rule: it only reads, with the client that it is given, and nothing but metadata of
// children.
package application

import (
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/appkind"
	"github.com/holdfast-dev/holdfast/internal/desired"
)

// Application is an object of any of our kinds.
type Application interface {
	client.Object
	ApplicationStatus() *appsapi.ApplicationStatus
}

// Kind is one of our kinds.
type Kind struct {
	Name string
	// Aliases are what people call it, the plural first.
	Aliases []string
	New     func() Application
	NewList func() client.ObjectList
}

// Kinds are all of them, in the order in which they are listed.
var Kinds = []Kind{
	{"AppStack", []string{"appstacks", "appstack"}, func() Application { return &appsapi.AppStack{} }, func() client.ObjectList { return &appsapi.AppStackList{} }},
	{"AppService", []string{"appservices", "appservice", "appsvc"}, func() Application { return &appsapi.AppService{} }, func() client.ObjectList { return &appsapi.AppServiceList{} }},
	{"CloudManager", []string{"cloudmanagers", "cloudmanager", "cloudm"}, func() Application { return &appsapi.CloudManager{} }, func() client.ObjectList { return &appsapi.CloudManagerList{} }},
}

// KindOf is the kind of an application, which an object read by a client does not say.
func KindOf(app Application) string {
	switch app.(type) {
	case *appsapi.AppService:
		return "AppService"
	case *appsapi.AppStack:
		return "AppStack"
	case *appsapi.CloudManager:
		return "CloudManager"
	}
	return app.GetObjectKind().GroupVersionKind().Kind
}

// Components is what an application consists of.
func Components(app Application) []appsapi.Component {
	switch o := app.(type) {
	case *appsapi.AppService:
		return appkind.AppServiceComponents(o)
	case *appsapi.AppStack:
		return appkind.AppStackComponents(o)
	case *appsapi.CloudManager:
		return appkind.CloudManagerComponents(o)
	}
	return nil
}

// Owner is an application as its children know it.
func Owner(app Application) desired.Owner {
	return desired.Owner{
		APIVersion: appsapi.GroupVersion.String(), Kind: KindOf(app),
		Namespace: app.GetNamespace(), Name: app.GetName(), UID: app.GetUID(), Generation: app.GetGeneration(),
	}
}

// Title names an application in a sentence.
func Title(app Application) string {
	return fmt.Sprintf("%s %s/%s", KindOf(app), app.GetNamespace(), app.GetName())
}

// KindByAlias is the kind that people mean by a word.
func KindByAlias(alias string) (Kind, error) {
	alias, _, _ = strings.Cut(strings.ToLower(alias), ".")
	for _, k := range Kinds {
		if slices.Contains(k.Aliases, alias) {
			return k, nil
		}
	}
	return Kind{}, fmt.Errorf("%q is no kind of application; use appstack, appservice or cloudmanager", alias)
}

package cli

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/appkind"
)

// cluster fakes an API server with the given applications (KIND/NAME) and the CRD Guestbook of another operator.
type cluster struct {
	client.Reader
	applications  []string
	crdsForbidden bool
	forbidden     []string // kinds that the caller cannot read
	crdLists      int
}

func (c *cluster) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	kind := appkind.Of(obj.(appkind.Application)).Kind
	if slices.Contains(c.forbidden, kind) {
		return apierrors.NewForbidden(schema.GroupResource{Resource: kind}, key.Name, errors.New("no"))
	}
	if !slices.Contains(c.applications, kind+"/"+key.Name) {
		return apierrors.NewNotFound(schema.GroupResource{Resource: kind}, key.Name)
	}
	obj.SetNamespace(key.Namespace)
	obj.SetName(key.Name)
	return nil
}

func (c *cluster) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	c.crdLists++
	if c.crdsForbidden {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "customresourcedefinitions"}, "", errors.New("no"))
	}
	list.(*apiextensionsv1.CustomResourceDefinitionList).Items = []apiextensionsv1.CustomResourceDefinition{{
		ObjectMeta: metav1.ObjectMeta{Name: "guestbooks.example.com", Labels: map[string]string{appsapi.LabelApplicationKind: "true"}},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: apiextensionsv1.NamespaceScoped,
			Names:    apiextensionsv1.CustomResourceDefinitionNames{Kind: "Guestbook", Plural: "guestbooks", Singular: "guestbook"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true}},
		},
	}}
	return nil
}

func TestFindApplication(t *testing.T) {
	const hint = "kinds of other operators could not be discovered: no permission to list customresourcedefinitions.apiextensions.k8s.io"
	cases := map[string]struct {
		arg           string
		crdsForbidden bool
		forbidden     []string
		want          string // KIND/NAME, or what the error contains
		wantCRDLists  int
	}{
		"built-in name without discovery":       {arg: "shop", want: "AppStack demo/shop"},
		"built-in kind without discovery":       {arg: "appstack/none", want: "AppStack none not found"},
		"same name in two built-in kinds":       {arg: "both", want: "appstack/both or appservice/both"},
		"name of another operator":              {arg: "visitors", want: "Guestbook demo/visitors", wantCRDLists: 1},
		"kind of another operator":              {arg: "guestbook/visitors", want: "Guestbook demo/visitors", wantCRDLists: 1},
		"kind with group":                       {arg: "guestbooks.example.com/visitors", want: "Guestbook demo/visitors", wantCRDLists: 1},
		"unknown name":                          {arg: "none", want: "application none not found", wantCRDLists: 1},
		"unknown kind":                          {arg: "certificate/none", want: "cloudmanager, or guestbook.example.com", wantCRDLists: 1},
		"built-in name without CRD permissions": {arg: "shop", crdsForbidden: true, want: "AppStack demo/shop"},
		"name without CRD permissions":          {arg: "visitors", crdsForbidden: true, want: hint, wantCRDLists: 1},
		"name, other kinds are hidden":          {arg: "shop", forbidden: []string{"AppService", "CloudManager"}, crdsForbidden: true, want: "AppStack demo/shop"},
		"name in a hidden kind": {arg: "none", forbidden: []string{"AppService", "CloudManager"}, crdsForbidden: true, wantCRDLists: 1,
			want: "application none not found in namespace demo, but you have no permission to read AppServices and CloudManagers; request the permission"},
		"name, all built-in kinds are hidden": {arg: "shop", forbidden: []string{"AppStack", "AppService", "CloudManager"}, crdsForbidden: true, wantCRDLists: 1,
			want: `AppStack "shop" is forbidden: no; request the permission`},
		"name of another operator, built-in kinds are hidden": {arg: "visitors", forbidden: []string{"AppStack", "AppService", "CloudManager"}, want: "Guestbook demo/visitors", wantCRDLists: 1},
		"hidden kind":                  {arg: "appstack/shop", forbidden: []string{"AppStack"}, want: `AppStack "shop" is forbidden: no; request the permission`},
		"kind without CRD permissions": {arg: "guestbook/visitors", crdsForbidden: true, want: hint, wantCRDLists: 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := &cluster{applications: []string{"AppStack/shop", "AppStack/both", "AppService/both", "Guestbook/visitors", "Guestbook/shop"}, crdsForbidden: tc.crdsForbidden, forbidden: tc.forbidden}
			app, err := FindApplication(t.Context(), c, "demo", []string{tc.arg})
			got := ""
			if err != nil {
				got = err.Error()
			} else {
				got = appkind.Title(app)
			}
			if !strings.Contains(got, tc.want) || c.crdLists != tc.wantCRDLists {
				t.Errorf("got %q with %d lists of CRDs, want %q with %d", got, c.crdLists, tc.want, tc.wantCRDLists)
			}
		})
	}
}

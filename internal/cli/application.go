package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/kinds"
)

// Application is an object of any of our kinds.
type Application interface {
	client.Object
	ApplicationStatus() *appsapi.ApplicationStatus
}

// Kind is one of our kinds.
type Kind struct {
	Name string
	// Words are what people call it, the plural first.
	Words   []string
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
		return kinds.AppService(o)
	case *appsapi.AppStack:
		return kinds.AppStack(o)
	case *appsapi.CloudManager:
		return kinds.CloudManager(o)
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

// Application is the one that the arguments of a verb name, and a client to go on with.
func (e *Env) Application(ctx context.Context, args []string) (client.Client, Application, error) {
	c, err := e.Client()
	if err != nil {
		return nil, nil, err
	}
	app, err := e.Find(ctx, c, args)
	return c, app, err
}

// Find looks in the namespace that the user works in.
func (e *Env) Find(ctx context.Context, c client.Reader, args []string) (Application, error) {
	namespace, err := e.Namespace()
	if err != nil {
		return nil, err
	}
	return Find(ctx, c, namespace, args)
}

// Find returns the application that the arguments name: NAME, KIND/NAME or KIND NAME. A
// name alone is looked for among all kinds.
func Find(ctx context.Context, c client.Reader, namespace string, args []string) (Application, error) {
	kind, name, err := parse(args)
	if err != nil {
		return nil, err
	}
	found := make([]Application, len(Kinds))
	group, ctx := errgroup.WithContext(ctx)
	for i, k := range Kinds {
		if kind != "" && k.Name != kind {
			continue
		}
		group.Go(func() error {
			app := k.New()
			err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, app)
			switch {
			case err == nil:
				found[i] = app
			case !apierrors.IsNotFound(err):
				return fmt.Errorf("get %s %s/%s: %w", k.Name, namespace, name, Explained(err))
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	found = slices.DeleteFunc(found, func(a Application) bool { return a == nil })
	switch len(found) {
	case 0:
		what := "application"
		if kind != "" {
			what = kind
		}
		return nil, &NotFoundError{Namespace: namespace, sentence: fmt.Sprintf("there is no %s %s in namespace %s; kubectl holdfast list -A shows all applications", what, name, namespace)}
	case 1:
		return found[0], nil
	}
	var names []string
	for _, a := range found {
		names = append(names, strings.ToLower(KindOf(a))+"/"+name)
	}
	return nil, fmt.Errorf("several applications of namespace %s are called %s; say which one: %s", namespace, name, strings.Join(names, " or "))
}

// NotFoundError says that there is no such application.
type NotFoundError struct {
	Namespace string
	sentence  string
}

func (e *NotFoundError) Error() string { return e.sentence }

func parse(args []string) (kind, name string, err error) {
	switch len(args) {
	case 0:
		return "", "", errors.New("no application given; name one: NAME or KIND/NAME, and kubectl holdfast list shows which there are")
	case 1:
		word, rest, ok := strings.Cut(args[0], "/")
		if !ok {
			return "", args[0], nil
		}
		args = []string{word, rest}
	case 2:
	default:
		return "", "", fmt.Errorf("%d applications given; this verb is about one", len(args))
	}
	k, err := KindCalled(args[0])
	return k.Name, args[1], err
}

// KindCalled is the kind that people mean by a word.
func KindCalled(word string) (Kind, error) {
	word, _, _ = strings.Cut(strings.ToLower(word), ".")
	for _, k := range Kinds {
		if slices.Contains(k.Words, word) {
			return k, nil
		}
	}
	return Kind{}, fmt.Errorf("%q is no kind of application; use appstack, appservice or cloudmanager", word)
}

// Explained adds to an error of the API server what to do about it.
func Explained(err error) error {
	switch {
	case err == nil:
		return nil
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err) && strings.Contains(err.Error(), "could not find the requested resource"):
		return fmt.Errorf("%w; is Holdfast installed? kubectl holdfast doctor looks", err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w; ask for the right, or use another user with --as or --context", err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%w; log in again, or choose another user with --context", err)
	}
	return err
}

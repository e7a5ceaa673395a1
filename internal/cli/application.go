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

	"github.com/holdfast-dev/holdfast/internal/application"
	"github.com/holdfast-dev/holdfast/internal/edit"
)

// ResolveApplication is the one that the arguments of a verb name, and a client to go on with.
func (e *Env) ResolveApplication(ctx context.Context, args []string) (client.Client, application.Application, error) {
	c, err := e.Client()
	if err != nil {
		return nil, nil, err
	}
	app, err := e.FindApplication(ctx, c, args)
	return c, app, err
}

// FindApplication looks in the namespace that the user works in.
func (e *Env) FindApplication(ctx context.Context, c client.Reader, args []string) (application.Application, error) {
	namespace, err := e.Namespace()
	if err != nil {
		return nil, err
	}
	return FindApplication(ctx, c, namespace, args)
}

// FindApplication returns the application that the arguments name: NAME, KIND/NAME or KIND NAME. A
// name alone is looked for among all kinds.
func FindApplication(ctx context.Context, c client.Reader, namespace string, args []string) (application.Application, error) {
	kind, name, err := parseApplicationArgs(args)
	if err != nil {
		return nil, err
	}
	found := make([]application.Application, len(application.Kinds))
	group, ctx := errgroup.WithContext(ctx)
	for i, k := range application.Kinds {
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
				return fmt.Errorf("get %s %s/%s: %w", k.Name, namespace, name, WithHint(err))
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	found = slices.DeleteFunc(found, func(a application.Application) bool { return a == nil })
	switch len(found) {
	case 0:
		noun := "application"
		if kind != "" {
			noun = kind
		}
		return nil, &NotFoundError{Namespace: namespace, message: fmt.Sprintf("there is no %s %s in namespace %s; kubectl holdfast list -A shows all applications", noun, name, namespace)}
	case 1:
		return found[0], nil
	}
	var names []string
	for _, a := range found {
		names = append(names, strings.ToLower(application.KindOf(a))+"/"+name)
	}
	return nil, fmt.Errorf("several applications of namespace %s are called %s; say which one: %s", namespace, name, strings.Join(names, " or "))
}

// NotFoundError says that there is no such application.
type NotFoundError struct {
	Namespace string
	message   string
}

func (e *NotFoundError) Error() string { return e.message }

func parseApplicationArgs(args []string) (kind, name string, err error) {
	switch len(args) {
	case 0:
		return "", "", errors.New("no application given; name one: NAME or KIND/NAME, and kubectl holdfast list shows which there are")
	case 1:
		kindArg, nameArg, ok := strings.Cut(args[0], "/")
		if !ok {
			return "", args[0], nil
		}
		args = []string{kindArg, nameArg}
	case 2:
	default:
		return "", "", fmt.Errorf("%d applications given; this verb is about one", len(args))
	}
	k, err := application.KindByAlias(args[0])
	return k.Name, args[1], err
}

// FieldManager is who the API server notes as the author of what the plugin writes.
const FieldManager = "kubectl-holdfast"

// NewWriter writes specs as the plugin.
func NewWriter(c client.Client) edit.Writer {
	return edit.Writer{Client: c, FieldManager: FieldManager}
}

// FollowHint is what to do after an application was changed.
func FollowHint(app application.Application) string {
	return fmt.Sprintf("Follow it: kubectl holdfast wait %s -n %s", app.GetName(), app.GetNamespace())
}

// WithHint adds to an error of the API server what to do about it.
func WithHint(err error) error {
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

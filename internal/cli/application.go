package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/appkind"
	"github.com/holdfast-dev/holdfast/internal/edit"
	"github.com/holdfast-dev/holdfast/internal/kubeclient"
)

// ResolveApplication returns the application that the arguments name, and the client that read it.
func (e *Env) ResolveApplication(ctx context.Context, args []string) (client.Client, appkind.Application, error) {
	c, err := e.Client()
	if err != nil {
		return nil, nil, err
	}
	app, err := e.FindApplication(ctx, c, args)
	return c, app, err
}

// FindApplication looks for an application in the current namespace.
func (e *Env) FindApplication(ctx context.Context, c client.Reader, args []string) (appkind.Application, error) {
	namespace, err := e.Namespace()
	if err != nil {
		return nil, err
	}
	return FindApplication(ctx, c, namespace, args)
}

// FindApplication returns the application that the arguments name: NAME, KIND/NAME or KIND NAME. For
// NAME, built-in kinds take precedence over kinds of other operators.
func FindApplication(ctx context.Context, c client.Reader, namespace string, args []string) (appkind.Application, error) {
	kindArg, name, err := parseApplicationArgs(args)
	if err != nil {
		return nil, err
	}
	key, noun, hint := client.ObjectKey{Namespace: namespace, Name: name}, "application", ""
	var found []appkind.Application
	if kindArg != "" {
		kind, err := findKind(ctx, c, kindArg)
		if err != nil {
			return nil, err
		}
		noun = kind.Kind
		var hidden []hiddenKind
		found, hidden, err = getApplications(ctx, c, []*appkind.Kind{kind}, key)
		if err = cmp.Or(err, hiddenError(hidden, 1, key)); err != nil {
			return nil, err
		}
	} else if found, hint, err = findByName(ctx, c, key); err != nil {
		return nil, err
	}
	switch len(found) {
	case 0:
		message := fmt.Sprintf("%s %s not found in namespace %s; kubectl holdfast list -A shows all applications", noun, name, namespace)
		if hint != "" {
			message += "; " + hint
		}
		return nil, &NotFoundError{Namespace: namespace, message: message}
	case 1:
		return found[0], nil
	}
	var names []string
	for _, a := range found {
		names = append(names, KindName(a)+"/"+name)
	}
	return nil, fmt.Errorf("several applications in namespace %s are named %s; specify the kind: %s",
		namespace, name, strings.Join(names, " or "))
}

// findByName returns the applications with the given name. Kinds that the caller cannot read are skipped; if
// no other kind has the application, it is not known whether it exists, which is an error. It sets hint if
// the kinds of other operators could not be discovered.
func findByName(ctx context.Context, c client.Reader, key client.ObjectKey) (found []appkind.Application, hint string, err error) {
	found, hidden, err := getApplications(ctx, c, appkind.Builtin, key)
	if err != nil || len(found) > 0 {
		return found, "", err
	}
	kinds, err := kubeclient.DiscoverKinds(ctx, c)
	if err != nil {
		return nil, DiscoveryHint(err), hiddenError(hidden, len(appkind.Builtin), key)
	}
	found, _, err = getApplications(ctx, c, kinds, key)
	if err == nil && len(found) == 0 {
		err = hiddenError(hidden, len(appkind.Builtin), key)
	}
	return found, "", err
}

// hiddenKind is a kind that the caller cannot read.
type hiddenKind struct {
	kind string
	err  error
}

// hiddenError returns an error that names the kinds that the caller cannot read, or nil if there are none.
func hiddenError(hidden []hiddenKind, asked int, key client.ObjectKey) error {
	switch len(hidden) {
	case 0:
		return nil
	case asked:
		return fmt.Errorf("get %s %s: %w", hidden[0].kind, key, WithHint(hidden[0].err))
	}
	var kinds []string
	for _, h := range hidden {
		kinds = append(kinds, h.kind+"s")
	}
	return fmt.Errorf("application %s not found in namespace %s, but you have no permission to read %s; "+
		"request the permission, or use another user with --as or --context", key.Name, key.Namespace, strings.Join(kinds, " and "))
}

// getApplications returns the applications with the given name, at most one per kind.
func getApplications(ctx context.Context, c client.Reader, kinds []*appkind.Kind, key client.ObjectKey) ([]appkind.Application, []hiddenKind, error) {
	found, hidden := make([]appkind.Application, len(kinds)), make([]hiddenKind, len(kinds))
	group, ctx := errgroup.WithContext(ctx)
	for i, k := range kinds {
		group.Go(func() error {
			app := k.New()
			err := c.Get(ctx, key, app)
			switch {
			case err == nil:
				found[i] = app
			case apierrors.IsNotFound(err):
			case apierrors.IsForbidden(err):
				hidden[i] = hiddenKind{k.Kind, err}
			default:
				return fmt.Errorf("get %s %s: %w", k.Kind, key, WithHint(err))
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, nil, err
	}
	return slices.DeleteFunc(found, func(a appkind.Application) bool { return a == nil }),
		slices.DeleteFunc(hidden, func(h hiddenKind) bool { return h.err == nil }), nil
}

// NotFoundError reports that the application does not exist.
type NotFoundError struct {
	Namespace string
	message   string
}

func (e *NotFoundError) Error() string { return e.message }

// parseApplicationArgs splits the arguments into kind and name. The kind is empty for NAME.
func parseApplicationArgs(args []string) (kind, name string, err error) {
	switch len(args) {
	case 0:
		return "", "", errors.New("no application specified; use NAME or KIND/NAME (kubectl holdfast list shows all applications)")
	case 1:
		kindArg, nameArg, ok := strings.Cut(args[0], "/")
		if !ok {
			return "", args[0], nil
		}
		return kindArg, nameArg, nil
	case 2:
		return args[0], args[1], nil
	}
	return "", "", fmt.Errorf("%d arguments given; specify one application as NAME, KIND/NAME or KIND NAME", len(args))
}

// FieldManager is the field manager of all writes by the plugin. It must not start with kubectl: Flux takes over the
// fields of such managers and removes those that are not in its manifest.
const FieldManager = "holdfast-cli"

// NewWriter returns a writer that uses the field manager of the plugin.
func NewWriter(c client.Client) edit.Writer {
	return edit.Writer{Client: c, FieldManager: FieldManager}
}

// FollowHint returns the command that follows the rollout of a change.
func FollowHint(app appkind.Application) string {
	return fmt.Sprintf("Follow the rollout: kubectl holdfast wait %s -n %s", app.GetName(), app.GetNamespace())
}

// WithHint adds the next step to an error of the API server.
func WithHint(err error) error {
	unreachable := AsUnreachable(err)
	switch {
	case err == nil:
		return nil
	case unreachable != nil:
		return unreachable
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err) && strings.Contains(err.Error(), "could not find the requested resource"):
		return fmt.Errorf("%w; run kubectl holdfast doctor to check that Holdfast is installed", err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w; request the permission, or use another user with --as or --context", err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%w; log in again, or use another user with --context", err)
	}
	return err
}

package cli

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/appkind"
	"github.com/holdfast-dev/holdfast/internal/kubeclient"
)

// UnknownKindError reports that a name is not a kind of application.
type UnknownKindError struct {
	message string
	// Hint is set if the kinds of other operators could not be discovered.
	Hint string
}

func (e *UnknownKindError) Error() string {
	if e.Hint == "" {
		return e.message
	}
	return e.message + "; " + e.Hint
}

// DiscoveryHint explains why the kinds of other operators could not be discovered.
func DiscoveryHint(err error) string {
	reason := err.Error()
	if apierrors.IsForbidden(err) {
		reason = "no permission to list customresourcedefinitions.apiextensions.k8s.io"
	}
	return "kinds of other operators could not be discovered: " + reason
}

// findKind returns the kind with the given name or alias. Built-in kinds need no request.
func findKind(ctx context.Context, c client.Reader, name string) (*appkind.Kind, error) {
	builtin, unknown := appkind.ByAlias(name)
	if unknown == nil {
		return builtin, nil
	}
	discovered, err := kubeclient.DiscoverKinds(ctx, c)
	if err != nil {
		return nil, &UnknownKindError{message: unknown.Error(), Hint: DiscoveryHint(err)}
	}
	if k := appkind.Find(discovered, name); k != nil {
		return k, nil
	}
	message := unknown.Error()
	for _, k := range discovered {
		message += fmt.Sprintf(", or %s.%s", k.Aliases[1], k.Group)
	}
	return nil, &UnknownKindError{message: message}
}

// KindName returns the kind of an application as commands accept it: appstack, guestbook.example.com.
func KindName(app appkind.Application) string {
	k := appkind.Of(app)
	if k.Discovered {
		return k.Aliases[1] + "." + k.Group
	}
	return strings.ToLower(k.Kind)
}

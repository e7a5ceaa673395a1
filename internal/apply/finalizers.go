package apply

import (
	"context"
	"encoding/json"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/desired"
)

// SetFinalizers replaces the finalizers of app and updates app with the response. It returns ErrStale
// if the application does not exist or has other finalizers than expected. Children must not be
// created after this error.
func (a *Applier) SetFinalizers(ctx context.Context, owner desired.Owner, expected, finalizers []string, app client.Object) error {
	// The patch has no resourceVersion: a client that keeps editing labels must not block it.
	var expectedValue any
	if len(expected) > 0 {
		expectedValue = expected
	}
	patch, err := json.Marshal([]map[string]any{
		{"op": "test", "path": "/metadata/uid", "value": owner.UID},
		{"op": "test", "path": "/metadata/finalizers", "value": expectedValue},
		{"op": "add", "path": "/metadata/finalizers", "value": finalizers},
	})
	if err != nil {
		return err
	}
	err = a.writer.Patch(ctx, app, client.RawPatch(types.JSONPatchType, patch), client.FieldOwner(owner.Keys.FieldManager))
	// The API server returns Invalid if a test operation fails.
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsInvalid(err) {
		return errors.Join(err, ErrStale)
	}
	return err
}

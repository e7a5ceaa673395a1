package actions

import (
	"context"
	"errors"
	"slices"

	"golang.org/x/sync/errgroup"
)

// Presence reports whether an object exists, as far as the caller is allowed to know.
type Presence string

// Presences.
const (
	Present Presence = "Present"
	Absent  Presence = "Absent"
	// Unknown means that the caller is not allowed to get the object.
	Unknown Presence = "Unknown"
)

// Limits of CheckSecrets.
const (
	maxSecrets          = 200
	maxConcurrentChecks = 8
)

// SecretCheck reports whether a Secret exists.
type SecretCheck struct {
	Name     string   `json:"name"`
	Presence Presence `json:"presence"`
	// Message contains the reason and the next step if Presence is Unknown.
	Message string `json:"message,omitempty"`
}

// CheckSecrets reports which Secrets of a namespace exist, sorted by name. It requests only their metadata.
func (c *Caller) CheckSecrets(ctx context.Context, namespace string, names []string) ([]SecretCheck, error) {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	if len(names) > maxSecrets {
		return nil, invalid("%d Secrets of namespace %s requested; request at most %d at once", len(names), namespace, maxSecrets)
	}
	if namespace == "" {
		return nil, invalid("the namespace of the Secrets is missing; add it")
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	out := make([]SecretCheck, len(names))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxConcurrentChecks)
	for i, name := range names {
		group.Go(func() (err error) {
			out[i], err = c.checkSecret(ctx, Ref{Kind: "Secret", Namespace: namespace, Name: name})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return out, nil
}

func (c *Caller) checkSecret(ctx context.Context, ref Ref) (SecretCheck, error) {
	found := SecretCheck{Name: ref.Name, Presence: Present}
	if err := ref.validate(); err != nil {
		return found, err
	}
	_, err := c.secretMetadata(ctx, ref.Namespace, ref.Name)
	err = toError(opGet, ref, err)
	var apiErr *Error
	switch {
	case err == nil:
	case errors.As(err, &apiErr) && apiErr.Reason == NotFound:
		found.Presence = Absent
	case errors.As(err, &apiErr) && apiErr.Reason == Forbidden:
		found.Presence, found.Message = Unknown, apiErr.Message
	default:
		return found, err
	}
	return found, nil
}

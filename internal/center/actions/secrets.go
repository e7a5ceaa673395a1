package actions

import (
	"context"
	"errors"
	"slices"

	"golang.org/x/sync/errgroup"
)

// Presence is whether something exists, as far as somebody may know.
type Presence string

// Presences.
const (
	Present Presence = "Present"
	Absent  Presence = "Absent"
	// Unknown means that the caller may not know.
	Unknown Presence = "Unknown"
)

// Bounds of a question about Secrets.
const (
	maxSecrets          = 200
	maxConcurrentChecks = 8
)

// SecretCheck is whether a Secret exists.
type SecretCheck struct {
	Name     string   `json:"name"`
	Presence Presence `json:"presence"`
	// Message it is not known, and what to do.
	Message string `json:"why,omitempty"`
}

// CheckSecrets says which Secrets of a namespace exist, in the order of their names. Nothing but their
// metadata is read.
func (c *Caller) CheckSecrets(ctx context.Context, namespace string, names []string) ([]SecretCheck, error) {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	if len(names) > maxSecrets {
		return nil, invalid("%d Secrets of namespace %s are asked about; ask about at most %d at once", len(names), namespace, maxSecrets)
	}
	if namespace == "" {
		return nil, invalid("no namespace of the Secrets given; name it")
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

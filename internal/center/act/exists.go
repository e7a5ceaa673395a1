package act

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
	maxSecrets = 200
	atOnce     = 8
)

// Found is whether a Secret exists.
type Found struct {
	Name     string   `json:"name"`
	Presence Presence `json:"presence"`
	// Why it is not known, and what to do.
	Why string `json:"why,omitempty"`
}

// Exists says which Secrets of a namespace exist, in the order of their names. Nothing but their
// metadata is read.
func (c *Caller) Exists(ctx context.Context, namespace string, names []string) ([]Found, error) {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	if len(names) > maxSecrets {
		return nil, invalid("%d Secrets of namespace %s are asked about; ask about at most %d at once", len(names), namespace, maxSecrets)
	}
	if namespace == "" {
		return nil, invalid("no namespace of the Secrets given; name it")
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	out := make([]Found, len(names))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i, name := range names {
		group.Go(func() (err error) {
			out[i], err = c.exists(ctx, Ref{Kind: "Secret", Namespace: namespace, Name: name})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return out, nil
}

func (c *Caller) exists(ctx context.Context, ref Ref) (Found, error) {
	found := Found{Name: ref.Name, Presence: Present}
	if err := ref.check(); err != nil {
		return found, err
	}
	_, err := c.metadata(ctx, ref.Namespace, ref.Name)
	err = failed(gets, ref, err)
	var why *Error
	switch {
	case err == nil:
	case errors.As(err, &why) && why.Reason == NotFound:
		found.Presence = Absent
	case errors.As(err, &why) && why.Reason == Forbidden:
		found.Presence, found.Why = Unknown, why.Message
	default:
		return found, err
	}
	return found, nil
}

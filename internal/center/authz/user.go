package authz

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"maps"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
)

// User is who the API server says that a token belongs to. It cannot be changed: many requests
// share one.
type User struct {
	name, uid string
	groups    []string
	extra     map[string]authorizationv1.ExtraValue
	key       userKey
}

// userKey is equal for users that every authorizer must treat the same.
type userKey [sha256.Size]byte

// NewUser returns the user that info describes.
func NewUser(info authenticationv1.UserInfo) *User {
	u := &User{
		name: info.Username, uid: info.UID, groups: slices.Clone(info.Groups),
		extra: make(map[string]authorizationv1.ExtraValue, len(info.Extra)),
	}
	for k, v := range info.Extra {
		u.extra[k] = authorizationv1.ExtraValue(slices.Clone(v))
	}
	u.key = u.makeKey()
	return u
}

// Name is the name that the API server and its audit log know.
func (u *User) Name() string { return u.name }

// UID is empty for users that have none.
func (u *User) UID() string { return u.uid }

// Groups returns a copy of the groups.
func (u *User) Groups() []string { return slices.Clone(u.groups) }

// makeKey writes the length before each part: otherwise a group could be named so that two
// different users look the same.
func (u *User) makeKey() userKey {
	h := sha256.New()
	writeParts(h, u.name, u.uid)
	groups := slices.Sorted(slices.Values(u.groups))
	writeCount(h, len(groups))
	writeParts(h, groups...)
	for _, k := range slices.Sorted(maps.Keys(u.extra)) {
		writeParts(h, k)
		writeCount(h, len(u.extra[k]))
		writeParts(h, u.extra[k]...)
	}
	return userKey(h.Sum(nil))
}

func writeParts(h hash.Hash, parts ...string) {
	for _, p := range parts {
		writeCount(h, len(p))
		_, _ = h.Write([]byte(p)) // a hash takes everything
	}
}

func writeCount(h hash.Hash, n int) {
	_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(n)))
}

type callerKey struct{}

type caller struct {
	user  *User
	token Token
}

// NewContext returns a context that carries the caller of a request.
func NewContext(ctx context.Context, user *User, token Token) context.Context {
	return context.WithValue(ctx, callerKey{}, caller{user, token})
}

// FromContext returns the caller that [Reviewer.Middleware] has put into the context. Without
// one, ok is false and the request must not be answered.
func FromContext(ctx context.Context) (user *User, token Token, ok bool) {
	c, ok := ctx.Value(callerKey{}).(caller)
	return c.user, c.token, ok && c.user != nil
}

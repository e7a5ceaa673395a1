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
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
)

// User is the user of a token, as returned by the API server. It is immutable because requests share it.
type User struct {
	name, uid string
	groups    []string
	extra     map[string]authorizationv1.ExtraValue
	key       userKey
}

// userKey is equal for users that no authorizer can tell apart.
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

// Name returns the user name as in the audit log of the API server.
func (u *User) Name() string { return u.name }

// Tenant returns the group of users that share the limits of the center: one user, or all ServiceAccounts of a
// namespace, because a user who can create one can create many.
func (u *User) Tenant() string {
	if namespace, _, err := serviceaccount.SplitUsername(u.name); err == nil {
		return "namespace " + namespace
	}
	return "user " + u.name
}

// UID returns the UID, or "" for users without a UID.
func (u *User) UID() string { return u.uid }

// Groups returns a copy of the groups.
func (u *User) Groups() []string { return slices.Clone(u.groups) }

// makeKey writes the length before each part. Without lengths, two different users could have the same key,
// for example by the choice of a group name.
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
		_, _ = h.Write([]byte(p)) // never fails
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

// FromContext returns the caller that [Reviewer.Middleware] added to the context. If ok is false, the request
// must be rejected.
func FromContext(ctx context.Context) (user *User, token Token, ok bool) {
	c, ok := ctx.Value(callerKey{}).(caller)
	return c.user, c.token, ok && c.user != nil
}

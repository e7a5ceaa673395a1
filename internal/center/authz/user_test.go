package authz_test

import (
	"slices"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/holdfast-dev/holdfast/internal/center/authz"
)

func TestOnlyEqualUsersShareReviews(t *testing.T) {
	type info = authenticationv1.UserInfo
	extra := func(kv ...string) map[string]authenticationv1.ExtraValue {
		m := map[string]authenticationv1.ExtraValue{}
		for i := 0; i < len(kv); i += 2 {
			m[kv[i]] = append(m[kv[i]], kv[i+1])
		}
		return m
	}
	cases := map[string]struct {
		a, b info
		want bool
	}{
		"equal":                     {info{Username: "a", Groups: []string{"x", "y"}}, info{Username: "a", Groups: []string{"x", "y"}}, true},
		"different order of groups": {info{Username: "a", Groups: []string{"x", "y"}}, info{Username: "a", Groups: []string{"y", "x"}}, true},
		"different name":            {info{Username: "a"}, info{Username: "b"}, false},
		"different uid":             {info{Username: "a", UID: "1"}, info{Username: "a", UID: "2"}, false},
		"additional group":          {info{Username: "a"}, info{Username: "a", Groups: []string{"x"}}, false},
		"name and uid concatenated": {info{Username: "ab", UID: "c"}, info{Username: "a", UID: "bc"}, false},
		"groups concatenated":       {info{Groups: []string{"ab"}}, info{Groups: []string{"a", "b"}}, false},
		"groups like extra":         {info{Groups: []string{"k", "v"}}, info{Extra: extra("k", "v")}, false},
		"different extra":           {info{Extra: extra("k", "v")}, info{Extra: extra("k", "w")}, false},
		"extra with two values":     {info{Extra: extra("k", "v", "k", "w")}, info{Extra: extra("k", "v", "w", "")}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := authz.SameUser(authz.NewUser(tc.a), authz.NewUser(tc.b)); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}

func TestUserIsImmutable(t *testing.T) {
	info := authenticationv1.UserInfo{Username: "a", Groups: []string{"x"}}
	u := authz.NewUser(info)
	info.Groups[0] = "system:masters"
	u.Groups()[0] = "system:masters"
	if got := u.Groups()[0]; got != "x" {
		t.Errorf("got group %q", got)
	}
}

func TestTenantOfUser(t *testing.T) {
	var got []string
	for _, name := range []string{"alice", "system:serviceaccount:shop:robot", "system:serviceaccount:shop:viewer", "system:serviceaccount:shop", "system:node:a"} {
		got = append(got, authz.NewUser(authenticationv1.UserInfo{Username: name}).Tenant())
	}
	if want := []string{"user alice", "namespace shop", "namespace shop", "user system:serviceaccount:shop", "user system:node:a"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

package actions

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/holdfast-dev/holdfast/internal/application"
)

func TestToError(t *testing.T) {
	stacks := schema.GroupResource{Group: "apps.holdfast.dev", Resource: "appstacks"}
	kind := schema.GroupKind{Group: "apps.holdfast.dev", Kind: "AppStack"}
	meanwhile := application.UserErrorf("it was changed; look")
	meanwhile.Conflict = true
	cases := map[string]struct {
		err    error
		reason Reason
		status int
		want   string
	}{
		"gone": {apierrors.NewNotFound(stacks, "shop"), NotFound, 404,
			`restart AppStack prod/shop: appstacks.apps.holdfast.dev "shop" not found; it may be gone by now, so look at what there is again`},
		"forbidden": {apierrors.NewForbidden(stacks, "shop", errors.New("User cannot update")), Forbidden, 403,
			`restart AppStack prod/shop: appstacks.apps.holdfast.dev "shop" is forbidden: User cannot update; ask an administrator of namespace prod for this right, or use another token`},
		"forbidden by a policy that says what to do": {apierrors.NewForbidden(stacks, "shop", errors.New("you may not create pods; ask for it")), Forbidden, 403,
			`restart AppStack prod/shop: appstacks.apps.holdfast.dev "shop" is forbidden: you may not create pods; ask for it`},
		"conflict": {apierrors.NewConflict(stacks, "shop", errors.New("modified")), Conflict, 409,
			"restart AppStack prod/shop: somebody else was faster, so nothing was done; look at it, and try again"},
		"changed meanwhile": {fmt.Errorf("x: %w", meanwhile), Conflict, 409, "it was changed; look"},
		"refused":           {application.UserErrorf("no; use --flag").WithNonCLIMessage("no; do that"), Invalid, 422, "no; do that"},
		"an object is quoted": {apierrors.NewInvalid(kind, "shop", field.ErrorList{
			field.Invalid(field.NewPath("spec", "env"), map[string]any{"name": "MODE", "value": "canary"}, "too long"),
			field.Invalid(field.NewPath("spec", "word"), `can"ary`, "is no word"), field.Invalid(field.NewPath("spec", "replicas"), -1, "is negative")}), Invalid, 422,
			"restart AppStack prod/shop: the API server does not take it: spec.env: Invalid value: (hidden): too long, spec.word: Invalid value: (hidden): is no word, " +
				"spec.replicas: Invalid value: -1: is negative; correct the spec: kubectl edit appstack shop -n prod"},
		"expired": {apierrors.NewUnauthorized("token expired canary"), Unauthenticated, 401,
			"restart AppStack prod/shop: the API server does not accept the token any more; get a new one"},
		"slow": {context.DeadlineExceeded, Unavailable, 503,
			"restart AppStack prod/shop: the API server did not answer (timeout); it may be done or not, so look at it before you try again"},
		"away": {errors.New("dial tcp 10.0.0.1:443: canary"), Unavailable, 503,
			"restart AppStack prod/shop: the API server did not answer (it cannot be reached); it may be done or not, so look at it before you try again"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := toError(opRestart, Ref{"AppStack", "prod", "shop"}, tc.err)
			var got *Error
			if !errors.As(err, &got) || got.Reason != tc.reason || got.HTTPStatus() != tc.status || got.Message != tc.want {
				t.Errorf("got  %v\nwant %s %s", err, tc.reason, tc.want)
			}
			if strings.Contains(err.Error(), "canary") || errors.Unwrap(err) != nil {
				t.Errorf("it gives away what is behind it: %v", err)
			}
		})
	}
	if err := toError(opRestart, Ref{}, fmt.Errorf("x: %w", context.Canceled)); err != context.Canceled { //nolint:errorlint // it must be itself
		t.Errorf("got %v", err)
	}
	if toError(opRestart, Ref{}, nil) != nil {
		t.Error("no error became one")
	}
}

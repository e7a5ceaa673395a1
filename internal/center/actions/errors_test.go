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

	"github.com/holdfast-dev/holdfast/internal/appkind"
)

func TestToError(t *testing.T) {
	stacks := schema.GroupResource{Group: "apps.holdfast.dev", Resource: "appstacks"}
	kind := schema.GroupKind{Group: "apps.holdfast.dev", Kind: "AppStack"}
	meanwhile := appkind.UserErrorf("it has changed; reload")
	meanwhile.Conflict = true
	cases := map[string]struct {
		err    error
		reason Reason
		status int
		want   string
	}{
		"not found": {apierrors.NewNotFound(stacks, "shop"), NotFound, 404,
			`restart AppStack prod/shop: appstacks.apps.holdfast.dev "shop" not found; it may have been deleted, so reload the list`},
		"forbidden": {apierrors.NewForbidden(stacks, "shop", errors.New("User cannot update")), Forbidden, 403,
			`restart AppStack prod/shop: appstacks.apps.holdfast.dev "shop" is forbidden: User cannot update; ask an administrator of namespace prod for this permission, or use another token`},
		"forbidden by a policy with a next step": {apierrors.NewForbidden(stacks, "shop",
			errors.New("you are not allowed to create pods; ask for permission")), Forbidden, 403,
			`restart AppStack prod/shop: appstacks.apps.holdfast.dev "shop" is forbidden: you are not allowed to create pods; ask for permission`},
		"conflict": {apierrors.NewConflict(stacks, "shop", errors.New("modified")), Conflict, 409,
			"restart AppStack prod/shop: the object was changed by another client and nothing was written; reload it and try again"},
		"user error with conflict": {fmt.Errorf("x: %w", meanwhile), Conflict, 409, "it has changed; reload"},
		"user error": {appkind.UserErrorf("invalid; use --flag").WithNonCLIMessage("invalid; set the field"), Invalid, 422,
			"invalid; set the field"},
		"quoted object": {apierrors.NewInvalid(kind, "shop", field.ErrorList{
			field.Invalid(field.NewPath("spec", "env"), map[string]any{"name": "MODE", "value": "canary"}, "too long"),
			field.Invalid(field.NewPath("spec", "word"), `can"ary`, "is no word"), field.Invalid(field.NewPath("spec", "replicas"), -1, "is negative")}), Invalid, 422,
			"restart AppStack prod/shop: the API server rejected the change: spec.env: Invalid value: (hidden): too long, spec.word: Invalid value: (hidden): is no word, " +
				"spec.replicas: Invalid value: -1: is negative; correct the spec: kubectl edit appstack shop -n prod"},
		"expired token": {apierrors.NewUnauthorized("token expired canary"), Unauthenticated, 401,
			"restart AppStack prod/shop: the API server no longer accepts the token; get a new one"},
		"timeout": {context.DeadlineExceeded, Unavailable, 503,
			"restart AppStack prod/shop: the API server did not respond (timeout); the change may have been applied, so check the object before you try again"},
		"connection refused": {errors.New("dial tcp 10.0.0.1:443: canary"), Unavailable, 503,
			"restart AppStack prod/shop: the API server did not respond (connection failed); the change may have been applied, so check the object before you try again"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := toError(opRestart, Ref{"AppStack", "prod", "shop"}, tc.err)
			var got *Error
			if !errors.As(err, &got) || got.Reason != tc.reason || got.HTTPStatus() != tc.status || got.Message != tc.want {
				t.Errorf("got  %v\nwant %s %s", err, tc.reason, tc.want)
			}
			if strings.Contains(err.Error(), "canary") || errors.Unwrap(err) != nil {
				t.Errorf("the error exposes its cause: %v", err)
			}
		})
	}
	if err := toError(opRestart, Ref{}, fmt.Errorf("x: %w", context.Canceled)); err != context.Canceled { //nolint:errorlint // not wrapped
		t.Errorf("got %v", err)
	}
	if toError(opRestart, Ref{}, nil) != nil {
		t.Error("nil became an error")
	}
}

package authz_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/center/authz"
)

func TestParseHeader(t *testing.T) {
	cases := map[string]struct {
		values  []string
		wantErr string // empty: the token is abc.def
	}{
		"valid":                 {values: []string{"Bearer abc.def"}},
		"lowercase scheme":      {values: []string{"bearer abc.def"}},
		"additional spaces":     {values: []string{"Bearer   abc.def  "}},
		"no header":             {wantErr: "no Authorization header"},
		"two headers":           {values: []string{"Bearer abc.def", "Bearer abc.def"}, wantErr: "more than one"},
		"empty header":          {values: []string{""}, wantErr: "is not Bearer"},
		"basic":                 {values: []string{"Basic YWJjOmRlZg=="}, wantErr: "is not Bearer"},
		"only the scheme":       {values: []string{"Bearer"}, wantErr: "bearer token is empty"},
		"scheme and spaces":     {values: []string{"Bearer   "}, wantErr: "bearer token is empty"},
		"no scheme":             {values: []string{"abc.def"}, wantErr: "is not Bearer"},
		"longer scheme":         {values: []string{"Bearerx abc.def"}, wantErr: "is not Bearer"},
		"tab separator":         {values: []string{"Bearer\tabc.def"}, wantErr: "is not Bearer"},
		"two tokens":            {values: []string{"Bearer abc.def ghi"}, wantErr: "invalid characters"},
		"two tokens with comma": {values: []string{"Bearer abc,Bearer def"}, wantErr: "invalid characters"},
		"line break":            {values: []string{"Bearer abc\r\nX: y"}, wantErr: "invalid characters"},
		"not ASCII":             {values: []string{"Bearer abcdéf"}, wantErr: "invalid characters"},
		"only padding":          {values: []string{"Bearer ==="}, wantErr: "invalid characters"},
		"padding in the middle": {values: []string{"Bearer a=b"}, wantErr: "invalid characters"},
		"too long":              {values: []string{"Bearer " + strings.Repeat("a", 32<<10+1)}, wantErr: "longer than 32768"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			token, err := authz.ParseHeader(tc.values)
			if tc.wantErr == "" {
				if err != nil || authz.Reveal(token) != "abc.def" {
					t.Fatalf("got %q, %v", authz.Reveal(token), err)
				}
				return
			}
			if !errors.Is(err, authz.ErrNoToken) || !strings.Contains(err.Error(), tc.wantErr) {
				t.Errorf("got %v, want ErrNoToken with %q", err, tc.wantErr)
			}
			if !token.IsEmpty() {
				t.Error("got a token and an error")
			}
			if !strings.Contains(err.Error(), "kubectl create token") {
				t.Errorf("the message does not contain the next step: %v", err)
			}
		})
	}
}

func FuzzParseHeader(f *testing.F) {
	for _, seed := range []string{"Bearer abc", "bearer  a.b.c==", "Basic x", "", "Bearer", "Bearer a b", "Bearer \x00", "BEARER ~+/-._"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		token, err := authz.ParseHeader([]string{value})
		text := authz.Reveal(token)
		if err != nil {
			if text != "" || !errors.Is(err, authz.ErrNoToken) {
				t.Fatalf("%q: got token %q and error %v", value, text, err)
			}
			if _, rest, _ := strings.Cut(value, " "); len(rest) > 12 && strings.Contains(err.Error(), rest) {
				t.Fatalf("%q: the error contains the token: %v", value, err)
			}
			return
		}
		if text == "" || len(text) > 32<<10 || !strings.HasSuffix(strings.TrimRight(value, " "), text) {
			t.Fatalf("%q: token %q", value, text)
		}
		for _, c := range []byte(text) {
			if c <= ' ' || c >= 0x7f || c == ',' || c == '"' || c == ';' {
				t.Fatalf("%q: token %q contains %q", value, text, c)
			}
		}
		again, err := authz.ParseHeader([]string{"Bearer " + text})
		if err != nil || authz.Reveal(again) != text {
			t.Fatalf("%q: sent again it is %q, %v", value, authz.Reveal(again), err)
		}
	})
}

func TestTokenIsNotPrinted(t *testing.T) {
	const canary = "canary-0123456789"
	token := authz.NewToken(canary)
	type holder struct {
		Token  authz.Token
		hidden authz.Token
		Header http.Header
	}
	values := map[string]any{
		"token": token, "pointer": &token, "slice": []authz.Token{token},
		"struct": holder{Token: token, hidden: token}, "map": map[string]authz.Token{"a": token},
	}
	for name, v := range values {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			if got := fmt.Sprintf(verb, v); strings.Contains(got, canary) || strings.Contains(got, fmt.Sprintf("%x", canary)) {
				t.Errorf("%s of a %s: %s", verb, name, got)
			}
		}
		if got, err := json.Marshal(v); err != nil || strings.Contains(string(got), canary) {
			t.Errorf("JSON of a %s: %s, %v", name, got, err)
		}
	}
	if got := fmt.Sprint(token); got != "[token]" {
		t.Errorf("got %q", got)
	}
}

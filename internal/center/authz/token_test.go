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
		"as everybody sends it": {values: []string{"Bearer abc.def"}},
		"scheme in small":       {values: []string{"bearer abc.def"}},
		"more spaces":           {values: []string{"Bearer   abc.def  "}},
		"no header":             {wantErr: "no header Authorization"},
		"two headers":           {values: []string{"Bearer abc.def", "Bearer abc.def"}, wantErr: "more than one"},
		"empty header":          {values: []string{""}, wantErr: "not of the kind Bearer"},
		"basic":                 {values: []string{"Basic YWJjOmRlZg=="}, wantErr: "not of the kind Bearer"},
		"scheme alone":          {values: []string{"Bearer"}, wantErr: "nothing follows"},
		"scheme and spaces":     {values: []string{"Bearer   "}, wantErr: "nothing follows"},
		"no scheme":             {values: []string{"abc.def"}, wantErr: "not of the kind Bearer"},
		"longer scheme":         {values: []string{"Bearerx abc.def"}, wantErr: "not of the kind Bearer"},
		"tab between":           {values: []string{"Bearer\tabc.def"}, wantErr: "not of the kind Bearer"},
		"two tokens":            {values: []string{"Bearer abc.def ghi"}, wantErr: "characters that no token has"},
		"two tokens by comma":   {values: []string{"Bearer abc,Bearer def"}, wantErr: "characters that no token has"},
		"a line break":          {values: []string{"Bearer abc\r\nX: y"}, wantErr: "characters that no token has"},
		"beyond ASCII":          {values: []string{"Bearer abcdéf"}, wantErr: "characters that no token has"},
		"padding alone":         {values: []string{"Bearer ==="}, wantErr: "characters that no token has"},
		"padding in the middle": {values: []string{"Bearer a=b"}, wantErr: "characters that no token has"},
		"longer than any token": {values: []string{"Bearer " + strings.Repeat("a", 32<<10+1)}, wantErr: "longer than 32768"},
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
				t.Error("there is a token beside the error")
			}
			if !strings.Contains(err.Error(), "kubectl create token") {
				t.Errorf("the message does not say what to do: %v", err)
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
				t.Fatalf("%q: token %q beside error %v", value, text, err)
			}
			if _, rest, _ := strings.Cut(value, " "); len(rest) > 12 && strings.Contains(err.Error(), rest) {
				t.Fatalf("%q: the error repeats it: %v", value, err)
			}
			return
		}
		if text == "" || len(text) > 32<<10 || !strings.HasSuffix(strings.TrimRight(value, " "), text) {
			t.Fatalf("%q: token %q", value, text)
		}
		for _, c := range []byte(text) {
			if c <= ' ' || c >= 0x7f || c == ',' || c == '"' || c == ';' {
				t.Fatalf("%q: token %q has %q", value, text, c)
			}
		}
		again, err := authz.ParseHeader([]string{"Bearer " + text})
		if err != nil || authz.Reveal(again) != text {
			t.Fatalf("%q: sent on it is %q, %v", value, authz.Reveal(again), err)
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

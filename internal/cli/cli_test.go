package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestTablePrint(t *testing.T) {
	table := Table{Columns: []string{"NAME", "READY", "WHY"}, Rows: [][]string{
		{"shop", "1/2", "Image \"shop/web:9\" does not exist in its registry"}, {"a-longer-name", "2/2", ""}}}
	cases := map[string]struct {
		width           int
		noHeaders       bool
		stackLastColumn bool
		want            string
	}{
		"any width": {want: "NAME           READY  WHY\nshop           1/2    Image \"shop/web:9\" does not exist in its registry\na-longer-name  2/2\n"},
		"narrow": {width: 50, want: "NAME           READY  WHY\nshop           1/2    Image \"shop/web:9\" does not\n" +
			"                      exist in its registry\na-longer-name  2/2\n"},
		"last column inline": {width: 50, stackLastColumn: true, want: "NAME           READY  WHY\nshop           1/2    Image \"shop/web:9\" does not\n" +
			"                      exist in its registry\na-longer-name  2/2\n"},
		"last column stacked": {width: 40, stackLastColumn: true, want: "NAME           READY\nshop           1/2\n    Image \"shop/web:9\" does not exist in\n    its registry\na-longer-name  2/2\n"},
		"no headers":          {noHeaders: true, want: "shop           1/2  Image \"shop/web:9\" does not exist in its registry\na-longer-name  2/2\n"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			table.NoHeaders, table.StackLastColumn = tc.noHeaders, tc.stackLastColumn
			table.Print(Terminal{Writer: &out, Width: tc.width})
			if out.String() != tc.want {
				t.Errorf("got\n%s\nwant\n%s", out.String(), tc.want)
			}
		})
	}
}

func TestParseApplicationArgs(t *testing.T) {
	cases := map[string]struct {
		args       []string
		kind, name string
		wantErr    bool
	}{
		"name":            {args: []string{"shop"}, name: "shop"},
		"short KIND NAME": {args: []string{"as", "shop"}, kind: "as", name: "shop"},
		"KIND NAME":       {args: []string{"appstack", "shop"}, kind: "appstack", name: "shop"},
		"KIND/NAME":       {args: []string{"AppSvc/web"}, kind: "AppSvc", name: "web"},
		"KIND.GROUP/NAME": {args: []string{"cloudmanagers.apps.holdfast.dev/cm"}, kind: "cloudmanagers.apps.holdfast.dev", name: "cm"},
		"no arguments":    {wantErr: true},
		"three arguments": {args: []string{"a", "b", "c"}, wantErr: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			kind, name, err := parseApplicationArgs(tc.args)
			if (err != nil) != tc.wantErr || err == nil && (kind != tc.kind || name != tc.name) {
				t.Errorf("got %q %q %v", kind, name, err)
			}
		})
	}
}

func TestOutputPrint(t *testing.T) {
	value := struct {
		Header `json:",inline"`
		Items  []string `json:"items"`
		Count  int      `json:"count"`
	}{NewHeader("List"), []string{"a", "b"}, 12345678}
	file := filepath.Join(t.TempDir(), "template")
	if err := os.WriteFile(file, []byte("{.items[1]}"), 0o600); err != nil {
		t.Fatal(err)
	}
	cases := map[string]string{
		FormatYAML:                                 "apiVersion: cli.holdfast.dev/v1alpha1\ncount: 12345678\nitems:\n- a\n- b\nkind: List\n",
		"jsonpath={.items[*]}":                     "a b\n",
		"jsonpath=.kind":                           "List\n",
		"jsonpath=kind":                            "List\n",
		"jsonpath=kind {.kind}":                    "kind List\n",
		"jsonpath={.count}":                        "12345678\n",
		`jsonpath={range .items[*]}{@}{"\n"}{end}`: "a\nb\n",
		"jsonpath-as-json={.kind}":                 "[\n    \"List\"\n]\n",
		"jsonpath-file=" + file:                    "b\n",
	}
	for format, want := range cases {
		var out bytes.Buffer
		if err := (&Output{Format: format}).Print(&out, value); err != nil || out.String() != want {
			t.Errorf("-o %s: got %q, %v, want %q", format, out.String(), err, want)
		}
	}
	for _, format := range []string{"jsonpath={.items[0].x}", "jsonpath={.x}"} {
		var out bytes.Buffer
		err := (&Output{Format: format}).Print(&out, value)
		if err == nil || out.Len() > 0 || strings.Contains(err.Error(), "12345678") || !strings.HasSuffix(err.Error(), "-o json shows the available fields") {
			t.Errorf("-o %s: got %q, %v, want an error without the object", format, out.String(), err)
		}
	}
}

func TestOutputValidate(t *testing.T) {
	cases := map[string]string{ // format: part of the error
		"table": "", "json": "", "jsonpath={.kind}": "",
		"wide":                   "use one of: table, json, jsonpath=, jsonpath-as-json=, jsonpath-file=",
		"custom-columns=NAME:.x": "is not supported",
		"jsonpath":               "no template given",
		"jsonpath=":              "no template given",
		"jsonpath={.kind":        "unclosed action",
		"jsonpath-file=missing":  "no such file",
	}
	for format, want := range cases {
		var o Output
		o.AddFlag(pflag.NewFlagSet("", pflag.ContinueOnError), FormatTable, FormatJSON, FormatJSONPath)
		o.Format = format
		if err := o.Validate(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("-o %s: got %v, want %q", format, err, want)
		}
	}
	without := Output{Format: "jsonpath={.kind}", allowed: []string{FormatTable, FormatJSON}}
	if err := without.Validate(); err == nil {
		t.Error("jsonpath is accepted although the command does not support it")
	}
}

func TestExitCode(t *testing.T) {
	for err, want := range map[error]int{nil: 0, errors.New("x"): 1, fmt.Errorf("shop: %w", ErrNotReady): 2} {
		if got := ExitCode(err); got != want {
			t.Errorf("%v: got %d, want %d", err, got, want)
		}
	}
}

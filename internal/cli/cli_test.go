package cli

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
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
		"room enough beside": {width: 50, stackLastColumn: true, want: "NAME           READY  WHY\nshop           1/2    Image \"shop/web:9\" does not\n" +
			"                      exist in its registry\na-longer-name  2/2\n"},
		"below":      {width: 40, stackLastColumn: true, want: "NAME           READY\nshop           1/2\n    Image \"shop/web:9\" does not exist in\n    its registry\na-longer-name  2/2\n"},
		"no headers": {noHeaders: true, want: "shop           1/2  Image \"shop/web:9\" does not exist in its registry\na-longer-name  2/2\n"},
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
		"a name":            {args: []string{"shop"}, name: "shop"},
		"kind and name":     {args: []string{"appstack", "shop"}, kind: "AppStack", name: "shop"},
		"with a slash":      {args: []string{"AppSvc/web"}, kind: "AppService", name: "web"},
		"with the group":    {args: []string{"cloudmanagers.apps.holdfast.dev/cm"}, kind: "CloudManager", name: "cm"},
		"nothing":           {wantErr: true},
		"a kind not ours":   {args: []string{"deployment/web"}, wantErr: true},
		"too many of them":  {args: []string{"a", "b", "c"}, wantErr: true},
		"two without kinds": {args: []string{"a", "b"}, wantErr: true},
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
	}{NewHeader("List"), []string{"a", "b"}}
	cases := map[string]string{
		FormatYAML:                       "apiVersion: cli.holdfast.dev/v1alpha1\nitems:\n- a\n- b\nkind: List\n",
		FormatJSONPath + "{.items[*]}":   "a b\n",
		FormatJSONPath + ".kind":         "List\n",
		FormatJSONPath + "{.items[0].x}": "",
	}
	for format, want := range cases {
		var out bytes.Buffer
		err := (&Output{Format: format}).Print(&out, value)
		if out.String() != want || (err != nil) != (want == "") {
			t.Errorf("-o %s: got %q, %v, want %q", format, out.String(), err, want)
		}
	}
}

func TestExitCode(t *testing.T) {
	for err, want := range map[error]int{nil: 0, errors.New("x"): 1, fmt.Errorf("shop: %w", ErrNotReady): 2} {
		if got := ExitCode(err); got != want {
			t.Errorf("%v: got %d, want %d", err, got, want)
		}
	}
}

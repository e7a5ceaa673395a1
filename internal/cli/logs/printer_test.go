package logs

import (
	"bytes"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/logs"
)

func TestPrinter(t *testing.T) {
	line := logs.Line{Pod: "shop-job-a", Time: "2026-01-02T03:04:01.5Z", Text: "one", Prefix: "web/a app"}
	cases := map[string]struct {
		color, timestamps bool
		line              logs.Line
		want              string
	}{
		"plain":                    {line: line, want: "web/a app  one\n"},
		"color":                    {color: true, line: line, want: "\x1b[94mweb/a app\x1b[0m  one\n"},
		"timestamp":                {timestamps: true, line: line, want: "web/a app  2026-01-02T03:04:01.5Z one\n"},
		"line without a timestamp": {timestamps: true, line: logs.Line{Text: "cut", Prefix: "web/a app"}, want: "web/a app  cut\n"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			p := &printer{out: cli.Terminal{Writer: &out, Color: tc.color}, timestamps: tc.timestamps, stopProgress: func() {}}
			if err := p.WriteLine(tc.line); err != nil || out.String() != tc.want {
				t.Errorf("got %q, %v; want %q", out.String(), err, tc.want)
			}
		})
	}
}

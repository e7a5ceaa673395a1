package cli

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/internal/testutil/golden"
)

func TestProgressIsPrintedAfterDelay(t *testing.T) {
	cases := map[time.Duration]string{
		time.Second:      "",
		3 * time.Second:  "Reading objects (2s) ...\n",
		63 * time.Second: "Reading objects (2s) ...\nReading objects (12s) ...\nReading objects (22s) ...\nReading objects (32s) ...\nReading objects (42s) ...\nReading objects (52s) ...\nReading objects (1m2s) ...\n",
	}
	for duration, want := range cases {
		t.Run(duration.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out bytes.Buffer
				done := Progress(&out, "Reading objects")
				time.Sleep(duration)
				done()
				if out.String() != want {
					t.Errorf("got %q, want %q", out.String(), want)
				}
				out.WriteString("It is ready\n")
				if rest := golden.StripProgress(out.String()); rest != "It is ready\n" {
					t.Errorf("output without progress: got %q", rest)
				}
			})
		})
	}
}

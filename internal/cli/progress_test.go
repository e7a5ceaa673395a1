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
		3 * time.Second:  "Looking at it (2s) ...\n",
		63 * time.Second: "Looking at it (2s) ...\nLooking at it (12s) ...\nLooking at it (22s) ...\nLooking at it (32s) ...\nLooking at it (42s) ...\nLooking at it (52s) ...\nLooking at it (1m2s) ...\n",
	}
	for duration, want := range cases {
		t.Run(duration.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out bytes.Buffer
				done := Progress(&out, "Looking at it")
				time.Sleep(duration)
				done()
				if out.String() != want {
					t.Errorf("said %q, want %q", out.String(), want)
				}
				out.WriteString("It is ready\n")
				if rest := golden.StripProgress(out.String()); rest != "It is ready\n" {
					t.Errorf("without progress there is still %q", rest)
				}
			})
		})
	}
}

package cli

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/internal/testutil/golden"
)

func TestProgress(t *testing.T) {
	cases := map[time.Duration]string{
		time.Second:      "",
		3 * time.Second:  "Looking at it (2s) ...\n",
		63 * time.Second: "Looking at it (2s) ...\nLooking at it (12s) ...\nLooking at it (22s) ...\nLooking at it (32s) ...\nLooking at it (42s) ...\nLooking at it (52s) ...\nLooking at it (1m2s) ...\n",
	}
	for takes, want := range cases {
		t.Run(takes.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var said bytes.Buffer
				done := Progress(&said, "Looking at it")
				time.Sleep(takes)
				done()
				if said.String() != want {
					t.Errorf("said %q, want %q", said.String(), want)
				}
				said.WriteString("It is ready\n")
				if answer := golden.WithoutProgress(said.String()); answer != "It is ready\n" {
					t.Errorf("without progress there is still %q", answer)
				}
			})
		})
	}
}

package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// IsInteractive says whether a person sits at an input.
func (e *Env) IsInteractive(in io.Reader) bool {
	if e.Interactive != nil {
		return e.Interactive(in)
	}
	f, ok := in.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// ErrNotConfirmed is the answer no.
var ErrNotConfirmed = errors.New("not confirmed, so nothing was changed; answer y, or give --yes")

// Confirm asks a person, on out: what is printed elsewhere may be read by a program.
func Confirm(in io.Reader, out io.Writer, question string) error {
	fmt.Fprintf(out, "%s [y/N] ", question)
	answer, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the answer: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return ErrNotConfirmed
}

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

// IsInteractive reports whether the input is a terminal, so that the user can answer questions.
func (e *Env) IsInteractive(in io.Reader) bool {
	if e.Interactive != nil {
		return e.Interactive(in)
	}
	f, ok := in.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// ErrNotConfirmed is returned if the user does not answer yes.
var ErrNotConfirmed = errors.New("not confirmed, nothing was changed; answer y or use --yes")

// Confirm asks the user for confirmation. The question goes to out, usually standard error, so that
// standard output stays usable in scripts.
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

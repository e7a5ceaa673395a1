package look

import (
	"github.com/holdfast-dev/holdfast/internal/answer"
	"github.com/holdfast-dev/holdfast/internal/cli"
)

// Answer is a look for programs.
type Answer struct {
	cli.Header         `json:",inline"`
	answer.Application `json:",inline"`
	// Missed is what could not be read.
	Missed []string `json:"missed,omitempty"`
}

// Answer is the look for programs, as an answer of a kind.
func (l Look) Answer(kind string) Answer {
	return Answer{Header: cli.NewHeader(kind), Application: answer.Of(l.View, nil), Missed: l.Missed}
}

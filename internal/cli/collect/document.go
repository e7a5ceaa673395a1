package collect

import (
	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/inspect/wire"
)

// Document is a look for programs.
type Document struct {
	cli.Header       `json:",inline"`
	wire.Application `json:",inline"`
	// Unread is what could not be read.
	Unread []string `json:"missed,omitempty"`
}

// Document is the look for programs, as an answer of a kind.
func (l Result) Document(kind string) Document {
	return Document{Header: cli.NewHeader(kind), Application: wire.NewApplication(l.View, nil), Unread: l.Unread}
}

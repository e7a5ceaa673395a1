package collect

import (
	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/inspect/wire"
)

// Document is the machine-readable form of a Result.
type Document struct {
	cli.Header       `json:",inline"`
	wire.Application `json:",inline"`
	// Unread lists the objects that could not be read.
	Unread []string `json:"unread,omitempty"`
}

// Document returns the result as a document of the given kind.
func (l Result) Document(kind string) Document {
	return Document{Header: cli.NewHeader(kind), Application: wire.NewApplication(l.View, nil), Unread: l.Unread}
}

package datamatrix

import (
	"testing"

	"github.com/holdfast-dev/holdfast/internal/testutil/stage"
)

func quotesWhatIsSaid(t *testing.T, s *stage.Stage) { _ = s; t.Skip() }

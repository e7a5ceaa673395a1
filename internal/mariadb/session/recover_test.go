package session

import (
	"strings"
	"testing"
)

// A panic of the driver ends the login or the query, not the operator.
func TestDriverPanicIsAnError(t *testing.T) {
	s := &Session{}
	err := s.callDriver("log in", func() error { panic("index out of range") })
	if err == nil || !strings.Contains(err.Error(), "log in: it sent a malformed packet: index out of range") {
		t.Errorf("got %v", err)
	}
}

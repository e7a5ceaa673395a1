package session_test

import (
	"context"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/holdfast-dev/holdfast/internal/mariadb"
	"github.com/holdfast-dev/holdfast/internal/mariadb/session"
	"github.com/holdfast-dev/holdfast/internal/testutil/hostiledb"
)

// TestHostileServers uses every function of a session with every hostile server.
func TestHostileServers(t *testing.T) {
	t.Parallel()
	kinds := map[string]session.ErrorKind{
		"error text": session.StatementRejected, "one byte a second": session.Unreachable, "silence": session.Unreachable,
	}
	for mode := range hostiledb.Modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = l.Close() }()
			server := hostiledb.New(mode)
			go server.Serve(l)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			const password = "the password of a test"
			err = use(ctx, session.Login{Address: l.Addr().String(), User: session.Root, Password: password})
			want := session.ProtocolViolation
			if kind, ok := kinds[mode]; ok {
				want = kind
			}
			if got := session.ErrorKindOf(err); got != want {
				t.Fatalf("kind %q, want %q: %v", got, want, err)
			}
			t.Log(err)
			if strings.Contains(err.Error(), password) || strings.ContainsFunc(err.Error(), func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Errorf("the error contains the password or control characters: %q", err)
			}
			if stolen := server.Stolen(); len(stolen) > 0 {
				t.Errorf("the server knows %q", stolen)
			}
			if sent := server.Sent.Load(); sent > 32<<20 {
				t.Errorf("the server sent %d MiB", sent>>20)
			}
		})
	}
}

// use logs in and uses all functions of a session.
func use(ctx context.Context, login session.Login) error {
	s, err := login.Open(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	if _, err := s.Version(ctx); err != nil {
		return err
	}
	if err := s.EnsureAccount(ctx, "app", "app", mariadb.Hash("x")); err != nil {
		return err
	}
	return s.SetPasswords(ctx, "app", mariadb.Hash("x"), mariadb.Hash("y"))
}

// TestHostileServersLeaveNothingBehind counts goroutines: a server is probed for as long as it exists.
func TestHostileServersLeaveNothingBehind(t *testing.T) {
	before := runtime.NumGoroutine()
	for mode := range hostiledb.Modes {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go hostiledb.New(mode).Serve(l)
		for range 20 {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			if err := use(ctx, session.Login{Address: l.Addr().String(), User: session.Root, Password: "x"}); err == nil {
				t.Errorf("%s: no error", mode)
			}
			cancel()
		}
		_ = l.Close()
	}
	deadline := time.Now().Add(10 * time.Second)
	for runtime.NumGoroutine() > before+5 {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, %d before\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
		}
		time.Sleep(10 * time.Millisecond)
	}
}

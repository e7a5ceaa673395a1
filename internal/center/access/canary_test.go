package access_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/klog/v2"

	"github.com/holdfast-dev/holdfast/internal/center/access"
)

// sink is written by several goroutines.
type sink struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *sink) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *sink) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// logEverything sends all that klog has to say to the sink, at the highest verbosity.
func logEverything(t *testing.T, out io.Writer) {
	t.Helper()
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	set := func(name, value string) {
		if err := flags.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	set("v", "10")
	set("logtostderr", "false")
	set("stderrthreshold", "FATAL")
	set("one_output", "true")
	klog.SetOutput(out)
	t.Cleanup(func() {
		klog.Flush()
		klog.SetOutput(os.Stderr)
		set("v", "0")
		set("logtostderr", "true")
	})
}

// The canary goes wherever a token goes, with an API server that repeats it in its errors.
func TestNoTokenIsEverTold(t *testing.T) {
	const canary = "canaryBird0123456789.abcdefghij.klmnopqrst"
	var logged sink
	logEverything(t, &logged)
	var told strings.Builder
	say := func(values ...any) {
		for _, v := range values {
			fmt.Fprintf(&told, "%v\n%+v\n%#v\n", v, v, v)
			for err, _ := v.(error); err != nil; err = errors.Unwrap(err) {
				fmt.Fprintf(&told, "%+v %#v\n", err, err)
			}
		}
	}
	token := access.NewToken(canary)
	failures := map[string]func(*server){
		"fine": func(*server) {},
		"refused": func(s *server) {
			s.token = func(token string) authenticationv1.TokenReviewStatus {
				return authenticationv1.TokenReviewStatus{Error: "bad " + token}
			}
		},
		"broken":    func(s *server) { s.down = status(500, "InternalError") },
		"invalid":   func(s *server) { s.down = status(422, "Invalid") },
		"forbidden": func(s *server) { s.down = status(403, "Forbidden") },
		"no reason": func(s *server) { s.down = status(502, "") },
		"hanging":   func(s *server) { s.hang = make(chan struct{}) },
		"away":      func(s *server) { s.config.Host = "http://127.0.0.1:1" },
		"nonsense":  func(s *server) { s.config.Host += "/%zz" },
	}
	for name, fail := range failures {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.grants("pods/")
			fail(s)
			r, err := access.New(s.config, access.Options{ReviewTimeout: 100 * time.Millisecond, StaleAfter: time.Hour})
			if err != nil {
				say(err)
				return
			}
			user, err := r.Authenticate(t.Context(), token)
			say(user, err, token, &token, r.Stats(), access.NewContext(t.Context(), user, token))
			sight, err := r.Follow(t.Context(), token)
			say(err)
			if err == nil {
				say(sight.Sees(pods("shop")), sight.Err())
				fmt.Fprintf(&told, "%v %+v", struct{ s *access.Sight }{sight}, struct{ t access.Token }{token})
			}
			config, err := r.ConfigFor(token)
			say(err)
			told.WriteString(config.String())
			h := r.Middleware(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				fmt.Fprintf(w, "%v %+v", req.Header, req)
			}))
			for _, header := range []string{"Bearer " + canary, "Basic " + canary, canary, "Bearer " + canary + "\x01", "Bearer " + canary + " " + canary} {
				req := httptest.NewRequest(http.MethodGet, "/", nil)
				req.Header.Set("Authorization", header)
				w := httptest.NewRecorder()
				h.ServeHTTP(w, req)
				fmt.Fprint(&told, w.Header(), w.Body)
			}
		})
	}
	klog.Flush()
	if !strings.Contains(logged.String(), "Could not check a caller") || !strings.Contains(logged.String(), "SubjectAccessReview") {
		t.Errorf("nothing was logged, so this shows nothing: %s", logged.String())
	}
	for what, text := range map[string]string{"an error or answer": told.String(), "the log": logged.String()} {
		for _, form := range []string{
			canary, canary[:12], base64.StdEncoding.EncodeToString([]byte(canary))[:12], hex.EncodeToString([]byte(canary))[:12],
		} {
			if i := strings.Index(text, form); i >= 0 {
				t.Errorf("%s has the token: %s", what, text[max(0, i-300):min(len(text), i+100)])
			}
		}
	}
}

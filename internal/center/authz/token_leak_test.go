package authz_test

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

	"github.com/holdfast-dev/holdfast/internal/center/authz"
)

// syncBuffer is a buffer for concurrent writers.
type syncBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// logEverything sends the output of klog to the sink, at the highest verbosity.
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

// The token is a canary, and the API server repeats it in its errors.
func TestTokenIsNeverLeaked(t *testing.T) {
	const canary = "canaryBird0123456789.abcdefghij.klmnopqrst"
	var logged syncBuffer
	logEverything(t, &logged)
	var output strings.Builder
	record := func(values ...any) {
		for _, v := range values {
			fmt.Fprintf(&output, "%v\n%+v\n%#v\n", v, v, v)
			for err, _ := v.(error); err != nil; err = errors.Unwrap(err) {
				fmt.Fprintf(&output, "%+v %#v\n", err, err)
			}
		}
	}
	token := authz.NewToken(canary)
	failures := map[string]func(*fakeAPIServer){
		"fine": func(*fakeAPIServer) {},
		"refused": func(s *fakeAPIServer) {
			s.reviewToken = func(token string) authenticationv1.TokenReviewStatus {
				return authenticationv1.TokenReviewStatus{Error: "bad " + token}
			}
		},
		"broken":             func(s *fakeAPIServer) { s.down = apiStatus(500, "InternalError") },
		"invalid":            func(s *fakeAPIServer) { s.down = apiStatus(422, "Invalid") },
		"forbidden":          func(s *fakeAPIServer) { s.down = apiStatus(403, "Forbidden") },
		"no reason":          func(s *fakeAPIServer) { s.down = apiStatus(502, "") },
		"hanging":            func(s *fakeAPIServer) { s.hang = make(chan struct{}) },
		"connection refused": func(s *fakeAPIServer) { s.config.Host = "http://127.0.0.1:1" },
		"nonsense":           func(s *fakeAPIServer) { s.config.Host += "/%zz" },
	}
	for name, fail := range failures {
		t.Run(name, func(t *testing.T) {
			s := newFakeAPIServer(t)
			s.grant("pods/")
			fail(s)
			r, err := authz.New(s.config, authz.Options{ReviewTimeout: 100 * time.Millisecond, StaleAfter: time.Hour})
			if err != nil {
				record(err)
				return
			}
			user, err := r.Authenticate(t.Context(), token)
			record(user, err, token, &token, r.Stats(), authz.NewContext(t.Context(), user, token))
			viewer, err := r.StreamViewer(t.Context(), token)
			record(err)
			if err == nil {
				record(viewer.Allows(pods("shop")), viewer.Err())
				fmt.Fprintf(&output, "%v %+v", struct{ s *authz.Viewer }{viewer}, struct{ t authz.Token }{token})
			}
			config, err := r.ConfigFor(token)
			record(err)
			output.WriteString(config.String())
			h := r.Middleware(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				fmt.Fprintf(w, "%v %+v", req.Header, req)
			}))
			for _, header := range []string{"Bearer " + canary, "Basic " + canary, canary, "Bearer " + canary + "\x01", "Bearer " + canary + " " + canary} {
				req := httptest.NewRequest(http.MethodGet, "/", nil)
				req.Header.Set("Authorization", header)
				w := httptest.NewRecorder()
				h.ServeHTTP(w, req)
				fmt.Fprint(&output, w.Header(), w.Body)
			}
		})
	}
	klog.Flush()
	if !strings.Contains(logged.String(), "Could not review the access of a caller") || !strings.Contains(logged.String(),
		"SubjectAccessReview") {
		t.Errorf("nothing was logged, so the test is not meaningful: %s", logged.String())
	}
	for what, text := range map[string]string{"an error or response": output.String(), "the log": logged.String()} {
		for _, form := range []string{
			canary, canary[:12], base64.StdEncoding.EncodeToString([]byte(canary))[:12], hex.EncodeToString([]byte(canary))[:12],
		} {
			if i := strings.Index(text, form); i >= 0 {
				t.Errorf("%s contains the token: %s", what, text[max(0, i-300):min(len(text), i+100)])
			}
		}
	}
}

package act

import (
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

// BenchmarkFor is what a request costs before it asks the API server anything.
func BenchmarkFor(b *testing.B) {
	config := &rest.Config{Host: "https://127.0.0.1:1", BearerToken: "x", TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	callers := NewCallers(clock.RealClock{})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := callers.For(config); err != nil {
			b.Fatal(err)
		}
	}
}

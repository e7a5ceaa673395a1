package actions

import (
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

// BenchmarkCallerForConfig measures the cost of a request before the first call to the API server.
func BenchmarkCallerForConfig(b *testing.B) {
	config := &rest.Config{Host: "https://127.0.0.1:1", BearerToken: "x", TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	callers := NewCallerFactory(clock.RealClock{})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := callers.ForConfig(config); err != nil {
			b.Fatal(err)
		}
	}
}

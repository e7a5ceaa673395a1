// Package transport changes how the operator's HTTP requests behave while the API server is
// unavailable or busy: informers retry at a fixed interval instead of backing off, and events
// never occupy more than a few connections.
package transport

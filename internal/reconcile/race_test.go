//go:build race

package reconcile

// raceDetector is set if the race detector is enabled, which makes tests ten times slower.
const raceDetector = true

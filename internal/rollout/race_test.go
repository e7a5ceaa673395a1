//go:build race

package rollout

// raceDetector makes everything ten times slower.
const raceDetector = true

//go:build race

package engine

// raceDetector makes everything ten times slower.
const raceDetector = true

package model

import "time"

// Queue is how the center keeps up: applications about which something was heard wait to be looked
// at, and looks are what it does with its time.
type Queue struct {
	// Waiting are those that are to be looked at, the oldest of them for so long.
	Waiting       int     `json:"waiting"`
	OldestSeconds float64 `json:"oldestSeconds"`
	// Builds since the start, the time that they took in all, and the longest of them.
	Builds         uint64  `json:"builds"`
	BuildSeconds   float64 `json:"buildSeconds"`
	LongestSeconds float64 `json:"longestSeconds"`
}

// Queue is how it is now.
func (m *Model) Queue() Queue {
	m.mu.RLock()
	defer m.mu.RUnlock()
	q := Queue{Waiting: len(m.dirty) + m.batchRemaining, Builds: m.builds, BuildSeconds: m.buildTime.Seconds(), LongestSeconds: m.longestBuild.Seconds()}
	switch {
	case m.batchRemaining > 0:
		q.OldestSeconds = m.Clock.Since(m.batchQueuedSince).Seconds()
	case q.Waiting > 0:
		q.OldestSeconds = m.Clock.Since(m.oldestQueued).Seconds()
	}
	return q
}

// recordBuild notes that a look was taken. The caller holds the lock.
func (m *Model) recordBuild(took time.Duration) {
	m.builds++
	m.batchRemaining = max(m.batchRemaining-1, 0)
	m.buildTime += took
	m.longestBuild = max(m.longestBuild, took)
}

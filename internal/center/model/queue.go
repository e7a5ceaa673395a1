package model

import "time"

// Queue is the state of the queue of applications whose views must be rebuilt.
type Queue struct {
	// Waiting is the length of the queue. OldestSeconds is the age of its oldest entry.
	Waiting       int     `json:"waiting"`
	OldestSeconds float64 `json:"oldestSeconds"`
	// Builds is the number of builds since the start. BuildSeconds and LongestSeconds are their total and
	// maximum duration.
	Builds         uint64  `json:"builds"`
	BuildSeconds   float64 `json:"buildSeconds"`
	LongestSeconds float64 `json:"longestSeconds"`
}

// Queue returns the current state of the queue.
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

// recordBuild counts a build. The caller holds the lock.
func (m *Model) recordBuild(took time.Duration) {
	m.builds++
	m.batchRemaining = max(m.batchRemaining-1, 0)
	m.buildTime += took
	m.longestBuild = max(m.longestBuild, took)
}

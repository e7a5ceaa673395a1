package model

import "time"

// Queue is how the center keeps up: applications about which something was heard wait to be looked
// at, and looks are what it does with its time.
type Queue struct {
	// Waiting are those that are to be looked at, the oldest of them for so long.
	Waiting       int     `json:"waiting"`
	OldestSeconds float64 `json:"oldestSeconds"`
	// Looks since the start, the time that they took in all, and the longest of them.
	Looks          uint64  `json:"looks"`
	LookSeconds    float64 `json:"lookSeconds"`
	LongestSeconds float64 `json:"longestSeconds"`
}

// Queue is how it is now.
func (m *Model) Queue() Queue {
	m.mu.RLock()
	defer m.mu.RUnlock()
	q := Queue{Waiting: len(m.dirty) + m.left, Looks: m.looks, LookSeconds: m.spent.Seconds(), LongestSeconds: m.longest.Seconds()}
	switch {
	case m.left > 0:
		q.OldestSeconds = m.Clock.Since(m.taken).Seconds()
	case q.Waiting > 0:
		q.OldestSeconds = m.Clock.Since(m.waiting).Seconds()
	}
	return q
}

// looked notes that a look was taken. The caller holds the lock.
func (m *Model) looked(took time.Duration) {
	m.looks++
	m.left = max(m.left-1, 0)
	m.spent += took
	m.longest = max(m.longest, took)
}

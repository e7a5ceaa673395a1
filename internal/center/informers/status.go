package informers

import "time"

// State is how an informer is.
type State string

const (
	// Syncing reads everything for the first time.
	Syncing State = "Syncing"
	// Live hears of every change.
	Live State = "Live"
	// Stale has heard nothing for a while: what it has may be old.
	Stale State = "Stale"
	// Forbidden may not read.
	Forbidden State = "Forbidden"
	// Gone has no resource any more.
	Gone State = "Gone"
)

// Status is an informer as the engine page shows it.
type Status struct {
	Key     Key
	State   State
	Since   time.Time // of the state
	Message string    // why it is not Live
	Objects int
	// ResourceVersion is the newest that was heard of, at Heard.
	ResourceVersion string
	LastUpdate      time.Time
	// Events are how many changes were heard of, Lists how often everything was read, and Cuts
	// how often the stream broke.
	Events, Lists, Disconnects int64
}

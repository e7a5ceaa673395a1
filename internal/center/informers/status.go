package informers

import "time"

// State is the state of an informer.
type State string

const (
	// Syncing means that the initial list is in progress.
	Syncing State = "Syncing"
	// Live means that the informer receives all changes.
	Live State = "Live"
	// Stale means that the watch was interrupted and that objects may be outdated.
	Stale State = "Stale"
	// Forbidden means that the center is not allowed to list or watch the resource.
	Forbidden State = "Forbidden"
	// Gone means that the resource is no longer served.
	Gone State = "Gone"
)

// Status is the status of an informer.
type Status struct {
	Key     Key
	State   State
	Since   time.Time // time of the last change of State
	Message string    // reason if the state is not Live
	Objects int
	// ResourceVersion is the newest resource version, received at LastUpdate.
	ResourceVersion string
	LastUpdate      time.Time
	// Events, Lists and Disconnects count received changes, complete lists and interrupted watches.
	Events, Lists, Disconnects int64
}

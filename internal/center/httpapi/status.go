package httpapi

import (
	"net/http"
	"runtime"
	"time"

	"github.com/holdfast-dev/holdfast/internal/center/authz"
	"github.com/holdfast-dev/holdfast/internal/center/model"
	"github.com/holdfast-dev/holdfast/internal/center/sse"
)

// CenterStatus is the status of the center itself.
type CenterStatus struct {
	Version        string      `json:"version"`
	Started        time.Time   `json:"started"`
	Applications   int         `json:"applications"`
	Informers      []Informer  `json:"informers"`
	Queue          model.Queue `json:"queue"`
	Hub            sse.Stats   `json:"streams"`
	Access         authz.Stats `json:"authz"`
	HistoryEntries int         `json:"history"`
	Goroutines     int         `json:"goroutines"`
	HeapBytes      uint64      `json:"heapBytes"`
}

// Informer is the status of one informer.
type Informer struct {
	Resource        string     `json:"resource"`
	Group           string     `json:"group,omitempty"`
	Version         string     `json:"version"`
	Namespace       string     `json:"namespace,omitempty"`
	State           string     `json:"state"`
	Since           time.Time  `json:"since"`
	Message         string     `json:"message,omitempty"`
	Objects         int        `json:"objects"`
	ResourceVersion string     `json:"resourceVersion,omitempty"`
	LastUpdate      *time.Time `json:"lastEvent,omitempty"`
	Events          int64      `json:"events"`
	Lists           int64      `json:"lists"`
	Disconnects     int64      `json:"disconnects"`
}

// centerStatus serves the status to cluster administrators. Permission to list nodes identifies them.
func (s *Server) centerStatus(w http.ResponseWriter, r *http.Request) {
	v := s.viewer(r)
	nodes := sse.Scope{Resource: "nodes"}
	if err := v.prefetchScopes(r, []sse.Scope{nodes}); err != nil {
		authz.WriteAuthError(w, r, err)
		return
	}
	if !v.allows(nodes) {
		writeError(w, http.StatusForbidden, "Forbidden", "permission to list nodes is required to see the state of the center; ask a cluster administrator for it")
		return
	}
	writeJSON(w, http.StatusOK, s.status())
}

func (s *Server) status() CenterStatus {
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	e := CenterStatus{
		Version: s.Version, Started: s.Started.UTC(), Applications: len(s.Model.All()), Informers: []Informer{}, Queue: s.Model.Queue(), Hub: s.Hub.Stats(),
		Access: s.Reviewer.Stats(), HistoryEntries: s.Activity.Len(), Goroutines: runtime.NumGoroutine(), HeapBytes: mem.HeapAlloc,
	}
	for _, i := range s.Registry.Informers() {
		n := Informer{
			Resource: i.Key.Resource.Resource, Group: i.Key.Resource.Group, Version: i.Key.Resource.Version, Namespace: i.Key.Namespace,
			State: string(i.State), Since: i.Since.UTC(), Message: i.Message, Objects: i.Objects, ResourceVersion: i.ResourceVersion,
			Events: i.Events, Lists: i.Lists, Disconnects: i.Disconnects,
		}
		if !i.LastUpdate.IsZero() {
			n.LastUpdate = new(i.LastUpdate.UTC())
		}
		e.Informers = append(e.Informers, n)
	}
	return e
}

package web

import (
	"net/http"
	"runtime"
	"time"

	"github.com/holdfast-dev/holdfast/internal/center/access"
	"github.com/holdfast-dev/holdfast/internal/center/hub"
	"github.com/holdfast-dev/holdfast/internal/center/model"
)

// Engine is the machinery of the center itself.
type Engine struct {
	Version      string       `json:"version"`
	Started      time.Time    `json:"started"`
	Applications int          `json:"applications"`
	Informers    []Informer   `json:"informers"`
	Queue        model.Queue  `json:"queue"`
	Hub          hub.Stats    `json:"hub"`
	Access       access.Stats `json:"access"`
	History      int          `json:"history"`
	Goroutines   int          `json:"goroutines"`
	HeapBytes    uint64       `json:"heapBytes"`
}

// Informer is one informer as it is now.
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
	Heard           *time.Time `json:"heard,omitempty"`
	Events          int64      `json:"events"`
	Lists           int64      `json:"lists"`
	Cuts            int64      `json:"cuts"`
}

// engine is for those who look after the cluster, who are those that may list its nodes.
func (s *Server) engine(w http.ResponseWriter, r *http.Request) {
	v := s.sight(r)
	nodes := hub.Scope{Resource: "nodes"}
	if err := v.decide(r, []hub.Scope{nodes}); err != nil {
		access.Refuse(w, r, err)
		return
	}
	if !v.sees(nodes) {
		fail(w, http.StatusForbidden, "Forbidden", "the engine is shown to those who may list nodes; ask for that right")
		return
	}
	write(w, http.StatusOK, s.state())
}

func (s *Server) state() Engine {
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	e := Engine{
		Version: s.Version, Started: s.Started.UTC(), Applications: len(s.Model.All()), Informers: []Informer{}, Queue: s.Model.Queue(), Hub: s.Hub.Stats(),
		Access: s.Reviewer.Stats(), History: s.Diary.Len(), Goroutines: runtime.NumGoroutine(), HeapBytes: mem.HeapAlloc,
	}
	for _, i := range s.Registry.Informers() {
		n := Informer{
			Resource: i.Key.Resource.Resource, Group: i.Key.Resource.Group, Version: i.Key.Resource.Version, Namespace: i.Key.Namespace,
			State: string(i.State), Since: i.Since.UTC(), Message: i.Message, Objects: i.Objects, ResourceVersion: i.ResourceVersion,
			Events: i.Events, Lists: i.Lists, Cuts: i.Cuts,
		}
		if !i.Heard.IsZero() {
			n.Heard = new(i.Heard.UTC())
		}
		e.Informers = append(e.Informers, n)
	}
	return e
}

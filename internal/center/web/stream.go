package web

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/lru"

	"github.com/holdfast-dev/holdfast/internal/center/access"
	"github.com/holdfast-dev/holdfast/internal/center/feed"
	"github.com/holdfast-dev/holdfast/internal/center/hub"
	"github.com/holdfast-dev/holdfast/internal/center/model"
)

// stream follows topics: all applications, unless the request names others.
func (s *Server) stream(w http.ResponseWriter, r *http.Request) {
	topics := []string{feed.All}
	if t := r.URL.Query().Get("topics"); t != "" {
		topics = strings.Split(t, ",")
	}
	_, token, _ := access.FromContext(r.Context())
	sight, err := s.Reviewer.Follow(r.Context(), token)
	if err != nil {
		access.Refuse(w, r, err)
		return
	}
	// What the snapshot needs is decided before, so that nobody waits in the middle of it.
	if err := sight.Prefetch(r.Context(), s.streamScopes(topics)); err != nil {
		access.Refuse(w, r, err)
		return
	}
	if hidden := s.hidden(sight, topics); hidden != "" {
		fail(w, http.StatusNotFound, "NotFound", "there is no topic "+hidden+" that you may see; GET /api/v1/applications lists applications")
		return
	}
	// The server's limit is for requests that come slowly. This one has come.
	if err := http.NewResponseController(w).SetReadDeadline(time.Time{}); err != nil {
		fail(w, http.StatusInternalServerError, "InternalError", "the connection cannot be held open; is there a proxy inside of the center?")
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	unchanged := s.rights.unchanged(ctx, sight)
	defer s.rights.remember(sight.User().Name(), sight)
	err = s.Hub.Serve(w, r.WithContext(ctx), hub.Subscription{
		Topics: topics, User: sight.User().Name(), Changed: s.watchRights(ctx, cancel, sight, topics), Revoked: sight.Revoked(),
		Sees: func(sc hub.Scope) bool { return sight.Glance(access.Scope(sc)) },
		// A client that goes on keeps what it was sent under the rights of the stream before.
		Fresh: !unchanged,
	})
	if err != nil {
		refused(w, r, err)
	}
}

// watchRights passes on that rights have changed, and ends the stream when an application that it
// is about is not the caller's to see any more.
func (s *Server) watchRights(ctx context.Context, end context.CancelFunc, sight *access.Sight, topics []string) <-chan struct{} {
	out := make(chan struct{}, 1)
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-sight.Changed():
			}
			if s.hidden(sight, topics) != "" {
				end()
				return
			}
			select {
			case out <- struct{}{}:
			default:
			}
		}
	}()
	return out
}

// hidden is a topic about an application that the caller may not see; empty if there is none. One
// of ours that is not there yet may be waited for by those who would see it.
func (s *Server) hidden(sight *access.Sight, topics []string) string {
	for _, t := range topics {
		ref, ok := feed.Ref(t)
		if !ok {
			continue // the hub knows which topics there are
		}
		rec := s.Model.Get(ref)
		if rec == nil {
			rec = &model.Record{Ref: ref}
		}
		if !sees(sight, s.Rights.Application(rec)) {
			return t
		}
	}
	return ""
}

// streamScopes are the rights that topics need now.
func (s *Server) streamScopes(topics []string) []access.Scope {
	seen := map[access.Scope]bool{}
	add := func(scopes []hub.Scope) {
		for _, sc := range scopes {
			seen[access.Scope(sc)] = true
		}
	}
	for _, t := range topics {
		if t == feed.All {
			for _, rec := range s.Model.All() {
				add(s.Rights.Application(rec))
			}
			continue
		}
		if ref, ok := feed.Ref(t); ok {
			rec := s.Model.Get(ref)
			if rec == nil {
				rec = &model.Record{Ref: ref}
			}
			add(s.Rights.Application(rec))
			add(s.scopes(rec))
		}
	}
	var out []access.Scope
	for sc := range seen {
		out = append(out, sc)
	}
	return out
}

// maxRemembered is how many users are remembered.
const maxRemembered = 1000

// pastRights remembers under which rights the last streams of users ended.
type pastRights struct {
	mu    sync.Mutex
	users *lru.Cache // of map[access.Scope]bool by user
}

func newPastRights() *pastRights { return &pastRights{users: lru.New(maxRemembered)} }

func (p *pastRights) remember(user string, s *access.Sight) {
	verdicts := s.Verdicts()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.users.Add(user, verdicts)
}

// unchanged says whether a user may see exactly what they might when their last stream ended. Of
// whom that is not known they may not.
func (p *pastRights) unchanged(ctx context.Context, s *access.Sight) bool {
	p.mu.Lock()
	last, ok := p.users.Get(s.User().Name())
	p.mu.Unlock()
	if !ok {
		return false
	}
	before := last.(map[access.Scope]bool)
	if s.Prefetch(ctx, slices.Collect(maps.Keys(before))) != nil {
		return false
	}
	for scope, yes := range before {
		if s.Sees(scope) != yes {
			return false
		}
	}
	return true
}

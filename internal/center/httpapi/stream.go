package httpapi

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/lru"

	"github.com/holdfast-dev/holdfast/internal/center/authz"
	"github.com/holdfast-dev/holdfast/internal/center/model"
	"github.com/holdfast-dev/holdfast/internal/center/publish"
	"github.com/holdfast-dev/holdfast/internal/center/sse"
)

// stream follows topics: all applications, unless the request names others.
func (s *Server) stream(w http.ResponseWriter, r *http.Request) {
	topics := []string{publish.TopicAll}
	if t := r.URL.Query().Get("topics"); t != "" {
		topics = strings.Split(t, ",")
	}
	_, token, _ := authz.FromContext(r.Context())
	v, err := s.Reviewer.StreamViewer(r.Context(), token)
	if err != nil {
		authz.WriteAuthError(w, r, err)
		return
	}
	// What the snapshot needs is decided before, so that nobody waits in the middle of it.
	if err := v.Prefetch(r.Context(), s.streamScopes(topics)); err != nil {
		authz.WriteAuthError(w, r, err)
		return
	}
	if hiddenTopic := s.firstHiddenTopic(v, topics); hiddenTopic != "" {
		writeError(w, http.StatusNotFound, "NotFound", "there is no topic "+hiddenTopic+" that you may see; GET /api/v1/applications lists applications")
		return
	}
	// The server's limit is for requests that come slowly. This one has come.
	if err := http.NewResponseController(w).SetReadDeadline(time.Time{}); err != nil {
		writeError(w, http.StatusInternalServerError, "InternalError", "the connection cannot be held open; is there a proxy inside of the center?")
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	unchanged := s.accessHistory.unchanged(ctx, v)
	defer s.accessHistory.save(v.User().Name(), v)
	err = s.Hub.Serve(w, r.WithContext(ctx), sse.Subscription{
		Topics: topics, User: v.User().Name(), AccessChanged: s.forwardAccessChanges(ctx, cancel, v, topics), Revoked: v.Revoked(),
		Allows: func(sc sse.Scope) bool { return v.AllowsCached(authz.Scope(sc)) },
		// A client that goes on keeps what it was sent under the rights of the stream before.
		ForceSnapshot: !unchanged,
	})
	if err != nil {
		writeStreamError(w, r, err)
	}
}

// forwardAccessChanges passes on that rights have changed, and ends the stream when an application that it
// is about is not the caller's to see any more.
func (s *Server) forwardAccessChanges(ctx context.Context, cancel context.CancelFunc, v *authz.Viewer, topics []string) <-chan struct{} {
	out := make(chan struct{}, 1)
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-v.Changed():
			}
			if s.firstHiddenTopic(v, topics) != "" {
				cancel()
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

// firstHiddenTopic is a topic about an application that the caller may not see; empty if there is none. One
// of ours that is not there yet may be waited for by those who would see it.
func (s *Server) firstHiddenTopic(v *authz.Viewer, topics []string) string {
	for _, t := range topics {
		ref, ok := publish.ParseTopic(t)
		if !ok {
			continue // the hub knows which topics there are
		}
		rec := s.Model.Get(ref)
		if rec == nil {
			rec = &model.Record{Ref: ref}
		}
		if !allowsAny(v, s.Resolver.ApplicationScopes(rec)) {
			return t
		}
	}
	return ""
}

// streamScopes are the rights that topics need now.
func (s *Server) streamScopes(topics []string) []authz.Scope {
	seen := map[authz.Scope]bool{}
	add := func(scopes []sse.Scope) {
		for _, sc := range scopes {
			seen[authz.Scope(sc)] = true
		}
	}
	for _, t := range topics {
		if t == publish.TopicAll {
			for _, rec := range s.Model.All() {
				add(s.Resolver.ApplicationScopes(rec))
			}
			continue
		}
		if ref, ok := publish.ParseTopic(t); ok {
			rec := s.Model.Get(ref)
			if rec == nil {
				rec = &model.Record{Ref: ref}
			}
			add(s.Resolver.ApplicationScopes(rec))
			add(s.objectScopes(rec))
		}
	}
	var out []authz.Scope
	for sc := range seen {
		out = append(out, sc)
	}
	return out
}

// maxAccessHistory is how many users are remembered.
const maxAccessHistory = 1000

// accessHistory remembers under which rights the last streams of users ended.
type accessHistory struct {
	mu    sync.Mutex
	users *lru.Cache // of map[access.Scope]bool by user
}

func newAccessHistory() *accessHistory { return &accessHistory{users: lru.New(maxAccessHistory)} }

func (p *accessHistory) save(user string, s *authz.Viewer) {
	decisions := s.Decisions()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.users.Add(user, decisions)
}

// unchanged says whether a user may see exactly what they might when their last stream ended. Of
// whom that is not known they may not.
func (p *accessHistory) unchanged(ctx context.Context, s *authz.Viewer) bool {
	p.mu.Lock()
	last, ok := p.users.Get(s.User().Name())
	p.mu.Unlock()
	if !ok {
		return false
	}
	before := last.(map[authz.Scope]bool)
	if s.Prefetch(ctx, slices.Collect(maps.Keys(before))) != nil {
		return false
	}
	for scope, allowed := range before {
		if s.Allows(scope) != allowed {
			return false
		}
	}
	return true
}

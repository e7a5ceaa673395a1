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

// stream serves the requested topics; by default all applications.
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
	// Review the permissions for the snapshot first, so that sending it does not block on reviews.
	if err := v.Prefetch(r.Context(), s.streamScopes(topics)); err != nil {
		authz.WriteAuthError(w, r, err)
		return
	}
	if hiddenTopic := s.firstHiddenTopic(v, topics); hiddenTopic != "" {
		writeError(w, http.StatusNotFound, "NotFound",
			"topic "+hiddenTopic+" does not exist or you are not allowed to see it; list applications with GET /api/v1/applications")
		return
	}
	// The read timeout of the server is for slow requests. This request has been read completely.
	if err := http.NewResponseController(w).SetReadDeadline(time.Time{}); err != nil {
		writeError(w, http.StatusInternalServerError, "InternalError",
			"the connection does not support streaming: its read deadline cannot be cleared")
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	unchanged := s.accessHistory.unchanged(ctx, v)
	defer s.accessHistory.save(v.User().Name(), v)
	err = s.Hub.Serve(w, r.WithContext(ctx), sse.Subscription{
		Topics: topics, User: v.User().Name(), Tenant: v.User().Tenant(), AccessChanged: s.forwardAccessChanges(ctx, cancel, v, topics), Revoked: v.Revoked(),
		Allows: func(sc sse.Scope) bool { return v.AllowsCached(authz.Scope(sc)) },
		// A resumed client keeps entries that it received with the permissions of its previous stream.
		ForceSnapshot: !unchanged,
	})
	if err != nil {
		writeStreamError(w, r, err)
	}
}

// forwardAccessChanges signals permission changes to the hub, and ends the stream when the caller is no longer
// allowed to see an application that it has subscribed to.
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

// firstHiddenTopic returns the first topic about an application that the caller is not allowed to see, or "".
// Callers that can list the kind can subscribe to an application before it is created.
func (s *Server) firstHiddenTopic(v *authz.Viewer, topics []string) string {
	for _, t := range topics {
		ref, ok := publish.ParseTopic(t)
		if !ok {
			continue // the hub rejects unknown topics
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

// streamScopes returns the permissions that the topics require now.
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

// maxAccessHistory is the maximum number of users in the access history.
const maxAccessHistory = 1000

// accessHistory stores the permissions that each user had when the user's last stream ended.
type accessHistory struct {
	mu    sync.Mutex
	users *lru.Cache // of map[authz.Scope]bool by user
}

func newAccessHistory() *accessHistory { return &accessHistory{users: lru.New(maxAccessHistory)} }

func (p *accessHistory) save(user string, s *authz.Viewer) {
	decisions := s.Decisions()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.users.Add(user, decisions)
}

// unchanged reports whether a user has the same permissions as when the user's last stream ended. It is false
// for users without a previous stream.
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

package apply

import (
	"errors"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/own"
)

// What the API server refuses is tried again ever more rarely, from firstRetry on. The pace
// is that of the child: whatever else happens to its application is no reason to ask again.
const (
	firstRetry        = 20 * time.Millisecond
	defaultMaxBackoff = 5 * time.Minute
)

// Refused is what the API server answered before; it is not asked again yet.
type Refused struct {
	// Err is the answer.
	Err error
	// Wait is how long it is not asked again.
	Wait time.Duration
}

func (r *Refused) Error() string { return r.Err.Error() }

// Unwrap returns the answer.
func (r *Refused) Unwrap() error { return r.Err }

// IsRefused says whether the API server heard us and said no, as opposed to not hearing us
// or being in trouble itself.
func IsRefused(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	if strings.Contains(status.Status().Message, "cannot find RESTMapping") {
		return false // the API server has not noticed yet that our own kind exists
	}
	return status.Status().Code >= 400 && status.Status().Code < 500 && !apierrors.IsTooManyRequests(err)
}

// refusal is an answer that has to be taken for one until then.
type refusal struct {
	wish       string
	uid        types.UID
	generation int64
	err        error
	pause      time.Duration
	until      time.Time
}

// about says whether the same wish about the same object was refused. Another wish, or an
// object that somebody changed, is worth a new question.
func (r *refusal) about(wish string, live client.Object) bool {
	if r == nil || r.wish != wish {
		return false
	}
	if live == nil {
		return r.uid == ""
	}
	return r.uid == live.GetUID() && r.generation == live.GetGeneration()
}

// refused returns the last answer if it is too soon to ask again; live is nil for a child
// that does not exist.
func (m *memory) refused(k key, owner types.UID, wish string, live client.Object, now time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.entry(k, owner).refusal
	if !r.about(wish, live) || !now.Before(r.until) {
		return nil
	}
	return &Refused{Err: r.err, Wait: r.until.Sub(now)}
}

// noteRefusal notes the answer to a write; anything but a refusal ends what was before.
func (m *memory) noteRefusal(k key, owner types.UID, wish string, live client.Object, err error, now time.Time, most time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entry(k, owner)
	e.tried = e.tried || live == nil && lost(err)
	if !IsRefused(err) || apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || uidMismatch(err) {
		e.refusal = nil
		return
	}
	pause := firstRetry
	if e.refusal.about(wish, live) {
		pause = min(2*e.refusal.pause, most)
	}
	e.refusal = &refusal{wish: wish, err: err, pause: pause, until: now.Add(pause)}
	if live != nil {
		e.refusal.uid, e.refusal.generation = live.GetUID(), live.GetGeneration()
	}
}

// lost says whether a write may have been carried out although it failed.
func lost(err error) bool {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return status.Status().Code >= 500
	}
	var taken *own.NameConflict
	var leaving *own.Leaving
	return err != nil && !errors.Is(err, ErrStale) && !errors.As(err, &taken) && !errors.As(err, &leaving)
}

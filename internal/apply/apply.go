package apply

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/own"
)

// createOnly is the resourceVersion of an apply that may only create: no live object
// can have it, and it is not checked when there is none.
const createOnly = "1"

// ErrStale says that the world is not as it was decided on: look again, then decide.
var ErrStale = errors.New("changed since it was read")

// Change is what an apply did.
type Change string

// What an apply did.
const (
	Unchanged Change = ""
	Created   Change = "Created"
	Updated   Change = "Updated"  // to a new wish
	Repaired  Change = "Repaired" // to the same wish as before
	Adopted   Change = "Adopted"
)

// Result of an apply.
type Result struct {
	// Object as it is now.
	Object client.Object
	Change Change
	// Wait is how long a repair is held back, because the object was repaired too often.
	Wait time.Duration
	// Fight is set once, when that begins.
	Fight bool
	// Contested is how long the object must be left in peace until that is over.
	Contested time.Duration
	// Asked is the generation that has to be observed before the status of the object
	// tells what became of our wish. Later ones are no concern of its pods.
	Asked int64
}

// Applier writes children.
type Applier struct {
	// MaxBackoff is the longest time between two tries of what the API server refuses.
	MaxBackoff time.Duration

	cache  client.Reader
	live   client.Reader
	writer client.Client
	clock  clock.PassiveClock
	memory memory
}

// New returns an Applier that reads children from a cache, and where only the truth will
// do from live.
func New(cache, live client.Reader, writer client.Client, clk clock.PassiveClock) *Applier {
	return &Applier{MaxBackoff: defaultMaxBackoff, cache: cache, live: live, writer: writer, clock: clk, memory: memory{owners: map[types.UID]map[key]*entry{}}}
}

// Observe returns a child as we know it best: from the cache, or as the API server
// answered a write that the cache has not seen. It is nil when there is none, or none
// with our label. The object must not be changed.
func (a *Applier) Observe(ctx context.Context, owner desired.Owner, id desired.ID) (client.Object, error) {
	cached, err := a.get(ctx, a.cache, owner.Namespace, id)
	if err != nil {
		return nil, err
	}
	k := key{id, owner.Namespace}
	if cached != nil && metav1.IsControlledBy(cached, &metav1.ObjectMeta{UID: owner.UID}) {
		a.memory.noteOurs(k, owner.UID, cached.GetUID())
	}
	return a.memory.newest(k, owner.UID, cached, a.clock.Now()), nil
}

// Unseen are the children of an owner that we wrote and that lists of the cache may lack.
func (a *Applier) Unseen(owner desired.Owner) []desired.ID { return a.memory.unseen(owner.UID) }

// Settled says whether a child was found to be what it should be and nothing has changed since
// that could make it differ.
func (a *Applier) Settled(owner desired.Owner, child desired.Child, current client.Object) bool {
	return a.memory.settled(key{child.ID, owner.Namespace}, owner.UID, child.Basis, current)
}

// Apply makes a child what it should be. current is what Observe returned. With holdPods
// the pods of a child that exists stay as they are.
func (a *Applier) Apply(ctx context.Context, owner desired.Owner, child desired.Child, current client.Object, holdPods bool) (Result, error) {
	k := key{child.ID, owner.Namespace}
	taken, fresh := a.memory.isForeign(k, owner.UID, a.clock.Now())
	if current == nil && fresh {
		return Result{}, taken
	}
	if current == nil && taken != nil {
		// Only a read tells whether the name is free by now.
		live, err := a.get(ctx, a.live, owner.Namespace, child.ID)
		if err != nil {
			return Result{}, err
		}
		current = live
	}
	var result Result
	var err error
	if current == nil {
		result, err = a.create(ctx, owner, child)
	} else {
		result, err = a.update(ctx, owner, child, current, how{holdPods: holdPods})
	}
	taken = nil
	errors.As(err, &taken)
	a.memory.setForeign(k, owner.UID, taken, a.clock.Now())
	result.Contested = a.memory.contested(k, owner.UID, a.clock.Now())
	switch {
	case lost(err):
		a.memory.unsure(k, owner.UID)
	case err != nil: // what was seen may be of the time before a write that was lost
		result.Asked = a.memory.asked(k, owner.UID, nil, nil)
	default:
		result.Asked = a.memory.asked(k, owner.UID, current, result.Object)
	}
	return result, err
}

// create applies a child that does not exist as far as we know.
func (a *Applier) create(ctx context.Context, owner desired.Owner, child desired.Child) (Result, error) {
	k := key{child.ID, owner.Namespace}
	config, err := child.Render(nil)
	if err != nil {
		return Result{}, err
	}
	if err := a.memory.refused(k, owner.UID, config.Wish(), nil, a.clock.Now()); err != nil {
		return Result{}, err
	}
	again := a.memory.wasOurs(k, owner.UID)
	if again {
		if wait, news := a.memory.mayRepair(k, owner.UID, a.clock.Now()); wait > 0 {
			return Result{Wait: wait, Fight: news}, nil
		}
	}
	if a.memory.mayHaveBeen(k, owner.UID) {
		live, err := a.get(ctx, a.live, owner.Namespace, child.ID)
		if err != nil {
			return Result{}, err
		}
		if live != nil { // it lost the label that our cache selects on, or its answer did not come
			return a.update(ctx, owner, child, live, how{counted: again})
		}
		if err := a.ownerLives(ctx, owner, child.ID); err != nil {
			return Result{}, err
		}
	}
	wish := config.Wish()
	answer, err := a.patch(ctx, owner, child.ID, config, "", createOnly)
	a.memory.noteRefusal(k, owner.UID, wish, nil, err, a.clock.Now(), a.MaxBackoff)
	if err == nil {
		return Result{Object: answer, Change: Created}, nil
	}
	if !apierrors.IsConflict(err) {
		return Result{}, err
	}
	live, err := a.get(ctx, a.live, owner.Namespace, child.ID)
	if err != nil {
		return Result{}, err
	}
	if live == nil { // gone again
		return Result{}, stale(owner, child.ID)
	}
	if _, err := own.Claim(owner, child.ID, live); err == nil && !again {
		// Made before we started. Our cache is behind, and may be with its owner, too.
		if err := a.ownerLives(ctx, owner, child.ID); err != nil {
			return Result{}, err
		}
	}
	return a.update(ctx, owner, child, live, how{counted: again})
}

// how a child that exists is applied.
type how struct {
	counted  bool // this repair was counted before
	holdPods bool
}

// update applies a child that exists.
func (a *Applier) update(ctx context.Context, owner desired.Owner, child desired.Child, current client.Object, h how) (Result, error) {
	k := key{child.ID, owner.Namespace}
	if !h.holdPods && a.Settled(owner, child, current) {
		return Result{Object: current}, nil // without making the wish again
	}
	adopting, err := own.Claim(owner, child.ID, current)
	if err != nil {
		return Result{Object: current}, err
	}
	config, err := child.Render(current)
	var refusal *desired.Refusal
	if errors.As(err, &refusal) {
		taken := own.Conflict(owner, child.ID, "cannot be taken over: "+refusal.Why)
		taken.Refused = true
		return Result{Object: current}, taken
	}
	if err != nil {
		return Result{Object: current}, err
	}
	if h.holdPods && config.ReplacesPods(current) {
		config.HoldPods(current)
	}
	held, err := a.held(owner, k, config, current)
	if held && !h.holdPods {
		a.memory.settle(k, owner.UID, child.Basis)
	}
	if err != nil || held {
		return Result{Object: current}, err
	}
	if err := a.memory.refused(k, owner.UID, config.Wish(), current, a.clock.Now()); err != nil {
		return Result{Object: current}, err
	}
	change := Updated
	switch {
	// The annotation outlives us; memory outlives somebody who changes the annotation.
	case current.GetAnnotations()[appsapi.AnnotationApplied] == config.Hash(), a.memory.wished(k, owner.UID, config, current):
		change = Repaired
	case adopting:
		change = Adopted
	}
	if change == Repaired && !h.counted {
		if wait, news := a.memory.mayRepair(k, owner.UID, a.clock.Now()); wait > 0 {
			return Result{Object: current, Wait: wait, Fight: news}, nil
		}
	}
	if !adopting && metav1.GetControllerOfNoCopy(current) == nil {
		if err := a.ownerLives(ctx, owner, child.ID); err != nil {
			return Result{Object: current}, err
		}
	}
	wish := config.Wish()
	answer, err := a.overwrite(ctx, owner, child.ID, config, current)
	a.memory.noteRefusal(k, owner.UID, wish, current, err, a.clock.Now(), a.MaxBackoff)
	if apierrors.IsConflict(err) || uidMismatch(err) {
		return Result{Object: current}, stale(owner, child.ID)
	}
	if err != nil {
		return Result{Object: current}, err
	}
	return Result{Object: answer, Change: change}, nil
}

// overwrite applies to an object as it was seen.
func (a *Applier) overwrite(ctx context.Context, owner desired.Owner, id desired.ID, config *desired.Config, current client.Object) (client.Object, error) {
	want, err := config.Fields()
	if err != nil {
		return nil, err
	}
	paths, err := own.Rivals(want, current)
	if err != nil {
		return nil, err
	}
	version := current.GetResourceVersion()
	if len(paths) > 0 {
		if version, err = a.takeOver(ctx, owner, id, current, paths); err != nil {
			return nil, err
		}
	}
	if config.HoldsPods() {
		live, err := a.sameWithBooks(ctx, owner, id, current.GetUID(), version)
		if err != nil {
			return nil, err
		}
		if err := config.CarryPods(live); err != nil {
			return nil, err
		}
	}
	return a.patch(ctx, owner, id, config, current.GetUID(), version)
}

// sameWithBooks reads a child with its managedFields, which the cache does not keep.
func (a *Applier) sameWithBooks(ctx context.Context, owner desired.Owner, id desired.ID, uid types.UID, version string) (client.Object, error) {
	live, err := a.get(ctx, a.live, owner.Namespace, id)
	if err != nil {
		return nil, err
	}
	if live == nil || live.GetUID() != uid || live.GetResourceVersion() != version {
		return nil, stale(owner, id)
	}
	return live, nil
}

// held says whether a child is as we want it, without a call: from memory if nothing
// changed since, otherwise by looking at the fields that we hold.
func (a *Applier) held(owner desired.Owner, k key, config *desired.Config, live client.Object) (bool, error) {
	all, butMetadata, last := a.memory.knows(k, owner.UID, config, live)
	if all {
		return true, nil
	}
	now, err := own.CompareMetadata(owner, config, live)
	if err != nil || now != last.metadata {
		return false, err
	}
	if !butMetadata {
		want, err := config.Fields()
		if err != nil {
			return false, err
		}
		now, err := own.Compare(want, live)
		if err != nil || now != last.fields {
			return false, err
		}
	}
	a.memory.noteSame(k, owner.UID, config, live, last)
	return true, nil
}

// patch sends an apply and remembers the answer.
func (a *Applier) patch(ctx context.Context, owner desired.Owner, id desired.ID, config *desired.Config, uid types.UID, resourceVersion string) (client.Object, error) {
	want, err := config.Fields() // before it gets what is only sent
	if err != nil {
		return nil, err
	}
	body, err := config.Patch(uid, resourceVersion)
	if err != nil {
		return nil, err
	}
	answer, err := a.empty(owner.Namespace, id)
	if err != nil {
		return nil, err
	}
	err = a.writer.Patch(ctx, answer, client.RawPatch(types.ApplyPatchType, body),
		client.FieldOwner(appsapi.FieldManager), client.ForceOwnership)
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil, &own.Leaving{Child: id, Namespace: owner.Namespace, Why: "cannot be created, because its namespace is being deleted"}
	}
	if err != nil {
		return nil, fmt.Errorf("apply %s %s/%s: %w", id.Kind.Kind, owner.Namespace, id.Name, err)
	}
	answer.SetManagedFields(nil)
	var got projection
	if got.fields, err = own.Compare(want, answer); err != nil {
		return nil, err
	}
	if got.metadata, err = own.CompareMetadata(owner, config, answer); err != nil {
		return nil, err
	}
	a.memory.remember(key{id, owner.Namespace}, owner.UID, config, answer, got, a.clock.Now())
	return answer, nil
}

// uidMismatch is the answer when another object of the same name has taken the place of
// the one we looked at.
func uidMismatch(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	for _, c := range status.Status().Details.Causes {
		if c.Field == "metadata.uid" {
			return true
		}
	}
	return false
}

func stale(owner desired.Owner, id desired.ID) error {
	return fmt.Errorf("apply %s %s/%s: %w", id.Kind.Kind, owner.Namespace, id.Name, ErrStale)
}

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
	"github.com/holdfast-dev/holdfast/internal/ownership"
)

// createOnly is the resourceVersion of an apply that may only create: no live object
// can have it, and it is not checked when there is none.
const createOnly = "1"

// ErrStale says that the world is not as it was decided on: look again, then decide.
var ErrStale = errors.New("changed since it was read")

// Action is what an apply did.
type Action string

// What an apply did.
const (
	Unchanged Action = ""
	Created   Action = "Created"
	Updated   Action = "Updated"  // to a new wish
	Repaired  Action = "Repaired" // to the same wish as before
	Adopted   Action = "Adopted"
)

// Result of an apply.
type Result struct {
	// Object as it is now.
	Object client.Object
	Action Action
	// RequeueAfter is how long a repair is held back, because the object was repaired too often.
	RequeueAfter time.Duration
	// ContentionStarted is set once, when that begins.
	ContentionStarted bool
	// ContentionRemaining is how long the object must be left in peace until that is over.
	ContentionRemaining time.Duration
	// DesiredGeneration is the generation that has to be observed before the status of the object
	// tells what became of our wish. Later ones are no concern of its pods.
	DesiredGeneration int64
}

// Applier writes children.
type Applier struct {
	// MaxBackoff is the longest time between two tries of what the API server refuses.
	MaxBackoff time.Duration

	cache      client.Reader
	apiReader  client.Reader
	writer     client.Client
	clock      clock.PassiveClock
	childCache childCache
}

// New returns an Applier that reads children from a cache, and where only the truth will
// do from live.
func New(cache, apiReader client.Reader, writer client.Client, clk clock.PassiveClock) *Applier {
	return &Applier{MaxBackoff: defaultMaxBackoff, cache: cache, apiReader: apiReader, writer: writer, clock: clk, childCache: childCache{owners: map[types.UID]map[key]*entry{}}}
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
		a.childCache.recordOwned(k, owner.UID, cached.GetUID())
	}
	return a.childCache.newest(k, owner.UID, cached, a.clock.Now()), nil
}

// NotYetCached are the children of an owner that we wrote and that lists of the cache may lack.
func (a *Applier) NotYetCached(owner desired.Owner) []desired.ID {
	return a.childCache.notYetCached(owner.UID)
}

// InSync says whether a child was found to be what it should be and nothing has changed since
// that could make it differ.
func (a *Applier) InSync(owner desired.Owner, child desired.Child, current client.Object) bool {
	return a.childCache.inSync(key{child.ID, owner.Namespace}, owner.UID, child.InputHash, current)
}

// Apply makes a child what it should be. current is what Observe returned. With holdPodTemplate
// the pods of a child that exists stay as they are.
func (a *Applier) Apply(ctx context.Context, owner desired.Owner, child desired.Child, current client.Object, holdPodTemplate bool) (Result, error) {
	k := key{child.ID, owner.Namespace}
	conflict, fresh := a.childCache.nameConflict(k, owner.UID, a.clock.Now())
	if current == nil && fresh {
		return Result{}, conflict
	}
	if current == nil && conflict != nil {
		// Only a read tells whether the name is free by now.
		live, err := a.get(ctx, a.apiReader, owner.Namespace, child.ID)
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
		result, err = a.update(ctx, owner, child, current, updateOptions{holdPodTemplate: holdPodTemplate})
	}
	conflict = nil
	errors.As(err, &conflict)
	a.childCache.setNameConflict(k, owner.UID, conflict, a.clock.Now())
	result.ContentionRemaining = a.childCache.contentionRemaining(k, owner.UID, a.clock.Now())
	switch {
	case outcomeUnknown(err):
		a.childCache.resetDesiredGeneration(k, owner.UID)
	case err != nil: // what was seen may be of the time before a write that was lost
		result.DesiredGeneration = a.childCache.updateDesiredGeneration(k, owner.UID, nil, nil)
	default:
		result.DesiredGeneration = a.childCache.updateDesiredGeneration(k, owner.UID, current, result.Object)
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
	if err := a.childCache.pendingRejection(k, owner.UID, config.Fingerprint(), nil, a.clock.Now()); err != nil {
		return Result{}, err
	}
	recreating := a.childCache.wasOwned(k, owner.UID)
	if recreating {
		if wait, contentionStarted := a.childCache.allowRepair(k, owner.UID, a.clock.Now()); wait > 0 {
			return Result{RequeueAfter: wait, ContentionStarted: contentionStarted}, nil
		}
	}
	if a.childCache.mayExist(k, owner.UID) {
		live, err := a.get(ctx, a.apiReader, owner.Namespace, child.ID)
		if err != nil {
			return Result{}, err
		}
		if live != nil { // it lost the label that our cache selects on, or its answer did not come
			return a.update(ctx, owner, child, live, updateOptions{repairCounted: recreating})
		}
		if err := a.verifyOwner(ctx, owner, child.ID); err != nil {
			return Result{}, err
		}
	}
	fingerprint := config.Fingerprint()
	applied, err := a.patch(ctx, owner, child.ID, config, "", createOnly)
	a.childCache.recordWriteResult(k, owner.UID, fingerprint, nil, err, a.clock.Now(), a.MaxBackoff)
	if err == nil {
		return Result{Object: applied, Action: Created}, nil
	}
	if !apierrors.IsConflict(err) {
		return Result{}, err
	}
	live, err := a.get(ctx, a.apiReader, owner.Namespace, child.ID)
	if err != nil {
		return Result{}, err
	}
	if live == nil { // gone again
		return Result{}, stale(owner, child.ID)
	}
	if _, err := ownership.CheckOwnership(owner, child.ID, live); err == nil && !recreating {
		// Made before we started. Our cache is behind, and may be with its owner, too.
		if err := a.verifyOwner(ctx, owner, child.ID); err != nil {
			return Result{}, err
		}
	}
	return a.update(ctx, owner, child, live, updateOptions{repairCounted: recreating})
}

// updateOptions a child that exists is applied.
type updateOptions struct {
	repairCounted   bool // this repair was counted before
	holdPodTemplate bool
}

// update applies a child that exists.
func (a *Applier) update(ctx context.Context, owner desired.Owner, child desired.Child, current client.Object, opts updateOptions) (Result, error) {
	k := key{child.ID, owner.Namespace}
	if !opts.holdPodTemplate && a.InSync(owner, child, current) {
		return Result{Object: current}, nil // without making the wish again
	}
	adopting, err := ownership.CheckOwnership(owner, child.ID, current)
	if err != nil {
		return Result{Object: current}, err
	}
	config, err := child.Render(current)
	var incompatible *desired.IncompatibleError
	if errors.As(err, &incompatible) {
		conflict := ownership.NewNameConflict(owner, child.ID, "cannot be taken over: "+incompatible.Message)
		conflict.Incompatible = true
		return Result{Object: current}, conflict
	}
	if err != nil {
		return Result{Object: current}, err
	}
	if opts.holdPodTemplate && config.ReplacesPods(current) {
		config.HoldPodTemplate(current)
	}
	upToDate, err := a.isUpToDate(owner, k, config, current)
	if upToDate && !opts.holdPodTemplate {
		a.childCache.markInSync(k, owner.UID, child.InputHash)
	}
	if err != nil || upToDate {
		return Result{Object: current}, err
	}
	if err := a.childCache.pendingRejection(k, owner.UID, config.Fingerprint(), current, a.clock.Now()); err != nil {
		return Result{Object: current}, err
	}
	action := Updated
	switch {
	// The annotation outlives us; memory outlives somebody who changes the annotation.
	case current.GetAnnotations()[appsapi.AnnotationAppliedHash] == config.Hash(), a.childCache.sameFingerprint(k, owner.UID, config, current):
		action = Repaired
	case adopting:
		action = Adopted
	}
	if action == Repaired && !opts.repairCounted {
		if wait, contentionStarted := a.childCache.allowRepair(k, owner.UID, a.clock.Now()); wait > 0 {
			return Result{Object: current, RequeueAfter: wait, ContentionStarted: contentionStarted}, nil
		}
	}
	if !adopting && metav1.GetControllerOfNoCopy(current) == nil {
		if err := a.verifyOwner(ctx, owner, child.ID); err != nil {
			return Result{Object: current}, err
		}
	}
	fingerprint := config.Fingerprint()
	applied, err := a.applyAtVersion(ctx, owner, child.ID, config, current)
	a.childCache.recordWriteResult(k, owner.UID, fingerprint, current, err, a.clock.Now(), a.MaxBackoff)
	if apierrors.IsConflict(err) || uidMismatch(err) {
		return Result{Object: current}, stale(owner, child.ID)
	}
	if err != nil {
		return Result{Object: current}, err
	}
	return Result{Object: applied, Action: action}, nil
}

// applyAtVersion applies to an object as it was seen.
func (a *Applier) applyAtVersion(ctx context.Context, owner desired.Owner, id desired.ID, config *desired.Config, current client.Object) (client.Object, error) {
	want, err := config.Fields()
	if err != nil {
		return nil, err
	}
	paths, err := ownership.UnionConflicts(want, current)
	if err != nil {
		return nil, err
	}
	version := current.GetResourceVersion()
	if len(paths) > 0 {
		if version, err = a.transferOwnership(ctx, owner, id, current, paths); err != nil {
			return nil, err
		}
	}
	if config.HoldsPodTemplate() {
		live, err := a.getUnchanged(ctx, owner, id, current.GetUID(), version)
		if err != nil {
			return nil, err
		}
		if err := config.KeepPodTemplate(live); err != nil {
			return nil, err
		}
	}
	return a.patch(ctx, owner, id, config, current.GetUID(), version)
}

// getUnchanged reads a child with its managedFields, which the cache does not keep.
func (a *Applier) getUnchanged(ctx context.Context, owner desired.Owner, id desired.ID, uid types.UID, version string) (client.Object, error) {
	live, err := a.get(ctx, a.apiReader, owner.Namespace, id)
	if err != nil {
		return nil, err
	}
	if live == nil || live.GetUID() != uid || live.GetResourceVersion() != version {
		return nil, stale(owner, id)
	}
	return live, nil
}

// isUpToDate says whether a child is as we want it, without a call: from memory if nothing
// changed since, otherwise by looking at the fields that we hold.
func (a *Applier) isUpToDate(owner desired.Owner, k key, config *desired.Config, live client.Object) (bool, error) {
	unchanged, specUnchanged, previous := a.childCache.compareKnown(k, owner.UID, config, live)
	if unchanged {
		return true, nil
	}
	current, err := ownership.CompareMetadata(owner, config, live)
	if err != nil || current != previous.metadata {
		return false, err
	}
	if !specUnchanged {
		want, err := config.Fields()
		if err != nil {
			return false, err
		}
		current, err := ownership.Compare(want, live)
		if err != nil || current != previous.fields {
			return false, err
		}
	}
	a.childCache.recordMatching(k, owner.UID, config, live, previous)
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
	applied, err := a.newObject(owner.Namespace, id)
	if err != nil {
		return nil, err
	}
	err = a.writer.Patch(ctx, applied, client.RawPatch(types.ApplyPatchType, body),
		client.FieldOwner(appsapi.FieldManager), client.ForceOwnership)
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil, &ownership.Terminating{Child: id, Namespace: owner.Namespace, Message: "cannot be created, because its namespace is being deleted"}
	}
	if err != nil {
		return nil, fmt.Errorf("apply %s %s/%s: %w", id.Kind.Kind, owner.Namespace, id.Name, err)
	}
	applied.SetManagedFields(nil)
	var applyDivergence divergence
	if applyDivergence.fields, err = ownership.Compare(want, applied); err != nil {
		return nil, err
	}
	if applyDivergence.metadata, err = ownership.CompareMetadata(owner, config, applied); err != nil {
		return nil, err
	}
	a.childCache.recordApplied(key{id, owner.Namespace}, owner.UID, config, applied, applyDivergence, a.clock.Now())
	return applied, nil
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

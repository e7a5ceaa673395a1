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

	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/fieldmanager"
	"github.com/holdfast-dev/holdfast/internal/objdiff"
	"github.com/holdfast-dev/holdfast/internal/ownership"
	"github.com/holdfast-dev/holdfast/internal/servercert"
)

// createOnly is the resourceVersion of an apply that must create the object: no live object has
// this version, and the API server ignores the version if the object does not exist.
const createOnly = "1"

// ErrStale means that an object has changed since it was read: observe and plan again.
var ErrStale = errors.New("changed since it was read")

// Action is the effect of an apply.
type Action string

// Effects of an apply.
const (
	Unchanged Action = ""
	Created   Action = "Created"
	Updated   Action = "Updated"  // to a new configuration
	Repaired  Action = "Repaired" // drift from the same configuration was corrected
	Adopted   Action = "Adopted"
	Recreated Action = "Recreated" // after another client deleted it
)

// Result is the result of an apply.
type Result struct {
	// Object is the current object.
	Object client.Object
	Action Action
	// Fields are the differences of an existing object before and after the write.
	Fields []objdiff.FieldChange
	// Refs are the ConfigMaps and Secrets whose content has changed since the previous write.
	Refs []desired.Ref
	// DriftManagers are the field managers that caused the repaired drift, if known.
	DriftManagers []string
	// RequeueAfter is set if a repair is delayed because the object was repaired too often.
	RequeueAfter time.Duration
	// ContentionStarted is set once, when repairs start to be delayed.
	ContentionStarted bool
	// TakenOver are fields of other managers that were removed with permission.
	TakenOver []fieldmanager.ForeignField
	// ContentionRemaining is how long the object must stay unchanged until the contention ends.
	ContentionRemaining time.Duration
	// DesiredGeneration is the generation that contains the applied configuration. A status with a
	// lower observedGeneration is outdated; later generations do not affect the pods.
	DesiredGeneration int64
}

// Applier writes children.
type Applier struct {
	// Certificates issues certificates for database servers.
	Certificates *servercert.Issuer
	// MaxBackoff is the maximum delay between retries of rejected writes.
	MaxBackoff time.Duration

	cache      client.Reader
	apiReader  client.Reader
	writer     client.Client
	clock      clock.PassiveClock
	childCache childCache
}

// New returns an Applier. It reads children from a cache, and from apiReader where outdated state
// would be unsafe.
func New(cache, apiReader client.Reader, writer client.Client, clk clock.PassiveClock) *Applier {
	return &Applier{MaxBackoff: defaultMaxBackoff, cache: cache, apiReader: apiReader, writer: writer, clock: clk, childCache: childCache{owners: map[types.UID]map[key]*entry{}}}
}

// Observe returns the newest known version of a child: from the cache, or the response to a write
// that the cache does not show yet. The result is nil if the child does not exist or lacks our
// label. Callers must not change the returned object.
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

// NotYetCached returns the children of an owner that were written and may be missing in lists of
// the cache.
func (a *Applier) NotYetCached(owner desired.Owner) []desired.ID {
	return a.childCache.notYetCached(owner.UID)
}

// InSync reports whether a child matched its configuration at the last comparison, and nothing
// relevant has changed since.
func (a *Applier) InSync(owner desired.Owner, child desired.Child, current client.Object) bool {
	return a.childCache.inSync(owner.Keys, key{child.ID, owner.Namespace}, owner.UID, child.InputHash, current)
}

// Apply applies the configuration of a child. current is the result of Observe. With
// holdPodTemplate the pod template of an existing child stays unchanged.
func (a *Applier) Apply(ctx context.Context, owner desired.Owner, child desired.Child, current client.Object, holdPodTemplate bool) (Result, error) {
	k := key{child.ID, owner.Namespace}
	conflict, fresh := a.childCache.nameConflict(k, owner.UID, a.clock.Now())
	if current == nil && fresh {
		return Result{}, conflict
	}
	if current == nil && conflict != nil {
		// Only a live read can tell whether the name is free now.
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
	case err != nil: // current may be older than a write whose response was lost
		result.DesiredGeneration = a.childCache.updateDesiredGeneration(k, owner.UID, nil, nil)
	default:
		result.DesiredGeneration = a.childCache.updateDesiredGeneration(k, owner.UID, current, result.Object)
	}
	return result, err
}

// create applies a child that does not exist according to the cache.
func (a *Applier) create(ctx context.Context, owner desired.Owner, child desired.Child) (Result, error) {
	k := key{child.ID, owner.Namespace}
	config, err := child.Render(nil)
	if err != nil {
		return Result{}, err
	}
	if err := a.childCache.pendingRejection(k, owner.UID, config.Fingerprint(), nil, a.clock.Now()); err != nil {
		return Result{}, err
	}
	recreating, action := a.childCache.wasOwned(k, owner.UID), Created
	if recreating {
		if !a.childCache.wasRemoved(k, owner.UID) && child.Kind != desired.KindJob { // users delete Jobs to run them again
			action = Recreated
		}
		if wait, contentionStarted := a.childCache.allowRepair(k, owner.UID, a.clock.Now()); wait > 0 {
			return Result{RequeueAfter: wait, ContentionStarted: contentionStarted}, nil
		}
	}
	if a.childCache.mayExist(k, owner.UID) {
		live, err := a.get(ctx, a.apiReader, owner.Namespace, child.ID)
		if err != nil {
			return Result{}, err
		}
		if live != nil { // the child lost the label that the cache selects, or the response to its creation was lost
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
		return Result{Object: applied, Action: action}, nil
	}
	if !apierrors.IsConflict(err) {
		return Result{}, err
	}
	live, err := a.get(ctx, a.apiReader, owner.Namespace, child.ID)
	if err != nil {
		return Result{}, err
	}
	if live == nil { // deleted meanwhile
		return Result{}, staleError(owner, child.ID)
	}
	if _, err := ownership.CheckOwnership(owner, child.ID, live); err == nil && !recreating {
		// The child was created before this process started, and the cache does not show it yet.
		// The cached owner may be outdated, too.
		if err := a.verifyOwner(ctx, owner, child.ID); err != nil {
			return Result{}, err
		}
	}
	return a.update(ctx, owner, child, live, updateOptions{repairCounted: recreating})
}

type updateOptions struct {
	repairCounted   bool // this repair was already counted
	holdPodTemplate bool
}

// update applies a child that exists.
func (a *Applier) update(ctx context.Context, owner desired.Owner, child desired.Child, current client.Object, opts updateOptions) (Result, error) {
	k := key{child.ID, owner.Namespace}
	if !opts.holdPodTemplate && a.InSync(owner, child, current) {
		return Result{Object: current}, nil // without rendering
	}
	adopting, err := ownership.CheckOwnership(owner, child.ID, current)
	if err != nil {
		return Result{Object: current}, err
	}
	config, err := child.Render(current)
	var incompatible *desired.IncompatibleError
	if errors.As(err, &incompatible) {
		conflict := ownership.NewNameConflict(owner, child.ID, "cannot be adopted: "+incompatible.Message)
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
	if err := a.childCache.knownFailure(k, owner.UID, config.Fingerprint(), current, a.clock.Now()); err != nil {
		return Result{Object: current}, err
	}
	action := Updated
	switch {
	// The hash of the applied configuration is stored twice: the annotation remains after a restart of
	// the operator, childCache remains if another client changes the annotation.
	case config.AppliedTo(current), a.childCache.sameFingerprint(k, owner.UID, config, current):
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
	return a.write(ctx, owner, child.ID, config, current, action)
}

// isUpToDate reports whether a child matches its configuration, without a request: from the cache
// if nothing has changed since the last comparison, otherwise by comparing our fields.
func (a *Applier) isUpToDate(owner desired.Owner, k key, config *desired.Config, live client.Object) (bool, error) {
	unchanged, specUnchanged, previous := a.childCache.unchangedSinceComparison(k, owner.UID, config, live)
	if unchanged {
		return true, nil
	}
	current, err := fieldmanager.CompareMetadata(owner, config, live)
	if err != nil || current != previous.metadata {
		return false, err
	}
	if !specUnchanged {
		want, err := config.Fields()
		if err != nil {
			return false, err
		}
		current, err := fieldmanager.Compare(want, live)
		if err != nil || current != previous.fields {
			return false, err
		}
	}
	a.childCache.recordMatching(k, owner.UID, config, live, previous)
	return true, nil
}

// patch sends an apply and records the response.
func (a *Applier) patch(ctx context.Context, owner desired.Owner, id desired.ID, config *desired.Config, uid types.UID, resourceVersion string) (client.Object, error) {
	want, err := config.Fields() // before Patch adds fields that are sent but not owned
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
		client.FieldOwner(owner.Keys.FieldManager), client.ForceOwnership)
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil, &ownership.Terminating{Child: id, Namespace: owner.Namespace,
			Message: "cannot be created because its namespace is being deleted"}
	}
	if err != nil {
		return nil, fmt.Errorf("apply %s %s/%s: %w", id.Kind.Kind, owner.Namespace, id.Name, err)
	}
	applied.SetManagedFields(nil)
	var applyDivergence divergence
	if applyDivergence.fields, err = fieldmanager.Compare(want, applied); err != nil {
		return nil, err
	}
	if applyDivergence.metadata, err = fieldmanager.CompareMetadata(owner, config, applied); err != nil {
		return nil, err
	}
	a.childCache.recordApplied(key{id, owner.Namespace}, owner.UID, config, applied, applyDivergence, a.clock.Now())
	return applied, nil
}

// uidMismatch reports whether an error means that an object was replaced by another object with the
// same name.
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

func staleError(owner desired.Owner, id desired.ID) error {
	return fmt.Errorf("apply %s %s/%s: %w", id.Kind.Kind, owner.Namespace, id.Name, ErrStale)
}

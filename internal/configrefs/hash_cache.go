package configrefs

import (
	"context"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/keymutex"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

// HashCache caches the hashes of the ConfigMaps and Secrets that applications reference, and the
// applications that reference them. The controller cache contains only their metadata; the content of each
// version is read once.
type HashCache struct {
	keys      *appsapi.Keys
	cache     client.Reader
	apiReader client.Reader
	hmacKey   *HMACKey
	// readLocks has a lock for every object that is being read.
	readLocks keymutex.KeyMutex

	mu     sync.Mutex
	hashes map[configRef]versionHashes
	// missing are the objects that the API server reported as not found.
	missing   map[configRef]bool
	consumers map[configRef]map[types.NamespacedName]bool
	refsByApp map[types.NamespacedName][]configRef
}

// configRef is a ConfigMap or Secret.
type configRef struct {
	kind string
	types.NamespacedName
}

func (s configRef) String() string { return s.kind + " " + s.NamespacedName.String() }

// versionHashes are the hashes of one version of an object by requested keys.
type versionHashes struct {
	uid             types.UID
	resourceVersion string
	keyID           string // of the HMAC key
	byKeys          map[string]string
}

// New returns an empty cache. cache contains the metadata of referenced objects; apiReader reads their
// content.
func New(keys *appsapi.Keys, cache, apiReader client.Reader, key *HMACKey) *HashCache {
	return &HashCache{
		keys: keys, cache: cache, apiReader: apiReader, hmacKey: key, readLocks: keymutex.NewHashed(0),
		hashes: map[configRef]versionHashes{}, missing: map[configRef]bool{}, consumers: map[configRef]map[types.NamespacedName]bool{}, refsByApp: map[types.NamespacedName][]configRef{},
	}
}

// HashesFor returns the states of the objects that the components of an application reference. Recorded
// states of children avoid reads. Objects in watchOnly are not read, but their changes also trigger a
// reconcile.
func (c *HashCache) HashesFor(ctx context.Context, app types.NamespacedName, components []desired.ExpandedComponent, seen rollout.Observed, watchOnly []desired.Ref) (desired.RefStates, error) {
	var refs []desired.Ref
	requestedKeys := map[configRef][]string{}
	for _, component := range components {
		for _, ref := range desired.Refs(component) {
			s := configRefOf(app.Namespace, ref)
			refs, requestedKeys[s] = append(refs, ref), append(requestedKeys[s], ref.Keys)
		}
	}
	c.setRefs(app, slices.Concat(refs, watchOnly)) // before reading, so that a concurrent change triggers a reconcile
	if len(refs) == 0 {
		return nil, nil
	}
	recorded := map[desired.Ref][]desired.RefState{}
	for _, live := range seen {
		for ref, content := range desired.RecordedRefs(c.keys, live) {
			recorded[ref] = append(recorded[ref], content)
		}
	}
	out := desired.RefStates{}
	for _, ref := range refs {
		s := configRefOf(app.Namespace, ref)
		content, err := c.hashOf(ctx, s, ref.Keys, recorded[ref], requestedKeys[s])
		if err != nil {
			return nil, err
		}
		if content != nil {
			out[ref] = *content
		}
	}
	return out, nil
}

func configRefOf(namespace string, ref desired.Ref) configRef {
	return configRef{ref.Kind, types.NamespacedName{Namespace: namespace, Name: ref.Name}}
}

// hashOf returns the state of some keys of an object; nil if the object does not exist. A read hashes all
// requested keys at once.
func (c *HashCache) hashOf(ctx context.Context, s configRef, keys string, recorded []desired.RefState, requestedKeys []string) (*desired.RefState, error) {
	current := &metav1.PartialObjectMetadata{}
	current.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(s.kind))
	if err := c.cache.Get(ctx, s.NamespacedName, current); apierrors.IsNotFound(err) {
		if len(recorded) > 0 {
			return nil, nil // it was deleted
		}
		return c.readUncached(ctx, s, keys, requestedKeys)
	} else if err != nil {
		return nil, fmt.Errorf("get %s: %w", s, err)
	}
	c.setMissing(s, false)
	isCurrent := func(r desired.RefState) bool {
		return r.IsCurrent(current)
	}
	if found := c.currentRecord(ctx, s.kind, slices.DeleteFunc(slices.Clone(recorded), func(r desired.RefState) bool { return !isCurrent(r) })); found != nil {
		return found, nil
	}
	// One goroutine reads, and the others that need the same object wait for it.
	c.readLocks.LockKey(s.String())
	defer func() { _ = c.readLocks.UnlockKey(s.String()) }()
	if r, ok := c.cachedHash(s, keys); ok && isCurrent(r) {
		return &r, nil
	}
	return c.readAndHash(ctx, s, keys, requestedKeys)
}

// currentRecord returns a record of the current version that was computed with the current HMAC key, or nil. After the
// loss of the key the object is read again, because a later version could not be compared.
func (c *HashCache) currentRecord(ctx context.Context, kind string, records []desired.RefState) *desired.RefState {
	for i := range records {
		if records[i].KeyID == "" {
			return &records[i]
		}
		keyID, err := c.hmacKey.idFor(ctx, kind)
		if err != nil || records[i].KeyID == keyID { // the content has not changed; only a later version needs the key
			return &records[i]
		}
	}
	return nil
}

// readUncached checks once with the API server whether an object exists that the cache lacks. The cache
// can receive an application before a Secret that was created earlier, and pods created without the Secret
// would be replaced immediately.
func (c *HashCache) readUncached(ctx context.Context, s configRef, keys string, requestedKeys []string) (*desired.RefState, error) {
	c.readLocks.LockKey(s.String())
	defer func() { _ = c.readLocks.UnlockKey(s.String()) }()
	c.mu.Lock()
	missing := c.missing[s]
	c.mu.Unlock()
	if missing {
		return nil, nil
	}
	content, err := c.readAndHash(ctx, s, keys, requestedKeys)
	if err == nil && content == nil {
		c.setMissing(s, true)
	}
	return content, err
}

func (c *HashCache) setMissing(s configRef, missing bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if missing && c.consumers[s] != nil {
		c.missing[s] = true
		return
	}
	delete(c.missing, s)
}

func (c *HashCache) cachedHash(s configRef, keys string) (content desired.RefState, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cached := c.hashes[s]
	hash, ok := cached.byKeys[keys]
	return desired.RefState{UID: cached.uid, ResourceVersion: cached.resourceVersion, Hash: hash, KeyID: cached.keyID}, ok
}

// readAndHash reads an object from the API server and discards its content after hashing.
func (c *HashCache) readAndHash(ctx context.Context, s configRef, keys string, requestedKeys []string) (*desired.RefState, error) {
	obj, data, err := c.getData(ctx, s)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", s, err)
	}
	hmacKey, err := c.hmacKey.keyFor(ctx, s.kind)
	if err != nil {
		return nil, err
	}
	keyID, err := c.hmacKey.idFor(ctx, s.kind)
	if err != nil {
		return nil, err
	}
	out := &desired.RefState{UID: obj.GetUID(), ResourceVersion: obj.GetResourceVersion(), Hash: desired.HashRefData(data, keys, hmacKey), KeyID: keyID}
	c.mu.Lock()
	defer c.mu.Unlock()
	cached := c.hashes[s]
	if cached.uid != out.UID || cached.resourceVersion != out.ResourceVersion {
		cached = versionHashes{uid: out.UID, resourceVersion: out.ResourceVersion, keyID: keyID, byKeys: map[string]string{}}
	}
	for _, k := range requestedKeys {
		cached.byKeys[k] = desired.HashRefData(data, k, hmacKey)
	}
	if c.consumers[s] != nil {
		c.hashes[s] = cached
	}
	return out, nil
}

func (c *HashCache) getData(ctx context.Context, s configRef) (client.Object, map[string][]byte, error) {
	if s.kind == desired.RefSecret {
		var secret corev1.Secret
		err := c.apiReader.Get(ctx, s.NamespacedName, &secret)
		return &secret, secret.Data, err
	}
	var config corev1.ConfigMap
	err := c.apiReader.Get(ctx, s.NamespacedName, &config)
	return &config, desired.ConfigMapData(&config), err
}

// Forget removes a deleted application.
func (c *HashCache) Forget(app types.NamespacedName) { c.setRefs(app, nil) }

// setRefs records the references of an application.
func (c *HashCache) setRefs(app types.NamespacedName, refs []desired.Ref) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var current []configRef
	for _, ref := range refs {
		s := configRefOf(app.Namespace, ref)
		if slices.Contains(current, s) {
			continue
		}
		current = append(current, s)
		if c.consumers[s] == nil {
			c.consumers[s] = map[types.NamespacedName]bool{}
		}
		c.consumers[s][app] = true
	}
	for _, s := range c.refsByApp[app] {
		if slices.Contains(current, s) {
			continue
		}
		if delete(c.consumers[s], app); len(c.consumers[s]) == 0 {
			delete(c.consumers, s)
			delete(c.hashes, s)
			delete(c.missing, s)
		}
	}
	if c.refsByApp[app] = current; len(current) == 0 {
		delete(c.refsByApp, app)
	}
}

// RequestsForConsumers returns a function that maps a changed ConfigMap or Secret to the applications that
// reference it.
func (c *HashCache) RequestsForConsumers(kind string) func(context.Context, client.Object) []reconcile.Request {
	return func(_ context.Context, obj client.Object) []reconcile.Request {
		c.mu.Lock()
		defer c.mu.Unlock()
		var out []reconcile.Request
		for app := range c.consumers[configRef{kind, client.ObjectKeyFromObject(obj)}] {
			out = append(out, reconcile.Request{NamespacedName: app})
		}
		return out
	}
}

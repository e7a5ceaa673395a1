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

// HashCache knows the hashes of the ConfigMaps and Secrets that applications refer to, and
// who refers to them. Of these objects the cache keeps that they exist and in which
// version; only a version that nobody has seen is read, once.
type HashCache struct {
	cache     client.Reader
	apiReader client.Reader
	hmacKey   *HMACKey
	// readLocks has a lock for every source that is being read.
	readLocks keymutex.KeyMutex

	mu     sync.Mutex
	hashes map[configRef]versionHashes
	// missing are those that the API server said do not exist.
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

// versionHashes are of one version of a source, by the keys that were asked for.
type versionHashes struct {
	uid             types.UID
	resourceVersion string
	byKeys          map[string]string
}

// New returns an empty cache. Of objects that pods refer to, cache has metadata only; apiReader reads
// their content.
func New(cache, apiReader client.Reader, key *HMACKey) *HashCache {
	return &HashCache{
		cache: cache, apiReader: apiReader, hmacKey: key, readLocks: keymutex.NewHashed(0),
		hashes: map[configRef]versionHashes{}, missing: map[configRef]bool{}, consumers: map[configRef]map[types.NamespacedName]bool{}, refsByApp: map[types.NamespacedName][]configRef{},
	}
}

// HashesFor returns the contents that the components of an application refer to. What is written
// down on a child need not be read. Of others that it uses nothing is read, but a change of
// them wakes it, too.
func (c *HashCache) HashesFor(ctx context.Context, app types.NamespacedName, components []appsapi.Component, seen rollout.Observed, watchOnly []desired.Ref) (desired.RefStates, error) {
	var refs []desired.Ref
	requestedKeys := map[configRef][]string{}
	for _, component := range components {
		for _, ref := range desired.Refs(component) {
			s := configRefOf(app.Namespace, ref)
			refs, requestedKeys[s] = append(refs, ref), append(requestedKeys[s], ref.Keys)
		}
	}
	c.setRefs(app, slices.Concat(refs, watchOnly)) // before looking, so that a change in between wakes us
	if len(refs) == 0 {
		return nil, nil
	}
	recorded := map[desired.Ref][]desired.RefState{}
	for _, live := range seen {
		for ref, content := range desired.RecordedRefs(live) {
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

// hashOf returns what is known of some keys of an object, and nil when there is no such
// object. If it has to be read, then at once for all that is asked of it.
func (c *HashCache) hashOf(ctx context.Context, s configRef, keys string, recorded []desired.RefState, requestedKeys []string) (*desired.RefState, error) {
	current := &metav1.PartialObjectMetadata{}
	current.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(s.kind))
	if err := c.cache.Get(ctx, s.NamespacedName, current); apierrors.IsNotFound(err) {
		if len(recorded) > 0 {
			return nil, nil // it was there, and has gone
		}
		return c.readUncached(ctx, s, keys, requestedKeys)
	} else if err != nil {
		return nil, fmt.Errorf("get %s: %w", s, err)
	}
	c.setMissing(s, false)
	isCurrent := func(r desired.RefState) bool {
		return r.IsCurrent(current)
	}
	if i := slices.IndexFunc(recorded, isCurrent); i >= 0 {
		return &recorded[i], nil
	}
	// Of many that share it one reads, and the others wait for that.
	c.readLocks.LockKey(s.String())
	defer func() { _ = c.readLocks.UnlockKey(s.String()) }()
	if r, ok := c.cachedHash(s, keys); ok && isCurrent(r) {
		return &r, nil
	}
	return c.readAndHash(ctx, s, keys, requestedKeys)
}

// readUncached asks the API server, once, whether there is what the cache lacks. Nothing says that
// the cache hears of a Secret before it hears of the application that was made after it, and
// pods that were made without it would be replaced at once.
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
	return desired.RefState{UID: cached.uid, ResourceVersion: cached.resourceVersion, Hash: hash}, ok
}

// readAndHash asks the API server. The content itself is forgotten at once.
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
	out := &desired.RefState{UID: obj.GetUID(), ResourceVersion: obj.GetResourceVersion(), Hash: desired.HashRefData(data, keys, hmacKey)}
	c.mu.Lock()
	defer c.mu.Unlock()
	cached := c.hashes[s]
	if cached.uid != out.UID || cached.resourceVersion != out.ResourceVersion {
		cached = versionHashes{uid: out.UID, resourceVersion: out.ResourceVersion, byKeys: map[string]string{}}
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

// Forget drops an application that is gone.
func (c *HashCache) Forget(app types.NamespacedName) { c.setRefs(app, nil) }

// setRefs notes what an application refers to.
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

// RequestsForConsumers are the applications to wake when a ConfigMap or Secret changes.
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

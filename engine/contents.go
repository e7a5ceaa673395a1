package engine

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

	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

// contents knows the hashes of the ConfigMaps and Secrets that applications refer to, and
// who refers to them. Of these objects the cache keeps that they exist and in which
// version; only a version that nobody has seen is read, once.
type contents struct {
	cache client.Reader
	live  client.Reader
	key   *contentKey
	// reading has a lock for every source that is being read.
	reading keymutex.KeyMutex

	mu    sync.Mutex
	known map[source]hashes
	// missing are those that the API server said do not exist.
	missing map[source]bool
	users   map[source]map[types.NamespacedName]bool
	uses    map[types.NamespacedName][]source
}

// source is a ConfigMap or Secret.
type source struct {
	kind string
	types.NamespacedName
}

func (s source) String() string { return s.kind + " " + s.NamespacedName.String() }

// hashes are of one version of a source, by the keys that were asked for.
type hashes struct {
	uid     types.UID
	version string
	byKeys  map[string]string
}

func newContents(cache, live client.Reader, key *contentKey) *contents {
	return &contents{
		cache: cache, live: live, key: key, reading: keymutex.NewHashed(0),
		known: map[source]hashes{}, missing: map[source]bool{}, users: map[source]map[types.NamespacedName]bool{}, uses: map[types.NamespacedName][]source{},
	}
}

// of returns the contents that the components of an application refer to. What is written
// down on a child need not be read. Of others that it uses nothing is read, but a change of
// them wakes it, too.
func (c *contents) of(ctx context.Context, app types.NamespacedName, components []Component, seen rollout.Seen, others []desired.Ref) (desired.Contents, error) {
	var refs []desired.Ref
	asked := map[source][]string{}
	for _, component := range components {
		for _, ref := range desired.Refs(component) {
			s := sourceOf(app.Namespace, ref)
			refs, asked[s] = append(refs, ref), append(asked[s], ref.Keys)
		}
	}
	c.use(app, slices.Concat(refs, others)) // before looking, so that a change in between wakes us
	if len(refs) == 0 {
		return nil, nil
	}
	recorded := map[desired.Ref][]desired.Content{}
	for _, live := range seen {
		for ref, content := range desired.Recorded(live) {
			recorded[ref] = append(recorded[ref], content)
		}
	}
	out := desired.Contents{}
	for _, ref := range refs {
		s := sourceOf(app.Namespace, ref)
		content, err := c.one(ctx, s, ref.Keys, recorded[ref], asked[s])
		if err != nil {
			return nil, err
		}
		if content != nil {
			out[ref] = *content
		}
	}
	return out, nil
}

func sourceOf(namespace string, ref desired.Ref) source {
	return source{ref.Kind, types.NamespacedName{Namespace: namespace, Name: ref.Name}}
}

// one returns what is known of some keys of an object, and nil when there is no such
// object. If it has to be read, then at once for all that is asked of it.
func (c *contents) one(ctx context.Context, s source, keys string, recorded []desired.Content, asked []string) (*desired.Content, error) {
	now := &metav1.PartialObjectMetadata{}
	now.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(s.kind))
	if err := c.cache.Get(ctx, s.NamespacedName, now); apierrors.IsNotFound(err) {
		if len(recorded) > 0 {
			return nil, nil // it was there, and has gone
		}
		return c.unseen(ctx, s, keys, asked)
	} else if err != nil {
		return nil, fmt.Errorf("get %s: %w", s, err)
	}
	c.setMissing(s, false)
	isNow := func(r desired.Content) bool {
		return r.IsOf(now)
	}
	if i := slices.IndexFunc(recorded, isNow); i >= 0 {
		return &recorded[i], nil
	}
	// Of many that share it one reads, and the others wait for that.
	c.reading.LockKey(s.String())
	defer func() { _ = c.reading.UnlockKey(s.String()) }()
	if r, ok := c.remembered(s, keys); ok && isNow(r) {
		return &r, nil
	}
	return c.read(ctx, s, keys, asked)
}

// unseen asks the API server, once, whether there is what the cache lacks. Nothing says that
// the cache hears of a Secret before it hears of the application that was made after it, and
// pods that were made without it would be replaced at once.
func (c *contents) unseen(ctx context.Context, s source, keys string, asked []string) (*desired.Content, error) {
	c.reading.LockKey(s.String())
	defer func() { _ = c.reading.UnlockKey(s.String()) }()
	c.mu.Lock()
	missing := c.missing[s]
	c.mu.Unlock()
	if missing {
		return nil, nil
	}
	content, err := c.read(ctx, s, keys, asked)
	if err == nil && content == nil {
		c.setMissing(s, true)
	}
	return content, err
}

func (c *contents) setMissing(s source, missing bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if missing && c.users[s] != nil {
		c.missing[s] = true
		return
	}
	delete(c.missing, s)
}

func (c *contents) remembered(s source, keys string) (content desired.Content, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.known[s]
	hash, ok := known.byKeys[keys]
	return desired.Content{UID: known.uid, ResourceVersion: known.version, Hash: hash}, ok
}

// read asks the API server. The content itself is forgotten at once.
func (c *contents) read(ctx context.Context, s source, keys string, asked []string) (*desired.Content, error) {
	obj, data, err := c.get(ctx, s)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", s, err)
	}
	secret, err := c.key.of(ctx, s.kind)
	if err != nil {
		return nil, err
	}
	out := &desired.Content{UID: obj.GetUID(), ResourceVersion: obj.GetResourceVersion(), Hash: desired.HashContent(data, keys, secret)}
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.known[s]
	if known.uid != out.UID || known.version != out.ResourceVersion {
		known = hashes{uid: out.UID, version: out.ResourceVersion, byKeys: map[string]string{}}
	}
	for _, k := range asked {
		known.byKeys[k] = desired.HashContent(data, k, secret)
	}
	if c.users[s] != nil {
		c.known[s] = known
	}
	return out, nil
}

func (c *contents) get(ctx context.Context, s source) (client.Object, map[string][]byte, error) {
	if s.kind == desired.RefSecret {
		var secret corev1.Secret
		err := c.live.Get(ctx, s.NamespacedName, &secret)
		return &secret, secret.Data, err
	}
	var config corev1.ConfigMap
	err := c.live.Get(ctx, s.NamespacedName, &config)
	return &config, desired.ContentOf(&config), err
}

// use notes what an application refers to.
func (c *contents) use(app types.NamespacedName, refs []desired.Ref) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var now []source
	for _, ref := range refs {
		s := sourceOf(app.Namespace, ref)
		if slices.Contains(now, s) {
			continue
		}
		now = append(now, s)
		if c.users[s] == nil {
			c.users[s] = map[types.NamespacedName]bool{}
		}
		c.users[s][app] = true
	}
	for _, s := range c.uses[app] {
		if slices.Contains(now, s) {
			continue
		}
		if delete(c.users[s], app); len(c.users[s]) == 0 {
			delete(c.users, s)
			delete(c.known, s)
			delete(c.missing, s)
		}
	}
	if c.uses[app] = now; len(now) == 0 {
		delete(c.uses, app)
	}
}

// usersOf are the applications to wake when a ConfigMap or Secret changes.
func (c *contents) usersOf(kind string) func(context.Context, client.Object) []reconcile.Request {
	return func(_ context.Context, obj client.Object) []reconcile.Request {
		c.mu.Lock()
		defer c.mu.Unlock()
		var out []reconcile.Request
		for app := range c.users[source{kind, client.ObjectKeyFromObject(obj)}] {
			out = append(out, reconcile.Request{NamespacedName: app})
		}
		return out
	}
}

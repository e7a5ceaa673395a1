package database

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/mariadb"
	"github.com/holdfast-dev/holdfast/internal/mariadb/session"
	"github.com/holdfast-dev/holdfast/internal/rotation"
	"github.com/holdfast-dev/holdfast/internal/testutil/mariadbd"
)

var rotationCount = flag.Int("rotations", 12, "number of rotations with crashes, per server version")

// crash is the panic of a simulated crash.
type crash struct{ step rotation.Step }

// crashAfter runs a reconcile that crashes after this many steps, and reports whether it crashed.
func (h *harness) crashAfter(steps int) (crashed bool) {
	h.Helper()
	defer func() {
		if e := recover(); e != nil {
			if _, ok := e.(crash); !ok {
				panic(e)
			}
			crashed = true
		}
	}()
	n := 0
	_, err := h.reconciler(func(s rotation.Step) {
		if n++; n > steps {
			panic(crash{s})
		}
	}).Reconcile(h.Context(), h.db)
	h.must(err)
	return false
}

// TestRotationSurvivesCrashAfterAnyStep checks that after a crash at any step a stored password is
// valid, and that the next reconciler ends with exactly one password.
func TestRotationSurvivesCrashAfterAnyStep(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	for _, version := range mariadbd.Versions {
		t.Run(version, func(t *testing.T) {
			h := newHarness(t, c, version, "killed-"+strings.ReplaceAll(version, ".", "-"))
			h.reconcile()
			h.checkLogins("before")
			rng := rand.New(rand.NewPCG(uint64(*rotationCount), 7))
			crashes := 0
			for i := range *rotationCount {
				former := h.secretData(h.db.Secret)
				h.requestRotation(rng, i)
				for rotating := true; rotating; rotating = h.isRotating() {
					for h.crashAfter(rng.IntN(2)) {
						crashes++
						h.checkLogins(fmt.Sprintf("rotation %d after %d crashes", i, crashes))
						if rng.IntN(2) == 0 {
							h.rollConsumers()
						}
					}
					h.rollConsumers()
				}
				h.reconcile()
				h.checkRotated(former, i)
			}
			t.Logf("%d rotations, %d crashes", *rotationCount, crashes)
		})
	}
}

// requestRotation changes the passwords in one of the possible ways.
func (h *harness) requestRotation(rng *rand.Rand, i int) {
	h.Helper()
	if i%3 == 0 {
		h.db.RootCredential.Value, h.db.UserCredential.Value = "", ""
		h.db.RotationRequestedAt = fmt.Sprint(i)
		return
	}
	h.db.RootCredential.Value, h.db.UserCredential.Value = oddPassword(rng), oddPassword(rng)
}

// oddPassword is a password with characters that need quoting.
func oddPassword(rng *rand.Rand) string {
	const odd = "'\"`\\$!%_;#-@:/?& {}[]()<>|*~^+=,.abcXYZ019äß€漢"
	letters := []rune(odd)
	var b strings.Builder
	for range 8 + rng.IntN(24) {
		b.WriteRune(letters[rng.IntN(len(letters))])
	}
	return b.String()
}

// checkRotated fails unless each account has exactly one new password.
func (h *harness) checkRotated(former map[string]string, i int) {
	h.Helper()
	stored := h.secretData(h.db.Secret)
	for key, a := range map[string]struct{ user, want string }{mariadb.KeyRootPassword: {session.Root, h.db.RootCredential.Value}, mariadb.KeyPassword: {h.db.Schema, h.db.UserCredential.Value}} {
		if stored[pendingPrefix+key] != "" || stored[key] == former[key] || a.want != "" && stored[key] != a.want {
			h.Fatalf("rotation %d: the rotation of %s is not complete", i, key)
		}
		if !h.canLogIn(a.user, stored[key]) || h.canLogIn(a.user, former[key]) {
			h.Fatalf("rotation %d: %s is not the only password of %s", i, key, a.user)
		}
		if stored[mariadb.HashKey(key)] != mariadb.Hash(stored[key]) {
			h.Fatalf("rotation %d: the stored hash of %s is outdated", i, key)
		}
	}
	if h.secretData(h.db.Binding)[bindingPassword] != stored[mariadb.KeyPassword] {
		h.Fatalf("rotation %d: the binding has another password", i)
	}
}

// TestCreatesAccountAndBinding starts with a volume that has only root.
func TestCreatesAccountAndBinding(t *testing.T) {
	t.Parallel()
	h := newHarness(t, newClient(t), "11.8", "made")
	state := h.reconcile()
	if state.Version.Series() != "11.8" || state.Rotating {
		t.Errorf("got %+v", state)
	}
	if h.rollConsumers(); state.BindingVersion != h.db.ConsumedBinding || h.reconcile().BindingVersion != h.db.ConsumedBinding {
		t.Errorf("the binding has version %s, the state has %s", h.db.ConsumedBinding, state.BindingVersion)
	}
	binding := h.secretData(h.db.Binding)
	want := map[string]string{
		"ca.crt": h.secretData(h.db.Secret)[mariadb.KeyCA],
		"type":   "mysql", "provider": "mariadb", "host": "made.default.svc", "port": "3306", "username": "shop", "database": "shop",
		"password": "the first one", "uri": "mysql://shop:the%20first%20one@made.default.svc:3306/shop",
	}
	if !maps.Equal(binding, want) {
		t.Errorf("the binding contains %v", binding)
	}
	h.checkLogins("made")
}

// TestAwaitsConsumers checks that a rotation waits for clients and reports that.
func TestAwaitsConsumers(t *testing.T) {
	t.Parallel()
	h := newHarness(t, newClient(t), "10.11", "awaits")
	h.reconcile()
	h.rollConsumers()
	h.db.UserCredential.Value = "the next one"
	if state := h.reconcile(); !state.Rotating {
		t.Error("the rotation is not reported")
	}
	for _, password := range []string{"the first one", "the next one"} {
		if !h.canLogIn("shop", password) {
			t.Errorf("%q is not valid while clients use it", password)
		}
	}
	h.db.UserCredential.Value = "the first one" // the spec is reverted
	for h.reconcile().Rotating {
		h.rollConsumers()
	}
	if h.canLogIn("shop", "the next one") || !h.canLogIn("shop", "the first one") || h.secretData(h.db.Binding)["password"] != "the first one" {
		t.Error("the former password was not restored")
	}
}

// TestRotatesOnSchedule checks that generated passwords are rotated on schedule, and declared ones
// are not.
func TestRotatesOnSchedule(t *testing.T) {
	t.Parallel()
	h := newHarness(t, newClient(t), "11.8", "scheduled")
	h.db.Rotation.EveryDays = new(int32(30))
	state := h.reconcile()
	if days := time.Until(state.NextRotation).Hours() / 24; days < 29 || days > 31 {
		t.Errorf("the next rotation is %s", state.NextRotation)
	}
	former := h.secretData(h.db.Secret)
	h.clock = clocktesting.NewFakePassiveClock(time.Now().AddDate(0, 0, 31))
	for h.reconcile().Rotating {
		h.rollConsumers()
	}
	h.checkRotated(former, 0)
	if state := h.reconcile(); !state.NextRotation.After(h.clock.Now()) {
		t.Errorf("a rotation is due again: %s", state.NextRotation)
	}
	h.db.RootCredential.Value, h.db.UserCredential.Value = h.secretData(h.db.Secret)[mariadb.KeyRootPassword], h.secretData(h.db.Secret)[mariadb.KeyPassword]
	if state := h.reconcile(); !state.NextRotation.IsZero() {
		t.Errorf("without generated passwords a rotation is due at %s", state.NextRotation)
	}
}

// countingClient counts reads and writes.
type countingClient struct {
	client.Client
	reads  atomic.Int32 // some of them are parallel
	writes int
}

func (c *countingClient) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	c.reads.Add(1)
	return c.Client.Get(ctx, key, o, opts...)
}

func (c *countingClient) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	c.writes++
	return c.Client.Patch(ctx, o, p, opts...)
}

func (c *countingClient) Apply(ctx context.Context, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	c.writes++
	return c.Client.Apply(ctx, o, opts...)
}

// TestReconcileRequestBudget limits the requests of reconciles that clients wait for.
func TestReconcileRequestBudget(t *testing.T) {
	t.Parallel()
	h := newHarness(t, newClient(t), mariadbd.Versions[0], "once")
	expectRequests := func(what string, reads, writes int) {
		t.Helper()
		c := &countingClient{Client: h.client}
		_, err := (&Reconciler{Keys: appsapi.DefaultKeys, Reader: c, Writer: c, Clock: h.clock, Certificates: h.certificates}).Reconcile(t.Context(), h.db)
		h.must(err)
		if got := int(c.reads.Load()); got != reads || c.writes != writes {
			t.Errorf("%s took %d reads and %d writes, want %d and %d", what, got, c.writes, reads, writes)
		}
	}
	expectRequests("the first reconcile", 3, 2) // reads: passwords, binding, its owner; writes: binding, hashes
	expectRequests("a reconcile without changes", 2, 0)
	h.db.RotationRequestedAt = "now"
	expectRequests("a rotation until clients must roll out", 7, 3) // both passwords stored; root promoted; the binding
}

// TestRestoredSecretIsNotWritten reconciles while a user has restored the passwords and the operator has not labeled them
// yet: the admission policy rejects writes to Secrets of others.
func TestRestoredSecretIsNotWritten(t *testing.T) {
	t.Parallel()
	h := newHarness(t, newClient(t), mariadbd.Versions[0], "restored")
	h.must(h.client.Patch(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: h.db.Namespace, Name: h.db.Secret}},
		client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":null}}`))))
	before := h.secretData(h.db.Secret)
	h.db.RotationRequestedAt = "now"
	_, err := h.reconciler(nil).Reconcile(t.Context(), h.db)
	if err == nil || !strings.Contains(err.Error(), "has no labels yet") {
		t.Errorf("got %v", err)
	}
	if diff := cmp.Diff(before, h.secretData(h.db.Secret)); diff != "" {
		t.Errorf("the Secret was changed (-before +after):\n%s", diff)
	}
}

// rendezvousClient is a client whose first two reads wait for each other.
type rendezvousClient struct {
	client.Client
	arrived atomic.Int32
	both    sync.WaitGroup
}

func (m *rendezvousClient) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if m.arrived.Add(1) <= 2 {
		m.both.Done()
		bothArrived := make(chan struct{})
		go func() { m.both.Wait(); close(bothArrived) }()
		select {
		case <-bothArrived:
		case <-ctx.Done():
			return fmt.Errorf("read %s alone: %w", key, ctx.Err())
		}
	}
	return m.Client.Get(ctx, key, o, opts...)
}

// TestReconcileReadsInParallel checks that passwords and binding are read in parallel.
func TestReconcileReadsInParallel(t *testing.T) {
	t.Parallel()
	h := newHarness(t, newClient(t), mariadbd.Versions[0], "at-once")
	m := &rendezvousClient{Client: h.client}
	m.both.Add(2)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	_, err := (&Reconciler{Keys: appsapi.DefaultKeys, Reader: m, Writer: h.client, Clock: h.clock, Certificates: h.certificates}).Reconcile(ctx, h.db)
	h.must(err)
}

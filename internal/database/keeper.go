package database

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/mariadb"
	"github.com/holdfast-dev/holdfast/internal/mariadb/session"
	"github.com/holdfast-dev/holdfast/internal/own"
	"github.com/holdfast-dev/holdfast/internal/password"
	"github.com/holdfast-dev/holdfast/internal/rotation"
)

// Database is what has to be known of a database to keep it.
type Database struct {
	Namespace string
	// Address is where the operator reaches the server, and Host where everybody else does.
	Address, Host string
	// Secret has the passwords, and Binding says how to get in.
	Secret, Binding string
	// Labels and Owner are those of the binding.
	Labels map[string]string
	Owner  *metav1ac.OwnerReferenceApplyConfiguration
	// Schema is also the name of the account.
	Schema string
	// Root and User say where declared passwords come from; of others Value and SecretRef are
	// empty.
	Root, User appsapi.Credential
	Rotation   appsapi.DatabaseRotation
	// Opened says that somebody of ours got in before, whenever that was.
	Opened bool
	// Known is the version of the binding that everybody knows who uses the database; "" when
	// somebody was told something else.
	Known string
}

// Wants is equal for what is kept in the same way.
func (d Database) Wants() string {
	days := int32(0)
	if d.Rotation.EveryDays != nil {
		days = *d.Rotation.EveryDays
	}
	declared := func(c appsapi.Credential) string {
		if c.SecretRef != nil {
			return c.SecretRef.Name + "/" + c.SecretRef.Key
		}
		return mariadb.Hash(c.Value)
	}
	return fmt.Sprintf("%s %s %d %s %s", d.Schema, d.Rotation.RequestedAt, days, declared(d.Root), declared(d.User))
}

// State is what a visit has found.
type State struct {
	Version mariadb.Version
	// Rotating says that a password is on its way to another one, and waits for those who use it.
	Rotating bool
	// Full says that nobody gets in any more but the operator, and Limited that the account does not.
	Full, Limited bool
	// NextRotation is when the next one is due; zero when none is.
	NextRotation time.Time
	// Binding is the version of the Secret that tells how to get in.
	Binding string
	// password is that of the account.
	password string
}

// Keeper visits databases.
type Keeper struct {
	// Reader asks the API server itself.
	Reader client.Reader
	Writer client.Client
	Clock  clock.PassiveClock
	// after is called after every step; tests are killed there.
	after func(rotation.Step)
}

// Refusal is why a database is not right and cannot be made right by us.
type Refusal struct{ Reason, Why string }

func (r *Refusal) Error() string { return r.Why }

// maxSteps is more than two accounts can take; what needs more goes round in circles.
const maxSteps = 24

// Visit makes a database right, as far as that is possible now.
func (k *Keeper) Visit(ctx context.Context, d Database) (State, error) {
	last := rotation.Rest
	for range maxSteps {
		state, step, err := k.step(ctx, d)
		switch {
		case apierrors.IsConflict(err):
			continue // somebody else has written; look again
		case err != nil || step == rotation.Rest || step == rotation.Await:
			return state, err
		}
		k.done(step)
		last = step
	}
	if last == rotation.One {
		return State{}, shutOut(d)
	}
	return State{}, fmt.Errorf("the accounts of the database on %s do not come to rest after %d steps", d.Host, maxSteps)
}

func (k *Keeper) done(step rotation.Step) {
	if k.after != nil {
		k.after(step)
	}
}

// Pulse says whether a server that was right still lets its application in. It costs one login, and
// nothing of the API server.
func (k *Keeper) Pulse(ctx context.Context, d Database, was State) error {
	l := session.Login{Address: (&server{address: d.Address}).at(mariadb.Port), User: d.Schema, Password: was.password, Schema: d.Schema}
	open, err := l.Opens(ctx)
	if err == nil && !open {
		return fmt.Errorf("the database on %s does not let %s in any more", d.Host, d.Schema)
	}
	return err
}

// step looks at everything, and does what comes next until something has to be read again.
func (k *Keeper) step(ctx context.Context, d Database) (State, rotation.Step, error) {
	s, told, err := k.read(ctx, d)
	if err != nil {
		return State{}, "", err
	}
	at := &server{address: d.Address}
	root, user, err := k.accounts(ctx, d, s, told, at)
	if err != nil {
		return State{}, "", err
	}
	state := State{Rotating: user.Pending != "" || root.Pending != "", Full: at.full, Limited: at.limited, Binding: user.version, password: user.Password}
	if e := d.Rotation.EveryDays; e != nil && (root.Wanted == "" || user.Wanted == "") {
		state.NextRotation = s.rotated().AddDate(0, 0, int(*e))
	}
	switch {
	case root.Password == "" && root.Pending == "":
		lost := own.Lost(desired.Owner{Namespace: d.Namespace}, d.Secret, root.key)
		return state, "", &Refusal{Reason: appsapi.ReasonCredentialsLost, Why: lost.Why}
	case !root.Opens && !root.PendingOpens:
		// A reset sets what is stored now, and not what was stored when somebody still got in.
		if err := k.complete(ctx, s); err != nil {
			return state, "", err
		}
		return state, "", lockedOut(d)
	}
	if mended, err := k.mend(ctx, s, at, user); mended || err != nil {
		return state, rotation.Remember, err
	}
	in, err := at.asRoot(ctx, root.Password, root.Pending)
	if err != nil {
		return state, "", err
	}
	defer in.Close()
	if state.Version, err = in.Version(ctx); err != nil {
		return state, "", err
	}
	user.OneOnly, root.OneOnly = !state.Version.TwoPasswords(), !state.Version.TwoPasswords()
	var due []*account
	for _, a := range []*account{root, user} {
		step, err := k.advance(ctx, d, s, in, at, a)
		state.Binding = user.version
		switch {
		case err == nil && step == rotation.Remember:
			due = append(due, a)
		case err != nil || step != rotation.Rest:
			return state, step, err
		}
	}
	if len(due) > 0 { // at once: a request is for both, and is heard once
		return state, rotation.Remember, k.remember(ctx, d, s, due)
	}
	return state, rotation.Rest, k.complete(ctx, s)
}

// advance does what comes next for an account, until the Secret has to be read again: somebody waits to be let in, so what
// the server was given is tried at once, and what others were told is not asked for.
func (k *Keeper) advance(ctx context.Context, d Database, s stored, in *session.Session, at *server, a *account) (rotation.Step, error) {
	var step rotation.Step
	for range maxSteps {
		step = rotation.Next(a.Account)
		if step == rotation.Rest || step == rotation.Remember || step == rotation.Await {
			return step, nil
		}
		if err := k.do(ctx, d, s, in, a, step); err != nil {
			return step, err
		}
		switch step {
		case rotation.Bind:
			a.Told, a.Rolled = a.Final(), a.version == d.Known
		case rotation.One, rotation.Both:
			if err := a.look(ctx, at); err != nil {
				return step, err
			}
		default:
			return step, nil
		}
		if rotation.Next(a.Account) == step { // it did not help
			return step, nil
		}
		k.done(step)
	}
	return step, nil
}

// mend stores a password for the account where there is none, or none that opens: the one that those know who
// use it, as long as that opens; what was stored instead is what it is to become.
func (k *Keeper) mend(ctx context.Context, s stored, at *server, user *account) (mended bool, err error) {
	if user.Pending != "" || user.Opens {
		return false, nil
	}
	toldOpens := false
	if user.Told != "" && user.Told != wrong {
		if toldOpens, err = at.opens(ctx, user.user, user.Told, user.user); err != nil {
			return false, err
		}
	}
	switch {
	case toldOpens:
		s.adopt(user.key, user.Told)
	case user.Password == "":
		s.adopt(user.key, password.New())
	default:
		return false, nil
	}
	return true, k.write(ctx, s)
}

// remember writes down what accounts are to get.
func (k *Keeper) remember(ctx context.Context, d Database, s stored, accounts []*account) error {
	for _, a := range accounts {
		next := a.Wanted
		if next == "" {
			next = password.New()
			s.note(d.Rotation.RequestedAt, k.Clock.Now())
		}
		s.remember(a.key, next)
	}
	return k.write(ctx, s)
}

// read is what is stored, and what others are told, as it is now. Both at once: somebody waits.
func (k *Keeper) read(ctx context.Context, d Database) (s stored, t told, err error) {
	var group errgroup.Group
	group.Go(func() error {
		var err error
		t, err = k.told(ctx, d)
		return err
	})
	s, err = k.stored(ctx, d)
	err = cmp.Or(err, group.Wait())
	return s, t, err
}

// do is one step: one write to the API server, or one statement to the server.
func (k *Keeper) do(ctx context.Context, d Database, s stored, in *session.Session, a *account, step rotation.Step) error {
	switch step {
	case rotation.Turn:
		s.turn(a.key)
		return k.write(ctx, s)
	case rotation.Forget:
		if a.Password == a.Pending { // the server may still take a third one, which nobody knows any more
			if err := k.one(ctx, d, in, a); err != nil {
				return err
			}
		}
		s.forget(a.key)
		return k.write(ctx, s)
	case rotation.Both:
		if err := k.ensure(ctx, d, in, a, mariadb.Hash(a.Password)); err != nil {
			return err
		}
		return in.SetPasswords(ctx, a.user, mariadb.Hash(a.Password), mariadb.Hash(a.Pending))
	case rotation.One:
		return k.one(ctx, d, in, a)
	case rotation.Bind:
		var err error
		a.version, err = k.bind(ctx, d, a.Final())
		return err
	case rotation.Rest, rotation.Await, rotation.Remember:
	}
	return nil
}

// one makes an account take one password.
func (k *Keeper) one(ctx context.Context, d Database, in *session.Session, a *account) error {
	hash := mariadb.Hash(a.Final())
	if err := k.ensure(ctx, d, in, a, hash); err != nil {
		return err
	}
	return in.SetPasswords(ctx, a.user, hash)
}

// ensure makes the application's account if there is none, and gives it its rights: a volume may be older
// than it, or come from somewhere else.
func (k *Keeper) ensure(ctx context.Context, d Database, in *session.Session, a *account, hash string) error {
	if a.user != d.Schema {
		return nil
	}
	return in.EnsureAccount(ctx, a.user, d.Schema, hash)
}

// complete adds to the Secret what pods are shown.
func (k *Keeper) complete(ctx context.Context, s stored) error {
	root, user := s.complete(mariadb.KeyRootPassword), s.complete(mariadb.KeyPassword)
	if !root && !user {
		return nil
	}
	return k.write(ctx, s)
}

func (k *Keeper) write(ctx context.Context, s stored) error {
	err := k.Writer.Patch(ctx, s.Secret, client.MergeFromWithOptions(s.before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(appsapi.FieldManager))
	if err == nil || apierrors.IsConflict(err) {
		return err
	}
	return fmt.Errorf("update Secret %s/%s: %w", s.Namespace, s.Name, err)
}

func lockedOut(d Database) error {
	why := "somebody has changed it in the server. Put the right one under the key " + mariadb.KeyRootPassword + ", or have it reset"
	if !d.Opened {
		why = "it has never let us in, so its first start was interrupted, or the volume is that of another database. " +
			"Put the right password under the key " + mariadb.KeyRootPassword + ", or have this one set"
	}
	return &Refusal{Reason: appsapi.ReasonCredentialsMismatch, Why: fmt.Sprintf(
		"No password in Secret %s/%s opens the database as root: %s, which restarts the server once: kubectl annotate secret %s -n %s --overwrite %s=$(date +%%s)",
		d.Namespace, d.Secret, why, d.Secret, d.Namespace, appsapi.AnnotationResetCredentials)}
}

// shutOut says that an account does not get in with the password that it was just given.
func shutOut(d Database) error {
	return &Refusal{Reason: appsapi.ReasonDatabaseRefuses, Why: fmt.Sprintf(
		"The server on %s was given the password of account %s, and does not let it in: it may demand TLS (REQUIRE SSL), be locked, or exist for another host, too, which has no right to the schema. "+
			"Look, as root: SELECT host, ssl_type FROM mysql.user WHERE user = '%s'", d.Host, d.Schema, d.Schema)}
}

// Trouble is what keeps a visit from being made; "" when it was made, or refused.
func Trouble(err error) session.Trouble {
	var refused *Refusal
	var status apierrors.APIStatus
	if err == nil || errors.As(err, &refused) || errors.As(err, &status) {
		return ""
	}
	return session.TroubleOf(err)
}

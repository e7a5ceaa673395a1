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
	"github.com/holdfast-dev/holdfast/internal/ownership"
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
	// RootCredential and User say where declared passwords come from; of others Value and SecretRef are
	// empty.
	RootCredential, UserCredential appsapi.Credential
	Rotation                       appsapi.DatabaseRotation
	// LoggedInBefore says that somebody of ours got in before, whenever that was.
	LoggedInBefore bool
	// ConsumedBinding is the version of the binding that everybody knows who uses the database; "" when
	// somebody was told something else.
	ConsumedBinding string
}

// Fingerprint is equal for what is kept in the same way.
func (d Database) Fingerprint() string {
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
	return fmt.Sprintf("%s %s %d %s %s", d.Schema, d.Rotation.RequestedAt, days, declared(d.RootCredential), declared(d.UserCredential))
}

// State is what a visit has found.
type State struct {
	Version mariadb.Version
	// Rotating says that a password is on its way to another one, and waits for those who use it.
	Rotating bool
	// ConnectionsExhausted says that nobody gets in any more but the operator, and Limited that the account does not.
	ConnectionsExhausted, AccountLimited bool
	// NextRotation is when the next one is due; zero when none is.
	NextRotation time.Time
	// BindingVersion is the version of the Secret that tells how to get in.
	BindingVersion string
	// password is that of the account.
	password string
}

// Reconciler visits databases.
type Reconciler struct {
	// Reader asks the API server itself.
	Reader client.Reader
	Writer client.Client
	Clock  clock.PassiveClock
	// afterStep is called after every step; tests are killed there.
	afterStep func(rotation.Step)
}

// ConditionError is why a database is not right and cannot be made right by us.
type ConditionError struct{ Reason, Message string }

func (r *ConditionError) Error() string { return r.Message }

// maxSteps is more than two accounts can take; what needs more goes round in circles.
const maxSteps = 24

// Reconcile makes a database right, as far as that is possible now.
func (r *Reconciler) Reconcile(ctx context.Context, d Database) (State, error) {
	last := rotation.Done
	for range maxSteps {
		state, step, err := r.runStep(ctx, d)
		switch {
		case apierrors.IsConflict(err):
			continue // somebody else has written; look again
		case err != nil || step == rotation.Done || step == rotation.AwaitConsumers:
			return state, err
		}
		r.stepDone(step)
		last = step
	}
	if last == rotation.AcceptOne {
		return State{}, loginRejectedError(d)
	}
	return State{}, fmt.Errorf("the accounts of the database on %s do not come to rest after %d steps", d.Host, maxSteps)
}

func (r *Reconciler) stepDone(step rotation.Step) {
	if r.afterStep != nil {
		r.afterStep(step)
	}
}

// Ping says whether a server that was right still lets its application in. It costs one login, and
// nothing of the API server.
func (r *Reconciler) Ping(ctx context.Context, d Database, state State) error {
	l := session.Login{Address: (&server{address: d.Address}).hostPort(mariadb.Port), User: d.Schema, Password: state.password, Schema: d.Schema}
	accepted, err := l.CanLogIn(ctx)
	if err == nil && !accepted {
		return fmt.Errorf("the database on %s does not let %s in any more", d.Host, d.Schema)
	}
	return err
}

// runStep looks at everything, and does what comes next until something has to be read again.
func (r *Reconciler) runStep(ctx context.Context, d Database) (State, rotation.Step, error) {
	s, binding, err := r.readSecrets(ctx, d)
	if err != nil {
		return State{}, "", err
	}
	srv := &server{address: d.Address}
	root, user, err := r.loadAccounts(ctx, d, s, binding, srv)
	if err != nil {
		return State{}, "", err
	}
	state := State{Rotating: user.Pending != "" || root.Pending != "", ConnectionsExhausted: srv.connectionsExhausted, AccountLimited: srv.accountLimited, BindingVersion: user.bindingVersion, password: user.Password}
	if e := d.Rotation.EveryDays; e != nil && (root.Declared == "" || user.Declared == "") {
		state.NextRotation = s.lastRotation().AddDate(0, 0, int(*e))
	}
	switch {
	case root.Password == "" && root.Pending == "":
		lost := ownership.NewLostCredential(desired.Owner{Namespace: d.Namespace}, d.Secret, root.key)
		return state, "", &ConditionError{Reason: appsapi.ReasonCredentialsLost, Message: lost.Message}
	case !root.PasswordAccepted && !root.PendingAccepted:
		// A reset sets what is stored now, and not what was stored when somebody still got in.
		if err := r.updateHashes(ctx, s); err != nil {
			return state, "", err
		}
		return state, "", lockedOutError(d)
	}
	if repaired, err := r.repairStored(ctx, s, srv, user); repaired || err != nil {
		return state, rotation.StorePending, err
	}
	conn, err := srv.openAsRoot(ctx, root.Password, root.Pending)
	if err != nil {
		return state, "", err
	}
	defer conn.Close()
	if state.Version, err = conn.Version(ctx); err != nil {
		return state, "", err
	}
	user.SinglePassword, root.SinglePassword = !state.Version.SupportsTwoPasswords(), !state.Version.SupportsTwoPasswords()
	var due []*account
	for _, a := range []*account{root, user} {
		step, err := r.advanceAccount(ctx, d, s, conn, srv, a)
		state.BindingVersion = user.bindingVersion
		switch {
		case err == nil && step == rotation.StorePending:
			due = append(due, a)
		case err != nil || step != rotation.Done:
			return state, step, err
		}
	}
	if len(due) > 0 { // at once: a request is for both, and is heard once
		return state, rotation.StorePending, r.storePending(ctx, d, s, due)
	}
	return state, rotation.Done, r.updateHashes(ctx, s)
}

// advanceAccount does what comes next for an account, until the Secret has to be read again: somebody waits to be let in, so what
// the server was given is tried at once, and what others were told is not asked for.
func (r *Reconciler) advanceAccount(ctx context.Context, d Database, s passwordSecret, conn *session.Session, srv *server, a *account) (rotation.Step, error) {
	var step rotation.Step
	for range maxSteps {
		step = rotation.Next(a.Account)
		if step == rotation.Done || step == rotation.StorePending || step == rotation.AwaitConsumers {
			return step, nil
		}
		if err := r.execute(ctx, d, s, conn, a, step); err != nil {
			return step, err
		}
		switch step {
		case rotation.UpdateBinding:
			a.Bound, a.ConsumersRolledOut = a.Target(), a.bindingVersion == d.ConsumedBinding
		case rotation.AcceptOne, rotation.AcceptBoth:
			if err := a.probe(ctx, srv); err != nil {
				return step, err
			}
		default:
			return step, nil
		}
		if rotation.Next(a.Account) == step { // it did not help
			return step, nil
		}
		r.stepDone(step)
	}
	return step, nil
}

// repairStored stores a password for the account where there is none, or none that opens: the one that those know who
// use it, as long as that opens; what was stored instead is what it is to become.
func (r *Reconciler) repairStored(ctx context.Context, s passwordSecret, srv *server, user *account) (repaired bool, err error) {
	if user.Pending != "" || user.PasswordAccepted {
		return false, nil
	}
	boundAccepted := false
	if user.Bound != "" && user.Bound != passwordInvalid {
		if boundAccepted, err = srv.accepts(ctx, user.user, user.Bound, user.user); err != nil {
			return false, err
		}
	}
	switch {
	case boundAccepted:
		s.adopt(user.key, user.Bound)
	case user.Password == "":
		s.adopt(user.key, password.New())
	default:
		return false, nil
	}
	return true, r.writeSecret(ctx, s)
}

// storePending writes down what accounts are to get.
func (r *Reconciler) storePending(ctx context.Context, d Database, s passwordSecret, accounts []*account) error {
	for _, a := range accounts {
		next := a.Declared
		if next == "" {
			next = password.New()
			s.recordRotation(d.Rotation.RequestedAt, r.Clock.Now())
		}
		s.setPending(a.key, next)
	}
	return r.writeSecret(ctx, s)
}

// readSecrets is what is stored, and what others are told, as it is now. Both at once: somebody waits.
func (r *Reconciler) readSecrets(ctx context.Context, d Database) (s passwordSecret, binding bindingState, err error) {
	var group errgroup.Group
	group.Go(func() error {
		var err error
		binding, err = r.readBinding(ctx, d)
		return err
	})
	s, err = r.readPasswords(ctx, d)
	err = cmp.Or(err, group.Wait())
	return s, binding, err
}

// execute is one step: one write to the API server, or one statement to the server.
func (r *Reconciler) execute(ctx context.Context, d Database, s passwordSecret, conn *session.Session, a *account, step rotation.Step) error {
	switch step {
	case rotation.SwapPasswords:
		s.swap(a.key)
		return r.writeSecret(ctx, s)
	case rotation.PromotePending:
		if a.Password == a.Pending { // the server may still take a third one, which nobody knows any more
			if err := r.acceptOne(ctx, d, conn, a); err != nil {
				return err
			}
		}
		s.promotePending(a.key)
		return r.writeSecret(ctx, s)
	case rotation.AcceptBoth:
		if err := r.ensureAccount(ctx, d, conn, a, mariadb.Hash(a.Password)); err != nil {
			return err
		}
		return conn.SetPasswords(ctx, a.user, mariadb.Hash(a.Password), mariadb.Hash(a.Pending))
	case rotation.AcceptOne:
		return r.acceptOne(ctx, d, conn, a)
	case rotation.UpdateBinding:
		var err error
		a.bindingVersion, err = r.applyBinding(ctx, d, a.Target())
		return err
	case rotation.Done, rotation.AwaitConsumers, rotation.StorePending:
	}
	return nil
}

// acceptOne makes an account take one password.
func (r *Reconciler) acceptOne(ctx context.Context, d Database, conn *session.Session, a *account) error {
	hash := mariadb.Hash(a.Target())
	if err := r.ensureAccount(ctx, d, conn, a, hash); err != nil {
		return err
	}
	return conn.SetPasswords(ctx, a.user, hash)
}

// ensureAccount makes the application's account if there is none, and gives it its rights: a volume may be older
// than it, or come from somewhere else.
func (r *Reconciler) ensureAccount(ctx context.Context, d Database, conn *session.Session, a *account, hash string) error {
	if a.user != d.Schema {
		return nil
	}
	return conn.EnsureAccount(ctx, a.user, d.Schema, hash)
}

// updateHashes adds to the Secret what pods are shown.
func (r *Reconciler) updateHashes(ctx context.Context, s passwordSecret) error {
	root, user := s.updateHash(mariadb.KeyRootPassword), s.updateHash(mariadb.KeyPassword)
	if !root && !user {
		return nil
	}
	return r.writeSecret(ctx, s)
}

func (r *Reconciler) writeSecret(ctx context.Context, s passwordSecret) error {
	err := r.Writer.Patch(ctx, s.Secret, client.MergeFromWithOptions(s.original, client.MergeFromWithOptimisticLock{}), client.FieldOwner(appsapi.FieldManager))
	if err == nil || apierrors.IsConflict(err) {
		return err
	}
	return fmt.Errorf("update Secret %s/%s: %w", s.Namespace, s.Name, err)
}

func lockedOutError(d Database) error {
	detail := "somebody has changed it in the server. Put the right one under the key " + mariadb.KeyRootPassword + ", or have it reset"
	if !d.LoggedInBefore {
		detail = "it has never let us in, so its first start was interrupted, or the volume is that of another database. " +
			"Put the right password under the key " + mariadb.KeyRootPassword + ", or have this one set"
	}
	return &ConditionError{Reason: appsapi.ReasonCredentialsMismatch, Message: fmt.Sprintf(
		"No password in Secret %s/%s opens the database as root: %s, which restarts the server once: kubectl annotate secret %s -n %s --overwrite %s=$(date +%%s)",
		d.Namespace, d.Secret, detail, d.Secret, d.Namespace, appsapi.AnnotationResetCredentials)}
}

// loginRejectedError says that an account does not get in with the password that it was just given.
func loginRejectedError(d Database) error {
	return &ConditionError{Reason: appsapi.ReasonDatabaseAccessDenied, Message: fmt.Sprintf(
		"The server on %s was given the password of account %s, and does not let it in: it may demand TLS (REQUIRE SSL), be locked, or exist for another host, too, which has no right to the schema. "+
			"Look, as root: SELECT host, ssl_type FROM mysql.user WHERE user = '%s'", d.Host, d.Schema, d.Schema)}
}

// ErrorKindOf is what keeps a visit from being made; "" when it was made, or refused.
func ErrorKindOf(err error) session.ErrorKind {
	var conditionErr *ConditionError
	var status apierrors.APIStatus
	if err == nil || errors.As(err, &conditionErr) || errors.As(err, &status) {
		return ""
	}
	return session.ErrorKindOf(err)
}

package database

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
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
	"github.com/holdfast-dev/holdfast/internal/servercert"
)

// Database is a database and its desired accounts.
type Database struct {
	Namespace string
	// Address is how the operator reaches the server, and Host how clients do.
	Address, Host string
	// Secret contains the passwords, and Binding the connection details for clients.
	Secret, Binding string
	// Labels and Owner are those of the binding.
	Labels map[string]string
	Owner  *metav1ac.OwnerReferenceApplyConfiguration
	// ServerName is the name in the certificate of the server.
	ServerName string
	// Schema is also the name of the account.
	Schema string
	// RootCredential and UserCredential are the sources of declared passwords. Value and SecretRef
	// of generated ones are empty.
	RootCredential, UserCredential desired.Credential
	Rotation                       appsapi.DatabaseRotation
	// RotationRequestedAt is the last requested rotation; "" if none was requested.
	RotationRequestedAt string
	// LoggedInBefore is set if the operator has ever logged in to the data.
	LoggedInBefore bool
	// ConsumedBinding is the resourceVersion of the binding that all clients use; "" if a client
	// uses another one.
	ConsumedBinding string
}

// Fingerprint is equal for databases with the same desired accounts.
func (d Database) Fingerprint() string {
	days := int32(0)
	if d.Rotation.EveryDays != nil {
		days = *d.Rotation.EveryDays
	}
	declared := func(c desired.Credential) string {
		if c.SecretRef != nil {
			return c.SecretRef.Name + "/" + c.SecretRef.Key
		}
		return mariadb.Hash(c.Value)
	}
	return fmt.Sprintf("%s %s %d %s %s", d.Schema, d.RotationRequestedAt, days, declared(d.RootCredential), declared(d.UserCredential))
}

// State is the result of a reconcile.
type State struct {
	Version mariadb.Version
	// Rotating is set while a rotation waits for clients.
	Rotating bool
	// ConnectionsExhausted means that only the operator can still log in, AccountLimited that the
	// account has reached its connection limit.
	ConnectionsExhausted, AccountLimited bool
	// NextRotation is when the next rotation is due; zero if none is scheduled.
	NextRotation time.Time
	// BindingVersion is the resourceVersion of the binding Secret.
	BindingVersion string
	// CertificateOutdated is set while the server does not use its current certificate.
	CertificateOutdated bool
	// password is the password of the account, and tls verifies the server.
	password string
	tls      *tls.Config
}

// Reconciler reconciles the accounts of databases.
type Reconciler struct {
	Keys *appsapi.Keys
	// Reader reads from the API server.
	Reader client.Reader
	Writer client.Client
	Clock  clock.PassiveClock
	// Certificates issues the certificates of servers.
	Certificates *servercert.Issuer
	// afterStep is called after every step; tests simulate crashes there.
	afterStep func(rotation.Step)
}

// ConditionError is a problem that a user must resolve, with its condition reason.
type ConditionError struct{ Reason, Message string }

func (r *ConditionError) Error() string { return r.Message }

// maxSteps is more than two accounts can need. It ends endless loops.
const maxSteps = 24

// Reconcile executes steps until the accounts are in their desired state, or wait for clients.
func (r *Reconciler) Reconcile(ctx context.Context, d Database) (State, error) {
	last := rotation.Done
	for range maxSteps {
		state, step, err := r.runStep(ctx, d)
		switch {
		case apierrors.IsConflict(err):
			continue // a concurrent write; observe again
		case err != nil || step == rotation.Done || step == rotation.AwaitConsumers:
			return state, err
		}
		r.stepDone(step)
		last = step
	}
	if last == rotation.AcceptOne {
		return State{}, loginRejectedError(d)
	}
	return State{}, fmt.Errorf("the accounts of the database on %s still require changes after %d steps", d.Host, maxSteps)
}

func (r *Reconciler) stepDone(step rotation.Step) {
	if r.afterStep != nil {
		r.afterStep(step)
	}
}

// Ping checks that the application account can still log in. It costs one login and no request to
// the API server.
func (r *Reconciler) Ping(ctx context.Context, d Database, state State) error {
	srv := &server{address: d.Address, tls: state.tls}
	l := srv.login(mariadb.Port, d.Schema, state.password, d.Schema)
	accepted, err := l.CanLogIn(ctx)
	if err == nil && !accepted {
		return fmt.Errorf("the database on %s no longer accepts the login of account %s", d.Host, d.Schema)
	}
	return err
}

// runStep observes everything and executes steps until something must be read again.
func (r *Reconciler) runStep(ctx context.Context, d Database) (State, rotation.Step, error) {
	s, binding, err := r.readSecrets(ctx, d)
	if err != nil {
		return State{}, "", err
	}
	renewed, err := r.Certificates.Renew(ctx, s.Data, d.ServerName)
	if err != nil {
		return State{}, "", err
	}
	if renewed {
		return State{}, rotation.StorePending, r.writeSecret(ctx, s)
	}
	certificate := servercert.FromSecret(s.Data)
	srv, err := newServer(d, certificate)
	if err != nil {
		return State{}, "", err
	}
	root, user, err := r.loadAccounts(ctx, d, s, binding, srv)
	if err != nil {
		return State{}, "", err
	}
	state := State{Rotating: user.Pending != "" || root.Pending != "", ConnectionsExhausted: srv.connectionsExhausted, AccountLimited: srv.accountLimited, BindingVersion: user.bindingVersion, password: user.Password, tls: srv.tls}
	if e := d.Rotation.EveryDays; e != nil && (root.Declared == "" || user.Declared == "") {
		state.NextRotation = s.lastRotation().AddDate(0, 0, int(*e))
	}
	if err := r.checkRootLogin(ctx, d, s, root); err != nil {
		return state, "", err
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
	if state.CertificateOutdated, err = updateCertificate(ctx, conn, state.Version, certificate); err != nil {
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
	if len(due) > 0 { // together, because a rotation request applies to both
		return state, rotation.StorePending, r.storePending(ctx, d, s, due)
	}
	return state, rotation.Done, r.updateHashes(ctx, s)
}

// checkRootLogin returns an error if no stored password of root is accepted.
func (r *Reconciler) checkRootLogin(ctx context.Context, d Database, s passwordSecret, root *account) error {
	switch {
	case root.Password == "" && root.Pending == "":
		lost := ownership.NewLostCredential(desired.Owner{Namespace: d.Namespace}, d.Secret, root.key)
		return &ConditionError{Reason: appsapi.ReasonCredentialsLost, Message: lost.Message}
	case !root.PasswordAccepted && !root.PendingAccepted:
		// A reset must use the password that is stored now.
		return cmp.Or(r.updateHashes(ctx, s), lockedOutError(r.Keys, d))
	}
	return nil
}

// advanceAccount executes the steps of an account until the Secret must be read again. Clients are
// waiting, so results of writes are reused instead of read again.
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
		if rotation.Next(a.Account) == step { // the step had no effect
			return step, nil
		}
		r.stepDone(step)
	}
	return step, nil
}

// repairStored stores a password for the account if there is none, or if the stored one is not
// accepted: the clients' password if the server accepts it. A different stored password becomes the
// pending one.
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

// storePending stores the next passwords of accounts.
func (r *Reconciler) storePending(ctx context.Context, d Database, s passwordSecret, accounts []*account) error {
	for _, a := range accounts {
		next := a.Declared
		if next == "" {
			next = password.New()
			s.recordRotation(d.RotationRequestedAt, r.Clock.Now())
		}
		s.setPending(a.key, next)
	}
	return r.writeSecret(ctx, s)
}

// readSecrets reads the passwords and the binding, in parallel because clients are waiting.
func (r *Reconciler) readSecrets(ctx context.Context, d Database) (s passwordSecret, binding bindingState, err error) {
	var group errgroup.Group
	var live *corev1.Secret
	group.Go(func() error {
		var err error
		live, err = r.getBinding(ctx, d)
		return err
	})
	s, err = r.readPasswords(ctx, d)
	if err = cmp.Or(err, group.Wait()); err != nil {
		return s, binding, err
	}
	binding, err = r.bindingState(ctx, d, live, s.Data[mariadb.KeyCA])
	return s, binding, err
}

// execute executes one step: one write to the API server, or one statement on the server.
func (r *Reconciler) execute(ctx context.Context, d Database, s passwordSecret, conn *session.Session, a *account, step rotation.Step) error {
	switch step {
	case rotation.SwapPasswords:
		s.swap(a.key)
		return r.writeSecret(ctx, s)
	case rotation.PromotePending:
		if a.Password == a.Pending { // the server may still accept a third, unknown one
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
		a.bindingVersion, err = r.applyBinding(ctx, d, a.Target(), s.Data[mariadb.KeyCA])
		return err
	case rotation.Done, rotation.AwaitConsumers, rotation.StorePending:
	}
	return nil
}

// acceptOne makes the server accept one password of an account.
func (r *Reconciler) acceptOne(ctx context.Context, d Database, conn *session.Session, a *account) error {
	hash := mariadb.Hash(a.Target())
	if err := r.ensureAccount(ctx, d, conn, a, hash); err != nil {
		return err
	}
	return conn.SetPasswords(ctx, a.user, hash)
}

// ensureAccount creates the application account if it is missing, and grants its privileges: the
// volume may be older than the account, or be a copy.
func (r *Reconciler) ensureAccount(ctx context.Context, d Database, conn *session.Session, a *account, hash string) error {
	if a.user != d.Schema {
		return nil
	}
	return conn.EnsureAccount(ctx, a.user, d.Schema, hash)
}

// updateHashes updates the hashes in the Secret, which pods read.
func (r *Reconciler) updateHashes(ctx context.Context, s passwordSecret) error {
	root, user := s.updateHash(mariadb.KeyRootPassword), s.updateHash(mariadb.KeyPassword)
	if !root && !user {
		return nil
	}
	return r.writeSecret(ctx, s)
}

func lockedOutError(keys *appsapi.Keys, d Database) error {
	detail := "the password was changed in the server. Store the current password in key " + mariadb.KeyRootPassword + ", or request a reset"
	if !d.LoggedInBefore {
		detail = "the operator has never logged in because the first start was interrupted or the volume belongs to another database. " +
			"Store the current password in key " + mariadb.KeyRootPassword + ", or reset the password of the server to the one in the Secret"
	}
	return &ConditionError{Reason: appsapi.ReasonCredentialsMismatch, Message: fmt.Sprintf(
		"No password in Secret %s/%s is valid for root: %s, which restarts the server once: "+
			"kubectl annotate secret %s -n %s --overwrite %s=$(date +%%s)",
		d.Namespace, d.Secret, detail, d.Secret, d.Namespace, keys.ResetCredentials)}
}

// loginRejectedError reports that the server rejects an account although its password was just set.
func loginRejectedError(d Database) error {
	return &ConditionError{Reason: appsapi.ReasonDatabaseAccessDenied, Message: fmt.Sprintf(
		"The server on %s rejects account %s although its password is correct: the account may be locked or require TLS (REQUIRE SSL), "+
			"or an account of the same name for a more specific host has no privileges on the schema. Check as root: SELECT host, ssl_type FROM mysql.user WHERE user = '%s'",
		d.Host, d.Schema, d.Schema)}
}

// ErrorKindOf returns the kind of a connection error; "" for no error and for errors of other
// kinds.
func ErrorKindOf(err error) session.ErrorKind {
	var conditionErr *ConditionError
	var status apierrors.APIStatus
	if err == nil || errors.As(err, &conditionErr) || errors.As(err, &status) {
		return ""
	}
	return session.ErrorKindOf(err)
}

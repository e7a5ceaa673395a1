package database

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // the driver
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/mariadb"
	"github.com/holdfast-dev/holdfast/internal/mariadb/session"
	"github.com/holdfast-dev/holdfast/internal/testutil/mariadbd"
)

// execAsRoot executes statements as root with its initial password.
func (h *harness) execAsRoot(statement string) {
	h.Helper()
	db, err := sql.Open("mysql", fmt.Sprintf("root:%s@tcp(%s:3306)/", h.server.RootPassword, h.server.Address))
	h.must(err)
	defer func() { h.must(db.Close()) }()
	_, err = db.ExecContext(h.Context(), statement)
	h.must(err)
}

// TestPasswordChangedInServer checks that passwords changed in the server are corrected if root can
// log in, and reported otherwise.
func TestPasswordChangedInServer(t *testing.T) {
	t.Parallel()
	h := newHarness(t, newClient(t), "11.8", "behind")
	h.reconcile()
	root, err := session.Login{Address: net.JoinHostPort(h.server.Address, "3306"), User: session.Root, Password: h.server.RootPassword}.Open(t.Context())
	h.must(err)
	defer root.Close()
	h.must(root.SetPasswords(t.Context(), "shop", mariadb.Hash("by hand")))
	h.reconcile()
	h.checkLogins("the account was changed")
	h.must(root.SetPasswords(t.Context(), session.Root, mariadb.Hash("by hand")))
	_, err = h.reconciler(nil).Reconcile(t.Context(), h.db)
	if err == nil || !strings.Contains(err.Error(), "No password in Secret default/behind-auth is valid for root") {
		t.Errorf("got %v", err)
	}
}

// TestPasswordEditedInSecret checks that a missing or wrong stored password is corrected without
// disconnecting clients.
func TestPasswordEditedInSecret(t *testing.T) {
	t.Parallel()
	h := newHarness(t, newClient(t), "11.8", "edited")
	h.reconcile()
	h.rollConsumers()
	h.editSecret(h.db.Secret, func(data map[string][]byte) { delete(data, mariadb.KeyPassword) })
	h.reconcile()
	h.checkLogins("the password was removed")
	if !h.canLogIn("shop", "the first one") || h.secretData(h.db.Secret)[mariadb.KeyPassword] != "the first one" {
		t.Error("clients are disconnected")
	}
	h.editSecret(h.db.Secret, func(data map[string][]byte) { data[mariadb.KeyPassword] = []byte("by hand") })
	if state := h.reconcile(); !state.Rotating || !h.canLogIn("shop", "the first one") || !h.canLogIn("shop", "by hand") {
		t.Errorf("another password was stored in the Secret: %+v", state)
	}
	for h.reconcile().Rotating {
		h.rollConsumers()
	}
	h.checkRotated(map[string]string{mariadb.KeyPassword: "the first one"}, 0)
}

// TestBindingEditedByOthers checks that edits of the binding cause neither endless writes nor the
// loss of its owner.
func TestBindingEditedByOthers(t *testing.T) {
	t.Parallel()
	h := newHarness(t, newClient(t), "11.8", "bound")
	h.reconcile()
	h.editSecret(h.db.Binding, func(data map[string][]byte) { data["sslmode"] = []byte("theirs") })
	h.reconcile()
	if h.secretData(h.db.Binding)["sslmode"] != "theirs" {
		t.Error("a key of another client is gone")
	}
	var binding corev1.Secret
	key := client.ObjectKey{Namespace: ns, Name: h.db.Binding}
	h.must(h.client.Get(t.Context(), key, &binding))
	binding.OwnerReferences = nil // as when its StatefulSet is recreated
	h.must(h.client.Update(t.Context(), &binding))
	h.reconcile()
	h.must(h.client.Get(t.Context(), key, &binding))
	if len(binding.OwnerReferences) != 1 || binding.OwnerReferences[0].UID != *h.db.Owner.UID {
		t.Errorf("its owners are %v", binding.OwnerReferences)
	}
	binding.Labels = nil
	h.must(h.client.Update(t.Context(), &binding))
	if _, err := h.reconciler(nil).Reconcile(t.Context(), h.db); err == nil || !strings.Contains(err.Error(), "exists and is not managed by Holdfast") {
		t.Errorf("got %v", err)
	}
}

// TestResetUsesStoredPassword checks that a reset uses the password that is stored now.
func TestResetUsesStoredPassword(t *testing.T) {
	t.Parallel()
	h := newHarness(t, newClient(t), "11.8", "stored")
	h.reconcile()
	h.editSecret(h.db.Secret, func(data map[string][]byte) { data[mariadb.KeyRootPassword] = []byte("a guess") })
	if _, err := h.reconciler(nil).Reconcile(t.Context(), h.db); err == nil || !strings.Contains(err.Error(), "kubectl annotate secret") {
		t.Fatalf("got %v", err)
	}
	if got := h.secretData(h.db.Secret)[mariadb.HashKey(mariadb.KeyRootPassword)]; got != mariadb.Hash("a guess") {
		t.Errorf("the reset would use hash %s", got)
	}
}

// TestDroppedSchemaIsRecreated checks that a dropped schema is created again, empty.
func TestDroppedSchemaIsRecreated(t *testing.T) {
	t.Parallel()
	h := newHarness(t, newClient(t), "11.8", "dropped")
	h.reconcile()
	h.execAsRoot("DROP DATABASE shop")
	h.reconcile()
	if open, err := (session.Login{Address: net.JoinHostPort(h.server.Address, "3306"), User: "shop", Password: "the first one", Schema: "shop"}).CanLogIn(t.Context()); err != nil || !open {
		t.Errorf("login: %t, %v", open, err)
	}
}

// TestAccountLostWhileRotating drops the account during a rotation.
func TestAccountLostWhileRotating(t *testing.T) {
	t.Parallel()
	h := newHarness(t, newClient(t), "10.11", "lost")
	h.reconcile()
	h.rollConsumers()
	h.db.UserCredential.Value = "the next one"
	h.reconcile()
	h.execAsRoot("DROP USER 'shop'@'%'")
	for h.reconcile().Rotating {
		h.rollConsumers()
	}
	h.checkLogins("the account was recreated")
}

// TestAccountRejectedDespiteCorrectPassword checks that an account that can never log in is
// reported, instead of endless password changes.
func TestAccountRejectedDespiteCorrectPassword(t *testing.T) {
	t.Parallel()
	h := newHarness(t, newClient(t), "11.8", "shut")
	h.reconcile()
	h.execAsRoot("ALTER USER 'shop'@'%' REQUIRE X509")
	_, err := h.reconciler(nil).Reconcile(t.Context(), h.db)
	if err == nil || !strings.Contains(err.Error(), "rejects account shop although its password is correct") {
		t.Errorf("got %v", err)
	}
}

// TestAccountConnectionLimit checks that an account at its connection limit counts as accepted and
// is reported.
func TestAccountConnectionLimit(t *testing.T) {
	t.Parallel()
	h := newHarness(t, newClient(t), "11.8", "limited")
	h.reconcile()
	h.execAsRoot("ALTER USER 'shop'@'%' WITH MAX_USER_CONNECTIONS 1")
	one, err := session.Login{Address: net.JoinHostPort(h.server.Address, "3306"), User: "shop", Password: "the first one"}.Open(t.Context())
	h.must(err)
	defer one.Close()
	if state := h.reconcile(); !state.AccountLimited || state.ConnectionsExhausted {
		t.Errorf("got %+v", state)
	}
	if err := h.reconciler(nil).Ping(t.Context(), h.db, State{password: "the first one"}); session.ErrorKindOf(err) != session.UserConnectionLimit {
		t.Errorf("got %v", err)
	}
}

// TestNewPasswordStoredEarly stores the new password as the current one during a rotation.
func TestNewPasswordStoredEarly(t *testing.T) {
	t.Parallel()
	h := newHarness(t, newClient(t), "11.8", "early")
	h.reconcile()
	h.rollConsumers()
	h.db.UserCredential.Value = "the next one"
	h.reconcile()
	h.editSecret(h.db.Secret, func(data map[string][]byte) { data[mariadb.KeyPassword] = []byte("the next one") })
	if state := h.reconcile(); !state.Rotating || !h.canLogIn("shop", "the first one") {
		t.Errorf("clients with the old password are disconnected: %+v", state)
	}
	for h.reconcile().Rotating {
		h.rollConsumers()
	}
	h.checkRotated(map[string]string{mariadb.KeyPassword: "the first one"}, 0)
}

// TestInvalidDeclaredPasswordIsRejected checks that an invalid declared password is rejected, and
// the current one stays valid.
func TestInvalidDeclaredPasswordIsRejected(t *testing.T) {
	t.Parallel()
	h := newHarness(t, newClient(t), "11.8", "unfit")
	h.reconcile()
	h.db.UserCredential.Value = "from echo\n"
	_, err := h.reconciler(nil).Reconcile(t.Context(), h.db)
	if err == nil || !strings.Contains(err.Error(), "has a password with a line break") || !h.canLogIn("shop", "the first one") {
		t.Errorf("got %v", err)
	}
}

// TestLockedOutAndReset checks that a reset sets the stored password in the server, once per
// request.
func TestLockedOutAndReset(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	for _, version := range mariadbd.Versions {
		t.Run(version, func(t *testing.T) {
			h := newHarness(t, c, version, "locked-"+strings.ReplaceAll(version, ".", "-"))
			h.reconcile()
			h.lockOut()
			if _, err := h.reconciler(nil).Reconcile(t.Context(), h.db); err == nil || !strings.Contains(err.Error(), "kubectl annotate secret "+h.db.Secret) {
				t.Fatalf("got %v", err)
			}
			h.server.Stop()
			h.server.WriteFile("hash", h.secretData(h.db.Secret)[mariadb.HashKey(mariadb.KeyRootPassword)])
			reset := func(asked string) string {
				return h.server.RunScript(mariadb.ResetScript, "RESET="+asked, "HASH_FILE=/var/lib/mysql/hash")
			}
			reset("the first time")
			h.server.Start()
			h.reconcile()
			h.checkLogins("reset")
			h.server.Kill() // a crash does not undo the reset
			if said := reset("the first time"); said != "" {
				t.Errorf("a request was handled twice: %s", said)
			}
			h.server.Start()
			h.checkLogins("restarted")
			h.lockOut()
			h.server.Kill()
			reset("the second time")
			h.server.Start()
			h.reconcile()
			h.checkLogins("reset again")
		})
	}
}

// TestFirstStartInterrupted checks that a server whose first start was killed, so that no login
// works, is reported and can be reset.
func TestFirstStartInterrupted(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	for _, version := range mariadbd.Versions {
		t.Run(version, func(t *testing.T) {
			h := newStoppedHarness(t, c, version, "half-"+strings.ReplaceAll(version, ".", "-"))
			h.server.InterruptInstall()
			h.server.Start()
			if _, err := h.reconciler(nil).Reconcile(t.Context(), h.db); err == nil || !strings.Contains(err.Error(), "the operator has never logged in because the first start was interrupted") {
				t.Fatalf("got %v", err)
			}
			h.server.Stop()
			h.server.WriteFile("hash", mariadb.Hash(h.server.RootPassword))
			h.server.RunScript(mariadb.ResetScript, "RESET=now", "HASH_FILE=/var/lib/mysql/hash")
			h.server.Start()
			h.reconcile()
			h.checkLogins("mended")
		})
	}
}

// TestHangingServer checks that a hanging server only costs the probe its timeout.
func TestHangingServer(t *testing.T) {
	t.Parallel()
	h := newHarness(t, newClient(t), "11.8", "hangs")
	h.reconcile()
	h.server.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	start := time.Now()
	_, err := h.reconciler(nil).Reconcile(ctx, h.db)
	if ErrorKindOf(err) != session.Unreachable || time.Since(start) > 4*time.Second {
		t.Errorf("after %s: %v", time.Since(start), err)
	}
	h.server.Resume()
	h.reconcile()
}

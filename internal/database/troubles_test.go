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

// asRoot is somebody who knows the first password of root.
func (h *house) asRoot(statement string) {
	h.Helper()
	db, err := sql.Open("mysql", fmt.Sprintf("root:%s@tcp(%s:3306)/", h.server.RootPassword, h.server.Address))
	h.must(err)
	defer func() { h.must(db.Close()) }()
	_, err = db.ExecContext(h.Context(), statement)
	h.must(err)
}

// What somebody has changed in the server is put right if root still gets in, and said if not.
func TestChangedBehindOurBack(t *testing.T) {
	h := newHouse(t, plane(t), "11.8", "behind")
	h.visit()
	root, err := session.Login{Address: net.JoinHostPort(h.server.Address, "3306"), User: session.Root, Password: h.server.RootPassword}.Open(t.Context())
	h.must(err)
	defer root.Close()
	h.must(root.SetPasswords(t.Context(), "shop", mariadb.Hash("by hand")))
	h.visit()
	h.someOpen("the account was changed")
	h.must(root.SetPasswords(t.Context(), session.Root, mariadb.Hash("by hand")))
	_, err = h.keeper(nil).Visit(t.Context(), h.d)
	if err == nil || !strings.Contains(err.Error(), "No password in Secret default/behind-auth opens the database as root") {
		t.Errorf("got %v", err)
	}
}

// A password that is missing, or is not the one that those know who use the account, is put right without
// cutting anybody off.
func TestPasswordEditedInTheSecret(t *testing.T) {
	h := newHouse(t, plane(t), "11.8", "edited")
	h.visit()
	h.roll()
	h.change(h.d.Secret, func(data map[string][]byte) { delete(data, mariadb.KeyPassword) })
	h.visit()
	h.someOpen("the password was taken out")
	if !h.opens("shop", "the first one") || h.secret(h.d.Secret)[mariadb.KeyPassword] != "the first one" {
		t.Error("those who use it are cut off")
	}
	h.change(h.d.Secret, func(data map[string][]byte) { data[mariadb.KeyPassword] = []byte("by hand") })
	if state := h.visit(); !state.Rotating || !h.opens("shop", "the first one") || !h.opens("shop", "by hand") {
		t.Errorf("another password was written into the Secret: %+v", state)
	}
	for h.visit().Rotating {
		h.roll()
	}
	h.ended(map[string]string{mariadb.KeyPassword: "the first one"}, 0)
}

// What others do to the binding is no reason to go round in circles, or to lose its owner.
func TestBindingOfOthers(t *testing.T) {
	h := newHouse(t, plane(t), "11.8", "bound")
	h.visit()
	h.change(h.d.Binding, func(data map[string][]byte) { data["ca.crt"] = []byte("theirs") })
	h.visit()
	if h.secret(h.d.Binding)["ca.crt"] != "theirs" {
		t.Error("what others have added is gone")
	}
	var binding corev1.Secret
	key := client.ObjectKey{Namespace: ns, Name: h.d.Binding}
	h.must(h.client.Get(t.Context(), key, &binding))
	binding.OwnerReferences = nil // as when its set is made anew
	h.must(h.client.Update(t.Context(), &binding))
	h.visit()
	h.must(h.client.Get(t.Context(), key, &binding))
	if len(binding.OwnerReferences) != 1 || binding.OwnerReferences[0].UID != *h.d.Owner.UID {
		t.Errorf("it belongs to %v", binding.OwnerReferences)
	}
	binding.Labels = nil
	h.must(h.client.Update(t.Context(), &binding))
	if _, err := h.keeper(nil).Visit(t.Context(), h.d); err == nil || !strings.Contains(err.Error(), "exists and is not Holdfast's") {
		t.Errorf("got %v", err)
	}
}

// A reset sets what is stored. Whoever has stored another password since gets that one.
func TestResetIsOfWhatIsStored(t *testing.T) {
	h := newHouse(t, plane(t), "11.8", "stored")
	h.visit()
	h.change(h.d.Secret, func(data map[string][]byte) { data[mariadb.KeyRootPassword] = []byte("a guess") })
	if _, err := h.keeper(nil).Visit(t.Context(), h.d); err == nil || !strings.Contains(err.Error(), "kubectl annotate secret") {
		t.Fatalf("got %v", err)
	}
	if got := h.secret(h.d.Secret)[mariadb.HashKey(mariadb.KeyRootPassword)]; got != mariadb.Hash("a guess") {
		t.Errorf("the server would be given %s", got)
	}
}

// A schema that somebody has dropped is made again: empty, but there.
func TestSchemaDropped(t *testing.T) {
	h := newHouse(t, plane(t), "11.8", "dropped")
	h.visit()
	h.asRoot("DROP DATABASE shop")
	h.visit()
	if open, err := (session.Login{Address: net.JoinHostPort(h.server.Address, "3306"), User: "shop", Password: "the first one", Schema: "shop"}).Opens(t.Context()); err != nil || !open {
		t.Errorf("it opens: %t, %v", open, err)
	}
}

// While a password is on its way, the account may be lost.
func TestAccountLostWhileRotating(t *testing.T) {
	h := newHouse(t, plane(t), "10.11", "lost")
	h.visit()
	h.roll()
	h.d.User.Value = "the next one"
	h.visit()
	h.asRoot("DROP USER 'shop'@'%'")
	for h.visit().Rotating {
		h.roll()
	}
	h.someOpen("the account is back")
}

// An account that cannot get in whatever its password is said, and not set again and again without a word.
func TestAccountShutOut(t *testing.T) {
	h := newHouse(t, plane(t), "11.8", "shut")
	h.visit()
	h.asRoot("ALTER USER 'shop'@'%' REQUIRE SSL")
	_, err := h.keeper(nil).Visit(t.Context(), h.d)
	if err == nil || !strings.Contains(err.Error(), "was given the password of account shop, and does not let it in") {
		t.Errorf("got %v", err)
	}
}

// An account that has all the connections that it may have gets in, and is said to be full.
func TestAccountLimited(t *testing.T) {
	h := newHouse(t, plane(t), "11.8", "limited")
	h.visit()
	h.asRoot("ALTER USER 'shop'@'%' WITH MAX_USER_CONNECTIONS 1")
	one, err := session.Login{Address: net.JoinHostPort(h.server.Address, "3306"), User: "shop", Password: "the first one"}.Open(t.Context())
	h.must(err)
	defer one.Close()
	if state := h.visit(); !state.Limited || state.Full {
		t.Errorf("got %+v", state)
	}
	if err := h.keeper(nil).Pulse(t.Context(), h.d, State{password: "the first one"}); session.TroubleOf(err) != session.Limited {
		t.Errorf("got %v", err)
	}
}

// The new password in the place of the old one, by somebody who wanted to help.
func TestNewPasswordStoredEarly(t *testing.T) {
	h := newHouse(t, plane(t), "11.8", "early")
	h.visit()
	h.roll()
	h.d.User.Value = "the next one"
	h.visit()
	h.change(h.d.Secret, func(data map[string][]byte) { data[mariadb.KeyPassword] = []byte("the next one") })
	if state := h.visit(); !state.Rotating || !h.opens("shop", "the first one") {
		t.Errorf("those who were told the old one are cut off: %+v", state)
	}
	for h.visit().Rotating {
		h.roll()
	}
	h.ended(map[string]string{mariadb.KeyPassword: "the first one"}, 0)
}

// A password that programs do not read alike is not taken, and the one that is there stays.
func TestUnfitPassword(t *testing.T) {
	h := newHouse(t, plane(t), "11.8", "unfit")
	h.visit()
	h.d.User.Value = "from echo\n"
	_, err := h.keeper(nil).Visit(t.Context(), h.d)
	if err == nil || !strings.Contains(err.Error(), "has a password with a line break") || !h.opens("shop", "the first one") {
		t.Errorf("got %v", err)
	}
}

// Who is locked out may have the stored password put into the server, once for each time of asking.
func TestLockedOutAndReset(t *testing.T) {
	c := plane(t)
	for _, version := range mariadbd.Versions {
		t.Run(version, func(t *testing.T) {
			h := newHouse(t, c, version, "locked-"+strings.ReplaceAll(version, ".", "-"))
			h.visit()
			h.lockOut()
			if _, err := h.keeper(nil).Visit(t.Context(), h.d); err == nil || !strings.Contains(err.Error(), "kubectl annotate secret "+h.d.Secret) {
				t.Fatalf("got %v", err)
			}
			h.server.Stop()
			h.server.Put("hash", h.secret(h.d.Secret)[mariadb.HashKey(mariadb.KeyRootPassword)])
			reset := func(asked string) string {
				return h.server.Run(mariadb.ResetScript, "RESET="+asked, "HASH_FILE=/var/lib/mysql/hash")
			}
			reset("the first time")
			h.server.Start()
			h.visit()
			h.someOpen("reset")
			h.server.Kill() // what was reset is not undone by a crash
			if said := reset("the first time"); said != "" {
				t.Errorf("it was asked for once, and is done again: %s", said)
			}
			h.server.Start()
			h.someOpen("started again")
			h.lockOut()
			h.server.Kill()
			reset("the second time")
			h.server.Start()
			h.visit()
			h.someOpen("reset again")
		})
	}
}

// A first start that was killed leaves a server that nobody can get into; that is said, and can be mended.
func TestFirstStartInterrupted(t *testing.T) {
	c := plane(t)
	for _, version := range mariadbd.Versions {
		t.Run(version, func(t *testing.T) {
			h := housing(t, c, version, "half-"+strings.ReplaceAll(version, ".", "-"))
			h.server.HalfInstall()
			h.server.Start()
			if _, err := h.keeper(nil).Visit(t.Context(), h.d); err == nil || !strings.Contains(err.Error(), "it has never let us in, so its first start was interrupted") {
				t.Fatalf("got %v", err)
			}
			h.server.Stop()
			h.server.Put("hash", mariadb.Hash(h.server.RootPassword))
			h.server.Run(mariadb.ResetScript, "RESET=now", "HASH_FILE=/var/lib/mysql/hash")
			h.server.Start()
			h.visit()
			h.someOpen("mended")
		})
	}
}

// A server that hangs costs a visit its time, and no more.
func TestHangingServer(t *testing.T) {
	h := newHouse(t, plane(t), "11.8", "hangs")
	h.visit()
	h.server.Freeze()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	begun := time.Now()
	_, err := h.keeper(nil).Visit(ctx, h.d)
	if Trouble(err) != session.Silent || time.Since(begun) > 4*time.Second {
		t.Errorf("after %s: %v", time.Since(begun), err)
	}
	h.server.Thaw()
	h.visit()
}

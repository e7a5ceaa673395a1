package database

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/mariadb"
	"github.com/holdfast-dev/holdfast/internal/servercert"
	"github.com/holdfast-dev/holdfast/internal/testutil/mariadbd"
)

// syncFiles updates the files of the server, as Kubernetes does in a running pod.
func (h *harness) syncFiles() {
	h.Helper()
	data := h.secretData(h.db.Secret)
	h.server.UseCertificate([]byte(data[mariadb.KeyCertificate]), []byte(data[mariadb.KeyPrivateKey]))
}

// expectRenewal fails unless the certificate in the Secret is replaced, and the running server uses it once its files
// are updated.
func (h *harness) expectRenewal(before string) {
	h.Helper()
	for range 2 { // the files are not updated yet
		if state := h.reconcile(); !state.CertificateOutdated {
			h.Error("the server already uses the new certificate")
		}
	}
	if h.secretData(h.db.Secret)[mariadb.KeyCertificate] == before {
		h.Error("the certificate was not renewed")
	}
	h.syncFiles()
	h.reconcile() // makes the server load the files
	if state := h.reconcile(); state.CertificateOutdated {
		h.Error("the server does not use the new certificate")
	}
	h.checkLogins("after the renewal")
}

func TestCertificateIsRenewedWithoutRestart(t *testing.T) {
	t.Parallel()
	for _, version := range mariadbd.Versions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			c := newClient(t)
			h := newStoppedHarness(t, c, version, "tls-"+strings.ReplaceAll(version, ".", "-"))
			clk := clocktesting.NewFakePassiveClock(time.Now().Add(-61 * 24 * time.Hour))
			h.certificates = servercert.NewIssuer(appsapi.DefaultKeys, ns, c, c, clk)
			h.editSecret(h.db.Secret, func(data map[string][]byte) {
				delete(data, mariadb.KeyCertificate)
				_, err := h.certificates.Renew(t.Context(), data, h.db.ServerName)
				h.must(err)
			})
			h.syncFiles()
			h.server.Start()
			if state := h.reconcile(); state.CertificateOutdated {
				t.Fatal("a new server does not use its certificate")
			}
			stored := h.secretData(h.db.Secret)
			if binding := h.secretData(h.db.Binding); binding[mariadb.KeyCA] != stored[mariadb.KeyCA] || binding[mariadb.KeyPrivateKey] != "" {
				t.Errorf("the binding has the authority %q and the key %q", binding[mariadb.KeyCA], binding[mariadb.KeyPrivateKey])
			}
			clk.SetTime(time.Now())
			h.expectRenewal(stored[mariadb.KeyCertificate])
			if !bytes.Equal([]byte(stored[mariadb.KeyCA]), []byte(h.secretData(h.db.Secret)[mariadb.KeyCA])) {
				t.Error("a renewal changed the authority")
			}
		})
	}
}

// TestServerOfAnotherDatabaseGetsNoPassword checks that a server which answers at the address of a database does not get
// its passwords.
func TestServerOfAnotherDatabaseGetsNoPassword(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	h := newHarness(t, c, mariadbd.Versions[0], "impostor")
	h.db.ServerName = "another-headless.default.svc"
	h.editSecret(h.db.Secret, func(data map[string][]byte) {
		_, err := servercert.NewIssuer(appsapi.DefaultKeys, ns, c, c, clock.RealClock{}).Renew(t.Context(), data, h.db.ServerName)
		h.must(err)
	})
	_, err := h.reconciler(nil).Reconcile(t.Context(), h.db)
	if kind := ErrorKindOf(err); kind != "Untrusted" {
		t.Errorf("kind %q: %v", kind, err)
	}
}

package database

import (
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/mariadb"
	"github.com/holdfast-dev/holdfast/internal/mariadb/session"
	"github.com/holdfast-dev/holdfast/internal/rotation"
	"github.com/holdfast-dev/holdfast/internal/servercert"
	"github.com/holdfast-dev/holdfast/internal/testutil"
	"github.com/holdfast-dev/holdfast/internal/testutil/mariadbd"
)

const ns = "default"

// authLabels are labels of a Secret with passwords. The operator writes to no other.
var authLabels = map[string]string{appsapi.DefaultKeys.Workload: "statefulset-shop-db"}

// harness is a database with a real server and a real API server, and reconcilers that may crash at
// any time.
type harness struct {
	*testing.T
	client       client.Client
	certificates *servercert.Issuer
	server       *mariadbd.Server
	db           Database
	clock        clock.PassiveClock
}

func newHarness(t *testing.T, c client.Client, version, name string) *harness {
	t.Helper()
	h := newStoppedHarness(t, c, version, name)
	h.server.Start()
	return h
}

// newStoppedHarness returns a harness whose server has not been started.
func newStoppedHarness(t *testing.T, c client.Client, version, name string) *harness {
	t.Helper()
	h := &harness{T: t, client: c, server: mariadbd.New(t, version), clock: clock.RealClock{}}
	h.certificates = servercert.NewIssuer(appsapi.DefaultKeys, ns, c, c, h.clock)
	serverName := name + "-headless.default.svc"
	data := map[string][]byte{mariadb.KeyRootPassword: []byte(h.server.RootPassword), mariadb.KeyPassword: []byte("the first one")}
	_, err := h.certificates.Renew(t.Context(), data, serverName)
	h.must(err)
	h.server.UseCertificate(data[mariadb.KeyCertificate], data[mariadb.KeyPrivateKey])
	h.must(c.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name + "-auth", Labels: authLabels}, Data: data}))
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
	h.must(c.Create(t.Context(), owner))
	h.db = Database{
		Namespace: ns, Address: h.server.Address, Host: name + ".default.svc", ServerName: serverName, Secret: name + "-auth", Binding: name + "-binding",
		Labels: map[string]string{appsapi.LabelManagedBy: appsapi.ManagedBy}, Schema: "shop",
		Owner: metav1ac.OwnerReference().WithAPIVersion("v1").WithKind("ConfigMap").WithName(name).WithUID(owner.UID),
	}
	return h
}

func (h *harness) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

func (h *harness) reconciler(afterStep func(rotation.Step)) *Reconciler {
	return &Reconciler{Keys: appsapi.DefaultKeys, Reader: h.client, Writer: h.client, Clock: h.clock, Certificates: h.certificates, afterStep: afterStep}
}

// reconcile reconciles without a crash.
func (h *harness) reconcile() State {
	h.Helper()
	state, err := h.reconciler(nil).Reconcile(h.Context(), h.db)
	h.must(err)
	return state
}

// isRotating reports whether a rotation is in progress.
func (h *harness) isRotating() bool {
	h.Helper()
	for key := range h.secretData(h.db.Secret) {
		if strings.HasPrefix(key, pendingPrefix) {
			return true
		}
	}
	return false
}

// rollConsumers makes all clients use the current binding.
func (h *harness) rollConsumers() {
	h.Helper()
	var binding corev1.Secret
	h.must(h.client.Get(h.Context(), client.ObjectKey{Namespace: ns, Name: h.db.Binding}, &binding))
	h.db.ConsumedBinding = binding.ResourceVersion
}

func (h *harness) secretData(name string) map[string]string {
	h.Helper()
	var s corev1.Secret
	h.must(h.client.Get(h.Context(), client.ObjectKey{Namespace: ns, Name: name}, &s))
	out := map[string]string{}
	for k, v := range s.Data {
		out[k] = string(v)
	}
	return out
}

func (h *harness) canLogIn(user, password string) bool {
	h.Helper()
	ok, err := session.Login{Address: net.JoinHostPort(h.server.Address, strconv.Itoa(mariadb.Port)), User: user, Password: password}.CanLogIn(h.Context())
	h.must(err)
	return ok
}

// checkLogins fails unless a stored password of each account, and the password in the binding, is
// valid.
func (h *harness) checkLogins(when string) {
	h.Helper()
	stored := h.secretData(h.db.Secret)
	for key, user := range map[string]string{mariadb.KeyRootPassword: session.Root, mariadb.KeyPassword: h.db.Schema} {
		if !h.canLogIn(user, stored[key]) && (stored[pendingPrefix+key] == "" || !h.canLogIn(user, stored[pendingPrefix+key])) {
			h.Fatalf("%s: no stored password of account %s is valid; the Secret has %v", when, user, slices.Sorted(maps.Keys(stored)))
		}
	}
	if bound := h.secretData(h.db.Binding)[bindingPassword]; !h.canLogIn(h.db.Schema, bound) {
		h.Fatalf("%s: the password in the binding is not valid", when)
	}
}

// TestMain disables the log of controller-runtime once, because tests run in parallel.
func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// planes are control planes shared by the tests of all versions.
func newClient(t *testing.T) client.Client {
	t.Helper()
	if testing.Short() {
		t.Skip("starts servers")
	}
	p := testutil.SharedControlPlane(t)
	c, err := client.New(p.Config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// editSecret edits a Secret as a user.
func (h *harness) editSecret(name string, mutate func(map[string][]byte)) {
	h.Helper()
	var s corev1.Secret
	h.must(h.client.Get(h.Context(), client.ObjectKey{Namespace: ns, Name: name}, &s))
	mutate(s.Data)
	h.must(h.client.Update(h.Context(), &s))
}

// lockOut sets an unknown password for root.
func (h *harness) lockOut() {
	h.Helper()
	stored := h.secretData(h.db.Secret)[mariadb.KeyRootPassword]
	root, err := session.Login{Address: net.JoinHostPort(h.server.Address, "3306"), User: session.Root, Password: stored}.Open(h.Context())
	h.must(err)
	defer root.Close()
	h.must(root.SetPasswords(h.Context(), session.Root, mariadb.Hash("by hand")))
}

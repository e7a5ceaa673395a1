package database

import (
	"context"
	"crypto/tls"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/mariadb"
	"github.com/holdfast-dev/holdfast/internal/servercert"
	h "github.com/holdfast-dev/holdfast/internal/testutil/hostiledb"
)

// Limits of a probe, whatever its server does. A server that sends a few bytes from time to time uses all of its time.
const (
	maxProbeMemory = 64 << 20
	maxProbeTime   = probeTimeout + 2*time.Second
)

// FuzzServer runs the prober against servers that run arbitrary scripts.
func FuzzServer(f *testing.F) {
	for _, script := range [][]byte{
		{},
		{h.OpGreeting, h.OpReceive, h.OpSwitchSHA256, h.OpReceive, h.OpECKey, h.OpReceive},
		{h.OpGreeting, h.OpReceive, h.OpSwitchSHA256, h.OpReceive, h.OpRSAKey, h.OpReceive},
		{h.OpRaw, 5, 0xff, 0xff, 0xff, 0, 10, h.OpFlood, 255},
		{h.OpGreeting, h.OpReceive, h.OpError, 8, '#', 'H', 'Y', '0', '0', '0', '\x1b', ']'},
		{h.OpGreeting, h.OpReceive, h.OpSwitchNative, h.OpReceive, h.OpOK, h.OpReceive, h.OpOK, h.OpReceive, h.OpResultHeader, 1, h.OpColumn, h.OpEnd, h.OpRow, 1, '1', h.OpRepeat, 9, h.OpEnd, h.OpReceive},
		{h.OpGreeting, h.OpReceive, h.OpOK, h.OpReceive, h.OpOK, h.OpReceive, h.OpResultHeader, 0xfe, h.OpColumn, h.OpReceive},
	} {
		f.Add(script)
	}
	certificates, data := testCertificate(f)
	pair, err := tls.X509KeyPair(data[mariadb.KeyCertificate], data[mariadb.KeyPrivateKey])
	if err != nil {
		f.Fatal(err)
	}
	// Workers of the fuzzer are processes that run at the same time.
	address := netip.AddrFrom4([4]byte{127, 200, byte(os.Getpid() >> 8), byte(os.Getpid())})
	f.Fuzz(func(t *testing.T, script []byte) {
		l, err := net.Listen("tcp", net.JoinHostPort(address.String(), strconv.Itoa(mariadb.Port)))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		server := h.NewScripted(script)
		server.Certificate = &pair
		go server.Serve(l)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := time.Now()
		err = probeOnce(t, address.String(), certificates, data)
		if took := time.Since(start); took > maxProbeTime {
			t.Errorf("the probe took %s: %v", took, err)
		}
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > maxProbeMemory {
			t.Errorf("the probe allocated %d MiB: %v", used>>20, err)
		}
		if stolen := server.Stolen(); len(stolen) > 0 {
			t.Errorf("the server knows %q", stolen)
		}
	})
}

const fuzzServerName = "shop-headless.default.svc"

// testCertificate returns the data of a Secret with a certificate.
func testCertificate(f *testing.F) (*servercert.Issuer, map[string][]byte) {
	c := fake.NewClientBuilder().Build()
	issuer := servercert.NewIssuer(appsapi.DefaultKeys, ns, c, c, clock.RealClock{})
	data := map[string][]byte{mariadb.KeyRootPassword: []byte("root of a fuzz test"), mariadb.KeyPassword: []byte("user of a fuzz test")}
	if _, err := issuer.Renew(f.Context(), data, fuzzServerName); err != nil {
		f.Fatal(err)
	}
	return issuer, data
}

// probeOnce runs the prober until it has a result.
func probeOnce(t *testing.T, address string, certificates *servercert.Issuer, data map[string][]byte) error {
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "shop", UID: "1"}}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "shop-auth", Labels: authLabels}, Data: data}
	c := fake.NewClientBuilder().WithObjects(owner, secret).Build()
	requeued := make(chan struct{}, 1)
	prober := NewProber(&Reconciler{Keys: appsapi.DefaultKeys, Reader: c, Writer: c, Clock: clock.RealClock{}, Certificates: certificates}, clock.RealClock{},
		func(context.Context, types.NamespacedName) { requeued <- struct{}{} })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	prober.Start(ctx)
	id := ID{App: types.NamespacedName{Namespace: ns, Name: "shop"}, Component: "db"}
	key := ProbeKey{Pod: "1"}
	db := Database{
		Namespace: ns, Address: address, Host: "shop.default.svc", Secret: "shop-auth", Binding: "shop-binding", Schema: "shop",
		ServerName: fuzzServerName,
		Labels:     map[string]string{appsapi.LabelManagedBy: appsapi.ManagedBy},
		Owner:      metav1ac.OwnerReference().WithAPIVersion("v1").WithKind("ConfigMap").WithName("shop").WithUID(owner.UID),
	}
	prober.Latest(id, key, db, time.Now())
	select {
	case <-requeued:
	case <-time.After(2 * maxProbeTime):
		t.Fatal("the probe has no result")
	}
	result, _ := prober.Latest(id, key, db, time.Now())
	return result.Err
}

package authz_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/holdfast-dev/holdfast/internal/center/authz"
	"github.com/holdfast-dev/holdfast/internal/testutil"
	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
	"github.com/holdfast-dev/holdfast/internal/testutil/controlplane"
)

// world is a real API server with a center that has only the documented permissions.
type world struct {
	plane        *controlplane.Plane
	admin        kubernetes.Interface
	centerConfig *rest.Config
	auditLog     *audit.Log
}

func newWorld(t *testing.T) *world {
	t.Helper()
	p := testutil.ControlPlane(t, controlplane.Options{Audit: true})
	w := &world{plane: p, admin: kubernetes.NewForConfigOrDie(p.Config)}
	var err error
	if w.centerConfig, err = p.ConfigFor("center"); err != nil {
		t.Fatal(err)
	}
	if w.auditLog, err = audit.Open(p.AuditLog()); err != nil {
		t.Fatal(err)
	}
	w.bindCluster(t, "center", "system:auth-delegator", rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: "center"})
	w.waitForAccess(t, "the permissions of the center", w.centerConfig, authorizationv1.ResourceAttributes{
		Verb: "create", Group: "authentication.k8s.io", Resource: "tokenreviews",
	}, true)
	return w
}

// waitForAccess waits until the RBAC cache of the API server is up to date.
func (w *world) waitForAccess(t *testing.T, description string, c *rest.Config, a authorizationv1.ResourceAttributes, want bool) {
	t.Helper()
	client := kubernetes.NewForConfigOrDie(c)
	eventually(t, description, func() bool {
		got, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &a},
		}, metav1.CreateOptions{})
		return err == nil && got.Status.Allowed == want
	})
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
		return v
	}
}

// serviceAccount creates a ServiceAccount and its namespace, and returns a token.
func (w *world) serviceAccount(t *testing.T, namespace, name string) authz.Token {
	t.Helper()
	must[*corev1.Namespace](t)(w.admin.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}))
	must[*corev1.ServiceAccount](t)(w.admin.CoreV1().ServiceAccounts(namespace).Create(t.Context(),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}))
	return authz.NewToken(w.tokenText(t, namespace, name))
}

func (w *world) tokenText(t *testing.T, namespace, name string, audiences ...string) string {
	t.Helper()
	return must[*authenticationv1.TokenRequest](t)(w.admin.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), name,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences}}, metav1.CreateOptions{})).Status.Token
}

func subject(namespace, name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: "ServiceAccount", Namespace: namespace, Name: name}
}

func group(name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: "Group", APIGroup: rbacv1.GroupName, Name: name}
}

func (w *world) clusterRole(t *testing.T, name string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	must[*rbacv1.ClusterRole](t)(w.admin.RbacV1().ClusterRoles().Create(t.Context(),
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}, metav1.CreateOptions{}))
}

func (w *world) bindCluster(t *testing.T, name, role string, subjects ...rbacv1.Subject) {
	t.Helper()
	must[*rbacv1.ClusterRoleBinding](t)(w.admin.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
	}, metav1.CreateOptions{}))
}

// bind binds a ClusterRole in some namespaces.
func (w *world) bind(t *testing.T, role string, s rbacv1.Subject, namespaces ...string) {
	t.Helper()
	for _, ns := range namespaces {
		must[*corev1.Namespace](t)(w.admin.CoreV1().Namespaces().Create(t.Context(),
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, metav1.CreateOptions{}))
		must[*rbacv1.RoleBinding](t)(w.admin.RbacV1().RoleBindings(ns).Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: strings.ReplaceAll(role+"-"+s.Name, ":", "-")}, Subjects: []rbacv1.Subject{s},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		}, metav1.CreateOptions{}))
	}
}

// resignToken returns a token with a different validity, signed with the key of the API server.
func (w *world) resignToken(t *testing.T, text string, change func(claims map[string]any)) string {
	t.Helper()
	raw := must[[]byte](t)(os.ReadFile(filepath.Join(w.plane.Dir, "pki", "sa.key")))
	block, _ := pem.Decode(raw)
	var key *ecdsa.PrivateKey
	if parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
		key = parsed.(*ecdsa.PrivateKey)
	} else {
		key = must[*ecdsa.PrivateKey](t)(x509.ParseECPrivateKey(block.Bytes))
	}
	parts := strings.Split(text, ".")
	var claims map[string]any
	if err := json.Unmarshal(must[[]byte](t)(base64.RawURLEncoding.DecodeString(parts[1])), &claims); err != nil {
		t.Fatal(err)
	}
	change(claims)
	body := parts[0] + "." + base64.RawURLEncoding.EncodeToString(must[[]byte](t)(json.Marshal(claims)))
	digest := sha256.Sum256([]byte(body))
	r, s, err := ecdsa.Sign(rand.Reader, key, digest[:])
	if err != nil {
		t.Fatal(err)
	}
	signature := append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	return body + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// countReviews counts the requests of the center to the API server since a position.
func (w *world) countReviews(t *testing.T, from audit.Position) int {
	t.Helper()
	events, err := w.auditLog.Since(t.Context(), w.plane.Config, from)
	if err != nil {
		t.Fatal(err)
	}
	n, refused := events.By("center").Count().Total()
	if refused > 0 {
		t.Errorf("%d requests of the center were rejected:\n%s", refused, events.By("center").Count())
	}
	return n
}

func (w *world) markAuditLog(t *testing.T) audit.Position {
	t.Helper()
	return must[audit.Position](t)(w.auditLog.Mark(t.Context(), w.plane.Config))
}

func TestOnAPIServer(t *testing.T) {
	w := newWorld(t)
	t.Run("Authenticate", w.testAuthenticate)
	t.Run("Matrix", w.testAccessMatrix)
	t.Run("RequestCounts", w.testRequestCounts)
	t.Run("OpenStream", w.testOpenStream)
	t.Run("CallersOwnToken", w.testConfigForCaller)
	t.Run("APIServerDown", w.testAPIServerDown) // must be last: it stops the API server
}

func (w *world) testAuthenticate(t *testing.T) {
	good := w.serviceAccount(t, "people", "alice")
	gone := w.serviceAccount(t, "people", "gone")
	remade := w.serviceAccount(t, "people", "remade")
	for _, name := range []string{"gone", "remade"} {
		if err := w.admin.CoreV1().ServiceAccounts("people").Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	w.serviceAccount(t, "people", "remade")
	text := authz.Reveal(good)
	expired := w.resignToken(t, text, func(c map[string]any) {
		c["exp"], c["iat"], c["nbf"] = time.Now().Add(-time.Hour).Unix(), time.Now().Add(-2*time.Hour).Unix(), time.Now().Add(-2*time.Hour).Unix()
	})
	resigned := w.resignToken(t, text, func(map[string]any) {})
	forged := text[:len(text)-8] + "AAAAAAAA"
	cases := map[string]struct {
		token authz.Token
		want  error
		say   string
	}{
		"valid":                     {token: good},
		"valid, signed by the test": {token: authz.NewToken(resigned)},
		"expired":                   {authz.NewToken(expired), authz.ErrInvalidToken, "has expired"},
		"deleted ServiceAccount":    {gone, authz.ErrInvalidToken, "does not accept it"},
		"recreated ServiceAccount":  {remade, authz.ErrInvalidToken, "does not accept it"},
		"forged signature":          {authz.NewToken(forged), authz.ErrInvalidToken, "does not accept it"},
		"malformed":                 {authz.NewToken("garbage"), authz.ErrInvalidToken, "does not accept it"},
		"other audience":            {authz.NewToken(w.tokenText(t, "people", "alice", "vault")), authz.ErrInvalidToken, "does not accept it"},
		"no token":                  {authz.Token{}, authz.ErrNoToken, "kubectl create token"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r, _ := newReviewer(t, w.centerConfig, authz.Options{})
			for range 2 {
				user, err := r.Authenticate(t.Context(), tc.token)
				if tc.want == nil {
					if err != nil || user.Name() != "system:serviceaccount:people:alice" || user.UID() == "" {
						t.Fatalf("got %v, %v", user, err)
					}
					continue
				}
				if user != nil || !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.say) {
					t.Errorf("got %v, %v; want %v with %q", user, err, tc.want, tc.say)
				}
			}
			if got := r.Stats(); !tc.token.IsEmpty() && (got.TokenReviews != 1 || got.Cached != 1) {
				t.Errorf("got %+v, want one review and one cached result", got)
			}
		})
	}
	t.Run("with audiences", func(t *testing.T) {
		r, _ := newReviewer(t, w.centerConfig, authz.Options{Audiences: []string{"center"}})
		if _, err := r.Authenticate(t.Context(), authz.NewToken(w.tokenText(t, "people", "alice", "center"))); err != nil {
			t.Errorf("token for the center: %v", err)
		}
		if _, err := r.Authenticate(t.Context(), good); !errors.Is(err, authz.ErrInvalidToken) {
			t.Errorf("token for the API server: %v", err)
		}
	})
}

func (w *world) testRequestCounts(t *testing.T) {
	clusterReader, tenant := w.serviceAccount(t, "calls", "everywhere"), w.serviceAccount(t, "calls", "some")
	w.clusterRole(t, "calls-reader", rbacv1.PolicyRule{
		APIGroups: []string{"", "apps"}, Resources: []string{"pods", "services", "deployments"}, Verbs: []string{"list"},
	})
	w.bindCluster(t, "calls-everywhere", "calls-reader", subject("calls", "everywhere"))
	w.bind(t, "calls-reader", subject("calls", "some"), "calls", "calls-2", "calls-3", "calls-4", "calls-5")
	w.waitForAccess(t, "the permissions of some", w.impersonate("calls", "some"),
		authorizationv1.ResourceAttributes{Verb: "list", Resource: "pods", Namespace: "calls-5"}, true)

	var page []authz.Scope
	for i := range 1000 {
		ns := fmt.Sprint("calls-", i)
		page = append(page, authz.Scope{Resource: "pods", Namespace: ns}, authz.Scope{Resource: "services", Namespace: ns},
			authz.Scope{Group: "apps", Resource: "deployments", Namespace: ns})
	}
	cases := map[string]struct {
		token authz.Token
		want  int // requests of the first time: the token, three cluster-wide scopes, one per scope
		sees  int
		// Requests of a re-check of two streams: the token, three cluster-wide scopes, one per
		// allowed scope and 200 of the others. Both streams share them.
		wantRound int
	}{
		"cluster-wide reader":       {clusterReader, 1 + 3, 3000, 1 + 3},
		"tenant of four namespaces": {tenant, 1 + 3 + 3000, 12, 1 + 3 + 12 + 200},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r, clock := newReviewer(t, w.centerConfig, authz.Options{})
			for round, want := range []int{tc.want, 0} {
				from, began := w.markAuditLog(t), time.Now()
				viewer, err := r.StreamViewer(t.Context(), tc.token)
				if err != nil {
					t.Fatal(err)
				}
				if err := viewer.Prefetch(t.Context(), page); err != nil {
					t.Fatal(err)
				}
				took := time.Since(began)
				seen := 0
				for _, scope := range page {
					if viewer.Allows(scope) {
						seen++
					}
				}
				got := w.countReviews(t, from)
				if got != want || seen != tc.sees {
					t.Errorf("time %d: got %d requests and %d allowed scopes, want %d and %d", round+1, got, seen, want, tc.sees)
				}
				t.Logf("time %d: 3,000 scopes of 1,000 namespaces: %d requests, %s, %d allowed", round+1, got, took.Round(time.Millisecond), seen)
			}
			from := w.markAuditLog(t)
			eventually(t, "the timers of the streams", func() bool { return clock.Waiters() == 2 })
			clock.Step(30 * time.Second)
			eventually(t, "a re-check of both streams", func() bool { return clock.Waiters() == 2 })
			got := w.countReviews(t, from)
			if got != tc.wantRound {
				t.Errorf("a re-check of two streams: got %d requests, want %d", got, tc.wantRound)
			}
			t.Logf("a re-check of two streams: %d requests", got)
		})
	}
}

func (w *world) testConfigForCaller(t *testing.T) {
	token := w.serviceAccount(t, "own", "carol")
	r, _ := newReviewer(t, w.centerConfig, authz.Options{})
	config, err := r.ConfigFor(token)
	if err != nil {
		t.Fatal(err)
	}
	if len(config.CertData) > 0 || len(config.KeyData) > 0 || config.CertFile != "" {
		t.Error("it contains the certificate of the center")
	}
	got := must[*authenticationv1.SelfSubjectReview](t)(kubernetes.NewForConfigOrDie(config).AuthenticationV1().SelfSubjectReviews().
		Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{}))
	if name := got.Status.UserInfo.Username; name != "system:serviceaccount:own:carol" {
		t.Errorf("it sends requests as %q", name)
	}
}

func (w *world) testAPIServerDown(t *testing.T) {
	known, unknown := w.serviceAccount(t, "away", "dave"), w.serviceAccount(t, "away", "erin")
	w.bind(t, "view", subject("away", "dave"), "away")
	right := authz.Attributes{Verb: "list", Resource: "pods", Namespace: "away"}
	w.waitForAccess(t, "the permission of dave", w.impersonate("away", "dave"),
		authorizationv1.ResourceAttributes{Verb: "list", Resource: "pods", Namespace: "away"}, true)

	r, clock := newReviewer(t, w.centerConfig, authz.Options{ReviewTimeout: time.Second, DecisionTimeout: time.Second})
	user, err := r.Authenticate(t.Context(), known)
	if err != nil {
		t.Fatal(err)
	}
	viewer, err := r.StreamViewer(t.Context(), known)
	if err != nil {
		t.Fatal(err)
	}
	here, there := authz.Scope{Resource: "pods", Namespace: "away"}, authz.Scope{Resource: "services", Namespace: "away"}
	if yes, err := r.Allowed(t.Context(), user, right); !yes || err != nil || !viewer.Allows(here) {
		t.Fatalf("got %t, %v", yes, err)
	}
	if err := w.plane.APIServer.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Authenticate(t.Context(), unknown); !errors.Is(err, authz.ErrReviewFailed) || errors.Is(err, authz.ErrInvalidToken) {
		t.Errorf("unknown token: %v", err)
	} else {
		t.Logf("error: %v", err)
	}
	if viewer.Allows(there) {
		t.Error("an undecided scope is allowed")
	}
	clock.Step(31 * time.Second)
	if _, err := r.Authenticate(t.Context(), known); !errors.Is(err, authz.ErrReviewFailed) {
		t.Errorf("known token after 31 s: %v", err)
	}
	if yes, err := r.Allowed(t.Context(), user, right); yes || !errors.Is(err, authz.ErrReviewFailed) {
		t.Errorf("cached review after 31 s: %t, %v", yes, err)
	}
	clock.Step(30 * time.Second)
	if viewer.Allows(here) {
		t.Error("allowed after 61 s")
	}
	eventually(t, "the end of the stream", func() bool { return signaled(viewer.Revoked()) })
	if !errors.Is(viewer.Err(), authz.ErrReviewFailed) {
		t.Errorf("got %v", viewer.Err())
	}
	t.Logf("error: %v", viewer.Err())
	if ctx, cancel := context.WithTimeout(t.Context(), time.Second); viewer.Prefetch(ctx, []authz.Scope{there}) == nil {
		cancel()
		t.Error("a terminated viewer allows access")
	} else {
		cancel()
	}
}

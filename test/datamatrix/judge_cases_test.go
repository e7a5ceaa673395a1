package datamatrix

import (
	"encoding/base64"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/holdfast-dev/holdfast/internal/testutil/watcher"
)

// seen makes films: "+claim/data-shop-db-0/a" is added with the UID a, ~ is changed and - is
// gone; what follows is a password, "dying" or "retained". Each line is a version later.
func seen(t *testing.T, lines string) []watcher.Event {
	t.Helper()
	kinds := map[string]schema.GroupVersionResource{"claim": claims, "set": sets, "secret": secrets}
	verbs := map[byte]watch.EventType{'+': watch.Added, '~': watch.Modified, '-': watch.Deleted}
	var out []watcher.Event
	for i, line := range strings.Split(strings.TrimSpace(lines), "\n") {
		what, more, _ := strings.Cut(strings.TrimSpace(line), " ")
		part := strings.Split(what[1:], "/")
		u := &unstructured.Unstructured{Object: map[string]any{}}
		u.SetName(part[1])
		switch {
		case more == "dying":
			u.Object["metadata"].(map[string]any)["deletionTimestamp"] = "2026-01-02T03:04:05Z"
		case more == "retained":
			u.SetLabels(map[string]string{"apps.holdfast.dev/retained": "true"})
		case part[0] == "secret":
			u.Object["data"] = map[string]any{"password": base64.StdEncoding.EncodeToString([]byte(more))}
		}
		out = append(out, watcher.Event{Type: verbs[what[0]], Resource: kinds[part[0]], Key: "shop/" + part[1],
			UID: types.UID(part[2]), ResourceVersion: strconv.Itoa(i + 1), Object: u})
	}
	return out
}

const (
	calm = `+secret/shop-db-auth/s one
		+set/shop-db/x
		+claim/data-shop-db-0/a
	`
	emptied = calm + `-set/shop-db/x
		~claim/data-shop-db-0/a dying
		-claim/data-shop-db-0/a
		-secret/shop-db-auth/s one
	`
)

func TestJudge(t *testing.T) {
	asked := []window{{from: 3, to: 7}}
	for name, tc := range map[string]struct {
		film   string
		purges []window
		want   string // "" is nothing
	}{
		"nothing":                       {film: calm},
		"the set is another one":        {film: calm + "-set/shop-db/x\n+set/shop-db/y"},
		"labels":                        {film: calm + "~claim/data-shop-db-0/a retained\n~secret/shop-db-auth/s one"},
		"deleted by hand, and restored": {film: calm + "-secret/shop-db-auth/hand one\n+secret/shop-db-auth/r one"},
		"gone as asked, and anew":       {film: emptied + "+secret/shop-db-auth/s2 two\n+set/shop-db/y\n+claim/data-shop-db-0/b", purges: asked},
		"gone as asked, under another":  {film: emptied + "+secret/shop-new-auth/s2 two\n+set/shop-new/y\n+claim/data-shop-new-0/b", purges: asked},

		"a claim begins to go":           {film: calm + "~claim/data-shop-db-0/a dying", want: "a claim is deleted, and nobody asked"},
		"a claim goes":                   {film: calm + "-claim/data-shop-db-0/a", want: "a claim is deleted, and nobody asked"},
		"a claim goes too late":          {film: calm + "-claim/data-shop-db-0/a", purges: []window{{from: 1, to: 3}}, want: "a claim is deleted"},
		"a retained claim goes":          {film: calm + "-claim/data-shop-db-0/a retained", purges: asked, want: "a claim is deleted"},
		"a claim becomes another":        {film: calm + "~claim/data-shop-db-0/b", want: "became another one, b"},
		"two claims":                     {film: calm + "+claim/data-shop-new-0/b", want: "made beside that of data-shop-db-0"},
		"two sets":                       {film: calm + "+set/shop-new/y", want: "a set is made beside shop-db"},
		"a set beside the data":          {film: calm + "-set/shop-db/x\n+set/shop-new/y", want: "does not have the data of data-shop-db-0"},
		"a set before the data went":     {film: calm + "-set/shop-db/x\n+set/shop-new/y\n-claim/data-shop-db-0/a", purges: asked, want: "does not have the data"},
		"another password":               {film: calm + "~secret/shop-db-auth/s two", want: "the password is another one"},
		"another password after hand":    {film: calm + "-secret/shop-db-auth/hand one\n+secret/shop-db-auth/r two", want: "the password is another one"},
		"another password in the window": {film: calm + "-secret/shop-db-auth/s one\n+secret/shop-db-auth/r two", purges: asked, want: "the password is another one"},
		"no password":                    {film: calm + "~secret/shop-db-auth/s", want: "has no password"},
		"a Secret goes":                  {film: calm + "-secret/shop-db-auth/s one", want: "a Secret is deleted, and nobody asked"},
	} {
		t.Run(name, func(t *testing.T) {
			s := story{purges: tc.purges, byHand: map[types.UID]bool{"hand": true}}
			got := strings.Join(s.judge(seen(t, tc.film)), "\n")
			if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
				t.Errorf("want %q, got %q", tc.want, got)
			}
		})
	}
}

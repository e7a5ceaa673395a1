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

// parseEvents makes films: "+claim/data-shop-db-0/a" is added with the UID a, ~ is changed and - is
// gone; what follows is a password, "dying" or "retained". Each line is a version later.
func parseEvents(t *testing.T, lines string) []watcher.Event {
	t.Helper()
	kinds := map[string]schema.GroupVersionResource{"claim": claimResource, "set": statefulSetResource, "secret": secretResource}
	verbs := map[byte]watch.EventType{'+': watch.Added, '~': watch.Modified, '-': watch.Deleted}
	var out []watcher.Event
	for i, line := range strings.Split(strings.TrimSpace(lines), "\n") {
		object, detail, _ := strings.Cut(strings.TrimSpace(line), " ")
		fields := strings.Split(object[1:], "/")
		u := &unstructured.Unstructured{Object: map[string]any{}}
		u.SetName(fields[1])
		switch {
		case detail == "dying":
			u.Object["metadata"].(map[string]any)["deletionTimestamp"] = "2026-01-02T03:04:05Z"
		case detail == "retained":
			u.SetLabels(map[string]string{"apps.holdfast.dev/retained": "true"})
		case fields[0] == "secret":
			u.Object["data"] = map[string]any{"password": base64.StdEncoding.EncodeToString([]byte(detail))}
		}
		out = append(out, watcher.Event{Type: verbs[object[0]], Resource: kinds[fields[0]], Key: "shop/" + fields[1],
			UID: types.UID(fields[2]), ResourceVersion: strconv.Itoa(i + 1), Object: u})
	}
	return out
}

const (
	steadyEvents = `+secret/shop-db-auth/s one
		+set/shop-db/x
		+claim/data-shop-db-0/a
	`
	purgedEvents = steadyEvents + `-set/shop-db/x
		~claim/data-shop-db-0/a dying
		-claim/data-shop-db-0/a
		-secret/shop-db-auth/s one
	`
)

func TestCheckFindsViolations(t *testing.T) {
	deletionWindow := []window{{from: 3, to: 7}}
	for name, tc := range map[string]struct {
		events          string
		deletionWindows []window
		want            string // "" is nothing
	}{
		"nothing":                       {events: steadyEvents},
		"the set is another one":        {events: steadyEvents + "-set/shop-db/x\n+set/shop-db/y"},
		"labels":                        {events: steadyEvents + "~claim/data-shop-db-0/a retained\n~secret/shop-db-auth/s one"},
		"deleted by hand, and restored": {events: steadyEvents + "-secret/shop-db-auth/hand one\n+secret/shop-db-auth/r one"},
		"gone as asked, and anew":       {events: purgedEvents + "+secret/shop-db-auth/s2 two\n+set/shop-db/y\n+claim/data-shop-db-0/b", deletionWindows: deletionWindow},
		"gone as asked, under another":  {events: purgedEvents + "+secret/shop-new-auth/s2 two\n+set/shop-new/y\n+claim/data-shop-new-0/b", deletionWindows: deletionWindow},

		"a claim begins to go":           {events: steadyEvents + "~claim/data-shop-db-0/a dying", want: "a claim is deleted, and nobody asked"},
		"a claim goes":                   {events: steadyEvents + "-claim/data-shop-db-0/a", want: "a claim is deleted, and nobody asked"},
		"a claim goes too late":          {events: steadyEvents + "-claim/data-shop-db-0/a", deletionWindows: []window{{from: 1, to: 3}}, want: "a claim is deleted"},
		"a retained claim goes":          {events: steadyEvents + "-claim/data-shop-db-0/a retained", deletionWindows: deletionWindow, want: "a claim is deleted"},
		"a claim becomes another":        {events: steadyEvents + "~claim/data-shop-db-0/b", want: "became another one, b"},
		"two claims":                     {events: steadyEvents + "+claim/data-shop-new-0/b", want: "made beside that of data-shop-db-0"},
		"two sets":                       {events: steadyEvents + "+set/shop-new/y", want: "a set is made beside shop-db"},
		"a set beside the data":          {events: steadyEvents + "-set/shop-db/x\n+set/shop-new/y", want: "does not have the data of data-shop-db-0"},
		"a set before the data went":     {events: steadyEvents + "-set/shop-db/x\n+set/shop-new/y\n-claim/data-shop-db-0/a", deletionWindows: deletionWindow, want: "does not have the data"},
		"another password":               {events: steadyEvents + "~secret/shop-db-auth/s two", want: "the password is another one"},
		"another password after hand":    {events: steadyEvents + "-secret/shop-db-auth/hand one\n+secret/shop-db-auth/r two", want: "the password is another one"},
		"another password in the window": {events: steadyEvents + "-secret/shop-db-auth/s one\n+secret/shop-db-auth/r two", deletionWindows: deletionWindow, want: "the password is another one"},
		"no password":                    {events: steadyEvents + "~secret/shop-db-auth/s", want: "has no password"},
		"a Secret goes":                  {events: steadyEvents + "-secret/shop-db-auth/s one", want: "a Secret is deleted, and nobody asked"},
	} {
		t.Run(name, func(t *testing.T) {
			s := history{deletionWindows: tc.deletionWindows, manuallyDeleted: map[types.UID]bool{"hand": true}}
			got := strings.Join(s.check(parseEvents(t, tc.events)), "\n")
			if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
				t.Errorf("want %q, got %q", tc.want, got)
			}
		})
	}
}

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

// parseEvents parses one event per line: "+claim/data-shop-db-0/a" adds the object with UID a, ~ modifies and - deletes
// it. The rest of the line is a password, "dying" or "retained". The line number is the resource version.
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
		want            string // "" means no violation
	}{
		"nothing":                                {events: steadyEvents},
		"StatefulSet recreated":                  {events: steadyEvents + "-set/shop-db/x\n+set/shop-db/y"},
		"labels":                                 {events: steadyEvents + "~claim/data-shop-db-0/a retained\n~secret/shop-db-auth/s one"},
		"Secret deleted manually, then restored": {events: steadyEvents + "-secret/shop-db-auth/hand one\n+secret/shop-db-auth/r one"},
		"purged as requested, then recreated":    {events: purgedEvents + "+secret/shop-db-auth/s2 two\n+set/shop-db/y\n+claim/data-shop-db-0/b", deletionWindows: deletionWindow},
		"purged as requested, then created with another name": {events: purgedEvents + "+secret/shop-new-auth/s2 two\n+set/shop-new/y\n+claim/data-shop-new-0/b", deletionWindows: deletionWindow},

		"claim deletion begins":                  {events: steadyEvents + "~claim/data-shop-db-0/a dying", want: "claim deleted without a request"},
		"claim deleted":                          {events: steadyEvents + "-claim/data-shop-db-0/a", want: "claim deleted without a request"},
		"claim deleted after the window":         {events: steadyEvents + "-claim/data-shop-db-0/a", deletionWindows: []window{{from: 1, to: 3}}, want: "claim deleted without a request"},
		"retained claim deleted":                 {events: steadyEvents + "-claim/data-shop-db-0/a retained", deletionWindows: deletionWindow, want: "claim deleted without a request"},
		"claim replaced":                         {events: steadyEvents + "~claim/data-shop-db-0/b", want: "replaced by b"},
		"two claims":                             {events: steadyEvents + "+claim/data-shop-new-0/b", want: "second claim next to data-shop-db-0"},
		"two StatefulSets":                       {events: steadyEvents + "+set/shop-new/y", want: "second StatefulSet next to shop-db"},
		"StatefulSet without the data":           {events: steadyEvents + "-set/shop-db/x\n+set/shop-new/y", want: "does not use the data of data-shop-db-0"},
		"StatefulSet before the data is deleted": {events: steadyEvents + "-set/shop-db/x\n+set/shop-new/y\n-claim/data-shop-db-0/a", deletionWindows: deletionWindow, want: "does not use the data"},
		"password changed":                       {events: steadyEvents + "~secret/shop-db-auth/s two", want: "password changed"},
		"password changed on restore":            {events: steadyEvents + "-secret/shop-db-auth/hand one\n+secret/shop-db-auth/r two", want: "password changed"},
		"password changed in the window":         {events: steadyEvents + "-secret/shop-db-auth/s one\n+secret/shop-db-auth/r two", deletionWindows: deletionWindow, want: "password changed"},
		"no password":                            {events: steadyEvents + "~secret/shop-db-auth/s", want: "without a password"},
		"Secret deleted":                         {events: steadyEvents + "-secret/shop-db-auth/s one", want: "Secret deleted without a request"},
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

package datamatrix

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/watcher"
)

// story is what people did, as far as it is needed to judge what became of it.
type story struct {
	marks []mark
	// purges are when data was asked to go.
	purges []window
	// byHand are the Secrets that somebody deleted, secret is the name of the last.
	byHand map[types.UID]bool
	secret string
}

// window is from one version of the cluster to another.
type window struct{ from, to int64 }

// asked says whether something was to be deleted. What was kept on purpose is not.
func (s *story) asked(e watcher.Event) bool {
	at := version(e.ResourceVersion)
	return e.Object.GetLabels()[appsapi.LabelRetained] != "true" &&
		slices.ContainsFunc(s.purges, func(w window) bool { return w.from < at && at <= w.to })
}

// inOrder are events of several kinds in the order in which they happened: resource versions
// count the writes to the whole cluster.
func inOrder(events []watcher.Event) []watcher.Event {
	return slices.SortedStableFunc(slices.Values(events), func(a, b watcher.Event) int {
		return cmp.Compare(version(a.ResourceVersion), version(b.ResourceVersion))
	})
}

// court is what is known at one moment of the film.
type court struct {
	*story
	claims, sets map[string]types.UID
	dying        map[types.UID]bool
	password     string
	broken       []string
}

// judge says what must not have happened.
func (s *story) judge(events []watcher.Event) []string {
	c := &court{story: s, claims: map[string]types.UID{}, sets: map[string]types.UID{}, dying: map[types.UID]bool{}}
	for _, e := range inOrder(events) {
		switch e.Resource {
		case claims:
			c.claim(e)
		case sets:
			c.set(e)
		case secrets:
			if isCredentials(e.Object.GetName()) {
				c.credentials(e)
			}
		}
	}
	return c.broken
}

func (c *court) violation(e watcher.Event, format string, args ...any) {
	c.broken = append(c.broken, fmt.Sprintf("%s: %s", e, fmt.Sprintf(format, args...)))
}

func (c *court) claim(e watcher.Event) {
	name := e.Object.GetName()
	if was, there := c.claims[name]; there && was != e.UID {
		c.violation(e, "the claim %s became another one, %s", was, e.UID)
	}
	gone := e.Type == watch.Deleted
	if dies := gone || e.Object.GetDeletionTimestamp() != nil; dies && !c.dying[e.UID] {
		c.dying[e.UID] = true
		if !c.asked(e) {
			c.violation(e, "a claim is deleted, and nobody asked for that")
		}
	}
	if gone {
		delete(c.claims, name)
		if len(c.claims) == 0 {
			c.password = "" // opens nothing any more
		}
		return
	}
	if _, there := c.claims[name]; !there {
		for other := range c.claims {
			c.violation(e, "a volume is made beside that of %s", other)
		}
	}
	c.claims[name] = e.UID
}

func (c *court) set(e watcher.Event) {
	name := e.Object.GetName()
	if e.Type == watch.Deleted {
		delete(c.sets, name)
		return
	}
	if c.sets[name] == e.UID {
		return
	}
	c.sets[name] = e.UID
	for other := range c.sets {
		if other != name {
			c.violation(e, "a set is made beside %s", other)
		}
	}
	for claim := range c.claims {
		if !strings.HasPrefix(claim, "data-"+name+"-") {
			c.violation(e, "a set is made that does not have the data of %s", claim)
		}
	}
}

func (c *court) credentials(e watcher.Event) {
	if e.Type == watch.Deleted {
		if !c.byHand[e.UID] && !c.asked(e) {
			c.violation(e, "a Secret is deleted, and nobody asked for that")
		}
		return
	}
	password := string(typed[corev1.Secret](e.Object).Data["password"])
	switch {
	case password == "":
		c.violation(e, "the Secret has no password")
	case len(c.claims) > 0 && c.password != "" && password != c.password:
		c.violation(e, "the password is another one, and the volume the same")
	}
	c.password = password
}

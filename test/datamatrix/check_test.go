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

// history is what people did, as far as it is needed to judge what became of it.
type history struct {
	steps []step
	// deletionWindows are when data was asked to go.
	deletionWindows []window
	// manuallyDeleted are the Secrets that somebody deleted, secret is the name of the last.
	manuallyDeleted map[types.UID]bool
	deletedSecret   string
}

// window is from one version of the cluster to another.
type window struct{ from, to int64 }

// deletionRequested says whether something was to be deleted. What was kept on purpose is not.
func (s *history) deletionRequested(e watcher.Event) bool {
	at := parseVersion(e.ResourceVersion)
	return e.Object.GetLabels()[appsapi.LabelRetained] != "true" &&
		slices.ContainsFunc(s.deletionWindows, func(w window) bool { return w.from < at && at <= w.to })
}

// sortByVersion are events of several kinds in the order in which they happened: resource versions
// count the writes to the whole cluster.
func sortByVersion(events []watcher.Event) []watcher.Event {
	return slices.SortedStableFunc(slices.Values(events), func(a, b watcher.Event) int {
		return cmp.Compare(parseVersion(a.ResourceVersion), parseVersion(b.ResourceVersion))
	})
}

// dataChecker is what is known at one moment of the film.
type dataChecker struct {
	*history
	claims, sets map[string]types.UID
	deleting     map[types.UID]bool
	password     string
	violations   []string
}

// check says what must not have happened.
func (s *history) check(events []watcher.Event) []string {
	c := &dataChecker{history: s, claims: map[string]types.UID{}, sets: map[string]types.UID{}, deleting: map[types.UID]bool{}}
	for _, e := range sortByVersion(events) {
		switch e.Resource {
		case claimResource:
			c.checkClaim(e)
		case statefulSetResource:
			c.checkStatefulSet(e)
		case secretResource:
			if isCredentials(e.Object.GetName()) {
				c.checkCredentials(e)
			}
		}
	}
	return c.violations
}

func (c *dataChecker) addViolation(e watcher.Event, format string, args ...any) {
	c.violations = append(c.violations, fmt.Sprintf("%s: %s", e, fmt.Sprintf(format, args...)))
}

func (c *dataChecker) checkClaim(e watcher.Event) {
	name := e.Object.GetName()
	if previous, exists := c.claims[name]; exists && previous != e.UID {
		c.addViolation(e, "the claim %s became another one, %s", previous, e.UID)
	}
	deleted := e.Type == watch.Deleted
	if isDeleting := deleted || e.Object.GetDeletionTimestamp() != nil; isDeleting && !c.deleting[e.UID] {
		c.deleting[e.UID] = true
		if !c.deletionRequested(e) {
			c.addViolation(e, "a claim is deleted, and nobody asked for that")
		}
	}
	if deleted {
		delete(c.claims, name)
		if len(c.claims) == 0 {
			c.password = "" // opens nothing any more
		}
		return
	}
	if _, exists := c.claims[name]; !exists {
		for other := range c.claims {
			c.addViolation(e, "a volume is made beside that of %s", other)
		}
	}
	c.claims[name] = e.UID
}

func (c *dataChecker) checkStatefulSet(e watcher.Event) {
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
			c.addViolation(e, "a set is made beside %s", other)
		}
	}
	for claim := range c.claims {
		if !strings.HasPrefix(claim, "data-"+name+"-") {
			c.addViolation(e, "a set is made that does not have the data of %s", claim)
		}
	}
}

func (c *dataChecker) checkCredentials(e watcher.Event) {
	if e.Type == watch.Deleted {
		if !c.manuallyDeleted[e.UID] && !c.deletionRequested(e) {
			c.addViolation(e, "a Secret is deleted, and nobody asked for that")
		}
		return
	}
	password := string(fromUnstructured[corev1.Secret](e.Object).Data["password"])
	switch {
	case password == "":
		c.addViolation(e, "the Secret has no password")
	case len(c.claims) > 0 && c.password != "" && password != c.password:
		c.addViolation(e, "the password is another one, and the volume the same")
	}
	c.password = password
}

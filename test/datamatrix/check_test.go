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

// history records the user actions that are needed to judge the events.
type history struct {
	steps []step
	// deletionWindows are the times in which the user requested deletion of data.
	deletionWindows []window
	// manuallyDeleted are the Secrets that the user deleted, secret is the name of the last one.
	manuallyDeleted map[types.UID]bool
	deletedSecret   string
}

// window is a range of resource versions of the cluster.
type window struct{ from, to int64 }

// deletionRequested reports whether the user requested the deletion. Retained objects are never included.
func (s *history) deletionRequested(e watcher.Event) bool {
	at := parseVersion(e.ResourceVersion)
	return e.Object.GetLabels()[appsapi.DefaultKeys.Retained] != "true" &&
		slices.ContainsFunc(s.deletionWindows, func(w window) bool { return w.from < at && at <= w.to })
}

// sortByVersion sorts events of several kinds by resource version, which counts all writes to the cluster.
func sortByVersion(events []watcher.Event) []watcher.Event {
	return slices.SortedStableFunc(slices.Values(events), func(a, b watcher.Event) int {
		return cmp.Compare(parseVersion(a.ResourceVersion), parseVersion(b.ResourceVersion))
	})
}

// dataChecker is the state at one point of the event history.
type dataChecker struct {
	*history
	claims, sets map[string]types.UID
	deleting     map[types.UID]bool
	password     string
	violations   []string
}

// check returns the violations.
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
		c.addViolation(e, "claim %s was replaced by %s", previous, e.UID)
	}
	deleted := e.Type == watch.Deleted
	if isDeleting := deleted || e.Object.GetDeletionTimestamp() != nil; isDeleting && !c.deleting[e.UID] {
		c.deleting[e.UID] = true
		if !c.deletionRequested(e) {
			c.addViolation(e, "claim deleted without a request")
		}
	}
	if deleted {
		delete(c.claims, name)
		if len(c.claims) == 0 {
			c.password = "" // valid only for the deleted volume
		}
		return
	}
	if _, exists := c.claims[name]; !exists {
		for other := range c.claims {
			c.addViolation(e, "second claim next to %s", other)
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
			c.addViolation(e, "second StatefulSet next to %s", other)
		}
	}
	for claim := range c.claims {
		if !strings.HasPrefix(claim, "data-"+name+"-") {
			c.addViolation(e, "StatefulSet does not use the data of %s", claim)
		}
	}
}

func (c *dataChecker) checkCredentials(e watcher.Event) {
	if e.Type == watch.Deleted {
		if !c.manuallyDeleted[e.UID] && !c.deletionRequested(e) {
			c.addViolation(e, "Secret deleted without a request")
		}
		return
	}
	password := string(fromUnstructured[corev1.Secret](e.Object).Data["password"])
	switch {
	case password == "":
		c.addViolation(e, "Secret without a password")
	case len(c.claims) > 0 && c.password != "" && password != c.password:
		c.addViolation(e, "password changed, but the volume did not")
	}
	c.password = password
}

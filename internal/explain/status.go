package explain

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// maxCauses limits the causes in a status.
const maxCauses = 3

// PreserveSince returns the causes with the start times of the same causes in the previous status,
// sorted again. Each restart of a crashing container updates the conditions of its pod, but the
// cause is the same.
func PreserveSince(causes []Cause, before []appsapi.Cause) []Cause {
	result := slices.Clone(causes)
	unmatched := slices.Clone(before)
	// Match equal messages first: one pod can lack two Secrets, each since a different time.
	found := make([]bool, len(result))
	for _, exact := range []bool{true, false} {
		for i := range result {
			if !found[i] {
				found[i] = takeSince(&result[i], unmatched, exact)
			}
		}
	}
	sortCauses(result)
	return result
}

// takeSince takes the start time of a cause from the unmatched causes and removes the match.
func takeSince(c *Cause, unmatched []appsapi.Cause, exact bool) bool {
	i := slices.IndexFunc(unmatched, func(b appsapi.Cause) bool {
		return b.Code == string(c.Code) && b.Object.Kind == c.Object.Kind && b.Object.Name == c.Object.Name &&
			(!exact || b.Message == c.Message) && !b.Since.IsZero()
	})
	if i < 0 {
		return false
	}
	c.Since = unmatched[i].Since.Time
	unmatched[i] = appsapi.Cause{}
	return true
}

// ForStatus returns the most important causes for a status, without evidence: every user who can
// read the application can read its status, and it must not change without a change of the cause.
func ForStatus(causes []Cause) []appsapi.Cause {
	var out []appsapi.Cause
	for _, c := range causes[:min(len(causes), maxCauses)] {
		out = append(out, appsapi.Cause{
			Code:    string(c.Code),
			Message: c.Message,
			Object:  appsapi.ObjectReference{Kind: c.Object.Kind, Name: c.Object.Name},
			// The API stores seconds: a finer time would differ from the stored one.
			Since: metav1.NewTime(c.Since.Truncate(time.Second)),
		})
	}
	return out
}

// Warning returns the message of the first notice that needs an action although everything is ready; empty
// if there is none.
func Warning(causes []Cause) string {
	i := slices.IndexFunc(causes, func(c Cause) bool { return c.Code == AutoscalerMetricsMissing })
	if i < 0 {
		return ""
	}
	return causes[i].Message
}

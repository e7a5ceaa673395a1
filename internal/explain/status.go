package explain

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// maxCauses is how many causes a status has room for.
const maxCauses = 3

// PreserveSince returns the causes with the time at which a status already says that they began,
// and in the order that follows from it. A pod says since when it is not ready, and a
// container that starts and crashes moves that each time; the cause lasts all along.
func PreserveSince(causes []Cause, before []appsapi.Cause) []Cause {
	result := slices.Clone(causes)
	unmatched := slices.Clone(before)
	// The same sentence first: one pod can lack two Secrets, each since its own time.
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

// takeSince looks for a cause in what is left of a status, and takes it away from there.
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

// ForStatus returns the most important causes as they go into a status: what everybody
// may read and what does not change by itself.
func ForStatus(causes []Cause) []appsapi.Cause {
	var out []appsapi.Cause
	for _, c := range causes[:min(len(causes), maxCauses)] {
		out = append(out, appsapi.Cause{
			Code:    string(c.Code),
			Message: c.Message,
			Object:  appsapi.ObjectReference{Kind: c.Object.Kind, Name: c.Object.Name},
			// The API keeps seconds: with more, what was written would differ from what is read.
			Since: metav1.NewTime(c.Since.Truncate(time.Second)),
		})
	}
	return out
}

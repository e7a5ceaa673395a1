// Package conditions sets the conditions of a status.
//
// Safety rule: an equal condition is not changed. Its time changes only when its status changes, so that
// equal statuses compare equal.
package conditions

import (
	"strings"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxMessage keeps a message readable in a terminal and a status small.
const maxMessage = 1024

// Set sets a condition.
func Set(conditions *[]metav1.Condition, c metav1.Condition, now time.Time) {
	c.Message = Trim(c.Message)
	c.LastTransitionTime = metav1.NewTime(now).Rfc3339Copy()
	meta.SetStatusCondition(conditions, c)
}

// SetOrRemove sets a condition to True, or removes it.
func SetOrRemove(conditions *[]metav1.Condition, present bool, c metav1.Condition, now time.Time) {
	if !present {
		meta.RemoveStatusCondition(conditions, c.Type)
		return
	}
	c.Status = metav1.ConditionTrue
	Set(conditions, c, now)
}

// Trim joins the lines of a message and shortens it to the maximum length of a condition message.
func Trim(message string) string { return Truncate(message, maxMessage) }

// Truncate joins the lines of a text and shortens it to at most limit bytes, at a word boundary if there
// is one in the second half, and never within a character.
func Truncate(text string, limit int) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) <= limit {
		return text
	}
	const ellipsis = " ..."
	cut := max(0, limit-len(ellipsis))
	for cut > 0 && !utf8.RuneStart(text[cut]) { // invalid bytes are not the start of a rune
		cut--
	}
	if space := strings.LastIndexByte(text[:cut], ' '); space > limit/2 {
		cut = space
	}
	return (text[:cut] + ellipsis)[:min(limit, cut+len(ellipsis))]
}

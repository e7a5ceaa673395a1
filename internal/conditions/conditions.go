// Package conditions writes the conditions of a status.
//
// Safety rule: a condition that says the same as before is the same as before. Its
// time moves only when its status flips, so that equal statuses compare equal.
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

// SetOrRemove sets a condition that is only there while it is True.
func SetOrRemove(conditions *[]metav1.Condition, present bool, c metav1.Condition, now time.Time) {
	if !present {
		meta.RemoveStatusCondition(conditions, c.Type)
		return
	}
	c.Status = metav1.ConditionTrue
	Set(conditions, c, now)
}

// Trim puts a message on one line and shortens it to what a condition may hold.
func Trim(message string) string { return Truncate(message, maxMessage) }

// Truncate puts a text on one line and shortens it to at most limit bytes, at the end of a word
// if there is one in the second half, and never inside a character.
func Truncate(text string, limit int) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) <= limit {
		return text
	}
	const ellipsis = " ..."
	cut := max(0, limit-len(ellipsis))
	for cut > 0 && !utf8.RuneStart(text[cut]) { // bytes that are no characters have no start
		cut--
	}
	if space := strings.LastIndexByte(text[:cut], ' '); space > limit/2 {
		cut = space
	}
	return (text[:cut] + ellipsis)[:min(limit, cut+len(ellipsis))]
}

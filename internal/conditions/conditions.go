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

// Trim shortens a message at the end of a word, and puts it on one line.
func Trim(message string) string {
	message = strings.Join(strings.Fields(message), " ")
	if len(message) <= maxMessage {
		return message
	}
	const ellipsis = " ..."
	cut := maxMessage - len(ellipsis)
	for !utf8.RuneStart(message[cut]) {
		cut--
	}
	if space := strings.LastIndexByte(message[:cut], ' '); space > maxMessage/2 {
		cut = space
	}
	return message[:cut] + ellipsis
}

package desired

import (
	"fmt"
	"strconv"
	"strings"
)

// The schema checks that a schedule has five fields, but not the ranges of their values.

// cronFields are the fields of a schedule in order.
var cronFields = []struct {
	name        string
	first, last int
	words       string // names of the values from first to last
}{
	{name: "minute", first: 0, last: 59},
	{name: "hour", first: 0, last: 23},
	{name: "day of the month", first: 1, last: 31},
	{name: "month", first: 1, last: 12, words: "jan feb mar apr may jun jul aug sep oct nov dec"},
	{name: "day of the week", first: 0, last: 6, words: "sun mon tue wed thu fri sat"},
}

// validateSchedule validates the schedule of a job.
func validateSchedule(schedule string) error {
	parts := strings.Fields(schedule)
	if len(parts) != len(cronFields) {
		return nil // a macro such as @daily, which the schema checks
	}
	for i, field := range cronFields {
		for part := range strings.SplitSeq(parts[i], ",") {
			if !isValidCronPart(part, field.first, field.last, strings.Fields(field.words)) {
				return fmt.Errorf("schedule %q has %q as the %s, which must be from %d to %d; "+
					"correct it, for example \"0 3 * * *\" for every day at 03:00",
					schedule, parts[i], field.name, field.first, field.last)
			}
		}
	}
	return nil
}

// isValidCronPart reports whether a part of a field is valid: *, 5 or 1-5, each optionally with a step such as
// /2.
func isValidCronPart(part string, first, last int, words []string) bool {
	number := func(s string) int {
		for i, word := range words {
			if strings.EqualFold(s, word) {
				return first + i
			}
		}
		if n, err := strconv.Atoi(s); err == nil {
			return n
		}
		return -1
	}
	span, step, stepped := strings.Cut(part, "/")
	if n, err := strconv.Atoi(step); stepped && (err != nil || n < 1) {
		return false
	}
	if span == "*" || span == "?" {
		return true
	}
	from, to, ranged := strings.Cut(span, "-")
	a := number(from)
	b := a
	if ranged {
		b = number(to)
	}
	return a >= first && b <= last && a <= b
}

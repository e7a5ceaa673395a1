package desired

import (
	"fmt"
	"strconv"
	"strings"
)

// The schema sees that a schedule has five fields; whether their numbers exist is too much
// for it.

// cronFields are the fields of a schedule in their order.
var cronFields = []struct {
	name        string
	first, last int
	words       string // for the numbers from first on
}{
	{name: "minute", first: 0, last: 59},
	{name: "hour", first: 0, last: 23},
	{name: "day of the month", first: 1, last: 31},
	{name: "month", first: 1, last: 12, words: "jan feb mar apr may jun jul aug sep oct nov dec"},
	{name: "day of the week", first: 0, last: 6, words: "sun mon tue wed thu fri sat"},
}

// validateSchedule is what is wrong with the schedule of a job.
func validateSchedule(schedule string) error {
	parts := strings.Fields(schedule)
	if len(parts) != len(cronFields) {
		return nil // a word such as @daily: the schema knows them
	}
	for i, field := range cronFields {
		for part := range strings.SplitSeq(parts[i], ",") {
			if !isValidCronPart(part, field.first, field.last, strings.Fields(field.words)) {
				return fmt.Errorf("schedule %q has %q as the %s, which goes from %d to %d; correct it, for example \"0 3 * * *\" for every night at three",
					schedule, parts[i], field.name, field.first, field.last)
			}
		}
	}
	return nil
}

// isValidCronPart says whether a part of a field is right: *, 5, 1-5, each also with /2.
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

package audit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
)

// Events are events in the order of the log.
type Events []Event

// Where keeps the events for which keep holds.
func (es Events) Where(keep func(*Event) bool) Events {
	var matching Events
	for i := range es {
		if keep(&es[i]) {
			matching = append(matching, es[i])
		}
	}
	return matching
}

// Writes keeps the requests that could change something, see [Event.Write].
func (es Events) Writes() Events { return es.Where((*Event).IsWrite) }

// Reads keeps all other requests.
func (es Events) Reads() Events { return es.Where(func(e *Event) bool { return !e.IsWrite() }) }

// By keeps the requests of these users.
func (es Events) By(users ...string) Events {
	return es.Where(func(e *Event) bool { return slices.Contains(users, e.User.Username) })
}

// In keeps the requests about objects in these namespaces.
func (es Events) In(namespaces ...string) Events {
	return es.Where(func(e *Event) bool {
		return e.ObjectRef.Namespace != "" && slices.Contains(namespaces, e.ObjectRef.Namespace)
	})
}

// Of keeps the requests about these resources, named as [Event.Resource] names them.
// A name without a subresource includes its subresources: "pods" includes
// "pods/status", but not the other way round.
func (es Events) Of(resources ...string) Events {
	return es.Where(func(e *Event) bool {
		return slices.Contains(resources, e.Resource()) || slices.Contains(resources, e.groupResource())
	})
}

// Row says how often a user asked for one kind of thing.
type Row struct {
	User, Verb, Resource string

	Accepted int // answered with a code below 400
	Rejected int // all others
}

// Table has one row per user, verb and resource, sorted by them.
type Table []Row

// Count counts requests. A watch that has begun counts like one that has ended, once.
func (es Events) Count() Table {
	ended := map[string]bool{}
	for i := range es {
		if es[i].Stage != StageStarted {
			ended[es[i].AuditID] = true
		}
	}
	type key struct{ user, verb, resource string }
	rows := map[key]*Row{}
	for i := range es {
		e := &es[i]
		if e.Stage == StageStarted && ended[e.AuditID] {
			continue
		}
		k := key{e.User.Username, e.Verb, e.Resource()}
		row, ok := rows[k]
		if !ok {
			row = &Row{User: k.user, Verb: k.verb, Resource: k.resource}
			rows[k] = row
		}
		if e.Accepted() {
			row.Accepted++
			continue
		}
		row.Rejected++
	}
	table := make(Table, 0, len(rows))
	for _, row := range rows {
		table = append(table, *row)
	}
	slices.SortFunc(table, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.User, b.User), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Verb, b.Verb))
	})
	return table
}

// Total adds up all rows.
func (t Table) Total() (accepted, rejected int) {
	for _, row := range t {
		accepted += row.Accepted
		rejected += row.Rejected
	}
	return accepted, rejected
}

// String prints the table with aligned columns.
func (t Table) String() string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	write := func(user, resource, verb, accepted, rejected any) {
		// Writing to memory does not fail.
		_, _ = fmt.Fprintf(w, "%v\t%v\t%v\t%v\t%v\n", user, resource, verb, accepted, rejected)
	}
	write("USER", "RESOURCE", "VERB", "ACCEPTED", "REFUSED")
	for _, row := range t {
		write(row.User, row.Resource, row.Verb, row.Accepted, row.Rejected)
	}
	_ = w.Flush()
	return text.String()
}

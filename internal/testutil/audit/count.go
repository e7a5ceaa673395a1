package audit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
)

// Events are events in log order.
type Events []Event

// Where returns the events for which keep is true.
func (es Events) Where(keep func(*Event) bool) Events {
	var matching Events
	for i := range es {
		if keep(&es[i]) {
			matching = append(matching, es[i])
		}
	}
	return matching
}

// Writes returns the mutating requests, see [Event.IsWrite].
func (es Events) Writes() Events { return es.Where((*Event).IsWrite) }

// Reads returns all other requests.
func (es Events) Reads() Events { return es.Where(func(e *Event) bool { return !e.IsWrite() }) }

// By returns the requests of these users.
func (es Events) By(users ...string) Events {
	return es.Where(func(e *Event) bool { return slices.Contains(users, e.User.Username) })
}

// In returns the requests for objects in these namespaces.
func (es Events) In(namespaces ...string) Events {
	return es.Where(func(e *Event) bool {
		return e.ObjectRef.Namespace != "" && slices.Contains(namespaces, e.ObjectRef.Namespace)
	})
}

// Of returns the requests for these resources, named as in [Event.Resource]. A name without a subresource includes its
// subresources: "pods" includes "pods/status", but not vice versa.
func (es Events) Of(resources ...string) Events {
	return es.Where(func(e *Event) bool {
		return slices.Contains(resources, e.Resource()) || slices.Contains(resources, e.groupResource())
	})
}

// Row is the number of requests of a user for a verb and resource.
type Row struct {
	User, Verb, Resource string

	Accepted int // response code below 400
	Rejected int // all other requests
}

// Table has one row per user, verb and resource, sorted by them.
type Table []Row

// Count counts requests. A watch counts once, whether it is open or closed.
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

// Total returns the number of requests.
func (t Table) Total() (accepted, rejected int) {
	for _, row := range t {
		accepted += row.Accepted
		rejected += row.Rejected
	}
	return accepted, rejected
}

func (t Table) String() string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	write := func(user, resource, verb, accepted, rejected any) {
		_, _ = fmt.Fprintf(w, "%v\t%v\t%v\t%v\t%v\n", user, resource, verb, accepted, rejected)
	}
	write("USER", "RESOURCE", "VERB", "ACCEPTED", "REFUSED")
	for _, row := range t {
		write(row.User, row.Resource, row.Verb, row.Accepted, row.Rejected)
	}
	_ = w.Flush()
	return text.String()
}

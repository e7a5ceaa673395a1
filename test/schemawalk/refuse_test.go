package schemawalk

import (
	"fmt"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// refuse sets a leaf that cannot be set, and returns what is wrong: somebody has to say so,
// and children have to be what they were, meanwhile and afterwards.
func (w *walk) refuse(l leaf) []string {
	r := &result{leaf: l}
	begin := l.start()
	live, err := w.create(l, begin)
	if err != nil {
		return []string{fmt.Sprintf("created: %v", err)}
	}
	before := w.settled(l, live, begin, r, "created")
	a, _ := l.values()
	tried, err := w.update(l.kind, live, l.with(a))
	switch {
	case apierrors.IsInvalid(err): // by the schema, so the object never had it
		return r.mismatches
	case err != nil:
		return append(r.mismatches, fmt.Sprintf("set: %v", err))
	}
	for until := time.Now().Add(patience); !w.view.refuses(tried.name, tried.generation); time.Sleep(15 * time.Millisecond) {
		if time.Now().After(until) {
			return append(r.mismatches, "nobody says that it is refused; Ready would say: "+w.view.ready(tried.name, tried.generation))
		}
	}
	if during, _ := w.form(tried, begin); during != before {
		r.mismatches = append(r.mismatches, "it is refused, but children changed (-before +now):\n"+cmp.Diff(strings.Split(before, "\n"), strings.Split(during, "\n")))
	}
	if live, err = w.update(l.kind, tried, begin); err != nil {
		return append(r.mismatches, fmt.Sprintf("unset: %v", err))
	}
	w.settled(l, live, begin, r, "unset")
	return r.mismatches
}

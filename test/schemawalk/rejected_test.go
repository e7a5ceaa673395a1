package schemawalk

import (
	"fmt"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// walkRejected sets a leaf that cannot be set, and returns what is wrong: somebody has to say so,
// and children have to be what they were, meanwhile and afterwards.
func (w *walk) walkRejected(l leaf) []string {
	r := &result{leaf: l}
	initialSpec := l.baseSpec()
	live, err := w.create(l, initialSpec)
	if err != nil {
		return []string{fmt.Sprintf("created: %v", err)}
	}
	before := w.waitSettled(l, live, initialSpec, r, "created")
	a, _ := l.twoValues()
	edited, err := w.update(l.kind, live, l.specWith(a))
	switch {
	case apierrors.IsInvalid(err): // by the schema, so the object never had it
		return r.mismatches
	case err != nil:
		return append(r.mismatches, fmt.Sprintf("set: %v", err))
	}
	for deadline := time.Now().Add(stepTimeout); !w.observer.isRejected(edited.name, edited.generation); time.Sleep(15 * time.Millisecond) {
		if time.Now().After(deadline) {
			return append(r.mismatches, "nobody says that it is refused; Ready would say: "+w.observer.notReadyReason(edited.name, edited.generation))
		}
	}
	if during, _ := w.childrenText(edited, initialSpec); during != before {
		r.mismatches = append(r.mismatches, "it is refused, but children changed (-before +now):\n"+cmp.Diff(strings.Split(before, "\n"), strings.Split(during, "\n")))
	}
	if live, err = w.update(l.kind, edited, initialSpec); err != nil {
		return append(r.mismatches, fmt.Sprintf("unset: %v", err))
	}
	w.waitSettled(l, live, initialSpec, r, "unset")
	return r.mismatches
}

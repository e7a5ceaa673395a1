package schemawalk

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
)

// walkRejected sets a field that is not allowed and returns the mismatches: the value must be rejected with a
// message, and the children must not change.
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
	case apierrors.IsInvalid(err): // rejected by the schema
		return r.mismatches
	case err != nil:
		return append(r.mismatches, fmt.Sprintf("set: %v", err))
	}
	rejected := func(context.Context) (bool, error) { return w.observer.isRejected(edited.name, edited.generation), nil }
	if err := wait.PollUntilContextTimeout(context.Background(), 15*time.Millisecond, stepTimeout, true, rejected); err != nil {
		return append(r.mismatches, "the value is not rejected; Ready: "+w.observer.notReadyReason(edited.name, edited.generation))
	}
	if during, _ := w.childrenText(edited, initialSpec); during != before {
		r.mismatches = append(r.mismatches, "the value is rejected, but children changed (-before +now):\n"+cmp.Diff(strings.Split(before, "\n"),
			strings.Split(during, "\n")))
	}
	if live, err = w.update(l.kind, edited, initialSpec); err != nil {
		return append(r.mismatches, fmt.Sprintf("unset: %v", err))
	}
	w.waitSettled(l, live, initialSpec, r, "unset")
	return r.mismatches
}

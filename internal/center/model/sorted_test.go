package model

import "testing"

// A list that was returned to a reader is not modified. Without readers, updates do not copy the list.
func TestSortedListIsCopiedOnlyWhenShared(t *testing.T) {
	record := func() *Record { return &Record{Ref: Ref{Kind: "AppStack", Namespace: "demo", Name: "a"}} }
	first, second, third := record(), record(), record()
	m := &Model{records: map[Ref]*Record{first.Ref: first}}
	shared := m.All()
	m.updateSorted(first, second)
	if shared[0] != first || m.sorted[0] != second {
		t.Error("a shared list was modified")
	}
	before := &m.sorted[0]
	m.updateSorted(second, third)
	if &m.sorted[0] != before || m.sorted[0] != third {
		t.Error("an unshared list was copied")
	}
	if got := m.All(); got[0] != third {
		t.Error("the list is out of date")
	}
}

package model

import "testing"

// Who has a list keeps it as it is; while nobody has one, a pass over thousands copies nothing.
func TestSortedListIsCopiedOnlyWhenShared(t *testing.T) {
	record := func() *Record { return &Record{Ref: Ref{Kind: "AppStack", Namespace: "demo", Name: "a"}} }
	first, second, third := record(), record(), record()
	m := &Model{records: map[Ref]*Record{first.Ref: first}}
	shared := m.All()
	m.updateSorted(first, second)
	if shared[0] != first || m.sorted[0] != second {
		t.Error("a list that somebody has was changed")
	}
	before := &m.sorted[0]
	m.updateSorted(second, third)
	if &m.sorted[0] != before || m.sorted[0] != third {
		t.Error("a list that nobody has was copied")
	}
	if got := m.All(); got[0] != third {
		t.Error("the list is not up to date")
	}
}

package store

import "slices"

// maxSmallPosting is the maximum number of objects that a posting stores in a slice. Most postings have one or
// two objects, for which a map would be many times larger.
const maxSmallPosting = 16

// posting is the set of objects with a term.
type posting struct {
	small []*Entry
	large map[*Entry]struct{} // used above maxSmallPosting
}

func (p *posting) add(e *Entry) {
	switch {
	case p.large != nil:
		p.large[e] = struct{}{}
	case slices.Contains(p.small, e):
	case len(p.small) < maxSmallPosting:
		p.small = append(p.small, e)
	default:
		p.large = make(map[*Entry]struct{}, 2*maxSmallPosting)
		for _, f := range p.small {
			p.large[f] = struct{}{}
		}
		p.large[e], p.small = struct{}{}, nil
	}
}

// remove removes an object and reports whether the posting is empty.
func (p *posting) remove(e *Entry) bool {
	if p.large != nil {
		delete(p.large, e)
		return len(p.large) == 0
	}
	if i := slices.Index(p.small, e); i >= 0 {
		p.small = slices.Delete(p.small, i, i+1)
	}
	return len(p.small) == 0
}

func (p *posting) all() []*Entry {
	if p.large == nil {
		return slices.Clone(p.small)
	}
	out := make([]*Entry, 0, len(p.large))
	for e := range p.large {
		out = append(out, e)
	}
	return out
}

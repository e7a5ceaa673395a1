package store

import "slices"

// maxSmallPosting is how many objects a posting holds in a list: most have one or two, for which a map would
// be many times larger.
const maxSmallPosting = 16

// posting are the objects that have a term.
type posting struct {
	small []*Entry
	large map[*Entry]struct{} // when there are more than a few
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

// remove says whether nothing is left.
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

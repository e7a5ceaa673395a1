package store

import "slices"

// maxFew is how many objects a posting holds in a list: most have one or two, for which a map would
// be many times larger.
const maxFew = 16

// posting are the objects that have a term.
type posting struct {
	few  []*Entry
	many map[*Entry]struct{} // when there are more than a few
}

func (p *posting) add(e *Entry) {
	switch {
	case p.many != nil:
		p.many[e] = struct{}{}
	case slices.Contains(p.few, e):
	case len(p.few) < maxFew:
		p.few = append(p.few, e)
	default:
		p.many = make(map[*Entry]struct{}, 2*maxFew)
		for _, f := range p.few {
			p.many[f] = struct{}{}
		}
		p.many[e], p.few = struct{}{}, nil
	}
}

// drop says whether nothing is left.
func (p *posting) drop(e *Entry) bool {
	if p.many != nil {
		delete(p.many, e)
		return len(p.many) == 0
	}
	if i := slices.Index(p.few, e); i >= 0 {
		p.few = slices.Delete(p.few, i, i+1)
	}
	return len(p.few) == 0
}

func (p *posting) all() []*Entry {
	if p.many == nil {
		return slices.Clone(p.few)
	}
	out := make([]*Entry, 0, len(p.many))
	for e := range p.many {
		out = append(out, e)
	}
	return out
}

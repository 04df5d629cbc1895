package engine

import (
	"slices"

	"github.com/specgo/spec/tensor"
)

// onDisk is the owner of a matrix that is not in memory at present; nil for the others.
func onDisk(w *tensor.Matrix) *streamed {
	x, _ := w.Owner().(*streamed)
	if x == nil || x.bound {
		return nil
	}
	return x
}

// fetch brings the matrices of products that are on disk into memory. apart says that they do not fit there at once, or are not read
// together: then each is a product of its own.
func (p *pass) fetch(products []product) (apart bool) {
	group := p.fetched[:0]
	for _, m := range products {
		if x := onDisk(m.w); x != nil {
			group = append(group, x)
		}
	}
	p.fetched = group
	if len(group) == 0 {
		return false
	}
	s, expert := group[0].stream, group[0].expert
	for _, x := range group {
		apart = apart || x.stream != s || x.expert != expert
	}
	if apart = apart || expert == nil && !s.fits(group); apart && len(products) > 1 {
		p.fetched = group[:0]
		return true
	}
	var err error
	if expert != nil {
		err = s.acquireExpert(p.ctx, expert, group)
	} else {
		err = s.acquire(p.ctx, group)
	}
	if err != nil {
		p.fetched = group[:0]
		p.fail(err)
	}
	return false
}

// unfetch gives back what fetch has brought.
func (p *pass) unfetch() {
	if len(p.fetched) == 0 {
		return
	}
	s := p.fetched[0].stream
	if p.fetched[0].expert != nil {
		s.releaseExpert(p.fetched)
	} else {
		s.release(p.fetched)
	}
	clear(p.fetched)
	p.fetched = p.fetched[:0]
}

// expect tells which experts come next, so that those on disk are read in time: numbers of e.each, ascending.
func (p *pass) expect(e *experts, numbers []int32) {
	if len(numbers) == 0 || p.err != nil {
		return
	}
	list := p.expected[:0]
	for _, i := range numbers {
		if x := onDisk(e.each[i].down.w); x != nil && x.expert != nil {
			list = append(list, x.expert)
		}
	}
	if p.expected = list; len(list) > 0 {
		onDisk(e.each[numbers[0]].down.w).stream.expect(list)
	}
}

// chosen are the experts that rows have chosen, ascending, if their weights are on disk; nil else.
func (p *pass) chosen(e *experts, rows []int32) []int32 {
	if p.err != nil || onDisk(e.each[0].down.w) == nil {
		return nil
	}
	p.choice = append(p.choice[:0], rows...)
	slices.Sort(p.choice)
	p.choice = slices.Compact(p.choice)
	return p.choice
}

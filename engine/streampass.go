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

// diskScratch is what a pass knows of the matrices that it reads from disk.
type diskScratch struct {
	fetched  []*streamed   // that a product uses at present
	expected []*diskExpert // scratch
	choice   []int32       // scratch of the experts that a round needs
}

// fetch brings the matrices of products that are on disk into memory. apart says that they do not fit there at once, or are not read
// together: then each is a product of its own.
func (p *pass) fetch(products []product) (apart bool) {
	group := p.disk.fetched[:0]
	for _, m := range products {
		if x := onDisk(m.w); x != nil {
			group = append(group, x)
		}
	}
	p.disk.fetched = group
	if len(group) == 0 {
		return false
	}
	s, expert := group[0].stream, group[0].expert
	for _, x := range group {
		apart = apart || x.stream != s || x.expert != expert
	}
	if apart = apart || expert == nil && !s.fits(group); apart && len(products) > 1 {
		p.disk.fetched = group[:0]
		return true
	}
	var err error
	if expert != nil {
		err = s.acquireExpert(p.ctx, expert, group)
	} else {
		err = s.acquire(p.ctx, group)
	}
	if err != nil {
		p.disk.fetched = group[:0]
		p.fail(err)
	}
	return false
}

// unfetch gives back what fetch has brought.
func (p *pass) unfetch() {
	if len(p.disk.fetched) == 0 {
		return
	}
	s := p.disk.fetched[0].stream
	if p.disk.fetched[0].expert != nil {
		s.releaseExpert(p.disk.fetched)
	} else {
		s.release(p.disk.fetched)
	}
	clear(p.disk.fetched)
	p.disk.fetched = p.disk.fetched[:0]
}

// expect tells which experts come next, so that those on disk are read in time: numbers of e.each, ascending.
func (p *pass) expect(e *experts, numbers []int32) {
	if len(numbers) == 0 || p.err != nil {
		return
	}
	list := p.disk.expected[:0]
	for _, i := range numbers {
		if x := onDisk(e.each[i].down.w); x != nil && x.expert != nil {
			list = append(list, x.expert)
		}
	}
	if p.disk.expected = list; len(list) > 0 {
		onDisk(e.each[numbers[0]].down.w).stream.expect(list)
	}
}

// chosen are the experts that rows have chosen, ascending, if their weights are on disk; nil else.
func (p *pass) chosen(e *experts, rows []int32) []int32 {
	if p.err != nil || onDisk(e.each[0].down.w) == nil {
		return nil
	}
	p.disk.choice = append(p.disk.choice[:0], rows...)
	slices.Sort(p.disk.choice)
	p.disk.choice = slices.Compact(p.disk.choice)
	return p.disk.choice
}

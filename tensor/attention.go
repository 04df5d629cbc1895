package tensor

import (
	"github.com/specgo/spec/asm"
)

// groupTokens is the number of tokens in a unit of work where a segment has many.
const groupTokens = 8

// joinTokens is the most tokens, of all segments, for which a shared page is read once: twice groupTokens, whose scores
// still lie in the second-level cache.
const joinTokens = 16

// attendJob is one layer's attention.
//
// Keys fall into chunks of 256 positions. For each chunk and each query row (a token and a query head):
//
//	m = max of the visible scores; p = exp(score - m); l = sum of p; o = sum of p*v
//
// and the chunks are combined ascending. A segment of few tokens makes a unit of work of every KV head and chunk, so
// that keys and values are read once for all its tokens; the parts are combined by the thread that computes a head's
// chunks from the first one on, as far as it gets, and afterwards. One of many tokens makes a unit of every KV head and
// 8 tokens, which combines as it goes. Both do the same operations in the same order.
//
// Forks of one text hold the same pages. Segments of few tokens read these once for all of them: of the segments that
// share a page, the first, their leader, computes it for the others too (join). What is computed for a row depends on
// no other row, so the results have the same bits (Juravsky et al. 2024, arXiv:2402.05099, does so by matrix products).
type attendJob struct {
	k             *asm.Kernels
	operation     uint64    // its number
	q             []float32 // [token][heads*group][dim]
	out           []float32 // [token][heads*group][values]
	o             AttentionOptions
	heads, group  int // KV heads, query heads for each
	dim, values   int // of a key, of a value
	segs          []segment
	depths        []int32
	partials      []float32 // [segment][head][chunk]{m [rows], l [rows], o [rows][values]}
	threads       []attendScratch
	folded        []int   // [segment][head]: chunks that are combined already; 0: none
	shares        []share // of the units, in order: those of threads that take part
	ends          []int   // where each share ended before anything was taken
	most          uint32  // units that a thread claims at once
	unit, combine func(worker, unit int)
}

// attendScratch is the scratch memory of one thread. rows = tokens of the unit * query heads per KV head; row =
// token*group + query head.
type attendScratch struct {
	tokens []unitToken // of the unit
	q      []float32   // [dim][rows]
	held   heldQueries // whose queries q holds
	fold   folding
	scores []float32   // [pages][rows][256]
	line   []float32   // [256] scores of one row by position
	path   []int32     // a token's ancestors and itself
	spans  []span      // where a token's positions in a chunk lie
	next   int         // the unit that probably follows; -1: not known
	ahead  []byte      // the keys that follow the chunk which is computed next; nil: not known
	part   attendParts // of one chunk
	sum    attendParts // of all chunks so far
	memory []float32
	values []byte   // [pages], where values are in the keys
	_      [64]byte // no cache line in common with the next thread's
}

// unitToken is token t of a segment.
type unitToken struct {
	s *segment
	t int
}

// heldQueries identifies the queries of one head, of a segment's tokens from first on, and of those that join it.
type heldQueries struct {
	operation   uint64
	s           *segment
	head, first int
	joined      uint32 // bit i: its follower i has joined
}

// folding is whose chunks a thread combines as it computes them, and the next one of them.
type folding struct {
	operation           uint64
	segment, head, next int
}

// span is a run of slots in one page, for a run of positions.
type span struct{ page, from, to int }

// attendParts is the partial result of some rows after some chunks: o/l is the attention. l < 0: no key seen yet.
type attendParts struct{ m, l, o []float32 }

func (p attendParts) clear() {
	for i := range p.l {
		p.l[i] = -1
	}
	clear(p.o)
}

// parts takes rows*(dim+2) numbers, dim of a value, of memory.
func parts(memory []float32, rows, dim int) attendParts {
	return attendParts{memory[:rows], memory[rows : 2*rows], memory[2*rows : rows*(dim+2)]}
}

func (j *attendJob) init(rt *Runtime) {
	j.k = &rt.k
	j.threads = make([]attendScratch, rt.Threads())
	j.shares, j.ends = make([]share, rt.Threads()), make([]int, rt.Threads())
	j.unit, j.combine = j.work, j.finish
}

// Attention computes, for every token of the segments and every query head h, softmax(scale * q·K) V over the keys
// and values the token sees in the segment's cache, of KV head h / (o.Heads/heads). q is [token][o.Heads][HeadDim],
// out [token][o.Heads][ValueDim]; the tokens' own keys and values are in the cache already ([Runtime.StoreKV]).
func (rt *Runtime) Attention(out, q []float32, o AttentionOptions, segs []AttentionSegment) error {
	if len(segs) == 0 {
		return nil
	}
	if segs[0].KV == nil {
		return shapeError("segment 0: no cache")
	}
	shape := segs[0].KV.shape
	width, values := o.Heads*shape.HeadDim, o.Heads*shape.valueDim()
	if o.Heads < 1 || o.Heads%shape.Heads != 0 {
		return shapeError("%d query heads for %d key-value heads", o.Heads, shape.Heads)
	}
	if n := len(o.Slopes); n != 0 && n != o.Heads {
		return shapeError("%d slopes for %d query heads", n, o.Heads)
	}
	if n := len(o.Sinks); n != 0 && n != o.Heads {
		return shapeError("%d sinks for %d query heads", n, o.Heads)
	}
	if len(q)%width != 0 || len(q)/width*values != len(out) {
		return shapeError("%d outputs, %d queries for rows of %d and %d", len(out), len(q), values, width)
	}
	if o.Both || o.Reach != 0 {
		return shapeError("attention to later tokens, of segments of a cache")
	}
	if err := checkSegments(segs, o.Layer, len(q)/width); err != nil {
		return err
	}
	if err := o.Only.fits(o.Window, len(q)/width, segs); err != nil {
		return err
	}
	if n := len(o.Bias); n != 0 && (n%o.Heads != 0 || n/o.Heads%2 == 0) {
		return shapeError("%d biases for %d query heads", n, o.Heads)
	}
	for i := range segs {
		s := &segs[i]
		if s.Keys > 0 && (o.Window < 0 || o.Window > 0 && s.Start > s.Keys-s.Tokens) {
			return shapeError("segment %d: a window of %d, tokens %d+%d, %d keys", i, o.Window, s.Start, s.Tokens, s.Keys)
		}
		if low := lowest(s.Start, o.Window); low/asm.Page < s.KV.first {
			return shapeError("segment %d: slot %d is given up, the first is %d", i, low, s.KV.First())
		}
	}
	rt.mu.Lock()
	defer rt.mu.Unlock()
	j := &rt.attend
	j.out, j.q, j.o = out, q, o
	j.heads, j.group, j.dim, j.values = shape.Heads, o.Heads/shape.Heads, shape.HeadDim, shape.valueDim()
	units := j.plan(segs)
	j.operation++
	rt.pool.run(j.cut(units), j.unit)
	if len(j.partials) > 0 {
		rt.pool.run(len(j.segs)*j.heads, j.combine)
	}
	clear(j.segs)
	j.out, j.q, j.o = nil, nil, AttentionOptions{}
	return nil
}

// plan divides the segments into units and allocates their memory.
func (j *attendJob) plan(segs []AttentionSegment) (units int) {
	j.segs, j.depths = j.segs[:0], j.depths[:0]
	total := 0
	for i := range segs {
		total += len(segs[i].Parents)
	}
	j.depths = grow(j.depths, total)[:0]
	partial := 0
	for i := range segs {
		s := segment{AttentionSegment: segs[i], first: units, partial: -1}
		highest := s.Start + s.Tokens - 1
		if s.Parents != nil {
			highest = s.Start
			at := len(j.depths)
			for _, p := range s.Parents {
				depth := int32(0)
				if p >= 0 {
					depth = j.depths[at+int(p)] + 1
				}
				j.depths = append(j.depths, depth)
				highest = max(highest, s.Start+int(depth))
			}
			s.depths = j.depths[at:]
		}
		s.low = lowest(s.Start, j.o.Window) / asm.Page
		if s.Keys > 0 {
			highest = s.Keys - 1
		}
		s.chunks = highest/asm.Page + 1 - s.low
		if s.Tokens <= groupTokens && s.chunks > 1 {
			s.partial = partial
			partial += j.heads * s.chunks * s.Tokens * j.group * (j.values + 2)
			j.join(&s)
			s.units = j.heads * (s.chunks - (s.to - s.from))
		} else {
			s.units = j.heads * ((s.Tokens + groupTokens - 1) / groupTokens)
		}
		units += s.units
		j.segs = append(j.segs, s)
	}
	j.partials = grow(j.partials, partial)
	j.folded = grow(j.folded, len(segs)*j.heads)
	clear(j.folded)
	return units
}

// claimChunks is about how many chunks a thread claims at once: few enough to leave no other thread waiting for one
// that the operating system delays.
const claimChunks = 16

// cut gives each thread a share of the units, and returns how many there are. Units of a share follow each other, so
// that a thread knows what it will read next.
func (j *attendJob) cut(units int) (shares int) {
	j.most = claimChunks
	for i := range j.segs {
		if s := &j.segs[i]; s.partial < 0 {
			j.most = min(j.most, max(1, uint32(claimChunks/s.chunks)))
		}
	}
	shares = min(len(j.threads), units)
	for i := range shares {
		j.ends[i] = (i + 1) * units / shares
		j.shares[i].set(i*units/shares, j.ends[i])
	}
	return shares
}

// work computes the units of a share, and then those left in the others.
func (j *attendJob) work(worker, unit int) {
	w := &j.threads[worker]
	shares := min(len(j.threads), j.units())
	for i := range shares {
		other := (unit + i) % shares
		for {
			from, to := j.shares[other].claim(1, j.most, i > 0)
			if from == to {
				break
			}
			end := to
			if i == 0 {
				end = j.ends[other]
			}
			for u := from; u < to; u++ {
				if w.next = u + 1; u+1 == end {
					w.next = -1
				}
				j.attend(w, u)
			}
		}
	}
}

// units is the number of all units.
func (j *attendJob) units() int {
	last := &j.segs[len(j.segs)-1]
	return last.first + last.units
}

// find is the number of a unit's segment, and the unit's number in that.
func (j *attendJob) find(unit int) (segment, number int) {
	i := len(j.segs) - 1
	for j.segs[i].first > unit {
		i--
	}
	return i, unit - j.segs[i].first
}

// headAndChunk are those of a unit of a segment that is divided by chunks.
func (j *attendJob) headAndChunk(s *segment, unit int) (head, c int) {
	own := s.units / j.heads
	head, c = unit/own, s.low+unit%own
	if c >= s.from {
		c += s.to - s.from
	}
	return head, c
}

// firstKeys is what a unit reads first, if much of it; unit may be -1.
func (j *attendJob) firstKeys(unit int) []byte {
	if unit < 0 {
		return nil
	}
	i, unit := j.find(unit)
	s := &j.segs[i]
	if s.partial < 0 {
		return j.wholeKeys(s, unit%j.heads, s.low)
	}
	head, c := j.headAndChunk(s, unit)
	return j.wholeKeys(s, head, c)
}

// wholeKeys are the keys of a chunk, if it ends before all tokens and they see it.
func (j *attendJob) wholeKeys(s *segment, head, c int) []byte {
	if c >= s.whole() || j.o.Only != nil {
		return nil
	}
	return s.KV.keys(c, j.o.Layer, head)
}

// attend computes one unit of the first phase.
func (j *attendJob) attend(w *attendScratch, unit int) {
	i, unit := j.find(unit)
	s := &j.segs[i]
	if s.partial >= 0 {
		head, c := j.headAndChunk(s, unit)
		j.load(w, s, head, 0, s.Tokens, c)
		w.ahead = j.firstKeys(w.next)
		if w.held.joined != 0 {
			j.joint(w, s, head, c)
			return
		}
		w.part = j.partOf(s, head, c)
		j.chunk(w, s, head, c)
		j.combineNext(w, i, head, c)
		return
	}
	head, first := unit%j.heads, unit/j.heads*groupTokens
	n := min(groupTokens, s.Tokens-first)
	j.load(w, s, head, first, n, -1)
	w.sum.clear()
	for c := s.low; c < s.low+s.chunks; c++ {
		if w.ahead = j.wholeKeys(s, head, c+1); c+1 == s.low+s.chunks {
			w.ahead = j.firstKeys(w.next)
		}
		if j.chunk(w, s, head, c) {
			j.add(w.sum, w.part)
		}
	}
	j.write(s, head, first, n, w.sum)
}

// join finds a leader for s among the segments before it: the one with room that has most pages in common with it, from
// the first chunk on that tokens of both see.
func (j *attendJob) join(s *segment) {
	var leader *segment
	for i := range j.segs {
		l := &j.segs[i]
		if l.partial < 0 || l.to > l.from || l.joint+s.Tokens > joinTokens {
			continue
		}
		if from, to := l.common(s); to-from > s.to-s.from {
			leader, s.from, s.to = l, from, to
		}
	}
	s.joint = s.Tokens
	if leader != nil {
		s.before, leader.last = leader.last, len(j.segs)
		leader.joint += s.Tokens
	}
}

// combineNext adds chunk c to those before it, which stand in the place of the first one, if this thread has computed
// and added all of those. The results are in a cache, and the next page is on its way meanwhile.
func (j *attendJob) combineNext(w *attendScratch, i, head, c int) {
	s := &j.segs[i]
	switch next := (folding{j.operation, i, head, c}); {
	case s.last > 0 || s.to > s.from: // its pages may be computed in another order
		return
	case c == s.low:
		w.fold = next
	case w.fold == next:
		j.add(j.partOf(s, head, s.low), w.part)
	default:
		return
	}
	w.fold.next++
	j.folded[i*j.heads+head] = w.fold.next - s.low
}

// joint computes chunk c of a segment and of those that have joined it.
func (j *attendJob) joint(w *attendScratch, s *segment, head, c int) {
	j.chunk(w, s, head, c)
	for row := 0; row < len(w.tokens)*j.group; {
		of := w.tokens[row/j.group].s
		part, n := j.partOf(of, head, c), of.Tokens*j.group
		copy(part.m, w.part.m[row:])
		copy(part.l, w.part.l[row:])
		copy(part.o, w.part.o[row*j.values:])
		row += n
	}
}

// finish combines the chunks of one head of a segment that was divided by chunks.
func (j *attendJob) finish(_, unit int) {
	s, head := &j.segs[unit/j.heads], unit%j.heads
	if s.partial < 0 {
		return
	}
	sum := j.partOf(s, head, s.low)
	for c := max(1, j.folded[unit]); c < s.chunks; c++ {
		j.add(sum, j.partOf(s, head, s.low+c))
	}
	j.write(s, head, 0, s.Tokens, sum)
}

// partOf is the memory for the results of chunk c of a segment that is divided by chunks.
func (j *attendJob) partOf(s *segment, head, c int) attendParts {
	rows := s.Tokens * j.group
	return parts(j.partials[s.partial+(head*s.chunks+c-s.low)*rows*(j.values+2):], rows, j.values)
}

// load makes the scratch of a unit of n tokens, and of those of other segments that join them in chunk c, and turns
// their queries to [dim][rows], unless the thread's last unit was another chunk of the same ones.
func (j *attendJob) load(w *attendScratch, s *segment, head, first, n, c int) {
	held := heldQueries{j.operation, s, head, first, 0}
	for f, bit := s.last, uint32(1); f > 0; f, bit = j.segs[f].before, bit<<1 {
		if j.segs[f].from <= c && c < j.segs[f].to {
			held.joined |= bit
		}
	}
	if w.held == held {
		return
	}
	w.held = held
	w.tokens = w.tokens[:0]
	for t := range n {
		w.tokens = append(w.tokens, unitToken{s, first + t})
	}
	for f, bits := s.last, held.joined; bits != 0; f, bits = j.segs[f].before, bits>>1 {
		for t := range j.segs[f].Tokens * int(bits&1) {
			w.tokens = append(w.tokens, unitToken{&j.segs[f], t})
		}
	}
	rows, pages := len(w.tokens)*j.group, 1
	if s.Parents != nil {
		pages = (s.Start+s.Tokens-1)/asm.Page - s.Start/asm.Page + 1
	}
	need := rows*j.dim + pages*rows*asm.Page + asm.Page + 2*rows*(j.values+2)
	w.memory = grow(w.memory, need)
	m := w.memory
	take := func(n int) (part []float32) {
		part, m = m[:n:n], m[n:]
		return part
	}
	w.q, w.scores, w.line = take(rows*j.dim), take(pages*rows*asm.Page), take(asm.Page)
	w.part = parts(take(rows*(j.values+2)), rows, j.values)
	w.sum = parts(take(rows*(j.values+2)), rows, j.values)
	if need := pages * asm.VPageBytes(s.KV.shape.Type, j.values); s.KV.shape.ValuesInKeys && len(w.values) < need {
		w.values = allocateInHeap(need)
	}
	for t, token := range w.tokens {
		row := j.q[((token.s.Row+token.t)*j.heads+head)*j.group*j.dim:]
		for g := range j.group {
			q, at := w.q[t*j.group+g:], 0
			for _, v := range row[g*j.dim:][:j.dim] {
				q[at] = v
				at += rows
			}
		}
	}
}

// chunk computes w.part for the unit's tokens over chunk c of the cache of s; false if none of them sees any of it.
func (j *attendJob) chunk(w *attendScratch, s *segment, head, c int) bool {
	w.part.clear()
	next := w.ahead
	w.ahead = nil
	if s.Parents != nil && (c+1)*asm.Page > s.Start {
		return j.treeChunk(w, s, head, c)
	}
	// Here positions are slots.
	rows, keys, lowest := len(w.tokens)*j.group, 0, asm.Page
	same, seen := true, false // all tokens that see something begin at the same key; one sees something
	for _, token := range w.tokens {
		from, to := token.s.visible(token.t, j.o.Window, c)
		if from < to {
			same = same && (keys == 0 || from == lowest)
			keys, lowest = max(keys, to), min(lowest, from)
			seen = seen || j.sees(token, c, to)
		}
	}
	if !seen {
		return false
	}
	kind := s.KV.shape.Type
	var ahead []byte // what the kernels prefetch
	if keys-lowest >= asm.Page/2 && !s.KV.shape.ValuesInKeys {
		ahead = s.KV.values(c, j.o.Layer, head)
	}
	j.k.Scores[kind](w.scores, w.q, s.KV.keys(c, j.o.Layer, head), j.dim, rows, keys, j.o.Scale, ahead)
	safepoint()
	j.layOut(w, s, head, c, 0, keys)
	values, kernel := j.valuePage(w, s, head, c, 0), j.k.Values[kind]
	done := lowest // keys whose values have been added for all tokens from here on that see them
	for t, n := 0, 0; t < len(w.tokens); t += n {
		from, to := w.tokens[t].s.visible(w.tokens[t].t, j.o.Window, c)
		for n = 1; t+n < len(w.tokens) && j.o.Only == nil; n++ { // those that see the same
			if a, b := w.tokens[t+n].s.visible(w.tokens[t+n].t, j.o.Window, c); a != from || b != to {
				break
			}
		}
		if from >= to {
			continue
		}
		row, end := t*j.group, (t+n)*j.group
		if !j.sees(w.tokens[t], c, to) { // the values are added to it with those that see them
			for r := row; r < end; r++ {
				clear(w.scores[r*asm.Page:][from:to])
			}
			continue
		}
		for r := row; r < end && (j.o.adjusts() || j.o.Only != nil); r++ {
			token, scores := w.tokens[r/j.group], w.scores[r*asm.Page:][from:to]
			j.o.adjust(scores, head*j.group+r%j.group, token.s.position(token.t), c*asm.Page+from)
			if j.o.Only != nil {
				j.o.Only.hide(scores, token.s.Row+token.t, c)
			}
		}
		j.k.ExpSums(w.scores[row*asm.Page+from:], asm.Page, to-from, w.part.m[row:end], w.part.l[row:end])
		safepoint()
	}
	ahead = next
	for t, token := range w.tokens {
		from, to := token.s.visible(token.t, j.o.Window, c)
		row, count := t*j.group, j.group
		if from >= to {
			continue
		}
		if same { // later tokens see at least as much: all of them at once
			from, count = done, rows-row
			done = max(done, to)
		}
		if from < to {
			kernel(w.part.o[row*j.values:], w.scores[row*asm.Page:], values, j.values, count, from, to, ahead)
			ahead = nil
			safepoint()
		}
	}
	return true
}

// layOut lays out the values of a head in the first n slots of a page, if they are in the keys, as place number at of
// the thread's memory, for all rows of the unit. Read there after the scores they come from a cache, not from memory.
func (j *attendJob) layOut(w *attendScratch, s *segment, head, page, at, n int) {
	if kind := s.KV.shape.Type; s.KV.shape.ValuesInKeys {
		size := asm.VPageBytes(kind, j.values)
		j.k.ValuesOfKeys[kind](w.values[at*size:][:size], s.KV.keys(page, j.o.Layer, head), j.dim, j.values, n)
		safepoint()
	}
}

// valuePage is the values of a head in a page of the cache of s; those in the keys are where layOut has put them.
func (j *attendJob) valuePage(w *attendScratch, s *segment, head, page, at int) []byte {
	if !s.KV.shape.ValuesInKeys {
		return s.KV.values(page, j.o.Layer, head)
	}
	size := asm.VPageBytes(s.KV.shape.Type, j.values)
	return w.values[at*size:][:size]
}

// sees reports whether a token sees any of the first n positions of chunk c, which it could see. With a choice there is
// no window.
func (j *attendJob) sees(token unitToken, c, n int) bool {
	return j.o.Only == nil || j.o.Only.any(token.s.Row+token.t, c, n)
}

// treeChunk is chunk for a tree and a chunk that may hold positions of its tokens: they lie in slots between those of
// other branches. The scores of all slots are computed per page, and each token picks those of its path, by position.
func (j *attendJob) treeChunk(w *attendScratch, s *segment, head, c int) bool {
	rows, kind := len(w.tokens)*j.group, s.KV.shape.Type
	firstPage, end := s.Start/asm.Page, s.Start+s.Tokens
	for page := firstPage; page*asm.Page < end; page++ {
		keys := min(asm.Page, end-page*asm.Page)
		j.layOut(w, s, head, page, page-firstPage, keys)
		out := w.scores[(page-firstPage)*rows*asm.Page:]
		j.k.Scores[kind](out, w.q, s.KV.keys(page, j.o.Layer, head), j.dim, rows, keys, j.o.Scale, nil)
		safepoint()
	}
	seen := false
	for t, token := range w.tokens {
		keys := j.locate(w, s, c, token.t)
		if keys == 0 || !j.sees(token, c, keys) {
			continue
		}
		seen = true
		for r := t * j.group; r < (t+1)*j.group; r++ {
			line := w.line[:0]
			for _, p := range w.spans {
				line = append(line, w.scores[((p.page-firstPage)*rows+r)*asm.Page:][p.from:p.to]...)
			}
			if j.o.adjusts() {
				pos := s.position(token.t)
				from, _ := visible(pos, j.o.Window, c)
				j.o.adjust(line, head*j.group+r-t*j.group, pos, c*asm.Page+from)
			}
			if j.o.Only != nil {
				j.o.Only.hide(line, s.Row+token.t, c)
			}
			w.part.m[r], w.part.l[r] = j.k.ExpSum(line)
			for _, p := range w.spans {
				line = line[copy(w.scores[((p.page-firstPage)*rows+r)*asm.Page:][p.from:p.to], line):]
			}
		}
		for _, p := range w.spans {
			j.k.Values[kind](w.part.o[t*j.group*j.values:], w.scores[((p.page-firstPage)*rows+t*j.group)*asm.Page:],
				j.valuePage(w, s, head, p.page, p.page-firstPage), j.values, j.group, p.from, p.to, nil)
		}
		safepoint()
	}
	return seen
}

// locate fills w.spans with the slots of the positions of chunk c that token t sees, ascending, and counts them.
func (j *attendJob) locate(w *attendScratch, s *segment, c, t int) (keys int) {
	base := c * asm.Page
	pos := s.position(t)
	from, to := visible(pos, j.o.Window, c)
	w.spans = w.spans[:0]
	if from >= to {
		return 0
	}
	keys = to - from
	if prefix := min(to, s.Start-base); from < prefix {
		w.spans = append(w.spans, span{c, from, prefix})
		from = prefix
	}
	depth := int(s.depths[t])
	w.path = grow(w.path, depth+1)
	for ; t >= 0; t = int(s.Parents[t]) {
		w.path[depth] = int32(t)
		depth--
	}
	for p := base + from; p < base+to; p++ {
		slot := s.Start + int(w.path[p-s.Start])
		page, at := slot/asm.Page, slot%asm.Page
		if last := len(w.spans) - 1; last >= 0 && w.spans[last].page == page && w.spans[last].to == at {
			w.spans[last].to++
		} else {
			w.spans = append(w.spans, span{page, at, at + 1})
		}
	}
	return keys
}

// add combines sum with the next chunk: both are scaled to the greater of their maxima.
func (j *attendJob) add(sum, part attendParts) {
	for r, l := range part.l {
		o, add := sum.o[r*j.values:][:j.values], part.o[r*j.values:][:j.values]
		switch {
		case l < 0:
		case sum.l[r] < 0:
			sum.m[r], sum.l[r] = part.m[r], l
			copy(o, add)
		default:
			m := max(sum.m[r], part.m[r])
			a, b := asm.Weight32(sum.m[r]-m), asm.Weight32(part.m[r]-m)
			sum.m[r] = m
			sum.l[r] = asm.FMA(sum.l[r], a, float32(l*b))
			j.k.Blend(o, add, a, b)
		}
	}
	safepoint()
}

// write stores the attention of n tokens.
func (j *attendJob) write(s *segment, head, first, n int, sum attendParts) {
	if j.o.Sinks != nil {
		j.sink(sum, head, n)
	}
	for t := range n {
		out := j.out[((s.Row+first+t)*j.heads+head)*j.group*j.values:]
		for r := t * j.group; r < (t+1)*j.group; r++ {
			copy(out[:j.values], sum.o[r*j.values:])
			j.k.Divide(out[:j.values], sum.l[r])
			out = out[j.values:]
		}
	}
}

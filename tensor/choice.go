package tensor

import (
	"math"

	"github.com/specgo/spec/asm"
)

// Choice says which positions the tokens of a pass see, of those that they could see. The zero value says nothing yet;
// [Runtime.Choose] fills it, and keeps its memory.
type Choice struct {
	rows, words int
	bits        []uint64 // [rows][words]: bit p of a row is its position p; whole chunks
}

// chunkWords is the words of a chunk's positions.
const chunkWords = asm.Page / 64

// chunk is the bits of a row for chunk c.
func (c *Choice) chunk(row, at int) *[chunkWords]uint64 {
	return (*[chunkWords]uint64)(c.bits[row*c.words+at*chunkWords:])
}

// fits checks it against the rows of an attention.
func (c *Choice) fits(window, rows int, segs []AttentionSegment) error {
	if c == nil {
		return nil
	}
	for i := range segs {
		if end := segs[i].Start + segs[i].Tokens; window != 0 || segs[i].Keys > 0 || rows != c.rows || end > c.words*64 {
			return shapeError("segment %d: %d rows up to slot %d, of a choice for %d rows and %d positions", i, rows, end,
				c.rows, c.words*64)
		}
	}
	return nil
}

// any reports whether a row sees any of the first n positions of chunk at.
func (c *Choice) any(row, at, n int) bool {
	for w, b := range c.chunk(row, at) {
		if bits := min(n-64*w, 64); bits > 0 && b<<(64-bits) != 0 {
			return true
		}
	}
	return false
}

// hide makes the scores of the first positions of chunk at -Inf where a row does not see them.
func (c *Choice) hide(scores []float32, row, at int) {
	b := c.chunk(row, at)
	for i := range scores {
		if b[i/64]>>(i%64)&1 == 0 {
			scores[i] = float32(math.Inf(-1))
		}
	}
}

// ChoiceOptions say how [Runtime.Choose] chooses.
type ChoiceOptions struct {
	Layer int // of the cache of index keys, which has one head
	Heads int // index heads
	Top   int // the most positions that a token sees, at least 1
}

// chooseJob is one layer's choice. The scores of a few tokens at a time are computed by page, and then chosen from.
type chooseJob struct {
	k              *asm.Kernels
	c              *Choice
	q, w           []float32 // [token][heads][dim], [token][heads]
	o              ChoiceOptions
	dim            int
	segs           []segment // first: the token that is next
	depths         []int32
	tokens         []unitToken // whose scores are computed
	line           []float32   // [token][stride] scores by slot
	stride, pages  int
	threads        []chooseScratch
	score, collect func(worker, unit int)
}

type chooseScratch struct {
	q, scores []float32 // [dim][heads], [heads][256]
	keys      []uint32  // by position, ordered as the scores are
}

// chooseTokens is how many tokens' scores are kept at a time.
const chooseTokens = 16

func (j *chooseJob) init(rt *Runtime) {
	j.k = &rt.k
	j.threads = make([]chooseScratch, rt.Threads())
	j.score, j.collect = j.scorePage, j.collectToken
}

// Choose fills c for the tokens of the segments: of the positions that a token sees, those o.Top whose keys score
// highest, of equal ones the earliest; all if there are no more.
//
//	score of position p = sum over heads h, ascending, of w[h] * max(0, q[h]·k[p])
//
// q is [token][o.Heads][HeadDim], w [token][o.Heads]; the tokens' own keys are in the caches already. It is the
// lightning indexer of DeepSeek-V3.2 (2025). What is chosen for a token depends on no other token of the pass.
func (rt *Runtime) Choose(c *Choice, q, w []float32, o ChoiceOptions, segs []AttentionSegment) error {
	if len(segs) == 0 {
		return nil
	}
	if segs[0].KV == nil {
		return shapeError("segment 0: no cache")
	}
	shape := segs[0].KV.shape
	if shape.Heads != 1 || o.Heads < 1 || o.Top < 1 {
		return shapeError("the best %d by %d index heads, keys of %d heads", o.Top, o.Heads, shape.Heads)
	}
	if len(w)%o.Heads != 0 || len(q) != len(w)*shape.HeadDim {
		return shapeError("%d index queries, %d weights for rows of %d heads of %d", len(q), len(w), o.Heads, shape.HeadDim)
	}
	if err := checkChoice(segs, o.Layer, len(w)/o.Heads); err != nil {
		return err
	}
	rt.mu.Lock()
	defer rt.mu.Unlock()
	j := &rt.choose
	j.c, j.q, j.w, j.o, j.dim = c, q, w, o, shape.HeadDim
	j.plan(segs)
	for i := 0; i < len(j.segs); {
		if i = j.take(i); len(j.tokens) == 0 {
			break
		}
		rt.pool.run(len(j.tokens)*j.pages, j.score)
		rt.pool.run(len(j.tokens), j.collect)
	}
	clear(j.segs)
	clear(j.tokens)
	j.c, j.q, j.w = nil, nil, nil
	return nil
}

// checkChoice checks the segments whose tokens something is chosen for.
func checkChoice(segs []AttentionSegment, layer, rows int) error {
	if err := checkSegments(segs, layer, rows); err != nil {
		return err
	}
	for i := range segs {
		if segs[i].Keys > 0 || segs[i].KV.first > 0 {
			return shapeError("segment %d: a choice among %d keys, the first at %d", i, segs[i].Keys, segs[i].KV.First())
		}
	}
	return nil
}

// plan sizes the choice: all that its rows see until something is chosen.
func (j *chooseJob) plan(segs []AttentionSegment) {
	rows := len(j.w) / j.o.Heads
	j.segs, j.depths = j.c.plan(segs, rows, j.segs, j.depths)
	j.pages = j.c.words / chunkWords
	j.stride = j.pages * asm.Page
	j.line = grow(j.line, min(chooseTokens, rows)*j.stride)
}

// plan makes it a choice for rows of the segments that see all. The segments come with the depths of their tokens, in
// the memory of list and depths.
func (c *Choice) plan(segs []AttentionSegment, rows int, list []segment, depths []int32) ([]segment, []int32) {
	list, depths = list[:0], grow(depths, rows)[:0]
	pages := 0
	for i := range segs {
		s := segment{AttentionSegment: segs[i]}
		if at := len(depths); s.Parents != nil {
			for _, p := range s.Parents {
				depth := int32(0)
				if p >= 0 {
					depth = depths[at+int(p)] + 1
				}
				depths = append(depths, depth)
			}
			s.depths = depths[at:]
		}
		list = append(list, s)
		pages = max(pages, (s.Start+s.Tokens+asm.Page-1)/asm.Page)
	}
	c.rows, c.words = rows, pages*chunkWords
	c.bits = grow(c.bits, c.rows*c.words)
	for i := range c.bits {
		c.bits[i] = math.MaxUint64
	}
	return list, depths
}

// take fills j.tokens with the next tokens, from segment i on, that see more positions than are chosen, and returns the
// segment to go on with: what it has done of a segment it takes off.
func (j *chooseJob) take(i int) int {
	j.tokens = j.tokens[:0]
	for ; i < len(j.segs); i++ {
		s := &j.segs[i]
		for ; s.first < s.Tokens; s.first++ {
			if len(j.tokens) == chooseTokens {
				return i
			}
			if s.position(s.first) >= j.o.Top {
				j.tokens = append(j.tokens, unitToken{s, s.first})
			}
		}
	}
	return i
}

// scorePage computes the scores of a token for the slots of a page.
func (j *chooseJob) scorePage(worker, unit int) {
	i, page := unit/j.pages, unit%j.pages
	s, t, heads := j.tokens[i].s, j.tokens[i].t, j.o.Heads
	keys := min(s.Start+s.Tokens-page*asm.Page, asm.Page)
	if s.Parents == nil {
		keys = min(keys, s.Start+t+1-page*asm.Page)
	}
	if keys <= 0 {
		return
	}
	x := &j.threads[worker]
	x.q, x.scores = grow(x.q, j.dim*heads), grow(x.scores, heads*asm.Page)
	row := s.Row + t
	for h := range heads {
		for d, v := range j.q[(row*heads+h)*j.dim:][:j.dim] {
			x.q[d*heads+h] = v
		}
	}
	j.k.Scores[s.KV.shape.Type](x.scores, x.q, s.KV.keys(page, j.o.Layer, 0), j.dim, heads, keys, 1, nil)
	safepoint()
	sum := j.line[i*j.stride+page*asm.Page:][:keys]
	clear(sum)
	for h, w := range j.w[row*heads:][:heads] {
		for n, v := range x.scores[h*asm.Page:][:keys] {
			sum[n] += float32(w * max(v, 0))
		}
	}
	safepoint()
}

// collectToken chooses a token's positions from the scores of its slots.
func (j *chooseJob) collectToken(worker, unit int) {
	s, t := j.tokens[unit].s, j.tokens[unit].t
	x, line, n := &j.threads[worker], j.line[unit*j.stride:], s.position(t)+1
	x.keys = grow(x.keys, n)
	for p := range min(n, s.Start) {
		x.keys[p] = ordered(line[p])
	}
	for p, slot := n-1, t; p >= s.Start; p-- { // the token itself and those before it on its path
		x.keys[p] = ordered(line[s.Start+slot])
		if s.Parents == nil {
			slot--
		} else {
			slot = int(s.Parents[slot])
		}
	}
	least, equal := lastChosen(x.keys, j.o.Top)
	row := s.Row + t
	chosen := j.c.bits[row*j.c.words:][:j.c.words]
	clear(chosen)
	for p, key := range x.keys {
		if key > least || key == least && equal > 0 {
			if chosen[p/64] |= 1 << (p % 64); key == least {
				equal--
			}
		}
	}
}

// ordered is an integer that is greater where x is.
func ordered(x float32) uint32 {
	if b := math.Float32bits(x); b>>31 == 0 {
		return b | 1<<31
	} else {
		return ^b
	}
}

// lastChosen is the least of the n greatest keys, and how many of those that equal it are among them; n < len(keys).
func lastChosen(keys []uint32, n int) (least uint32, equal int) {
	const step = 8
	var count [1 << step]int
	for shift := 32 - step; shift >= 0; shift -= step {
		clear(count[:])
		for _, k := range keys {
			if uint64(k)>>(shift+step) == uint64(least)>>(shift+step) {
				count[k>>shift&(1<<step-1)]++
			}
		}
		digit := uint32(1<<step - 1)
		for ; count[digit] < n; digit-- {
			n -= count[digit]
		}
		least |= digit << shift
	}
	return least, n
}

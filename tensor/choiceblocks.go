package tensor

import "github.com/specgo/spec/asm"

// BlockChoice says how [Runtime.ChooseBlocks] chooses.
type BlockChoice struct {
	Layer int // of the cache of index keys, which has one head
	Heads int // index heads
	Size  int // positions of a block: a divisor of 256
	Top   int // the most blocks that a token sees whole, at least 1

	Norm []float32 // [HeadDim] weights of the RMS norm of a block's key
	Eps  float32
	Rope *RopeTable // turns halves of the first numbers of a block's key
}

// check checks it against a cache's shape, and the number of queries.
func (o *BlockChoice) check(shape KVShape, queries int) error {
	switch {
	case shape.Heads != 1 || o.Heads < 1 || o.Top < 1 || o.Size < 1 || asm.Page%o.Size != 0:
		return shapeError("the best %d blocks of %d by %d index heads, keys of %d heads", o.Top, o.Size, o.Heads, shape.Heads)
	case len(o.Norm) != shape.HeadDim || o.Rope == nil || o.Rope.Dim() > shape.HeadDim:
		return shapeError("keys of blocks of %d numbers, %d weights of their norm", shape.HeadDim, len(o.Norm))
	case queries%(o.Heads*shape.HeadDim) != 0:
		return shapeError("%d index queries for rows of %d heads of %d", queries, o.Heads, shape.HeadDim)
	}
	return nil
}

// blockJob is one layer's choice of blocks, of one segment at a time. The scores of a few tokens at a time are computed
// by 256 blocks, and then chosen from.
type blockJob struct {
	k              *asm.Kernels
	c              *Choice
	q              []float32 // [token][heads][dim]
	o              BlockChoice
	dim            int
	segs           []segment
	depths         []int32
	s              *segment  // whose blocks are chosen
	shared         int       // blocks that all of its tokens have in common, as far as they see them
	tokens         []int     // of it, whose scores are computed
	line           []float32 // [token][stride] scores of the shared blocks
	stride         int
	threads        []blockScratch
	score, collect func(worker, unit int)
}

type blockScratch struct {
	q, scores []float32 // [dim][heads], [heads][256]
	sums      []float32 // [dim][256] of keys, by block
	row, key  []float32 // [256] numbers of a dimension; [dim] a block's key
	page      []byte    // of 256 blocks' keys, as a cache has them
	line      []float32 // scores of the blocks of one token
	slots     []int32   // where the last positions of a token are
	order     []uint32  // by block, ordered as the scores are
}

func (j *blockJob) init(rt *Runtime) {
	j.k = &rt.k
	j.threads = make([]blockScratch, rt.Threads())
	j.score, j.collect = j.scoreBlocks, j.collectToken
}

// ChooseBlocks fills c for the tokens of the segments. The positions are cut into blocks of o.Size from the first one
// on; of the blocks that end at a token or before it, it sees the o.Top whose keys score highest, of equal ones the
// earliest, all if there are no more; and it sees the positions after the last of these blocks.
//
//	key of a block   = rotate(norm(mean of its positions' keys), its first position)
//	score of a block = sum over heads h, ascending, of max(0, q[h]·key)
//
// q is [token][o.Heads][HeadDim]; the tokens' own keys are in the caches already, not normalized and not rotated. It is
// the index of Qwen 3.8 Flash Next (Qwen 2026). What is chosen for a token depends on no other token of the pass.
func (rt *Runtime) ChooseBlocks(c *Choice, q []float32, o BlockChoice, segs []AttentionSegment) error {
	if len(segs) == 0 {
		return nil
	}
	if segs[0].KV == nil {
		return shapeError("segment 0: no cache")
	}
	shape := segs[0].KV.shape
	if err := o.check(shape, len(q)); err != nil {
		return err
	}
	rows := len(q) / (o.Heads * shape.HeadDim)
	if err := checkChoice(segs, o.Layer, rows); err != nil {
		return err
	}
	for i := range segs {
		if end := segs[i].Start + segs[i].Tokens; end > maxPosition {
			return shapeError("segment %d: %d positions", i, end)
		}
	}
	rt.mu.Lock()
	defer rt.mu.Unlock()
	j := &rt.blocks
	j.c, j.q, j.o, j.dim = c, q, o, shape.HeadDim
	j.segs, j.depths = c.plan(segs, rows, j.segs, j.depths)
	for i := range j.segs {
		for j.begin(&j.segs[i]); j.take(); {
			rt.pool.run((j.shared+asm.Page-1)/asm.Page, j.score)
			rt.pool.run(len(j.tokens), j.collect)
		}
	}
	clear(j.segs)
	j.c, j.q, j.s, j.o = nil, nil, nil, BlockChoice{}
	return nil
}

// begin begins with a segment.
func (j *blockJob) begin(s *segment) {
	j.s, s.first = s, 0
	end := s.Start
	if s.Parents == nil {
		end += s.Tokens
	}
	j.shared = end / j.o.Size
	j.stride = (j.shared + asm.Page - 1) / asm.Page * asm.Page
}

// blocks is the number of blocks that end at a token or before it.
func (j *blockJob) blocks(t int) int { return (j.s.position(t) + 1) / j.o.Size }

// take fills j.tokens with the segment's next tokens that there are more blocks for than they may see. It reports false
// when there are none left.
func (j *blockJob) take() bool {
	j.tokens = j.tokens[:0]
	for s := j.s; s.first < s.Tokens && len(j.tokens) < chooseTokens; s.first++ {
		if j.blocks(s.first) > j.o.Top {
			j.tokens = append(j.tokens, s.first)
		}
	}
	j.line = grow(j.line, len(j.tokens)*j.stride)
	return len(j.tokens) > 0
}

// scratch is a worker's, with memory for blocks' keys.
func (j *blockJob) scratch(worker int) *blockScratch {
	x := &j.threads[worker]
	x.q, x.scores = grow(x.q, j.dim*j.o.Heads), grow(x.scores, j.o.Heads*asm.Page)
	x.sums, x.row, x.key = grow(x.sums, j.dim*asm.Page), grow(x.row, asm.Page), grow(x.key, j.dim)
	x.page = grow(x.page, asm.KPageBytes(KVF32, j.dim))
	return x
}

// scoreBlocks computes the scores of all taken tokens for 256 of the shared blocks.
func (j *blockJob) scoreBlocks(worker, unit int) {
	x, s, size, kv := j.scratch(worker), j.s, j.o.Size, j.s.KV
	first := unit * asm.Page
	n := min(j.shared-first, asm.Page)
	each := asm.Page / size // blocks of a page of keys
	for at := 0; at < n; at += each {
		keys := kv.keys((first+at)*size/asm.Page, j.o.Layer, 0)
		some := min(each, n-at)
		for d := range j.dim {
			row, sums := x.row[:some*size], x.sums[d*asm.Page+at:][:some]
			asm.KeyRow(kv.shape.Type, row, keys, d, j.dim, 0)
			for b := range sums {
				sum := row[b*size]
				for _, v := range row[b*size+1 : (b+1)*size] {
					sum += v
				}
				sums[b] = sum
			}
		}
		safepoint()
	}
	for b := range n {
		j.finish(x, b, first+b)
	}
	for i, t := range j.tokens {
		if n := min(n, j.blocks(t)-first); n > 0 {
			j.scores(x, j.line[i*j.stride+first:][:n], s.Row+t)
		}
	}
}

// finish makes the key of a block of its sums, and stores it at position b of the scratch page.
func (j *blockJob) finish(x *blockScratch, b, block int) {
	scale := 1 / float32(j.o.Size)
	for d := range x.key {
		x.key[d] = x.sums[d*asm.Page+b] * scale
	}
	j.k.RMSNorm(x.key, x.key, j.o.Norm, j.o.Eps)
	cos, sin := j.o.Rope.At(block * j.o.Size)
	j.k.RopeHalves(x.key[:2*len(cos)], cos, sin)
	asm.StoreK(KVF32, x.page, b, x.key)
	safepoint()
}

// scores computes the scores of a row for the first blocks of the scratch page.
func (j *blockJob) scores(x *blockScratch, out []float32, row int) {
	heads := j.o.Heads
	for h := range heads {
		for d, v := range j.q[(row*heads+h)*j.dim:][:j.dim] {
			x.q[d*heads+h] = v
		}
	}
	j.k.Scores[KVF32](x.scores, x.q, x.page, j.dim, heads, len(out), 1, nil)
	clear(out)
	for h := range heads {
		for n, v := range x.scores[h*asm.Page:][:len(out)] {
			out[n] += max(v, 0)
		}
	}
	safepoint()
}

// collectToken chooses the blocks of a token.
func (j *blockJob) collectToken(worker, unit int) {
	x, s, t, size := j.scratch(worker), j.s, j.tokens[unit], j.o.Size
	n, end := j.blocks(t), s.position(t)+1
	x.line = grow(x.line, n)
	shared := copy(x.line, j.line[unit*j.stride:][:min(n, j.shared)])
	if shared < n {
		j.path(x, t, shared*size, end)
		for from := shared; from < n; from += asm.Page {
			some := x.line[from:min(n, from+asm.Page)]
			for b := range some {
				j.sum(x, b, x.slots[(from-shared+b)*size:][:size])
				j.finish(x, b, from+b)
			}
			j.scores(x, some, s.Row+t)
		}
	}
	x.order = grow(x.order, n)
	for b, v := range x.line {
		x.order[b] = ordered(v)
	}
	least, equal := lastChosen(x.order, j.o.Top)
	chosen := j.c.bits[(s.Row+t)*j.c.words:][:j.c.words]
	clear(chosen)
	see := func(from, to int) {
		for p := from; p < to; p++ {
			chosen[p/64] |= 1 << (p % 64)
		}
	}
	for b, key := range x.order {
		if key > least || key == least && equal > 0 {
			if see(b*size, (b+1)*size); key == least {
				equal--
			}
		}
	}
	see(n*size, end)
}

// path fills x.slots with the slots of positions from … end-1 of a token's path; end-1 is the token itself.
func (j *blockJob) path(x *blockScratch, t, from, end int) {
	s := j.s
	x.slots = grow(x.slots, end-from)
	for p, slot := end-1, int32(t); p >= from; p-- {
		if p < s.Start {
			x.slots[p-from] = int32(p)
			continue
		}
		x.slots[p-from] = int32(s.Start) + slot
		slot = s.Parents[slot]
	}
}

// sum adds the keys of slots, in their order, as block b of x.sums.
func (j *blockJob) sum(x *blockScratch, b int, slots []int32) {
	kv := j.s.KV
	for i, slot := range slots {
		keys := kv.keys(int(slot)/asm.Page, j.o.Layer, 0)
		for d := range j.dim {
			v := x.row[:1]
			asm.KeyRow(kv.shape.Type, v, keys, d, j.dim, int(slot)%asm.Page)
			if i == 0 {
				x.sums[d*asm.Page+b] = v[0]
			} else {
				x.sums[d*asm.Page+b] += v[0]
			}
		}
	}
	safepoint()
}

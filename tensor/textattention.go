package tensor

import "github.com/specgo/spec/asm"

// Text is the rows of one text among those of a pass: its tokens from the first to the last.
type Text struct{ Row, Tokens int }

// blockTokens is the number of queries in a unit of work: keys and values are laid out for the kernels once for them.
const blockTokens = asm.Page

// textJob is attention within texts, without a cache: keys and values of a unit's head are laid out as pages of a cache
// of float32, 256 positions at a time, by the thread that needs them. The operations are those of attendJob.
type textJob struct {
	attendJob // its kernels and shapes, and how chunks are combined
	kv        []float32
	keys      []float32 // [row][heads][dim]
	texts     []Text
	units     []int // the first unit of each text
	scratch   []textScratch
	work      func(worker, unit int)
}

// textScratch is the memory of one thread.
type textScratch struct {
	attendScratch
	memory []float32
	k, v   []byte // [dim][256], [256][values] of float32
}

func (j *textJob) init(rt *Runtime) {
	j.k = &rt.k
	j.scratch = make([]textScratch, rt.Threads())
	j.work = j.block
}

// AttendTexts computes, for every token of the texts and every query head h, softmax(scale * q·K) V over the keys and
// values of its own text, of KV head h / (o.Heads/heads): of all its tokens where o.Both is set, else of those up to
// the token. q is [row][o.Heads][d], k [row][heads][d], v [row][heads][n], out [row][o.Heads][n], rows those of all
// texts; out shares no memory with the others. The results are those of [Runtime.Attention] with a cache of float32.
func (rt *Runtime) AttendTexts(out, q, k, v []float32, heads int, o AttentionOptions, texts []Text) error {
	rows := 0
	for i, t := range texts {
		if t.Tokens < 1 || t.Row != rows {
			return shapeError("text %d: rows %d+%d after %d", i, t.Row, t.Tokens, rows)
		}
		rows += t.Tokens
	}
	switch {
	case rows == 0:
		return nil
	case heads < 1 || o.Heads < 1 || o.Heads%heads != 0:
		return shapeError("%d query heads for %d key-value heads", o.Heads, heads)
	case len(q) == 0 || len(q)%(rows*o.Heads) != 0 || len(k)*(o.Heads/heads) != len(q):
		return shapeError("%d queries and %d keys of %d rows and %d heads", len(q), len(k), rows, o.Heads)
	case len(v) == 0 || len(v)%(rows*heads) != 0 || len(out) != len(v)*(o.Heads/heads):
		return shapeError("%d values and %d outputs of %d rows and %d heads", len(v), len(out), rows, heads)
	case len(o.Slopes) != 0 && len(o.Slopes) != o.Heads:
		return shapeError("%d slopes for %d query heads", len(o.Slopes), o.Heads)
	case len(o.Sinks) != 0 && len(o.Sinks) != o.Heads:
		return shapeError("%d sinks for %d query heads", len(o.Sinks), o.Heads)
	case len(o.Bias) != 0 || o.Both && o.Window != 0 || o.Reach < 0 || o.Reach > 0 && !o.Both:
		return shapeError("%d biases, a window of %d, a reach of %d", len(o.Bias), o.Window, o.Reach)
	case o.Only != nil:
		return shapeError("a choice of positions, of whole texts")
	}
	rt.mu.Lock()
	defer rt.mu.Unlock()
	j := &rt.texts
	j.out, j.q, j.keys, j.kv, j.o, j.texts = out, q, k, v, o, texts
	j.heads, j.group, j.dim, j.values = heads, o.Heads/heads, len(q)/rows/o.Heads, len(v)/rows/heads
	j.units = j.units[:0]
	units := 0
	for _, t := range texts {
		j.units = append(j.units, units)
		units += heads * ((t.Tokens + blockTokens - 1) / blockTokens)
	}
	rt.pool.run(units, j.work)
	j.out, j.q, j.keys, j.kv, j.o, j.texts = nil, nil, nil, nil, AttentionOptions{}, nil
	return nil
}

// sees is the positions from … to-1 of a text of n tokens that the one at pos sees.
func (o *AttentionOptions) sees(pos, n int) (from, to int) {
	switch {
	case !o.Both:
		return lowest(pos, o.Window), pos + 1
	case o.Reach > 0:
		return max(0, pos-o.Reach), min(n, pos+o.Reach+1)
	}
	return 0, n
}

// block computes one unit: up to blockTokens queries of one text, of one head of keys and values.
func (j *textJob) block(worker, unit int) {
	i := len(j.units) - 1
	for j.units[i] > unit {
		i--
	}
	t, w := j.texts[i], &j.scratch[worker]
	unit -= j.units[i]
	head, first := unit%j.heads, unit/j.heads*blockTokens
	n := min(blockTokens, t.Tokens-first)
	j.room(w, n)
	w.sum.clear()
	low, _ := j.o.sees(first, t.Tokens)
	_, high := j.o.sees(first+n-1, t.Tokens)
	for c := low / asm.Page; c*asm.Page < high; c++ {
		j.layOut(w, t, head, c*asm.Page, min(asm.Page, t.Tokens-c*asm.Page))
		for g := 0; g < n; g += groupTokens {
			j.attendGroup(w, t, head, c*asm.Page, first, g, min(groupTokens, n-g))
		}
	}
	s := segment{AttentionSegment: AttentionSegment{Row: t.Row}}
	j.write(&s, head, first, n, w.sum)
}

// room makes the scratch of a unit of n tokens.
func (j *textJob) room(w *textScratch, n int) {
	group := groupTokens * j.group
	w.memory = grow(w.memory, group*(j.dim+asm.Page+j.values+2)+n*j.group*(j.values+2))
	m := w.memory
	take := func(n int) (part []float32) {
		part, m = m[:n:n], m[n:]
		return part
	}
	w.q, w.scores = take(group*j.dim), take(group*asm.Page)
	w.part = parts(take(group*(j.values+2)), group, j.values)
	w.sum = parts(take(n*j.group*(j.values+2)), n*j.group, j.values)
	w.k = grow(w.k, asm.KPageBytes(asm.KVF32, j.dim))
	w.v = grow(w.v, asm.VPageBytes(asm.KVF32, j.values))
}

// layOut writes the keys and values of n positions of a text, from base on, into the thread's page.
func (j *textJob) layOut(w *textScratch, t Text, head, base, n int) {
	x := j.keys[((t.Row+base)*j.heads+head)*j.dim:]
	j.k.KeyPage(w.k, x, j.heads*j.dim, j.dim, n)
	x = j.kv[((t.Row+base)*j.heads+head)*j.values:]
	j.k.ValuePage(w.v, x, j.heads*j.values, j.values, n)
	safepoint()
}

// attendGroup adds to w.sum what n queries of a text, from first+g on, see of the page, which begins at position base.
func (j *textJob) attendGroup(w *textScratch, t Text, head, base, first, g, n int) {
	low, _ := j.o.sees(first+g, t.Tokens)
	_, high := j.o.sees(first+g+n-1, t.Tokens)
	low, high = max(low-base, 0), min(high-base, asm.Page)
	if low >= high {
		return
	}
	rows := n * j.group
	q, stride := j.q[((t.Row+first+g)*j.heads+head)*j.group*j.dim:], j.heads*j.group*j.dim
	if j.group == 1 {
		j.k.Transpose(w.q, rows, q, stride, rows, j.dim)
	} else {
		for i := range n {
			j.k.Transpose(w.q[i*j.group:], rows, q[i*stride:], j.dim, j.group, j.dim)
		}
	}
	j.k.Scores[asm.KVF32](w.scores, w.q, w.k, j.dim, rows, high, j.o.Scale, nil)
	safepoint()
	part := attendParts{w.part.m[:rows], w.part.l[:rows], w.part.o[:rows*j.values]}
	part.clear()
	sees := func(i int) (from, to int) {
		from, to = j.o.sees(first+g+i, t.Tokens)
		return max(from-base, low), min(to-base, high)
	}
	for i, same := 0, 0; i < n; i += same {
		from, to := sees(i)
		for same = 1; i+same < n; same++ { // queries that see the same
			if a, b := sees(i + same); a != from || b != to {
				break
			}
		}
		row, end := i*j.group, (i+same)*j.group
		for r := row; r < end; r++ {
			all := w.scores[r*asm.Page:][:high]
			if from >= to {
				clear(all[low:])
				continue
			}
			if j.o.adjusts() {
				j.o.adjust(all[from:to], head*j.group+r%j.group, first+g+r/j.group, base+from)
			}
			clear(all[low:from]) // what another query of the group sees has no weight
			clear(all[to:])
		}
		if from < to {
			j.k.ExpSums(w.scores[row*asm.Page+from:], asm.Page, to-from, part.m[row:end], part.l[row:end])
		}
	}
	j.k.Values[asm.KVF32](part.o, w.scores, w.v, j.values, rows, low, high, nil)
	safepoint()
	m, l, o := w.sum.m[g*j.group:], w.sum.l[g*j.group:], w.sum.o[g*j.group*j.values:]
	j.add(attendParts{m[:rows], l[:rows], o[:rows*j.values]}, part)
}

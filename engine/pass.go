package engine

import (
	"context"
	"fmt"

	"github.com/specgo/spec/engine/internal/panels"
	"github.com/specgo/spec/engine/internal/recurrent"
	"github.com/specgo/spec/tensor"
)

// network is an architecture: its weights and its forward pass. Its methods leave errors in the pass.
type network interface {
	// forward embeds the round's tokens into p.x [rows][state size] and takes them through all layers.
	forward(p *pass)
	// finalNorm makes what logits takes, [n][hidden size], of the states x [n][state size] of the rows p.given, which it
	// may overwrite.
	finalNorm(p *pass, x []float32) []float32
	// logits computes out [n][vocabulary] of x [n][hidden size].
	logits(p *pass, out, x []float32)
	// outputs are the matrices that logits reads, of which a draft vocabulary may have rows; none: it may not.
	outputs() []linear
}

// chunk is consecutive tokens of one session in a pass.
type chunk struct {
	s       *Session
	segment int     // of the batch
	start   int     // tokens of the sequence before it
	tokens  []int32 //
	parents []int32 // nil: a chain
	wanted  int     // the first token whose logits are wanted
	hidden  int     // the first token whose hidden states are wanted
	states  []int   // of these layers

	fed   fed  // what goes in beside the tokens
	block bool // its tokens see each other, those after them too
}

// wantedRow is a row whose logits are wanted, and where they go: row index of s.logits.
type wantedRow struct {
	row     int
	segment int // of the batch
	s       *Session
	index   int
}

// roundRows are the rows of a round.
type roundRows struct {
	tokens    []int32                     // [rows]
	positions []int32                     // [rows] position on the row's own path
	segments  [][]tensor.AttentionSegment // [caches] whose rows they are
	fed       []fedRows                   // what goes into the rows beside the tokens
	owner     []int                       // [rows] the batch's segment that a row belongs to
	texts     []tensor.Text               // whole texts whose rows they are, in a pass without caches; nil: segments
	block     bool                        // they are blocks of a draft head
}

// queue is the chunks of a pass, in the order in which their tokens go through the layers.
type queue struct {
	chunks []chunk
	at     int // the chunk that comes next
	done   int // tokens of it that are done
	most   int // rows of a round
}

// asked is what the callers want of a round's rows.
type asked struct {
	wanted    []wantedRow // ascending
	hidden    []hiddenRow // ascending
	masked    bool        // the model's logits may be -Inf
	projected []wantedRow // the rows that are multiplied with the output matrix; nil: all rows of the round
	following []wantedRow // scratch of blockHead.follow
	given     []int32     // the rows that finalNorm and logits are given
}

// activations are the scratch memory of the networks, which say their shapes.
type activations struct {
	x, h, y, q, k, v, a, gate, up, wide []float32
	other                               []float32     // of a mixer beside attention
	inputs                              []float32     // [rows][layers][P] of a layer besides the residual stream
	factors                             []float32     // [rows]
	logits                              []float32     // [rows][vocabulary] where sessions share a reading of the head
	routing                             routing       // of experts
	choice                              tensor.Choice // where attention looks, if an index chooses it

	eachInput    []tensor.Input // of products with an input for each
	eachProducts []product
}

// pass is one Forward in progress: the chunks that remain, the round of rows that goes through the
// layers, and the scratch memory, which the Runtime keeps from pass to pass.
type pass struct {
	t       *tensor.Runtime
	ctx     context.Context
	serial  uint64
	results []Result // of the batch's segments; those with an error take no further part
	err     error    // the first failure; the operations after it do nothing

	queue
	roundRows
	layers    int                       // that the round goes through
	form      *DraftForm                // that it is computed with; nil: the model as it is
	current   int                       // the layer that it is in
	part      []int32                   // the rows that an expert computes; nil: all
	blockRows blockRows                 // the rows that one of several MTP blocks computes
	crossed   []tensor.AttentionSegment // the encoder inputs of the rows, in encoder-decoder models
	recurrent recurrent.Round           // what the rows do to recurrent layers
	asked

	activations
	adapted  lowRanks // what the adapters of the rows add
	own      ownText
	watch    *watch  // of the only segment's session; nil: none
	depth    []int32 // scratch of depths
	in       tensor.Input
	products []tensor.Product
	held     panels.Held // the matrices from disk that a product uses at present
	work     rowWork
}

func newPass(t *tensor.Runtime) *pass {
	p := &pass{t: t}
	p.work.init(p)
	p.recurrent.Init(t)
	return p
}

func (p *pass) begin(ctx context.Context, results []Result) {
	p.ctx, p.results = ctx, results
	p.serial++
	p.err = nil
	p.chunks, p.at, p.done = p.chunks[:0], 0, 0
}

// end drops the references to what belongs to callers.
func (p *pass) end() {
	clear(p.chunks)
	for i := range p.segments {
		clear(p.segments[i])
		p.segments[i] = p.segments[i][:0]
	}
	clear(p.crossed)
	clear(p.wanted)
	clear(p.following)
	clear(p.hidden)
	clear(p.fed)
	p.blockRows.end()
	p.adapted.end()
	clear(p.products)
	p.recurrent.Abandon() // what a panic has left
	p.chunks, p.wanted, p.products, p.ctx = p.chunks[:0], p.wanted[:0], p.products[:0], nil
	p.hidden, p.fed, p.form, p.watch = p.hidden[:0], p.fed[:0], nil, nil
	p.results, p.projected, p.part, p.crossed, p.texts = nil, nil, nil, p.crossed[:0], nil
}

// shrink gives the scratch memory back: a long text goes through the layers whole, with many times the rows of others.
func (p *pass) shrink() { p.activations, p.in = activations{}, tensor.Input{} }

func (p *pass) push(c chunk) {
	if len(c.tokens) > 0 {
		p.chunks = append(p.chunks, c)
	}
}

// fill takes up to p.most rows off the chunks, all of which go through as many layers of one form of the model, and are
// blocks of a draft head or are not. It reports false when there are none left. Chains are cut where they must be,
// trees stay whole.
func (p *pass) fill() bool {
	p.tokens, p.positions, p.wanted = p.tokens[:0], p.positions[:0], p.wanted[:0]
	p.owner, p.hidden, p.fed, p.crossed = p.owner[:0], p.hidden[:0], p.fed[:0], p.crossed[:0]
	for i := range p.segments {
		p.segments[i] = p.segments[i][:0]
	}
	for p.at < len(p.chunks) && len(p.tokens) < p.most {
		c := &p.chunks[p.at]
		if p.results[c.segment].Err != nil { // in an earlier round
			p.at, p.done = p.at+1, 0
			continue
		}
		n := min(len(c.tokens)-p.done, p.most-len(p.tokens))
		if c.parents != nil && n < len(c.tokens) ||
			len(p.tokens) > 0 && (c.s.layers != p.layers || c.s.form != p.form || c.block != p.block) {
			break
		}
		row, start := len(p.tokens), c.start+p.done
		if err := c.s.room(start, n, c.parents != nil); err != nil {
			p.results[c.segment].Err = err
			continue
		}
		p.layers, p.form, p.block = c.s.layers, c.s.form, c.block
		for len(p.segments) < len(c.s.kv) {
			p.segments = append(p.segments, nil)
		}
		if c.s.rec != nil {
			p.recurrent.Add(c.s.rec, c.segment, row, start, n, c.parents, p.done+n-c.wanted)
		}
		for i, kv := range c.s.kv {
			if kv == nil {
				continue
			}
			g := tensor.AttentionSegment{KV: kv, Row: row, Start: start, Tokens: n, Parents: c.parents}
			if c.block {
				g.Parents, g.Keys = nil, start+n
			}
			p.segments[i] = append(p.segments[i], g)
		}
		if c.s.lender != nil {
			p.lend(c.s.lender, row, n)
		}
		if in := c.s.input; in != nil {
			p.crossed = append(p.crossed, tensor.AttentionSegment{KV: in.kv, Row: row, Tokens: n, Keys: len(in.ids)})
		}
		p.tokens = append(p.tokens, c.tokens[p.done:p.done+n]...)
		if c.fed.x != nil {
			p.fed = append(p.fed, fedRows{row, n, c.fed.part(p.done, n, len(c.tokens))})
		}
		if c.parents != nil {
			p.depths(c.parents) // checked when it was admitted
		}
		for i := range n {
			position := c.start + p.done + i
			if c.parents != nil {
				position = c.start + int(p.depth[i])
			}
			if c.s.lender != nil {
				position = len(c.s.lender.tokens) // of all rows
			}
			p.positions = append(p.positions, int32(position))
			p.owner = append(p.owner, c.segment)
			if j := p.done + i - c.wanted; j >= 0 {
				p.wanted = append(p.wanted, wantedRow{row + i, c.segment, c.s, j})
			}
			if j := p.done + i - c.hidden; j >= 0 && len(c.states) > 0 {
				p.hidden = append(p.hidden, hiddenRow{row + i, c.segment, c.s, j, c.states})
			}
		}
		if p.done += n; p.done == len(c.tokens) {
			p.at, p.done = p.at+1, 0
		}
	}
	return len(p.tokens) > 0
}

// lend adds the keys and values of session t to what n rows from row on look at.
func (p *pass) lend(t *Session, row, n int) {
	for len(p.segments) < len(t.kv) {
		p.segments = append(p.segments, nil)
	}
	for i, kv := range t.kv {
		for j := range n {
			p.segments[i] = append(p.segments[i], tensor.AttentionSegment{KV: kv, Row: row + j, Start: len(t.tokens) - 1,
				Tokens: 1})
		}
	}
}

// depths fills p.depth with the depth of every node of a tree, 0 for those that follow the sequence, and
// returns the number of levels.
func (p *pass) depths(parents []int32) (levels int, err error) {
	p.depth = p.depth[:0]
	for i, parent := range parents {
		if parent < -1 || int(parent) >= i {
			return 0, fmt.Errorf("%w: node %d has parent %d; parents come first", ErrUsage, i, parent)
		}
		d := int32(0)
		if parent >= 0 {
			d = p.depth[parent] + 1
		}
		p.depth = append(p.depth, d)
		levels = max(levels, int(d)+1)
	}
	return levels, nil
}

// failRow takes the segment of row i of x out of the pass: its activations are not finite.
func (p *pass) failRow(i int, err error) {
	if r := &p.results[p.segmentOf(i)]; r.Err == nil {
		r.Err = err
	}
}

// segmentOf is the batch's segment that row i of x belongs to: of the rows that are projected, of those that an expert
// computes, or of the round.
func (p *pass) segmentOf(i int) int {
	if p.projected != nil {
		return p.projected[i].segment
	}
	if p.part != nil {
		i = int(p.part[i])
	}
	return p.owner[i]
}

// failed reports whether a segment has failed, or all have.
func (p *pass) failed(segment int) bool { return p.err != nil || p.results[segment].Err != nil }

// rows is the number of rows of this round, or of the part of them that an expert computes.
func (p *pass) rows() int {
	if p.part != nil {
		return len(p.part)
	}
	return len(p.tokens)
}

// matrix gives *s the shape [rows][cols], keeping its memory where it suffices.
func (p *pass) matrix(s *[]float32, cols int) []float32 { return sized(s, p.rows()*cols) }

// hiddenRow is a row whose hidden states are wanted, and where they go: row index of s.hidden.
type hiddenRow struct {
	row     int
	segment int // of the batch
	s       *Session
	index   int
	layers  []int
}

// fed is the hidden states that go in beside the tokens of a chunk, or of rows of a round.
type fed struct {
	x          []float32 // [n][3T] or [n][D]; nil but for draft heads
	fromTarget bool
	ahead      int // drafted tokens up to the first one, itself included; 0 where the states are the target's
}

// fedRows are the rows of a round that states go into.
type fedRows struct {
	row, n int
	fed
}

// part is the states of n of all tokens, from the first one that is not done.
func (f fed) part(done, n, all int) fed {
	size := len(f.x) / all
	f.x = f.x[done*size : (done+n)*size]
	if !f.fromTarget {
		f.ahead += done
	}
	return f
}

// routing is the scratch of a pass for experts.
type routing struct {
	logits, weights []float32 // [rows][E] of all, [rows][used] of the chosen
	chosen          []int32   // [rows][used] ascending
	needed          []int32   // the chosen of all rows, each once, where they are read from disk
	order           []int32   // [E] scratch of one row
	p               []float32 // [E] scratch of one row
	worth           []float32 // [groups of experts] likewise
	rows            []int32   // that an expert is chosen for
	x, y            []float32 // [rows][D] of one expert
	gate            []float32 // [rows] of the shared expert
	read            expertReads
}

// encoder is the network of an encoder-decoder model. Its methods leave errors of the arithmetic in the pass.
type encoder interface {
	// encode computes the encoder's states [len(ids)][hidden size].
	encode(p *pass, ids []int32) (states []float32, err error)
	// cross stores the keys and values of the states for the first layers of the decoder in kv, which has as many slots
	// as there are ids.
	cross(p *pass, ids []int32, states []float32, layers int, kv *tensor.KV)
}

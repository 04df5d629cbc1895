package speculative

import (
	"cmp"
	"context"
	"slices"

	"github.com/specgo/spec/engine"
)

// head is a draft head's part of a drafter: which states it has, and which positions its cache holds.
//
// The pair at position p of the head is (token p+1, the target's state at p). Of a text of n tokens the target has
// been fed n-1, so the head can compute positions 0 to n-2, and the logits there predict token n. A drafted token
// follows with the head's own output. An MTP block has one more pair before these: the first token, with zeros. Of a
// head that drafts blocks the pair at p is (token p, the target's state at p), and what it drafts never goes in.
type head struct {
	seq    *cachedSequence // its tokens are those of the text from the second one on, or from the first one on
	lead   int             // 1: from the first one on, which goes in with zeros
	ahead  int             // tokens from a state to the one that it goes in with: 1, or 0
	most   int             // tokens on a path that it drafts; 0: any number
	output []int           // the layer whose state goes in with a drafted token
	layers []int           // of the target
	width  int             // numbers of the target's states for a position

	text    []int32   // tokens whose states came, from the first one on
	cached  int       // positions that the cache holds of the target's states; those after them are drafted
	waiting []float32 // states of positions cached to len(text)-1

	lost      bool      // no more drafts in this text: it is too long, or has a token that the head does not know
	verifying bool      // states are those of a draft, of which Observe will say what is accepted
	fed       []int32   // tokens of the draft's pass
	states    []float32 // their states

	// Of this draft: nodes that the head has computed. nodes[0] is the end of the text.
	nodes []headNode
	y     []float32 // [nodes][hidden size] what the head computed there
	pass  []float32 // states that go into a pass
}

type headNode struct{ parent, token int32 }

// newHead is the head of a sequence that is fed as o says.
func newHead(seq *cachedSequence, o *engine.Head) *head {
	h := &head{seq: seq, most: o.Longest, output: []int{o.Output}, ahead: 1}
	if o.FirstToken {
		h.lead = 1
	}
	return h
}

// attendTo sets the layers of the target that the head reads.
func (h *head) attendTo(target Sequence) []int {
	own := h.seq.Sequence.(Modeled).Model()
	if m, ok := target.(Modeled); ok {
		h.layers = m.Model().StatesFor(own)
	} else {
		h.layers = slices.Clone(own.TargetLayers())
	}
	return h.layers
}

// start says that states are those of drafts from now on.
func (h *head) start([]int32) error {
	h.verifying = true
	return nil
}

// beyond reports whether the head has no room to draft after a text of n tokens, and so in all that follows it.
func (h *head) beyond(n int) bool { return n-1+h.lead > h.seq.Context() }

// known begins a text: it keeps what the head has of the prompt and returns for how many of its tokens the states
// need not come again. The last state before the prompt's last token always comes again: the first draft begins with
// it.
func (h *head) known(ctx context.Context, prompt []int32) (int, error) {
	if h.beyond(len(prompt)) { // what it has of an earlier text stays for a later one
		h.verifying, h.lost, h.nodes, h.fed = false, true, h.nodes[:0], h.fed[:0]
		return len(prompt), nil
	}
	n, err := h.reuse(prompt)
	if s, ok := h.seq.Sequence.(Shared); ok && err == nil && len(h.seq.tokens) == 0 && h.resume(ctx, s, prompt) {
		return h.reuse(prompt)
	}
	return n, err
}

// reuse is known of what the head itself has.
func (h *head) reuse(prompt []int32) (int, error) {
	h.verifying, h.lost, h.nodes, h.fed = false, false, h.nodes[:0], h.fed[:0]
	if err := h.seq.open(); err != nil {
		return 0, err
	}
	if len(h.seq.tokens) < h.length() { // others have changed it
		h.cached, h.text, h.waiting = 0, h.text[:0], h.waiting[:0]
	}
	same := 0
	for same < min(len(h.text), len(prompt)) && h.text[same] == prompt[same] {
		same++
	}
	keep := min(h.cached, max(0, len(prompt)-2))
	for p := range keep {
		if p >= same || h.seq.tokens[p+h.lead] != prompt[p+h.ahead] {
			keep = p
			break
		}
	}
	if keep < h.cached { // the states of the positions after these are gone
		h.cached, same = keep, keep
	}
	h.text = h.text[:min(max(same, h.cached), len(prompt)-1)]
	h.waiting = h.waiting[:(len(h.text)-h.cached)*h.width]
	err := h.seq.cut(h.length())
	if len(h.seq.tokens) < h.length() { // layers with a window do not reach back so far: it reads the text again
		h.cached, h.text, h.waiting = 0, h.text[:0], h.waiting[:0]
		err = cmp.Or(err, h.seq.cut(0))
	}
	return min(len(h.text), max(0, len(prompt)-2)), err
}

// resume goes on from what another head's sequence made of the beginning of the prompt, if there is one.
func (h *head) resume(ctx context.Context, s Shared, prompt []int32) bool {
	first := h.ahead - h.lead
	next, states := s.Resume(ctx, prompt[:first], prompt[first:],
		func() ([]int32, []float32) { return h.text[h.cached:], h.waiting })
	if s.Len() <= h.lead {
		return false
	}
	h.seq.tokens = append(h.seq.tokens, prompt[first:first+s.Len()]...)
	h.cached = s.Len() - h.lead
	h.text, h.waiting = append(h.text[:0], prompt[:h.cached]...), h.waiting[:0]
	for i, id := range next {
		if h.cached+i >= len(prompt) || prompt[h.cached+i] != id {
			break
		}
		h.width = len(states) / len(next)
		h.text, h.waiting = append(h.text, id), append(h.waiting, states[i*h.width:(i+1)*h.width]...)
	}
	return true
}

// hidden takes the states of a pass of the target that begins at a position of the text.
func (h *head) hidden(ctx context.Context, position int, tokens []int32, s engine.HiddenStates) error {
	h.lost = h.lost || h.beyond(position+2) // the pass has a token at least, and another one follows it
	for _, id := range tokens {
		h.lost = h.lost || int(id) >= h.seq.Vocab() && !h.verifying
	}
	if h.lost {
		h.fed = h.fed[:0]
		return nil
	}
	columns := make([]int, 0, 8)
	for _, k := range h.layers {
		columns = append(columns, slices.Index(s.Layers, k))
	}
	h.width = len(columns) * s.Size
	if h.verifying {
		h.fed, h.states = append(h.fed[:0], tokens...), h.states[:0]
		for i := range tokens {
			h.states = h.appendStates(h.states, s, i, columns)
		}
		if len(h.waiting) >= prefillChunk*h.width { // nothing has been drafted for long
			return h.later(h.feed(ctx, h.text[h.cached+h.ahead:]))
		}
		return nil
	}
	for i, id := range tokens {
		if position+i == len(h.text) {
			h.text = append(h.text, id)
			h.waiting = h.appendStates(h.waiting, s, i, columns)
		}
	}
	if h.cached >= len(h.text) {
		return nil
	}
	return h.later(h.feed(ctx, h.text[h.cached+h.ahead:]))
}

func (h *head) appendStates(dst []float32, s engine.HiddenStates, row int, columns []int) []float32 {
	for _, j := range columns {
		dst = append(dst, s.At(row, j)...)
	}
	return dst
}

// accept is told, by the paths' indices, which of the draft's pass is part of the text.
func (h *head) accept(path []int32) {
	if !h.verifying || len(h.fed) == 0 {
		return
	}
	take := func(row int32) {
		h.lost = h.lost || int(h.fed[row]) >= h.seq.Vocab()
		h.text = append(h.text, h.fed[row])
		h.waiting = append(h.waiting, h.states[int(row)*h.width:int(row+1)*h.width]...)
	}
	take(0)
	for _, i := range path {
		take(i + 1)
	}
	h.fed = h.fed[:0]
}

// mostWaiting is the most positions whose states wait for memory: each takes what a token takes in the cache of several
// of the target's layers.
const mostWaiting = 4 * prefillChunk

// later keeps the states that memory was refused for, which the next draft feeds. If they are too many there are no
// more drafts in this text. Other errors stay.
func (h *head) later(err error) error {
	if !refused(err) {
		return err
	}
	h.lost = len(h.waiting) > mostWaiting*h.width
	return nil
}

// feed computes positions from the first that is not cached on: tokens are those that their states go in with.
func (h *head) feed(ctx context.Context, tokens []int32) error {
	for len(tokens) > 0 {
		n := min(len(tokens), prefillChunk, h.seq.Context()-h.cached-h.lead)
		if n <= 0 {
			return nil
		}
		if _, err := h.step(ctx, tokens[:n], h.waiting[:n*h.width], true, false); err != nil {
			return err
		}
		h.advance(n)
		tokens = tokens[n:]
	}
	return nil
}

// advance says that n waiting positions have been computed.
func (h *head) advance(n int) {
	h.cached += n
	h.waiting = h.waiting[:copy(h.waiting, h.waiting[n*h.width:])]
}

// step is a pass of the head.
func (h *head) step(ctx context.Context, tokens []int32, states []float32, fromTarget, last bool) (
	engine.Result, error) {
	if fromTarget {
		if err := h.seq.cut(h.length()); err != nil {
			return engine.Result{}, err
		}
		if len(h.seq.tokens) < h.lead {
			h.pass = slices.Grow(h.pass[:0], h.width)[:h.width]
			clear(h.pass)
			if _, err := h.seq.segment(ctx, engine.Segment{Tokens: h.text[:1], States: h.pass, FromTarget: true}); err != nil {
				return engine.Result{}, err
			}
			h.seq.tokens = append(h.seq.tokens, h.text[0])
		}
	}
	g := engine.Segment{Tokens: tokens, States: states, FromTarget: fromTarget}
	if last {
		g.Logits, g.Hidden, g.Layers = engine.Last, engine.All, h.output
		if fromTarget {
			g.Hidden = engine.Last
		}
	}
	r, err := h.seq.segment(ctx, g)
	if err == nil {
		h.seq.tokens = append(h.seq.tokens, tokens...)
	}
	return r, err
}

// length is how many tokens the cache holds with the target's states.
func (h *head) length() int {
	if h.cached == 0 {
		return 0
	}
	return h.cached + h.lead
}

// begin begins a draft.
func (h *head) begin() { h.nodes, h.y = h.nodes[:0], h.y[:0] }

// logits returns the logits after path, the first written tokens of which are not drafted; nil where the head cannot
// compute them.
func (h *head) logits(ctx context.Context, path []int32, written int, d *Draft) ([]float32, error) {
	if h.most > 0 && len(path)-written >= h.most {
		return nil, nil // there is no block for a further token
	}
	if h.lost || h.beyond(len(path)) || len(h.text) != written-1 || h.cached >= written-1 &&
		len(h.nodes) == 0 {
		return nil, nil
	}
	var row []float32
	if len(h.nodes) == 0 { // the target's states of what was accepted
		if written-1-h.cached > prefillChunk {
			if err := h.feed(ctx, path[h.cached+1:written-1]); err != nil {
				return nil, err
			}
		}
		r, err := h.step(ctx, path[h.cached+1:written], h.waiting, true, true)
		if err != nil {
			return nil, err
		}
		h.advance(written - 1 - h.cached)
		h.keep(-1, path[written-1], r.Hidden.Row(r.Hidden.Rows()-1))
		row = r.Logits.Row(0)
		d.Passes++
	}
	// The branch: drafted token i of it is at position written-1+i, and goes in with what the head computed before it.
	branch, cached := path[written:], h.seq.tokens[h.cached+h.lead:]
	same := 0
	for same < min(len(branch), len(cached)) && branch[same] == cached[same] {
		same++
	}
	same = min(same, max(0, len(branch)-1)) // the last one's logits are wanted
	if len(branch) > 0 {
		if err := h.seq.cut(h.cached + h.lead + same); err != nil {
			return nil, err
		}
	}
	for same < len(branch) {
		// As many tokens as have a node before them.
		node, to := h.find(branch[:same]), same
		h.pass = h.pass[:0]
		for at := node; to < len(branch) && at >= 0; to++ {
			h.pass = append(h.pass, h.at(at)...)
			at = h.child(at, branch[to])
		}
		r, err := h.step(ctx, branch[same:to], h.pass, false, true)
		if err != nil {
			return nil, err
		}
		for i := range to - same {
			next := h.child(node, branch[same+i])
			if next < 0 {
				next = h.keep(int32(node), branch[same+i], r.Hidden.Row(i))
			}
			node = next
		}
		same, row = to, r.Logits.Row(0)
		d.Passes++
	}
	return row, nil
}

// keep adds a node.
func (h *head) keep(parent, token int32, y []float32) int {
	h.nodes, h.y = append(h.nodes, headNode{parent, token}), append(h.y, y...)
	return len(h.nodes) - 1
}

// at is what the head computed at a node.
func (h *head) at(node int) []float32 {
	n := len(h.y) / len(h.nodes)
	return h.y[node*n : (node+1)*n]
}

// child is the node after a node with that token, -1 if there is none.
func (h *head) child(node int, token int32) int {
	for i := node + 1; i < len(h.nodes); i++ {
		if h.nodes[i] == (headNode{int32(node), token}) {
			return i
		}
	}
	return -1
}

// find is the node at the end of a branch. The tokens of a branch that the cache holds have nodes.
func (h *head) find(branch []int32) (node int) {
	for _, id := range branch {
		node = h.child(node, id)
	}
	return node
}

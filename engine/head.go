package engine

import (
	"fmt"

	"github.com/specgo/spec/tensor"
)

// Head says how a draft head is fed.
type Head struct {
	// TargetLayers are the layers of the target whose hidden states the head takes, one after the other, as
	// [Segment].States: what the target's pass gives for these [Segment].Layers.
	TargetLayers []int

	Output int // the layer of the head whose state goes in with the next token, where there is none of the target
	// FirstToken: the head is also fed the first token, with zeros for a state, or where there is a Block with the state
	// at that token; otherwise it begins with the second.
	FirstToken bool

	// SharesCache: the head has no keys and values of its own, but looks at those of its target. Its sessions are made
	// for a session of the target ([SessionOptions].Target) and hold no tokens: each token of a segment is the one after
	// all of the target's session, whatever was drafted in between, and a head's pass leaves nothing behind.
	SharesCache bool

	// Longest is the most tokens of a draft, by each of several MTP blocks one, or by a Block all but one of its tokens,
	// or all if it is Chained; 0: any number, all by the same MTP block. A segment that goes further fails.
	Longest int

	// Block, if not 0, is the most tokens of a block: such a head (DFlash, DSpark) drafts a block in one pass. The
	// target's states at a token go in with this token ([Segment].FromTarget), and give keys and values but no logits. A
	// block is a segment without states: the token after those, then Mask up to Block tokens in all, as a tree of one
	// path. Its tokens see each other, those after them too, so that the logits at each of them depend on how many there
	// are. Those at a Mask are of the token that belongs in its place. A block leaves the sequence as it is, and nothing
	// of it can be committed.
	Block int
	Mask  int32

	// Chained: the logits at each token of a block (of a DSpark head) are of the token after it, those at the first too,
	// and are made as if the likeliest token were drafted at each one before. A segment asks for all of them, or none.
	Chained bool

	targetSize int  // numbers of the target's states for a token
	stateSize  int  // numbers of a state of the head's own
	masked     bool // logits may be -Inf
}

// TargetStates is the number of numbers of the target's states that go in with a token.
func (h *Head) TargetStates() int { return h.targetSize }

// Drafts is the segment by which a head with a Block drafts n tokens, 1 to Longest, after the token last: row i of its
// logits is of the i-th of them.
func (h *Head) Drafts(last int32, n int) Segment {
	g := Segment{Tokens: []int32{last}, Parents: []int32{-1}, Logits: Rows(n)}
	size := n + 1
	if h.Chained {
		size = n
	}
	for len(g.Tokens) < size {
		g.Tokens, g.Parents = append(g.Tokens, h.Mask), append(g.Parents, int32(len(g.Parents)-1))
	}
	return g
}

// head is a draft head: a network that reads hidden states beside the tokens, and says what its sessions and their
// segments may be. A *Head has the methods that heads have in common.
type head interface {
	network
	info() *Head

	// opens checks what a new session is asked to be; Layers is set.
	opens(c *Config, o SessionOptions) error
	// borrows checks the session whose keys and values passes will look at, of the head's target.
	borrows(target *Model, t *Session) error
	// admit checks what goes into a segment, beyond what is checked of all.
	admit(g *Segment) error
	// gives checks that a segment of s can ask for the states of layer k.
	gives(s *Session, k int) error
	// next makes what goes in with the next tokens of states after the final norm, those of the rows p.given.
	next(p *pass, x []float32) []float32
}

func (h *Head) info() *Head { return h }

func (h *Head) opens(_ *Config, o SessionOptions) error {
	if o.NoCache {
		return fmt.Errorf("%w: a draft head without a cache", ErrUsage)
	}
	return nil
}

func (h *Head) borrows(_ *Model, t *Session) error {
	if t != nil {
		return fmt.Errorf("%w: a target's session for a model with a cache of its own", ErrUsage)
	}
	return nil
}

func (h *Head) admit(g *Segment) error {
	n, size := len(g.Tokens), h.stateSize
	if g.FromTarget {
		size = h.targetSize
	}
	if len(g.States) != n*size {
		return fmt.Errorf("%w: a draft head takes a hidden state of %d numbers with each token: %d for %d tokens",
			ErrUsage, size, len(g.States), n)
	}
	return nil
}

func (h *Head) gives(*Session, int) error { return nil }

// blocks reports whether a segment of a model's session is a block of its draft head.
func (m *Model) blocks(g *Segment) bool {
	return m.head != nil && m.head.info().Block > 0 && !g.FromTarget
}

func (h *Head) next(_ *pass, x []float32) []float32 { return x }

// feeds is what segment g of a head's session feeds it beside the tokens.
func (s *Session) feeds(g *Segment) fed {
	if g.FromTarget {
		return fed{g.States, true, 0}
	}
	return fed{g.States, false, len(s.tokens) - s.fed + 1}
}

// A tokenAndState is how a head's input at a position is made of the token there and of the state before it.
type tokenAndState struct {
	embedding *tensor.Matrix // [V][D]
	tokenNorm norm           // [D]
	stateNorm norm           // [D]
}

// input returns [norm(embedding of the token); norm(state)], [rows][2D], of the rows' tokens and states [rows][D]. It
// uses the memory of the pass's h, and leaves norm(state) in y.
func (t *tokenAndState) input(p *pass, d int, states []float32) []float32 {
	token, state := p.matrix(&p.h, d), p.matrix(&p.y, d)
	p.embed(token, t.embedding)
	p.norm(token, token, t.tokenNorm)
	p.norm(state, states, t.stateNorm)
	both := p.matrix(&p.wide, 2*d)
	for i := range p.rows() {
		copy(both[2*i*d:], token[i*d:(i+1)*d])
		copy(both[(2*i+1)*d:], state[i*d:(i+1)*d])
	}
	return both
}

package speculative

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/specgo/spec/engine"
)

// assistant is a head without a cache of its own, which looks at that of the target's session
// ([engine.Head].SharesCache): Gemma 4's.
//
// The last token of a text of n tokens, which the target has not been fed, goes in with the target's state at the
// token before. A drafted token goes in with what the head made of the token before it. All are computed after the
// target's n-1 tokens, and nothing is to be taken back.
type assistant struct {
	seq    *cachedSequence
	layers []int // of the target
	output []int // the layer whose state goes in with a drafted token
	ahead  bool  // the target has got further than the prompt: states come of drafts

	state    []float32 // the target's at the last of its accepted tokens
	fed      int       // tokens that the target has been fed with them, as far as is known
	position int       // of the draft's pass: tokens before it
	states   []float32 // of its tokens
	width    int       // numbers of a state

	// Of this draft: tokens that the head has computed. nodes[0] is the end of the text.
	nodes []headNode
	next  []float32 // [nodes][width] what goes in with a token after them
	token [1]int32  // of a step
}

func (a *assistant) attendTo(Sequence) []int { return a.layers }

// known says that the states of all tokens but the last that the target is fed of a prompt need not come.
func (a *assistant) known(_ context.Context, prompt []int32) (int, error) {
	a.ahead, a.fed, a.nodes, a.next = false, 0, a.nodes[:0], a.next[:0]
	return max(0, len(prompt)-2), nil
}

func (a *assistant) hidden(_ context.Context, position int, tokens []int32, s engine.HiddenStates) error {
	column := slices.Index(s.Layers, a.layers[0])
	a.width = s.Size
	if !a.ahead {
		a.state, a.fed = append(a.state[:0], s.At(len(tokens)-1, column)...), position+len(tokens)
		return nil
	}
	a.position, a.states = position, a.states[:0]
	for i := range tokens {
		a.states = append(a.states, s.At(i, column)...)
	}
	return nil
}

// start checks that the head looks at the decoder's target, which has been fed the prompt but for its last token.
func (a *assistant) start(prompt []int32) error {
	a.ahead = true
	var has []int32
	if s, ok := a.seq.Sequence.(interface{ TargetTokens() []int32 }); ok {
		has = s.TargetTokens()
	}
	if !slices.Equal(has, prompt[:len(prompt)-1]) {
		return fmt.Errorf("draft head: %w: it looks at the cache of another session than the target's", ErrOptions)
	}
	return nil
}

func (a *assistant) begin() { a.nodes, a.next = a.nodes[:0], a.next[:0] }

func (a *assistant) accept(path []int32) {
	if !a.ahead || len(a.states) == 0 {
		return
	}
	row := 0
	if len(path) > 0 {
		row = int(path[len(path)-1]) + 1
	}
	a.state, a.fed = append(a.state[:0], a.states[row*a.width:(row+1)*a.width]...), a.position+1+len(path)
	a.states = a.states[:0]
}

func (a *assistant) logits(ctx context.Context, path []int32, written int, d *Draft) (row []float32, err error) {
	if a.fed == 0 || a.fed != written-1 || a.fed >= a.seq.Context() {
		return nil, nil
	}
	if len(a.nodes) == 0 || len(path) == written {
		a.begin()
		if row, err = a.step(ctx, -1, path[written-1], a.state, d); row == nil || err != nil {
			return nil, err
		}
	}
	// The tokens of the branch that have nodes, but for the last one, whose logits are wanted.
	node, branch := 0, path[written:]
	for len(branch) > 1 {
		next := a.child(node, branch[0])
		if next < 0 {
			break
		}
		node, branch = next, branch[1:]
	}
	for _, id := range branch {
		if row, err = a.step(ctx, node, id, a.next[node*a.width:(node+1)*a.width], d); row == nil || err != nil {
			return nil, err
		}
		node = len(a.nodes) - 1 // there may be one with the same numbers before it
	}
	return row, nil
}

// step computes a token after a node with the state that goes in with it, and adds it to the nodes; it returns nil
// where it cannot.
func (a *assistant) step(ctx context.Context, parent int, token int32, state []float32, d *Draft) ([]float32, error) {
	a.token[0] = token
	r, err := a.seq.segment(ctx, engine.Segment{
		Tokens: a.token[:], States: state, FromTarget: parent < 0, Logits: engine.Last, Hidden: engine.Last,
		Layers: a.output})
	if errors.Is(err, engine.ErrKVBudget) { // the target has given up its memory until its next pass
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	a.nodes, a.next = append(a.nodes, headNode{int32(parent), token}), append(a.next, r.Hidden.Row(0)...)
	d.Passes++
	return r.Logits.Row(0), nil
}

// child is the node after a node with that token, -1 if there is none.
func (a *assistant) child(node int, token int32) int {
	for i := node + 1; i < len(a.nodes); i++ {
		if a.nodes[i] == (headNode{int32(node), token}) {
			return i
		}
	}
	return -1
}

package compare

import (
	"context"
	"fmt"
	"slices"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/speculative"
)

// fixedText is a subject as the verifier that writes the subject's fixed text: a drafted token is kept where it is the
// text's. The target computes every pass, and its choice counts nowhere: what drafters get right, and what that costs,
// is measured on the same text for all.
type fixedText subject

func (f *fixedText) Start(speculative.Setup) error { return nil }
func (f *fixedText) NeedsProbs() bool              { return false }

// Verify follows the text down the draft. Behind its end, where the decoder's limit is, any token does.
func (f *fixedText) Verify(v *speculative.Verification) {
	at, node := len(v.Sequence), -1
	for ; at+1 < len(f.fixed); at++ {
		child := v.Draft.Child(node, f.fixed[at])
		if child < 0 {
			break
		}
		v.Path, node = append(v.Path, int32(child)), child
	}
	if at < len(f.fixed) {
		v.Next = f.fixed[at]
	}
}

// fix has all subjects write a text after the prompt.
func (b *Bench) fix(ids, then []int32) {
	text := slices.Concat(ids, then)
	for _, x := range b.all() {
		x.fixed = text[:min(len(text), len(ids)+x.plan.Tokens)]
	}
}

// all are the bench's subjects.
func (b *Bench) all() []*subject {
	list := []*subject{b.plain}
	for _, s := range b.settings {
		list = append(list, b.subjects[s])
	}
	return list
}

// continuation is the tokens of a prompt's text: the given one's, or plain decoding's.
func (p *Pair) continuation(ctx context.Context, prompt Prompt, base Setting, plan Plan) ([]int32, error) {
	input, ids := p.encode(prompt.Text)
	if prompt.Then == "" {
		plan.Mode = Free
		x, err := newSubject(p, base, plan)
		if err != nil {
			return nil, err
		}
		r, err := x.run(ctx, input, ids, nil)
		if err != nil {
			return nil, err
		}
		return r.IDs, nil
	}
	if input == nil { // tokens may reach across the border: those of both texts together, where they begin alike
		all := p.Tokenizer.Encode(prompt.Text+prompt.Then, bpe.EncodeOptions{AddSpecial: true})
		if len(all) > len(ids) && slices.Equal(all[:len(ids)], ids) {
			return all[len(ids):], nil
		}
	}
	then := p.Tokenizer.Encode(prompt.Then, bpe.EncodeOptions{})
	if len(then) == 0 {
		return nil, fmt.Errorf("prompt %s: its text has no tokens", prompt.ID)
	}
	return then, nil
}

// ends are the tokens that end a text.
func (p *Pair) ends() (list []int32) {
	for id := range int32(p.Tokenizer.Size()) {
		if p.Tokenizer.IsEOG(id) {
			list = append(list, id)
		}
	}
	return list
}

package speculative

import (
	"context"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
)

// Reencode drafts with a model of any vocabulary, by way of text: what the target wrote is encoded in
// the draft's tokens, and what the draft adds is encoded in the target's (universal assisted
// decoding; Timor et al. 2025, and AssistedCandidateGeneratorDifferentTokenizers in Transformers).
// Both tokenizers begin anew a little before the new text, and the results are aligned with what is
// there, so that the caches live on.
//
// The draft is greedy at every temperature and its tokens are certain: under rules that weigh p
// against q, [Intersect] does better. A token is proposed when the one after it has begun, as more
// text might still change it; its confidence is the product of those of the draft's tokens that
// begin in it. Encoding allocates.
func Reencode(seq Sequence, t Tokenizers) Drafter {
	return &reencode{foreign: newForeign(seq, t)}
}

// Tokenizers are the vocabularies of a target and of a draft model of another vocabulary. Both are needed.
type Tokenizers struct {
	Target, Draft *bpe.Tokenizer
}

// patience is how many tokens of the draft may pass without completing one of the target.
const patience = 16

type reencode struct {
	foreign
	sampler *engine.Sampler
	trust   bool

	said  []byte // the draft's text
	parts []part // its tokens
}

// part is a token of the draft: where it begins in the draft's text, and its confidence.
type part struct {
	begin      int
	confidence float32
}

func (r *reencode) Start(ctx context.Context, s Setup) (err error) {
	r.trust = s.NeedsConfidence
	if err := r.start(ctx, s); err != nil {
		return err
	}
	r.sampler, err = engine.NewSampler(r.seq.Vocab(), engine.Sampling{})
	return err
}

func (r *reencode) Draft(ctx context.Context, text []int32, d *Draft) error {
	if !d.More() {
		return nil
	}
	if err := r.listen(text); err != nil {
		return err
	}
	r.said, r.parts = r.said[:0], r.parts[:0]
	var fresh []int32 // the draft in the target's tokens
	at := 0           // where its next token begins
	over, ended := false, false
	for d.More() {
		for begun := len(r.parts); !over && len(fresh) < d.Len()+2; {
			row, ok, err := r.next(ctx, d)
			if err != nil {
				return err
			}
			id := int32(-1)
			if ok {
				id = r.sampler.Pick(row, nil)
			}
			ended = r.draft.IsEOG(id)
			if over = r.draft.piece(id) == ""; over {
				break
			}
			p := part{len(r.said), 1}
			if r.trust {
				p.confidence = engine.Probability(row, id)
			}
			r.say(id)
			r.said, r.parts = append(r.said, r.draft.piece(id)...), append(r.parts, p)
			fresh = r.fresh()
			over = len(r.parts)-begun >= patience
		}
		n := d.Len()
		if len(fresh) < n || !prefix(d.Tokens, fresh) {
			return nil // more text changed what was proposed already
		}
		if len(fresh) == n {
			if ended {
				d.Add(r.target.EOS(), 1, nil)
			}
			return nil
		}
		end := at + len(r.target.piece(fresh[n]))
		d.Add(fresh[n], r.confidence(at, end), nil)
		at = end
	}
	return nil
}

// fresh is the draft's text in the target's tokens, as they follow those that are written: none if
// they cannot.
func (r *reencode) fresh() []int32 {
	end, from := len(r.text), r.window(len(r.ends))
	r.text = append(r.text, r.said...)
	defer func() { r.text = r.text[:end] }()
	window := r.target.spell(r.text[from:], from)
	for i := range window.ids {
		if window.begin(i) == end {
			return window.ids[i:]
		}
	}
	// The end of the text and the beginning of the draft would make one token.
	rest := r.target.spell(r.said, end)
	for i := range rest.ids {
		if rest.begin(i) == end {
			return rest.ids[i:]
		}
		if rest.ends[i] > end {
			break // it begins with a space that nobody said
		}
	}
	return nil
}

// confidence multiplies those of the draft's tokens that begin in bytes begin to end of its text.
func (r *reencode) confidence(begin, end int) float32 {
	product := float32(1)
	for _, p := range r.parts {
		if p.begin >= begin && p.begin < end {
			product *= p.confidence
		}
	}
	return product
}

func prefix(short, long []int32) bool {
	for i := range short {
		if short[i] != long[i] {
			return false
		}
	}
	return true
}

func (r *reencode) Observe(*Round) {}

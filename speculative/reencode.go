package speculative

import (
	"context"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/sampling"
)

// Reencode drafts with a model of any vocabulary by way of text: the sequence is encoded in the draft's tokens, and
// what the draft adds is encoded in the target's (universal assisted decoding; Timor et al. 2025, and
// AssistedCandidateGeneratorDifferentTokenizers in Transformers). Both tokenizers begin a little before the new text,
// and the results are aligned with what is there, so that the caches stay valid.
//
// The draft is greedy at every temperature and its tokens are certain: under verifiers that need probabilities
// [Intersect] is accepted more often. A token is proposed when the one after it has begun, because more text might
// change it; its confidence is the product of those of the draft's tokens that begin in it. Encoding allocates.
func Reencode(seq Sequence, t Tokenizers) Drafter {
	return &reencode{crossVocab: newCrossVocab(seq, t)}
}

// maxStalled is how many tokens of the draft may follow each other without completing a token of the target.
const maxStalled = 16

type reencode struct {
	crossVocab
	sampler         *sampling.Sampler
	needsConfidence bool

	draftText []byte // the draft's text
	parts     []part // its tokens
}

// part is a token of the draft: the byte at which it begins in the draft's text, and its confidence.
type part struct {
	begin      int
	confidence float32
}

func (r *reencode) Start(ctx context.Context, s Setup) (err error) {
	r.needsConfidence = s.NeedsConfidence
	if err := r.start(ctx, s); err != nil {
		return err
	}
	r.sampler, err = sampling.New(r.seq.Vocab(), engine.Sampling{})
	return err
}

func (r *reencode) Draft(ctx context.Context, sequence []int32, d *Draft) error {
	if !d.More() {
		return nil
	}
	if err := r.follow(sequence); err != nil {
		return err
	}
	r.draftText, r.parts = r.draftText[:0], r.parts[:0]
	var drafted []int32 // the draft in the target's tokens
	at := 0             // where its next token begins
	over, ended := false, false
	for d.More() {
		for begun := len(r.parts); !over && len(drafted) < d.Len()+2; {
			row, ok, err := r.next(ctx, d)
			if err != nil {
				return err
			}
			id := int32(-1)
			if ok {
				id = r.sampler.Pick(row, nil)
			}
			ended = r.draft.IsEOG(id)
			if over = r.draft.Piece(id) == ""; over {
				break
			}
			p := part{len(r.draftText), 1}
			if r.needsConfidence {
				p.confidence = sampling.Probability(row, id)
			}
			r.extend(id)
			r.draftText, r.parts = append(r.draftText, r.draft.Piece(id)...), append(r.parts, p)
			drafted = r.draftTokens()
			over = len(r.parts)-begun >= maxStalled
		}
		n := d.Len()
		if len(drafted) < n || !prefix(d.Tokens, drafted) {
			return nil // more text changed what was proposed already
		}
		if len(drafted) == n {
			if ended {
				d.Add(r.target.EOS(), 1, nil)
			}
			return nil
		}
		end := at + len(r.target.Piece(drafted[n]))
		d.Add(drafted[n], r.confidence(at, end), nil)
		at = end
	}
	return nil
}

// draftTokens is the draft's text in the target's tokens, as they follow those of the sequence; none if no token begins
// where the draft does.
func (r *reencode) draftTokens() []int32 {
	end, from := len(r.text), r.window(len(r.ends))
	r.text = append(r.text, r.draftText...)
	defer func() { r.text = r.text[:end] }()
	window := r.target.encodeAt(r.text[from:], from)
	for i := range window.ids {
		if window.begin(i) == end {
			return window.ids[i:]
		}
	}
	// The end of the text and the beginning of the draft would make one token.
	rest := r.target.encodeAt(r.draftText, end)
	for i := range rest.ids {
		if rest.begin(i) == end {
			return rest.ids[i:]
		}
		if rest.ends[i] > end {
			break // a token that begins before the draft
		}
	}
	return nil
}

// confidence is the product of those of the draft's tokens that begin in bytes begin to end of its text.
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

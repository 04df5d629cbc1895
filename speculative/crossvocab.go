package speculative

import (
	"context"
	"fmt"
	"slices"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
)

// pieces is a tokenizer, with what drafts across vocabularies ask of it.
type pieces struct{ *bpe.Tokenizer }

// encoding is a text, or a part of one, in the tokens of some vocabulary.
type encoding struct {
	ids  []int32
	from int   // byte of the text at which the first token begins: -1 if a space was put in front of the text
	ends []int // byte of the text at which each token ends
}

// encodeAt encodes the bytes that begin at byte from of a text. A vocabulary's space prefix stands in front of the
// whole text only, and not of one that begins with a space, which is the prefix of the vocabulary it was written in.
func (w pieces) encodeAt(text []byte, from int) encoding {
	begins := from == 0 && (len(text) == 0 || text[0] != ' ')
	s := encoding{ids: w.Encode(string(text), bpe.EncodeOptions{NoSpacePrefix: !begins})}
	size := 0
	for _, id := range s.ids {
		size += len(w.Piece(id))
	}
	s.from = from - max(0, size-len(text))
	at := s.from
	for _, id := range s.ids {
		at += len(w.Piece(id))
		s.ends = append(s.ends, at)
	}
	return s
}

// begin is the byte at which token i begins.
func (s *encoding) begin(i int) int {
	if i == 0 {
		return s.from
	}
	return s.ends[i-1]
}

// align compares an encoding with that of a window, a later part of the same text. It finds the longest run of tokens
// that both have, which is the longest diagonal in the matrix of equal tokens (as in Transformers'
// AssistedCandidateGeneratorDifferentTokenizers), and returns the number of tokens of each before the end of the run.
// Tokens are equal only at the same byte of the text, so that repetitions do not mislead. ok is false if none are.
func align(s, window *encoding) (i, j int, ok bool) {
	a := len(s.ids)
	for a > 0 && s.begin(a-1) >= window.from {
		a--
	}
	best, run := 0, 0
	for b := 0; a < len(s.ids) && b < len(window.ids); {
		switch x, y := s.begin(a), window.begin(b); {
		case x < y:
			a, run = a+1, 0
		case x > y:
			b, run = b+1, 0
		case s.ids[a] != window.ids[b]:
			a, b, run = a+1, b+1, 0
		default:
			a, b, run = a+1, b+1, run+1
			if run >= best {
				best, i, j = run, a, b
			}
		}
	}
	return i, j, best > 0
}

// lookbehind is how many of the target's tokens before the new ones are encoded again: Transformers' target_lookbehind.
const lookbehind = 10

// crossVocab is a draft model of another vocabulary. It sees the sequence as text in its own tokens, which follow the
// target's by encoding the end of the text again.
type crossVocab struct {
	seq           cachedSequence
	target, draft pieces

	text []byte   // of the target's tokens
	ends []int    // [target token] where it ends in text
	own  encoding // the text in the draft's tokens; its ids go on with the draft
}

func newCrossVocab(seq Sequence, t Tokenizers) crossVocab {
	return crossVocab{seq: cachedSequence{Sequence: seq}, target: pieces{t.Target}, draft: pieces{t.Draft}}
}

// start begins a text: it feeds the prompt without its last token.
func (f *crossVocab) start(ctx context.Context, s Setup) error {
	if absent(f.seq.Sequence) {
		return fmt.Errorf("draft model: %w: no sequence", ErrOptions)
	}
	if f.target.Tokenizer == nil || f.draft.Tokenizer == nil {
		return fmt.Errorf("draft model: %w: a draft in another vocabulary needs both tokenizers", engine.ErrVocabulary)
	}
	if n := f.draft.Size(); n > f.seq.Vocab() {
		return fmt.Errorf("draft model: %w: its tokenizer has %d tokens, its output %d", engine.ErrVocabulary, n,
			f.seq.Vocab())
	}
	if f.seq.encoderOf() != nil {
		return fmt.Errorf("draft model: %w: an encoder-decoder model of another vocabulary: its input would have to be "+
			"encoded anew, which is not implemented", ErrOptions)
	}
	if err := f.seq.open(); err != nil {
		return err
	}
	f.seq.enlist(s.Clock)
	f.text, f.ends, f.own = f.text[:0], f.ends[:0], encoding{}
	if s.Longest == 0 {
		return nil
	}
	if err := f.follow(s.Prompt); err != nil {
		return err
	}
	if n := len(f.own.ids); n > 0 && n <= f.seq.Context() {
		return f.seq.warm(ctx, f.own.ids[:n-1])
	}
	return nil
}

// follow encodes what was added to sequence since the last call.
func (f *crossVocab) follow(sequence []int32) error {
	f.own.ids = f.own.ids[:len(f.own.ends)] // drops the draft
	known := len(f.ends)
	for _, id := range sequence[known:] {
		f.text = append(f.text, f.target.Piece(id)...)
		f.ends = append(f.ends, len(f.text))
	}
	window := f.draft.encodeAt(f.text[f.window(known):], f.window(known))
	if i, j, ok := align(&f.own, &window); ok {
		f.own.ids = append(f.own.ids[:i], window.ids[j:]...)
		f.own.ends = append(f.own.ends[:i], window.ends[j:]...)
	} else {
		f.own = f.draft.encodeAt(f.text, 0)
		if f.draft.AddsBOS() {
			f.own.ids = slices.Insert(f.own.ids, 0, f.draft.BOS())
			f.own.ends = slices.Insert(f.own.ends, 0, f.own.from)
		}
	}
	if len(f.own.ids) == 0 {
		return f.seq.cut(0)
	}
	return f.seq.rewind(f.own.ids, 0)
}

// window is the byte at which the lookbehind of target token n begins.
func (f *crossVocab) window(n int) int {
	if n <= lookbehind {
		return 0
	}
	return f.ends[n-lookbehind-1]
}

// next returns the logits after the sequence and the draft so far; false where the model cannot continue.
func (f *crossVocab) next(ctx context.Context, d *Draft) ([]float32, bool, error) {
	n := len(f.own.ids)
	if n == 0 || n > f.seq.Context() {
		return nil, false, nil
	}
	if n-len(f.seq.tokens) > prefillChunk {
		if _, err := f.seq.prefill(ctx, f.own.ids[:n-1]); err != nil {
			return nil, false, err
		}
	}
	logits, err := f.seq.chain(ctx, f.own.ids[len(f.seq.tokens):], engine.Last)
	if err != nil {
		return nil, false, err
	}
	d.Passes++
	return logits.Row(0)[:f.draft.Size()], true, nil
}

// extend adds a token to the draft.
func (f *crossVocab) extend(id int32) { f.own.ids = append(f.own.ids, id) }

// Tokenizers are the vocabularies of a target and of a draft model of another vocabulary. Both are needed.
type Tokenizers struct {
	Target, Draft *bpe.Tokenizer
}

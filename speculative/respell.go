package speculative

import (
	"context"
	"fmt"
	"slices"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
)

// words is a tokenizer with the bytes of its tokens at hand.
type words struct {
	*bpe.Tokenizer
	pieces []string // [id]; "" where a token is no text
}

func newWords(t *bpe.Tokenizer) words {
	if t == nil {
		return words{}
	}
	w := words{t, make([]string, t.Size())}
	for id := range w.pieces {
		w.pieces[id] = string(t.Bytes(int32(id)))
	}
	return w
}

// piece is the bytes of a token, none for one outside the vocabulary.
func (w words) piece(id int32) string {
	if id < 0 || int(id) >= len(w.pieces) {
		return ""
	}
	return w.pieces[id]
}

// spelling is a text, or a piece of one, in some vocabulary's tokens.
type spelling struct {
	ids  []int32
	from int   // byte of the text at which the first token begins: -1 if a space was put in front of the text
	ends []int // byte of the text at which each token ends
}

// spell encodes the bytes that begin at byte from of a text. A vocabulary's space prefix stands in front of the whole
// text only, and not of one that begins with a space, which is the prefix of the vocabulary it was written in.
func (w words) spell(text []byte, from int) spelling {
	begins := from == 0 && (len(text) == 0 || text[0] != ' ')
	s := spelling{ids: w.Encode(string(text), bpe.EncodeOptions{NoSpacePrefix: !begins})}
	size := 0
	for _, id := range s.ids {
		size += len(w.piece(id))
	}
	s.from = from - max(0, size-len(text))
	at := s.from
	for _, id := range s.ids {
		at += len(w.piece(id))
		s.ends = append(s.ends, at)
	}
	return s
}

// begin is the byte at which token i begins.
func (s *spelling) begin(i int) int {
	if i == 0 {
		return s.from
	}
	return s.ends[i-1]
}

// align compares a spelling with that of a window, a later piece of the same text. It finds the
// longest run of tokens that both have, the longest diagonal in the matrix of equal tokens (as
// Transformers' AssistedCandidateGeneratorDifferentTokenizers does), and returns how many tokens of
// each precede the run's end. Equal tokens count where they lie at the same place of the text, so
// repetitions do not mislead. It returns false if there is no such token.
func align(s, window *spelling) (i, j int, ok bool) {
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

// lookbehind is how many of the target's tokens before the new ones are encoded again with them:
// Transformers' target_lookbehind.
const lookbehind = 10

// foreign is a draft model of another vocabulary. It reads the text in its own tokens, which are
// kept up with the target's by encoding the text's end anew.
type foreign struct {
	seq           tracked
	target, draft words

	text []byte   // what the target's tokens say
	ends []int    // [target token] where it ends in text
	own  spelling // the text in the draft's tokens; its ids go on with the draft
}

func newForeign(seq Sequence, t Tokenizers) foreign {
	return foreign{seq: tracked{Sequence: seq}, target: newWords(t.Target), draft: newWords(t.Draft)}
}

// start begins a text: it feeds the prompt but for its last token.
func (f *foreign) start(ctx context.Context, s Setup) error {
	if absent(f.seq.Sequence) {
		return fmt.Errorf("draft model: %w: no sequence", ErrOptions)
	}
	if f.target.Tokenizer == nil || f.draft.Tokenizer == nil {
		return fmt.Errorf("draft model: %w: a draft in another vocabulary needs both tokenizers", engine.ErrVocabulary)
	}
	if n := f.draft.Size(); n > f.seq.Vocab() {
		return fmt.Errorf("draft model: %w: its tokenizer has %d tokens, its output %d", engine.ErrVocabulary, n, f.seq.Vocab())
	}
	if err := f.seq.open(); err != nil {
		return err
	}
	f.text, f.ends, f.own = f.text[:0], f.ends[:0], spelling{}
	if s.Longest == 0 {
		return nil
	}
	if err := f.listen(s.Prompt); err != nil {
		return err
	}
	if n := len(f.own.ids); n > 0 && n <= f.seq.Context() {
		_, err := f.seq.prefill(ctx, f.own.ids[:n-1])
		return err
	}
	return nil
}

// listen takes in what the target wrote since the last call; text is all of it.
func (f *foreign) listen(text []int32) error {
	f.own.ids = f.own.ids[:len(f.own.ends)] // drops the draft
	known := len(f.ends)
	for _, id := range text[known:] {
		f.text = append(f.text, f.target.piece(id)...)
		f.ends = append(f.ends, len(f.text))
	}
	window := f.draft.spell(f.text[f.window(known):], f.window(known))
	if i, j, ok := align(&f.own, &window); ok {
		f.own.ids = append(f.own.ids[:i], window.ids[j:]...)
		f.own.ends = append(f.own.ends[:i], window.ends[j:]...)
	} else {
		f.own = f.draft.spell(f.text, 0)
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
func (f *foreign) window(n int) int {
	if n <= lookbehind {
		return 0
	}
	return f.ends[n-lookbehind-1]
}

// next returns the logits after the text and the draft so far; false where the model cannot go on.
func (f *foreign) next(ctx context.Context, d *Draft) ([]float32, bool, error) {
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

// say adds a token to the draft.
func (f *foreign) say(id int32) { f.own.ids = append(f.own.ids, id) }

package speculative

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	"github.com/specgo/spec/engine"
)

// prefillChunk is how many prompt tokens are fed in one pass: enough to use the weights well, few
// enough that scratch memory stays bounded and a cancelled context is noticed soon.
const prefillChunk = 256

// Sequence is one text inside a model: what was fed so far (the cache), and a way to feed more.
// [*engine.Session] is one.
//
// Eval feeds tokens after position Len and returns logits of the last want positions; they are
// valid until the next Eval. With parents nil the tokens are a chain and Len grows by their number.
// Otherwise parents[i] is the index of token i's parent among tokens, or -1 for the sequence's end;
// Len stays and the tokens are pending until Commit names the path that is kept. A failed Eval
// leaves everything as it was. MaxTree is the most tokens that an Eval with parents takes; a chain is
// bounded by the context only.
type Sequence interface {
	Len() int
	Context() int
	Vocab() int
	MaxTree() int
	Eval(ctx context.Context, tokens, parents []int32, want engine.Rows) (engine.Logits, error)
	Truncate(n int) error
	Commit(path []int32) error
}

// absent reports whether there is no sequence: nil, or a nil pointer such as that of a session that could not be made.
func absent(s Sequence) bool {
	if s == nil {
		return true
	}
	v := reflect.ValueOf(s)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

// tracked is a sequence together with the tokens that are in its cache, so that a new text can
// keep the part it shares with the old one.
type tracked struct {
	Sequence
	tokens []int32 // tokens[:Len()] are cached
}

// Tracked sequences may be used by others between two texts: then what they hold is asked for, or
// unknown and dropped.
func (t *tracked) open() error {
	if s, ok := t.Sequence.(Listed); ok {
		t.tokens = append(t.tokens[:0], s.Tokens()...)
	}
	if t.Len() != len(t.tokens) {
		t.tokens = t.tokens[:0]
		return t.Truncate(0)
	}
	return t.Truncate(t.Len()) // drops a tree that nobody committed
}

// rewind drops what the cache holds beyond its common prefix with text[:len(text)-1]; the last
// token is always left to be fed. The first known tokens need no comparison.
func (t *tracked) rewind(text []int32, known int) error {
	n := min(len(t.tokens), len(text)-1)
	i := min(known, n)
	for i < n && t.tokens[i] == text[i] {
		i++
	}
	return t.cut(i)
}

// cut keeps the first n positions.
func (t *tracked) cut(n int) error {
	if n >= len(t.tokens) {
		return nil
	}
	if err := t.Truncate(n); err != nil {
		return err
	}
	t.tokens = t.tokens[:n]
	return nil
}

// chain feeds tokens as a chain.
func (t *tracked) chain(ctx context.Context, tokens []int32, want engine.Rows) (engine.Logits, error) {
	logits, err := t.Eval(ctx, tokens, nil, want)
	if err == nil {
		t.tokens = append(t.tokens, tokens...)
	}
	return logits, err
}

// prefill feeds what the cache lacks of text, in bounded chunks and without logits, and returns
// the number of passes.
func (t *tracked) prefill(ctx context.Context, text []int32) (passes int, err error) {
	for len(t.tokens) < len(text) {
		chunk := text[len(t.tokens):]
		chunk = chunk[:min(len(chunk), prefillChunk)]
		if _, err := t.chain(ctx, chunk, engine.None); err != nil {
			return passes, err
		}
		passes++
	}
	return passes, nil
}

// reserve makes room for n tokens, so that later appends do not allocate.
func (t *tracked) reserve(n int) {
	if n > len(t.tokens) {
		t.tokens = slices.Grow(t.tokens, n-len(t.tokens))
	}
}

// compatible says why a drafting model cannot speak for the target, nil if it can. Vocabularies may
// differ by padding at their end.
func compatible(target, draft Sequence) error {
	t, ok1 := target.(Modeled)
	d, ok2 := draft.(Modeled)
	if !ok1 || !ok2 {
		return nil
	}
	tt, dt := t.Model().Tokenizer(), d.Model().Tokenizer()
	if tt == nil || dt == nil {
		return nil
	}
	if err := tt.Compatible(dt); err != nil {
		return fmt.Errorf("draft model: %w: %w (Reencode and Intersect draft across vocabularies)", engine.ErrVocabulary, err)
	}
	return nil
}

package spec

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/chat"
	"github.com/specgo/spec/internal/testkit"
)

// A text to embed may be texts and ids in a row, also inside each other: its vector is that of all of them.
func TestVectorsOfParts(t *testing.T) {
	m := newModel(t, Options{})
	ids := m.tok.Encode("func main", bpe.EncodeOptions{AddSpecial: true})
	n := len(ids)
	ids = append(ids, 70, 71)
	for _, p := range []Prompt{
		{Parts: []Prompt{{Text: "func main"}, {IDs: []int32{70, 71}}}},
		{Parts: []Prompt{{IDs: ids[:n]}, {Parts: []Prompt{{IDs: []int32{70}}, {IDs: []int32{71}}}}}},
	} {
		list, err := m.EmbedTokens(t.Context(), []Prompt{p})
		if err != nil || !slices.Equal(list[0], ids) {
			t.Errorf("%+v: %v, %d, want %d", p, err, list, ids)
		}
		task, err := m.Prepare(t.Context(), Request{Prompts: []Prompt{p}})
		if err != nil || !slices.Equal(task.Prompt(0), ids) {
			t.Errorf("%+v as a prompt: %v", p, err)
		}
	}
	gap := Request{Messages: []chat.Message{chat.User("x")}, Infill: &Infill{}}
	if _, err := m.Prepare(t.Context(), gap); err == nil {
		t.Error("a gap in a conversation is not filled, and no error")
	}
}

// The vectors of a long text's tokens are those of its beginning and of the rest, the last one is that of PoolLast, and
// their mean that of PoolMean, also where the text takes several passes.
func TestVectorsOfALongTextsTokens(t *testing.T) {
	m := newModel(t, Options{})
	ids := make([]int32, embedChunk+4)
	for i := range ids {
		ids[i] = int32(40 + i%60)
	}
	vector := func(pooling string, ids []int32) []float32 {
		t.Helper()
		v, err := m.EmbedIDs(t.Context(), [][]int32{ids}, EmbedOptions{Pooling: pooling, Norm: NormNone})
		if err != nil {
			t.Fatal(err)
		}
		return v[0]
	}
	size, each := m.VectorSize(), vector(PoolNone, ids)
	if len(each) != size*len(ids) {
		t.Fatalf("%d numbers for %d tokens of %d", len(each), len(ids), size)
	}
	if !slices.Equal(vector(PoolNone, ids[:9]), each[:9*size]) {
		t.Error("a beginning has other vectors")
	}
	for _, n := range []int{embedChunk, embedChunk + 1} {
		if !slices.Equal(vector(PoolLast, ids[:n]), each[(n-1)*size:n*size]) {
			t.Errorf("the last of %d tokens has another vector", n)
		}
	}
	for _, pooling := range []string{"median", "rank"} {
		if _, err := m.EmbedIDs(t.Context(), [][]int32{ids}, EmbedOptions{Pooling: pooling}); !errors.Is(err, ErrOptions) {
			t.Errorf("pooling %s: %v", pooling, err)
		}
	}
	e := (*RequestError)(nil)
	v, err := m.EmbedIDs(t.Context(), [][]int32{ids, {}}, EmbedOptions{})
	if !errors.As(err, &e) || e.Field != "input[1]" {
		t.Errorf("a text without tokens has the vector %v: %v", v, err)
	}
	for j, x := range vector(PoolMean, ids) {
		sum := 0.0
		for i := range ids {
			sum += float64(each[i*size+j])
		}
		if want := sum / float64(len(ids)); math.Abs(float64(x)-want) > 1e-6 {
			t.Fatalf("number %d of the mean is %v, expected %v", j, x, want)
		}
	}
}

// What is spelled like a control token is text where texts are embedded, by itself and among ids.
func TestControlTokensInTextsToEmbedAreText(t *testing.T) {
	m := newModel(t, Options{})
	mark := m.tok.Token(m.tok.EOS())
	list, err := m.EmbedTokens(t.Context(), []Prompt{{Text: mark}, {Parts: []Prompt{{Text: mark}, {IDs: []int32{70}}}}})
	if err != nil {
		t.Fatal(err)
	}
	if plain, parts := list[0], list[1]; slices.Contains(plain[1:], m.tok.EOS()) ||
		!slices.Equal(parts, append(slices.Clone(plain), 70)) {
		t.Errorf("%q: %d, in a row with 70 %d", mark, plain, parts)
	}
}

// ending is a context that ends when it has been looked at so often.
type ending struct {
	context.Context
	left int
}

func (e *ending) Err() error {
	if e.left--; e.left < 0 {
		return context.Canceled
	}
	return nil
}

// A context that ends has a long list of texts, or of documents, made tokens of no further.
func TestTextsBecomeTokensUntilTheContextEnds(t *testing.T) {
	m := newModel(t, Options{})
	ranks, err := Open(t.Context(), testkit.Shared(t, "families/encoders", "bert-rank.gguf"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer ranks.Close()
	texts := slices.Repeat([]string{"the cat"}, 100)
	for name, tokens := range map[string]func(context.Context) ([][]int32, error){
		"texts": func(ctx context.Context) ([][]int32, error) {
			return m.EmbedTokens(ctx, slices.Repeat([]Prompt{{Text: texts[0]}}, len(texts)))
		},
		"documents": func(ctx context.Context) ([][]int32, error) { return ranks.RankTokens(ctx, "cat", texts) },
		"documents of the engine": func(ctx context.Context) ([][]int32, error) {
			_, err := ranks.parts.Target.Rank(ctx, "cat", texts)
			return nil, err
		},
	} {
		ctx := &ending{t.Context(), 3}
		if list, err := tokens(ctx); !errors.Is(err, context.Canceled) || list != nil || ctx.left != -1 {
			t.Errorf("%s: %d of %d, looked at %d times more: %v", name, len(list), len(texts), -1-ctx.left, err)
		}
	}
}

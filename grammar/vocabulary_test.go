package grammar_test

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/grammar"
	"github.com/specgo/spec/internal/testkit"
)

// vocabulary is Llama 3's, of 128,256 tokens.
func vocabulary(t testing.TB) *bpe.Tokenizer {
	file := testkit.Shared(t, "tokenizers/llama-bpe.gguf")
	r, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	info, err := r.Stat()
	if err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(r, info.Size(), file)
	if err != nil {
		t.Fatal(err)
	}
	tok, err := engine.ReadTokenizer(f)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

const person = `{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer","minimum":0,"maximum":150},
	"address":{"type":"object","properties":{"street":{"type":"string"},"city":{"type":"string"},"country_code":{"enum":["DE","FR","LT"]}},"required":["street","city","country_code"],"additionalProperties":false},
	"tags":{"type":"array","items":{"type":"string","maxLength":20},"maxItems":5}},"required":["name","age","address","tags"],"additionalProperties":false}`

// TestVocabulary writes random texts with a real vocabulary: what the masks allow is valid JSON, and forced tokens
// are those of the text.
func TestVocabulary(t *testing.T) {
	tok := vocabulary(t)
	g, err := grammar.ParseSchema(nil, []byte(person), grammar.SchemaOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := g.Bind(nil, grammar.NewVocabulary(tok, grammar.VocabularyOptions{Encode: func(s string) []int32 {
		return tok.Encode(s, bpe.EncodeOptions{NoSpacePrefix: true})
	}}))
	if err != nil {
		t.Fatal(err)
	}
	first, err := c.Forced(c.Start())
	if err != nil || tok.Decode(first) != `{"name":"`[:len(tok.Decode(first))] || len(first) < 2 {
		t.Errorf("forced at the start: %q, %v", tok.Decode(first), err)
	}
	random := rand.New(rand.NewPCG(1, 1))
	texts, forced, written := 5, 0, 0
	if testkit.IsLong(t) {
		texts = 100
	}
	for range texts {
		state, ids := c.Start(), []int32(nil)
		for {
			more, err := c.Forced(state)
			if err != nil {
				t.Fatal(err)
			}
			for _, id := range more {
				var ok bool
				if state, ok, err = c.Next(state, id); !ok || err != nil {
					t.Fatalf("after %q: forced %q: %v, %v", tok.Decode(ids), tok.Bytes(id), ok, err)
				}
				ids = append(ids, id)
			}
			forced += len(more)
			mask, err := c.Mask(state)
			if err != nil {
				t.Fatal(err)
			}
			var allowed []int32
			for id := range int32(tok.Size()) {
				if mask[id/64]>>(id%64)&1 == 1 {
					allowed = append(allowed, id)
				}
			}
			id := allowed[random.IntN(len(allowed))]
			if quote, ok := tok.ID(`"`); ok && mask[quote/64]>>(quote%64)&1 == 1 && random.IntN(3) > 0 {
				id = quote // ends a string
			}
			state, _, _ = c.Next(state, id)
			if tok.IsEOG(id) {
				break
			}
			if ids = append(ids, id); len(ids) > 4000 {
				t.Fatal("no end")
			}
		}
		written += len(ids)
		var v struct {
			Name    string
			Age     int
			Address struct{ Country_code string }
			Tags    []string
		}
		var text []byte
		for _, id := range ids {
			text = append(text, tok.Bytes(id)...)
		}
		if err := json.Unmarshal(text, &v); err != nil || v.Age < 0 || v.Age > 150 || len(v.Tags) > 5 ||
			len(v.Address.Country_code) != 2 {
			t.Fatalf("%q: %v", text, err)
		}
	}
	t.Logf("%d of %d tokens forced", forced, written)
}

// TestLongVocabulary: twenty times the texts.
func TestLongVocabulary(t *testing.T) {
	testkit.Long(t)
	TestVocabulary(t)
}

// BenchmarkMask measures masks for a vocabulary of 128,256 tokens: kept ones, and those of states met for the first
// time.
func BenchmarkMask(b *testing.B) {
	tok := vocabulary(b)
	g, err := grammar.ParseSchema(nil, []byte(person), grammar.SchemaOptions{})
	if err != nil {
		b.Fatal(err)
	}
	c, err := g.Bind(nil, grammar.NewVocabulary(tok, grammar.VocabularyOptions{}))
	if err != nil {
		b.Fatal(err)
	}
	state := c.Start()
	for _, id := range tok.Encode(`{"name":"`, bpe.EncodeOptions{}) {
		state, _, _ = c.Next(state, id)
	}
	begin := time.Now()
	c.Mask(state)
	b.Logf("a string's first mask: %v", time.Since(begin))
	b.Run("kept", func(b *testing.B) {
		for b.Loop() {
			c.Mask(state)
		}
	})
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			c, _ := g.Bind(nil, grammar.NewVocabulary(tok, grammar.VocabularyOptions{}))
			state := c.Start()
			for _, id := range tok.Encode(`{"name":"`, bpe.EncodeOptions{}) {
				state, _, _ = c.Next(state, id)
			}
			b.StartTimer()
			c.Mask(state)
		}
	})
}

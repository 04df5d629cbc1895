package engine_test

import (
	"context"
	"fmt"
	"log"
	"slices"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/sampling"
)

// open loads the embedded target and begins a session.
func open(ctx context.Context) (*engine.Model, *engine.Session) {
	rt, err := engine.NewRuntime(engine.RuntimeOptions{})
	if err != nil {
		log.Fatal(err)
	}
	m, err := engine.Open(ctx, rt, "../testdata/go-target.q8_0.gguf", engine.Options{})
	if err != nil {
		log.Fatal(err)
	}
	s, err := m.NewSession(engine.SessionOptions{})
	if err != nil {
		log.Fatal(err)
	}
	return m, s
}

// Text from a prompt, one token at a time.
func Example() {
	ctx := context.Background()
	m, s := open(ctx)
	sampler, err := sampling.New(s.Vocab(), engine.Sampling{Temperature: 0})
	if err != nil {
		log.Fatal(err)
	}
	tokens := m.Tokenizer().Encode("func (r *Ring) Push(", bpe.EncodeOptions{AddSpecial: true})
	out := m.Tokenizer().NewDecoder()
	for range 10 {
		logits, err := s.Eval(ctx, tokens, nil, engine.Last)
		if err != nil {
			log.Fatal(err)
		}
		next := sampler.Pick(logits.Row(0), s.Tokens())
		if m.Tokenizer().IsEOG(next) {
			break
		}
		fmt.Print(out.Next(next))
		tokens = []int32{next}
	}
	// Output: c *uint64, n *uint64)
}

// A tree of guesses is checked in one pass; the path that proves right becomes text.
func ExampleSession_Commit() {
	ctx := context.Background()
	m, s := open(ctx)
	one := func(text string) int32 { return m.Tokenizer().Encode(text, bpe.EncodeOptions{})[0] }
	if _, err := s.Eval(ctx, m.Tokenizer().Encode("if err != nil", bpe.EncodeOptions{}), nil, engine.None); err != nil {
		log.Fatal(err)
	}
	// " {" follows the text; two guesses at what follows it hang from it in the tree.
	guesses := []int32{one(" {"), one("\n\t"), one("\n")}
	logits, err := s.Eval(ctx, guesses, []int32{-1, 0, 0}, engine.All)
	if err != nil {
		log.Fatal(err)
	}
	row, path := logits.Row(0), []int32{0}
	if best := int32(slices.Index(row, slices.Max(row))); best == guesses[1] {
		path = []int32{0, 1}
	} else if best == guesses[2] {
		path = []int32{0, 2}
	}
	if err := s.Commit(path); err != nil {
		log.Fatal(err)
	}
	text := m.Tokenizer().Decode(s.Tokens())
	fmt.Printf("%d of 3 tokens stay: %q\n", len(path), text)
	// Output: 2 of 3 tokens stay: "if err != nil {\n\t"
}

func ExampleSampler_Distribution() {
	s, err := sampling.New(4, engine.Sampling{Temperature: 1, TopK: 2})
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range s.Distribution([]float32{1, 0, 1, -1}, nil) {
		fmt.Printf("token %d: %.2f\n", p.ID, p.P)
	}
	// Output:
	// token 0: 0.50
	// token 2: 0.50
}

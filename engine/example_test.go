package engine_test

import (
	"context"
	"fmt"
	"log"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/sampling"
)

// Text from a prompt, one token at a time.
func Example() {
	ctx := context.Background()
	rt, err := engine.NewRuntime(engine.RuntimeOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	m, err := engine.Open(ctx, rt, "model.gguf", engine.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	s, err := m.NewSession(engine.SessionOptions{})
	if err != nil {
		log.Fatal(err)
	}
	sampler, err := sampling.New(s.Vocab(), engine.Sampling{Temperature: 0.8, TopP: 0.95, Seed: 1})
	if err != nil {
		log.Fatal(err)
	}
	tokens := m.Tokenizer().Encode("Once upon a time", bpe.EncodeOptions{AddSpecial: true})
	out := m.Tokenizer().NewDecoder()
	for range 100 {
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
}

// A tree of guesses is checked in one pass; the path that proves right becomes text.
func ExampleSession_Commit() {
	check := func(ctx context.Context, s *engine.Session) error {
		// 7 follows the text; 8 and 9 are two guesses at what follows 7.
		logits, err := s.Eval(ctx, []int32{7, 8, 9}, []int32{-1, 0, 0}, engine.All)
		if err != nil {
			return err
		}
		best := 0
		for id, x := range logits.Row(0) {
			if x > logits.Row(0)[best] {
				best = id
			}
		}
		switch best {
		case 8:
			return s.Commit([]int32{0, 1})
		case 9:
			return s.Commit([]int32{0, 2})
		}
		return s.Commit([]int32{0})
	}
	_ = check
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

package speculative_test

import (
	"context"
	"fmt"
	"log"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/speculative"
)

// Two models of one vocabulary, the small one drafting for the large one.
func Example() {
	ctx := context.Background()
	rt, err := engine.NewRuntime(engine.RuntimeOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	open := func(path string) *engine.Session {
		m, err := engine.Open(ctx, rt, path, engine.Options{})
		if err != nil {
			log.Fatal(err)
		}
		s, err := m.NewSession(engine.SessionOptions{})
		if err != nil {
			log.Fatal(err)
		}
		return s
	}
	target, draft := open("target.gguf"), open("draft.gguf")
	words := target.Model().Tokenizer()

	d := speculative.New(target, speculative.Model(draft), speculative.Options{Tokenizer: words, MaxTokens: 100})
	prompt := words.Encode("func (r *Ring) Push(", bpe.EncodeOptions{AddSpecial: true})
	for token, err := range d.Generate(ctx, prompt, engine.Sampling{Temperature: 0.8, Seed: 1}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(token.Text)
	}
	s := d.Stats()
	fmt.Printf("\n%d tokens in %d passes of the target\n", s.Generated, s.TargetPasses)
}

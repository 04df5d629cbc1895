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
	target, draft := open("../testdata/go-target.q8_0.gguf"), open("../testdata/go-draft.q8_0.gguf")
	words := target.Model().Tokenizer()

	d := speculative.New(target, speculative.Model(draft), speculative.Options{
		Tokenizer: words, MaxTokens: 16, Schedule: speculative.Constant(speculative.ConstantOptions{Length: 4}),
	})
	prompt := words.Encode("func (r *Ring) Push(", bpe.EncodeOptions{AddSpecial: true})
	for token, err := range d.Generate(ctx, prompt, engine.Sampling{Temperature: 0}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(token.Text)
	}
	s := d.Stats()
	fmt.Println("\nfewer passes of the target than tokens:", s.TargetPasses < s.Generated)
	// Output:
	// c *uint64, n *uint64) {
	// 	if n.
	// fewer passes of the target than tokens: true
}

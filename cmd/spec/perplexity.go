package main

import (
	"context"
	"fmt"
	"math"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
)

var perplexityCommand = command{
	name:  "perplexity",
	does:  "how well a model foretells a text",
	usage: "[-m FILE] -f TEXT [-c N]",
	about: `Prints exp of the mean negative log-likelihood over a text, as llama.cpp's tool of this name measures it:
the text is cut into chunks of N tokens, the rest dropped; the first token of each becomes the beginning-of-text
token; the second half of each chunk is scored.`,
	setup: func() ([]flag, func(context.Context, *program) error) {
		var (
			m     modelFlags
			text  promptFlags
			chunk = 512
			json  bool
		)
		flags := append(m.flags(), text.flags("the text")...)
		flags = append(flags,
			intFlag("-c, --ctx-size", &chunk, 4, math.MaxInt32, "tokens in a chunk (default 512)"),
			switchFlag("--json", &json, true, "write JSON"))
		return flags, func(ctx context.Context, p *program) error {
			s, err := text.read(p)
			if err != nil {
				return err
			}
			rt, err := m.runtime(p)
			if err != nil {
				return err
			}
			defer rt.Close()
			model, err := m.target(ctx, p, rt)
			if err != nil {
				return err
			}
			tok := model.Tokenizer()
			if tok == nil {
				return fmt.Errorf("%s: no tokenizer in the file", m.name())
			}
			ids := tok.Encode(s, bpe.EncodeOptions{AddSpecial: true})
			if len(ids) < chunk {
				return fmt.Errorf("the text has %d tokens, less than one chunk of %d (-c)", len(ids), chunk)
			}
			x, err := engine.Perplexity(ctx, model, ids, chunk)
			if err != nil {
				return err
			}
			if json {
				return printJSON(p.stdout, struct {
					Schema     int     `json:"schema"`
					Perplexity float64 `json:"perplexity"`
					Tokens     int     `json:"n_tokens"`
					Chunks     int     `json:"n_chunks"`
				}{1, x, len(ids), len(ids) / chunk})
			}
			_, err = fmt.Fprintf(p.stdout, "perplexity %.4f over %d chunks of %d tokens\n", x, len(ids)/chunk, chunk)
			return err
		}
	},
}

package main

import (
	"context"
	"fmt"
	"io"
	"math"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/cmd/spec/internal/plan"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/testdata"
)

// planPrompts are what a pair is tried on unless told otherwise.
var planPrompts = []string{
	"// Reverse returns s with its bytes in reverse order.\nfunc Reverse(s string) string {\n",
	"package main\n\nimport (\n\t\"fmt\"\n\t\"os\"\n)\n\nfunc main() {\n",
	"The first thing to know about lighthouses is that",
}

var planCommand = command{
	name:  "plan",
	does:  "foretells the speed-up of a pair",
	usage: "-m TARGET -md DRAFT [-p TEXT | -f FILE | --prompts FILE] [flags]",
	about: `Measures for a few seconds how long the draft model's steps and the target's passes over 1 to 17 tokens take,
and how often the two agree on your prompts, and foretells what each draft length brings: by the formula of
Leviathan et al., which takes acceptances for independent, and over the very texts, where they come in
clusters. Advises whether to use the draft model.`,
	setup: func() ([]flag, func(context.Context, *program) error) {
		var (
			m       modelFlags
			text    promptFlags
			draft   string
			prompts string
			seconds float32 = 6
			seed    int
			asJSON  bool
			c       = plan.Config{Tokens: 128, Sampling: newGenerate().sampling}
		)
		flags := append(m.flags(),
			textFlag("-md, --model-draft, --spec-draft-model", &draft, "FILE", "the draft model"))
		flags = append(flags, text.flags("a prompt")...)
		flags[len(flags)-3].help = "a prompt (default: three, built in)"
		flags = append(flags,
			textFlag("--prompts", &prompts, "FILE", `prompts, one {"prompt": TEXT} in a line`),
			intFlag("-n, --predict, --n-predict", &c.Tokens, 16, math.MaxInt32, "tokens to write after each prompt (default 128)"),
			intFlag("-c, --ctx-size", &c.Context, 0, math.MaxInt32, "context in tokens (default 0: the model's)"),
			choiceFlag("--kv", &c.KV, []string{"f16", "f32", "q8_0"}, "type of the KV cache (default f16)"),
			floatFlag("--temp, --temperature", &c.Sampling.Temperature, 0, 1e6, "temperature (default 0.8, as in generate; 0 is greedy)"),
			intFlag("-s, --seed", &seed, 0, math.MaxInt32, "seed of the sampling noise (default 0)"),
			floatFlag("--seconds", &seconds, 0.1, 3600, "time to measure (default 6)"),
			switchFlag("--json", &asJSON, true, "write JSON"))
		return flags, func(ctx context.Context, p *program) error {
			if m.model != "" && draft == "" {
				return usagef("a pair needs a draft model: -md FILE")
			}
			texts, err := planTexts(p, &text, prompts)
			if err != nil {
				return err
			}
			rt, err := m.runtime(p)
			if err != nil {
				return err
			}
			defer rt.Close()
			if c.Target, err = m.target(ctx, p, rt); err != nil {
				return err
			}
			if c.Draft, err = m.open(ctx, p, rt, draft, "draft", testdata.Draft()); err != nil {
				return err
			}
			tok := c.Target.Tokenizer()
			if tok == nil || c.Draft.Tokenizer() == nil {
				return fmt.Errorf("%s and -md need a tokenizer each, to show that it is the same", m.name())
			}
			if err := tok.Compatible(c.Draft.Tokenizer()); err != nil {
				return fmt.Errorf("-md %s cannot draft for %s: %w", draft, m.name(), err)
			}
			for _, s := range texts {
				ids := tok.Encode(s, bpe.EncodeOptions{AddSpecial: true})
				if len(ids) == 0 {
					return fmt.Errorf("a prompt is empty")
				}
				c.Prompts = append(c.Prompts, ids)
			}
			c.Sampling.Seed, c.Seconds = uint64(seed), float64(seconds)
			r, err := plan.Run(ctx, c)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(p.stdout, r)
			}
			return printPlan(p.stdout, c, r)
		}
	},
}

// planTexts are the prompts, wherever they come from.
func planTexts(p *program, text *promptFlags, file string) ([]string, error) {
	switch given := text.given || text.file != ""; {
	case given && file != "":
		return nil, usagef("--prompts excludes -p and -f")
	case given:
		s, err := text.read(p)
		return []string{s}, err
	case file != "":
		return readPrompts(file)
	}
	return planPrompts, nil
}

func printPlan(w io.Writer, c plan.Config, r plan.Prediction) error {
	const ms = 1e3
	size := func(m *engine.Model) string {
		return fmt.Sprintf("%.3g M weights, %.3g MB", float64(m.Parameters())/1e6, float64(m.Bytes())/1e6)
	}
	fmt.Fprintf(w, `target        %s, %.2f ms for a token
draft model   %s, %.2f ms for a token, %.1f times smaller
acceptance    %.2f of %d tokens, each after the true text

         a draft takes  its check   measured texts   formula at     if the acceptance were
length            (ms)       (ms)      would gain        %.2f     0.5    0.6    0.7    0.8    0.9
`, size(c.Target), ms*r.Plain, size(c.Draft), ms*r.Step, r.SizeRatio, r.Acceptance, r.Tokens, r.Acceptance)
	for _, l := range r.Lengths {
		if k := l.Length; k > 8 && k%2 == 1 {
			continue
		}
		mark := ' '
		if l.Length == r.Best {
			mark = '*'
		}
		fmt.Fprintf(w, "%6d%c    %8.2f   %8.2f        %5.2f x      %5.2f x", l.Length, mark, ms*l.Draft, ms*l.Verify, l.Speedup, l.Formula)
		for _, a := range []float64{0.5, 0.6, 0.7, 0.8, 0.9} {
			fmt.Fprintf(w, "  %5.2f", plan.Speedup(a, l.Length, r.Plain, l.Draft, l.Verify))
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "  auto                                  %5.2f x   (lengths by confidence)\n\n", r.Auto)
	if r.Warning != "" {
		fmt.Fprintf(w, "Warning: %s.\n", r.Warning)
	}
	_, err := fmt.Fprintf(w, "Advice: %s.\n", r.Advice)
	return err
}

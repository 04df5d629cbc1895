package main

import (
	"context"
	"io"
	"os"
	"strings"
	"time"

	"github.com/specgo/spec/cmd/spec/internal/demo"
	"github.com/specgo/spec/testdata"
)

var demoCommand = command{
	name:  "demo",
	does:  "the whole idea in ten seconds: the same text plain and speculated, side by side",
	usage: "[-p TEXT | -f FILE] [flags]",
	about: `Enlarges the embedded pair in memory to a size where reading the weights is what a token costs, writes the
same text plainly and with drafts, compares the two and prints how much faster the second was. The added
weights do nothing but cost, and it says so. It takes 0.9 GB of memory.

With this prompt and seed a pass brings 2.5 tokens in drafts of four; others bring 1.7 to 3 (try -p and -s).`,
	setup: func() ([]flag, func(context.Context, *program) error) {
		var (
			m      modelFlags
			prompt = promptFlags{text: demo.Prompt, given: true}
			tokens = 160
			seed   = 0
			color  = "auto"
			s      = newGenerate().sampling
		)
		s.Temperature = 0.7
		flags := append(prompt.flags("what to continue"),
			intFlag("-n, --predict, --n-predict", &tokens, 1, 900, "tokens to write (default 160)"),
			intFlag("-s, --seed", &seed, 0, 1<<31-1, "seed of the sampling noise (default 0)"),
			floatFlag("--temp, --temperature", &s.Temperature, 0, 1e6, "temperature (default 0.7)"),
			intFlag("-t, --threads", &m.threads, -1, 1024, "threads (default 0: the physical cores this process may use)"),
			choiceFlag("--color", &color, []string{"auto", "always", "never"}, "show accepted drafts in another colour (default auto: on a terminal)"))
		flags[0].help = "what to continue (default: the head of a Go function)"
		return flags, func(ctx context.Context, p *program) error {
			if prompt.file != "" && prompt.text == demo.Prompt {
				prompt.given = false
			}
			text, err := prompt.read(p)
			if err != nil {
				return err
			}
			rt, err := m.runtime(p)
			if err != nil {
				return err
			}
			defer rt.Close()
			s.Seed = uint64(seed)
			o := demo.Options{
				Target: section(testdata.Target()), Draft: section(testdata.Draft()),
				Large: demo.TargetShape, Small: demo.DraftShape,
				Prompt: text, Tokens: tokens, Sampling: s,
				Out: p.stdout, Color: (&generate{color: color}).colored(p),
			}
			if f, ok := p.stdout.(*os.File); ok && p.env("TERM") != "dumb" {
				o.Width, o.Height = demo.Size(f)
			}
			b := &bar{w: p.stderr, name: "enlarging", start: time.Now()}
			if isTerminal(p.stderr) {
				o.Progress = b.progress
				o.Ready = b.clear
			}
			_, err = demo.Run(ctx, rt, o)
			return err
		}
	},
}

func section(r *strings.Reader) *io.SectionReader { return io.NewSectionReader(r, 0, r.Size()) }

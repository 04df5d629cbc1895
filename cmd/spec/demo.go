package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/specgo/spec/cmd/spec/internal/demo"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/internal/terminal"
	"github.com/specgo/spec/testdata"
)

var demoCommand = command{
	name:  "demo",
	does:  "the whole idea in ten seconds: the same text plain and with drafts, side by side",
	usage: "[-p TEXT | -f FILE] [flags]",
	about: `Enlarges the embedded pair in memory to a size at which reading the weights dominates the time of a token, generates the same text without and with drafts, compares the two and prints the measured speedup. The added weights only cost time, and the demo says so. It takes 0.9 GB of memory.

The draft model and a lookup draft. The pair also has a draft head (generate --drafter eagle): it brings more tokens in a pass than the draft model, but each of its steps reads the large output matrix, and no run was clearly faster than this.

With the default prompt and seed, a verification pass yields 2.5 tokens from drafts of four; other prompts and seeds yield 1.7 to 3 (try -p and -s).`,
	new: func() job { return newDemonstration() },
}

// demonstration is the command's options.
type demonstration struct {
	modelFlags
	prompt   promptFlags
	tokens   int
	seed     int
	color    string
	sampling engine.Sampling
}

func newDemonstration() *demonstration {
	d := &demonstration{tokens: 160, color: colorAuto, sampling: newGenerate().sampling}
	d.sampling.Temperature = 0.7
	return d
}

func (d *demonstration) flags() []group {
	return []group{
		{"model", []flag{threadsRow(&d.threads)}},
		{"prompt", d.prompt.rows("what to continue", "the head of a Go function")},
		{"sampling", []flag{lengthRow(&d.tokens, 1, 900, "tokens to generate", "160"), noiseRow(&d.seed, "0"),
			temperatureRow(&d.sampling.Temperature, "0.7")}},
		{"output", []flag{colorRow(&d.color)}},
	}
}

func (d *demonstration) check() error { return d.prompt.check() }

func (d *demonstration) run(ctx context.Context, p *program) error {
	text := demo.Prompt
	if d.prompt.given || d.prompt.file != "" {
		source, err := d.prompt.open(ctx, p)
		if err != nil {
			return err
		}
		const limit = 1 << 20 // bytes: more than the pair's context can hold
		if text, err = source.read(ctx, limit); errors.Is(err, errTooLong) {
			return fmt.Errorf("the prompt has more than %d bytes", limit)
		} else if err != nil {
			return err
		}
	}
	rt, err := d.runtime(p)
	if err != nil {
		return err
	}
	defer rt.Close()
	sampling := d.sampling
	sampling.Seed = uint64(d.seed)
	o := demo.Options{
		Target: section(testdata.Target()), Draft: section(testdata.Draft()),
		Large: demo.TargetShape, Small: demo.DraftShape,
		Prompt: text, Tokens: d.tokens, Sampling: sampling,
		Out: p.stdout, Color: colored(d.color, p), Terminal: terminal.Is(p.stdout),
	}
	if f, ok := p.stdout.(*os.File); ok && p.env("TERM") != "dumb" {
		o.Width, o.Height = terminal.Size(f)
	}
	if bar := terminal.NewBar(p.stderr, "enlarging"); bar != nil {
		o.Progress, o.Ready = bar.Progress, bar.Clear
		defer bar.Clear()
	}
	_, err = demo.Run(ctx, rt, o)
	return err
}

func section(r *strings.Reader) *io.SectionReader { return io.NewSectionReader(r, 0, r.Size()) }

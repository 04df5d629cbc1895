// Package demo shows speculative decoding at work in some ten seconds: the same text, generated
// without and with drafts, side by side on a terminal.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/synth"
	"github.com/specgo/spec/internal/terminal"
	"github.com/specgo/spec/speculative"
)

// Shapes that the embedded pair is enlarged to: a target that no cache holds, so that reading its
// weights is what a token costs, and a draft model of a fiftieth of that.
var (
	TargetShape = synth.Shape{HiddenSize: 2048, Layers: 12, Heads: 32, KVHeads: 8, FeedForward: 8192}
	DraftShape  = synth.Shape{HiddenSize: 384, Layers: 6, Heads: 6, FeedForward: 1536}
)

// Prompt is what the demonstration continues unless told otherwise.
const Prompt = "// WriteFile writes data to the named file, creating it if necessary.\nfunc WriteFile(name string, " +
	"data []byte, perm FileMode) error {\n"

// Options of [Run].
type Options struct {
	Target, Draft *io.SectionReader // GGUF files of the small pair
	Small, Large  synth.Shape       // what the draft model and the target are enlarged to; of no width: not at all

	Prompt   string
	Tokens   int
	Sampling engine.Sampling
	Length   int // tokens of a draft; 0: as many as are measured to be fastest

	Out           io.Writer
	Width, Height int  // of the terminal that Out is, in characters; 0: unknown
	Terminal      bool // Out is one: control characters are escaped
	Color         bool // show accepted drafts in another color

	Progress func(done, total int64) // of making the weights; may be nil
	Ready    func()                  // the weights are made; may be nil
}

// Result is what was measured. Rates are over the time from the first pass after the prompt.
type Result struct {
	Plain, Speculated speculative.Stats
	Ratio             float64
}

// ErrDiffers is a broken promise: the two texts are not the same.
var ErrDiffers = errors.New("the two texts differ, which must never happen")

// Run enlarges the pair, writes both texts and compares them.
func Run(ctx context.Context, rt *engine.Runtime, o Options) (Result, error) {
	begin := time.Now()
	target, err := enlarge(ctx, rt, o.Target, o.Large, engine.Options{Name: "embedded target", Progress: o.Progress})
	if err != nil {
		return Result{}, err
	}
	defer target.Close()
	draft, err := enlarge(ctx, rt, o.Draft, o.Small, engine.Options{Name: "embedded draft", Progress: o.Progress})
	if err != nil {
		return Result{}, err
	}
	defer draft.Close()
	if o.Ready != nil {
		o.Ready()
	}
	width := o.Width
	if width == 0 {
		width = terminal.DefaultWidth
	}
	io.WriteString(o.Out, terminal.Wrap(fmt.Sprintf(
		"A small model that writes Go, enlarged in memory to %d million weights (%.2f GB, in %.1f s), so that reading them "+
			"takes most of the time, as in a real model of that size. The added weights only cost time: the text is the small "+
			"model's. A draft model of %d million weights, enlarged likewise, proposes tokens, and the large one verifies "+
			"them all in one pass. Temperature %g, seed %d.",
		target.Parameters()/1e6, float64(target.Bytes())/1e9, time.Since(begin).Seconds(), draft.Parameters()/1e6,
		o.Sampling.Temperature, o.Sampling.Seed), min(width, 100))+"\n")

	tok := target.Tokenizer()
	prompt := tok.Encode(o.Prompt, bpe.EncodeOptions{AddSpecial: true})
	if len(prompt) == 0 {
		return Result{}, errors.New("the prompt is empty")
	}
	var page show = &scroll{out: o.Out, color: o.Color, terminal: o.Terminal}
	if o.Width >= narrow && o.Height >= short {
		page = newScreen(o.Out, o.Width, o.Height, o.Color)
	}
	write := func(name string, drafter speculative.Drafter, costs speculative.PassCosts) (
		[]int32, speculative.Stats, error) {
		s, err := target.NewSession(engine.SessionOptions{})
		if err != nil {
			return nil, speculative.Stats{}, err
		}
		defer s.Close()
		schedule := speculative.Auto(speculative.AutoOptions{Costs: costs})
		if o.Length > 0 {
			schedule = speculative.Constant(speculative.ConstantOptions{Length: o.Length})
		}
		decoder := speculative.New(s, drafter, speculative.Options{
			Schedule: schedule, Verifier: speculative.Match(), Tokenizer: tok, MaxTokens: o.Tokens,
		})
		page.begin(name, o.Prompt)
		var ids []int32
		for t, err := range decoder.Generate(ctx, prompt, o.Sampling) {
			if err != nil {
				page.end(decoder.Stats())
				return nil, speculative.Stats{}, err
			}
			ids = append(ids, t.ID)
			page.token(t.Text, t.Drafted, len(ids))
		}
		page.end(decoder.Stats())
		return ids, decoder.Stats(), nil
	}
	var r Result
	want, stats, err := write("plain", nil, speculative.PassCosts{})
	if err != nil {
		return r, err
	}
	r.Plain = stats
	d, err := draft.NewSession(engine.SessionOptions{})
	if err != nil {
		return r, err
	}
	defer d.Close()
	begin = time.Now()
	costs, err := speculative.EstimateCosts(ctx, target, engine.SessionOptions{})
	if err != nil {
		return r, err
	}
	estimating := time.Since(begin).Seconds()
	got, stats, err := write("speculative", speculative.Tree(d, speculative.TreeOptions{}), costs)
	if err != nil {
		return r, err
	}
	r.Speculated = stats
	r.Speculated.Total += estimating // is part of what speculation takes
	r.Speculated.Other += estimating
	r.Ratio = writing(r.Plain) / writing(r.Speculated)
	if !slices.Equal(got, want) {
		return r, ErrDiffers
	}
	fmt.Fprintf(o.Out, `
The same text, token for token: %d tokens, of which %d were drafted and accepted%s.
plain        %6.2f s  %6.1f tokens/s  %4d passes of the large model
speculative  %6.2f s  %6.1f tokens/s  %4d passes, measured speedup %.2fx
`,
		len(got), r.Speculated.Accepted, map[bool]string{true: " (green)"}[o.Color],
		writing(r.Plain), rate(r.Plain), r.Plain.TargetPasses,
		writing(r.Speculated), rate(r.Speculated), r.Speculated.TargetPasses, r.Ratio)
	return r, nil
}

// enlarge opens a small model at a larger size.
func enlarge(ctx context.Context, rt *engine.Runtime, small *io.SectionReader, shape synth.Shape, how engine.Options) (
	*engine.Model, error) {
	if shape.HiddenSize == 0 {
		return engine.New(ctx, rt, small, small.Size(), how)
	}
	f, err := gguf.Open(small, small.Size(), how.Name)
	if err != nil {
		return nil, err
	}
	large, err := synth.Enlarge(f, shape)
	if err != nil {
		return nil, err
	}
	return engine.New(ctx, rt, large, large.Size(), how)
}

// writing is the time after the prompt was read.
func writing(s speculative.Stats) float64 { return s.Total - s.Prefill }

func rate(s speculative.Stats) float64 {
	if t := writing(s); t > 0 {
		return float64(s.Generated) / t
	}
	return 0
}

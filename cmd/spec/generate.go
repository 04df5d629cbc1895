package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	library "github.com/specgo/spec"
	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/cmd/spec/internal/output"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/internal/results"
	"github.com/specgo/spec/internal/terminal"
	"github.com/specgo/spec/speculative"
)

var generateCommand = command{
	name:  "generate",
	does:  "continue a prompt, streamed",
	usage: "[-m FILE [-md FILE]] [-p TEXT | -f FILE] [flags]",
	about: `Writes the text that follows the prompt to standard output, and one line of figures to standard error. Without -m the embedded pair writes Go.

The estimated speedup in that line compares with plain decoding at the time that passes without drafts took, or else the shortest pass. It is left out below 64 tokens, and where those times vary more than the speedup is.`,
	new: func() job { return newGenerate() },
}

// generate is the command's options.
type generate struct {
	modelFlags
	prompt      promptFlags
	cache       kvFlags
	context     int
	stateBytes  int64
	noCache     bool
	promptCache promptCache
	promptUse

	predict   int
	stop      []string
	ignoreEOS bool
	breakers  []string // of DRY; nil: the usual ones
	sampling  engine.Sampling
	seed      int64

	grammarFlags
	speculation
	chatFlags

	json, logprobs bool
	trace          bool
	traceFile      string
	receipt        string
	color          string
}

// promptUse is how the prompt is read, and whether it is shown.
type promptUse struct {
	parseSpecial             bool // the spelling of a control token is that token
	displayPrompt, noDisplay bool
}

// newGenerate holds llama.cpp's defaults.
func newGenerate() *generate {
	return &generate{
		predict:   -1,
		seed:      -1,
		color:     colorAuto,
		sampling:  library.UsualSampling(),
		chatFlags: chatFlags{reasoning: reasoningAuto},
	}
}

// mostBias is the greatest that a logit may be changed by.
const mostBias = 1e6

// readBias reads llama.cpp's "15043+1".
func readBias(s *engine.Sampling, v string) error {
	at := strings.IndexAny(v, "+-")
	if at <= 0 {
		return errors.New("not a token id and a signed number")
	}
	id, err := strconv.ParseInt(v[:at], 10, 32)
	if err != nil {
		return fmt.Errorf("%s is not a token id", shown(v[:at]))
	}
	x, err := strconv.ParseFloat(v[at:], 32)
	switch {
	case err != nil || math.IsNaN(x) || math.IsInf(x, 1):
		return fmt.Errorf("%s is not a number to add", shown(v[at:]))
	case math.IsInf(x, -1):
		s.Banned = append(s.Banned, int32(id))
		return nil
	case math.Abs(x) > mostBias:
		return fmt.Errorf("not between %v and %v", -mostBias, mostBias)
	}
	if s.LogitBias == nil {
		s.LogitBias = map[int32]float32{}
	}
	s.LogitBias[int32(id)] = float32(x)
	return nil
}

func (g *generate) setTrace(file string) error {
	g.trace, g.traceFile = true, file
	return nil
}

func (g *generate) check() error {
	if err := g.prompt.check(); err != nil {
		return err
	}
	if _, err := g.cache.kvType(); err != nil {
		return err
	}
	if g.logprobs && !g.json {
		return usagef("--logprobs needs --json")
	}
	if err := g.checkGrammar(); err != nil {
		return err
	}
	if err := g.chatFlags.check(g); err != nil {
		return err
	}
	if names := g.given(); g.receipt != "" && len(names) > 0 {
		return usagef("--receipt does not cover %s: a receipt names everything that the text depends on, and no grammar yet",
			names[0])
	}
	if err := g.checkReceipt(); err != nil {
		return err
	}
	if err := g.promptCache.check(g); err != nil {
		return err
	}
	typed := g.typedHistory
	if typed == noHistory {
		typed = ""
	}
	if err := output.Apart(output.Named{Flag: "--trace", Path: g.traceFile},
		output.Named{Flag: "--receipt", Path: g.receipt}, output.Named{Flag: "--learned", Path: g.learned},
		output.Named{Flag: "--prompt-cache", Path: g.promptCache.file},
		output.Named{Flag: "--history", Path: typed}); err != nil {
		return usagef("%v", err)
	}
	return g.speculation.check(g.model, g.sampling.MaxTemperature())
}

// resolve finds the file of the model, which shows whether a block of its own drafts.
func (g *generate) resolve(ctx context.Context, p *program) error {
	if err := g.modelFlags.resolve(ctx, p); err != nil {
		return err
	}
	return g.speculation.check(g.model, g.sampling.MaxTemperature())
}

func (g *generate) run(ctx context.Context, p *program) (err error) {
	if stdout, ok := p.stdout.(*os.File); ok && g.traceFile == "" && g.receipt == "" && closed(stdout) {
		return fmt.Errorf("standard output is closed (or %s, opened for reading too, which looks the same): "+
			"the text would be lost; > %s discards it", os.DevNull, os.DevNull)
	}
	if g.conversation {
		return g.converse(ctx, p)
	}
	source, err := g.prompt.open(ctx, p)
	if err != nil {
		return err
	}
	defer source.close()
	trace, err := g.openTrace(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, trace.close()) }()
	receipt, err := g.createReceipt(ctx, p)
	if err != nil {
		return err
	}
	if receipt != nil {
		defer receipt.Abort()
	}
	rt, err := g.runtime(p)
	if err != nil {
		return err
	}
	defer rt.Close()
	w, err := g.open(ctx, p, rt, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.end()) }()
	defer w.learned.abort()
	out := &writer{
		p: p, result: result{Schema: 1, TokenIDs: []int32{}, Seed: int64(w.request.Sampling.Seed), Stats: noStats()},
		json: g.json, color: colored(g.color, p), terminal: terminal.Is(p.stdout),
		sampled: w.request.Sampling.MaxTemperature() > 0,
	}
	w.request.Trace = func(r *speculative.Round) {
		out.estimate.round(r)
		if g.trace {
			out.fail(trace.round(out, w.Tokenizer(), r))
		}
	}
	var claim *speculative.Receipt
	if receipt != nil {
		w.request.Written = func(d *speculative.Decoder) (err error) {
			claim, err = d.Receipt(speculative.ReceiptOptions{KV: g.sessions.KV})
			return err
		}
	}
	w.request.Timings = g.json // of a text that cannot be written to its end
	text, task, err := g.prepare(ctx, w, source)
	if err != nil {
		return requestError(err)
	}
	defer task.Close()
	if g.json {
		if out.result.Origin, err = g.written(ctx, p, rt, w, text); err != nil {
			return err
		}
	}
	if name := spelledToken(w.Tokenizer(), text); name != "" && !g.parseSpecial {
		p.say(slog.LevelWarn, "spec generate: the prompt spells %s, which is read as plain text; --parse-special reads "+
			"such tokens as what they name", terminal.Line(name, 40))
	}
	w.prefill.prompt = len(task.Prompt(0))
	out.bar = w.prefill.shown()
	if w.Target().Encodes() {
		text += "\n" // the output does not continue it
	}
	if !g.json && !g.noDisplay && (g.displayPrompt || out.terminal) {
		if err := out.prompt(text); err != nil {
			return err
		}
	}
	if err := w.learned.keep(g.write(ctx, out, task)); err != nil {
		return err
	}
	return g.writeReceipt(ctx, p, receipt, claim)
}

// written is the origin of a text: what wrote it, and after what.
func (g *generate) written(ctx context.Context, p *program, rt *engine.Runtime, w *writing, prompt string) (
	*results.Origin, error) {
	files := g.drafts
	if d := w.Draft(); len(files) == 0 && g.model == "" && d != nil {
		files = []string{""}
		if d.Head() != nil {
			files = []string{embeddedHead}
		}
	}
	o, err := g.origin(ctx, p, rt, files...)
	o.Prompts = append(o.Prompts, results.TextFile(g.prompt.title(), []byte(prompt)))
	return &o, err
}

// noStats are those of no text.
func noStats() speculative.Stats { return speculative.Stats{DraftedAt: []int{}, AcceptedAt: []int{}} }

// prepare reads the prompt, and binds the request to the model and its grammar to the vocabulary.
func (g *generate) prepare(ctx context.Context, w *writing, source *source) (string, *library.Task, error) {
	limit := longestPrompt(w.Tokenizer(), w.Context())
	if w.Target().Encodes() { // the context is the decoder's
		limit = textLimit
	}
	text, err := source.read(ctx, limit)
	if errors.Is(err, errTooLong) && !w.Target().Encodes() {
		err = fmt.Errorf("the prompt is longer than a context of %d tokens can hold (-c)", w.Context())
	}
	if err != nil {
		return "", nil, err
	}
	w.request.Prompts = []library.Prompt{{Text: text, Plain: !g.parseSpecial}}
	task, err := w.Prepare(ctx, w.request)
	if err == nil {
		err = task.Compile(ctx)
	}
	return text, task, err
}

// spelledToken is a control token that a text spells in its first MiB; "" if there is none.
func spelledToken(tok *bpe.Tokenizer, text string) string {
	const most = 1 << 20
	ids := tok.Encode(text[:min(len(text), most)], bpe.EncodeOptions{ParseSpecial: true, NoSpacePrefix: true})
	if i := slices.IndexFunc(ids, tok.IsControl); i >= 0 {
		return tok.Token(ids[i])
	}
	return ""
}

// write streams what the task generates and ends with the figures. An error is all that is told, unless it is an
// interruption; with --json what was written before is printed in every case.
func (g *generate) write(ctx context.Context, out *writer, task *library.Task) error {
	start := time.Now()
	var failed error
	if g.predict != 0 || g.promptCache.file != "" { // which is to have the prompt
		for e, err := range task.Generate(ctx, library.Run{}) {
			if e.Stats != nil {
				out.result.Stats = *e.Stats
			}
			if g.predict == 0 { // the one token that comes with it is no part of the text
				e.Token = speculative.Token{ID: -1}
				out.result.Stats.Generated, out.result.Stats.End = 0, speculative.EndLength
			}
			if failed = errors.Join(requestError(err), out.token(e.Token, g.logprobs), out.failed); failed != nil {
				break
			}
		}
	}
	out.bar.Clear()
	if failed != nil && len(out.result.TokenIDs) == 0 {
		return failed
	}
	err := out.end()
	if err == nil && (failed == nil || isInterrupt(failed)) {
		out.figures(time.Since(start))
	}
	return errors.Join(failed, err)
}

// Values of --color.
const (
	colorAuto   = "auto"
	colorAlways = "on"
	colorNever  = "off"
)

// colored reports whether standard output gets colors.
func colored(choice string, p *program) bool {
	styles := terminal.Styles(p.stdout) // asked for in every case
	if choice == colorAuto {
		return styles && p.env("NO_COLOR") == "" && p.env("TERM") != "dumb"
	}
	return choice == colorAlways
}

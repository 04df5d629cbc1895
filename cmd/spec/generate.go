package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	library "github.com/specgo/spec"
	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/grammar"
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
	prompt        promptFlags
	cache         kvFlags
	context       int
	stateBytes    int64
	noCache       bool
	displayPrompt bool
	noDisplay     bool

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

// newGenerate holds llama.cpp's defaults.
func newGenerate() *generate {
	return &generate{
		predict:  -1,
		seed:     -1,
		color:    colorAuto,
		sampling: usualSampling(),
	}
}

// bias reads llama.cpp's "15043+1".
func (g *generate) bias(v string) error {
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
		g.sampling.Banned = append(g.sampling.Banned, int32(id))
		return nil
	}
	if g.sampling.LogitBias == nil {
		g.sampling.LogitBias = map[int32]float32{}
	}
	g.sampling.LogitBias[int32(id)] = float32(x)
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
	return g.speculation.check(g.model, g.sampling.Temperature)
}

// sessionOptions are those of the target's session.
func (g *generate) sessionOptions(m *engine.Model) (o engine.SessionOptions, err error) {
	o = engine.SessionOptions{NoCache: g.noCache, StateBytes: g.stateBytes}
	if o.KV, err = g.cache.kvType(); err != nil {
		return o, err
	}
	o.Context, err = contextSize(g.context, m, g.name())
	return o, err
}

// samplingOptions are how tokens are chosen of a vocabulary. Without a seed one is drawn.
func (g *generate) samplingOptions(tok *bpe.Tokenizer) (engine.Sampling, error) {
	s := g.sampling
	for _, ids := range [][]int32{slices.Sorted(maps.Keys(s.LogitBias)), s.Banned} {
		for _, id := range ids {
			if int(id) >= tok.Size() {
				return s, fmt.Errorf("-l %d: the vocabulary has the ids 0 to %d", id, tok.Size()-1)
			}
		}
	}
	if s.DRY.Multiplier > 0 {
		s.DRY.Breakers = library.Breakers(tok, g.breakers)
	}
	seed := g.seed
	if seed < 0 {
		seed = int64(rand.Uint32())
	}
	s.Seed = uint64(seed)
	if s.PenaltyLastN == 0 { // llama.cpp's way to switch penalties off
		s.RepeatPenalty, s.FrequencyPenalty, s.PresencePenalty = 1, 0, 0
	}
	if g.ignoreEOS {
		s.Banned = append(slices.Clone(s.Banned), endsOfText(tok)...)
	}
	return s, nil
}

// decoderOptions are the decoder's, but for the trace.
func (g *generate) decoderOptions(tok *bpe.Tokenizer, context int) speculative.Options {
	o, _ := g.chosen(g.model).Options(speculative.Parts{Costs: g.costs}) // the flags take no other names
	o.MaxTokens, o.Tokenizer, o.LogProbs = g.predict, tok, g.logprobs
	if g.predict > context { // no difference, and no sum that overflows
		o.MaxTokens = -1
	}
	for _, text := range g.stop {
		if !g.prompt.verbatim {
			text = unescape(text)
		}
		o.Stop = append(o.Stop, text)
	}
	if g.ignoreEOS {
		o.EOG = func(int32) bool { return false }
	}
	return o
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
	g.beside, g.contextHint = g.drafts, g.context
	g.kvHint, _ = g.cache.kvType() // checked
	g.logitRows = g.verifyRows(g.model)
	target, err := g.target(ctx, p, rt)
	if err != nil {
		return err
	}
	tok := target.Tokenizer()
	if tok == nil {
		return fmt.Errorf("%s: no tokenizer in the file, so no text can be generated", g.name())
	}
	how, err := g.sessionOptions(target)
	if err != nil {
		return err
	}
	sampling, err := g.samplingOptions(tok)
	if err != nil {
		return err
	}
	budget := grammar.NewBudget(ctx, grammar.Limits{})
	rules, err := g.grammarFlags.parse(budget)
	if err != nil {
		return err
	}
	if rules != nil {
		if sampling.Constraint, err = rules.Bind(budget, newVocabulary(tok)); err != nil {
			return err
		}
	}
	limit := longestPrompt(tok, how.Context)
	if target.Encodes() { // the context is the decoder's
		limit = textLimit
	}
	text, err := source.read(ctx, limit)
	if errors.Is(err, errTooLong) && !target.Encodes() {
		return fmt.Errorf("the prompt is longer than a context of %d tokens can hold (-c)", how.Context)
	} else if err != nil {
		return err
	}
	input, ids, err := promptOf(target, tok.Encode(text, bpe.EncodeOptions{AddSpecial: true}), g.name())
	if err != nil {
		return err
	}
	if len(ids) == 0 {
		return fmt.Errorf("the prompt is empty, and %s begins no text by itself", g.name())
	}
	if len(ids) > how.Context {
		return fmt.Errorf("the prompt has %d tokens, the context holds %d (-c)", len(ids), how.Context)
	}
	session, err := target.NewSession(how)
	if err != nil {
		return err
	}
	choice, drafter, err := g.newDrafter(ctx, p, rt, session)
	if err != nil {
		return err
	}
	learned, err := g.learn(ctx, target, choice)
	if err != nil {
		return err
	}
	defer learned.abort()
	out := &writer{
		p: p, result: result{Schema: 1, TokenIDs: []int32{}, Seed: int64(sampling.Seed)},
		json: g.json, color: colored(g.color, p), terminal: terminal.Is(p.stdout), sampled: sampling.Temperature > 0,
	}
	o := g.decoderOptions(tok, how.Context)
	o.Trace = func(r *speculative.Round) {
		out.estimate.round(r)
		if g.trace {
			out.fail(trace.round(out, tok, r))
		}
	}
	if input != nil {
		text += "\n" // the output does not continue it
	}
	if !g.json && !g.noDisplay && (g.displayPrompt || out.terminal) {
		if err := out.prompt(text); err != nil {
			return err
		}
	}
	sequence, bar := watch(p, session, len(ids))
	out.bar = bar
	o.Experience = learned.own
	decoder := speculative.New(sequence, drafter, o)
	if input != nil {
		decoder.Encode(input)
	}
	if err := learned.recall(decoder); err != nil {
		return err
	}
	if err := learned.keep(g.write(ctx, out, decoder, ids, sampling)); err != nil {
		return err
	}
	return g.writeReceipt(ctx, p, receipt, decoder)
}

// write streams what the decoder generates and ends with the figures. An error is all that is told,
// unless it is an interruption; with --json what was written before is printed in every case.
func (g *generate) write(ctx context.Context, out *writer, decoder *speculative.Decoder, ids []int32,
	s engine.Sampling) error {
	start := time.Now()
	var failed error
	if g.predict != 0 {
		for token, err := range decoder.Generate(ctx, ids, s) {
			if err != nil {
				failed = errors.Join(err, out.rest(token.Text)) // what was held back
				break
			}
			if failed = errors.Join(out.token(token, g.logprobs), out.failed); failed != nil {
				break
			}
		}
	}
	out.bar.Clear()
	if failed != nil && len(out.result.TokenIDs) == 0 {
		return failed
	}
	out.result.Stats = decoder.Stats()
	err := out.end()
	if err == nil && (failed == nil || isInterrupt(failed)) {
		out.figures(time.Since(start))
	}
	return errors.Join(failed, err)
}

// endsOfText lists the tokens that end a text.
func endsOfText(tok *bpe.Tokenizer) (ids []int32) {
	for id := range int32(tok.Size()) {
		if tok.IsEOG(id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// watchedPrompt is the length in tokens from which a prompt's prefill is shown on a terminal.
const watchedPrompt = 256

// watched is a session whose prefill moves a bar.
type watched struct {
	*engine.Session
	bar    *terminal.Bar
	prompt int // tokens
}

// watch shows the prefill of a long prompt on a terminal.
func watch(p *program, s *engine.Session, prompt int) (speculative.Sequence, *terminal.Bar) {
	bar := terminal.NewBar(p.stderr, "prompt")
	if bar == nil || prompt < watchedPrompt {
		return s, nil
	}
	return &watched{s, bar, prompt}, bar
}

func (w *watched) Eval(ctx context.Context, tokens, parents []int32, want engine.Rows) (engine.Logits, error) {
	out, err := w.Session.Eval(ctx, tokens, parents, want)
	if n := w.Len(); n < w.prompt-1 {
		w.bar.Set(int64(n), int64(w.prompt), "")
	} else {
		w.bar.Clear()
	}
	return out, err
}

// Values of --color.
const (
	colorAuto   = "auto"
	colorAlways = "on"
	colorNever  = "off"
)

// colored reports whether standard output gets colors.
func colored(choice string, p *program) bool {
	if choice == colorAuto {
		return terminal.Is(p.stdout) && p.env("NO_COLOR") == "" && p.env("TERM") != "dumb"
	}
	return choice == colorAlways
}

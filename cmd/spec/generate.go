package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/speculative"
)

var generateCommand = command{
	name:  "generate",
	does:  "text from a prompt, streamed",
	usage: "[-m FILE [-md FILE]] [-p TEXT | -f FILE] [flags]",
	about: `Writes the text that follows the prompt to standard output, and one line of figures to standard error.
Flags have the names and defaults that users of llama.cpp know. Without -m the embedded pair writes Go.`,
	setup: func() ([]flag, func(context.Context, *program) error) {
		g := newGenerate()
		return g.flags(), g.run
	},
}

// generate holds the command's flags.
type generate struct {
	modelFlags
	prompt        promptFlags
	context       int
	kv            string
	noCache       bool
	displayPrompt bool
	noDisplay     bool

	predict   int
	stop      []string
	ignoreEOS bool
	sampling  engine.Sampling
	seed      int64

	speculation

	json, logprobs, trace bool
	color                 string
}

// newGenerate holds llama.cpp's defaults.
func newGenerate() *generate {
	return &generate{
		predict:     -1,
		seed:        -1,
		color:       "auto",
		speculation: speculation{threshold: -1},
		sampling: engine.Sampling{
			Temperature: 0.8, TopK: 40, TopP: 0.95, MinP: 0.05,
			RepeatPenalty: 1, PenaltyLastN: 64,
		},
	}
}

func (g *generate) flags() []flag {
	s := &g.sampling
	list := g.modelFlags.flags()
	list = append(list,
		intFlag("-c, --ctx-size", &g.context, 0, math.MaxInt32, "context in tokens (default 0: the model's)"),
		choiceFlag("--kv", &g.kv, []string{"f16", "f32", "q8_0"}, "type of the KV cache (default f16)"),
		switchFlag("--no-kv-cache", &g.noCache, true, "compute the whole text anew for every token; the same text, slowly"))
	list = append(list, g.prompt.flags("the prompt")...)
	list = append(list,
		switchFlag("--display-prompt", &g.displayPrompt, true, "write the prompt before the text (default on a terminal)"),
		switchFlag("--no-display-prompt", &g.noDisplay, true, "do not"),
		intFlag("-n, --predict, --n-predict", &g.predict, -1, math.MaxInt32, "tokens to write (default -1: until end of text or context)"),
		listFlag("--stop, -r, --reverse-prompt", &g.stop, "TEXT", "end before this text; may be repeated"),
		switchFlag("--ignore-eos", &g.ignoreEOS, true, "never end the text by itself"),

		floatFlag("--temp, --temperature", &s.Temperature, 0, 1e6, "temperature (default 0.8; 0 is greedy)"),
		intFlag("--top-k", &s.TopK, 0, math.MaxInt32, "keep the likeliest N tokens (default 40; 0 is off)"),
		floatFlag("--top-p", &s.TopP, 0, 1, "keep the likeliest tokens of this total probability (default 0.95; 1 is off)"),
		floatFlag("--min-p", &s.MinP, 0, 1, "drop tokens this much less likely than the likeliest (default 0.05; 0 is off)"),
		floatFlag("--repeat-penalty", &s.RepeatPenalty, 1e-6, 1e6, "divide the logits of repeated tokens (default 1: off)"),
		floatFlag("--frequency-penalty", &s.FrequencyPenalty, -1e6, 1e6, "subtract this from a logit for each repetition (default 0)"),
		floatFlag("--presence-penalty", &s.PresencePenalty, -1e6, 1e6, "subtract this from a repeated token's logit once (default 0)"),
		intFlag("--repeat-last-n", &s.PenaltyLastN, -1, math.MaxInt32, "tokens that the penalties look back on (default 64; 0 is off, -1 the whole text)"),
		flag{names("-l, --logit-bias"), "ID(+|-)X", "add X to a token's logit, as in 15043-1; X may be inf; may be repeated", g.bias},
		flag{names("-s, --seed"), "N", "seed of the sampling noise; the same seed writes the same text (default -1: another each time)", g.setSeed},
	)
	list = append(list, g.speculation.flags()...)
	return append(list,
		switchFlag("--json", &g.json, true, "write one JSON object at the end: text, token_ids, stats"),
		switchFlag("--trace", &g.trace, true, "tell about each round on standard error: drafted, accepted, the model's own token, times"),
		switchFlag("--logprobs", &g.logprobs, true, "with --json: the log-probability of each token under the model"),
		choiceFlag("--color", &g.color, []string{"auto", "always", "never"}, "show accepted drafts in another colour (default auto: on a terminal)"),
	)
}

// bias reads llama.cpp's "15043+1".
func (g *generate) bias(v string) error {
	at := strings.IndexAny(v, "+-")
	if at <= 0 {
		return fmt.Errorf("not a token id and a signed number")
	}
	id, err := strconv.ParseInt(v[:at], 10, 32)
	if err != nil {
		return fmt.Errorf("%q is not a token id", v[:at])
	}
	x, err := strconv.ParseFloat(v[at:], 32)
	switch {
	case err != nil || math.IsNaN(x) || math.IsInf(x, 1):
		return fmt.Errorf("%q is not a number to add", v[at:])
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

func (g *generate) setSeed(v string) error {
	seed, err := strconv.ParseInt(v, 10, 64)
	if err != nil || seed < -1 {
		return fmt.Errorf("not a whole number from -1")
	}
	g.seed = seed
	return nil
}

func (g *generate) run(ctx context.Context, p *program) error {
	if err := g.speculation.check(g.model, g.sampling.Temperature); err != nil {
		return err
	}
	if g.logprobs && !g.json {
		return usagef("--logprobs needs --json")
	}
	text, err := g.prompt.read(p)
	if err != nil {
		return err
	}
	rt, err := g.runtime(p)
	if err != nil {
		return err
	}
	defer rt.Close()
	target, err := g.target(ctx, p, rt)
	if err != nil {
		return err
	}
	tok := target.Tokenizer()
	if tok == nil {
		return fmt.Errorf("%s: no tokenizer in the file, so there is no text to write", g.name())
	}
	ids := tok.Encode(text, bpe.EncodeOptions{AddSpecial: true})
	if len(ids) == 0 {
		return fmt.Errorf("the prompt is empty, and %s begins no text by itself", g.name())
	}
	session, err := target.NewSession(engine.SessionOptions{Context: g.context, KV: g.kv, NoCache: g.noCache})
	if err != nil {
		return err
	}
	if len(ids) > session.Context() {
		return fmt.Errorf("the prompt has %d tokens, the context holds %d (-c)", len(ids), session.Context())
	}
	drafter, err := g.newDrafter(ctx, p, rt, session)
	if err != nil {
		return err
	}
	if g.seed < 0 {
		g.seed = int64(rand.Uint32())
	}
	g.sampling.Seed = uint64(g.seed)
	if g.sampling.PenaltyLastN == 0 { // llama.cpp's way to switch penalties off
		g.sampling.RepeatPenalty, g.sampling.FrequencyPenalty, g.sampling.PresencePenalty = 1, 0, 0
	}
	o := speculative.Options{
		Schedule: g.newSchedule(g.model == ""), DraftMax: g.draftMax, DraftMin: g.draftMin,
		Verifier: g.newVerifier(), Tokenizer: tok, Stop: g.stop, MaxTokens: g.predict,
		LogProbs: g.logprobs,
	}
	if g.ignoreEOS {
		o.EOG = func(int32) bool { return false }
		g.sampling.Banned = append(g.sampling.Banned, endsOfText(tok)...)
	}
	out := &writer{p: p, result: result{Schema: 1, TokenIDs: []int32{}, Seed: g.seed}, json: g.json, color: g.colored(p), sampled: g.sampling.Temperature > 0}
	o.Trace = func(r *speculative.Round) {
		out.estimate.round(r)
		if g.trace {
			traceRound(p.stderr, tok, r)
		}
	}
	if !g.json && !g.noDisplay && (g.displayPrompt || isTerminal(p.stdout)) {
		out.prompt(text)
	}
	return g.write(ctx, out, speculative.New(session, drafter, o), ids)
}

// write streams what the decoder generates and ends with the figures, unless there is no text.
func (g *generate) write(ctx context.Context, out *writer, decoder *speculative.Decoder, ids []int32) error {
	start := time.Now()
	var failed error
	if g.predict != 0 {
		for token, err := range decoder.Generate(ctx, ids, g.sampling) {
			if err != nil {
				failed = errors.Join(err, out.rest(token.Text)) // what was held back
				break
			}
			if failed = out.token(token, g.logprobs); failed != nil {
				break
			}
		}
	}
	if failed != nil && len(out.result.TokenIDs) == 0 {
		return failed
	}
	out.result.Stats = decoder.Stats()
	if err := out.end(time.Since(start)); failed == nil {
		failed = err
	}
	return failed
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

func (g *generate) colored(p *program) bool {
	if g.color == "auto" {
		return isTerminal(p.stdout) && p.env("NO_COLOR") == "" && p.env("TERM") != "dumb"
	}
	return g.color == "always"
}

package main

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/internal/results"
	"github.com/specgo/spec/internal/terminal"
)

var perplexityCommand = command{
	name:  "perplexity",
	does:  "how well a model predicts a text",
	usage: "[-m FILE] -f TEXT [-c N] [--chunks N]",
	about: `Prints exp of the mean negative log-likelihood over a text, as llama.cpp's tool of this name measures it: the text is cut into chunks of N tokens, the rest dropped; the first token of each becomes the beginning-of-text token, if the vocabulary asks for one; the second half of each chunk is scored. Behind ± stands the standard error by how much the chunks differ, for llama.cpp's takes the tokens of a chunk to be independent. A text has at most 64 MiB.`,
	new:   func() job { return &perplexity{chunk: 512, chunks: -1, results: asText} },
}

// perplexityReport is what "spec perplexity --json" prints.
type perplexityReport struct {
	Schema int `json:"schema"`
	results.Origin
	perplexityRow `csv:"-"` // the only row
}

type perplexityRow struct {
	perplexityMean
	Tokens int    `json:"n_tokens"` // of the text
	Chunks int    `json:"n_chunks"` // that were scored
	Chunk  int    `json:"n_chunk_tokens"`
	KV     string `json:"kv"` // type of the KV cache
}

// perplexityMean is exp of the mean of the chunks' log-likelihoods, negated.
type perplexityMean struct {
	Perplexity float64  `json:"perplexity"`
	Error      *float64 `json:"standard_error"` // of it, by how much the chunks differ; null of one chunk
}

func (m perplexityMean) String() string {
	if m.Error == nil {
		return fmt.Sprintf("%.4f", m.Perplexity)
	}
	return fmt.Sprintf("%.4f ± %.4f", m.Perplexity, *m.Error)
}

// perplexity is the command's options.
type perplexity struct {
	modelFlags
	cache   kvFlags
	text    promptFlags
	chunk   int // tokens
	chunks  int // -1: all
	results resultFlags
}

func (x *perplexity) flags() []group {
	return []group{
		{"model", x.modelFlags.rows()},
		{"cache", x.cache.rows()},
		{"text", append(x.text.rows("the text", standardInput),
			intFlag("-c, --ctx-size", &x.chunk, 4, math.MaxInt32, "tokens in a chunk").or("512").unlike(),
			intFlag("--chunks", &x.chunks, -1, math.MaxInt32, "chunks to score").or("-1: all"))},
		{"output", x.results.rows("SPEC_PERPLEXITY_OUTPUT")},
		withoutEffect(ignoredRows(), ignoredModes(), ignoredByTexts()),
	}
}

func (x *perplexity) check() error {
	if x.chunks == 0 {
		return usagef("--chunks 0: nothing to score")
	}
	kv, err := x.cache.kvType()
	if err != nil {
		return err
	}
	x.sessions = engine.Sessions{Tokens: x.chunk, KV: cmp.Or(kv, engine.DefaultKV), Rows: engine.PerplexityRows}
	return x.text.check()
}

func (x *perplexity) run(ctx context.Context, p *program) error {
	source, err := x.text.open(ctx, p)
	if err != nil {
		return err
	}
	defer source.close()
	rt, err := x.runtime(p)
	if err != nil {
		return err
	}
	defer rt.Close()
	model, err := x.target(ctx, p, rt)
	if err != nil {
		return err
	}
	tok, err := tokenizerOf(model, x.name())
	if err != nil {
		return err
	}
	const why = "it predicts an output from an input, and perplexity is of a text by itself"
	if err := decoderOnly(model, x.name(), why); err != nil {
		return err
	}
	if _, err := contextSize(x.chunk, model, x.name()); err != nil {
		return err
	}
	text, err := readText(ctx, source)
	if err != nil {
		return err
	}
	ids := tok.Encode(text, bpe.EncodeOptions{AddSpecial: true})
	if len(ids) < x.chunk {
		return fmt.Errorf("the text has %d tokens, less than one chunk of %d (-c)", len(ids), x.chunk)
	}
	chunks := len(ids) / x.chunk
	if x.chunks > 0 {
		chunks = min(chunks, x.chunks)
	}
	report := perplexityReport{Schema: 1}
	if report.Origin, err = x.origin(ctx, p, rt); err != nil {
		return err
	}
	report.Prompts = append(report.Prompts, results.TextFile(x.text.title(), []byte(text)))
	result, err := x.measure(ctx, p, model, ids, chunks)
	if err != nil {
		return err
	}
	report.perplexityRow = perplexityRow{result, len(ids), chunks, x.chunk, x.sessions.KV}
	if done, err := writeForPrograms(&x.results, p.stdout, report, []perplexityRow{report.perplexityRow}); done {
		return err
	}
	_, err = fmt.Fprintf(p.stdout, "perplexity %v over %d chunks of %d tokens\n", result, chunks, x.chunk)
	return err
}

// measure scores the chunks one by one: each counts the same number of tokens, so that the mean of their
// log-likelihoods is that of all.
func (x *perplexity) measure(ctx context.Context, p *program, m *engine.Model, ids []int32, chunks int) (
	perplexityMean, error) {
	o := engine.SessionOptions{Context: x.chunk, KV: x.sessions.KV}
	bar := terminal.NewBar(p.stderr, "perplexity")
	defer bar.Clear()
	var lost losses
	for i := range chunks {
		y, err := engine.Perplexity(ctx, m, ids[i*x.chunk:(i+1)*x.chunk], o)
		if err != nil {
			return perplexityMean{}, err
		}
		lost.add(math.Log(y))
		bar.Set(int64(i+1), int64(chunks), fmt.Sprintf("%v so far", lost.perplexity()))
	}
	return lost.perplexity(), nil
}

// losses are the mean negative log-likelihoods of chunks.
type losses struct{ n, sum, squares float64 } // squares of the differences from the mean

// add adds a chunk's (Welford 1962).
func (l *losses) add(v float64) {
	off := v
	if l.n > 0 {
		off -= l.sum / l.n
	}
	l.n++
	l.sum += v
	l.squares += off * (v - l.sum/l.n)
}

// perplexity is that of the chunks. The error of an exp is the exp times the error of its exponent.
func (l *losses) perplexity() (m perplexityMean) {
	m.Perplexity = math.Exp(l.sum / l.n)
	if l.n > 1 {
		e := m.Perplexity * math.Sqrt(l.squares/(l.n-1)/l.n)
		m.Error = &e
	}
	return m
}

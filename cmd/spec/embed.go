package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	library "github.com/specgo/spec"
	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/gguf"
)

var embedCommand = command{
	name:  "embed",
	does:  "the embeddings of texts",
	usage: "[-m FILE] [-p TEXT | -f FILE] [--pooling mean|last|cls] [flags]",
	about: `Prints the embedding of each line of the text: the model's hidden states after the final norm, as one vector of length 1, one line of numbers for each text; --embd-output-format has other forms. The vectors are those of /v1/embeddings of "spec serve". Empty lines are left out. Texts of several lines need another --embd-separator. A text has at most 64 MiB in all.`,
	new:   func() job { return newEmbedding() },
}

// embedding is the command's options: those of a server that has to do with the target alone.
type embedding struct {
	serving
	text      promptFlags
	separator string
	vectorOptions
}

// vectorOptions say what is made of vectors, and how they are written.
type vectorOptions struct {
	dimensions int // 0: all
	normalize  int // by llama.cpp's numbers
	format     string
	json       bool
}

// embedParallel is how many texts are computed at once.
const embedParallel = 8

func newEmbedding() *embedding {
	e := &embedding{serving: *newServing(), separator: "\n",
		vectorOptions: vectorOptions{normalize: 2, format: vectorFormats[0]}}
	e.parallel, e.targetOnly, e.choice.Drafter = embedParallel, true, "none"
	return e
}

func (e *embedding) check() error {
	if len(e.models) > 1 {
		return usagef("-m %s: one model at a time", e.models[1].target)
	}
	if err := e.text.check(); err != nil {
		return err
	}
	return e.serving.check()
}

// embeddingReport is the output as JSON.
type embeddingReport struct {
	Schema     int         `json:"schema"`
	Model      string      `json:"model"`
	Pooling    string      `json:"pooling"`
	Size       int         `json:"n_embd"`
	Tokens     int         `json:"n_tokens"` // of all texts
	Embeddings [][]float32 `json:"embeddings"`
}

func (e *embedding) run(ctx context.Context, p *program) error {
	texts, err := e.texts(ctx, p)
	if err != nil {
		return err
	}
	if e.known, err = e.measure(texts); err != nil {
		return err
	}
	m, done, err := e.open(ctx, p)
	if err != nil {
		return err
	}
	defer done()
	report := embeddingReport{Schema: 1, Model: m.Name(), Pooling: m.Pooling(e.pooling)}
	w := bufio.NewWriter(p.stdout)
	vectorsOut := vectorWriter{w: w, format: e.format}
	for at := 0; at < len(texts); at += embedBatch {
		some := texts[at:min(at+embedBatch, len(texts))]
		vectors, tokens, err := e.embed(ctx, m, some, at)
		if err != nil {
			return err
		}
		report.Tokens += tokens
		report.Size = len(vectors[0])
		if e.json {
			report.Embeddings = append(report.Embeddings, vectors...)
			continue
		}
		for _, v := range vectors {
			if err := vectorsOut.write(v, len(texts)); err != nil {
				return err
			}
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	if e.json {
		return printJSON(p.stdout, report)
	}
	return nil
}

// open loads the model. done frees it.
func (e *embedding) open(ctx context.Context, p *program) (m *library.Model, done func(), err error) {
	models := modelFlags{threads: e.threads, weights: e.weights}
	rt, err := models.runtime(p)
	if err != nil {
		return nil, nil, err
	}
	entries, err := e.entries(p, rt)
	if err == nil {
		m, err = entries[0].Load(ctx)
	}
	if err != nil {
		rt.Close()
		return nil, nil, err
	}
	return m, func() { m.Close(); rt.Close() }, nil
}

// texts are those that the source has, without empty ones.
func (e *embedding) texts(ctx context.Context, p *program) ([]string, error) {
	source, err := e.text.open(ctx, p)
	if err != nil {
		return nil, err
	}
	defer source.close()
	all, err := readText(ctx, source)
	if err != nil {
		return nil, err
	}
	texts := slices.DeleteFunc(strings.Split(all, e.separator),
		func(s string) bool { return strings.Trim(s, "\r\n") == "" })
	if len(texts) == 0 {
		return nil, errors.New("there is no text")
	}
	return texts, nil
}

// measure counts the texts that are computed at once and the tokens of the longest, of which their memory is planned.
func (e *embedding) measure(texts []string) (load, error) {
	if len(e.models) == 0 {
		return load{}, nil // the embedded model has room for all
	}
	if err := regularFile(e.models[0].target); err != nil {
		return load{}, err
	}
	f, err := gguf.OpenFile(e.models[0].target)
	if err != nil {
		return load{}, err
	}
	defer f.Close()
	tok, err := engine.ReadTokenizer(f)
	if err != nil || tok == nil {
		return load{}, err
	}
	l := load{sequences: min(len(texts), embedParallel)}
	for _, text := range texts {
		l.tokens = max(l.tokens, len(tok.Encode(text, bpe.EncodeOptions{AddSpecial: true})))
	}
	return l, nil
}

// embedBatch is how many texts are embedded before their vectors are written.
const embedBatch = 256

// embed computes the vectors of texts. first is the number of those before them.
func (e *embedding) embed(ctx context.Context, m *library.Model, texts []string, first int) (
	vectors [][]float32, tokens int, err error) {
	prompts := make([]library.Prompt, len(texts))
	for i, text := range texts {
		prompts[i].Text = text
	}
	ids, err := m.EmbedTokens(prompts)
	if err != nil {
		return nil, 0, fmt.Errorf("texts %d to %d: %w", first, first+len(texts)-1, err)
	}
	for _, text := range ids {
		tokens += len(text)
	}
	norm, err := library.ParseNorm(e.normalize)
	if err != nil {
		return nil, 0, err
	}
	vectors, err = m.EmbedIDs(ctx, ids, library.EmbedOptions{Pooling: e.pooling, AtOnce: embedParallel,
		Dimensions: e.dimensions, Norm: norm})
	return vectors, tokens, err
}

// writeVector writes a line of numbers, each with as many digits as tell it from every other float32.
func writeVector(w *bufio.Writer, v []float32) error {
	for i, x := range v {
		if i > 0 {
			w.WriteByte(' ')
		}
		w.WriteString(strconv.FormatFloat(float64(x), 'g', -1, 32))
	}
	return w.WriteByte('\n')
}

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/serve"
)

var embedCommand = command{
	name:  "embed",
	does:  "the embeddings of texts",
	usage: "[-m FILE] [-p TEXT | -f FILE] [--pooling mean|last] [flags]",
	about: `Prints the embedding of each line of the text: the model's hidden states after the final norm, as one vector of length 1, one line of numbers for each text. The vectors are those of /v1/embeddings of "spec serve". Empty lines are left out. Texts of several lines need another --embd-separator. A text has at most 64 MiB in all.`,
	new:   func() job { return newEmbedding() },
}

// embedding is the command's options: those of a server that has to do with the target alone.
type embedding struct {
	serving
	text      promptFlags
	separator string
	json      bool
}

// embedParallel is how many texts are computed at once. A server gives one request half of its places.
const embedParallel = 8

func newEmbedding() *embedding {
	e := &embedding{serving: *newServing(), separator: "\n"}
	e.parallel, e.logFormat, e.page, e.targetOnly, e.choice.Drafter = 2*embedParallel, "off", false, true, "none"
	return e
}

// embedFlags are the flags of a server that the command has too.
var embedFlags = []string{"-m", "-hf", "-t", "--memory", "--weights", "-c", "--kv", "-ctk", "-ctv", "--state-memory",
	"--pooling"}

func (e *embedding) flags() []flag {
	list := append(e.text.flags("the texts"),
		valueFlag("--embd-separator", "TEXT", `what stands between two texts (default "\n")`, func(v string) error {
			if v == "" {
				return errors.New("an empty separator")
			}
			e.separator = unescape(v)
			return nil
		}),
		switchFlag("--json", &e.json, true, "write JSON"),
	)
	return append(list, slices.DeleteFunc(e.serving.flags(), func(f flag) bool {
		return slices.Contains(serverOnly, f.names[0]) || !f.ignored && !slices.Contains(embedFlags, f.names[0])
	})...)
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
	source, err := e.text.open(ctx, p)
	if err != nil {
		return err
	}
	defer source.close()
	all, err := readText(ctx, source)
	if err != nil {
		return err
	}
	texts := slices.DeleteFunc(strings.Split(all, e.separator),
		func(s string) bool { return strings.Trim(s, "\r\n") == "" })
	if len(texts) == 0 {
		return errors.New("there is no text")
	}
	if e.known, err = e.measure(texts); err != nil {
		return err
	}
	models := modelFlags{threads: e.threads, weights: e.weights}
	rt, err := models.runtime(p)
	if err != nil {
		return err
	}
	defer rt.Close()
	entries, err := e.entries(p, rt)
	if err != nil {
		return err
	}
	o, err := e.options(p, entries)
	if err != nil {
		return err
	}
	server, err := serve.New(o)
	if err != nil {
		return err
	}
	defer server.Close()
	if err := server.Load(ctx, ""); err != nil {
		return e.loadError(err)
	}
	report := embeddingReport{Schema: 1, Model: entries[0].Name, Pooling: e.pooling}
	w := bufio.NewWriter(p.stdout)
	for at := 0; at < len(texts); at += embedBatch {
		some := texts[at:min(at+embedBatch, len(texts))]
		vectors, tokens, err := e.embed(ctx, server, some, at)
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
			if err := writeVector(w, v); err != nil {
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

// embed asks the server for the vectors of texts. first is the number of those before them.
func (e *embedding) embed(ctx context.Context, server *serve.Server, texts []string, first int) (
	vectors [][]float32, tokens int, err error) {
	body, err := json.Marshal(map[string]any{"input": texts})
	if err != nil {
		return nil, 0, err
	}
	status, answer := server.Do(ctx, "/v1/embeddings", body)
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	var got struct {
		Data []struct {
			Embedding []float32 `json:"embedding"`
		} `json:"data"`
		Usage struct {
			Tokens int `json:"prompt_tokens"`
		} `json:"usage"`
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.Unmarshal(answer, &got); err != nil {
		return nil, 0, err
	}
	if status != 200 {
		return nil, 0, fmt.Errorf("texts %d to %d: %s", first, first+len(texts)-1, got.Error.Message)
	}
	for _, d := range got.Data {
		vectors = append(vectors, d.Embedding)
	}
	return vectors, got.Usage.Tokens, nil
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

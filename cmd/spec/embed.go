package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	library "github.com/specgo/spec"
	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/terminal"
)

var embedCommand = command{
	name:  "embed",
	does:  "the embeddings of texts",
	usage: "[-m FILE] [-p TEXT | -f FILE | -f FOLDER] [-o FILE [--resume]] [flags]",
	about: `Prints the embedding of each line of the text: the model's hidden states after the final norm, as one vector of length 1, one line of numbers for each text; --embd-output-format has other forms. The vectors are those of /v1/embeddings of "spec serve". Empty lines are left out. Texts of several lines need another --embd-separator. A text has at most 64 MiB in all.

-f FOLDER embeds every text file in the folder and in those inside it, in the order of their names, each as one text, or cut by --embd-separator. Links, what is not UTF-8 and names that begin with a dot are left out. --text-field NAME reads lines of JSON, and the texts from this field of each. Lines of JSON in the output (--embd-output-format jsonl) have the ids: those of the input's lines, or the names of a folder's files; in all forms vectors have the order of the texts.

-o FILE writes the vectors to a file, and a report to standard output. Work that was interrupted, by Ctrl-C, kill -9 or a power failure, goes on where it was when the same command is given again with --resume: whole vectors in the file are kept. The first and the last of them are computed again and must be the same bit for bit: otherwise the file is not of these texts, this model and these options, and stays as it is.`,
	new: func() job { return newEmbedding() },
}

// embedding is the command's options: those of a server that has to do with the target alone.
type embedding struct {
	serving
	text promptFlags
	cutting
	vectorOptions
	output string // file; "": standard output
	resume bool   // the file's vectors are kept
}

// vectorOptions say what is made of vectors, and how they are written.
type vectorOptions struct {
	dimensions int // 0: all
	format     string
	json       bool
}

// embedParallel is how many texts are computed at once.
const embedParallel = 8

func newEmbedding() *embedding {
	e := &embedding{serving: *newServing(),
		vectorOptions: vectorOptions{format: vectorFormats[0]}}
	e.parallel, e.targetOnly, e.choice.Drafter, e.sizedBy = embedParallel, true, "none", "-c"
	return e
}

// resolve finds the files of models: nothing listens here.
func (e *embedding) resolve(ctx context.Context, p *program) error {
	return e.servedModels.resolve(ctx, p)
}

func (e *embedding) check() error {
	if len(e.models) > 1 {
		return usagef("-m %s: one model at a time", e.models[1].target)
	}
	if e.output == "-" {
		e.output = ""
	}
	switch {
	case e.resume && e.output == "":
		return usagef("--resume: -o is missing, the file that holds vectors already")
	case e.json && e.output != "":
		return usagef("--json and -o exclude each other; --embd-output-format jsonl writes lines of JSON")
	}
	if err := cmp.Or(e.text.check(), e.cutting.check()); err != nil {
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

	IDs []json.RawMessage `json:"ids,omitempty"` // of the texts, if any has one
}

func (e *embedding) run(ctx context.Context, p *program) error {
	if e.output != "" && e.folder() {
		if inside, err := liesIn(e.text.file, e.output); err != nil || inside {
			return cmp.Or(err, fmt.Errorf("-o %s: inside the folder that is read: the next run would read it", e.output))
		}
	}
	texts, err := e.documents(ctx, p)
	if err != nil {
		return err
	}
	longest := 0
	if e.known, longest, err = e.measure(texts); err != nil {
		return err
	}
	if e.output == "" {
		return e.write(ctx, p, texts, longest, nil)
	}
	out, err := openVectorFile(e.output, e.text.file, e.resume)
	if err != nil {
		return err
	}
	return errors.Join(e.write(ctx, p, texts, longest, out), out.close())
}

// write embeds texts and writes their vectors, to standard output if out is nil. longest is the place of a text that
// has the most tokens.
func (e *embedding) write(ctx context.Context, p *program, texts []document, longest int, out *vectorFile) error {
	m, done, err := e.open(ctx, p)
	if err != nil {
		return err
	}
	defer done()
	if _, err := tokensOf(ctx, m, texts[longest:longest+1], 1); err != nil { // a mistake in the last text is found here
		return err
	}
	w, at, size := p.stdout, 0, m.VectorSize()
	if e.dimensions > 0 {
		size = min(size, e.dimensions) // more are refused below
	}
	if out != nil {
		if err := e.goOn(ctx, m, out, size, texts); err != nil {
			return err
		}
		w, at = out.file, out.kept
	}
	report := embeddingReport{Schema: 1, Model: m.Name(), Pooling: m.Pooling(e.pooling), Size: size}
	bar := e.bar(p)
	defer bar.Clear()
	begin, before := time.Now(), at
	for at < len(texts) && err == nil {
		var n int
		if n, err = e.writeSome(ctx, m, w, texts, at, &report); err == nil {
			at += n
			bar.Set(int64(at-before), int64(len(texts)-before), fmt.Sprintf("%d of %d texts, %.1f texts/s", at, len(texts),
				float64(at-before)/time.Since(begin).Seconds()))
		}
	}
	bar.Clear()
	switch {
	case err != nil:
		if out != nil && at > 0 {
			fmt.Fprintf(p.stderr, "spec embed: %d of %d texts embedded; the same command with --resume goes on\n", at,
				len(texts))
		}
	case out != nil:
		_, err = fmt.Fprintf(p.stdout, "%d texts, %d embedded before, %d now, of %d tokens, in %.1f s\n", len(texts), before,
			at-before, report.Tokens, time.Since(begin).Seconds())
	case e.json:
		err = printJSON(p.stdout, report)
	}
	return err
}

// bar is progress, of which there is none between vectors on a terminal.
func (e *embedding) bar(p *program) *terminal.Bar {
	if e.output == "" && !e.json && terminal.Is(p.stdout) {
		return nil
	}
	return terminal.NewBar(p.stderr, "embed")
}

// writeSome writes the vectors of the next texts, or adds them to the report, and says of how many.
func (e *embedding) writeSome(
	ctx context.Context, m *library.Model, w io.Writer, texts []document, at int, report *embeddingReport,
) (int, error) {
	ids, err := tokensOf(ctx, m, texts[at:min(at+embedBatch, len(texts))], embedBatchTokens)
	if err != nil {
		return 0, err
	}
	vectors, err := e.embed(ctx, m, ids)
	if err != nil {
		return 0, err
	}
	var b []byte
	if at == 0 && !e.json {
		b = vectorHeader(e.format, len(texts), report.Size)
	}
	for i, v := range vectors {
		report.Tokens += len(ids[i])
		if e.json {
			report.add(v, texts[at+i].id)
		} else if b, err = appendVector(b, e.format, v, texts[at+i].id); err != nil {
			return 0, err
		}
	}
	if !e.json {
		_, err = w.Write(b)
	}
	return len(vectors), err
}

// add adds a vector. Texts without an id have null where others have one.
func (r *embeddingReport) add(v []float32, id json.RawMessage) {
	if id != nil && r.IDs == nil {
		r.IDs = make([]json.RawMessage, len(r.Embeddings))
	}
	if r.Embeddings = append(r.Embeddings, v); r.IDs != nil {
		r.IDs = append(r.IDs, id)
	}
}

// goOn finds the vectors that an interrupted run has left in the file. The first and the last are computed again:
// vectors of equal texts are equal to the bit, so others are of another model, of other texts or options. Then the file
// stays as it is; else what follows the last whole vector goes.
func (e *embedding) goOn(ctx context.Context, m *library.Model, out *vectorFile, size int, texts []document) error {
	if err := out.resume(e.format, size, texts); err != nil {
		return err
	}
	type check struct {
		at int
		in span
	}
	checks := []check{{0, out.first}, {out.kept - 1, out.last}}
	if out.kept == 0 {
		checks = []check{{0, out.torn}}
	}
	for _, check := range checks {
		if check.in.length == 0 { // an empty file
			continue
		}
		text := texts[check.at : check.at+1]
		ids, err := tokensOf(ctx, m, text, 1)
		if err != nil {
			return err
		}
		vectors, err := e.embed(ctx, m, ids)
		if err != nil {
			return err
		}
		row, err := appendVector(nil, e.format, vectors[0], text[0].id)
		if err != nil {
			return err
		}
		if same, err := out.same(check.in, row); err != nil || !same {
			return cmp.Or(err, fmt.Errorf("%s: %w: vector %d is not that of %s with this model and these options", out.name,
				errVectors, check.at+1, text[0].place()))
		}
	}
	return out.cut()
}

// open loads the model. done frees it.
func (e *embedding) open(ctx context.Context, p *program) (m *library.Model, done func(), err error) {
	models := modelFlags{threads: e.threads, numa: e.numa, weights: e.weights, changes: e.changes}
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

// measure counts the texts that are computed at once and the tokens of the longest, of which their memory is planned;
// longest is its place.
func (e *embedding) measure(texts []document) (l load, longest int, err error) {
	if len(e.models) == 0 {
		return load{}, 0, nil // the embedded model has room for all
	}
	if err := modelFile(e.models[0].target, byFlag); err != nil {
		return load{}, 0, err
	}
	f, err := gguf.OpenFile(e.models[0].target)
	if err != nil {
		return load{}, 0, err
	}
	defer f.Close()
	tok, err := engine.ReadTokenizer(f)
	if err != nil || tok == nil {
		return load{}, 0, err
	}
	l = load{sequences: min(len(texts), embedParallel)}
	for i := range texts {
		if n := len(tok.Encode(texts[i].text, bpe.EncodeOptions{AddSpecial: true})); n > l.tokens {
			l.tokens, longest = n, i
		}
	}
	return l, longest, nil
}

// How many texts, and of how many tokens in all, are embedded before their vectors are written.
const (
	embedBatch       = 256
	embedBatchTokens = 16 << 10
)

// tokensOf are the token ids of the first texts: of all, or of those whose tokens reach most.
func tokensOf(ctx context.Context, m *library.Model, texts []document, most int) (list [][]int32, err error) {
	for i, n := 0, 0; i < len(texts) && n < most; i++ {
		ids, err := m.EmbedTokens(ctx, []library.Prompt{{Text: texts[i].text}})
		if wrong, ok := errors.AsType[*library.RequestError](err); ok {
			return nil, fmt.Errorf("%s: %s", texts[i].place(), wrong.Reason)
		} else if err != nil {
			return nil, err
		}
		list, n = append(list, ids[0]), n+len(ids[0])
	}
	return list, nil
}

// embed computes the vectors of texts.
func (e *embedding) embed(ctx context.Context, m *library.Model, texts [][]int32) ([][]float32, error) {
	norm, err := library.ParseNorm(e.norm)
	if err != nil {
		return nil, err
	}
	return m.EmbedIDs(ctx, texts, library.EmbedOptions{Pooling: e.pooling, AtOnce: embedParallel,
		Dimensions: e.dimensions, Norm: norm})
}

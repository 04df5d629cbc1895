package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/cmd/spec/internal/output"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/imatrix"
	"github.com/specgo/spec/internal/terminal"
)

var imatrixCommand = command{
	name:  "imatrix",
	does:  "what matters in a model's weights, for quantize",
	usage: "-m FILE -f TEXT -o OUT [-c N] [--chunks N]",
	about: `Reads a text with a model and writes its importance matrix: for every column of every matrix of the layers, and of every expert, the sum of the squares of what was multiplied with it, in llama.cpp's GGUF format. Quantizing weighs its errors by it.

The text is cut into chunks of N tokens, which do not see each other, the rest dropped; the first token of each becomes the beginning-of-text token, if the vocabulary asks for one. Take the model in its most precise form, and a text of the kind that it is for; some 100,000 tokens suffice. A text has at most 64 MiB.

With --in-file instead of -f, files of either of llama.cpp's formats (GGUF or the older imatrix.dat) become one: their sums and counts are added.`,
	new: func() job { return &importance{chunk: 512, chunks: -1} },
}

// importance is the command's options.
type importance struct {
	modelFlags
	text   promptFlags
	chunk  int // tokens
	from   int // chunks that are left out
	chunks int // -1: all
	parse  bool
	in     []string
	reads  string // the first flag given that is of reading a text with a model
	out    string
}

func (x *importance) flags() []group {
	return []group{
		{"model", x.reading(x.modelFlags.rows())},
		{"text", x.reading(append(x.text.rows("the text", standardInput),
			intFlag("-c, --ctx-size", &x.chunk, 4, math.MaxInt32, "tokens in a chunk").or("512").unlike(),
			intFlag("--chunk, --from-chunk", &x.from, 0, math.MaxInt32, "leave out the first N chunks of the text").or("0"),
			switchFlag("--parse-special", &x.parse, true, "read special tokens that are spelled out in the text as such"),
			intFlag("--chunks", &x.chunks, -1, math.MaxInt32, "chunks to read").or("-1: all")))},
		{"files", []flag{
			valueFlag("--in-file", "FILE", "an importance matrix; may be repeated: they are added, and no text is read",
				func(v string) error {
					x.in = append(x.in, v)
					return nil
				}),
			fileFlag("-o, --output", &x.out, "OUT", "the file to write"),
		}},
		withoutEffect(ignoredRows(), ignoredModes(), ignoredByTexts(), ignored("", "--no-ppl")),
	}
}

// reading are flags of reading a text with a model, which --in-file does not.
func (x *importance) reading(rows []flag) []flag {
	for i, f := range rows {
		rows[i] = f.when(func() bool { return x.in == nil })
		rows[i].set = func(v string) error {
			x.reads = cmp.Or(x.reads, f.names[0])
			return f.set(v)
		}
	}
	return rows
}

func (x *importance) check() error {
	switch {
	case x.chunks == 0:
		return usagef("--chunks 0: nothing to read")
	case x.out == "":
		return usagef("OUT is missing (-o): the file to write")
	case x.in != nil && x.reads != "":
		return usagef("--in-file and %s exclude each other: no text is read", x.reads)
	}
	return x.text.check()
}

func (x *importance) run(ctx context.Context, p *program) error {
	if x.out == "-" && terminal.Is(p.stdout) {
		return fmt.Errorf("-o -: standard output is a terminal, not a file or pipe")
	}
	if err := output.Distinct(x.out, slices.Concat(x.in, filesOf(x.model), []string{x.text.file})...); err != nil {
		return err
	}
	stdout, _ := p.stdout.(*os.File)
	file, err := output.Create(ctx, x.out, stdout) // before the work is done
	if err != nil {
		return err
	}
	defer file.Abort()
	result, err := x.added()
	if len(x.in) == 0 {
		result, err = x.measure(ctx, p)
	}
	if err != nil {
		return err
	}
	if err := result.Write(file); err != nil {
		return err
	}
	if err := file.Commit(); err != nil {
		return err
	}
	missing := 0
	for _, t := range result.Tensors {
		for _, n := range t.Counts {
			if n == 0 {
				missing++
			}
		}
	}
	line := fmt.Sprintf("%s: %d tensors, %d chunks of %d tokens", terminal.Line(x.out, 0), len(result.Tensors),
		result.Chunks, result.ChunkSize)
	if missing > 0 {
		line += fmt.Sprintf("; %d experts' matrices had no input: a longer text would reach more", missing)
	}
	_, err = fmt.Fprintln(p.stderr, line)
	return err
}

// added is the files of --in-file, added.
func (x *importance) added() (*imatrix.File, error) {
	var all imatrix.File
	for _, path := range x.in {
		f, err := imatrix.Open(path)
		if err != nil {
			return nil, err
		}
		if err := all.Add(f); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return &all, nil
}

// measure reads the text with the model.
func (x *importance) measure(ctx context.Context, p *program) (*imatrix.File, error) {
	source, err := x.text.open(ctx, p)
	if err != nil {
		return nil, err
	}
	defer source.close()
	rt, err := x.runtime(p)
	if err != nil {
		return nil, err
	}
	defer rt.Close()
	model, err := x.target(ctx, p, rt)
	if err != nil {
		return nil, err
	}
	tok, err := tokenizerOf(model, x.name())
	if err != nil {
		return nil, err
	}
	if _, err := contextSize(x.chunk, model, x.name()); err != nil {
		return nil, err
	}
	text, err := readText(ctx, source)
	if err != nil {
		return nil, err
	}
	ids := tok.Encode(text, bpe.EncodeOptions{AddSpecial: true, ParseSpecial: x.parse})
	if len(ids) < x.chunk {
		return nil, fmt.Errorf("the text has %d tokens, less than one chunk of %d (-c)", len(ids), x.chunk)
	}
	chunks := len(ids)/x.chunk - x.from
	if chunks <= 0 {
		return nil, fmt.Errorf("--chunk %d: the text has %d chunks", x.from, len(ids)/x.chunk)
	}
	ids = ids[x.from*x.chunk:]
	if x.chunks > 0 {
		chunks = min(chunks, x.chunks)
	}
	bar := terminal.NewBar(p.stderr, "imatrix")
	defer bar.Clear()
	tensors, err := engine.MeasureImportance(ctx, model, ids[:chunks*x.chunk], x.chunk,
		func(n int) { bar.Set(int64(n), int64(chunks), "") })
	if err != nil {
		return nil, err
	}
	result := &imatrix.File{Chunks: chunks, ChunkSize: x.chunk, Tensors: map[string]imatrix.Tensor{}}
	if source.name != "" {
		result.Datasets = []string{gguf.Printable(filepath.Base(source.name), 200)}
	}
	for name, t := range tensors {
		to := imatrix.Tensor{}
		for _, v := range t.Sums {
			to.Sums = append(to.Sums, float32(v))
		}
		for _, n := range t.Counts {
			to.Counts = append(to.Counts, float32(n))
		}
		result.Tensors[name] = to
	}
	return result, nil
}

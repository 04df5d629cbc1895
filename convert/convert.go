// Package convert makes GGUF files: of a model in Hugging Face's layout (config.json, safetensors or PyTorch files,
// tokenizer files) with [Open], of a draft head with [OpenHead], of an adapter with [OpenAdapter], and of another GGUF
// file, with its weights in other types, with [Quantize].
//
//	m, err := convert.Open("folder")
//	err = m.Write(ctx, file, convert.Options{})
//
//	mixture, err := convert.FindMixture("q4_k_m")
//	q, err := convert.Quantize(model, mixture)
//	err = q.Write(ctx, file, nil)
//
// Every member of config.json is either used, known not to change what the model computes, or refused by name; so is
// every tensor. Weights are read one tensor at a time. Nothing in a PyTorch file is executed.
package convert

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/tensor"
)

// Options of [Model.Write].
type Options struct {
	// of the matrices: f32, f16 (the default), bf16, q8_0 …; where rows are not whole blocks another stands in, as in
	// [Mixture.Type]; experts of MXFP4 stay what they are
	Type     string
	Progress func(done, total int64) // called with the elements written and all elements; may be nil
}

// Model is a model that can be converted.
type Model struct {
	Arch  string   // GGUF's architecture
	From  string   // the file of weights that was read, or the index of several
	Notes []string // what the GGUF file cannot say and leaves out

	weights *weights
	kvs     []gguf.KV
	targets []target
}

// rowOrder says which row of the source row i of the target is; nil: i.
type rowOrder func(i int) int

// behind leaves out the first rows of the source.
func behind(first int) rowOrder { return func(i int) int { return first + i } }

// partOfEach takes n rows of each of the source, which come first by that many rows.
func partOfEach(each, first, n int) rowOrder {
	return func(i int) int { return i/n*each + first + i%n }
}

// target is a tensor of the GGUF file.
type target struct {
	name       string
	from       string // the source's tensor
	rows, cols int    // rows 0: a vector of cols numbers
	order      rowOrder
	columns    rowOrder // the same of columns
	sourceRows int      // rows of the source where order leaves some out; 0: rows
	transpose  bool     // the source is [cols][rows]
	float      bool     // stays float32 whatever the type asked for is
	add        float32
	decay      bool      // x becomes -exp(x)
	exponent   bool      // x becomes exp(x)
	values     []float32 // computed: there is no source
	ids        []int64   // the same, a vector of token ids
	experts    []string  // the source's tensors of a matrix each, one behind the other, in the place of from

	// matrices that the rows are of, of one tensor of the source, 0: one; order is the same in each if the tensor has
	// three dimensions
	stack      int
	sourceCols int                    // columns of the source where place leaves some out; 0: cols
	place      func(row, col int) int // where the source has an element; nil: as order, columns and transpose say
	factor     func(row int) float32  // a row is multiplied by; nil: nothing

	codeScales string // the source is MXFP4: from has the weights' codes, this tensor the blocks' scales
}

// sources are the source's tensors that are read.
func (t target) sources() []string {
	switch {
	case t.values != nil || t.ids != nil:
		return nil
	case t.experts != nil:
		return t.experts
	case t.codeScales != "":
		return []string{t.from, t.codeScales}
	}
	return []string{t.from}
}

// Open reads everything but the weights of the model in dir. Errors name the file and the key or tensor.
func Open(dir string) (*Model, error) {
	if info, err := os.Stat(dir); err != nil {
		return nil, err
	} else if !info.IsDir() {
		return nil, fmt.Errorf("%s: not a folder: the one with config.json is needed", dir)
	}
	c, f, err := readFamily(dir)
	if err != nil {
		return nil, err
	}
	w, err := openWeights(dir)
	if err != nil {
		return nil, err
	}
	m, err := modelOf(dir, c, f, w)
	return m, w.closeOn(err)
}

// modelOf is the model of a folder whose config.json and lists of tensors are read.
func modelOf(dir string, c *config, f family, w *weights) (*Model, error) {
	b, err := build(dir, c, f, w)
	for _, read := range []func(dir string) error{b.pooling, b.prompts, b.limits, b.reranker} {
		if err == nil {
			err = read(dir)
		}
	}
	if err == nil {
		err = b.finish()
	}
	var words []gguf.KV
	if err == nil {
		words, err = readTokenizer(dir, b)
	}
	if err != nil {
		return nil, err
	}
	return &Model{Arch: b.arch, From: w.from, Notes: b.notes, weights: w, kvs: append(b.kvs, words...),
		targets: b.targets}, nil
}

// build collects the keys and tensors that config.json says.
func build(dir string, c *config, f family, w *weights) (*builder, error) {
	b := &builder{arch: f.arch, config: c, weights: w, used: map[string]bool{}}
	b.vocab = c.integer("vocab_size")
	b.kvs = []gguf.KV{{Key: "general.architecture", Value: f.arch}, {Key: "general.name", Value: nameOf(dir)}}
	b.size("vocab_size", b.vocab)
	if err := b.blockScales(); err != nil {
		return b, err
	}
	f.build(b)
	c.rest()
	return b, *c.err
}

// nameOf is the folder's name, of one in Hugging Face's cache the repository's.
func nameOf(dir string) string {
	if full, err := filepath.Abs(dir); err == nil {
		dir = full
	}
	if of := filepath.Dir(dir); filepath.Base(of) == "snapshots" { // models--OWNER--NAME/snapshots/COMMIT
		if repository, is := strings.CutPrefix(filepath.Base(filepath.Dir(of)), "models--"); is {
			if _, name, owned := strings.Cut(repository, "--"); owned {
				return name
			}
			return repository
		}
	}
	return filepath.Base(dir)
}

// Tensors is the number of tensors of the GGUF file.
func (m *Model) Tensors() int { return len(m.targets) }

// Parameters is the number of weights.
func (m *Model) Parameters() (n int64) {
	for _, t := range m.targets {
		n += t.elements()
	}
	return n
}

func (t target) elements() int64 {
	return int64(max(t.rows, 1)) * int64(t.cols) * int64(max(len(t.experts), 1))
}

// Close closes the source's files.
func (m *Model) Close() { m.weights.close() }

// builder collects the keys and tensors of a GGUF file.
type builder struct {
	arch    string
	config  *config
	weights *weights
	vocab   int
	kvs     []gguf.KV
	targets []target
	used    map[string]bool // tensors of the source
	notes   []string

	addBOS     bool     // a text begins with BOS unless the tokenizer's files say otherwise
	unigram    bool     // the tokenizer may be a unigram one
	encodes    bool     // an encoder: its tokenizer may be a unigram one or WordPiece
	tokenTypes int      // of an encoder; 0: it has none
	dense      int      // matrices behind pooling
	vectorSize int      // where these are allowed: of a vector, behind those that are there
	lowers     string   // the file by which texts are made lower case before the tokenizer; "": they are not
	plainWords bool     // vocab.json's words are those of GPT-2
	bare       bool     // the weights were saved without the head, under shorter names
	answers    *answers // of a reranker; nil: it is none
	drafted    *drafted // what a draft head is for; nil: it is none
}

// become makes the file one of another architecture, where a class has several, before its own keys are written.
func (b *builder) become(arch string) {
	for i, kv := range b.kvs {
		if kv.Key == "general.architecture" {
			b.kvs[i].Value = arch
		}
		if key, own := strings.CutPrefix(kv.Key, b.arch+"."); own {
			b.kvs[i].Key = arch + "." + key
		}
	}
	b.arch = arch
}

func (b *builder) note(format string, args ...any) {
	b.notes = append(b.notes, fmt.Sprintf(format, args...))
}

// set writes a key of the architecture; a later value replaces an earlier one.
func (b *builder) set(key string, v gguf.Value) {
	key = b.arch + "." + key
	b.kvs = slices.DeleteFunc(b.kvs, func(kv gguf.KV) bool { return kv.Key == key })
	b.kvs = append(b.kvs, gguf.KV{Key: key, Value: v})
}

func (b *builder) size(key string, n int)     { b.set(key, uint32(n)) }
func (b *builder) real(key string, x float64) { b.set(key, float32(x)) }

func (b *builder) add(t target) {
	b.skip(t.sources()...)
	b.targets = append(b.targets, t)
}

func (b *builder) matrix(name, from string, rows, cols int) {
	b.add(target{name: name, from: from, rows: rows, cols: cols})
}

// vector adds a vector of n float32 numbers; add is added to each.
func (b *builder) vector(name, from string, n int, add float32) {
	b.add(target{name: name, from: from, cols: n, float: true, add: add})
}

// values adds a vector that the source does not hold.
func (b *builder) values(name string, x []float32) {
	b.targets = append(b.targets, target{name: name, cols: len(x), float: true, values: x})
}

// linear adds a matrix and, where the source has one, its bias.
func (b *builder) linear(name, from string, rows, cols int, order rowOrder) {
	b.add(target{name: name + ".weight", from: from + ".weight", rows: rows, cols: cols, order: order})
	if _, ok := b.weights.tensors[from+".bias"]; ok {
		b.add(target{name: name + ".bias", from: from + ".bias", cols: rows, order: order, float: true})
	}
}

// tiedUnlessSaid are architectures whose models have one matrix for embedding and output unless config.json says two.
var tiedUnlessSaid = []string{"command-r", "cohere2", "falcon", "gemma", "gemma2", "gemma3", "gemma4",
	"gemma-embedding", "gpt2", "smollm3", "starcoder2"}

// head adds the output matrix, unless the embedding serves for it, or the model was saved without it.
func (b *builder) head(from string, width int) {
	c := b.config
	tied := c.boolOr("tie_word_embeddings", slices.Contains(tiedUnlessSaid, b.arch))
	if tied || !b.holds(from) && (!c.has("tie_word_embeddings") || b.bare) {
		b.skip(from)
		if !tied && b.bare {
			b.note("the weights have no output matrix: the file is for vectors, and what a model writes with it means nothing")
		}
		return
	}
	b.matrix("output.weight", from, b.vocab, width)
}

// skip names tensors that are used, or that hold no weights.
func (b *builder) skip(names ...string) {
	for _, n := range names {
		b.used[n] = true
	}
}

// finish checks the tensors against the source.
func (b *builder) finish() error {
	if b.config.err != nil && *b.config.err != nil {
		return *b.config.err
	}
	for _, t := range b.targets {
		check := b.check
		if t.codeScales != "" {
			check = b.checkMXFP4
		}
		for _, from := range t.sources() {
			if err := check(t, from); err != nil {
				return err
			}
		}
	}
	for _, name := range b.weights.names {
		if !b.used[name] && !b.weights.tensors[name].empty() {
			return fmt.Errorf("%s: tensor %s is not part of a %s model as it is known here",
				b.weights.tensors[name].file.Name(), gguf.Printable(name, 80), b.arch)
		}
	}
	return nil
}

// check checks a tensor of the source that t is made of.
func (b *builder) check(t target, from string) error {
	s, ok := b.weights.tensors[from]
	if !ok {
		return fmt.Errorf("%s: tensor %s is missing", filepath.Dir(b.config.file), from)
	}
	rows, cols := s.rowsCols()
	if t.stack > 0 {
		rows, cols = s.stacked(t.stack)
	}
	want := [2]int{max(t.rows, t.sourceRows, 1), t.cols}
	if t.place != nil {
		want = [2]int{t.sourceRows, t.sourceCols}
	}
	if t.transpose {
		want[0], want[1] = want[1], want[0]
	}
	if rows != want[0] || cols != want[1] {
		return fmt.Errorf("%s: tensor %s: shape %v, %v expected by config.json", s.file.Name(), from, s.shape, want)
	}
	if _, ok := elementBytes[s.dtype]; !ok {
		return fmt.Errorf("%s: tensor %s: elements of type %q are not supported", s.file.Name(), from, s.dtype)
	}
	if s.problem != "" {
		return fmt.Errorf("%s: tensor %s: %s", s.file.Name(), from, s.problem)
	}
	return nil
}

// Write writes the GGUF file. It holds at most one tensor of the source, one matrix of those with several, and the same
// in float32 in memory.
func (m *Model) Write(ctx context.Context, w io.Writer, o Options) error {
	if o.Type == "" {
		o.Type = "f16"
	}
	mixture, err := PureMixture(o.Type)
	if err != nil {
		return err
	}
	fileType := mixture.FileType
	if slices.ContainsFunc(m.targets, func(t target) bool { return t.codeScales != "" }) {
		fileType = alone[tensor.MXFP4]
	}
	kvs := append(slices.Clone(m.kvs),
		gguf.KV{Key: "general.file_type", Value: fileType},
		gguf.KV{Key: "general.quantization_version", Value: uint32(2)})
	done, total := int64(0), m.Parameters()
	var list []gguf.TensorSource
	for _, t := range m.targets {
		dims := []uint64{uint64(t.cols)}
		if t.rows > 0 {
			dims = append(dims, uint64(t.rows))
		}
		switch {
		case t.experts != nil:
			dims = append(dims, uint64(len(t.experts)))
		case t.stack > 0:
			dims = []uint64{uint64(t.cols), uint64(t.rows / t.stack), uint64(t.stack)}
		}
		as := gguf.F32
		switch {
		case t.ids != nil:
			as = gguf.I64
		case t.codeScales != "":
			as = gguf.MXFP4
		case !t.float:
			as = mixture.Type(ofMatrix(t.name), dims, Facts{})
		}
		list = append(list, gguf.TensorSource{Name: t.name, Type: as, Dims: dims, Write: func(w io.Writer) error {
			if err := m.write(ctx, w, t, as); err != nil {
				return err
			}
			if done += t.elements(); o.Progress != nil {
				o.Progress(done, total)
			}
			return nil
		}})
	}
	return gguf.Write(w, kvs, list)
}

// ofMatrix is the name of the matrix that a factor of an adapter is for, or of the tensor itself.
func ofMatrix(name string) string {
	return strings.TrimSuffix(strings.TrimSuffix(name, loraA), loraB)
}

// write writes a tensor, until ctx ends.
func (m *Model) write(ctx context.Context, w io.Writer, t target, as gguf.Type) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if t.ids != nil {
		return binary.Write(w, binary.LittleEndian, t.ids)
	}
	if t.codeScales != "" {
		return m.writeMXFP4(ctx, w, t)
	}
	to, err := tensor.ParseType(strings.ToLower(as.String()))
	if err != nil {
		return err
	}
	if t.values != nil {
		return t.rowsOf(ctx, w, t.values, to)
	}
	for _, from := range t.sources() {
		s := m.weights.tensors[from]
		one, n := t, 1
		if len(s.shape) == 3 && t.stack > 0 && s.strides == nil {
			n = t.stack
			one.rows /= n
		}
		for k := range n {
			part := s
			if n > 1 {
				part = s.matrix(k, n)
			}
			x, err := part.read()
			if err == nil {
				err = one.rowsOf(ctx, w, x, to)
			}
			if err != nil {
				return fmt.Errorf("from %s: %w", from, err)
			}
		}
	}
	return nil
}

// rowsOf writes the rows of a vector or matrix, until ctx ends.
func (t target) rowsOf(ctx context.Context, w io.Writer, x []float32, to tensor.Type) error {
	const often = 64 // rows between two looks at ctx
	rows, cols := max(t.rows, 1), t.cols
	if t.rows == 0 && t.order != nil { // a bias moves element by element
		rows, cols = t.cols, 1
	}
	row := make([]float32, cols)
	raw := make([]byte, to.RowBytes(cols))
	for r := range rows {
		if r%often == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		from := r
		if t.order != nil {
			from = t.order(r)
		}
		switch {
		case t.place != nil:
			for i := range row {
				row[i] = x[t.place(r, i)]
			}
		case t.transpose:
			for i := range row {
				row[i] = x[i*rows+r]
			}
		default:
			copy(row, x[from*cols:])
		}
		if t.columns != nil {
			for i := range row {
				row[i] = x[from*cols+t.columns(i)]
			}
		}
		if t.factor != nil {
			f := t.factor(r)
			for i := range row {
				row[i] *= f
			}
		}
		if t.decay || t.exponent {
			for i := range row {
				row[i] = float32(math.Exp(float64(row[i])))
				if t.decay {
					row[i] = -row[i]
				}
			}
		}
		if t.add != 0 {
			for i := range row {
				row[i] += t.add
			}
		}
		if err := tensor.Encode(to, raw, row); err != nil {
			return fmt.Errorf("row %d: %w", r, err)
		}
		if _, err := w.Write(raw); err != nil {
			return err
		}
	}
	return nil
}

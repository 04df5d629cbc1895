package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/specgo/spec/cmd/spec/internal/output"
	"github.com/specgo/spec/cmd/spec/internal/terminal"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/tensor"
)

// quantizations are the types that weights can be written in, with the number that the metadata
// key general.file_type gives to a file that is mostly of this type.
var quantizations = map[string]struct {
	typ      gguf.Type
	fileType uint32
}{
	"f32":  {gguf.F32, 0},
	"f16":  {gguf.F16, 1},
	"q4_0": {gguf.Q4_0, 2},
	"q8_0": {gguf.Q8_0, 7},
	"q4_k": {gguf.Q4_K, 14},
	"q6_k": {gguf.Q6_K, 18},
	"bf16": {gguf.BF16, 32},
}

var quantizeCommand = command{
	name:  "quantize",
	does:  "convert the weights of a GGUF file to another type",
	usage: "IN OUT TYPE, or -m IN -o OUT --type TYPE",
	about: `Writes IN again with its matrices in another type. Norms, biases and position embeddings stay in F32. Matrices whose rows are no multiple of 256 long become Q4_0 instead of Q4_K and Q8_0 instead of Q6_K; where they are no multiple of 32 either, they stay in F32 too.

OUT appears when it is whole; until then a file of that name stays as it is. An existing file keeps its permissions. OUT may be a device, a named pipe, or - for standard output.`,
	new: func() job { return &quantize{} },
}

// quantize is the command's options.
type quantize struct {
	in, out, typ string
	operands     []string
}

func (q *quantize) flags() []flag {
	return []flag{
		fileFlag("-m, --model", &q.in, "IN", "the file to read"),
		fileFlag("-o, --output", &q.out, "OUT", "the file to write"),
		choiceFlag("--type", &q.typ, engine.WeightNames(), "type of the weights in OUT"),
	}
}

func (q *quantize) operand(v string) error {
	if len(q.operands) == 3 {
		return errors.New("one argument too many: IN OUT TYPE")
	}
	q.operands = append(q.operands, v)
	return nil
}

// check completes the options by the operands: IN, OUT and TYPE, those that no flag gave.
func (q *quantize) check() (err error) {
	for _, p := range []*string{&q.in, &q.out, &q.typ} {
		if *p != "" || len(q.operands) == 0 {
			continue
		}
		v := q.operands[0]
		if p == &q.typ {
			if v, err = choose(engine.WeightNames(), v); err != nil {
				return usagef("%s: %v", shown(q.operands[0]), err)
			}
		}
		*p, q.operands = v, q.operands[1:]
	}
	switch {
	case len(q.operands) > 0:
		return usagef("%s: one argument too many: IN OUT TYPE", shown(q.operands[0]))
	case q.in == "":
		return usagef("IN is missing (-m): the file to read")
	case q.out == "":
		return usagef("OUT is missing (-o): the file to write")
	case q.typ == "":
		return usagef("TYPE is missing (--type): %s", strings.Join(engine.WeightNames(), ", "))
	}
	return nil
}

func (q *quantize) run(ctx context.Context, p *program) error {
	if err := regularFile(q.in); err != nil {
		return err
	}
	f, err := gguf.OpenFile(q.in)
	if err != nil {
		return err
	}
	defer f.Close()
	if q.out == "-" && terminal.Is(p.stdout) {
		return fmt.Errorf("-o -: standard output is a terminal, not a file or pipe")
	}
	sources, count, bytes, err := q.plan(f)
	if err != nil {
		return err
	}
	stdout, _ := p.stdout.(*os.File)
	file, err := output.Create(ctx, q.out, stdout)
	if err != nil {
		return err
	}
	defer file.Abort()
	bar := terminal.NewBar(p.stderr, filepath.Base(q.out))
	defer bar.Clear()
	c := converter{ctx: ctx, file: f}
	for _, t := range f.Tensors {
		c.total += t.Size
	}
	c.done = func(n int64) { bar.Set(n, c.total, "") }
	tensors := make([]gguf.TensorSource, len(sources))
	for i, s := range sources {
		tensors[i] = gguf.TensorSource{Name: s.Name, Type: s.to, Dims: s.Dims,
			Write: func(w io.Writer) error { return c.convert(w, s.Tensor, s.to) }}
	}
	if err := gguf.Write(file, metadata(f, q.typ), tensors); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := file.Commit(); err != nil {
		return err
	}
	bar.Clear()
	var counts []string
	for _, name := range engine.WeightNames() {
		if n := count[quantizations[name].typ]; n > 0 {
			counts = append(counts, fmt.Sprintf("%d in %s", n, name))
		}
	}
	_, err = fmt.Fprintf(p.stderr, "%s: %d tensors, %s; %d bytes of weights, %d before\n",
		terminal.Line(q.out, 0), len(f.Tensors), strings.Join(counts, ", "), bytes, c.total)
	return err
}

// conversion is a tensor with the type that it gets.
type conversion struct {
	gguf.Tensor
	to gguf.Type
}

// plan chooses the types, and counts the tensors of each and the bytes of all.
func (q *quantize) plan(f *gguf.File) (list []conversion, count map[gguf.Type]int, bytes int64, err error) {
	count = map[gguf.Type]int{}
	for _, t := range f.Tensors {
		to := gguf.F32
		if wide(t) {
			if to, err = fitting(t, q.typ); err != nil {
				return nil, nil, 0, err
			}
		}
		if _, err := tensorType(t.Type); err != nil {
			return nil, nil, 0, fmt.Errorf("%s: tensor %q: %w", f.Name, t.Name, err)
		}
		size, err := to.Size(t.Dims...)
		if err != nil {
			return nil, nil, 0, fmt.Errorf("%s: tensor %q: %w", f.Name, t.Name, err)
		}
		count[to]++
		bytes += size
		list = append(list, conversion{t, to})
	}
	return list, count, bytes, nil
}

// wide reports whether a tensor is a matrix, as most of the bytes are; the others are needed in full precision.
func wide(t gguf.Tensor) bool {
	return len(t.Dims) >= 2 && strings.HasSuffix(t.Name, ".weight") &&
		!strings.HasSuffix(t.Name, "norm.weight") && !strings.HasPrefix(t.Name, "position_embd")
}

// fitting is the type that a matrix gets when typ is asked for.
func fitting(t gguf.Tensor, typ string) (gguf.Type, error) {
	to, err := tensor.ParseType(typ)
	if err != nil {
		return 0, err
	}
	fit, ok := tensor.Fitting(to, int(t.Dims[0]))
	if !ok {
		return gguf.F32, nil
	}
	return quantizations[fit.String()].typ, nil
}

// metadata is f's own, but for the keys that state the type.
func metadata(f *gguf.File, typ string) (kvs []gguf.KV) {
	own := []gguf.KV{
		{Key: "general.file_type", Value: quantizations[typ].fileType},
		{Key: "general.quantization_version", Value: uint32(2)},
	}
	for key := range f.Keys() {
		if !slices.ContainsFunc(own, func(kv gguf.KV) bool { return kv.Key == key }) {
			v, _ := f.Value(key)
			kvs = append(kvs, gguf.KV{Key: key, Value: v})
		}
	}
	return append(kvs, own...)
}

// A converter reads tensors and writes them in another type, a few rows at a time.
type converter struct {
	ctx         context.Context
	file        *gguf.File
	read, total int64
	done        func(int64)
}

func (c *converter) convert(w io.Writer, t gguf.Tensor, to gguf.Type) error {
	from, err := tensorType(t.Type)
	if err != nil {
		return fmt.Errorf("%s: tensor %q: %w", c.file.Name, t.Name, err)
	}
	into, err := tensorType(to)
	if err != nil {
		return err
	}
	const chunk = 1 << 18 // weights
	cols := uint64(1)
	if len(t.Dims) > 0 {
		cols = t.Dims[0]
	}
	if cols == 0 {
		return nil
	}
	rows := t.Elements() / cols
	step := max(1, chunk/cols)
	x := make([]float32, step*cols)
	for at := uint64(0); at < rows; at += step {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		n := min(step, rows-at) * cols
		oldBytes, _ := t.Type.Size(n)
		newBytes, _ := to.Size(n)
		old, enc := make([]byte, oldBytes), make([]byte, newBytes)
		first, _ := t.Type.Size(at * cols)
		if _, err := c.file.Reader().ReadAt(old, t.Offset+first); err != nil {
			return fmt.Errorf("%s: tensor %q: %w", c.file.Name, t.Name, err)
		}
		if err := tensor.Decode(from, x[:n], old); err != nil {
			return fmt.Errorf("%s: tensor %q: %w", c.file.Name, t.Name, err)
		}
		if err := tensor.Encode(into, enc, x[:n]); err != nil {
			return fmt.Errorf("%s: tensor %q: %w", c.file.Name, t.Name, err)
		}
		if _, err := w.Write(enc); err != nil {
			return err
		}
		c.read += oldBytes
		c.done(c.read)
	}
	return nil
}

func tensorType(t gguf.Type) (tensor.Type, error) {
	return tensor.ParseType(strings.ToLower(t.String()))
}

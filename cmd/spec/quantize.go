package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

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
	does:  "a GGUF file with its weights in another type",
	usage: "-m IN -o OUT --type q8_0|q6_k|q4_k|q4_0|bf16|f16|f32",
	about: `Writes IN again with its matrices in another type. Norms, biases and position embeddings stay in F32.
Matrices whose rows are no multiple of 256 long become Q4_0 instead of Q4_K and Q8_0 instead of Q6_K; where they are
no multiple of 32 either, they stay in F32 too.`,
	setup: func() ([]flag, func(context.Context, *program) error) {
		var in, out, typ string
		flags := []flag{
			textFlag("-m, --model", &in, "IN", "the file to read"),
			textFlag("-o, --output", &out, "OUT", "the file to write"),
			choiceFlag("--type", &typ, engine.WeightNames(), "type of the weights in OUT"),
		}
		return flags, func(ctx context.Context, p *program) error {
			switch {
			case in == "":
				return usagef("-m is missing: the file to read")
			case out == "":
				return usagef("-o is missing: the file to write")
			case typ == "":
				return usagef("--type is missing: %s", strings.Join(engine.WeightNames(), ", "))
			}
			f, err := gguf.OpenFile(in)
			if err != nil {
				return err
			}
			defer f.Close()
			return quantize(ctx, p, f, out, typ)
		}
	},
}

// quantize writes f's model to the file out, which appears only when it is whole.
func quantize(ctx context.Context, p *program, f *gguf.File, out, typ string) (err error) {
	file, err := os.CreateTemp(filepath.Dir(out), filepath.Base(out)+".*.part")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			file.Close()
			os.Remove(file.Name())
		}
	}()
	b := &bar{w: p.stderr, name: filepath.Base(out), start: time.Now()}
	if !isTerminal(p.stderr) {
		b.w = io.Discard
	}
	defer b.clear()
	c := converter{ctx: ctx, file: f}
	for _, t := range f.Tensors {
		c.total += t.Size
	}
	c.done = func(n int64) { b.progress(n, c.total) }
	var sources []gguf.TensorSource
	count, bytes := map[gguf.Type]int{}, int64(0)
	for _, t := range f.Tensors {
		to := gguf.F32
		if wide(t) {
			if to, err = fitting(t, typ); err != nil {
				return err
			}
		}
		count[to]++
		size, err := to.Size(t.Dims...)
		if err != nil {
			return fmt.Errorf("%s: tensor %q: %w", f.Name, t.Name, err)
		}
		bytes += size
		sources = append(sources, gguf.TensorSource{Name: t.Name, Type: to, Dims: t.Dims,
			Write: func(w io.Writer) error { return c.convert(w, t, to) }})
	}
	if err = gguf.Write(file, metadata(f, typ), sources); err != nil {
		return err
	}
	if err = file.Chmod(0o644); err != nil {
		return err
	}
	if err = file.Close(); err != nil {
		return err
	}
	if err = os.Rename(file.Name(), out); err != nil {
		return err
	}
	b.clear()
	var counts []string
	for _, name := range engine.WeightNames() {
		if n := count[quantizations[name].typ]; n > 0 {
			counts = append(counts, fmt.Sprintf("%d in %s", n, name))
		}
	}
	_, err = fmt.Fprintf(p.stderr, "%s: %d tensors, %s; %d bytes of weights, %d before\n",
		out, len(f.Tensors), strings.Join(counts, ", "), bytes, c.total)
	return err
}

// wide tells the matrices, which most of the bytes are, from what a model needs in full precision.
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

// metadata is f's own, but for the keys that tell the type.
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

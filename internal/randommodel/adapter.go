package randommodel

import (
	"bytes"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/tensor"
)

// Adapter is a random adapter (LoRA) for a model's file.
type Adapter struct {
	Seed    uint64
	Rank    int                      // 0: 4
	Alpha   float32                  // 0: 4
	Type    gguf.Type                // of A and B; the zero value: F32
	Changes func(matrix string) bool // nil: the matrices of attention and feed-forward
	Keys    map[string]gguf.Value    // replaced, added; nil values are left out
	Dims    map[string][]int         // of tensors by name, columns first, instead of those that fit
	More    []string                 // vectors that are added
	Drop    string                   // this tensor is left out
	Spread  float64                  // of B; 0: 0.5
}

// changes is what Changes stands for.
func (a *Adapter) changes(name string) bool {
	if a.Changes != nil {
		return a.Changes(name)
	}
	return strings.HasPrefix(name, "blk.") && strings.HasSuffix(name, ".weight") && !strings.Contains(name, "norm") &&
		(strings.Contains(name, ".attn_") || strings.Contains(name, ".ffn_"))
}

// File is the GGUF file of an adapter for the model in the file base.
func (a Adapter) File(tb testing.TB, base []byte) []byte {
	tb.Helper()
	f := open(tb, base)
	arch, err := f.String("general.architecture")
	if err != nil {
		tb.Fatal(err)
	}
	rank, alpha, spread := a.Rank, a.Alpha, a.Spread
	if rank == 0 {
		rank = 4
	}
	if alpha == 0 {
		alpha = 4
	}
	if spread == 0 {
		spread = 0.5
	}
	var kvs []gguf.KV
	keys := map[string]gguf.Value{"general.type": "adapter", "general.architecture": arch, "adapter.type": "lora",
		"adapter.lora.alpha": alpha}
	maps.Copy(keys, a.Keys)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if keys[key] != nil {
			kvs = append(kvs, gguf.KV{Key: key, Value: keys[key]})
		}
	}
	var tensors []gguf.TensorSource
	add := func(name string, spread float64, dims ...int) {
		if own := a.Dims[name]; own != nil {
			dims = own
		}
		if name == a.Drop {
			return
		}
		rng := drawn(a.Seed+77, name)
		n, all := elements(dims)
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(spread * rng.NormFloat64())
		}
		tensors = append(tensors, Encoded(name, a.Type, x, all))
	}
	for _, t := range f.Tensors {
		if len(t.Dims) < 2 || !a.changes(t.Name) {
			continue
		}
		cols, rows := int(t.Dims[0]), int(t.Dims[1])
		one, two := []int{cols, rank}, []int{rank, rows}
		if len(t.Dims) > 2 {
			one, two = append(one, int(t.Dims[2])), append(two, int(t.Dims[2]))
		}
		add(t.Name+".lora_a", 1/math.Sqrt(float64(cols)), one...)
		add(t.Name+".lora_b", spread/math.Sqrt(float64(rank)), two...)
	}
	for _, name := range a.More {
		add(name, 1, 8)
	}
	return Bytes(tb, kvs, tensors)
}

// Merge is a model's file, in float32, into which an adapter was merged, in float64: W + scale·alpha/r·B·A. What a
// factor NAME.scale multiplies is divided by it, as the adapter's product is not multiplied. Gemma 4's
// ffn_gate_inp.scale is of the router's input, and none of those.
func Merge(tb testing.TB, base, adapter []byte, scale float64) []byte {
	tb.Helper()
	f, low := open(tb, base), open(tb, adapter)
	alpha, err := low.Float32("adapter.lora.alpha")
	if err != nil {
		tb.Fatal(err)
	}
	return Rewritten(tb, base, func(t gguf.Tensor, x []float32) []gguf.TensorSource {
		if a, ok := low.Tensor(t.Name + ".lora_a"); ok {
			b, _ := low.Tensor(t.Name + ".lora_b")
			factors := []float32{1}
			name := strings.TrimSuffix(t.Name, ".weight")
			if t, ok := f.Tensor(name + ".scale"); ok && !strings.HasSuffix(name, ".ffn_gate_inp") {
				factors = floats(tb, f, t)
			}
			merge(x, floats(tb, low, a), floats(tb, low, b), int(t.Dims[0]), int(a.Dims[1]), int(t.Dims[1]),
				scale*float64(alpha)/float64(a.Dims[1]), factors)
		}
		return []gguf.TensorSource{Encoded(t.Name, gguf.F32, x, t.Dims)}
	})
}

// merge adds scale·B·A/factor to matrices x [n][rows][cols], a [n][r][cols], b [n][rows][r], factors [n] or one.
func merge(x, a, b []float32, cols, r, rows int, scale float64, factors []float32) {
	for i := range x {
		n, row, col := i/cols/rows, i/cols%rows, i%cols
		sum := 0.0
		for k := range r {
			sum += float64(b[(n*rows+row)*r+k]) * float64(a[(n*r+k)*cols+col])
		}
		x[i] = float32(float64(x[i]) + scale*sum/float64(factors[n%len(factors)]))
	}
}

// Rewritten is a model's file whose tensors, with numbers x, have become those that become returns.
func Rewritten(tb testing.TB, base []byte, become func(t gguf.Tensor, x []float32) []gguf.TensorSource) []byte {
	tb.Helper()
	f := open(tb, base)
	var tensors []gguf.TensorSource
	for _, t := range f.Tensors {
		tensors = append(tensors, become(t, floats(tb, f, t))...)
	}
	return Bytes(tb, f.KVs, tensors)
}

func open(tb testing.TB, file []byte) *gguf.File {
	tb.Helper()
	f, err := gguf.Open(bytes.NewReader(file), int64(len(file)), "drawn.gguf")
	if err != nil {
		tb.Fatal(err)
	}
	return f
}

// floats are a tensor's numbers.
func floats(tb testing.TB, f *gguf.File, t gguf.Tensor) []float32 {
	tb.Helper()
	raw := make([]byte, t.Size)
	if _, err := f.Reader().ReadAt(raw, t.Offset); err != nil && err != io.EOF {
		tb.Fatal(err)
	}
	from, err := tensor.ParseType(strings.ToLower(t.Type.String()))
	if err != nil {
		tb.Fatal(err)
	}
	x := make([]float32, t.Elements())
	if err := tensor.Decode(from, x, raw); err != nil {
		tb.Fatal(err)
	}
	return x
}

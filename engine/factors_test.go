package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/asm"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/randommodel"
	"github.com/specgo/spec/internal/testkit"
)

// takesFactor reports whether products of a model with a tensor may have a factor. Routers and small matrices that are
// never converted have none.
func takesFactor(m *Model, name string) bool {
	for _, exact := range []string{"ffn_gate_inp", "altup_", "per_layer_model_proj"} {
		if strings.Contains(name, exact) {
			return false
		}
	}
	site := m.sites[name]
	return site != nil && !site.lookup && strings.HasSuffix(name, ".weight")
}

// factorsOf says how many factors a matrix has: one for each expert.
func factorsOf(t gguf.Tensor) int {
	if strings.HasSuffix(t.Name, "_exps.weight") {
		return int(t.Dims[2])
	}
	return 1
}

// factorTensors are NAME.scale with these numbers, and NAME.input_scale, which changes nothing.
func factorTensors(weight string, x []float32) []gguf.TensorSource {
	name, dims := strings.TrimSuffix(weight, ".weight"), []uint64{uint64(len(x))}
	return []gguf.TensorSource{randommodel.Encoded(name+".scale", gguf.F32, x, dims),
		randommodel.Encoded(name+".input_scale", gguf.F32, slices.Repeat([]float32{0.37}, len(x)), dims)}
}

// TestFactorsOfEveryMatrix: a model whose matrices are divided by powers of two, which their NAME.scale has, one for
// each expert, has the model's logits, bit for bit: every family applies every factor.
func TestFactorsOfEveryMatrix(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	files := map[string][]byte{}
	for name, r := range randommodel.Recipes() {
		files[name] = r.File(t)
	}
	asked := askedModels()
	for i, name := range slices.Sorted(maps.Keys(asked)) {
		if i%3 == 0 || testkit.IsLong(t) {
			files[name] = asked[name].file(t, name)
		}
	}
	matrices := 0
	for _, name := range slices.Sorted(maps.Keys(files)) {
		m, err := openBytes(t, rt, files[name], name, Options{RopeContext: ropeContext})
		if err != nil {
			t.Fatal(name, err)
		}
		scaled, changed := withFactors(t, files[name], func(matrix string) bool { return takesFactor(m, matrix) })
		matrices += changed
		n, err := openBytes(t, rt, scaled, name+" with factors", Options{RopeContext: ropeContext})
		if err != nil {
			t.Error(name, err)
			continue
		}
		ids := randomTokens(6, m.config.Vocab, 3)
		sameBits(t, name, eval(t, newSession(t, n, SessionOptions{}), ids, nil, All),
			eval(t, newSession(t, m, SessionOptions{}), ids, nil, All))
		m.Close()
		n.Close()
	}
	if matrices < 20*len(files) {
		t.Errorf("%d matrices of %d models had factors", matrices, len(files))
	}
}

// withFactors is a model's file in which matrices are divided by powers of two, which their NAME.scale has, and how
// many.
func withFactors(t *testing.T, file []byte, takes func(matrix string) bool) (scaled []byte, matrices int) {
	r := rand.New(rand.NewPCG(1, 2))
	own := map[string][]float32{} // the factors of BitNet and Gemma 4
	scaled = randommodel.Rewritten(t, file, func(w gguf.Tensor, x []float32) []gguf.TensorSource {
		if name, ok := strings.CutSuffix(w.Name, ".scale"); ok && takes(name+".weight") {
			own[name+".weight"] = x
			return nil
		}
		if !takes(w.Name) {
			return []gguf.TensorSource{randommodel.Encoded(w.Name, w.Type, x, w.Dims)}
		}
		matrices++
		factors := make([]float32, factorsOf(w))
		for i := range factors {
			factors[i] = float32(math.Ldexp(1, []int{-3, -2, -1, 1, 2, 3}[r.IntN(6)]))
			part := x[i*len(x)/len(factors):][:len(x)/len(factors)]
			for j := range part {
				part[j] /= factors[i]
			}
		}
		for i := range own[w.Name] {
			factors[i] *= own[w.Name][i]
		}
		return append(factorTensors(w.Name, factors), randommodel.Encoded(w.Name, w.Type, x, w.Dims))
	})
	return scaled, matrices
}

// TestFactorsOfMTPBlocks: the same for the blocks that draft, with outputs of their own and the model's.
func TestFactorsOfMTPBlocks(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	for _, ends := range []bool{false, true} {
		recipe := mtpRecipe("qwen35", 2, ends)
		recipe.Parts += " untied"
		file := recipe.File(t)
		target, head := openMTP(t, rt, file, Options{})
		scaled, n := withFactors(t, file, func(matrix string) bool {
			return takesFactor(target, matrix) || takesFactor(head, matrix)
		})
		if n < 40 || !takesFactor(target, "output.weight") {
			t.Fatalf("%d matrices have factors", n)
		}
		_, other := openMTP(t, rt, scaled, Options{})
		drafts := func(m *Model) (all []float32) {
			s := newSession(t, m, SessionOptions{})
			for _, d := range mtpRounds(t, s, newMTPText(12, 3), 2, 5, 5, func(seg Segment) Result {
				r, err := s.EvalSegment(context.Background(), seg)
				if err != nil {
					t.Fatal(err)
				}
				return r
			}) {
				all = append(all, d.flat()...)
			}
			return all
		}
		sameBits(t, fmt.Sprint("own ends: ", ends), drafts(other), drafts(head))
	}
}

// TestLongFactorsOfEveryMatrix: of all families.
func TestLongFactorsOfEveryMatrix(t *testing.T) {
	testkit.Long(t)
	TestFactorsOfEveryMatrix(t)
}

// nvfp4Model is a model's file whose matrices are random NVFP4 blocks, with factors that make them as large as they
// were.
func nvfp4Model(t *testing.T, m *Model, file []byte) []byte {
	r := rand.New(rand.NewPCG(3, 4))
	changed := 0
	file = randommodel.Rewritten(t, file, func(w gguf.Tensor, x []float32) []gguf.TensorSource {
		if !takesFactor(m, w.Name) || w.Dims[0]%64 != 0 {
			return []gguf.TensorSource{randommodel.Encoded(w.Name, w.Type, x, w.Dims)}
		}
		changed++
		raw := make([]byte, len(x)/64*36)
		for i := range raw {
			raw[i] = byte(r.Uint32())
			if i%36 < 4 {
				raw[i] = byte(0x30 + r.IntN(16)) // scales of 0.5 … 1.9, so that weights are about 1
			}
		}
		factors := make([]float32, factorsOf(w))
		for i := range factors {
			factors[i] = 0.05 + 0.1*r.Float32()
		}
		return append(factorTensors(w.Name, factors), gguf.TensorSource{Name: w.Name, Type: gguf.NVFP4, Dims: w.Dims,
			Write: func(to io.Writer) error { _, err := to.Write(raw); return err }})
	})
	if changed < 12 {
		t.Fatalf("%d matrices are NVFP4", changed)
	}
	return file
}

// TestNVFP4WithFactors: models with NVFP4 weights, factors of matrices and of experts, and biases compute what a
// float64 forward pass does, the same bits with every kernel set, in pieces, and from disk.
func TestNVFP4WithFactors(t *testing.T) {
	recipes := randommodel.Recipes()
	for _, name := range []string{"qwen2", "qwen2moe"} {
		base := recipes[name].File(t)
		rt := newRuntime(t, RuntimeOptions{Threads: 1})
		plain, err := openBytes(t, rt, base, name, Options{})
		if err != nil {
			t.Fatal(err)
		}
		file := nvfp4Model(t, plain, base)
		ids := randomTokens(40, plain.config.Vocab, 8)
		var want []float32
		for _, simd := range asm.Available() {
			m, err := openBytes(t, newRuntime(t, RuntimeOptions{Threads: 1, SIMD: simd}), file, name, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if got := eval(t, newSession(t, m, SessionOptions{KV: "f32"}), ids, nil, All); want == nil {
				want = got
			} else {
				sameBits(t, fmt.Sprint(name, " ", simd), got, want)
			}
			sameBits(t, fmt.Sprint(name, " in pieces ", simd), chunks(7)(t, m, SessionOptions{KV: "f32"}, ids), want)
		}
		if d := difference(t, want, newReference(t, file).logits(ids)); !(d < 1e-4) {
			t.Errorf("%s: the logits are off by %.2g of their root mean square", name, d)
		}
		path := filepath.Join(t.TempDir(), name+".gguf")
		if err := os.WriteFile(path, file, 0o600); err != nil {
			t.Fatal(err)
		}
		p := planOf(t, path, Options{})
		m := openModel(t, rt, path, Options{Memory: p.Least, Cache: t.TempDir()})
		sameBits(t, name+" from disk", eval(t, newSession(t, m, SessionOptions{KV: "f32"}), ids, nil, All), want)
		if read, _ := m.Disk(); read == 0 || !m.Memory().Streams() {
			t.Errorf("%s: %d bytes were read from disk", name, read)
		}
	}
}

// TestBadFactors: a factor that is no number, or 0, or that has not one number or one for each expert, is refused by
// name.
func TestBadFactors(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	base := randommodel.Recipes()["qwen2moe"].File(t)
	for _, c := range []struct {
		name    string
		factors []float32
		want    error
	}{
		{"blk.0.attn_q.scale", []float32{0}, ErrDamaged},
		{"blk.0.attn_q.scale", []float32{float32(math.Inf(1))}, ErrDamaged},
		{"blk.0.attn_q.scale", []float32{1, 1}, ErrShape},
		{"blk.1.ffn_up_exps.scale", []float32{1}, ErrShape},
		{"blk.1.ffn_up_exps.scale", []float32{1, 1, 1, 0, 1, 1}, ErrDamaged},
		{"blk.1.ffn_gate_inp.scale", []float32{2}, ErrUnsupported},
		{"token_embd.scale", []float32{2}, ErrUnsupported},
	} {
		file := randommodel.Rewritten(t, base, func(w gguf.Tensor, x []float32) []gguf.TensorSource {
			list := []gguf.TensorSource{randommodel.Encoded(w.Name, w.Type, x, w.Dims)}
			if strings.TrimSuffix(w.Name, ".weight")+".scale" == c.name {
				list = append(list, randommodel.Encoded(c.name, gguf.F32, c.factors, []uint64{uint64(len(c.factors))}))
			}
			return list
		})
		_, err := openBytes(t, rt, file, "bad.gguf", Options{})
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.name) {
			t.Errorf("%s = %v: %v, expected %v", c.name, c.factors, err, c.want)
		}
	}
}

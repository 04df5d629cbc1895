package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/testdata"
)

// reference computes a model from its GGUF file in float64, by the formulas of the papers, with naive loops. It shares
// nothing with the engine but the parser of the file.
type reference struct {
	f    *gguf.File
	arch string
	t    map[string][]float64
}

func newReference(tb testing.TB, file []byte) *reference {
	tb.Helper()
	f, err := gguf.Open(bytes.NewReader(file), int64(len(file)), "reference.gguf")
	if err != nil {
		tb.Fatal(err)
	}
	r := &reference{f: f, t: map[string][]float64{}}
	if r.arch, err = f.String("general.architecture"); err != nil {
		tb.Fatal(err)
	}
	for _, t := range f.Tensors {
		raw := make([]byte, t.Size)
		if _, err := io.ReadFull(io.NewSectionReader(f.Reader(), t.Offset, t.Size), raw); err != nil {
			tb.Fatal(err)
		}
		x := make([]float64, t.Elements())
		switch t.Type {
		case gguf.F32:
			for i := range x {
				x[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:])))
			}
		case gguf.Q8_0: // blocks of a half-precision scale and 32 bytes
			for i := range x {
				block := raw[i/32*34:]
				x[i] = half(binary.LittleEndian.Uint16(block)) * float64(int8(block[2+i%32]))
			}
		default:
			tb.Fatalf("%s: the reference does not read %v", t.Name, t.Type)
		}
		r.t[t.Name] = x
	}
	return r
}

// half is the value of a binary16 number that is finite.
func half(bits uint16) float64 {
	exponent, fraction, sign := int(bits>>10&31), float64(bits&1023)/1024, 1-2*float64(bits>>15)
	if exponent == 0 {
		return sign * math.Ldexp(fraction, -14)
	}
	return sign * math.Ldexp(1+fraction, exponent-15)
}

// number is the value of a hyperparameter, or absent where the file has no such key.
func (r *reference) number(key string, absent float64) float64 {
	switch v, _ := r.f.Value(r.arch + "." + key); v := v.(type) {
	case uint32:
		return float64(v)
	case float32:
		return float64(v)
	}
	return absent
}

func (r *reference) integer(key string, absent int) int { return int(r.number(key, float64(absent))) }

// linear is W x + b for the tensors name.weight [rows][len(x)] and, if there, name.bias [rows].
func (r *reference) linear(name string, x []float64) []float64 {
	w := r.t[name+".weight"]
	y := make([]float64, len(w)/len(x))
	for i := range y {
		for j, v := range x {
			y[i] += w[i*len(x)+j] * v
		}
	}
	for i, b := range r.t[name+".bias"] {
		y[i] += b
	}
	return y
}

// norm is LayerNorm for gpt2 and RMSNorm for the others.
func (r *reference) norm(name string, x []float64) []float64 {
	n := float64(len(x))
	mean, variance, eps := 0.0, 0.0, r.number("attention.layer_norm_rms_epsilon", 0)
	if r.arch == "gpt2" {
		eps = r.number("attention.layer_norm_epsilon", 0)
		for _, v := range x {
			mean += v / n
		}
	}
	for _, v := range x {
		variance += (v - mean) * (v - mean) / n
	}
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = (v - mean) / math.Sqrt(variance+eps) * r.t[name+".weight"][i]
	}
	for i, b := range r.t[name+".bias"] {
		y[i] += b
	}
	return y
}

// rotate turns the pairs (2i, 2i+1) of every head of x by the angles of a position.
func (r *reference) rotate(x []float64, headDim, position int) {
	n := r.integer("rope.dimension_count", headDim)
	base, scale := r.number("rope.freq_base", 10000), 1.0
	if factor := r.number("rope.scaling.factor", r.number("rope.scale_linear", 0)); factor != 0 {
		scale = factor
	}
	if kind, _ := r.f.String(r.arch + ".rope.scaling.type"); kind == "none" {
		scale = 1
	}
	magnitude := r.number("rope.scaling.attn_factor", 1)
	for h := 0; h < len(x); h += headDim {
		for i := range n / 2 {
			angle := float64(position) * math.Pow(base, -2*float64(i)/float64(n)) / scale
			if f := r.t["rope_freqs.weight"]; f != nil {
				angle /= f[i]
			}
			sin, cos := math.Sincos(angle)
			a, b := x[h+2*i], x[h+2*i+1]
			x[h+2*i], x[h+2*i+1] = (a*cos-b*sin)*magnitude, (a*sin+b*cos)*magnitude
		}
	}
}

// logits are those after every token of ids.
func (r *reference) logits(ids []int32) []float64 {
	layers, width, heads := r.integer("block_count", 0), r.integer("embedding_length", 0), r.integer("attention.head_count", 0)
	kvHeads, headDim := r.integer("attention.head_count_kv", heads), r.integer("attention.key_length", width/heads)
	keys, values := make([][][]float64, layers), make([][][]float64, layers) // [layer][position][KV heads * head size]
	var out []float64
	for position, id := range ids {
		x := append([]float64(nil), r.t["token_embd.weight"][int(id)*width:][:width]...)
		if p := r.t["position_embd.weight"]; p != nil {
			for i := range x {
				x[i] += p[position*width+i]
			}
		}
		for l := range layers {
			b := fmt.Sprintf("blk.%d.", l)
			h := r.norm(b+"attn_norm", x)
			var q, k, v []float64
			if r.arch == "gpt2" {
				qkv := r.linear(b+"attn_qkv", h)
				q, k, v = qkv[:width], qkv[width:2*width], qkv[2*width:]
			} else {
				q, k, v = r.linear(b+"attn_q", h), r.linear(b+"attn_k", h), r.linear(b+"attn_v", h)
				r.rotate(q, headDim, position)
				r.rotate(k, headDim, position)
			}
			keys[l], values[l] = append(keys[l], k), append(values[l], v)
			a := make([]float64, heads*headDim)
			for head := range heads {
				at := head / (heads / kvHeads) * headDim
				p, sum, greatest := make([]float64, position+1), 0.0, math.Inf(-1)
				for j := range p {
					for d := range headDim {
						p[j] += q[head*headDim+d] * keys[l][j][at+d]
					}
					p[j] /= math.Sqrt(float64(headDim))
					greatest = math.Max(greatest, p[j])
				}
				for j := range p {
					p[j] = math.Exp(p[j] - greatest)
					sum += p[j]
				}
				for j := range p {
					for d := range headDim {
						a[head*headDim+d] += p[j] / sum * values[l][j][at+d]
					}
				}
			}
			addTo(x, r.linear(b+"attn_output", a))

			h = r.norm(b+"ffn_norm", x)
			u := r.linear(b+"ffn_up", h)
			if r.arch == "gpt2" {
				for i, v := range u {
					u[i] = v / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(v+0.044715*v*v*v)))
				}
			} else {
				for i, g := range r.linear(b+"ffn_gate", h) {
					u[i] *= g / (1 + math.Exp(-g))
				}
			}
			addTo(x, r.linear(b+"ffn_down", u))
		}
		head := "output"
		if r.t["output.weight"] == nil {
			head = "token_embd"
		}
		out = append(out, r.linear(head, r.norm("output_norm", x))...)
	}
	return out
}

func addTo(x, y []float64) {
	for i, v := range y {
		x[i] += v
	}
}

// difference is the greatest difference of two lists of logits, in units of the root mean square of the second.
func difference(tb testing.TB, got []float32, want []float64) float64 {
	tb.Helper()
	if len(got) != len(want) {
		tb.Fatalf("%d logits, expected %d", len(got), len(want))
	}
	worst, squares := 0.0, 0.0
	for i, v := range want {
		if d := math.Abs(float64(got[i]) - v); !(d <= worst) {
			worst = d
		}
		squares += v * v
	}
	return worst / math.Sqrt(squares/float64(len(want)))
}

// TestReference: every option of an architecture against the reference. An option that hardly changes the logits would
// prove nothing: it must move them by 100 times the bound.
func TestReference(t *testing.T) {
	const bound = 1e-4
	rt := newRuntime(t, RuntimeOptions{})
	key := func(key string, v gguf.Value) func(*shape) {
		return func(s *shape) { s.kvs = append(s.kvs, gguf.KV{Key: s.arch + "." + key, Value: v}) }
	}
	all := func(changes ...func(*shape)) func(*shape) {
		return func(s *shape) {
			for _, change := range changes {
				change(s)
			}
		}
	}
	only := func(bias string) func(*shape) { // the biases of one matrix
		return func(s *shape) {
			s.biases = true
			for _, name := range []string{"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"} {
				if name != bias {
					s.dropAlso = append(s.dropAlso, name+".bias")
				}
			}
		}
	}
	type change = func(*shape)
	llama := map[string]change{
		"untied":                 func(s *shape) { s.untied = true },
		"q bias":                 only("attn_q"),
		"k bias":                 only("attn_k"),
		"v bias":                 only("attn_v"),
		"o bias":                 only("attn_output"),
		"gate bias":              only("ffn_gate"),
		"up bias":                only("ffn_up"),
		"down bias":              only("ffn_down"),
		"all biases":             func(s *shape) { s.biases = true },
		"freq_base":              key("rope.freq_base", float32(500)),
		"epsilon":                key("attention.layer_norm_rms_epsilon", float32(0.1)),
		"factors":                func(s *shape) { s.factors = true },
		"linear":                 func(s *shape) { s.scaling = 4 },
		"factor without a type":  key("rope.scaling.factor", float32(4)),
		"scale_linear":           key("rope.scale_linear", float32(4)),
		"attn_factor":            key("rope.scaling.attn_factor", float32(1.3)),
		"no scaling":             all(key("rope.scaling.type", "none"), key("rope.scaling.factor", float32(4))),
		"factors, linear, part":  func(s *shape) { s.factors, s.scaling, s.ropeDims = true, 2, 8 },
		"part of a head":         func(s *shape) { s.ropeDims = 8 },
		"heads of another size":  func(s *shape) { s.headDim = 24 },
		"one KV head":            func(s *shape) { s.kv = 1 },
		"as many KV heads":       func(s *shape) { s.kv = s.heads },
		"no head_count_kv":       all(key("attention.head_count_kv", nil), func(s *shape) { s.kv = s.heads }),
		"one head, three layers": func(s *shape) { s.heads, s.kv, s.layers = 1, 1, 3 },
	}
	gpt2 := map[string]change{
		"epsilon":     key("attention.layer_norm_epsilon", float32(0.1)),
		"untied":      func(s *shape) { s.untied = true },
		"eight heads": func(s *shape) { s.heads, s.kv = 8, 8 },
	}
	for _, bias := range []string{"attn_norm.bias", "attn_qkv.bias", "attn_output.bias", "ffn_norm.bias", "ffn_up.bias", "ffn_down.bias"} {
		gpt2[bias] = func(s *shape) { s.scale = map[string]float32{"blk.1." + bias: -1} }
	}
	for _, arch := range []struct {
		base    shape
		options map[string]change
	}{{smallLlama(), llama}, {smallGPT2(), gpt2}} {
		ids := randomTokens(40, arch.base.vocab, 21)
		arch.options["plain"] = func(*shape) {}
		for name, change := range arch.options {
			v := arch.base
			change(&v)
			file := v.file(t)
			want := newReference(t, file).logits(ids)
			s := newSession(t, v.open(t, rt, Options{}), SessionOptions{KV: "f32"})
			d := difference(t, eval(t, s, ids, nil, All), want)
			if !(d < bound) {
				t.Errorf("%s, %s: the logits are off by %.2g of their root mean square", v.arch, name, d)
			}
			if plain := newReference(t, arch.base.file(t)).logits(ids); name != "plain" && !strings.HasPrefix(name, "no ") {
				var without []float32
				for _, x := range plain {
					without = append(without, float32(x))
				}
				if moved := difference(t, without, want); moved < 100*bound {
					t.Errorf("%s, %s: the option moves the logits by %.2g only: it proves nothing", v.arch, name, moved)
				}
			}
		}
	}
}

// TestReferencePair: the embedded models, their weights taken as the file has them, against the reference.
func TestReferencePair(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{})
	for name, open := range map[string]func() *strings.Reader{"go-target": testdata.Target, "go-draft": testdata.Draft} {
		file, err := io.ReadAll(open())
		if err != nil {
			t.Fatal(err)
		}
		m, err := New(context.Background(), rt, bytes.NewReader(file), int64(len(file)), Options{Weights: "f32"})
		if err != nil {
			t.Fatal(err)
		}
		ids := m.Tokenizer().Encode("func (b *Buffer)", bpe.EncodeOptions{AddSpecial: true})
		got := eval(t, newSession(t, m, SessionOptions{KV: "f32"}), ids, nil, All)
		if d := difference(t, got, newReference(t, file).logits(ids)); !(d < 1e-4) {
			t.Errorf("%s: the logits are off by %.2g of their root mean square", name, d)
		}
		m.Close()
	}
}

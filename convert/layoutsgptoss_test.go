package convert

import (
	"bytes"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/randommodel"
	"github.com/specgo/spec/tensor"
)

// gptOSSLayouts are gpt-oss as it is saved after training, and as it is published, with experts of MXFP4.
func gptOSSLayouts() []layoutCase {
	trained := layoutCase{class: "GptOssForCausalLM", recipe: "gpt-oss", lay: layAlternating,
		names: []string{"post_attention_norm.", "post_attention_layernorm.", "attn_sinks.weight", "self_attn.sinks",
			"ffn_gate_inp.", "mlp.router."},
		edit: func(r *randommodel.Recipe) { r.Keys["feed_forward_length"] = uint32(32) },
		config: with(plain, object{"num_local_experts": randommodel.Experts, "num_experts_per_tok": 3,
			"experts_per_token": 3, "moe_intermediate_size": nil, "rope_theta": nil,
			"rope_parameters": yarnOf(object{"truncate": false}), "layer_types": windows("sfsf"), "swiglu_limit": 7.0,
			"initial_context_length": 4096, "attention_bias": true, "router_aux_loss_coef": 0.9,
			"output_router_logits": false}),
		refuses: object{"swiglu_limit": 5.0, "experts_per_token": 2, "num_experts_per_tok": 7,
			"rope_parameters": naming{nil, "rope_"}, "layer_types": []string{"full_attention"},
			"rope_parameters.rope_type": "dynamic", "hidden_act": "gelu", "num_local_experts": 1 << 20,
			"quantization_config": object{"quant_method": "gptq"}, "sliding_window": nil}}
	published := trained
	published.kind, published.file, published.refuses = "MXFP4", fourBits, nil
	published.config = with(trained.config, object{"quantization_config": object{"quant_method": "mxfp4",
		"modules_to_not_convert": []string{"lm_head"}}})
	return []layoutCase{trained, published}
}

// fourBits makes experts of MXFP4, of any codes and scales that occur.
func fourBits(t *testing.T, f *gguf.File) *gguf.File {
	rng := rand.New(rand.NewPCG(1, 2))
	var others []gguf.TensorSource
	for _, x := range f.Tensors {
		if !strings.HasSuffix(x.Name, "_exps.weight") {
			continue
		}
		raw := make([]byte, x.Elements()/32*17)
		for i := range raw {
			if raw[i] = byte(rng.IntN(256)); i%17 == 0 {
				raw[i] = byte(118 + rng.IntN(8))
			}
		}
		others = append(others, tensorOfBytes(x.Name, gguf.MXFP4, x.Dims, raw))
	}
	return rewritten(t, f, others...)
}

// layAlternating writes gpt-oss' experts, in MXFP4 or not. Rows of gates and of what they multiply alternate.
func layAlternating(l *laid, x gguf.Tensor) bool {
	of, ending, is := strings.Cut(x.Name, "_exps.")
	if !is || strings.HasSuffix(of, "ffn_up") {
		return is // with the gate
	}
	both := []gguf.Tensor{x}
	to := l.block(x) + "mlp.experts.down_proj"
	if strings.HasSuffix(of, "ffn_gate") {
		both = append(both, tensorOf(l.t, l.f, strings.Replace(x.Name, "_gate_", "_up_", 1)))
		to = l.block(x) + "mlp.experts.gate_up_proj"
	}
	cols, rows, experts := dimsOf(x)
	n := len(both)
	if x.Type != gguf.MXFP4 {
		values := [][]float32{l.of(both[0].Name), l.of(both[n-1].Name)}
		if ending == "bias" {
			l.put(to+"_bias", []int{rows, n * cols}, func(i int) float32 {
				expert, at := i/(n*cols), i%(n*cols)
				return values[at%n][expert*cols+at/n]
			})
			return true
		}
		l.put(to, []int{experts, cols, n * rows}, func(i int) float32 {
			expert, col, row := i/(n*rows*cols), i/(n*rows)%cols, i%(n*rows)
			return values[row%n][(expert*rows+row/n)*cols+col]
		})
		return true
	}
	var codes, scales []byte
	for expert := range experts {
		for row := range n * rows {
			raw := rawBytes(l.t, l.f, both[row%n])[(expert*rows+row/n)*cols/32*17:][:cols/32*17]
			for ; len(raw) > 0; raw = raw[17:] {
				scales = append(scales, raw[0])
				weights := make([]byte, 32)
				for i, b := range raw[1:17] {
					weights[i], weights[16+i] = b&15, b>>4
				}
				for i := 0; i < 32; i += 2 {
					codes = append(codes, weights[i]+16*weights[i+1])
				}
			}
		}
	}
	l.raw[to+"_blocks"] = rawTensor{"U8", []int{experts, n * rows, cols / 32, 16}, codes}
	l.raw[to+"_scales"] = rawTensor{"U8", []int{experts, n * rows, cols / 32}, scales}
	return true
}

// TestExpertsOfFourBitsRefused: experts of MXFP4 that lack a part, or have another one.
func TestExpertsOfFourBitsRefused(t *testing.T) {
	c := layoutOf(t, "GptOssForCausalLM, MXFP4")
	const gates = "model.layers.0.mlp.experts.gate_up_proj"
	for name, change := range map[string]func(s *source) []string{
		"no scales": func(s *source) []string {
			delete(s.raw, gates+"_scales")
			return []string{gates + "_scales", "missing"}
		},
		"floats": func(s *source) []string {
			x := s.raw[gates+"_scales"]
			x.dtype = "F8_E8M0"
			s.raw[gates+"_scales"] = x
			return []string{gates + "_scales", "F8_E8M0"}
		},
		"another shape": func(s *source) []string {
			x := s.raw[gates+"_blocks"]
			x.shape = append(slices.Clone(x.shape[:2]), x.shape[3], x.shape[2])
			s.raw[gates+"_blocks"] = x
			return []string{gates + "_blocks", "[6 64 16 2]", "[6 64 2 16]"}
		},
		"both": func(s *source) []string {
			s.tensors[gates] = []int{6, 64, 64}
			return []string{gates}
		},
	} {
		s, _, _ := c.folder(t)
		want := change(s)
		s.weights()
		s.refused(name, want)
	}
	s, _, _ := c.folder(t)
	s.raw[gates+"_scales"].raw[100] = 255
	s.weights()
	m, err := Open(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	err = m.Write(t.Context(), io.Discard, Options{})
	if err == nil || !strings.Contains(err.Error(), "expert 0, row 50") {
		t.Errorf("a scale that is not a number: %v", err)
	}
}

// TestStacksReadWhole: experts of a tensor whose elements are not in order are read together, and found where they are.
func TestStacksReadWhole(t *testing.T) {
	const experts, rows, cols = 3, 2, 4
	b := &builder{weights: &weights{}, used: map[string]bool{}}
	b.everySecond(2, 1, target{name: "up", from: "both", rows: rows, cols: cols, stack: experts})
	x := make([]float32, experts*cols*2*rows)
	for i := range x {
		x[i] = float32(i)
	}
	var whole, parts bytes.Buffer
	one := b.targets[0]
	if err := one.rowsOf(t.Context(), &whole, x, tensor.F32); err != nil {
		t.Fatal(err)
	}
	one.rows /= experts
	for k := range experts {
		if err := one.rowsOf(t.Context(), &parts, x[k*cols*2*rows:][:cols*2*rows], tensor.F32); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(whole.Bytes(), parts.Bytes()) {
		t.Error("together they are other numbers than one by one")
	}
}

// TestFourBitsStay: experts of MXFP4 stay what they are whatever type is asked for, which the others have.
func TestFourBitsStay(t *testing.T) {
	s, _, want := layoutOf(t, "GptOssForCausalLM, MXFP4").folder(t)
	for _, typ := range []string{"f16", "bf16", "q8_0", "q4_k"} {
		got, _ := converted(t, s.dir, Options{Type: typ})
		const name = "blk.1.ffn_up_exps.weight"
		if x := tensorOf(t, got, name); x.Type != gguf.MXFP4 ||
			!bytes.Equal(rawBytes(t, got, x), rawBytes(t, want, tensorOf(t, want, name))) {
			t.Errorf("%s: %v", typ, x.Type)
		}
		if x := tensorOf(t, got, "blk.1.attn_q.weight"); typ != "q4_k" && !strings.EqualFold(x.Type.String(), typ) {
			t.Errorf("attention is %v, want %s", x.Type, typ)
		}
		if n, err := got.Uint32("general.file_type"); n != 38 || err != nil {
			t.Errorf("%s: file type %d, %v", typ, n, err)
		}
	}
}

package convert

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/tensor"
)

// choices are the types of the matrices of 16 layers, layer by layer, in the letters of the table below.
func choices(t *testing.T, m Mixture, model Facts, part string, dims ...uint64) string {
	t.Helper()
	letters := map[gguf.Type]string{gguf.Q8_0: "8", gguf.Q6_K: "6", gguf.Q5_K: "5", gguf.Q4_K: "4",
		gguf.Q5_0: "F", gguf.Q5_1: "f",
		gguf.Q4_0: "o", gguf.Q4_1: "i", gguf.IQ4_NL: "n", gguf.IQ4_XS: "x", gguf.Q3_K: "3", gguf.Q2_K: "2", gguf.IQ3_S: "S",
		gguf.IQ3_XXS: "X", gguf.IQ2_S: "s", gguf.IQ2_XS: "y",
		gguf.F16: "h", gguf.BF16: "b", gguf.F32: "w"}
	var s strings.Builder
	for l := range model.Layers {
		typ := m.Type(fmt.Sprintf("blk.%d.%s.weight", l, part), dims, model)
		if letters[typ] == "" {
			t.Fatalf("%s of %s is %v", part, m.Name, typ)
		}
		s.WriteString(letters[typ])
	}
	return s.String()
}

func all(letter string) string { return strings.Repeat(letter, 16) }

// TestMixtures: 16 layers, rows of 512. With 16 layers the first and last eighths are 2 layers each, and between them
// layers 4, 7, 10 and 13 have more bits.
func TestMixtures(t *testing.T) {
	model := Facts{Architecture: "llama", Layers: 16, Heads: 8, KVHeads: 2}
	for _, c := range []struct {
		name                                string
		base, v, down, output, qkv, outputs string
	}{
		{"Q4_K_M", all("4"), mores("4"), mores("4"), all("4"), mores("4"), "6"},
		{"q4_k_m", all("4"), mores("4"), mores("4"), all("4"), mores("4"), "6"},
		{"Q4_K", all("4"), mores("4"), mores("4"), all("4"), mores("4"), "6"},
		{"Q4_K_S", all("4"), "5555444444444444", "5544444444444444", all("4"), "5555444444444444", "6"},
		{"Q5_K_M", all("5"), mores("5"), mores("5"), all("5"), mores("5"), "6"},
		{"q5_k", all("5"), mores("5"), mores("5"), all("5"), mores("5"), "6"},
		{"Q5_K_S", all("5"), all("5"), all("5"), all("5"), all("5"), "6"},
		{"Q6_K", all("6"), all("6"), all("6"), all("6"), all("6"), "6"},
		{"Q8_0", all("8"), all("8"), all("8"), all("8"), all("8"), "8"},
		{"Q4_0", all("o"), all("o"), all("o"), all("o"), all("o"), "6"},
		{"Q4_1", all("i"), all("i"), all("i"), all("i"), all("i"), "6"},
		{"Q5_0", all("F"), all("F"), all("F"), all("F"), all("F"), "6"},
		{"Q5_1", all("f"), all("f"), all("f"), all("f"), all("f"), "6"},
		{"IQ4_NL", all("n"), all("5"), "55nnnnnnnnnnnnnn", all("n"), all("5"), "6"},
		{"IQ4_XS", all("x"), all("5"), "55xxxxxxxxxxxxxx", all("x"), all("5"), "6"},
		{"F16", all("h"), all("h"), all("h"), all("h"), all("h"), "h"},
		{"bf16", all("b"), all("b"), all("b"), all("b"), all("b"), "b"},
		{"f32", all("w"), all("w"), all("w"), all("w"), all("w"), "w"},
	} {
		m, err := FindMixture(c.name)
		if err != nil {
			t.Fatal(err)
		}
		for part, want := range map[string]string{"attn_q": c.base, "attn_k": c.base, "ffn_up": c.base, "ffn_gate": c.base,
			"attn_v": c.v, "ffn_down": c.down, "ffn_down_exps": c.down, "attn_output": c.output, "attn_qkv": c.qkv} {
			if got := choices(t, m, model, part, 512, 64); got != want {
				t.Errorf("%s %s: %s, want %s", c.name, part, got, want)
			}
		}
		one := Facts{Architecture: "llama", Layers: 1, Heads: 8, KVHeads: 2}
		named := func(name string, model Facts, cols uint64) string {
			return fmt.Sprint(m.Type(name, []uint64{cols, 99}, model))
		}
		untied, tied := named("output.weight", one, 512), named("token_embd.weight", Facts{Tied: true}, 512)
		plain := map[string]string{"6": "Q6_K", "8": "Q8_0", "h": "F16", "b": "BF16", "w": "F32"}[c.outputs]
		if untied != plain || tied != plain {
			t.Errorf("%s: output matrix %s, tied embedding %s, want %s", c.name, untied, tied, plain)
		}
		if got := named("token_embd.weight", one, 512); got == "Q6_K" && c.name != "Q6_K" {
			t.Errorf("%s: embedding beside an output matrix %s", c.name, got)
		}
		if plain == "Q6_K" {
			if got := named("output.weight", one, 96) +
				named("output.weight", Facts{Architecture: "falcon"}, 512); got != "Q8_0Q8_0" {
				t.Errorf("%s: short rows and falcon: %s", c.name, got)
			}
		}
	}
}

// mores is 16 layers of which those with more bits are Q6_K.
func mores(base string) string {
	s := []byte(all(base))
	for _, l := range []int{0, 1, 4, 7, 10, 13, 14, 15} {
		s[l] = '6'
	}
	return string(s)
}

// TestFallbacks: rows of 576 (SmolLM2) and of 40.
func TestFallbacks(t *testing.T) {
	model := Facts{Architecture: "llama", Layers: 1, Heads: 9, KVHeads: 3}
	for name, want := range map[string]string{
		"Q4_K_M": "Q5_0 Q8_0 F16", "Q4_K_S": "Q5_0 Q5_1 F16", "Q5_K_M": "Q5_1 Q8_0 F16", "Q5_K_S": "Q5_1 Q5_1 F16",
		"Q6_K": "Q8_0 Q8_0 F16", "Q8_0": "Q8_0 Q8_0 F16", "Q4_0": "Q4_0 Q4_0 F16", "IQ4_NL": "IQ4_NL IQ4_NL F16",
		"IQ4_XS": "IQ4_NL IQ4_NL F16",
		"F32":    "F32 F32 F32", "BF16": "BF16 BF16 BF16"} {
		m, err := FindMixture(name)
		if err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprint(m.Type("blk.0.attn_q.weight", []uint64{576, 576}, model), " ",
			m.Type("blk.0.attn_v.weight", []uint64{576, 192}, model), " ",
			m.Type("blk.0.attn_q.weight", []uint64{40, 576}, model))
		if got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// TestEightExperts: models like Mixtral have attn_k and attn_v in Q8_0, and attn_output in Q5_K in the smaller
// mixtures.
func TestEightExperts(t *testing.T) {
	model := Facts{Architecture: "llama", Layers: 16, Heads: 32, KVHeads: 8, Experts: 8}
	for name, want := range map[string]string{
		"Q4_K_M": all("5"), "Q4_K_S": all("5"), "IQ4_NL": all("5"), "IQ4_XS": all("5"), "Q5_K_M": all("5"), "Q6_K": all("6"),
		"Q4_0": all("o"), "Q3_K_L": all("3"), "Q3_K_M": all("5"), "IQ3_M": all("5")} {
		m, err := FindMixture(name)
		if err != nil {
			t.Fatal(err)
		}
		if v, k := choices(t, m, model, "attn_v", 512, 64),
			choices(t, m, model, "attn_k", 512, 64); v != all("8") || k != all("8") {
			t.Errorf("%s: attn_v %s, attn_k %s", name, v, k)
		}
		if got := choices(t, m, model, "attn_output", 512, 64); got != want {
			t.Errorf("%s: attn_output %s, want %s", name, got, want)
		}
		if got := choices(t, m, model, "ffn_down_exps", 512, 64); name == "IQ3_M" && got != "44SS4SS4SS4SS444" {
			t.Errorf("%s: ffn_down %s", name, got)
		}
	}
}

// TestFullPrecision: what is not a matrix, or a small one that matters, stays in F32, and in a model's file as it is.
func TestFullPrecision(t *testing.T) {
	m, err := FindMixture("q4_0")
	if err != nil {
		t.Fatal(err)
	}
	for name, dims := range map[string][]uint64{
		"blk.0.attn_q.bias": {64}, "output_norm.weight": {64}, "blk.0.ffn_gate_inp.weight": {64, 8},
		"position_embd.weight": {64, 100}, "blk.0.ssm_conv1d.weight": {64, 4}, "blk.3.shortconv.conv.weight": {64, 3},
		"per_layer_model_proj.weight": {64, 64}, "blk.0.attn_k_norm.weight": {64, 2},
		"blk.0.altup_router.weight": {64, 4}, "altup_proj.weight": {64, 64, 3}, "blk.0.laurel_l.weight": {64, 32},
		"blk.0.time_mix_w1.weight": {64, 32}, "blk.0.time_mix_lerp_fused.weight": {64, 1, 1, 6},
		"blk.0.channel_mix_lerp_k.weight": {64, 1, 1}, "cls.output.weight": {64, 1},
		"blk.0.time_mix_first.weight": {64, 40}, "blk.0.time_mix_decay_w1.weight": {64, 64},
		"blk.0.ffn_gate_tid2eid.weight": {8, 256}, "blk.0.indexer.k_proj.weight": {64, 32},
		"v.patch_embd.weight": {32, 32, 3, 64}, "v.blk.0.rel_pos.weight": {64, 27}} {
		if got := m.Type(name, dims, Facts{}); got != gguf.F32 {
			t.Errorf("%s: %v", name, got)
		}
		if got := m.Requantized(name, dims, gguf.F16, Facts{}); got != gguf.F16 {
			t.Errorf("%s: %v of f16", name, got)
		}
	}
	pure, err := PureMixture("q4_0")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][2]gguf.Type{"blk.0.ffn_up_exps.weight": {gguf.Q4_0, gguf.Q4_0},
		"blk.0.time_mix_value.weight": {gguf.Q4_0, gguf.Q4_0}, "blk.0.laurel_l.weight": {gguf.F32, gguf.Q4_0},
		"blk.0.altup_router.weight": {gguf.F32, gguf.F32}, "blk.0.channel_mix_lerp_k.weight": {gguf.F32, gguf.F32}} {
		dims := []uint64{64, 32, 8}
		if got := [2]gguf.Type{m.Type(name, dims, Facts{}), pure.Type(name, dims, Facts{})}; got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

// TestLargeModels: attn_v of a model of 70B parameters has no fewer bits than Q5_K, of one with as many heads of keys
// the usual ones. What differs by layer counts as in the first.
func TestLargeModels(t *testing.T) {
	for name, want := range map[string]string{"q4_k_m": "Q5_K Q4_K", "q3_k_s": "Q5_K Q3_K", "q2_k": "Q5_K Q3_K",
		"iq3_s": "Q5_K IQ3_S", "q5_k_m": "Q5_K Q5_K", "iq2_m": "Q4_K IQ3_S", "q4_0": "Q4_0 Q4_0"} {
		m, err := FindMixture(name)
		if err != nil {
			t.Fatal(err)
		}
		of := func(kvHeads int) gguf.Type { // of layer 40, which has no more bits than most
			return m.Type("blk.40.attn_v.weight", []uint64{512, 64},
				Facts{Architecture: "llama", Layers: 80, Heads: 64, KVHeads: kvHeads, Importance: true})
		}
		if got := fmt.Sprint(of(8), " ", of(64)); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	var b bytes.Buffer
	if err := gguf.Write(&b, []gguf.KV{{Key: "general.architecture", Value: "deci"},
		{Key: "deci.block_count", Value: uint32(80)}, {Key: "deci.attention.head_count", Value: []int32{64, 0}},
		{Key: "deci.attention.head_count_kv", Value: []uint32{8, 0}}}, nil); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(bytes.NewReader(b.Bytes()), int64(b.Len()), "deci")
	if err != nil {
		t.Fatal(err)
	}
	if got := FactsOf(f); got.Heads != 64 || got.KVHeads != 8 || !got.large() {
		t.Errorf("%+v", got)
	}
}

func TestPure(t *testing.T) {
	files := map[string]uint32{"Q4_K": 14, "Q5_K": 16, "Q6_K": 18, "IQ4_NL": 25, "IQ4_XS": 30, "Q8_0": 7}
	for _, typ := range tensor.Encodable() {
		m, err := PureMixture(typ.String())
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"output.weight", "blk.0.attn_v.weight", "blk.0.ffn_down.weight"} {
			if got := m.Type(name, []uint64{512, 64}, Facts{Layers: 8, Experts: 8}); !strings.EqualFold(
				got.String(), typ.String()) {
				t.Errorf("%v: %s is %v", typ, name, got)
			}
		}
		if want, ok := files[m.Name]; ok && m.FileType != want {
			t.Errorf("%v: file type %d, want %d", typ, m.FileType, want)
		}
	}
	for _, name := range []string{"iq1_s", "Q4_K_M", "mxfp4", ""} {
		if _, err := PureMixture(name); err == nil {
			t.Errorf("%q is a type to write", name)
		}
	}
	for _, name := range []string{"iq1_s", "Q3_K_X", "mxfp4", ""} {
		if _, err := FindMixture(name); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", name)) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestSmallMixtures: those below 4 bits, of 16 layers, with and without an importance matrix, as llama.cpp's rules say.
func TestSmallMixtures(t *testing.T) {
	model := Facts{Architecture: "llama", Layers: 16, Heads: 8, KVHeads: 4, Importance: true}
	first := func(a, b string) string { return a + a + all(b)[2:] }
	for _, c := range []struct{ name, q, k, v, down, up, output, embedding, out string }{
		{"Q3_K_L", "3", "3", all("5"), all("5"), all("3"), "5", "Q3_K", "Q6_K"},
		{"Q3_K_M", "3", "3", first("5", "4"), "5444444444444444", all("3"), "4", "Q3_K", "Q6_K"},
		{"Q3_K_S", "3", "3", all("3"), all("3"), all("3"), "3", "Q3_K", "Q6_K"},
		{"Q2_K", "2", "2", all("3"), all("3"), all("2"), "3", "Q2_K", "Q6_K"},
		{"Q2_K_S", "2", "2", all("2"), first("4", "2"), all("2"), "2", "Q2_K", "Q6_K"},
		{"IQ3_M", "S", "S", all("4"), first("4", "S"), all("S"), "4", "IQ3_S", "Q6_K"},
		{"IQ3_S", "S", "S", all("S"), all("S"), all("S"), "S", "IQ3_S", "Q6_K"},
		{"IQ3_XS", "X", "X", all("S"), all("S"), "SSXXXXXXXXXXXXSS", "S", "IQ3_S", "Q6_K"},
		{"IQ3_XXS", "s", "s", all("X"), all("X"), all("X"), "S", "IQ3_S", "Q5_K"},
		{"IQ2_M", "s", "s", all("S"), first("S", "s"), all("s"), "S", "IQ3_S", "Q5_K"},
		{"IQ2_S", "y", "y", all("S"), first("S", "y"), all("y"), "S", "IQ3_S", "Q5_K"},
		{"IQ2_XS", "y", "y", all("2"), first("2", "y"), all("y"), "y", "Q2_K", "Q5_K"},
	} {
		m, err := FindMixture(c.name)
		if err != nil {
			t.Fatal(err)
		}
		for part, want := range map[string]string{"attn_q": all(c.q), "attn_k": all(c.k), "attn_v": c.v, "attn_qkv": c.v,
			"ffn_down_exps": c.down, "ffn_up": c.up, "ffn_gate_exps": c.up, "attn_output": all(c.output)} {
			if got := choices(t, m, model, part, 512, 64); got != want {
				t.Errorf("%s %s: %s, want %s", c.name, part, got, want)
			}
		}
		if got := m.Type("token_embd.weight", []uint64{512, 99}, model).String(); got != c.embedding {
			t.Errorf("%s: embedding %s, want %s", c.name, got, c.embedding)
		}
		if got := m.Type("output.weight", []uint64{512, 99}, model).String(); got != c.out {
			t.Errorf("%s: output matrix %s, want %s", c.name, got, c.out)
		}
	}
	model.Importance = false
	for name, want := range map[string]string{"IQ3_XXS": first("4", "3"), "IQ4_XS": first("5", "x"), "IQ3_S": all("S")} {
		m, _ := FindMixture(name)
		if got := choices(t, m, model, "ffn_down", 512, 64); got != want {
			t.Errorf("%s without an importance matrix: ffn_down %s, want %s", name, got, want)
		}
	}
}

// ofNames is a file with matrices of these names, and keys.
func ofNames(t *testing.T, kvs []gguf.KV, names ...string) *gguf.File {
	t.Helper()
	var list []gguf.TensorSource
	for _, name := range names {
		list = append(list, gguf.TensorSource{Name: name, Type: gguf.Q4_0, Dims: []uint64{256, 2},
			Write: func(w io.Writer) error {
				_, err := w.Write(make([]byte, 2*256/32*18))
				return err
			}})
	}
	var b bytes.Buffer
	if err := gguf.Write(&b, kvs, list); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(bytes.NewReader(b.Bytes()), int64(b.Len()), "names")
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestGivenTypesMoveNoPlace: a matrix whose type is given for itself is passed over where llama.cpp counts those of its
// part, but for how many there are.
func TestGivenTypesMoveNoPlace(t *testing.T) {
	m, err := FindMixture("q4_k_m")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range 8 {
		names = append(names, fmt.Sprintf("blk.%d.attn_v.weight", i))
	}
	f := ofNames(t, []gguf.KV{{Key: "general.architecture", Value: "llama"}, {Key: "llama.block_count", Value: uint32(8)}},
		names...)
	for pattern, want := range map[string]string{
		"": "64464466", "^blk.0.attn_v": "86446446", "^blk.3.attn_v": "64486446",
	} {
		o := Quantizing{Tensors: []TensorChoice{{regexp.MustCompile(pattern), "q8_0"}}}
		if pattern == "" {
			o = Quantizing{}
		}
		q, err := QuantizeBy(f, m, o)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, typ := range q.types {
			got += typ.String()[1:2]
		}
		if got != want {
			t.Errorf("%s: %s, want %s", pattern, got, want)
		}
	}
}

// TestPlacesAreCounted: llama.cpp's rules go by how many matrices of a part come before, in its order, and not by the
// number of the block: of a hybrid, whose attention is in every fourth block, and of an encoder and a decoder.
func TestPlacesAreCounted(t *testing.T) {
	m, err := FindMixture("q4_k_m")
	if err != nil {
		t.Fatal(err)
	}
	check := func(f *gguf.File, want map[string]gguf.Type) {
		t.Helper()
		facts := FactsOf(f)
		for name, typ := range want {
			if got := m.Type(name, []uint64{256, 2}, facts); got != typ {
				t.Errorf("%s is %v, want %v", name, got, typ)
			}
		}
	}
	var names []string
	for i := range 16 {
		names = append(names, fmt.Sprintf("blk.%d.ffn_down.weight", i))
		if i%4 == 3 {
			names = append(names, fmt.Sprintf("blk.%d.attn_v.weight", i))
		}
	}
	check(ofNames(t, []gguf.KV{{Key: "general.architecture", Value: "qwen3next"},
		{Key: "qwen3next.block_count", Value: uint32(16)}}, names...), map[string]gguf.Type{
		"blk.3.attn_v.weight": gguf.Q4_K, "blk.7.attn_v.weight": gguf.Q4_K, "blk.11.attn_v.weight": gguf.Q6_K,
		"blk.15.attn_v.weight": gguf.Q6_K, "blk.3.ffn_down.weight": gguf.Q4_K, "blk.10.ffn_down.weight": gguf.Q6_K})
	names = nil
	for i := range 2 {
		for _, name := range []string{"enc.blk.%d.attn_v.weight", "enc.blk.%d.ffn_down.weight", "dec.blk.%d.attn_v.weight",
			"dec.blk.%d.cross_attn_v.weight", "dec.blk.%d.ffn_down.weight"} {
			names = append(names, fmt.Sprintf(name, i))
		}
	}
	check(ofNames(t, []gguf.KV{{Key: "general.architecture", Value: "t5"}, {Key: "t5.block_count", Value: uint32(2)}},
		names...), map[string]gguf.Type{
		"dec.blk.0.attn_v.weight": gguf.Q4_K, "dec.blk.0.cross_attn_v.weight": gguf.Q4_K,
		"dec.blk.1.attn_v.weight": gguf.Q6_K, "dec.blk.1.cross_attn_v.weight": gguf.Q4_K,
		"enc.blk.0.attn_v.weight": gguf.Q4_K, "enc.blk.1.attn_v.weight": gguf.Q6_K,
		"dec.blk.0.ffn_down.weight": gguf.Q4_K, "dec.blk.1.ffn_down.weight": gguf.Q6_K,
		"enc.blk.0.ffn_down.weight": gguf.Q6_K})
	// Of experts the number of the block counts, whatever the blocks before are made of.
	check(ofNames(t, []gguf.KV{{Key: "general.architecture", Value: "deepseek2"},
		{Key: "deepseek2.block_count", Value: uint32(8)}, {Key: "deepseek2.expert_count", Value: uint32(64)}},
		"blk.0.ffn_down.weight", "blk.1.ffn_down_exps.weight", "blk.1.ffn_down_shexp.weight", "blk.2.ffn_down_exps.weight",
		"blk.0.attn_kv_b.weight", "blk.1.attn_kv_b.weight"), map[string]gguf.Type{
		"blk.0.ffn_down.weight": gguf.Q6_K, "blk.1.ffn_down_exps.weight": gguf.Q4_K,
		"blk.1.ffn_down_shexp.weight": gguf.Q4_K, "blk.2.ffn_down_exps.weight": gguf.Q4_K,
		"blk.0.attn_kv_b.weight": gguf.Q4_K, "blk.1.attn_kv_b.weight": gguf.Q6_K})
	// Without a file the numbers of the blocks stand for the places.
	if got := m.Type("dec.blk.5.attn_v.weight", []uint64{256, 2}, Facts{Layers: 16}); got != gguf.Q4_K {
		t.Errorf("block 5 of a decoder: %v", got)
	}
}

// TestFalcon: Falcon's models have rules of their own.
func TestFalcon(t *testing.T) {
	model := Facts{Architecture: "falcon", Layers: 16, Heads: 71, KVHeads: 1, Importance: true}
	for name, want := range map[string][3]string{ // attn_qkv, ffn_down, attn_output
		"Q5_K_M": {mores("5"), mores("5"), all("5")},
		"Q4_K_M": {mores("4"), "6544544544544555", all("4")},
		"Q4_K_S": {"5555444444444444", all("4"), all("4")},
		"Q3_K_L": {all("5"), all("4"), all("4")},
		"Q3_K_M": {"5544444444444444", "5433433433433444", all("3")},
		"IQ3_M":  {all("4"), "44SSSSSSSSSSSSSS", all("S")},
		"Q2_K":   {all("4"), all("3"), all("2")},
	} {
		m, err := FindMixture(name)
		if err != nil {
			t.Fatal(err)
		}
		got := [3]string{choices(t, m, model, "attn_qkv", 512, 64), choices(t, m, model, "ffn_down", 512, 64),
			choices(t, m, model, "attn_output", 512, 64)}
		if got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}
